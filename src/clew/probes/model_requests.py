"""`clew run --model`, `--nonfinite`: what was asked for, until the program loads torch. If it never does, nor do we."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol

from clew import trouble
from clew.errors import MissingLibraryError, OptionError
from clew.records import Note

ANY_MODEL = "*"


@dataclass
class ModelRequest:
    """One `--model`."""

    name: str
    paths: list[str]
    matched: bool = False


def parse_model(text: str) -> ModelRequest:
    """`net: encoder.*, **.weight.grad`; without a name, of any model."""
    name, colon, rest = text.partition(":")
    if not colon:
        name, rest = ANY_MODEL, text
    paths = [path.strip() for path in rest.split(",") if path.strip()]
    if not paths or not name.strip():
        raise OptionError("bad-option", f"--model {text!r}: paths are needed.", 'Write --model "net: encoder.*, head".')
    return ModelRequest(name.strip(), paths)


class Models(Protocol):
    """Those of the program, once it has torch; see probes/model/unchanged_program.py."""

    def finish(self, error: BaseException | None) -> list[Note]: ...


class ModelsToCome:
    """Looks for models from the moment that the program has loaded torch."""

    def __init__(self, requests: list[ModelRequest], **options: Any) -> None:
        if find_spec("torch") is None:
            what = "clew run --model and --nonfinite trace torch models, and torch is not installed."
            raise MissingLibraryError("missing-library", what, "pip install torch")
        self._requests = requests
        self._options = options
        self._models: Models | None = None

    def install(self) -> None:
        from wrapt import register_post_import_hook

        register_post_import_hook(lambda torch: self._look_for_models(), "torch")

    @trouble.entry_point()
    def _look_for_models(self) -> None:
        from clew.probes.model.unchanged_program import Models

        models = Models(self._requests, **self._options)
        models.install()
        self._models = models

    def finish(self, error: BaseException | None) -> list[Note]:
        """The program is over: nothing is traced any more, and what never came is said."""
        if self._models is not None:
            return self._models.finish(error)
        return [
            Note("never-seen", each.name, f"--model {each.name!r}: no such model; the program did not load torch.")
            for each in self._requests
        ]

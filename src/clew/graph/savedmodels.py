"""A SavedModel folder as an operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clew.errors import GraphError, MissingLibraryError

from . import tensorflow
from .operators import op

_SIGNATURE = "serving_default"


@op
class SavedModel:
    """What `tf.saved_model.save` has written: called as the object that was saved, or else by its signature.

    device   where it is loaded and run: "cpu", "gpu:0"
    feeds    a dictionary is one of the signature's inputs, by their names
    """

    def __init__(self, path: str, device: str | None = None, feeds: bool = False) -> None:
        try:
            import tensorflow as tf
        except ImportError as error:
            what = "a SavedModel needs tensorflow, which is not installed."
            raise MissingLibraryError("missing-library", what, "pip install tensorflow") from error
        if not tf.saved_model.contains_saved_model(path):
            what = f"{path} is no SavedModel: there is no saved_model.pb in it."
            raise GraphError("not-a-saved-model", what, "Give the folder that tf.saved_model.save has written.")
        self.device = device
        self.feeds = feeds
        with tensorflow.placed(device):
            self.model = tf.saved_model.load(path)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        fed = self.feeds and len(args) == 1 and isinstance(args[0], Mapping) and not kwargs
        with tensorflow.placed(self.device):
            if callable(self.model) and not fed:
                return self.model(*args, **kwargs)
            return self._signature()(**self._named(args, kwargs))

    def _place(self, device: Any) -> None:
        """Run it elsewhere from now on."""
        tensorflow.device_named(device)
        self.device = str(device)

    def _named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The inputs of the signature. It knows them by their names alone: in order only one can be given."""
        wanted: dict[str, Any] = self._signature().structured_input_signature[1]
        given = dict(kwargs)
        if len(args) == 1 and isinstance(args[0], Mapping):
            given.update(args[0])
        elif len(args) == len(wanted) == 1:
            given.update(zip(wanted, args, strict=True))
        elif args:
            given.update({f"{len(args)} without a name": None})
        if set(given) != set(wanted):
            there = ", ".join(map(str, given)) or "nothing"
            what = f"the SavedModel takes {', '.join(sorted(wanted))}, and was given {there}."
            raise GraphError("saved-model-inputs", what, "Give every input of its signature, by name.")
        return {name: _tensor(value, wanted[name]) for name, value in given.items()}

    def _signature(self) -> Any:
        signatures = getattr(self.model, "signatures", None)
        if not signatures:
            what = "the SavedModel can neither be called nor has it a signature."
            raise GraphError(
                "not-a-saved-model", what, "Save it with signatures=, or with a `__call__` of tf.function."
            )
        return signatures[_SIGNATURE if _SIGNATURE in signatures else next(iter(signatures))]


def _tensor(value: Any, spec: Any) -> Any:
    import tensorflow as tf

    return value if tf.is_tensor(value) else tf.convert_to_tensor(value, spec.dtype)

"""One stage of a trace and its calls: `stage[0]`, `stage["load"]`, `call.batch`.

Names of functions and fields work both as attributes and as keys; a key always means the recorded name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

from clew.errors import UnknownPartError, nearest
from clew.records import Passage


class Displayed:
    """Shows the same text when printed and in a notebook."""

    def __str__(self) -> str:
        from clew.show.pipeline import text

        return text(self)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from clew.show.pipeline_html import html

        return html(self)


def unknown_part_error(
    message: str, requested: object, valid_names: Sequence[str], *, addition: str = ""
) -> UnknownPartError:
    remedy = nearest(str(requested), valid_names)
    if not remedy.startswith("there is") and valid_names:
        remedy = f"{remedy} There is {', '.join(f'`{name}`' for name in valid_names)}."
    return UnknownPartError("unknown-part-of-trace", f"{message};", f"{remedy} {addition}".strip())


class StageCall(Displayed):
    """One call in a stage: `call.batch` and `call["batch"]` give its input or output of that name."""

    def __init__(self, passage: Passage) -> None:
        self._passage = passage

    @property
    def passage(self) -> Passage:
        """Everything recorded about the call, as plain data."""
        return self._passage

    @property
    def stage(self) -> str:
        return self._passage.stage

    @property
    def function(self) -> str:
        """The qualified name of the function that was called."""
        return self._passage.function

    @property
    def inputs(self) -> dict[str, Any]:
        return dict(self._passage.inputs)

    @property
    def outputs(self) -> dict[str, Any]:
        return dict(self._passage.outputs)

    @property
    def ids(self) -> tuple[Any, ...]:
        """The ids of the items it handled; for a batch in row order."""
        return self._passage.ids

    @property
    def batch_number(self) -> int | None:
        return self._passage.batch

    @property
    def duration(self) -> float | None:
        """Seconds; None if the call had not ended."""
        return None if self._passage.duration is None else self._passage.duration / 1e9

    @property
    def duration_ns(self) -> int | None:
        return self._passage.duration

    @property
    def error(self) -> str | None:
        return self._passage.error

    @property
    def files(self) -> tuple[str, ...]:
        """The files that were opened while it ran."""
        return self._passage.files

    @property
    def lost(self) -> str:
        """Why it is unknown which items the call handled; "" if it is known."""
        return self._passage.lost

    def keys(self) -> list[str]:
        """The names of its inputs and outputs."""
        return list(dict.fromkeys([*self._passage.inputs, *self._passage.outputs]))

    def __getitem__(self, key: str | int) -> Any:
        inputs, outputs = self._passage.inputs, self._passage.outputs
        if isinstance(key, int):
            values = [*inputs.values(), *outputs.values()]
            if not -len(values) <= key < len(values):
                raise unknown_part_error(f"{self.function} has no field {key}", key, self.keys())
            return values[key]
        if key in inputs and key in outputs:
            return inputs[key], outputs[key]
        if key in inputs:
            return inputs[key]
        if key in outputs:
            return outputs[key]
        raise unknown_part_error(
            f"{self.function} in stage `{self.stage}` has no `{key}`", key, self.keys(), addition=self._why_incomplete()
        )

    def _why_incomplete(self) -> str:
        if self._passage.error is not None:
            return f"It raised {self._passage.error}, so it gave nothing."
        return "" if self._passage.duration is not None else "It had not ended."

    def __getattribute__(self, name: str) -> Any:
        # A user's field named `stage` or `inputs` takes precedence over the attribute of this class.
        if name[:1] != "_":
            passage = object.__getattribute__(self, "_passage")
            if name in passage.inputs or name in passage.outputs:
                return object.__getattribute__(self, "__getitem__")(name)
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __contains__(self, key: object) -> bool:
        return key in self._passage.inputs or key in self._passage.outputs

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.keys()]

    def _ipython_key_completions_(self) -> list[str]:
        return self.keys()


class Stage(Displayed, Sequence[StageCall]):
    """The calls of one stage, in the order they began. `stage["load"]` is the list of the calls of `load`."""

    def __init__(self, name: str, calls: Sequence[StageCall]) -> None:
        self._name = name
        self._calls = list(calls)

    @property
    def name(self) -> str:
        return self._name

    @property
    def functions(self) -> list[str]:
        """The functions called in this stage, in order of first call."""
        return list(dict.fromkeys(call._passage.function for call in self._calls))

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[StageCall]:
        return iter(self._calls)

    @overload
    def __getitem__(self, key: int) -> StageCall: ...
    @overload
    def __getitem__(self, key: slice) -> Stage: ...
    @overload
    def __getitem__(self, key: str) -> list[StageCall]: ...

    def __getitem__(self, key: int | slice | str) -> StageCall | Stage | list[StageCall]:
        if isinstance(key, slice):
            return Stage(self._name, self._calls[key])
        if isinstance(key, int):
            if not -len(self) <= key < len(self):
                calls = f"{len(self)} call{'' if len(self) == 1 else 's'}"
                raise unknown_part_error(
                    f"stage `{self._name}` has {calls}, and none numbered {key}", key, self.functions
                )
            return self._calls[key]
        calls_of_function = [call for call in self._calls if call._passage.function == key]
        calls_of_function = calls_of_function or [
            call for call in self._calls if call._passage.function.rpartition(".")[2] == key
        ]
        if not calls_of_function:
            raise unknown_part_error(f"stage `{self._name}` has no call of `{key}`", key, self.functions)
        return calls_of_function

    def __getattr__(self, name: str) -> list[StageCall]:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *filter(str.isidentifier, self.functions)]

    def _ipython_key_completions_(self) -> list[str]:
        return self.functions

"""What `clew.compat.hyrax` gives to read: calls, the stages they belong to, and values as they were."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from clew import trouble
from clew.reading.stage import unknown_part_error
from clew.show.pipeline_values import value_rows
from clew.text.brief import printable
from clew.text.values import value_line
from clew.values import AUTO, SCALAR_IDS, capture, decode

RESULT = "return_value"  # what a result is called that nobody has named
_COPIED = replace(AUTO, light=True)  # objects of the user's classes are not looked into


@dataclass
class TraceDef:
    """What is captured of the calls of a function, and under which names.

    params_to_capture leads from a name to a position among the arguments, `self` included; None or {}: all of them.
    """

    disp_name: str
    func_name: str
    params_to_capture: dict[str, int] | None
    result_name: str | None
    stage_name: str


class TracePrintable(ABC):
    """Something that is printed, and whose parts are items and attributes alike."""

    def __repr__(self) -> str:
        return str(self)

    def __getattr__(self, attr: str) -> Any:
        if attr.startswith("_"):  # Python's own questions, as those of copy and pickle
            raise AttributeError(attr)
        return self[attr]

    def __dir__(self) -> list[str]:
        return self._valid_keys()

    def _ipython_key_completions_(self) -> list[str]:
        return self._valid_keys()

    @abstractmethod
    def __str__(self) -> str: ...

    @abstractmethod
    def __getitem__(self, key: Any) -> Any: ...

    @abstractmethod
    def _valid_keys(self) -> list[str]: ...


@dataclass(eq=False, repr=False)
class TraceCall(TracePrintable):
    """One call: `call.batch` and `call["batch"]` are what it was given or gave under that name."""

    disp_name: str
    func_name: str
    params: dict[str, Any]
    retval: dict[str, Any]
    duration_ns: float | None = None  # None: it has not ended
    error: str | None = None  # the exception it ended with
    result_name: str = ""
    devices: dict[str, str] = field(default_factory=dict)  # where tensors were that are copied to the CPU

    def __getitem__(self, key: str | int) -> Any:
        found = [part[key] for part in self._parts() if key in part]
        if found:
            return found[0] if len(found) == 1 else tuple(found)
        values = [value for part in self._parts() for value in part.values()]
        index = _index(key)
        if index is not None and -len(values) <= index < len(values):
            return values[index]
        also = f"It raised {self.error}, so it gave nothing." if self.__dict__.get("error") else ""
        raise unknown_part_error(
            f"{self.__dict__.get('disp_name')} has no `{key}`", key, self._valid_keys(), addition=also
        )

    def _parts(self) -> tuple[dict[Any, Any], dict[Any, Any]]:
        own = self.__dict__  # half made while it is unpickled
        return own.get("params", {}), own.get("retval", {})

    def _valid_keys(self) -> list[str]:
        return list(dict.fromkeys(key for part in self._parts() for key in part))

    def __str__(self) -> str:
        results = ", ".join(self.retval) or self.result_name or "nothing"
        head = f"{self.disp_name}({', '.join(self.params)}) -> {results} {self._ending()}"
        return "\n".join([printable(head), "inputs:", *self._lines(self.params), "outputs:", *self._lines(self.retval)])

    def _ending(self) -> str:
        if self.error is not None:
            return f"raised {self.error}"
        return "has not ended" if self.duration_ns is None else f"duration={self.duration_ns / 1e6:.3g} ms"

    def _lines(self, values: dict[str, Any]) -> Iterator[str]:
        for name, value in values.items():
            head, *rest = value_rows(name, value, 1, self.devices)
            yield "\t" + head.line.text.rstrip().replace(f"{printable(name)}: ", f"{printable(name)} = ", 1)
            for row in rest:
                yield "\t" * row.depth + row.line.text.rstrip()

    def _repr_value(self, param_value: Any) -> str:
        return value_line(param_value)


class TraceStage(TracePrintable):
    """The calls of a stage in the order they began: `stage[0]`, `stage[0:2]`, `stage["DataProvider__collate"]`."""

    def __init__(self) -> None:
        self.calls: list[TraceCall] = []
        self.func_dict: dict[str, list[TraceCall]] = {}

    def append(self, call_record: TraceCall) -> None:
        self.calls.append(call_record)
        self.func_dict.setdefault(call_record.disp_name, []).append(call_record)

    def __getitem__(self, idx_or_func_name: Any) -> Any:
        key, calls = idx_or_func_name, self.__dict__.get("calls", [])
        if isinstance(key, slice):
            part = TraceStage()
            for call in calls[key]:
                part.append(call)
            return part
        if isinstance(key, str):
            found = [call for call in calls if call.disp_name == key]
            found = found or [call for call in calls if call.func_name == key]
            if found:
                return found
        index = _index(key)
        if index is not None and -len(calls) <= index < len(calls):
            return calls[index]
        what = f"the stage has {len(calls)} call{'' if len(calls) == 1 else 's'}, and none that is `{key}`"
        raise unknown_part_error(what, key, self._valid_keys())

    def _valid_keys(self) -> list[str]:
        return list(self.__dict__.get("func_dict", {}))

    def __len__(self) -> int:
        return len(self.calls)

    def __iter__(self) -> Iterator[TraceCall]:
        return iter(self.calls)

    def __str__(self) -> str:
        return f"[{self._repr_calls()}\n]" if self.calls else "[]"

    def _repr_calls(self) -> str:
        return "\n".join(indented(f"\n{call}") for call in self.calls)


def _index(key: Any) -> int | None:
    """The number that a key is, or that its text says, as `int` has it: `stage[0]`, `stage["0"]`."""
    try:
        return int(key)
    except (TypeError, ValueError, OverflowError):
        return None


def indented(text: str) -> str:
    return text.replace("\n", "\n\t")


def copied(values: dict[str, Any]) -> dict[str, Any]:
    """Values as they are now. What clew cannot copy, an object of a class of the user's, is the object itself."""
    seen: dict[int, Any] = {}
    return {name: _copy(value, seen) for name, value in values.items()}


def _copy(value: Any, seen: dict[int, Any]) -> Any:
    kind = type(value)
    if id(kind) in SCALAR_IDS:
        return value
    if id(value) not in seen:
        seen[id(value)] = value  # what it stands for inside itself
        try:
            if kind is dict:
                seen[id(value)] = {key: _copy(item, seen) for key, item in value.items()}
            elif kind is list:
                seen[id(value)] = [_copy(item, seen) for item in value]
            elif issubclass(kind, tuple):  # a named one too; its items are its own, whatever its class says
                seen[id(value)] = tuple.__new__(kind, [_copy(item, seen) for item in tuple.__iter__(value)])
            else:
                found = decode(capture(value, _COPIED).value)
                seen[id(value)] = found if type(found) is kind else value
        except Exception as error:  # as time.struct_time, or lists in lists beyond all depth
            trouble.report(f"hyrax-copy:{kind.__qualname__}", f"a {kind.__qualname__} is shown as it is now", "", error)
    return seen[id(value)]

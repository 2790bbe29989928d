"""What a tracer has seen: by path, the values, and for each its iteration, rank and mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from clew.errors import UnknownNameError, nearest
from clew.records import NotKept, Value


class Result:
    """The values of one path, in the order they were seen. Callbacks may have changed the lists."""

    def __init__(self, name: str, values: list[Any], iterations: list[Any], ranks: list[Any], modes: list[str]) -> None:
        self.name = name
        self.values = values
        self.iterations = iterations
        self.ranks = ranks
        self.modes = modes

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __getitem__(self, place: Any) -> Any:
        return self.values[place]

    def stack(self) -> Any:
        """All values as one tensor, along a new first axis; they must have one shape."""
        from .stacking import stack_tensors

        return stack_tensors(self.values)

    def pad(self, fill: float = 0) -> Any:
        """The same for values of different sizes: each is padded to the largest."""
        from .stacking import pad_tensors

        return pad_tensors(self.values, fill)

    def at(self, iteration: int) -> list[Any]:
        """The values of one iteration."""
        pairs = zip(self.values, self.iterations, strict=False)
        return [value for value, when in pairs if when == iteration]

    def __repr__(self) -> str:
        count = f"{len(self.values)} value{'' if len(self.values) == 1 else 's'}"
        return f"<{self.name}: {count}{_shown(self.values)}>"


def _shown(values: list[Any]) -> str:
    last = values[-1] if values else None
    if isinstance(last, NotKept):
        return f", the last {last.summary.dtype} {last.summary.shape}, not kept"
    shape = getattr(last, "shape", None)
    return (
        "" if last is None or shape is None else f", the last {str(last.dtype).removeprefix('torch.')} {tuple(shape)}"
    )


class Results(Mapping[str, Result]):
    """By path. A path with `*` gives all that match, as a dictionary."""

    def __init__(self, names: Callable[[], list[str]], get: Callable[[str], Result]) -> None:
        self._names = names
        self._get = get

    def __getitem__(self, name: str) -> Any:
        names = self._names()
        if name in names:
            return self._get(name)
        matching = [each for each in names if "*" in name and fnmatchcase(each, name)]
        if matching:
            return {each: self._get(each) for each in matching}
        raise UnknownNameError("unknown-name", f"Nothing was seen at `{name}`;", nearest(name, names))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def __repr__(self) -> str:
        return "\n".join(repr(self._get(name)) for name in self._names()) or "<nothing seen yet>"


def as_seen(copy: Any) -> Any:
    """A copy as people get it: a written form is read back."""
    if type(copy) is not Value:
        return copy
    from clew.values import decode

    return decode(copy)

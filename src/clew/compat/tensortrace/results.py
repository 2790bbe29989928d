"""What was traced, as TensorTracer gives it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from clew.probes.model.results import Results


@dataclass
class LocalVariableResult:
    """The values of a path that were not gathered yet. It unpacks as (iterations, values)."""

    iterations: Any = field(default_factory=list)
    values: Any = field(default_factory=list)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.iterations, self.values))

    def __getitem__(self, place: Any) -> Any:
        return (self.iterations, self.values)[place]


@dataclass
class GlobalVariableResult:
    """The values of a path. It unpacks as (iterations, ranks, values)."""

    iterations: Any = field(default_factory=list)
    ranks: Any = field(default_factory=list)
    values: Any = field(default_factory=list)
    modes: list[str] = field(default_factory=list, repr=False, compare=False)  # clew's: train or eval

    def __iter__(self) -> Iterator[Any]:
        return iter((self.iterations, self.ranks, self.values))

    def __getitem__(self, place: Any) -> Any:
        return (self.iterations, self.ranks, self.values)[place]

    def __len__(self) -> int:
        return 3


class GlobalResults(Mapping[str, Any]):
    """By path. A path at which nothing was seen has an empty result; one with `*` gives all that match."""

    def __init__(self, results: Results, names: Callable[[], list[str]]) -> None:
        self._results = results
        self._names = names

    def __getitem__(self, name: str) -> Any:
        if name in self._names():
            result = self._results[name]
            return GlobalVariableResult(result.iterations, result.ranks, result.values, result.modes)
        if "*" in name and name not in self._names():
            return {each: self[each] for each in self._results[name]}
        return GlobalVariableResult()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def __repr__(self) -> str:
        return repr(dict(self))

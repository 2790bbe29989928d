"""The calls of a run as a tree: all of them, or selected ones with the calls that led to them."""

from __future__ import annotations

import math
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from clew.errors import OptionError, UnknownNameError, nearest
from clew.reading.call import Call, Calls
from clew.reading.function_patterns import matcher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clew.reading.calls import ShardCalls
    from clew.reading.view import View

    Mask = npt.NDArray[np.bool_]

LINES = 200
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
_TIME = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)\s*([a-zµ]*)\s*\Z", re.IGNORECASE)


class Tree:
    """Who called whom. `print(tree)` shows it; a long tree is shortened, with a note."""

    def __init__(
        self,
        view: View,
        *,
        function: str | None = None,
        name: str | None = None,
        errors: bool = False,
        slow: float | str | None = None,
    ) -> None:
        self._view = view
        self._function = function
        self._name = name
        self._errors = bool(errors)
        self._slow = None if slow is None else seconds(slow)
        self._check_filters()

    @property
    def filtered(self) -> bool:
        """Whether only some of the calls are selected."""
        return self._function is not None or self._name is not None or self._errors or self._slow is not None

    @property
    def roots(self) -> Calls:
        """The calls that no recorded call made, in the order they began."""
        roots = self._view.calls.roots()
        return Calls(self._view, roots[self._shown[roots]] if self.filtered else roots)

    def __len__(self) -> int:
        """The number of calls shown."""
        return int(self._shown.sum()) if self.filtered else len(self._view.calls)

    # ---- what is shown of a call

    def events(self, call: Call) -> Sequence[Any]:
        """The changes in a call and the calls it made, in order; with a filter, only the selected ones."""
        events = call.events
        return [event for event in events if self._is_shown(event, call)] if self.filtered else events

    def _is_shown(self, event: Any, call: Call) -> bool:
        if isinstance(event, Call):
            return bool(self._shown[event._place])
        return self.is_selected(call) and (self._name is None or event.name in self._bare_names)

    @cached_property
    def _bare_names(self) -> set[str | None]:
        """The bare names of the selected changes."""
        naming = self._view.table.naming
        return {self._name, *(naming.origins[label].name for label in naming.matching(self._name or ""))}

    def is_selected(self, call: Call) -> bool:
        """Whether the call itself matches the filter, rather than only leading to one that does."""
        return not self.filtered or bool(self._selected[call._place])

    # ---- which calls are selected

    def _check_filters(self) -> None:
        """Raise an error with the nearest match for an unknown function or name, rather than show an empty tree."""
        if self._function is not None:
            fits = matcher(self._function)
            functions = [function for shard in self._view.calls.shards for function in shard.reader.functions.values()]
            if not any(map(fits, functions)):
                message = f"No function `{self._function}` was called in {self._view.path.name};"
                names = dict.fromkeys(function.name for function in functions)
                bare_names = dict.fromkeys(name.rpartition(".")[2] for name in names)
                raise UnknownNameError("unknown-name", message, nearest(self._function, {**names, **bare_names}))
        if self._name is not None:
            table = self._view.table
            inputs = [s.name for shard in table.shards for s in shard.sites.values() if s.role == "input"]
            if self._name not in inputs and not table.naming.matching(self._name) and not self._selected.any():
                message = f"No `{self._name}` was recorded in {self._view.path.name};"
                names = dict.fromkeys([*table.naming.origins, *inputs])
                raise UnknownNameError("unknown-name", message, nearest(self._name, names))

    @cached_property
    def _selected(self) -> Mask:
        """By place: whether the call matches all filters."""
        fits = self._for_all_shards(lambda shard: np.ones(shard.count, dtype=np.bool_))
        if self._function is not None:
            fits &= with_descendants(self._for_all_shards(self._calls_of_function), self._view.calls.parents)
        if self._errors or self._slow is not None:
            fits &= self._for_all_shards(self._failed_or_slow)
        return (
            self._for_all_shards(lambda shard: self._calls_with_name(shard, fits)) if self._name is not None else fits
        )

    @cached_property
    def _shown(self) -> Mask:
        """By place: whether the call is selected or led to a selected one."""
        return with_ancestors(self._selected, self._view.calls.parents)

    def _for_all_shards(self, compute: Any) -> Mask:
        return np.concatenate([np.zeros(0, dtype=np.bool_), *map(compute, self._view.calls.shards)])

    def _calls_of_function(self, shard: ShardCalls) -> Mask:
        """The calls of the selected function."""
        assert self._function is not None
        matches = matcher(self._function)
        ids = [id for id, function in shard.reader.functions.items() if matches(function)]
        return np.isin(shard.start("function"), ids)

    def _failed_or_slow(self, shard: ShardCalls) -> Mask:
        """The calls that match the filters `errors` and `slow`."""
        fits = np.zeros(shard.count, dtype=np.bool_)
        ends = shard.ends(shard.start("call"))
        has_end = ends >= 0
        matches = np.ones(int(has_end.sum()), dtype=np.bool_)
        if self._errors:
            matches &= shard.raised()[ends[has_end]]
        if self._slow is not None:
            matches &= shard.finished.time[ends[has_end]] - shard.start("time")[has_end] >= self._slow * 1e9
        fits[has_end] = matches
        return fits

    def _calls_with_name(self, shard: ShardCalls, fits_so_far: Mask) -> Mask:
        """The calls among `fits_so_far` in which the name changed or was an argument."""
        offset = int(self._view.calls.offsets[shard.shard])
        among = fits_so_far[offset : offset + shard.count]
        table = self._view.table
        inputs = [id for id, site in shard.reader.sites.items() if (site.role, site.name) == ("input", self._name)]
        ids = [*table.naming.sites(shard.shard, self._name or ""), *inputs]
        rows = np.isin(table.column(shard.shard, "site"), ids)
        places = shard.places(np.unique(table.column(shard.shard, "call")[rows]))
        fits = np.zeros(shard.count, dtype=np.bool_)
        fits[places[places >= 0]] = True
        # Some probes keep all arguments as one value; these have no rows of their own.
        for local in np.flatnonzero(among & ~fits & (shard.start("args") >= 0)).tolist():
            fits[local] = self._name in Call(self._view, offset + local).args
        return fits & among

    # ---- display

    def text(self, *, full: bool = False, limit: int | None = LINES, ascii: bool = False) -> str:
        """The tree as text, with repetitions folded and at most `limit` lines (None: no limit), or in `full`."""
        from clew.show.tree import tree_text

        return tree_text(self, limit, full=full, ascii=ascii)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from clew.show.notebook import tree_html

        return tree_html(self)


def seconds(time: float | str) -> float:
    """The length of time `0.01`, `"10ms"`, `"2 s"` or `"1.5 min"` in seconds."""
    if isinstance(time, (int, float)) and not isinstance(time, bool) and math.isfinite(time) and time >= 0:
        return float(time)
    match = _TIME.match(time) if isinstance(time, str) else None
    if match is None or match[2].lower() not in _UNITS:
        shown = repr(time) if type(time) in (int, float, str) else f"a {type(time).__name__}"
        remedy = 'Give a number of seconds, or a text such as "10ms", "2s" or "1.5min".'
        raise OptionError("bad-option", f"slow={shown} is not a length of time.", remedy)
    return float(match[1]) * _UNITS[match[2].lower()]


def _steps_up(parents: npt.NDArray[np.int64]) -> Any:
    """Yield the ancestor of every call 1, 2, 4, 8, ... levels up, until all are past the root (an extra last place)."""
    end = len(parents)
    above = np.append(np.where(parents < 0, end, parents), end)
    while (above < end).any():
        yield above
        above = above[above]


def with_descendants(mask: Mask, parents: npt.NDArray[np.int64]) -> Mask:
    """The marked calls and all their descendants."""
    marked = np.append(mask, False)
    for above in _steps_up(parents):
        marked |= marked[above]
    return marked[:-1]


def with_ancestors(mask: Mask, parents: npt.NDArray[np.int64]) -> Mask:
    """The marked calls and all their ancestors."""
    marked = np.append(mask, False)
    for above in _steps_up(parents):
        marked[above[marked]] = True
        marked[-1] = False
    return marked[:-1]

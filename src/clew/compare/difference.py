"""One value that differs: where, in which calls, from what inputs, how, and whether it was made different there."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload

import numpy as np

from clew.compare.arrays import Measure
from clew.compare.comparison import plain, rows_of_call, told_step
from clew.compare.stored import heads
from clew.compare.values import compare_heads, measured, measured_arrays, measured_summaries, sources, text_note
from clew.records import Kept, Kind
from clew.show.text import brief
from clew.store.blobs import DamagedBlobError

if TYPE_CHECKING:
    from clew.compare.comparison import Comparison
    from clew.compare.side import Side
    from clew.history.call import Call

PRODUCER, PROPAGATOR, UNKNOWN = "producer", "propagator", "unknown"
WHAT: Final = {"input": "argument", "output": "result", "value": "change"}
_TEXT: Final = 200  # characters of a value in what is told
_LONGEST_PATH: Final = 32


class Input(NamedTuple):
    """What a call was given, in both runs."""

    name: str
    a: Any
    b: Any
    equal: bool | None  # None: it is only in one of them, or too little of it was kept to say


class Difference:
    """A value that differs between two runs. Everything is looked up when it is asked for."""

    def __init__(self, comparison: Comparison, index: int) -> None:
        self._comparison = comparison
        self.index = index  # among all differences, in the order of time of the first run
        found = comparison.verdict
        self._a, self._b, self._at = int(found.a[index]), int(found.b[index]), int(found.at[index])
        self._pair, self._token = int(found.pair[index]), int(found.token[index])
        self._call_a, self._call_b = int(comparison.calls.a[self._pair]), int(comparison.calls.b[self._pair])

    # ---- where

    @property
    def name(self) -> str:
        """As the first run calls it; `(error)` for an exception."""
        return self._site("a")[0]

    @property
    def name_b(self) -> str:
        return self._site("b")[0]

    @property
    def what(self) -> str:
        """`change`, `argument`, `result` or `exception`."""
        role, name = self._comparison.token_name(self._token)
        return "exception" if name == "(error)" else WHAT[role]

    @property
    def function(self) -> str:
        call = self.call_a
        return "" if call is None else call.function

    @property
    def file(self) -> str:
        return self._site("a")[1]

    @property
    def line(self) -> int:
        return self._site("a")[2]

    @property
    def step(self) -> Any:
        """The step it was at in the first run, or None."""
        return self._comparison.a.step_of(self._at)

    @property
    def ordinal(self) -> tuple[int, int]:
        """Which of how many calls of its function in the first run it was in, from 1."""
        functions = self._comparison.a.function
        same = functions == functions[self._call_a]
        return int(np.count_nonzero(same[: self._call_a + 1])), int(np.count_nonzero(same))

    @property
    def time(self) -> float:
        """Seconds since the first run began."""
        return float(self._comparison.times[self.index] - self._comparison.a.view.start_ns) / 1e9

    @property
    def call_a(self) -> Call | None:
        return self._comparison.a.call_object(self._call_a)

    @property
    def call_b(self) -> Call | None:
        return self._comparison.b.call_object(self._call_b)

    @property
    def held(self) -> str:
        """`a` or `b` if that run had no change there, and held this value from before; else nothing."""
        return ("", "a", "b")[int(self._comparison.verdict.held[self.index])]

    def _side(self, side: str) -> Side:
        return self._comparison.a if side == "a" else self._comparison.b

    def _site(self, side: str) -> tuple[str, str, int]:
        """(name, file, line) of its place in one of the runs."""
        one, row = self._side(side), self._a if side == "a" else self._b
        if row < len(one.table):
            shard, local = one.table.place(row)
            reader = one.table.shards[shard]
            site = reader.sites[int(one.table.column(shard, "site")[local])]
            return site.name, reader.functions[site.function].file, site.line
        call = one.call_object(int(one.call_of(np.array([row]))[0]))
        name = self._comparison.token_name(self._token)[1]
        return (name, call.file, call.line) if call is not None else (name, "", 0)

    # ---- what

    @cached_property
    def a(self) -> Any:
        """The value in the first run, read back; None where only the other run raised an exception."""
        return self._comparison.a.value_of(self._a)

    @cached_property
    def b(self) -> Any:
        """The value in the second run."""
        return self._comparison.b.value_of(self._b)

    @cached_property
    def measure(self) -> Measure:
        """How they differ. Arrays are read from disk for it, piece by piece."""
        comparison = self._comparison
        if self.what == "exception":
            return Measure(note=text_note(self.a, self.b) if self.a is not None and self.b is not None else "")
        rows = np.array([self._a]), np.array([self._b])
        noise = self.noise
        allowed = None if noise is None else noise * comparison.settings.factor
        kinds = int(comparison.a.cells("kind", rows[0])[0]), int(comparison.b.cells("kind", rows[1])[0])
        try:
            if kinds == (Kind.VALUE, Kind.VALUE):
                pair = heads(comparison.a, rows[0])[0], heads(comparison.b, rows[1])[0]
                if Kept.SUMMARY in (pair[0].kept, pair[1].kept) and Kept.OPAQUE not in (pair[0].kept, pair[1].kept):
                    return measured_summaries(*pair)
                arrays = sources(*pair)
                if arrays is not None:
                    return measured_arrays(*arrays, comparison.settings, allowed)
            return measured(self.a, self.b, comparison.settings, allowed)
        except DamagedBlobError as damage:
            return Measure(note=f"damaged on disk: {damage}")

    @property
    def noise(self) -> float | None:
        """How far apart the reference's own runs were at this place up to this moment; None without a reference."""
        return self._comparison.noise_at(self.index)

    @property
    def multiple(self) -> float | None:
        """The largest difference as a multiple of that noise: Inf where the reference repeats exactly."""
        noise = self.noise
        if noise is None:
            return None
        size = float(self._comparison.verdict.magnitude[self.index])
        return float("inf") if noise == 0 else size / noise

    # ---- why

    @cached_property
    def inputs(self) -> list[Input]:
        """What the call was given, as far as that was recorded; of a module in a model, its input."""
        return self._inputs_by_name() if self._is_traced else self._arguments(self._call_a, self._call_b)

    @property
    def _is_traced(self) -> bool:
        functions = self._comparison.a.function
        return bool(self._comparison.a.is_tracer[functions[self._call_a]]) if self._call_a else False

    def _arguments(self, call_a: int, call_b: int) -> list[Input]:
        """Those of a call."""
        comparison = self._comparison
        if not call_a:
            return []
        chosen = [self._inputs_in(comparison.a, call_a), self._inputs_in(comparison.b, call_b)]
        wanted = dict.fromkeys([*chosen[0], *chosen[1]])
        return [self._input(token, chosen[0].get(token), chosen[1].get(token)) for token in wanted]

    def _inputs_by_name(self) -> list[Input]:
        """Of a module: what it was given and its parameters, at this iteration or held since an earlier one."""
        comparison = self._comparison
        own, words = comparison.token_name(self._token)[1], comparison.a.words.tokens
        wanted = [n for n in range(len(words)) if words.name(n)[0] == "value" and feeds(words.name(n)[1], own)]
        found = []
        for token in wanted:
            rows = (
                _last_row(comparison.a, token, self._call_a, self._at),
                _last_row(comparison.b, token, self._call_b, len(comparison.b.table)),
            )
            if rows != (None, None):
                found.append(self._input(token, *rows))
        return found

    @staticmethod
    def _inputs_in(side: Side, call: int) -> dict[int, int]:
        """Token → row of each argument of a call."""
        rows = rows_of_call(side, call)
        words = side.words.tokens
        inputs = [number for number in range(len(words)) if words.name(number)[0] == "input"]
        rows = rows[np.isin(side.token_of(rows), inputs)]
        return dict(zip(side.token_of(rows).tolist(), rows.tolist(), strict=True))

    def _input(self, token: int, a: int | None, b: int | None) -> Input:
        comparison = self._comparison
        equal = None
        if a is not None and b is not None:
            equal = False if comparison.differs(a, b) else True if self._was_compared(a, b) else None
        values = None if a is None else comparison.a.value_of(a), None if b is None else comparison.b.value_of(b)
        return Input(comparison.token_name(token)[1], *values, equal)

    def _was_compared(self, a: int, b: int) -> bool:
        """Whether two rows that were not found to differ were found to be equal; it may be that nobody can say."""
        comparison = self._comparison
        rows = np.array([a]), np.array([b])
        kinds = comparison.a.cells("kind", rows[0])[0], comparison.b.cells("kind", rows[1])[0]
        if kinds != (Kind.VALUE, Kind.VALUE):
            return True
        one, other = heads(comparison.a, rows[0])[0], heads(comparison.b, rows[1])[0]
        if one.kept == other.kept == Kept.FULL:
            return True
        return compare_heads(one, other, comparison.settings, None).compared

    @property
    def role(self) -> str:
        """`producer`: its inputs were equal; `propagator`: something before it differed already; or `unknown`."""
        return self._judged[0]

    @property
    def reason(self) -> str:
        """Why it is taken for that."""
        return self._judged[1]

    @cached_property
    def _judged(self) -> tuple[str, str]:
        if self.what == "argument" or (self._is_traced and _is_input(f".{self.name}", "")):
            return self._judged_argument()
        if self._is_traced and is_parameter(self.name):
            return self._judged_parameter()
        names = ", ".join(f"`{one.name}`" for one in self.inputs if one.equal is False)
        if names:
            return PROPAGATOR, f"its input {names} differs already"
        earlier = self._earlier()
        if earlier is not None:
            return PROPAGATOR, f"`{Difference(self._comparison, earlier).name}` differs before it in the same call"
        if self.inputs:
            lacking = ", ".join(f"`{one.name}`" for one in self.inputs if one.equal is None)
            if lacking:
                return self._judged_without_inputs(f"of its input {lacking} it is not known whether it is the same")
            return self._judged_by_equal_inputs()
        return self._judged_without_inputs()

    def _judged_by_equal_inputs(self) -> tuple[str, str]:
        names = ", ".join(f"`{one.name}`" for one in self.inputs)
        elsewhere = bool((self._comparison.verdict.pair[: self.index] != self._pair).any())
        if self._is_traced and elsewhere and not any(is_parameter(one.name) for one in self.inputs):
            return UNKNOWN, f"its inputs are equal ({names}); its parameters were not recorded, and may differ by now"
        return PRODUCER, f"its inputs are equal: {names}"

    def _judged_argument(self) -> tuple[str, str]:
        """What a call is given, or a model as a whole."""
        comparison = self._comparison
        parent = int(comparison.a.parent[self._call_a])
        if parent > 0 and self._first_beneath(parent) < self.index:
            name = Difference(comparison, self._first_beneath(parent)).name
            return PROPAGATOR, f"`{name}` differs before it in the calling function"
        given = self._given_to_caller(parent)
        if given and all(one.equal for one in given):
            names = ", ".join(f"`{one.name}`" for one in given)
            function = comparison.a.words.functions.name(int(comparison.a.function[parent]))
            return PRODUCER, f"it is an argument, made in the calling {function}, whose inputs are equal: {names}"
        if self.index:
            return UNKNOWN, "it is an argument; what made it was not recorded, and other values differ before it"
        return UNKNOWN, "it is an argument; what made it was not recorded"

    def _judged_parameter(self) -> tuple[str, str]:
        """What a parameter holds was made by the iterations before; in the first one, before anything was recorded."""
        comparison = self._comparison
        before = comparison.a.function[: self._call_a] == comparison.a.function[self._call_a]
        firsts = comparison.first_in_call[: self._call_a][before]
        earliest = int(firsts.min(initial=len(comparison)))
        if earliest < self.index:
            return PROPAGATOR, f"`{Difference(comparison, earliest).name}` differs in an iteration before"
        if before.any():
            return PRODUCER, "everything recorded in the iterations before is equal"
        return UNKNOWN, "it is a parameter, and was made before the recording began"

    def _given_to_caller(self, parent: int) -> list[Input]:
        """What the calling function was given, if it has a partner in the second run."""
        calls = self._comparison.calls
        at = int(np.searchsorted(calls.a, parent))
        if parent <= 0 or calls.a[at] != parent:
            return []
        return self._arguments(parent, int(calls.b[at]))

    def _judged_without_inputs(self, lacking: str = "its inputs were not recorded") -> tuple[str, str]:
        if self.index:
            return UNKNOWN, f"{lacking}, and other values differ before it"
        rows = rows_of_call(self._comparison.a, self._call_a) if self._call_a else np.empty(0, np.int64)
        before = rows[rows < self._at]
        arguments = list(self._inputs_in(self._comparison.a, self._call_a).values())
        count = int(np.count_nonzero((self._comparison.a.token_of(before) >= 0) & ~np.isin(before, arguments)))
        if count == 0:
            return UNKNOWN, f"{lacking}, and nothing else was recorded before it in its call"
        values = "1 value" if count == 1 else f"{count:,} values"
        return PRODUCER, f"all that was recorded before it in its call is equal ({values}); {lacking}"

    def _first_beneath(self, call: int) -> int:
        """The number of the first difference in a call and all it called."""
        size = int(self._comparison.a.size[call])
        return int(self._comparison.first_in_call[call : call + size].min())

    def _earlier(self) -> int | None:
        """A difference in the same call, or in what it called, before this one; inside a model, in a part of it."""
        comparison = self._comparison
        if not self._call_a:
            return None
        if self._is_traced and self.inputs:
            own = comparison.token_name(self._token)[1]
            for index in comparison.in_pair(self._pair).tolist():
                name = comparison.token_name(int(comparison.verdict.token[index]))[1]
                if index < self.index and name.startswith(f"{own}.") and not _is_input(name, own):
                    return int(index)
            return None
        first = self._first_beneath(self._call_a)
        return first if first < self.index else None

    # ---- told

    def to_dict(self) -> dict[str, Any]:
        """Plain data: see `Diff.to_dict`."""
        measure = {key: value for key, value in dataclasses.asdict(self.measure).items() if value not in (None, "")}
        told = {
            "index": self.index,
            "name": self.name,
            "what": self.what,
            "function": self.function,
            "step": told_step(self.step),
            "ordinal": self.ordinal,
            "time": self.time,
            "held": self.held,
            "a": self._told("a"),
            "b": self._told("b"),
            "inputs": [
                {"name": one.name, "a": brief(one.a, _TEXT), "b": brief(one.b, _TEXT), "equal": one.equal}
                for one in self.inputs
            ],
            "measure": measure,
            "noise": self.noise,
            "multiple": self.multiple,
            "role": self.role,
            "reason": self.reason,
        }
        out: dict[str, Any] = plain(told)
        return out

    def _told(self, side: str) -> dict[str, Any]:
        name, file, line = self._site(side)
        value, call = (self.a, self.call_a) if side == "a" else (self.b, self.call_b)
        return {
            "name": name,
            "value": "no exception" if value is None and self.what == "exception" else brief(value, _TEXT),
            "file": file,
            "line": line,
            "call": self._told_call(side, call),
        }

    def _told_call(self, side: str, call: Call | None) -> dict[str, Any] | None:
        if call is None:
            return None
        path: list[str] = []
        above = call.parent
        while above is not None and len(path) < _LONGEST_PATH:
            path.append(above.function)
            above = above.parent
        return {
            "function": call.function,
            "module": call.module,
            "file": call.file,
            "line": call.line,
            "shard": call.shard,
            "id": call.id,
            "rank": call.rank,
            "thread": call.thread,
            "stage": call.stage,
            "step": told_step(self._side(side).call_step(self._call_a if side == "a" else self._call_b)),
            "start": call.start,
            "path": path[::-1],
        }

    def __repr__(self) -> str:
        return f"<Difference {self.name}: {brief(self.a, 40)} against {brief(self.b, 40)}>"


def _is_input(name: str, of: str) -> bool:
    """Whether a path inside a model is what the module `of` is given."""
    return name == f"{of}.input" or name.startswith(f"{of}.input.")


def is_parameter(name: str) -> bool:
    return name.rpartition(".")[2] in ("weight", "bias")


def feeds(name: str, module: str) -> bool:
    """Whether a path inside a model is an input or a parameter of a module."""
    inside, _, last = name.rpartition(".")
    return _is_input(name, module) or (inside == module and is_parameter(last))


def _last_row(side: Side, token: int, call: int, before: int) -> int | None:
    """The last row of a name of a model, up to a call and a row: iterations leave out what has not changed."""
    rows = np.flatnonzero(side.token == token)
    rows = rows[(side.call[rows] <= call) & (side.function[side.call[rows]] == side.function[call]) & (rows < before)]
    return int(rows[-1]) if len(rows) else None


class Differences(Sequence[Difference]):
    """All differences, in the order of time of the first run. `len()` and slices cost nothing."""

    def __init__(self, comparison: Comparison, chosen: range) -> None:
        self._comparison = comparison
        self._chosen = chosen

    def __len__(self) -> int:
        return len(self._chosen)

    @overload
    def __getitem__(self, index: int) -> Difference: ...
    @overload
    def __getitem__(self, index: slice) -> Differences: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return Differences(self._comparison, self._chosen[index])
        return Difference(self._comparison, self._chosen[index])

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        more = f", ... {len(self) - 3:,} more" if len(self) > 3 else ""
        return f"[{shown}{more}]"

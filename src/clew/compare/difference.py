"""`Difference` is one value that differs: where, in which calls, from what inputs, how, and whether it began there."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload

import numpy as np

from clew.compare.arrays import Measure
from clew.compare.comparison import json_step, json_value, rows_of_call
from clew.compare.value_heads import heads
from clew.compare.values import compare_heads, measured, measured_arrays, measured_summaries, sources, text_note
from clew.records import Kept, Kind
from clew.store.blobs import DamagedBlobError
from clew.text.brief import brief

if TYPE_CHECKING:
    from clew.compare.comparison import Comparison
    from clew.compare.side import Side
    from clew.reading.call import Call

PRODUCER, PROPAGATOR, UNKNOWN = "producer", "propagator", "unknown"
WHAT: Final = {"input": "argument", "output": "result", "value": "change"}
_TEXT: Final = 200  # characters of a value in `to_dict`
_LONGEST_PATH: Final = 32


class Input(NamedTuple):
    """An input of a call in both runs."""

    name: str
    a: Any
    b: Any
    equal: bool | None  # None: only one run has it, or too little of it was kept to compare


class Difference:
    """A value that differs between two runs. Everything is looked up on access."""

    def __init__(self, comparison: Comparison, index: int) -> None:
        self._comparison = comparison
        self.index = index  # among all differences, in the order of time of the first run
        verdict = comparison.verdict
        self._a, self._b, self._at = int(verdict.a[index]), int(verdict.b[index]), int(verdict.at[index])
        self._pair, self._token = int(verdict.pair[index]), int(verdict.token[index])
        self._call_a, self._call_b = int(comparison.calls.a[self._pair]), int(comparison.calls.b[self._pair])

    # ---- where

    @property
    def name(self) -> str:
        """The name in the first run; `(error)` for an exception."""
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
        """`a` or `b` if that run had no change there and held this value from before; else empty."""
        return ("", "a", "b")[int(self._comparison.verdict.held_by[self.index])]

    def _side(self, which: str) -> Side:
        return self._comparison.a if which == "a" else self._comparison.b

    def _site(self, which: str) -> tuple[str, str, int]:
        """The name, file and line in one of the runs."""
        side, row = self._side(which), self._a if which == "a" else self._b
        if row < len(side.table):
            shard, local = side.table.place(row)
            reader = side.table.shards[shard]
            site = reader.sites[int(side.table.column(shard, "site")[local])]
            return site.name, reader.functions[site.function].file, site.line
        call = side.call_object(int(side.call_of(np.array([row]))[0]))
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
        """How the two values differ. Arrays are read from disk for it, piece by piece."""
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
        """How far apart the two reference runs were at this place up to this moment; None without a reference."""
        return self._comparison.noise_at(self.index)

    @property
    def multiple(self) -> float | None:
        """The largest difference as a multiple of the noise; Inf where the reference repeats exactly."""
        noise = self.noise
        if noise is None:
            return None
        size = float(self._comparison.verdict.magnitude[self.index])
        return float("inf") if noise == 0 else size / noise

    # ---- why

    @cached_property
    def inputs(self) -> list[Input]:
        """The recorded inputs of the call; for a module in a model, its input and parameters."""
        return self._inputs_by_name() if self._is_traced else self._arguments(self._call_a, self._call_b)

    @property
    def _is_traced(self) -> bool:
        functions = self._comparison.a.function
        return bool(self._comparison.a.is_tracer[functions[self._call_a]]) if self._call_a else False

    def _arguments(self, call_a: int, call_b: int) -> list[Input]:
        """The arguments of a pair of calls."""
        comparison = self._comparison
        if not call_a:
            return []
        rows_a, rows_b = self._argument_rows(comparison.a, call_a), self._argument_rows(comparison.b, call_b)
        tokens = dict.fromkeys([*rows_a, *rows_b])
        return [self._make_input(token, rows_a.get(token), rows_b.get(token)) for token in tokens]

    def _inputs_by_name(self) -> list[Input]:
        """The input and the parameters of a module, recorded at this iteration or held since an earlier one."""
        comparison = self._comparison
        module, tokens = comparison.token_name(self._token)[1], comparison.a.vocabularies.tokens
        inputs = []
        for token in range(len(tokens)):
            role, name = tokens.name(token)
            if role != "value" or not feeds(name, module):
                continue
            row_a = _last_row(comparison.a, token, self._call_a, self._at)
            row_b = _last_row(comparison.b, token, self._call_b, len(comparison.b.table))
            if row_a is not None or row_b is not None:
                inputs.append(self._make_input(token, row_a, row_b))
        return inputs

    @staticmethod
    def _argument_rows(side: Side, call: int) -> dict[int, int]:
        """The row of each argument of a call, by token."""
        rows = rows_of_call(side, call)
        tokens = side.vocabularies.tokens
        input_tokens = [number for number in range(len(tokens)) if tokens.name(number)[0] == "input"]
        rows = rows[np.isin(side.token_of(rows), input_tokens)]
        return dict(zip(side.token_of(rows).tolist(), rows.tolist(), strict=True))

    def _make_input(self, token: int, a: int | None, b: int | None) -> Input:
        comparison = self._comparison
        equal = None
        if a is not None and b is not None:
            equal = False if comparison.differs(a, b) else True if self._was_compared(a, b) else None
        values = None if a is None else comparison.a.value_of(a), None if b is None else comparison.b.value_of(b)
        return Input(comparison.token_name(token)[1], *values, equal)

    def _was_compared(self, a: int, b: int) -> bool:
        """Whether two rows without a difference are known to be equal; too little may have been kept to say."""
        comparison = self._comparison
        rows = np.array([a]), np.array([b])
        kinds = comparison.a.cells("kind", rows[0])[0], comparison.b.cells("kind", rows[1])[0]
        if kinds != (Kind.VALUE, Kind.VALUE):
            return True
        head_a, head_b = heads(comparison.a, rows[0])[0], heads(comparison.b, rows[1])[0]
        if head_a.kept == head_b.kept == Kept.FULL:
            return True
        return compare_heads(head_a, head_b, comparison.settings, None).compared

    @property
    def role(self) -> str:
        """`producer` if its inputs were equal, `propagator` if something before it differed already, or `unknown`."""
        return self._role_and_reason[0]

    @property
    def reason(self) -> str:
        """Why it has this role."""
        return self._role_and_reason[1]

    @cached_property
    def _role_and_reason(self) -> tuple[str, str]:
        if self.what == "argument" or (self._is_traced and _is_input(f".{self.name}", "")):
            return self._judge_argument()
        if self._is_traced and is_parameter(self.name):
            return self._judge_parameter()
        names = ", ".join(f"`{one.name}`" for one in self.inputs if one.equal is False)
        if names:
            return PROPAGATOR, f"its input {names} differs already"
        earlier = self._earlier_difference()
        if earlier is not None:
            return PROPAGATOR, f"`{Difference(self._comparison, earlier).name}` differs before it in the same call"
        if self.inputs:
            names = ", ".join(f"`{one.name}`" for one in self.inputs if one.equal is None)
            if names:
                return self._judge_without_inputs(f"it is unknown whether its input {names} is the same")
            return self._judge_by_equal_inputs()
        return self._judge_without_inputs()

    def _judge_by_equal_inputs(self) -> tuple[str, str]:
        names = ", ".join(f"`{one.name}`" for one in self.inputs)
        differs_in_other_pair = bool((self._comparison.verdict.pair[: self.index] != self._pair).any())
        if self._is_traced and differs_in_other_pair and not any(is_parameter(one.name) for one in self.inputs):
            return UNKNOWN, f"its inputs are equal ({names}); its parameters were not recorded, and may differ by now"
        return PRODUCER, f"its inputs are equal: {names}"

    def _judge_argument(self) -> tuple[str, str]:
        """Judge an argument of a call, or the input of a whole model."""
        comparison = self._comparison
        parent = int(comparison.a.parent[self._call_a])
        if parent > 0 and self._first_beneath(parent) < self.index:
            name = Difference(comparison, self._first_beneath(parent)).name
            return PROPAGATOR, f"`{name}` differs before it in the calling function"
        inputs = self._inputs_of_caller(parent)
        if inputs and all(one.equal for one in inputs):
            names = ", ".join(f"`{one.name}`" for one in inputs)
            function = comparison.a.vocabularies.functions.name(int(comparison.a.function[parent]))
            return PRODUCER, f"it is an argument, made in the calling {function}, whose inputs are equal: {names}"
        if self.index:
            return UNKNOWN, "it is an argument; what made it was not recorded, and other values differ before it"
        return UNKNOWN, "it is an argument; what made it was not recorded"

    def _judge_parameter(self) -> tuple[str, str]:
        """Judge a parameter: the iterations before made its value; in the first, what ran before the recording."""
        comparison = self._comparison
        before = comparison.a.function[: self._call_a] == comparison.a.function[self._call_a]
        earliest = int(comparison.first_in_call[: self._call_a][before].min(initial=len(comparison)))
        if earliest < self.index:
            return PROPAGATOR, f"`{Difference(comparison, earliest).name}` differs in an earlier iteration"
        if before.any():
            return PRODUCER, "everything recorded in the earlier iterations is equal"
        return UNKNOWN, "it is a parameter, and was made before the recording began"

    def _inputs_of_caller(self, parent: int) -> list[Input]:
        """The inputs of the calling function, if it has a partner in the second run."""
        calls = self._comparison.calls
        at = int(np.searchsorted(calls.a, parent))
        if parent <= 0 or calls.a[at] != parent:
            return []
        return self._arguments(parent, int(calls.b[at]))

    def _judge_without_inputs(self, problem: str = "its inputs were not recorded") -> tuple[str, str]:
        if self.index:
            return UNKNOWN, f"{problem}, and other values differ before it"
        rows = rows_of_call(self._comparison.a, self._call_a) if self._call_a else np.empty(0, np.int64)
        before = rows[rows < self._at]
        arguments = list(self._argument_rows(self._comparison.a, self._call_a).values())
        count = int(np.count_nonzero((self._comparison.a.token_of(before) >= 0) & ~np.isin(before, arguments)))
        if count == 0:
            return UNKNOWN, f"{problem}, and nothing else was recorded before it in its call"
        values = "1 value" if count == 1 else f"{count:,} values"
        return PRODUCER, f"everything recorded before it in its call is equal ({values}); {problem}"

    def _first_beneath(self, call: int) -> int:
        """The index of the first difference in a call and everything it called."""
        size = int(self._comparison.a.size[call])
        return int(self._comparison.first_in_call[call : call + size].min())

    def _earlier_difference(self) -> int | None:
        """The index of an earlier difference in the same call or in what it called; of a module, in a part of it."""
        comparison = self._comparison
        if not self._call_a:
            return None
        if self._is_traced and self.inputs:
            module = comparison.token_name(self._token)[1]
            for index in comparison.in_pair(self._pair).tolist():
                name = comparison.token_name(int(comparison.verdict.token[index]))[1]
                if index < self.index and name.startswith(f"{module}.") and not _is_input(name, module):
                    return int(index)
            return None
        first = self._first_beneath(self._call_a)
        return first if first < self.index else None

    # ---- the report

    def to_dict(self) -> dict[str, Any]:
        """Plain data: see `Diff.to_dict`."""
        measure = {key: value for key, value in dataclasses.asdict(self.measure).items() if value not in (None, "")}
        values = {
            "index": self.index,
            "name": self.name,
            "what": self.what,
            "function": self.function,
            "step": json_step(self.step),
            "ordinal": self.ordinal,
            "time": self.time,
            "held": self.held,
            "a": self._side_values("a"),
            "b": self._side_values("b"),
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
        data: dict[str, Any] = json_value(values)
        return data

    def _side_values(self, which: str) -> dict[str, Any]:
        name, file, line = self._site(which)
        value, call = (self.a, self.call_a) if which == "a" else (self.b, self.call_b)
        return {
            "name": name,
            "value": "no exception" if value is None and self.what == "exception" else brief(value, _TEXT),
            "file": file,
            "line": line,
            "call": self._call_values(which, call),
        }

    def _call_values(self, which: str, call: Call | None) -> dict[str, Any] | None:
        if call is None:
            return None
        path: list[str] = []
        caller = call.parent
        while caller is not None and len(path) < _LONGEST_PATH:
            path.append(caller.function)
            caller = caller.parent
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
            "step": json_step(self._side(which).call_step(self._call_a if which == "a" else self._call_b)),
            "start": call.start,
            "path": path[::-1],
        }

    def __repr__(self) -> str:
        return f"<Difference {self.name}: {brief(self.a, 40)} against {brief(self.b, 40)}>"


def _is_input(name: str, module: str) -> bool:
    """Whether a path inside a model is an input of a module."""
    return name == f"{module}.input" or name.startswith(f"{module}.input.")


def is_parameter(name: str) -> bool:
    return name.rpartition(".")[2] in ("weight", "bias")


def feeds(name: str, module: str) -> bool:
    """Whether a path inside a model is an input or a parameter of a module."""
    owner, _, last = name.rpartition(".")
    return _is_input(name, module) or (owner == module and is_parameter(last))


def _last_row(side: Side, token: int, call: int, before: int) -> int | None:
    """The last row of a name of a model, up to a call and a row: iterations omit what has not changed."""
    rows = np.flatnonzero(side.token == token)
    rows = rows[(side.call[rows] <= call) & (side.function[side.call[rows]] == side.function[call]) & (rows < before)]
    return int(rows[-1]) if len(rows) else None


class Differences(Sequence[Difference]):
    """All differences, in the first run's order of time. `len()` and slices cost nothing."""

    def __init__(self, comparison: Comparison, indices: range) -> None:
        self._comparison = comparison
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    @overload
    def __getitem__(self, index: int) -> Difference: ...
    @overload
    def __getitem__(self, index: slice) -> Differences: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return Differences(self._comparison, self._indices[index])
        return Difference(self._comparison, self._indices[index])

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        more = f", ... {len(self) - 3:,} more" if len(self) > 3 else ""
        return f"[{shown}{more}]"

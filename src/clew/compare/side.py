"""`Side` holds one of the compared runs in columns: its calls in preorder, and the rows recorded in them.

Calls are numbered in *preorder*: a call, then what it called, lane by lane; 0 is the run itself, the
parent of all roots. A call and its descendants are therefore one range of numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from clew.compare.caller_steps import call_marks
from clew.compare.preorder import depths, mark_descendants, number_in_preorder, sibling_ranks, subtree_sizes
from clew.compare.settings import Names, Settings
from clew.compare.value_heads import ShardValues
from clew.reading.annotations import check_annotation
from clew.reading.steps import plain_step
from clew.reading.table import is_sorted, look_up
from clew.records import Kind
from clew.store.format import NO_STEP

if TYPE_CHECKING:
    from clew.compare.vocabularies import Vocabularies
    from clew.reading.call import Call
    from clew.reading.calls import ShardCalls
    from clew.reading.run import Run

Ints = npt.NDArray[np.int64]
Column = npt.NDArray[Any]

OUT, STEP_ROW, ITEM_ROW = -1, -2, -3  # instead of a token: left out; a step; the items a call handled
ARGS, RESULT, ERROR = "(arguments)", "(result)", "(error)"
_NUMBER: Final = re.compile(r"\d+", re.ASCII)
ERROR_KIND: Final = 200  # not in records.Kind: the text of an exception


class ExtraRows(NamedTuple):
    """Columns of values that have no row in the table; they are numbered after its last row."""

    call: Ints
    token: Ints
    kind: Ints
    value: Ints
    shard: Ints
    time: Ints
    text: list[str | None]


class Side:
    """A run as columns of calls and rows. Only its structure is read; values are not."""

    def __init__(self, run: Run, vocabularies: Vocabularies, settings: Settings, names: Names) -> None:
        self.run = run
        self.view = run.tables
        self.table = self.view.table
        self.vocabularies = vocabularies
        self.settings = settings
        self._names = names
        self._functions: dict[tuple[int, int], int] = {}
        self._extra_tokens: dict[tuple[int, int, str], int] = {}
        self._values: dict[int, ShardValues] = {}
        self._place_calls()

    def __len__(self) -> int:
        """The number of calls, including the run itself."""
        return len(self.parent)

    # ---- calls

    def _place_calls(self) -> None:
        calls = self.view.calls
        count = len(calls)
        parents = np.where(calls.parents < 0, count, calls.parents)  # the run itself has the place after the last
        lanes, items = self._lane_numbers(), self._item_numbers()
        depth = depths(parents)
        lanes = np.where(mark_descendants(parents, depth, items > 0), 0, lanes)  # any worker may have had an item
        times = self._start_column("time", np.int64)
        order = np.lexsort((np.arange(count), times, self._item_ranks(items), lanes, parents))
        size, offset = subtree_sizes(parents, depth, order)
        self.pre = number_in_preorder(parents, depth, offset)  # by place; the last is the run's own, 0
        by_pre = np.argsort(self.pre, kind="stable")
        self.place = by_pre  # by preorder; `place[0]` is not a place
        self.parent = np.append(self.pre[parents], -1)[by_pre]
        self.size = size[by_pre]
        self.starts = np.append(times, 0)[by_pre]
        self.depth = np.append(depth, 0)[by_pre] if count else np.zeros(1, np.int64)
        functions = self._function_numbers()
        self.function = np.append(functions, 0)[by_pre]
        self.lane = np.append(lanes, 0)[by_pre]
        self.item = np.append(items, 0)[by_pre]
        self.stage = np.append(self._stage_numbers(), 0)[by_pre]
        self.sibling_rank = np.append(sibling_ranks(parents, order), 0)[by_pre]

    def _start_column(self, name: str, dtype: Any) -> Column:
        parts = [shard.start(name) for shard in self.view.calls.shards]
        return np.concatenate([np.empty(0, dtype), *parts])

    def _function_numbers(self) -> Ints:
        parts = [np.empty(0, np.int64)]
        for shard in self.view.calls.shards:
            ids = shard.start("function")
            unique_ids, inverse = np.unique(ids, return_inverse=True)
            numbers = np.array([self._add_function(shard, id) for id in unique_ids.tolist()], np.int64)
            parts.append(numbers[inverse] if len(ids) else np.empty(0, np.int64))
        return np.concatenate(parts)

    def _add_function(self, shard: ShardCalls, id: int) -> int:
        function = shard.reader.functions[id]
        number = self.vocabularies.functions.number(self._names.of_function(function.module, function.name))
        self._functions[shard.shard, id] = number
        return number

    def function_number(self, shard: int, id: int) -> int:
        """The number of a function, given its id in a shard; -1 for one that was never called."""
        return self._functions.get((shard, id), -1)

    def _stage_numbers(self) -> Ints:
        parts = [np.empty(0, np.int64)]
        for shard in self.view.calls.shards:
            texts = shard.start("stage").tolist()
            numbers = {text: self.vocabularies.stages.number(text) for text in dict.fromkeys(texts)}
            parts.append(np.array([numbers[text] for text in texts], np.int64))
        return np.concatenate(parts)

    def _lane_numbers(self) -> Ints:
        """By call: the number of its lane, which is the rank, the process in that rank, and the thread."""
        parts = [np.empty(0, np.int64)]
        for shard, process in zip(self.view.calls.shards, self._process_numbers(), strict=True):
            ranks, threads = shard.start("rank"), shard.start("thread")
            if len(threads) and bool((threads == threads[0]).all() and (ranks == ranks[0]).all()):
                text = shard.starts.take(np.array([0])).thread_name[0]
                lane = int(ranks[0]), process, thread_lanes([text])[text]
                parts.append(np.full(len(threads), self.vocabularies.lanes.number(lane)))
                continue
            texts = shard.start("thread_name").tolist()
            lane_names = thread_lanes(texts)
            keys = [(rank, lane_names[text]) for rank, text in zip(ranks.tolist(), texts, strict=True)]
            numbers = {key: self.vocabularies.lanes.number((key[0], process, key[1])) for key in dict.fromkeys(keys)}
            parts.append(np.array([numbers[key] for key in keys], np.int64))
        return np.concatenate(parts)

    def _process_numbers(self) -> list[int]:
        """By shard: the number of its process in its rank. The one that opened the run comes first, then by start."""
        shards = self.view.calls.shards
        main_pid = self.run.meta.get("pid")
        first_times = [int(shard.start("time").min()) if shard.count else 2**63 - 1 for shard in shards]
        order = sorted(range(len(shards)), key=lambda n: (shards[n].reader.pid != main_pid, first_times[n], n))
        counts: dict[int, int] = {}
        numbers = [0] * len(shards)
        for place in order:
            rank = shards[place].reader.rank
            numbers[place] = counts.get(rank, 0)
            counts[rank] = numbers[place] + 1
        return numbers

    def _item_numbers(self) -> Ints:
        """By call: the number of the pipeline items it handled, in whichever worker it ran; 0 for none."""
        numbers = np.zeros(len(self.view.calls), np.int64)
        for shard in self.view.calls.shards:
            if not (self._token_tables[shard.shard] == ITEM_ROW).any():
                continue
            rows = np.flatnonzero(self.tokens_in(shard.shard) == ITEM_ROW)
            places = shard.places(self.table.column(shard.shard, "call")[rows])
            last_rows = {place: row for place, row in zip(places.tolist(), rows.tolist(), strict=True) if place >= 0}
            values = self.table.values(np.array(list(last_rows.values()), np.int64) + self.table.offsets[shard.shard])
            for place, value in zip(last_rows, values, strict=True):
                numbers[place + int(self.view.calls.offsets[shard.shard])] = self._item_number(value)
        return numbers

    def _item_number(self, value: Any) -> int:
        note = check_annotation(value)[0] if isinstance(value, dict) else {}
        ids = note.get("ids")
        return self.vocabularies.items.number(f"{note.get('source', '')}:{ids!r}") if ids else 0

    def _item_ranks(self, items: Ints) -> Ints:
        """By call: the rank of its items in an order that does not depend on how workers took turns."""
        texts = [str(self.vocabularies.items.name(number) or "") for number in range(len(self.vocabularies.items))]
        ranks = np.empty(len(texts), np.int64)
        ranks[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
        return np.where(items > 0, ranks[items], -1)

    # ---- rows

    @cached_property
    def _token_tables(self) -> list[npt.NDArray[np.int32]]:
        return [self._token_table(shard) for shard in range(len(self.table.shards))]

    def _token_table(self, shard: int) -> npt.NDArray[np.int32]:
        """The token of each site id; the last cell is for ids out of range."""
        reader = self.table.shards[shard]
        sites = {id: site for id, site in reader.sites.items() if id >= 0}
        table = np.full(max(sites, default=-1) + 2, OUT, np.int32)
        hidden = {"step": STEP_ROW, "item": ITEM_ROW}
        for id, site in sites.items():
            function = reader.functions[site.function]
            if site.role in hidden:
                table[id] = hidden[site.role]
            elif site.role in ("value", "input", "output") and self.is_selected(
                site.name, function.module, function.name
            ):
                table[id] = self.vocabularies.tokens.number((site.role, self._names.of(site.name)))
        return table

    def is_selected(self, name: str, module: str, function: str) -> bool:
        """Whether a name is compared. Patterns may use the names of either run."""
        translated = self._names.of(name), self._names.of_function(module, function)
        return self.settings.selects(name, function) and self.settings.selects(*translated)

    def translated(self, name: str) -> str:
        """The name as the other run calls it."""
        return self._names.of(name)

    def tokens_in(self, shard: int) -> Column:
        return look_up(self._token_tables[shard], self.table.column(shard, "site"))

    @cached_property
    def token(self) -> npt.NDArray[np.int32]:
        """By row: the number of its role and name, or OUT, STEP_ROW or ITEM_ROW."""
        return np.concatenate([np.empty(0, np.int32), *map(self.tokens_in, range(len(self.table.shards)))])

    @cached_property
    def call(self) -> npt.NDArray[np.int32]:
        """By row: the call it belongs to, in preorder; -1 if its start was lost."""
        parts = [np.empty(0, np.int32)]
        for shard, offset in zip(self.view.calls.shards, self.view.calls.offsets.tolist(), strict=False):
            for piece in self.table.changes[shard.shard].pieces:
                ids, counts = _call_spans(piece)
                places = shard.places(ids)
                numbers = np.where(places < 0, -1, np.append(self.pre, -1)[places + offset]).astype(np.int32)
                parts.append(np.repeat(numbers, counts))
        return np.concatenate(parts)

    @cached_property
    def own_step(self) -> Ints:
        """By call: a key of the step it began with, or of the only step recorded in it; NO_STEP for none."""
        count = len(self.view.calls)
        steps = np.full(len(self), NO_STEP, np.int64)
        at_start = self._start_column("step", np.int64)
        steps[self.pre[:count]] = np.where(at_start == NO_STEP, NO_STEP, _number_key(at_start.astype(np.float64)))
        rows = self._step_rows
        calls = self.call[rows]
        is_only_row = np.bincount(calls, minlength=len(self))[calls] == 1
        steps[calls[is_only_row]] = self.step_keys(rows[is_only_row])
        return steps

    @cached_property
    def _step_rows(self) -> Ints:
        if not any(bool((table == STEP_ROW).any()) for table in self._token_tables):
            return np.empty(0, np.int64)
        rows = np.flatnonzero(self.token == STEP_ROW)
        return rows[self.call[rows] >= 0]

    def step_keys(self, rows: Ints) -> Ints:
        """A number for the step that each of these rows records, the same for equal steps."""
        if len(rows) == 0:
            return np.empty(0, np.int64)
        kinds = self._table_cells("kind", rows)
        keys = _number_key(self._table_cells("number", rows))
        for place in np.flatnonzero(kinds == Kind.VALUE).tolist():
            value = self.table.stored(rows[place : place + 1])[0]
            keys[place] = int.from_bytes((value.digest or b"\0" * 16)[:8], "little", signed=True)
        return keys

    @cached_property
    def is_tracer(self) -> npt.NDArray[np.bool_]:
        """By function number: whether it is an iteration of a model tracer, which omits unchanged values."""
        names = [self.vocabularies.functions.name(number) for number in range(len(self.vocabularies.functions))]
        return np.array([name.endswith(".iteration") for name in names], np.bool_)

    @cached_property
    def extra(self) -> ExtraRows:
        """Arguments and results that were kept as one value, and exceptions."""
        extra_rows: list[tuple[int, int, int, int, int, int, str]] = []
        for shard, offset in zip(self.view.calls.shards, self.view.calls.offsets.tolist(), strict=False):
            starts, ends, raised = shard.start("args"), shard.finished.result, shard.raised()
            extra_rows += [
                self._extra_row(shard, local + offset, ARGS, int(starts[local]), local, -1)
                for local in np.flatnonzero(starts >= 0).tolist()
            ]
            with_outcome = np.flatnonzero((ends >= 0) | raised)
            places = shard.places(shard.finished.call[with_outcome])
            texts = shard.finished.take(with_outcome).error
            for end, local, text in zip(with_outcome.tolist(), places.tolist(), texts.tolist(), strict=True):
                if local >= 0 and ends[end] >= 0:
                    extra_rows.append(self._extra_row(shard, local + offset, RESULT, int(ends[end]), local, end))
                if local >= 0 and text is not None:
                    extra_rows.append(self._extra_row(shard, local + offset, ERROR, -1, local, end, str(text)))
        selected = [row for row in extra_rows if row[1] >= 0]
        columns = list(zip(*selected, strict=True)) if selected else [()] * 7
        call, token, kind, value, shard_number, time = (np.array(column, np.int64) for column in columns[:6])
        return ExtraRows(call, token, kind, value, shard_number, time, list(columns[6]))

    def _extra_row(
        self, shard: ShardCalls, place: int, name: str, value: int, local: int, end: int, text: str = ""
    ) -> tuple[int, int, int, int, int, int, str]:
        token = self._extra_token(shard, int(shard.start("function")[local]), name)
        time = int(shard.start("time")[local] if end < 0 else shard.finished.time[end])
        kind = ERROR_KIND if name == ERROR else int(Kind.VALUE)
        return int(self.pre[place]), token, kind, value, shard.shard, time, text

    def _extra_token(self, shard: ShardCalls, id: int, name: str) -> int:
        key = shard.shard, id, name
        if key not in self._extra_tokens:
            function = shard.reader.functions[id]
            role = "input" if name == ARGS else "output"
            selected = self.is_selected(name, function.module, function.name)
            self._extra_tokens[key] = self.vocabularies.tokens.number((role, name)) if selected else OUT
        return self._extra_tokens[key]

    def add_rows_without_error(self, calls: Ints, tokens: Ints, times: Ints) -> None:
        """Add extra rows which say that these calls raised nothing."""
        more = (calls, tokens, np.full(len(calls), ERROR_KIND), np.full(len(calls), -1), np.zeros_like(calls), times)
        call, token, kind, value, shard, time = (
            np.concatenate(pair) for pair in zip(self.extra[:6], more, strict=True)
        )
        self.extra = ExtraRows(call, token, kind, value, shard, time, [*self.extra.text, *[None] * len(calls)])
        self.__dict__.pop("marks", None)  # its keys depend on the number of rows

    def cells(self, name: str, rows: Ints) -> Column:
        """`kind`, `number`, `value` or `time` of these rows, extra rows included."""
        count = len(self.table)
        is_extra = rows >= count
        if not is_extra.any():
            return self._table_cells(name, rows)
        out = np.zeros(len(rows), np.float64 if name == "number" else np.int64)
        out[~is_extra] = self._table_cells(name, rows[~is_extra])
        if name != "number":
            out[is_extra] = getattr(self.extra, name)[rows[is_extra] - count]
        return out

    def _table_cells(self, name: str, rows: Ints) -> Column:
        """Rows mostly ascend; then no whole column needs to be joined."""
        if len(self.table.shards) == 1 and len(rows) and is_sorted(rows):
            return self.table.changes[0].take(rows).column(name)
        return self.table.gather(name, rows)

    def shard_of(self, rows: Ints) -> Ints:
        count = len(self.table)
        is_extra = rows >= count
        out = self.table.shard_of(np.where(is_extra, 0, rows))
        out[is_extra] = self.extra.shard[rows[is_extra] - count]
        return out

    def values(self, shard: int) -> ShardValues:
        """The stored values of a shard, without their bytes."""
        if shard not in self._values:
            self._values[shard] = ShardValues(self.table.shards[shard])
        return self._values[shard]

    def text_of(self, row: int) -> str | None:
        """The text of the exception that an extra row stands for; None if it says that nothing was raised."""
        extra_row = row - len(self.table)
        return self.extra.text[extra_row] if extra_row >= 0 and self.extra.kind[extra_row] == ERROR_KIND else None

    def value_of(self, row: int) -> Any:
        """The value of a row, read back."""
        extra_row = row - len(self.table)
        if extra_row < 0:
            return self.table.value(row)
        if self.extra.kind[extra_row] == ERROR_KIND:
            return self.extra.text[extra_row]
        return self.table.decoded(int(self.extra.shard[extra_row]), int(self.extra.value[extra_row]))

    def call_of(self, rows: Ints) -> Ints:
        """The calls of these rows, in preorder."""
        count = len(self.table)
        is_extra = rows >= count
        out = self.call[np.where(is_extra, 0, rows)].astype(np.int64) if count else np.zeros(len(rows), np.int64)
        out[is_extra] = self.extra.call[rows[is_extra] - count]
        return out

    def token_of(self, rows: Ints) -> Ints:
        count = len(self.table)
        is_extra = rows >= count
        out = self.token[np.where(is_extra, 0, rows)].astype(np.int64) if count else np.zeros(len(rows), np.int64)
        out[is_extra] = self.extra.token[rows[is_extra] - count]
        return out

    @cached_property
    def marks(self) -> tuple[Ints, Ints]:
        """The rows that record steps, sorted by call and row, and one ascending key of both for each."""
        rows = self._step_rows
        keys = self.mark_keys(rows)
        order = np.argsort(keys, kind="stable")
        return rows[order], keys[order]

    def mark_keys(self, rows: Ints) -> Ints:
        return self.call_of(rows) * (len(self.table) + len(self.extra.call) + 1) + rows

    def mark_of(self, rows: Ints) -> Ints:
        """By row: the index of the mark that applies within its call; -1 for none."""
        marks, keys = self.marks
        if len(marks) == 0:
            return np.full(len(rows), -1, np.int64)
        at = np.searchsorted(keys, self.mark_keys(rows), side="right") - 1
        good = (at >= 0) & (rows < len(self.table)) & (self.call[marks[np.maximum(at, 0)]] == self.call_of(rows))
        return np.where(good, at, -1)

    @cached_property
    def call_mark(self) -> Ints:
        """By call: the index of the mark that applied in its callers when it began; -1 for none."""
        return call_marks(self)

    def mark_around(self, rows: Ints) -> Ints:
        """By row: the index of the mark that applies within its call or, failing that, in its callers; -1 for none."""
        own = self.mark_of(rows)
        return np.where(own >= 0, own, self.call_mark[self.call_of(rows)])

    def step_of(self, row: int) -> Any:
        """The step of a row, recorded in its own call or in a caller; None if there is none."""
        own = self.own_step_of(row)
        if own is not None:
            return own
        return self.call_step(int(self.call_of(np.array([row], np.int64))[0]))

    def call_step(self, call: int) -> Any:
        """The step of a call: its own if it has exactly one, else that of a caller when the call began."""
        while call > 0 and self.own_step[call] == NO_STEP and self.call_mark[call] < 0:
            call = int(self.parent[call])
        if call <= 0:
            return None
        if self.own_step[call] == NO_STEP:
            return self._step_at_mark(int(self.call_mark[call]))
        shard, local = self.view.calls.split(int(self.place[call]))
        step_at_start = int(shard.start("step")[local])
        if step_at_start != NO_STEP:
            return step_at_start
        return self._step_at_mark(int(np.searchsorted(self.call[self.marks[0]], call)))

    def _step_at_mark(self, mark: int) -> Any:
        return plain_step(self.table.value(int(self.marks[0][mark])))

    def own_step_of(self, row: int) -> Any:
        """The step recorded in a row's own call; None if there is none."""
        mark = int(self.mark_of(np.array([row], np.int64))[0])
        return None if mark < 0 else self._step_at_mark(mark)

    def call_object(self, number: int) -> Call | None:
        """The call with a preorder number; None for the run itself."""
        from clew.reading.call import Call

        return None if number <= 0 else Call(self.view, int(self.place[number]))


def _call_spans(piece: Any) -> tuple[Ints, Ints]:
    """The calls of consecutive rows, and how many rows each has; the piece may hold them in that form already."""
    spans = getattr(piece, "_spans", None)
    if spans is not None:
        return spans.column("call"), spans.column("changes")
    ids = piece.column("call")
    heads = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]])) if len(ids) else np.empty(0, np.int64)
    return ids[heads], np.diff(np.append(heads, len(ids)))


def _digits_key(digits: str) -> tuple[int, str]:
    """A key that sorts digits as numbers, however many there are."""
    digits = digits.lstrip("0")
    return len(digits), digits


def thread_lanes(names: Iterable[Any]) -> dict[Any, str]:
    """Names of threads that are the same in every run.

    Python never restarts its count of threads, so their numbers are counted anew. The main thread has the empty name,
    so that a script and a notebook agree.
    """
    names_by_kind: dict[str, list[str]] = {}
    lanes: dict[Any, str] = {}
    for name in dict.fromkeys(names):
        if name in ("MainThread", None):
            lanes[name] = ""
        else:
            names_by_kind.setdefault(_NUMBER.sub("#", name), []).append(name)
    for kind, members in names_by_kind.items():
        members.sort(key=lambda name: [_digits_key(digits) for digits in _NUMBER.findall(name)])
        lanes.update((name, f"{kind} {place}") for place, name in enumerate(members))
    return lanes


def _number_key(numbers: Column) -> Ints:
    return (np.asarray(numbers, np.float64) + 0.0).view(np.int64)  # -0.0 is step 0

"""One of the runs that are compared, as columns: its calls in the order of the tree, and what hangs on them.

Calls are numbered in *preorder*: a call, then what it called, lane by lane; 0 is the run itself, the parent of all
roots. What a call and its descendants are is then one range of numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from clew.compare.preorder import beneath, depths, preorder, ranks, sizes
from clew.compare.settings import Names, Settings
from clew.compare.stepping import call_marks
from clew.compare.stored import ShardValues
from clew.history.noted import check_annotation
from clew.history.steps import plain_step
from clew.history.table import is_sorted, look_up
from clew.records import Kind
from clew.store.format import NO_STEP

if TYPE_CHECKING:
    from clew.compare.words import Words
    from clew.history.call import Call
    from clew.history.calls import ShardCalls
    from clew.history.run import Run

Ints = npt.NDArray[np.int64]
Column = npt.NDArray[Any]

OUT, STEP_ROW, ITEM_ROW = -1, -2, -3  # in place of a token: left out; a step; which items a call was about
ARGS, RESULT, ERROR = "(arguments)", "(result)", "(error)"
_NUMBER: Final = re.compile(r"\d+", re.ASCII)
ERROR_KIND: Final = 200  # beside records.Kind: the text of an exception


class Extra(NamedTuple):
    """Columns of values that have no row of their own."""

    call: Ints
    token: Ints
    kind: Ints
    value: Ints
    shard: Ints
    time: Ints
    text: list[str | None]


class Side:
    """A run, read as far as structure goes; no value is looked at here."""

    def __init__(self, run: Run, words: Words, settings: Settings, names: Names) -> None:
        self.run = run
        self.view = run.tables
        self.table = self.view.table
        self.words = words
        self.settings = settings
        self._names = names
        self._functions: dict[tuple[int, int], int] = {}
        self._extra_tokens: dict[tuple[int, int, str], int] = {}
        self._values: dict[int, ShardValues] = {}
        self._place_calls()

    def __len__(self) -> int:
        """How many calls there are, the run itself included."""
        return len(self.parent)

    # ---- calls

    def _place_calls(self) -> None:
        calls = self.view.calls
        count = len(calls)
        parents = np.where(calls.parents < 0, count, calls.parents)  # the run itself is the place after the last
        lanes, items = self._lanes(), self._items()
        depth = depths(parents)
        lanes = np.where(beneath(parents, depth, items > 0), 0, lanes)  # any worker may have had an item
        times = self._starts("time", np.int64)
        order = np.lexsort((np.arange(count), times, self._item_ranks(items), lanes, parents))
        self.size_at, first = sizes(parents, depth, order)
        self.pre = preorder(parents, depth, first)  # by place; the last is the run's own, 0
        by_pre = np.argsort(self.pre, kind="stable")
        self.place = by_pre  # by preorder; `place[0]` is no place
        self.parent = np.append(self.pre[parents], -1)[by_pre]
        self.size = self.size_at[by_pre]
        self.starts = np.append(times, 0)[by_pre]
        self.depth = np.append(depth, 0)[by_pre] if count else np.zeros(1, np.int64)
        functions = self._function_numbers()
        self.function = np.append(functions, 0)[by_pre]
        self.lane = np.append(lanes, 0)[by_pre]
        self.item = np.append(items, 0)[by_pre]
        self.stage = np.append(self._stages(), 0)[by_pre]
        self.rank_among = np.append(ranks(parents, order), 0)[by_pre]

    def _starts(self, name: str, dtype: Any) -> Column:
        parts = [shard.start(name) for shard in self.view.calls.shards]
        return np.concatenate([np.empty(0, dtype), *parts])

    def _function_numbers(self) -> Ints:
        parts = [np.empty(0, np.int64)]
        for shard in self.view.calls.shards:
            ids = shard.start("function")
            known, back = np.unique(ids, return_inverse=True)
            numbers = np.array([self._function(shard, id) for id in known.tolist()], np.int64)
            parts.append(numbers[back] if len(ids) else np.empty(0, np.int64))
        return np.concatenate(parts)

    def _function(self, shard: ShardCalls, id: int) -> int:
        function = shard.reader.functions[id]
        number = self.words.functions.number(self._names.of_function(function.module, function.name))
        self._functions[shard.shard, id] = number
        return number

    def function_number(self, shard: int, id: int) -> int:
        """Of a function by its id in a shard; -1 for one that was never called."""
        return self._functions.get((shard, id), -1)

    def _stages(self) -> Ints:
        parts = [np.empty(0, np.int64)]
        for shard in self.view.calls.shards:
            texts = shard.start("stage").tolist()
            known = {text: self.words.stages.number(text) for text in dict.fromkeys(texts)}
            parts.append(np.array([known[text] for text in texts], np.int64))
        return np.concatenate(parts)

    def _lanes(self) -> Ints:
        """Of each call where it ran: the rank, which of its processes, the thread."""
        parts = [np.empty(0, np.int64)]
        for shard, process in zip(self.view.calls.shards, self._processes(), strict=True):
            ranks, threads = shard.start("rank"), shard.start("thread")
            if len(threads) and bool((threads == threads[0]).all() and (ranks == ranks[0]).all()):
                text = shard.starts.take(np.array([0])).thread_name[0]
                lane = int(ranks[0]), process, thread_lanes([text])[text]
                parts.append(np.full(len(threads), self.words.lanes.number(lane)))
                continue
            texts = shard.start("thread_name").tolist()
            named = thread_lanes(texts)
            keys = [(rank, named[text]) for rank, text in zip(ranks.tolist(), texts, strict=True)]
            known = {key: self.words.lanes.number((key[0], process, key[1])) for key in dict.fromkeys(keys)}
            parts.append(np.array([known[key] for key in keys], np.int64))
        return np.concatenate(parts)

    def _processes(self) -> list[int]:
        """Of each shard: which process of its rank; the one that opened the run is 0, others as they started."""
        shards = self.view.calls.shards
        main = self.run.meta.get("pid")
        firsts = [int(shard.start("time").min()) if shard.count else 2**63 - 1 for shard in shards]
        order = sorted(range(len(shards)), key=lambda n: (shards[n].reader.pid != main, firsts[n], n))
        seen: dict[int, int] = {}
        numbers = [0] * len(shards)
        for place in order:
            rank = shards[place].reader.rank
            numbers[place] = seen.get(rank, 0)
            seen[rank] = numbers[place] + 1
        return numbers

    def _items(self) -> Ints:
        """Of each call the items of a pipeline it was about, whichever worker it ran in; 0 for none."""
        out = np.zeros(len(self.view.calls), np.int64)
        for shard in self.view.calls.shards:
            if not (self._token_tables[shard.shard] == ITEM_ROW).any():
                continue
            rows = np.flatnonzero(self.tokens_in(shard.shard) == ITEM_ROW)
            places = shard.places(self.table.column(shard.shard, "call")[rows])
            last = {place: row for place, row in zip(places.tolist(), rows.tolist(), strict=True) if place >= 0}
            told = self.table.values(np.array(list(last.values()), np.int64) + self.table.offsets[shard.shard])
            for place, value in zip(last, told, strict=True):
                out[place + int(self.view.calls.offsets[shard.shard])] = self._item(value)
        return out

    def _item(self, value: Any) -> int:
        noted = check_annotation(value)[0] if isinstance(value, dict) else {}
        ids = noted.get("ids")
        return self.words.items.number(f"{noted.get('source', '')}:{ids!r}") if ids else 0

    def _item_ranks(self, items: Ints) -> Ints:
        """Items in an order that both runs share, however workers took turns."""
        texts = [str(self.words.items.name(number) or "") for number in range(len(self.words.items))]
        ranks = np.empty(len(texts), np.int64)
        ranks[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
        return np.where(items > 0, ranks[items], -1)

    # ---- rows

    @cached_property
    def _token_tables(self) -> list[npt.NDArray[np.int32]]:
        return [self._token_table(shard) for shard in range(len(self.table.shards))]

    def _token_table(self, shard: int) -> npt.NDArray[np.int32]:
        """site id → number of its token; the last cell is for ids out of range."""
        reader = self.table.shards[shard]
        sites = {id: site for id, site in reader.sites.items() if id >= 0}
        table = np.full(max(sites, default=-1) + 2, OUT, np.int32)
        hidden = {"step": STEP_ROW, "item": ITEM_ROW}
        for id, site in sites.items():
            function = reader.functions[site.function]
            if site.role in hidden:
                table[id] = hidden[site.role]
            elif site.role in ("value", "input", "output") and self.wants(site.name, function.module, function.name):
                table[id] = self.words.tokens.number((site.role, self._names.of(site.name)))
        return table

    def wants(self, name: str, module: str, function: str) -> bool:
        """Patterns may be in the words of either run."""
        mapped = self._names.of(name), self._names.of_function(module, function)
        return self.settings.wanted(name, function) and self.settings.wanted(*mapped)

    def mapped(self, name: str) -> str:
        """What the other run calls a name."""
        return self._names.of(name)

    def tokens_in(self, shard: int) -> Column:
        return look_up(self._token_tables[shard], self.table.column(shard, "site"))

    @cached_property
    def token(self) -> npt.NDArray[np.int32]:
        """By row."""
        return np.concatenate([np.empty(0, np.int32), *map(self.tokens_in, range(len(self.table.shards)))])

    @cached_property
    def call(self) -> npt.NDArray[np.int32]:
        """By row: the call it belongs to, in preorder; -1 if its start was lost."""
        parts = [np.empty(0, np.int32)]
        for shard, offset in zip(self.view.calls.shards, self.view.calls.offsets.tolist(), strict=False):
            for piece in self.table.changes[shard.shard].pieces:
                ids, counts = _spans(piece)
                places = shard.places(ids)
                numbers = np.where(places < 0, -1, np.append(self.pre, -1)[places + offset]).astype(np.int32)
                parts.append(np.repeat(numbers, counts))
        return np.concatenate(parts)

    @cached_property
    def own_step(self) -> Ints:
        """By call: a key of the step it was told when it began, or that it says first and only; NO_STEP for none."""
        count = len(self.view.calls)
        steps = np.full(len(self), NO_STEP, np.int64)
        given = self._starts("step", np.int64)
        steps[self.pre[:count]] = np.where(given == NO_STEP, NO_STEP, _number_key(given.astype(np.float64)))
        rows = self._step_rows
        calls = self.call[rows]
        alone = np.flatnonzero(np.bincount(calls, minlength=len(self)) == 1)
        single = np.isin(calls, alone)
        steps[calls[single]] = self.step_keys(rows[single])
        return steps

    @cached_property
    def _step_rows(self) -> Ints:
        if not any(bool((table == STEP_ROW).any()) for table in self._token_tables):
            return np.empty(0, np.int64)
        rows = np.flatnonzero(self.token == STEP_ROW)
        return rows[self.call[rows] >= 0]

    def step_keys(self, rows: Ints) -> Ints:
        """A number for the step each of these rows says, the same for equal steps."""
        if len(rows) == 0:
            return np.empty(0, np.int64)
        kinds = self._cells("kind", rows)
        keys = _number_key(self._cells("number", rows))
        for place in np.flatnonzero(kinds == Kind.VALUE).tolist():
            value = self.table.stored(rows[place : place + 1])[0]
            keys[place] = int.from_bytes((value.digest or b"\0" * 16)[:8], "little", signed=True)
        return keys

    @cached_property
    def is_tracer(self) -> npt.NDArray[np.bool_]:
        """By function number: what a tracer writes an iteration at a time, leaving out what is as it was before."""
        names = [self.words.functions.name(number) for number in range(len(self.words.functions))]
        return np.array([name.endswith(".iteration") for name in names], np.bool_)

    @cached_property
    def extra(self) -> Extra:
        """Rows after the last: arguments and results that were kept as one value, and exceptions."""
        found: list[tuple[int, int, int, int, int, int, str]] = []
        for shard, offset in zip(self.view.calls.shards, self.view.calls.offsets.tolist(), strict=False):
            starts, ends, raised = shard.start("args"), shard.finished.result, shard.raised()
            given = np.flatnonzero(starts >= 0).tolist()
            found += [self._extra(shard, local + offset, ARGS, int(starts[local]), local, -1) for local in given]
            told = np.flatnonzero((ends >= 0) | raised)
            places = shard.places(shard.finished.call[told])
            texts = shard.finished.take(told).error
            for end, local, text in zip(told.tolist(), places.tolist(), texts.tolist(), strict=True):
                if local >= 0 and ends[end] >= 0:
                    found.append(self._extra(shard, local + offset, RESULT, int(ends[end]), local, end))
                if local >= 0 and text is not None:
                    found.append(self._extra(shard, local + offset, ERROR, -1, local, end, str(text)))
        wanted = [row for row in found if row[1] >= 0]
        columns = list(zip(*wanted, strict=True)) if wanted else [()] * 7
        call, token, kind, value, home, time = (np.array(column, np.int64) for column in columns[:6])
        return Extra(call, token, kind, value, home, time, list(columns[6]))

    def _extra(
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
            wanted = self.wants(name, function.module, function.name)
            self._extra_tokens[key] = self.words.tokens.number((role, name)) if wanted else OUT
        return self._extra_tokens[key]

    def add_errors(self, calls: Ints, tokens: Ints, times: Ints) -> None:
        """More rows after the last: these calls raised nothing."""
        more = (calls, tokens, np.full(len(calls), ERROR_KIND), np.full(len(calls), -1), np.zeros_like(calls), times)
        call, token, kind, value, shard, time = (
            np.concatenate(pair) for pair in zip(self.extra[:6], more, strict=True)
        )
        self.extra = Extra(call, token, kind, value, shard, time, [*self.extra.text, *[None] * len(calls)])
        self.__dict__.pop("marks", None)  # its keys leave room for so many rows

    def cells(self, name: str, rows: Ints) -> Column:
        """`kind`, `number`, `value` or `time` of these rows, those after the last among them."""
        count = len(self.table)
        beyond = rows >= count
        if not beyond.any():
            return self._cells(name, rows)
        out = np.zeros(len(rows), np.float64 if name == "number" else np.int64)
        out[~beyond] = self._cells(name, rows[~beyond])
        if name != "number":
            out[beyond] = getattr(self.extra, name)[rows[beyond] - count]
        return out

    def _cells(self, name: str, rows: Ints) -> Column:
        """Without joining a whole column where rows ascend, as they mostly do."""
        if len(self.table.shards) == 1 and len(rows) and is_sorted(rows):
            return self.table.changes[0].take(rows).column(name)
        return self.table.gather(name, rows)

    def shard_of(self, rows: Ints) -> Ints:
        count = len(self.table)
        beyond = rows >= count
        out = self.table.shard_of(np.where(beyond, 0, rows))
        out[beyond] = self.extra.shard[rows[beyond] - count]
        return out

    def values(self, shard: int) -> ShardValues:
        """The value table of a shard, without bytes."""
        if shard not in self._values:
            self._values[shard] = ShardValues(self.table.shards[shard])
        return self._values[shard]

    def text_of(self, row: int) -> str | None:
        """The exception a row beyond the last stands for; None if it stands for that there was none."""
        beyond = row - len(self.table)
        return self.extra.text[beyond] if beyond >= 0 and self.extra.kind[beyond] == ERROR_KIND else None

    def value_of(self, row: int) -> Any:
        """What a row holds, read back."""
        beyond = row - len(self.table)
        if beyond < 0:
            return self.table.value(row)
        if self.extra.kind[beyond] == ERROR_KIND:
            return self.extra.text[beyond]
        return self.table.decoded(int(self.extra.shard[beyond]), int(self.extra.value[beyond]))

    def call_of(self, rows: Ints) -> Ints:
        """The calls of these rows, in preorder."""
        count = len(self.table)
        beyond = rows >= count
        out = self.call[np.where(beyond, 0, rows)].astype(np.int64) if count else np.zeros(len(rows), np.int64)
        out[beyond] = self.extra.call[rows[beyond] - count]
        return out

    def token_of(self, rows: Ints) -> Ints:
        count = len(self.table)
        beyond = rows >= count
        out = self.token[np.where(beyond, 0, rows)].astype(np.int64) if count else np.zeros(len(rows), np.int64)
        out[beyond] = self.extra.token[rows[beyond] - count]
        return out

    @cached_property
    def marks(self) -> tuple[Ints, Ints]:
        """The rows that say steps, by call and row, and one ascending key of both for each."""
        rows = self._step_rows
        keys = self.mark_keys(rows)
        order = np.argsort(keys, kind="stable")
        return rows[order], keys[order]

    def mark_keys(self, rows: Ints) -> Ints:
        return self.call_of(rows) * (len(self.table) + len(self.extra.call) + 1) + rows

    def mark_of(self, rows: Ints) -> Ints:
        """Which of the marks holds at each row, within its call; -1 for none."""
        marks, keys = self.marks
        if len(marks) == 0:
            return np.full(len(rows), -1, np.int64)
        at = np.searchsorted(keys, self.mark_keys(rows), side="right") - 1
        good = (at >= 0) & (rows < len(self.table)) & (self.call[marks[np.maximum(at, 0)]] == self.call_of(rows))
        return np.where(good, at, -1)

    @cached_property
    def call_mark(self) -> Ints:
        """By call: which of the marks held around it when it began; -1 for none."""
        return call_marks(self)

    def mark_around(self, rows: Ints) -> Ints:
        """Which of the marks holds at each row: within its call, or around it when that began; -1 for none."""
        own = self.mark_of(rows)
        return np.where(own >= 0, own, self.call_mark[self.call_of(rows)])

    def step_of(self, row: int) -> Any:
        """The step a row was at, as its own call says, or a call around it; else None."""
        own = self.own_step_of(row)
        if own is not None:
            return own
        return self.call_step(int(self.call_of(np.array([row], np.int64))[0]))

    def call_step(self, call: int) -> Any:
        """The step of a call: its own if it has exactly one, else that of a call around it when it began."""
        while call > 0 and self.own_step[call] == NO_STEP and self.call_mark[call] < 0:
            call = int(self.parent[call])
        if call <= 0:
            return None
        if self.own_step[call] == NO_STEP:
            return self._said(int(self.call_mark[call]))
        shard, local = self.view.calls.split(int(self.place[call]))
        given = int(shard.start("step")[local])
        if given != NO_STEP:
            return given
        return self._said(int(np.searchsorted(self.call[self.marks[0]], call)))

    def _said(self, mark: int) -> Any:
        return plain_step(self.table.value(int(self.marks[0][mark])))

    def own_step_of(self, row: int) -> Any:
        """The step its own call says; None if that says none."""
        mark = int(self.mark_of(np.array([row], np.int64))[0])
        return None if mark < 0 else self._said(mark)

    def call_object(self, number: int) -> Call | None:
        """The call of a number in preorder; None of the run itself."""
        from clew.history.call import Call

        return None if number <= 0 else Call(self.view, int(self.place[number]))


def _spans(piece: Any) -> tuple[Ints, Ints]:
    """Calls one after the other, and how many rows in turn are theirs; without a cell for each row, where it can be."""
    spans = getattr(piece, "_spans", None)
    if spans is not None:
        return spans.column("call"), spans.column("changes")
    ids = piece.column("call")
    heads = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]])) if len(ids) else np.empty(0, np.int64)
    return ids[heads], np.diff(np.append(heads, len(ids)))


def _as_number(digits: str) -> tuple[int, str]:
    """Sorts as the number does, of any number of digits."""
    digits = digits.lstrip("0")
    return len(digits), digits


def thread_lanes(names: Iterable[Any]) -> dict[Any, str]:
    """What threads are called in every run: their names, with numbers counted anew, since Python goes on counting.

    The thread a process begins with has none, so that a script and a notebook have the same.
    """
    kinds: dict[str, list[str]] = {}
    found: dict[Any, str] = {}
    for name in dict.fromkeys(names):
        if name in ("MainThread", None):
            found[name] = ""
        else:
            kinds.setdefault(_NUMBER.sub("#", name), []).append(name)
    for kind, members in kinds.items():
        members.sort(key=lambda name: [_as_number(digits) for digits in _NUMBER.findall(name)])
        found.update((name, f"{kind} {place}") for place, name in enumerate(members))
    return found


def _number_key(numbers: Column) -> Ints:
    return (np.asarray(numbers, np.float64) + 0.0).view(np.int64)  # -0.0 is step 0

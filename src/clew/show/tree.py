"""Renders the call tree as lines: the inputs of each call, its changes and calls, and how it ended.

    transform  data.py:57  (loader.py:283 <- train.py:80)  12.3 ms
    ├─ video: uint8 (73, 640, 960, 3)
    ├─ video@61  shape (73, 640, 960, 3) → (73, 3, 640, 960)
    ├─ scale  data.py:12  3.4 ms
    │  ├─ x: uint8 (73, 3, 640, 960)
    │  └─ → float32 (73, 3, 640, 960)
    └─ → float32 (73, 3, 640, 960)

Repetitions are folded (`fold`), and a long tree is cut; a line says where.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from clew.records import DELETED
from clew.show.fold import FEWEST, Group, Shapes, fresh, groups, is_call
from clew.show.tree_lines import (
    ARROW,
    BRANCH,
    DOTS,
    ERROR,
    LAST,
    LEVELS,
    MARKS,
    NAME,
    NOTHING,
    PLACE,
    REMARK,
    RESULT,
    THROUGH,
    TIME,
    VARIABLE,
    Line,
    Pen,
    line,
    margin,
    to_ascii,
)
from clew.text.brief import duration, printable, shorten
from clew.text.values import change_line, value_line

if TYPE_CHECKING:
    from clew.reading.tree import Tree

LINES = 200
LOOKED_AT = 5_000  # events of one call that are read for folding
AT_LEAST = 20  # events of a call that are shown even if the budget is used up
CHAIN = 6  # callers that are named
ERROR_WIDTH = 200
_MAIN = "MainThread"


class Branches(Protocol):
    """What can be drawn: some root calls, and the events to show of each call."""

    @property
    def roots(self) -> Sequence[Any]: ...

    def events(self, call: Any) -> Sequence[Any]:
        """Changes and calls, in the order they happened."""

    def is_selected(self, call: Any) -> bool:
        """Whether the call is shown in full, rather than only the calls it made."""


def _is_argument(event: Any, call: Any, inputs: dict[str, Any]) -> bool:
    """Whether a change only repeats the argument, which is already shown."""
    name = getattr(event, "name", None)
    return name is not None and name in inputs and event.line == call.line


class OneCall:
    """A single call as a tree with all its events."""

    def __init__(self, call: Any) -> None:
        self.roots = [call]

    def events(self, call: Any) -> Sequence[Any]:
        events: Sequence[Any] = call.events
        return events

    def is_selected(self, call: Any) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the tree with its position."""

    line: Line
    depth: int
    last: bool  # whether it is the last line under its call
    opens: bool = False  # whether it is a call whose own lines follow one level deeper


# ---- single lines


def place(file: str, line_number: int) -> str:
    """`data.py:57`."""
    return f"{printable(file.replace(chr(92), '/').rpartition('/')[2])}:{line_number}"


def chain(callers: Sequence[Any]) -> str:
    """`a.py:283 <- b.py:57 <- c.py:80`, the nearest first."""
    named = [place(caller[0], caller[1]) for caller in callers[:CHAIN]]
    more = [f"{DOTS} {len(callers) - CHAIN} more"] if len(callers) > CHAIN else []
    return " <- ".join(named + more)


def head_line(
    function: str, file: str, line_number: int, *, callers: str = "", thread: str = "", took: str = ""
) -> Line:
    """`name  file.py:12  (a.py:283 <- b.py:57)  [thread]  12.3 ms`."""
    pieces: list[tuple[str, str]] = [(printable(function), NAME)]
    pieces += [(f"  {place(file, line_number)}", PLACE)] if file else []
    pieces += [(f"  ({callers})", PLACE)] if callers else []
    pieces += [(f"  [{printable(thread)}]", PLACE)] if thread else []
    pieces += [(f"  {took}", TIME)] if took else []
    return Line(tuple(pieces))


def input_line(name: str, value: str) -> Line:
    return line((printable(name), VARIABLE), f": {value}")


def changed_line(name: str, line_number: int, change: str) -> Line:
    """`video@575  uint8 → float32`."""
    return line((printable(name), VARIABLE), (f"@{line_number}", PLACE), f"  {change}")


def message_line(text: str) -> Line:
    return line((f"“{printable(text)}”", REMARK))


def result_line(value: str, took: str = "") -> Line:
    return line((f"{ARROW} ", RESULT), value, (f"  {took}" if took else "", TIME))


def raised_line(error: str, took: str = "") -> Line:
    return line((f"raised {shorten(printable(error), ERROR_WIDTH)}", ERROR), (f"  {took}" if took else "", TIME))


def missing_line(text: str) -> Line:
    """A line about what is not shown."""
    return line((f"{DOTS} {text}", MARKS))


def duration_range(shortest: float, longest: float) -> str:
    """`1.2 ms to 3.4 ms`."""
    low, high = duration(shortest), duration(longest)
    return low if low == high else f"{low} to {high}"


# ---- the walk


def walk(tree: Branches, *, fold: bool = True, bounded: bool = True) -> Iterator[Step]:
    """Every line in order, depth first. Not recursive: recorded recursion may exceed the limit of this process."""
    drawing = _Drawing(tree, fold, bounded)
    open_items = [_Lookahead(drawing.items_of(tree.roots, 0, {}))]
    while open_items:
        top = open_items[-1]
        if top.empty:
            open_items.pop()
            continue
        item, depth = top.next(), len(open_items) - 1
        if isinstance(item, Line):
            yield Step(item, depth, top.empty)
        else:
            items_inside = _Lookahead(drawing.items_in(item, depth))
            yield Step(drawing.head(item, depth), depth, top.empty, not items_inside.empty)
            open_items.append(items_inside)


class _Lookahead:
    """Items with one item of lookahead, because the last one under a call has its own mark."""

    def __init__(self, items: Iterator[Any]) -> None:
        self._items = items
        self._next_item = next(items, None)

    @property
    def empty(self) -> bool:
        return self._next_item is None

    def next(self) -> Any:
        item, self._next_item = self._next_item, next(self._items, None)
        return item


class _Drawing:
    """Makes the lines of one drawing of a tree."""

    def __init__(self, tree: Branches, fold: bool, bounded: bool) -> None:
        self._tree = tree
        self._fold = fold
        self._bounded = bounded
        self._shapes = Shapes(tree.events) if bounded else Shapes(tree.events, math.inf)

    def head(self, call: Any, depth: int) -> Line:
        parent = call.parent if depth else None
        # Beyond the drawn levels a chain is not shown, and its cost grows with the depth of the call.
        callers = call.callers if parent is None or depth <= LEVELS else []
        if parent is not None and callers and tuple(callers[0][::2]) == (parent.file, parent.function):
            callers = []
        parent_thread = _MAIN if parent is None else parent.thread
        thread = "" if call.thread == parent_thread else call.thread
        if parent is not None and call.pid != parent.pid:
            thread = f"process {call.pid}"
        ending = "not ended" if call.duration is None else duration(call.duration)
        return head_line(call.function, call.file, call.line, callers=chain(callers), thread=thread, took=ending)

    def items_in(self, call: Any, depth: int) -> Iterator[Any]:
        """The lines and calls under a call: inputs, events, how it ended."""
        is_selected = self._tree.is_selected(call)
        inputs = call.args
        if is_selected:
            for name, value in inputs.items():
                yield input_line(name, value_line(value))
        events = [event for event in self._tree.events(call) if not _is_argument(event, call, inputs)]
        yield from self.items_of(events, depth + 1, inputs)
        if call.error is not None:
            yield raised_line(call.error)
        elif is_selected and (call.result is not None or call.has_result):
            yield result_line(value_line(call.result))

    def items_of(self, events: Sequence[Any], depth: int, inputs: dict[str, Any]) -> Iterator[Any]:
        """Events with repetitions folded; calls stay calls, which `walk` opens."""
        events_read, shapes = self._events_to_read(events)
        items = _Events(events_read, inputs)
        for group in groups(shapes):
            first = group.start + group.period
            yield from map(items.item, range(group.start, first if group.count > 1 else group.end))
            if group.count > 1:
                yield self._fold_line(items.events, group)
                yield from map(self._last_round(items, depth), range(group.end - group.period, group.end))
        if len(events) > len(events_read):
            yield missing_line(f"{len(events) - len(events_read):,} more, not looked at (`--full` shows all)")

    def _events_to_read(self, events: Sequence[Any]) -> tuple[list[Any], list[Hashable]]:
        """The events that the budget allows to read, and their shapes."""
        if not self._fold or len(events) < FEWEST:
            return list(events), [object() for _ in events]
        events_read: list[Any] = []
        shapes: list[Hashable] = []
        for event in events[:LOOKED_AT] if self._bounded else events:
            if self._bounded and self._shapes.exhausted and len(events_read) >= AT_LEAST:
                break
            events_read.append(event)
            shapes.append(object() if self._shapes.exhausted else self._shapes.of(event))
        return events_read, shapes

    def _fold_line(self, events: list[Any], group: Group) -> Line:
        """`… 98 more like it, 1.2 ms to 3.4 ms`."""
        hidden_count = group.count - 2
        phrase = "like it" if group.period == 1 else f"rounds like these {group.period}"
        hidden_events = events[group.start + group.period : group.end - group.period]
        calls = [event for event in hidden_events if is_call(event) and event.message is None]
        durations = [call.duration for call in calls if call.duration is not None]
        return missing_line(
            f"{hidden_count:,} more {phrase}"
            + (f", {duration_range(min(durations), max(durations))}" if durations else "")
        )

    def _last_round(self, items: _Events, depth: int) -> Any:
        """The last of a folded group: one line each, a call with its values behind its head."""

        def item(index: int) -> Line:
            event = items.events[index]
            if not is_call(event) or event.message is not None:
                return items.line(index)
            head = self.head(event, depth)
            inputs = [f"{printable(name)}: {value_line(value, width=40)}" for name, value in event.args.items()]
            result = [] if event.result is None else [f"{ARROW} {value_line(event.result, width=60)}"]
            values = " ".join(filter(None, [", ".join(inputs), *result]))
            return Line((*head.pieces, (f"  {values}", ""))) if values else head

        return item


class _Events:
    """The events of one call as items; each change is compared with the previous value of its name."""

    def __init__(self, events: list[Any], inputs: dict[str, Any]) -> None:
        self.events = events
        self._inputs = inputs
        self._previous_index: dict[int, int] = {}
        latest: dict[str, int] = {}
        for index, event in enumerate(events):
            if not is_call(event):
                if event.name in latest:
                    self._previous_index[index] = latest[event.name]
                latest[event.name] = index

    def item(self, index: int) -> Any:
        event = self.events[index]
        return event if is_call(event) and event.message is None else self.line(index)

    def line(self, index: int) -> Line:
        """The line of a change or a message."""
        event = self.events[index]
        if is_call(event):
            return message_line(event.message)
        before, device = self._value_before(index)
        change = change_line(before, fresh(event).value, devices=(device, _device(event)))
        return changed_line(event.name, event.line, change)

    def _value_before(self, index: int) -> tuple[Any, str | None]:
        """The value before a change, and its device, which is unknown for an input that was read back."""
        event = self.events[index]
        if index in self._previous_index:
            earlier = self.events[self._previous_index[index]]
            return fresh(earlier).value, _device(earlier)
        if event.name in self._inputs:
            return self._inputs[event.name], None if _device(event) is None else ""
        return DELETED, None


def _device(change: Any) -> str | None:
    """The device of a tensor from its summary, because a tensor read back from a run is on the CPU."""
    summary = getattr(change, "summary", None)
    return None if summary is None else summary.device


# ---- the whole tree


def tree_lines(tree: Tree, limit: int | None = LINES, *, full: bool = False) -> Iterator[Line]:
    """The lines of a tree with marks, at most `limit` (None or `full`: all); the last one says what is missing."""
    if full:
        limit = None
    steps = walk(tree, fold=not full, bounded=limit is not None)
    lasts: list[bool] = []
    for step in islice(steps, limit):
        del lasts[step.depth :]
        yield step.line.after(_prefix(lasts, step))
        lasts.append(step.last)
    if limit is not None and next(steps, None) is not None:
        yield missing_line(f"more; {len(tree):,} calls in all (`--full`, or `tree.text(full=True)`, shows everything)")


def _prefix(lasts: list[bool], step: Step) -> str:
    if not step.depth:
        return ""
    return margin([NOTHING if last else THROUGH for last in lasts[1:]] + [LAST if step.last else BRANCH])


def no_calls_text(tree: Tree) -> str:
    return "no call fits" if tree.filtered else "no calls were recorded"


def tree_text(tree: Tree, limit: int | None = LINES, *, full: bool = False, ascii: bool = False) -> str:
    """The tree as text."""
    text = "\n".join(line.text for line in tree_lines(tree, limit, full=full)) or no_calls_text(tree)
    return to_ascii(text) if ascii else text


def write_tree(tree: Tree, stream: Any, limit: int | None = LINES, *, full: bool = False, ascii: bool = False) -> None:
    """Write the tree to a stream line by line; for a terminal in colours and cut to its width."""
    pen = Pen(stream, ascii=ascii)
    has_lines = False
    for tree_line in tree_lines(tree, limit, full=full):
        stream.write(pen.render([tree_line]))
        has_lines = True
    if not has_lines:
        stream.write(no_calls_text(tree) + "\n")

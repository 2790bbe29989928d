"""The call tree as lines: what went into each call, what changed in it, what it called, and how it ended.

    transform  data.py:57  (loader.py:283 <- train.py:80)  12.3 ms
    ├─ video: uint8 (73, 640, 960, 3)
    ├─ video@61  shape (73, 640, 960, 3) → (73, 3, 640, 960)
    ├─ scale  data.py:12  3.4 ms
    │  ├─ x: uint8 (73, 3, 640, 960)
    │  └─ → float32 (73, 3, 640, 960)
    └─ → float32 (73, 3, 640, 960)

What repeats is folded (`fold`), and a long tree is cut; both are said where they happen.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from clew.records import DELETED
from clew.show.fold import FEWEST, Group, Shapes, fresh, groups, is_call
from clew.show.marks import (
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
    RESULT,
    SAID,
    THROUGH,
    TIME,
    VARIABLE,
    Line,
    Pen,
    line,
    margin,
    to_ascii,
)
from clew.show.text import duration, printable, shorten
from clew.show.values import change_line, value_line

if TYPE_CHECKING:
    from clew.history.tree import Tree

LINES = 200
LOOKED_AT = 5_000  # events of one call that are read to be folded
AT_LEAST = 20  # events that are shown of a call, however much was read before
CHAIN = 6  # callers named
ERROR_WIDTH = 200
_MAIN = "MainThread"


class Branches(Protocol):
    """What is drawn: some calls, and what is to be seen of each."""

    @property
    def roots(self) -> Sequence[Any]: ...

    def events(self, call: Any) -> Sequence[Any]:
        """Changes and calls, in the order they happened."""

    def is_selected(self, call: Any) -> bool:
        """Whether it is told in full; else only what it called is shown."""


def _is_argument(event: Any, call: Any, inputs: dict[str, Any]) -> bool:
    """Whether a change is only the argument, which is shown already."""
    name = getattr(event, "name", None)
    return name is not None and name in inputs and event.line == call.line


class OneCall:
    """A single call as a tree, with everything in it."""

    def __init__(self, call: Any) -> None:
        self.roots = [call]

    def events(self, call: Any) -> Sequence[Any]:
        events: Sequence[Any] = call.events
        return events

    def is_selected(self, call: Any) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the tree, and where it stands."""

    line: Line
    depth: int
    last: bool  # nothing follows it under the same call
    opens: bool = False  # a call, whose own lines follow one level deeper


# ---- single lines


def place(file: str, at: int) -> str:
    """`data.py:57`."""
    return f"{printable(file.replace(chr(92), '/').rpartition('/')[2])}:{at}"


def chain(callers: Sequence[Any]) -> str:
    """`a.py:283 <- b.py:57 <- c.py:80`, the nearest first."""
    named = [place(caller[0], caller[1]) for caller in callers[:CHAIN]]
    more = [f"{DOTS} {len(callers) - CHAIN} more"] if len(callers) > CHAIN else []
    return " <- ".join(named + more)


def head_line(function: str, file: str, at: int, *, callers: str = "", thread: str = "", took: str = "") -> Line:
    """`name  file.py:12  (a.py:283 <- b.py:57)  [thread]  12.3 ms`."""
    pieces: list[tuple[str, str]] = [(printable(function), NAME)]
    pieces += [(f"  {place(file, at)}", PLACE)] if file else []
    pieces += [(f"  ({callers})", PLACE)] if callers else []
    pieces += [(f"  [{printable(thread)}]", PLACE)] if thread else []
    pieces += [(f"  {took}", TIME)] if took else []
    return Line(tuple(pieces))


def input_line(name: str, value: str) -> Line:
    return line((printable(name), VARIABLE), f": {value}")


def changed_line(name: str, at: int, told: str) -> Line:
    """`video@575  uint8 → float32`."""
    return line((printable(name), VARIABLE), (f"@{at}", PLACE), f"  {told}")


def message_line(text: str) -> Line:
    return line((f"“{printable(text)}”", SAID))


def result_line(value: str, took: str = "") -> Line:
    return line((f"{ARROW} ", RESULT), value, (f"  {took}" if took else "", TIME))


def raised_line(error: str, took: str = "") -> Line:
    return line((f"raised {shorten(printable(error), ERROR_WIDTH)}", ERROR), (f"  {took}" if took else "", TIME))


def missing_line(text: str) -> Line:
    """What is not shown, said."""
    return line((f"{DOTS} {text}", MARKS))


def spread(shortest: float, longest: float) -> str:
    """`1.2 ms to 3.4 ms`."""
    low, high = duration(shortest), duration(longest)
    return low if low == high else f"{low} to {high}"


# ---- the walk


def walk(tree: Branches, *, fold: bool = True, bounded: bool = True) -> Iterator[Step]:
    """Every line in order, depth first and without recursion: recorded recursion may be deeper than ours may go."""
    drawing = _Drawing(tree, fold, bounded)
    open_ = [_Ahead(drawing.items_of(tree.roots, 0, {}))]
    while open_:
        top = open_[-1]
        if top.empty:
            open_.pop()
            continue
        item, depth = top.next(), len(open_) - 1
        if isinstance(item, Line):
            yield Step(item, depth, top.empty)
        else:
            inside = _Ahead(drawing.inside(item, depth))
            yield Step(drawing.head(item, depth), depth, top.empty, not inside.empty)
            open_.append(inside)


class _Ahead:
    """Items, one looked at ahead: the last one under a call has a mark of its own."""

    def __init__(self, items: Iterator[Any]) -> None:
        self._items = items
        self._coming = next(items, None)

    @property
    def empty(self) -> bool:
        return self._coming is None

    def next(self) -> Any:
        item, self._coming = self._coming, next(self._items, None)
        return item


class _Drawing:
    """The lines of one picture of a tree."""

    def __init__(self, tree: Branches, fold: bool, bounded: bool) -> None:
        self._tree = tree
        self._fold = fold
        self._bounded = bounded
        self._shapes = Shapes(tree.events) if bounded else Shapes(tree.events, math.inf)

    def head(self, call: Any, depth: int) -> Line:
        parent = call.parent if depth else None
        # Beyond the levels that are drawn nobody reads a chain, and finding it costs as much as the call is deep.
        callers = call.callers if parent is None or depth <= LEVELS else []
        if parent is not None and callers and tuple(callers[0][::2]) == (parent.file, parent.function):
            callers = []
        here = _MAIN if parent is None else parent.thread
        thread = "" if call.thread == here else call.thread
        if parent is not None and call.pid != parent.pid:
            thread = f"process {call.pid}"
        took = "not ended" if call.duration is None else duration(call.duration)
        return head_line(call.function, call.file, call.line, callers=chain(callers), thread=thread, took=took)

    def inside(self, call: Any, depth: int) -> Iterator[Any]:
        """Lines and calls under a call: inputs, what happened, how it ended."""
        told = self._tree.is_selected(call)
        inputs = call.args
        if told:
            for name, value in inputs.items():
                yield input_line(name, value_line(value))
        events = [event for event in self._tree.events(call) if not _is_argument(event, call, inputs)]
        yield from self.items_of(events, depth + 1, inputs)
        if call.error is not None:
            yield raised_line(call.error)
        elif told and (call.result is not None or call.has_result):
            yield result_line(value_line(call.result))

    def items_of(self, events: Sequence[Any], depth: int, inputs: dict[str, Any]) -> Iterator[Any]:
        """What happened, folded; calls as they are, for the walk to open."""
        looked, shapes = self._looked_at(events)
        told = _Told(looked, inputs)
        for group in groups(shapes):
            first = group.start + group.period
            yield from map(told.item, range(group.start, first if group.count > 1 else group.end))
            if group.count > 1:
                yield self._folded(told.events, group)
                yield from map(self._last(told, depth), range(group.end - group.period, group.end))
        if len(events) > len(looked):
            yield missing_line(f"{len(events) - len(looked):,} more, not looked at (`--full` shows all)")

    def _looked_at(self, events: Sequence[Any]) -> tuple[list[Any], list[Hashable]]:
        """The events, as many as are worth reading, and their shapes."""
        if not self._fold or len(events) < FEWEST:
            return list(events), [object() for _ in events]
        looked: list[Any] = []
        shapes: list[Hashable] = []
        for event in events[:LOOKED_AT] if self._bounded else events:
            if self._bounded and self._shapes.exhausted and len(looked) >= AT_LEAST:
                break
            looked.append(event)
            shapes.append(object() if self._shapes.exhausted else self._shapes.of(event))
        return looked, shapes

    def _folded(self, events: list[Any], group: Group) -> Line:
        """`… 98 more like it, 1.2 ms to 3.4 ms`."""
        hidden = group.count - 2
        what = "like it" if group.period == 1 else f"rounds like these {group.period}"
        inside = events[group.start + group.period : group.end - group.period]
        calls = [event for event in inside if is_call(event) and event.message is None]
        took = [call.duration for call in calls if call.duration is not None]
        return missing_line(f"{hidden:,} more {what}" + (f", {spread(min(took), max(took))}" if took else ""))

    def _last(self, told: _Told, depth: int) -> Any:
        """The last of a folded group: one line each, a call with its values behind its head."""

        def item(index: int) -> Line:
            event = told.events[index]
            if not is_call(event) or event.message is not None:
                return told.line(index)
            head = self.head(event, depth)
            inputs = [f"{printable(name)}: {value_line(value, width=40)}" for name, value in event.args.items()]
            result = [] if event.result is None else [f"{ARROW} {value_line(event.result, width=60)}"]
            values = " ".join(filter(None, [", ".join(inputs), *result]))
            return Line((*head.pieces, (f"  {values}", ""))) if values else head

        return item


class _Told:
    """The events of one call as items, each change against the value its name had before."""

    def __init__(self, events: list[Any], inputs: dict[str, Any]) -> None:
        self.events = events
        self._inputs = inputs
        self._before: dict[int, int] = {}
        latest: dict[str, int] = {}
        for index, event in enumerate(events):
            if not is_call(event):
                if event.name in latest:
                    self._before[index] = latest[event.name]
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
        told = change_line(before, fresh(event).value, devices=(device, _device(event)))
        return changed_line(event.name, event.line, told)

    def _value_before(self, index: int) -> tuple[Any, str | None]:
        """The value, and its device: of an input that was read back it is not known."""
        event = self.events[index]
        if index in self._before:
            earlier = self.events[self._before[index]]
            return fresh(earlier).value, _device(earlier)
        if event.name in self._inputs:
            return self._inputs[event.name], None if _device(event) is None else ""
        return DELETED, None


def _device(change: Any) -> str | None:
    """Where a tensor was: one that is read back from a run is on the cpu, its summary knows better."""
    summary = getattr(change, "summary", None)
    return None if summary is None else summary.device


# ---- the whole tree


def tree_lines(tree: Tree, limit: int | None = LINES, *, full: bool = False) -> Iterator[Line]:
    """The tree with its marks, at most `limit` lines (None, or `full`: all); the last one says what is missing."""
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


def nothing(tree: Tree) -> str:
    return "no call fits" if tree.filtered else "no calls were recorded"


def tree_text(tree: Tree, limit: int | None = LINES, *, full: bool = False, ascii: bool = False) -> str:
    """The tree as text."""
    text = "\n".join(one.text for one in tree_lines(tree, limit, full=full)) or nothing(tree)
    return to_ascii(text) if ascii else text


def write_tree(tree: Tree, stream: Any, limit: int | None = LINES, *, full: bool = False, ascii: bool = False) -> None:
    """The tree to a stream, line by line: in colours and cut to its width if it is a terminal."""
    pen = Pen(stream, ascii=ascii)
    written = False
    for one in tree_lines(tree, limit, full=full):
        stream.write(pen.written([one]))
        written = True
    if not written:
        stream.write(nothing(tree) + "\n")

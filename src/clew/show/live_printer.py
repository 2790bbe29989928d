"""Prints the call tree while the program runs.

    program's threads                                     whichever thread gets the lock
    begin, change, message, end ─► text at once ─► queue ─► tree of open calls, folding ─► one write

Values become text inside the method that receives them; none is kept. No thread waits: the thread that gets the lock
writes the whole queue, and the others continue. After an error, a stream is never written to again.

A line continues the call of the line above it. If it does not, because generators, tasks or threads take turns, it
names its call: `└─ → 'c0'  51 ms  [fetch #2]` is the second call of `fetch` that was shown.
"""

from __future__ import annotations

import atexit
import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from clew import trouble
from clew.show import tree
from clew.show.tree_lines import BRANCH, LAST, PLACE, THROUGH, Line, Pen, line, margin
from clew.text.brief import duration, printable
from clew.text.values import Look

WAITING = 20_000  # events that may wait for a slow terminal; further ones are only counted
OPEN = 20_000  # calls that may be open at once
HELD_LINES = 300  # lines of a call that are held back for comparison; a longer call is shown while it runs
HELD_SECONDS = 2.0  # likewise, so that a long call is not hidden until it ends
COUNTED_SECONDS = 10.0  # after this time a count is shown even if more equal calls follow
KINDS = 64  # shapes remembered per kind of event under one call

_MAIN = "MainThread"


class _PlacedLine(NamedTuple):
    """A line to be printed, and the call it belongs to."""

    line: Line
    call: _OpenCall
    is_head: bool = False


_PrintLine = Callable[[_PlacedLine], None]


@dataclass(slots=True)
class _FoldedEvents:
    """Equal events that were counted instead of shown."""

    label: str
    since: float
    count: int = 0
    shortest: float = math.inf
    longest: float = -math.inf
    last: str = ""

    def add(self, last: str, seconds: float | None) -> None:
        self.count += 1
        self.last = last
        if seconds is not None:
            self.shortest, self.longest = min(self.shortest, seconds), max(self.longest, seconds)

    def line(self, directly_above: bool) -> Line:
        """`… 98 more like it, 1.2 ms to 3.4 ms, last → 0.25`."""
        phrase = "like it" if directly_above else f"like {self.label} above"
        durations = [tree.duration_range(self.shortest, self.longest)] if self.shortest <= self.longest else []
        last_event = [f"last {self.last}"] if self.last else []
        return tree.missing_line(", ".join([f"{self.count:,} more {phrase}", *durations, *last_event]))


class _Sink:
    """Receives the lines of a call, and holds them back until it is known whether the call equals an earlier one."""

    def __init__(
        self, outer: _Sink | None, print_line: _PrintLine, take_counts: Callable[[], list[_PlacedLine]]
    ) -> None:
        self._outer = outer
        self._print_line = print_line
        self._take_counts = take_counts  # gives earlier counts, which are shown first if this call is shown after all
        self._lines: list[_PlacedLine] | None = None if outer is None else []
        self._since = time.monotonic()

    @property
    def is_holding(self) -> bool:
        return self._lines is not None

    def write(self, *lines: _PlacedLine) -> None:
        """Pass lines to the next sink that holds back, or print them. Not recursive: calls may be deeply nested."""
        sink: _Sink | None = self
        while sink is not None:
            if sink._lines is not None:
                sink._lines += lines
                if len(sink._lines) <= HELD_LINES and time.monotonic() - sink._since <= HELD_SECONDS:
                    return
                lines = sink._take()
            sink = sink._outer
        for placed_line in lines:
            self._print_line(placed_line)

    def release(self) -> None:
        """Show the lines held back, and all that follow."""
        self.write(*self._take())

    def _take(self) -> tuple[_PlacedLine, ...]:
        lines, self._lines = self._lines or [], None
        return (*self._take_counts(), *lines)


@dataclass(slots=True)
class _OpenCall:
    """A call that has not ended, and what was shown under it."""

    sink: _Sink
    depth: int
    thread: str
    label: str
    kind: Hashable = None
    parent: _OpenCall | None = None
    shape: int = 0  # a hash over everything that happened in it so far
    shown: dict[Hashable, list[Hashable]] = field(default_factory=dict)
    folded: dict[Hashable, _FoldedEvents] = field(default_factory=dict)
    latest: Hashable = None  # the kind of the event shown last
    pauses: bool = False  # a generator or coroutine: other calls may run before it ends
    number: int = 0  # its number among the shown calls of this function that pause

    def write(self, line: Line, mark: str = BRANCH) -> None:
        self.sink.write(self._placed(line, mark))

    def _placed(self, line: Line, mark: str = BRANCH) -> _PlacedLine:
        marks = [THROUGH] * self.depth + [mark] if self.depth >= 0 else []
        return _PlacedLine(line.after(margin(marks)), self)

    def turn_name(self) -> str:
        """What distinguishes it from calls it takes turns with: the pausing call around it, or its thread."""
        call: _OpenCall | None = self
        while call is not None and not (call.pauses and call.number):
            call = call.parent
        return self.thread if call is None else f"{call.label} #{call.number}"

    def take_counts(self, kind: Hashable = None) -> list[_PlacedLine]:
        """Remove the counts of one kind, or of all, and return them as lines."""
        kinds = [kind] if kind is not None else list(self.folded)
        counts = [(key, self.folded.pop(key)) for key in kinds if key in self.folded]
        # In a call that pauses, the line above may belong to another call.
        only_one = len(counts) == 1 and not self.pauses
        return [
            self._placed(folded.line(only_one and self.latest == key and len(self.shown[key]) == 1))
            for key, folded in counts
        ]

    def flush(self, kind: Hashable = None) -> None:
        self.sink.write(*self.take_counts(kind))

    def note_shown(self, kind: Hashable, shape: Hashable) -> list[_PlacedLine]:
        """Note that an event of this kind is shown next; returns the counts that must be shown before it."""
        lines = self.take_counts(kind if kind in self.shown else None)
        shapes = self.shown.setdefault(kind, [])
        if shape is not None and shape not in shapes:
            shapes.append(shape)
            del shapes[:-KINDS]
        self.latest = kind
        return lines

    def was_shown(self, kind: Hashable, shape: Hashable) -> bool:
        return shape in self.shown.get(kind, ())

    def fold(self, kind: Hashable, label: str, last: str, seconds: float | None = None) -> None:
        current_time = time.monotonic()
        folded = self.folded.setdefault(kind, _FoldedEvents(label, current_time))
        folded.add(last, seconds)
        if current_time - folded.since > COUNTED_SECONDS:
            self.flush(kind)


class _Target:
    """A stream that is written to until it raises an error."""

    def __init__(self, stream: Callable[[], Any], *, ascii: bool, plain: bool) -> None:
        self._stream = stream
        self._ascii = ascii
        self._plain = plain
        self._pen: Pen | None = None
        self.dead = False

    def write(self, lines: list[Line]) -> None:
        try:
            stream = self._stream()
            if stream is None:  # a program without stderr
                return
            if self._pen is None or self._pen.stream is not stream:
                self._pen = Pen(stream, ascii=self._ascii, plain=self._plain)
            stream.write(self._pen.render(lines))
            flush = getattr(stream, "flush", None)
            if flush is not None:
                flush()
        except (OSError, ValueError):  # closed, a broken pipe, a full disk
            self.dead = True
        except RuntimeError:
            pass  # a signal arrived while the program itself was writing to it; these lines are lost


class LivePrinter:
    """Prints calls as they happen: to `stream` (stderr if neither is given), and to `file`, a path or a text stream."""

    def __init__(self, stream: Any = None, *, file: Any = None, ascii: bool = False, stats: bool = False) -> None:
        self._stats = stats
        self.destination = _destination(stream if file is None else file)
        self._targets: list[_Target] = []
        if stream is not None or file is None:
            self._targets.append(_Target(lambda: sys.stderr if stream is None else stream, ascii=ascii, plain=False))
        if file is not None:
            file_stream = _open_stream(file)
            self._targets += [_Target(lambda: file_stream, ascii=ascii, plain=True)] if file_stream is not None else []
        self._reset()
        atexit.register(self.close)

    def _reset(self) -> None:
        """Set up empty state; in a forked child again, because open calls and a held lock belong to the parent."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._queue: deque[Callable[[], None]] = deque()
        self._dropped = 0
        self._open_calls: dict[int, _OpenCall] = {}
        self._pending_lines: list[Line] = []
        self._last_thread = _MAIN
        self._calls_above: dict[int, _OpenCall] = {}  # by depth: the calls around the line printed last
        self._paused_counts: dict[Hashable, int] = {}  # by function: how many pausing calls were shown
        self._top = _OpenCall(_Sink(None, self._print, list), -1, _MAIN, "")

    # ---- what the probe calls

    def begin(self, node: Any) -> None:
        """Print the head and inputs of a call that began."""
        self._submit(self._prepare_begin, node)

    def change(self, node: Any, name: str, line: int, before: Any, after: Any) -> None:
        """Print the change of a name in a call, at a line."""
        self._submit(self._prepare_change, node, name, line, before, after)

    def message(self, node: Any, text: str) -> None:
        """Print a message of the user; `node` is None outside of any call."""
        self._submit(self._prepare_message, node, text)

    def end(self, node: Any) -> None:
        """Print the result or exception of a call that ended."""
        self._submit(self._prepare_end, node)

    def close(self) -> None:
        """Print the remaining counts. More events may follow."""
        self._submit(self._prepare_close)

    def _submit(self, prepare: Callable[..., Callable[[], None]], *arguments: Any) -> None:
        """Make the text now, and write it as soon as no other thread is writing. No exception reaches the program."""
        if all(target.dead for target in self._targets):
            return
        try:
            if os.getpid() != self._pid:
                self._reset()
            if len(self._queue) >= WAITING:
                self._dropped += 1
                return
            self._queue.append(prepare(*arguments))
            self._drain()
        except RecursionError:
            self._dropped += 1  # the program is at its own limit, and will raise the same error itself
        except Exception as error:
            self._targets = []
            trouble.report("live", "the live tree failed; the recording goes on", cause=error, internal=True)

    def _drain(self) -> None:
        while self._queue and self._lock.acquire(blocking=False):
            try:
                while self._queue:
                    self._queue.popleft()()
                self._write()
            finally:
                self._lock.release()

    def _write(self) -> None:
        if self._dropped:
            count, self._dropped = self._dropped, 0
            self._pending_lines.append(
                tree.missing_line(f"{count:,} lines not shown: they came faster than they were written")
            )
        lines, self._pending_lines = self._pending_lines, []
        if lines:
            for target in self._targets:
                if not target.dead:
                    target.write(lines)

    def _print(self, placed_line: _PlacedLine) -> None:
        """Queue a line for output, with its thread if that differs from the line before, and with its call if its place
        does not show it."""
        line, call, labels = placed_line.line, placed_line.call, []
        call_above = call.parent if placed_line.is_head else call
        if (
            call_above is not None
            and call_above.depth >= 0
            and self._calls_above.get(call_above.depth) is not call_above
        ):
            labels.append(call_above.turn_name())
        deepest = -1 if call_above is None else call_above.depth - bool(labels)
        self._calls_above = {depth: head for depth, head in self._calls_above.items() if depth <= deepest}
        if call.thread != self._last_thread:
            self._last_thread = call.thread
            labels.append(call.thread)
        if placed_line.is_head:
            self._calls_above[call.depth] = call
            if call.pauses:
                call.number = self._paused_counts[call.kind] = self._paused_counts.get(call.kind, 0) + 1
                labels += [call.turn_name()] if call.number > 1 else []
        for label in dict.fromkeys(f"[{printable(label)}]" for label in labels):
            line = line if label in line.text else Line((*line.pieces, (f"  {label}", PLACE)))
        self._pending_lines.append(line)

    # ---- in the program's thread: turn values into text, and return what the writing thread must do

    def _prepare_begin(self, node: Any) -> Callable[[], None]:
        looks = [(name, Look(value, stats=self._stats)) for name, value in node.inputs]
        inputs = [tree.input_line(name, look.line()) for name, look in looks]
        shape = tuple((name, look.shape()) for name, look in looks)
        key, parent = id(node), node.parent
        parent_key = None if parent is None else id(parent)
        head, kind = _head_line(node), (node.function, node.file, node.line)
        opened = _OpenCall(self._top.sink, node.depth, str(node.thread), printable(node.function), kind)
        opened.pauses = node.pauses
        return lambda: self._open_call(key, parent_key, opened, head, inputs, hash(shape))

    def _prepare_change(self, node: Any, name: str, line_number: int, before: Any, after: Any) -> Callable[[], None]:
        look = Look(after, stats=self._stats)
        change, shape, key = look.since(before), look.shape(), id(node)
        changed_line, kind = tree.changed_line(name, line_number, change), ("change", name, line_number)
        return lambda: self._show_change(key, kind, shape, changed_line, change)

    def _prepare_message(self, node: Any, text: str) -> Callable[[], None]:
        message, key = tree.message_line(text), None if node is None else id(node)
        return lambda: self._show_message(key, message)

    def _prepare_end(self, node: Any) -> Callable[[], None]:
        key, seconds = id(node), node.duration
        if (error := node.error) is not None:
            end_line = tree.raised_line(str(error), duration(seconds))
            return lambda: self._close_call(key, None, end_line, "", seconds)
        look = Look(node.result, stats=self._stats)
        value = look.line() if node.returned else ""
        end_line = tree.result_line(value, duration(seconds)) if node.returned else line(f"ended  {duration(seconds)}")
        shape = (node.returned, look.shape())
        return lambda: self._close_call(key, shape, end_line, f"→ {value}" if value else "", seconds)

    def _prepare_close(self) -> Callable[[], None]:
        return self._top.flush

    # ---- in the thread that holds the lock: the tree of open calls

    def _call_of(self, key: int | None) -> _OpenCall:
        return self._top if key is None else self._open_calls.get(key, self._top)

    def _open_call(
        self, key: int, parent_key: int | None, call: _OpenCall, head: Line, inputs: list[Line], shape: int
    ) -> None:
        parent = call.parent = self._call_of(parent_key)
        call.shape = shape
        if call.kind in parent.shown:  # held back: it may equal an earlier call
            call.sink = _Sink(parent.sink, self._print, lambda: parent.note_shown(call.kind, None))
        else:
            call.sink = parent.sink
            parent.sink.write(*parent.note_shown(call.kind, None))
        self._open_calls[key] = call
        if len(self._open_calls) > OPEN:
            del self._open_calls[next(iter(self._open_calls))]
        marks = [THROUGH] * (call.depth - 1) + [BRANCH] if call.depth else []
        call.sink.write(_PlacedLine(head.after(margin(marks)), call, is_head=True))
        for input_line in inputs:
            call.write(input_line)

    def _show_change(self, key: int, kind: Hashable, shape: Hashable, line: Line, change: str) -> None:
        call = self._call_of(key)
        call.shape = hash((call.shape, kind, shape))
        if call.was_shown(kind, shape):
            call.fold(kind, f"{kind[1]}@{kind[2]}", change)  # type: ignore[index]
        else:
            call.sink.write(*call.note_shown(kind, shape))
            call.write(line)

    def _show_message(self, key: int | None, line: Line) -> None:
        self._call_of(key).write(line)

    def _close_call(self, key: int, shape: Hashable | None, line: Line, last: str, seconds: float) -> None:
        """Fold or show a call that ended; `shape` is None if it raised, and then it is always shown."""
        call = self._open_calls.pop(key, None)
        if call is None or call.parent is None:
            return
        call.flush()
        call.write(line, LAST)
        parent = call.parent
        whole_shape = None if shape is None else hash((call.shape, shape))
        parent.shape = hash((parent.shape, call.kind, whole_shape))
        is_held = call.sink is not parent.sink and call.sink.is_holding
        if is_held and whole_shape is not None and parent.was_shown(call.kind, whole_shape):
            parent.fold(call.kind, call.label, last, seconds)
            return
        parent.sink.write(*parent.note_shown(call.kind, whole_shape))
        if is_held:
            call.sink.release()


def _destination(file: Any) -> Any:
    """A key that is equal for printers writing to the same place; None for stderr."""
    if file is None or file is sys.stderr:
        return None
    if hasattr(file, "write"):
        return getattr(file, "destination", id(file))
    try:
        return os.path.abspath(os.fspath(file))
    except (OSError, TypeError):
        return id(file)


def _open_stream(file: Any) -> Any:
    """The text stream to write to; a path is opened for appending."""
    if hasattr(file, "write"):
        return file
    try:
        return open(file, "a", encoding="utf-8")
    except (OSError, ValueError, TypeError) as error:
        trouble.report(f"live:{file}", f"the live tree cannot be written to {file}", "Give another file=.", error)
        return None


def _head_line(node: Any) -> Line:
    parent = node.parent
    callers = list(node.callers)
    if parent is not None and callers and (callers[0][0], callers[0][2]) == (parent.file, parent.function):
        callers = []
    thread = str(node.thread)
    same_thread = thread == (_MAIN if parent is None else str(parent.thread))
    chain = tree.chain(callers)
    return tree.head_line(node.function, node.file, node.line, callers=chain, thread="" if same_thread else thread)

"""The call tree while the program runs.

    program's threads                                     whoever comes first
    begin, change, message, end ─► text at once ─► queue ─► tree of open calls, folding ─► one write

Values become text inside the method that is given them; none is kept. Nobody waits: the thread that finds the lock free
writes what all of them have put into the queue, the others go on. A stream that fails is left alone for good.

A line goes on where the line above it was. Where it does not, because generators, tasks or threads take turns, it names
its call: `└─ → 'c0'  51 ms  [fetch #2]` is the second call of `fetch` that was shown.
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
from clew.show.marks import BRANCH, LAST, PLACE, THROUGH, Line, Pen, line, margin
from clew.show.text import duration, printable
from clew.show.values import Look

WAITING = 20_000  # events that may wait for a slow terminal; those beyond are counted
OPEN = 20_000  # calls that may be open at once
HELD_LINES = 300  # of a call that is held back to be compared; a longer one is shown as it goes on
HELD_SECONDS = 2.0  # likewise: a long call is not hidden until it ends
COUNTED_SECONDS = 10.0  # after which a count is told though the run of equal calls goes on
KINDS = 64  # shapes remembered of one kind under one call

_MAIN = "MainThread"


class _Told(NamedTuple):
    """A line to be printed, and the call it is about."""

    line: Line
    call: _Open
    is_head: bool = False


_Print = Callable[[_Told], None]


@dataclass(slots=True)
class _Folded:
    """Equal events that are not shown."""

    label: str
    since: float
    count: int = 0
    shortest: float = math.inf
    longest: float = -math.inf
    last: str = ""

    def add(self, last: str, took: float | None) -> None:
        self.count += 1
        self.last = last
        if took is not None:
            self.shortest, self.longest = min(self.shortest, took), max(self.longest, took)

    def line(self, nearest: bool) -> Line:
        """`… 98 more like it, 1.2 ms to 3.4 ms, last → 0.25`."""
        what = "like it" if nearest else f"like {self.label} above"
        spread = [tree.spread(self.shortest, self.longest)] if self.shortest <= self.longest else []
        last = [f"last {self.last}"] if self.last else []
        return tree.missing_line(", ".join([f"{self.count:,} more {what}", *spread, *last]))


class _Sink:
    """Where the lines of a call go: held back until it is known whether it is like the one before, or outwards."""

    def __init__(self, outer: _Sink | None, printed: _Print, counted: Callable[[], list[_Told]]) -> None:
        self._outer = outer
        self._printed = printed
        self._counted = counted  # what was counted before, to be said when this one is shown after all
        self._lines: list[_Told] | None = None if outer is None else []
        self._since = time.monotonic()

    @property
    def held(self) -> bool:
        return self._lines is not None

    def write(self, *lines: _Told) -> None:
        """To the next sink that holds back, or out. A loop, because calls may be nested as deep as Python goes."""
        sink: _Sink | None = self
        while sink is not None:
            if sink._lines is not None:
                sink._lines += lines
                if len(sink._lines) <= HELD_LINES and time.monotonic() - sink._since <= HELD_SECONDS:
                    return
                lines = sink._taken()
            sink = sink._outer
        for one in lines:
            self._printed(one)

    def release(self) -> None:
        """What was held back is shown, and what follows too."""
        self.write(*self._taken())

    def _taken(self) -> tuple[_Told, ...]:
        lines, self._lines = self._lines or [], None
        return (*self._counted(), *lines)


@dataclass(slots=True)
class _Open:
    """A call that has begun, and what was shown under it."""

    sink: _Sink
    depth: int
    thread: str
    label: str
    kind: Hashable = None
    parent: _Open | None = None
    shape: int = 0  # of all that happened in it so far
    shown: dict[Hashable, list[Hashable]] = field(default_factory=dict)
    folded: dict[Hashable, _Folded] = field(default_factory=dict)
    latest: Hashable = None  # the kind of what was shown last
    pauses: bool = False  # others may go on before it ends
    number: int = 0  # of the calls of this function that pause and were shown: the how manieth it is

    def write(self, one: Line, mark: str = BRANCH) -> None:
        self.sink.write(self._under(one, mark))

    def _under(self, one: Line, mark: str = BRANCH) -> _Told:
        marks = [THROUGH] * self.depth + [mark] if self.depth >= 0 else []
        return _Told(one.after(margin(marks)), self)

    def who(self) -> str:
        """What tells it from the calls that take turns with it: the call that pauses in which it is, or its thread."""
        call: _Open | None = self
        while call is not None and not (call.pauses and call.number):
            call = call.parent
        return self.thread if call is None else f"{call.label} #{call.number}"

    def counted(self, kind: Hashable = None) -> list[_Told]:
        """What was not shown, said: of one kind, or of all."""
        kinds = [kind] if kind is not None else list(self.folded)
        found = [(key, self.folded.pop(key)) for key in kinds if key in self.folded]
        alone = len(found) == 1
        alone = alone and not self.pauses  # "it" would be what another call has shown meanwhile
        return [self._under(one.line(alone and self.latest == key and len(self.shown[key]) == 1)) for key, one in found]

    def flush(self, kind: Hashable = None) -> None:
        self.sink.write(*self.counted(kind))

    def shows(self, kind: Hashable, shape: Hashable) -> list[_Told]:
        """Something of this kind is about to be shown. Gives the counts that it would part from what they count."""
        lines = self.counted(kind if kind in self.shown else None)
        shapes = self.shown.setdefault(kind, [])
        if shape is not None and shape not in shapes:
            shapes.append(shape)
            del shapes[:-KINDS]
        self.latest = kind
        return lines

    def folds(self, kind: Hashable, shape: Hashable) -> bool:
        return shape in self.shown.get(kind, ())

    def fold(self, kind: Hashable, label: str, last: str, took: float | None = None) -> None:
        now = time.monotonic()
        counted = self.folded.setdefault(kind, _Folded(label, now))
        counted.add(last, took)
        if now - counted.since > COUNTED_SECONDS:
            self.flush(kind)


class _Target:
    """A stream that is written to until it fails."""

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
            stream.write(self._pen.written(lines))
            flush = getattr(stream, "flush", None)
            if flush is not None:
                flush()
        except (OSError, ValueError):  # closed, a broken pipe, a full disk
            self.dead = True
        except RuntimeError:
            pass  # a signal came while the program itself was writing here: these lines cannot be


class LivePrinter:
    """Prints calls as they happen: to `stream` (stderr if neither is given), and to `file`, a path or a text stream."""

    def __init__(self, stream: Any = None, *, file: Any = None, ascii: bool = False, stats: bool = False) -> None:
        self._stats = stats
        self.destination = _destination(stream if file is None else file)
        self._targets: list[_Target] = []
        if stream is not None or file is None:
            self._targets.append(_Target(lambda: sys.stderr if stream is None else stream, ascii=ascii, plain=False))
        if file is not None:
            opened = _opened(file)
            self._targets += [_Target(lambda: opened, ascii=ascii, plain=True)] if opened is not None else []
        self._begin_afresh()
        atexit.register(self.close)

    def _begin_afresh(self) -> None:
        """Also in a forked child: what its parent had open, and a lock one of its threads held, are not the child's."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._queue: deque[Callable[[], None]] = deque()
        self._dropped = 0
        self._open: dict[int, _Open] = {}
        self._out: list[Line] = []
        self._last_thread = _MAIN
        self._heads: dict[int, _Open] = {}  # by depth: the calls in which the line printed last stands
        self._numbers: dict[Hashable, int] = {}  # by function: how many calls that pause were shown
        self._top = _Open(_Sink(None, self._print, list), -1, _MAIN, "")

    # ---- what the probe calls

    def begin(self, node: Any) -> None:
        """A call began: its head and its inputs."""
        self._guarded(self._began, node)

    def change(self, node: Any, name: str, line: int, before: Any, now: Any) -> None:
        """A name changed in it, at a line."""
        self._guarded(self._changed, node, name, line, before, now)

    def message(self, node: Any, text: str) -> None:
        """A line of the user's own. `node` may be None: outside of any call."""
        self._guarded(self._said, node, text)

    def end(self, node: Any) -> None:
        """It returned or raised."""
        self._guarded(self._ended, node)

    def close(self) -> None:
        """Says what is still only counted. More may follow."""
        self._guarded(self._closed)

    def _guarded(self, act: Callable[..., Callable[[], None]], *given: Any) -> None:
        """Makes the text now, and writes it as soon as nobody else writes. Nothing is raised into the program."""
        if all(target.dead for target in self._targets):
            return
        try:
            if os.getpid() != self._pid:
                self._begin_afresh()
            if len(self._queue) >= WAITING:
                self._dropped += 1
                return
            self._queue.append(act(*given))
            self._drain()
        except RecursionError:
            self._dropped += 1  # the program is at its own limit, and will see the same error itself
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
            self._out.append(tree.missing_line(f"{count:,} lines not shown: they came faster than they were written"))
        lines, self._out = self._out, []
        if lines:
            for target in self._targets:
                if not target.dead:
                    target.write(lines)

    def _print(self, told: _Told) -> None:
        """A line that is to be seen now; with its thread, where that is another than the line before, and with what
        it belongs to, where its place does not say that."""
        one, call, marks = told.line, told.call, []
        above = call.parent if told.is_head else call
        if above is not None and above.depth >= 0 and self._heads.get(above.depth) is not above:
            marks.append(above.who())
        inside = -1 if above is None else above.depth - bool(marks)
        self._heads = {depth: head for depth, head in self._heads.items() if depth <= inside}
        if call.thread != self._last_thread:
            self._last_thread = call.thread
            marks.append(call.thread)
        if told.is_head:
            self._heads[call.depth] = call
            if call.pauses:
                call.number = self._numbers[call.kind] = self._numbers.get(call.kind, 0) + 1
                marks += [call.who()] if call.number > 1 else []
        for mark in dict.fromkeys(f"[{printable(mark)}]" for mark in marks):
            one = one if mark in one.text else Line((*one.pieces, (f"  {mark}", PLACE)))
        self._out.append(one)

    # ---- in the thread of the program: values become text, and what is to be done with it

    def _began(self, node: Any) -> Callable[[], None]:
        looks = [(name, Look(value, stats=self._stats)) for name, value in node.inputs]
        inputs = [tree.input_line(name, look.line()) for name, look in looks]
        shape = tuple((name, look.shape()) for name, look in looks)
        key, parent = id(node), node.parent
        above = None if parent is None else id(parent)
        head, kind = _head(node), (node.function, node.file, node.line)
        opened = _Open(self._top.sink, node.depth, str(node.thread), printable(node.function), kind)
        opened.pauses = node.pauses
        return lambda: self._open_call(key, above, opened, head, inputs, hash(shape))

    def _changed(self, node: Any, name: str, at: int, before: Any, now: Any) -> Callable[[], None]:
        look = Look(now, stats=self._stats)
        told, shape, key = look.since(before), look.shape(), id(node)
        one, kind = tree.changed_line(name, at, told), ("change", name, at)
        return lambda: self._show_change(key, kind, shape, one, told)

    def _said(self, node: Any, text: str) -> Callable[[], None]:
        one, key = tree.message_line(text), None if node is None else id(node)
        return lambda: self._show_message(key, one)

    def _ended(self, node: Any) -> Callable[[], None]:
        key, took = id(node), node.duration
        if (error := node.error) is not None:
            one = tree.raised_line(str(error), duration(took))
            return lambda: self._close_call(key, None, one, "", took)
        look = Look(node.result, stats=self._stats)
        value = look.line() if node.returned else ""
        one = tree.result_line(value, duration(took)) if node.returned else line(f"ended  {duration(took)}")
        shape = (node.returned, look.shape())
        return lambda: self._close_call(key, shape, one, f"→ {value}" if value else "", took)

    def _closed(self) -> Callable[[], None]:
        return self._top.flush

    # ---- by whoever holds the lock: the tree of open calls

    def _place(self, key: int | None) -> _Open:
        return self._top if key is None else self._open.get(key, self._top)

    def _open_call(self, key: int, above: int | None, call: _Open, head: Line, inputs: list[Line], shape: int) -> None:
        parent = call.parent = self._place(above)
        call.shape = shape
        if call.kind in parent.shown:  # held back: it may be one of many
            call.sink = _Sink(parent.sink, self._print, lambda: parent.shows(call.kind, None))
        else:
            call.sink = parent.sink
            parent.sink.write(*parent.shows(call.kind, None))
        self._open[key] = call
        if len(self._open) > OPEN:
            del self._open[next(iter(self._open))]
        marks = [THROUGH] * (call.depth - 1) + [BRANCH] if call.depth else []
        call.sink.write(_Told(head.after(margin(marks)), call, is_head=True))
        for one in inputs:
            call.write(one)

    def _show_change(self, key: int, kind: Hashable, shape: Hashable, one: Line, told: str) -> None:
        call = self._place(key)
        call.shape = hash((call.shape, kind, shape))
        if call.folds(kind, shape):
            call.fold(kind, f"{kind[1]}@{kind[2]}", told)  # type: ignore[index]
        else:
            call.sink.write(*call.shows(kind, shape))
            call.write(one)

    def _show_message(self, key: int | None, one: Line) -> None:
        self._place(key).write(one)

    def _close_call(self, key: int, shape: Hashable | None, one: Line, last: str, took: float) -> None:
        """`shape` None: it raised, and is shown whatever came before."""
        call = self._open.pop(key, None)
        if call is None or call.parent is None:
            return
        call.flush()
        call.write(one, LAST)
        parent = call.parent
        whole = None if shape is None else hash((call.shape, shape))
        parent.shape = hash((parent.shape, call.kind, whole))
        held = call.sink is not parent.sink and call.sink.held
        if held and whole is not None and parent.folds(call.kind, whole):
            parent.fold(call.kind, call.label, last, took)
            return
        parent.sink.write(*parent.shows(call.kind, whole))
        if held:
            call.sink.release()


def _destination(file: Any) -> Any:
    """Equal for printers that write to the same place; None is stderr."""
    if file is None or file is sys.stderr:
        return None
    if hasattr(file, "write"):
        return getattr(file, "destination", id(file))
    try:
        return os.path.abspath(os.fspath(file))
    except (OSError, TypeError):
        return id(file)


def _opened(file: Any) -> Any:
    """The text stream to write to; a path is opened to be written on at its end."""
    if hasattr(file, "write"):
        return file
    try:
        return open(file, "a", encoding="utf-8")
    except (OSError, ValueError, TypeError) as error:
        trouble.report(f"live:{file}", f"the live tree cannot be written to {file}", "Give another file=.", error)
        return None


def _head(node: Any) -> Line:
    parent = node.parent
    callers = list(node.callers)
    if parent is not None and callers and (callers[0][0], callers[0][2]) == (parent.file, parent.function):
        callers = []
    thread = str(node.thread)
    same = thread == (_MAIN if parent is None else str(parent.thread))
    chain = tree.chain(callers)
    return tree.head_line(node.function, node.file, node.line, callers=chain, thread="" if same else thread)

"""Tensor Tracker's face: `from clew.compat.ttracker import auto_diff, var_tracker, logger, h4logger, log2file`.

┌── [data.py:57] function [Dataset.sample] called from fetch:283 (loader.py:283 <- train.py:80)
├─ input [Var] index@0 value: 113
│   ┌── [data.py:12] function [decode] called from sample:60 (data.py:60 <- loader.py:283 <- train.py:80)
│   ├─ input [Var] path@0 value: 'a.mp4'
│   │   ├─ [Tensor] video@14 → shape=(73, 640, 960, 3) | dtype=uint8
│   │   └─ output shape=(73, 640, 960, 3)
│   ├─ [Tensor] video@60 → shape=(73, 640, 960, 3) | dtype=uint8
│   └─ output shape=(73, 640, 960, 3)
"""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from datetime import datetime
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any

from clew import env, trouble
from clew.errors import OptionError
from clew.probes.follow import Decorated, Follower, following
from clew.probes.follow.call_contexts import callers_of
from clew.probes.follow.live_telling import Shown, TellingTrace
from clew.probes.follow.messages import put
from clew.recorder.call_log import here
from clew.records import DELETED, NotKept
from clew.show.tree import chain, place
from clew.text.brief import printable
from clew.text.values import Look, value_line

_CALLERS = 3  # named of the chain, as Tensor Tracker does
_NODES = 10_000  # calls whose arguments are remembered at once: some are never ended
_COUNTED_IDS = frozenset(map(id, (list, tuple, dict, set, frozenset, deque, OrderedDict, defaultdict, Counter)))
_LEVEL, _OPEN, _BRANCH, _LAST = "│   ", "┌── ", "├─ ", "└─ "
_MARKS = ("├", "└", "┌", "│")

#: Set while a line is on its way to the handlers: what a handler does is not told again.
_writing: ContextVar[bool] = ContextVar("clew_ttracker_writing", default=False)


# ---- where the lines go

logger = logging.getLogger("ttracker")
logger.setLevel(logging.INFO)
logger.propagate = False  # the root's handlers have lines of their own, among which a tree would be lost


class _Stderr(logging.Handler):
    """Writes to stderr for as long as it is the only handler."""

    def emit(self, record: logging.LogRecord) -> None:
        if logger.handlers == [self] and sys.stderr is not None:
            try:
                sys.stderr.write(self.format(record) + "\n")
            except (OSError, ValueError):
                pass  # closed, or a broken pipe: the recording goes on


if not logger.handlers:  # the module may be loaded again
    logger.addHandler(_Stderr())


class ThreadFileHandler(logging.Handler):
    """Writes into one file for each process and thread: `<folder>/process_<pid>_thread_<id>.log`."""

    def __init__(self, base_path: str | os.PathLike[str]) -> None:
        super().__init__()
        self.base_path = Path(base_path)
        self.formatter = logging.Formatter("%(asctime)s - %(levelname)s - %(message)s")

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.base_path.mkdir(parents=True, exist_ok=True)
            file = self.base_path / f"process_{os.getpid()}_thread_{threading.get_ident()}.log"
            with open(file, "a", encoding="utf-8") as stream:
                stream.write(self.format(record) + "\n")
        except OSError:
            self.handleError(record)


def h4logger(path: str | os.PathLike[str] | None = None) -> logging.Handler:
    """A handler that writes the tree into a file, `./ttracker_logs/<date>_<time>.log` if none is named.

    Where the variable LTAG is set, into `./logs/<LTAG>`, as Tensor Tracker does: see ThreadFileHandler.
    """
    if path is None and "LTAG" in os.environ:
        return ThreadFileHandler(Path("logs", os.environ["LTAG"]))
    file = Path(path) if path is not None else Path("ttracker_logs", f"{datetime.now():%Y%m%d_%H%M%S}.log")
    file.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(file, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(message)s"))
    return handler


def log2file(text: object) -> None:
    """Put a line of one's own into the log files, at its place in the tree; and into the run."""
    line = _margin() + _BRANCH + printable(text)
    _recorded(str(text))
    files = [handler for handler in logger.handlers if isinstance(handler, logging.FileHandler | ThreadFileHandler)]
    _write(line, files or None)


def _log_change(prestr: str, name: str, value: Any, indent: str = "", lineno: int = 0) -> None:
    """Put a value into the tree by hand: `_log_change("Linear", "input", input, "", 0)` in a hook of torch's.

    `prestr` may be a mark of the tree (`"├─"`), and then stands before the line.
    """
    mark, scope = (f"{prestr} ", "") if prestr.startswith(_MARKS) else (_BRANCH, f"[{printable(prestr)}] ")
    several = (type(value) is tuple or type(value) is list) and any(
        Look(item, room=0).facts is not None for item in value
    )
    values = [(f"{name}[{index}]", item) for index, item in enumerate(value)] if several else [(name, value)]
    for each, item in values:
        text = scope + _named(each, lineno, item)
        _recorded(text)
        _write(f"{_margin()}{indent}{mark}{text}")


def _recorded(text: str) -> None:
    """Put a line into the run, where the caller of the caller is; it is not told to the printer below."""
    token = _writing.set(True)
    try:
        put((text,), sys._getframe(2))
    finally:
        _writing.reset(token)


def _write(line: str, handlers: Iterable[logging.Handler] | None = None) -> None:
    """To all handlers of the logger, or to these."""
    token = _writing.set(True)
    try:
        if handlers is None:
            logger.info("%s", line)
        elif logger.isEnabledFor(logging.INFO):
            record = logger.makeRecord(logger.name, logging.INFO, __file__, 0, "%s", (line,), None)
            for handler in handlers:
                handler.handle(record)
    finally:
        _writing.reset(token)


def _margin() -> str:
    """The marks before a line that is written now."""
    trace = here.get(None)
    tellers = trace.tellers if isinstance(trace, TellingTrace) else []
    call = next((teller.current() for teller in tellers if isinstance(teller.printer, _Printer)), None)
    return "" if call is None else _LEVEL * (call.depth + 1)


# ---- what the lines say


def _named(name: str, line: int, value: Any) -> str:
    """`[Tensor] video@575 → shape=... | dtype=...`, `[Var] index@0 value: 113`."""
    shape, rest = _array(value)
    where = f"{printable(name)}@{line}"
    return f"[Tensor] {where} → {shape}{rest}" if shape else f"[Var] {where} {_plain(value)}"


def _array(value: Any) -> tuple[str, str]:
    """Shape, and dtype and device, as the library itself writes them; empty if it is no array."""
    facts = Look(value, room=0).facts
    if facts is None:
        return "", ""
    torch = facts.library == "torch"
    shape = f"torch.Size({list(facts.shape)})" if torch else str(facts.shape)
    dtype = f"torch.{facts.dtype}" if torch else facts.dtype
    return f"shape={shape}", f" | dtype={dtype}" + ("" if facts.device == "cpu" else f" | device={facts.device}")


def _plain(value: Any) -> str:
    if value is DELETED:
        return "deleted"
    length = value.summary.length if type(value) is NotKept else len(value) if id(type(value)) in _COUNTED_IDS else None
    return f"value: {value_line(value)}" if length is None else f"len(value): {length}"


def _head(call: Any) -> str:
    """`[data.py:12] function [decode] called from sample:60 (data.py:60 <- loader.py:283)`."""
    text = f"[{place(call.file, call.line)}] function [{printable(call.function)}]"
    callers = _callers(call)
    if callers:
        _, line, function = callers[0]
        text += f" called from {printable(function.rpartition('.')[2])}:{line} ({chain(callers)})"
    above = threading.main_thread().name if call.parent is None else call.parent.thread
    return text if call.thread == above else f"{text} [{printable(call.thread)}]"


def _callers(call: Any) -> list[Any]:
    found: list[Any] = []
    while call is not None and len(found) < _CALLERS:
        found += call.callers
        call = call.parent
    return found[:_CALLERS]


def _guarded(tell: Callable[..., None]) -> Callable[..., None]:
    """Nothing is raised into the program, and a handler that is itself followed is not told of."""

    @wraps(tell)
    def guarded(self: _Printer, *given: Any) -> None:
        if _writing.get():
            return
        try:
            tell(self, *given)
        except RecursionError:
            pass  # the program is at its own limit, and will see the same error itself
        except Exception as error:
            trouble.report("ttracker", "a line of the tree failed; the recording goes on", cause=error, internal=True)

    return guarded


class _Printer:
    """Tells what happens in Tensor Tracker's words."""

    destination = "ttracker"

    def __init__(self) -> None:
        self._given: dict[int, dict[str, int]] = {}  # by call: which objects its arguments are

    @_guarded
    def begin(self, call: Shown) -> None:
        if len(self._given) >= _NODES:
            self._given.clear()
        self._given[id(call)] = {name: id(value) for name, value in call.inputs}
        margin = _LEVEL * call.depth
        _write(margin + _OPEN + _head(call))
        for index, (name, value) in enumerate(call.inputs):
            if index or name not in ("self", "cls"):
                _write(f"{margin}{_BRANCH}input {_named(name, 0, value)}")

    @_guarded
    def change(self, call: Shown, name: str, line: int, before: Any, now: Any) -> None:
        is_input = before is DELETED and self._given.get(id(call), {}).get(name) == id(now)
        if not is_input:  # that was said
            _write(_LEVEL * (call.depth + 1) + _BRANCH + _named(name, line, now))

    @_guarded
    def message(self, call: Shown | None, text: str) -> None:
        _write(_LEVEL * (0 if call is None else call.depth + 1) + _BRANCH + printable(text))

    @_guarded
    def end(self, call: Shown) -> None:
        self._given.pop(id(call), None)
        margin = _LEVEL * (call.depth + 1) + _LAST
        if call.error is not None:
            _write(f"{margin}raised {printable(call.error)}")
            return
        _write(f"{margin}output {_array(call.result)[0] or _plain(call.result)}")
        for index, item in enumerate(call.result if type(call.result) is tuple or type(call.result) is list else ()):
            if _array(item)[0]:
                _write(f"{margin}output {_named(str(index), 0, item)}")


# ---- what is put above functions


class _Tracker(Follower):
    """All locals of the function itself, the named variables in everything it calls, in Tensor Tracker's words."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(names, following(names, own_names=("*",), printer=_Printer()))


def auto_diff(function: Decorated) -> Decorated:
    """Log what goes into and comes out of a function and those it calls, and how its own variables change."""
    return _Tracker(())(function)


def var_tracker(*names: str) -> Follower:
    """The same, and the changes of the named variables wherever in the functions it calls they occur."""
    if not names or not all(isinstance(name, str) for name in names):
        raise OptionError("bad-option", "var_tracker() needs names.", "Name variables: @var_tracker('video').")
    return _Tracker(names)


def debug_trace(function: Any) -> Any:
    """The same, with the changes of every variable in every function called."""
    return _Tracker(("*",))(function)


def fstack(function: Callable[..., Any]) -> Callable[..., Any]:
    """Log at each call of a function by whom it was called, the outermost first."""

    @wraps(function)
    def logged(*args: Any, **kwargs: Any) -> Any:
        if env.enabled():
            _log_callers(function.__name__, sys._getframe(1))
        return function(*args, **kwargs)

    return logged


@trouble.entry_point()
def _log_callers(name: str, frame: FrameType) -> None:
    margin = _margin()
    _write(f"{margin}call stack for {printable(name)}")
    for file, line, function in reversed(callers_of(frame, most=math.inf)):
        _write(f"{margin}-> {printable(function.rpartition('.')[2])}() at {printable(file)}:{line}")


_run_counts: Counter[tuple[int, int, str]] = Counter()  # by process, thread and name


def check_run_count(unique_id: str, max_allow: int, remove_when_exit: bool = True) -> None:
    """End the program when this was called more than `max_allow` times, in this process and thread, under a name."""
    key = (os.getpid(), threading.get_ident(), str(unique_id))
    if _run_counts[key] >= max_allow:
        if remove_when_exit:
            del _run_counts[key]
        _write(f"[{unique_id}] has run {max_allow} times, as often as is allowed: the program ends.")
        raise SystemExit(1)
    _run_counts[key] += 1
    _write(f"[{unique_id}] run {_run_counts[key]} of {max_allow}")


__all__ = [
    "ThreadFileHandler",
    "_log_change",
    "auto_diff",
    "check_run_count",
    "debug_trace",
    "fstack",
    "h4logger",
    "log2file",
    "logger",
    "var_tracker",
]

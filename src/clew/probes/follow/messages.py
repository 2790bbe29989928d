"""Lines that people put into the tree themselves: `clew.log(...)`, and records of the standard library's logging."""

from __future__ import annotations

import io
import logging
from threading import get_ident
from types import FrameType
from typing import Any

from clew import env, recording, trouble
from clew.recorder.call_log import ENTER, RETURN, busy, clock, here
from clew.recorder.live_call import LiveCall
from clew.recorder.plan import Plan, Watched
from clew.recorder.quiet_threads import is_quiet
from clew.values.class_facts import inherits

from .live_telling import TellingTrace

_LOG = "<log>"
_plans: dict[tuple[str, int], Plan] = {}


@trouble.entry_point()
def put(parts: tuple[Any, ...], frame: FrameType) -> None:
    """A line at the place of `frame`."""
    if env.enabled() and recording.is_on() and not is_quiet():
        text = " ".join(part if inherits(type(part), str) else _brief(part) for part in parts)
        _record(text, frame.f_code.co_filename, frame.f_lineno or 0, str(frame.f_globals.get("__name__", "?")))


def _brief(value: Any) -> str:
    from clew.text.values import value_line

    return value_line(value)


def _record(text: str, file: str, line: int, module: str) -> None:
    plan = _plan(file, line, module)
    trace = here.get(None)
    if trace is None:
        call = LiveCall(plan, recording.recorder())
        call.log += [text, plan.input_sites[0]]
        call.line, call.ended = line, call.started
        call.recorder.begin(call)
        call.recorder.end(call)
        return
    list.extend(trace, (plan.marks[ENTER], clock(), line, text, plan.marks[RETURN], clock(), None))
    if isinstance(trace, TellingTrace):
        trace.tell_message(text)


def _plan(file: str, line: int, module: str) -> Plan:
    known = _plans.get((file, line))
    if known is None:
        watched = (Watched("message", "input"), Watched("return", "output"))
        known = Plan(_LOG, module, file, line, watched, [line], [False], parameters=("message",))
        known.always = False
        _plans[file, line] = known
    return known


class LogHandler(logging.Handler):
    """Puts the records of the standard library's logging into the tree, where they were logged.

    logging.getLogger().addHandler(clew.LogHandler())
    """

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if env.enabled() and recording.is_on() and get_ident() not in busy:  # not what clew itself logs
                _record(self.format(record), record.pathname, record.lineno, record.name)
        except Exception:  # as every handler: logging says what went wrong, the program goes on
            self.handleError(record)


class LoggerStream(io.TextIOBase):
    """A text file whose lines go to a logger."""

    encoding = "utf-8"

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self.destination = id(logger)

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        for line in text.splitlines():
            self._logger.info("%s", line)
        return len(text)

"""Hot: the ways on which the program comes to outermost followed calls, each looked at once.

A program calls the same function from the same place again and again. What is around such a call (its callers, and
whether the program's own level may have made functions since the call before) is found out at the first one.
"""

from __future__ import annotations

import dis
import sys
from inspect import CO_NEWLOCALS
from types import CodeType, FrameType

from clew import env
from clew.recorder.call_log import Trace, Way

_FRAMES = 16  # told of what is around a root
_LOOKED_AT = 24  # frames that make a way: some of them are clew's own
_COMMANDS = f"{env.PACKAGE}commands/"


def way_to(trace: Trace, frame: FrameType | None) -> int:
    """The number in this log of the way that leads to `frame`."""
    parts: list[int] = []
    inner = frame
    while inner is not None and len(parts) < 2 * _LOOKED_AT:
        parts += id(inner.f_code), inner.f_lasti
        inner = inner.f_back
    key = tuple(parts)
    number = trace.way_numbers.get(key)
    if number is None:
        trace.ways.append(Way(callers_of(frame), place_in_main(frame), _codes(frame)))
        number = trace.way_numbers[key] = len(trace.ways)
    return number


def _codes(frame: FrameType | None) -> list[CodeType]:
    """While these are held, their ids are nobody else's."""
    codes: list[CodeType] = []
    while frame is not None and len(codes) < _LOOKED_AT:
        codes.append(frame.f_code)
        frame = frame.f_back
    return codes


def callers_of(frame: FrameType | None, most: float = _FRAMES) -> list[tuple[str, int, str]]:
    """The frames around a call, innermost first."""
    found: list[tuple[str, int, str]] = []
    while frame is not None and len(found) < most:
        code = frame.f_code
        if code.co_filename.startswith(_COMMANDS) or frame.f_globals is vars(sys):
            break  # the program begins here: what is around it is `clew run`
        if not code.co_filename.startswith(env.PACKAGE):
            found.append((code.co_filename, frame.f_lineno or 0, code.co_qualname))
        frame = frame.f_back
    return found


def place_in_main(frame: FrameType | None) -> tuple[int, ...] | None:
    """Where the program's own level is, by ids of codes: while it stays there, it makes no function. None: unknown."""
    main = sys.modules.get("__main__")
    place: list[int] = []
    for _ in range(_LOOKED_AT):
        if frame is None or main is None:
            break
        if frame.f_globals is vars(main) and not frame.f_code.co_flags & CO_NEWLOCALS:
            begin = _begin_of_loops(frame.f_code, frame.f_lasti)
            if begin is None:
                return None
            place += id(frame.f_code), begin
        frame = frame.f_back
    return tuple(place) or None


def _begin_of_loops(code: CodeType, at: int) -> int | None:
    """Where the outermost loop around this instruction begins, or the instruction; None if functions are made in it."""
    instructions = list(dis.get_instructions(code))
    makers = [each.offset for each in instructions if each.opname in ("MAKE_FUNCTION", "LOAD_BUILD_CLASS")]
    jumps = [each for each in instructions if each.opcode in dis.hasjrel or each.opcode in dis.hasjabs]
    loops = [(each.argval, each.offset) for each in jumps if each.argval <= at <= each.offset]
    if any(begin <= maker <= end for maker in makers for begin, end in loops):
        return None
    return min((begin for begin, _ in loops), default=at)

"""Gives an exception back to its frame as a `with` statement does: as if nobody had looked at it.

Where `except` catches nothing, Python raises the exception again, and the frame's last instruction (`f_lasti`, and with
it `f_lineno`) is then that of the handler. The way out of a `with` has it put back: the table of handlers says that
the instruction that failed is to be pushed below the exception, and `RERAISE 2` puts it back. Here the handler that
lean_calls.py has put around a function is told to do the same. The layout of the stack is that of `with` in all Pythons
from 3.11 on; where the code does not look as expected it is left alone.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType
from typing import Any, NamedTuple

_PUT_BACK = 2  # items between the top of the stack and the instruction that failed, plus one


class _Entry(NamedTuple):
    """One line of the table of handlers; offsets count instructions."""

    start: int
    length: int
    target: int
    depth: int
    lasti: bool


def put_back(code: CodeType, raised: Any) -> CodeType:
    """The code, whose outermost handler calls the constant `raised`, leaving frames where they failed."""
    instructions = list(dis.get_instructions(code))
    at = next((i for i, each in enumerate(instructions) if each.argval is raised), None)
    if at is None:
        return code
    begin = next((i for i in range(at, -1, -1) if instructions[i].opname == "PUSH_EXC_INFO"), None)
    again = next((each for each in instructions[at:] if each.opname == "RERAISE"), None)
    if begin is None or again is None or again.arg != 0:
        return code
    handler = instructions[begin].offset // 2
    entries = [_changed(entry, handler, again.offset // 2) for entry in _entries(code.co_exceptiontable)]
    new = bytearray(code.co_code)
    new[again.offset + 1] = _PUT_BACK
    return code.replace(co_code=bytes(new), co_exceptiontable=_written(entries), co_stacksize=code.co_stacksize + 1)


def _changed(entry: _Entry, handler: int, again: int) -> _Entry:
    if entry.target == handler:
        return entry._replace(lasti=True)
    if handler <= entry.start <= again:  # inside the handler there is one item more on the stack
        return entry._replace(depth=entry.depth + 1)
    return entry


def _entries(table: bytes) -> Iterator[_Entry]:
    data = iter(table)
    while True:
        try:
            start = _number(data)
        except StopIteration:
            return
        length, target, depth = _number(data), _number(data), _number(data)
        yield _Entry(start, length, target, depth >> 1, bool(depth & 1))


def _number(data: Iterator[int]) -> int:
    """Six bits a byte, the highest first; 64 says that more follow, 128 that an entry begins."""
    byte = next(data)
    value = byte & 63
    while byte & 64:
        byte = next(data)
        value = value << 6 | byte & 63
    return value


def _written(entries: list[_Entry]) -> bytes:
    out = bytearray()
    for entry in entries:
        begin = len(out)
        for number in (entry.start, entry.length, entry.target, entry.depth << 1 | entry.lasti):
            out += _bytes(number)
        out[begin] |= 128
    return bytes(out)


def _bytes(number: int) -> bytes:
    groups = [number & 63]
    while number := number >> 6:
        groups.append(number & 63)
    groups.reverse()
    return bytes([*(group | 64 for group in groups[:-1]), groups[-1]])

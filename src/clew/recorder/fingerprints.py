"""What a run keeps of a function so that it can be recognised and shown later: hashes of its code and file, its source.

All of it is made once for each function, by the thread that writes the run; the recorded program does not wait for it.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .plan import Plan

LARGEST_FILE: Final = 8 << 20  # bytes; a larger file has no hash
LARGEST_SOURCE: Final = 256 << 10  # characters; of a longer function no source is kept
# Set from outside by a caller or a decorator of the same code: nested in a function, made awaitable by types.coroutine.
_FLAGS_FROM_OUTSIDE: Final = 0x10 | 0x100
_SCALARS: Final = (str, bytes, int, float, complex, bool, type(None), type(Ellipsis))

#: Each gives the code a function had before clew rewrote it, or None. Probes that rewrite code add theirs.
original_code_finders: list[Callable[[FunctionType], CodeType | None]] = []

_file_hashes: dict[str, tuple[tuple[int, ...], str | None]] = {}


def fingerprint(plan: Plan) -> tuple[str | None, str | None, str | None]:
    """The hash of a function's code, the hash of its file, and its source; None for what cannot be had."""
    code = None if plan.code is None else code_hash(plan.code)
    return code, file_hash(plan.file), _source(plan)


def _source(plan: Plan) -> str | None:
    try:
        text = None if plan.source is None else plan.source()
    except Exception:  # a file that changes while it is parsed, an import hook that fails
        return None
    return None if text is None or len(text) > LARGEST_SOURCE else text


# ---- code


def python_tag() -> str:
    """Which Python compiled a code object. Two different ones compile the same source to different code."""
    return f"{sys.implementation.cache_tag}-O{sys.flags.optimize}"


def code_hash(code: CodeType) -> str:
    """The same in every process of one Python for the same source, wherever in its file the function stands."""
    digest = hashlib.sha256()
    for piece in _pieces(code):
        digest.update(b"%d:" % len(piece))
        digest.update(piece)
    return f"{python_tag()}:{digest.hexdigest()}"


def original_code(function: Any) -> CodeType | None:
    """The code of a function as its author wrote it; None for what has no code."""
    code: CodeType | None = getattr(function, "__code__", None)
    if not isinstance(function, FunctionType):
        return code
    found = (find(function) for find in original_code_finders)
    return next((original for original in found if original is not None), code)


def _pieces(code: CodeType) -> Iterator[bytes]:
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & ~_FLAGS_FROM_OUTSIDE)
    yield code.co_code
    yield code.co_exceptiontable
    yield repr((code.co_name, counts)).encode("utf-8", "surrogatepass")
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    yield repr(names).encode("utf-8", "surrogatepass")
    for constant in code.co_consts:
        yield from _constant(constant)


def _constant(value: Any) -> Iterator[bytes]:
    yield type(value).__name__.encode()
    if isinstance(value, CodeType):
        yield from _pieces(value)
    elif type(value) is tuple:
        yield b"%d" % len(value)
        for item in value:
            yield from _constant(item)
    elif type(value) is frozenset:  # its order changes from process to process
        yield from sorted(b"\0".join(_constant(item)) for item in value)
    elif type(value) in _SCALARS:
        yield repr(value).encode("utf-8", "surrogatepass")


# ---- files


def file_hash(path: str) -> str | None:
    """The SHA-256 of a source file; None for anything but a plain file of ordinary size. Read again when it changes."""
    if not os.path.isabs(path):
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError):
        return None
    with open(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_FILE:
            return None
        state = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
        known = _file_hashes.get(path)
        if known is None or known[0] != state:
            data = file.read(LARGEST_FILE + 1)
            known = _file_hashes[path] = state, hashlib.sha256(data).hexdigest()
        return known[1]

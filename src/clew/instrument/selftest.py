"""Whether the rewriting engine understands this Python: tried once, at the first use, on a few functions of its own.

A later Python may compile differently (another flag, another instruction), and then sources would not be recognised, or
rewritten functions not record what they do. If anything here is not as it must be, nothing is rewritten: functions are
watched by the interpreter's events, what can only be rewritten is refused, and both say why.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

from clew import trouble

from . import engine, source
from .assembling import assemble
from .effects import bound_elsewhere
from .options import options
from .rewrite import rewrite
from .runtime import Silent
from .watched_items import items_for, local_names, parameter_names

_FILE = "<clew self-test>"
_SOURCE = '''
class Sample:
    """Every kind of function whose code is compared."""
    kind: int = 0
    def method(self, count: int, *, base: float = 1.0) -> object:
        """Changes `total` in each way a statement can."""
        total = base
        for index in range(count):
            total += index
        try:
            total = total / 0
        except ZeroDivisionError as error:
            total = [type(error).__name__]
        with self as total:
            total = self.__private(total)
        return total
    def __private(self, value):
        super().__init__()
        inner = lambda: [value for each in value if not each]
        return inner() or (value := -1)
    __slots__ = ()
    __enter__ = lambda self: "entered"
    def __exit__(self, *error): pass
    @staticmethod
    def pauses(given):
        outcome = yield given
        yield from (outcome,)
        return f"{outcome!r:>{10}}"
    @classmethod
    async def awaits(cls, given):
        async with given as entered, cls() as other:
            return [each async for each in entered if await other]
    async def streams(self):
        yield
def plain(a, /, b=1, *c, d, **e):
    global shared
    import os.path as shared
    def nested():
        nonlocal a
        del a
        return b, os_name
    os_name = shared.name
    match a:
        case {"key": [first, *_]} if first: return nested
        case str() | None: raise ValueError from None
    while a and not d: a -= 1
    else: assert b, c
'''
_EXPECTED = [1.0, 1.0, 2.0, 4.0, ["ZeroDivisionError"], "entered", -1]

_lock = threading.RLock()
_running = threading.local()


def failure(*, loudly: bool = True) -> str:
    """Why nothing can be rewritten on this Python; "" if all is well. Found out once."""
    if getattr(_running, "now", False):
        return ""  # the functions of the test itself
    with _lock:
        try:
            what = _failure()
        except (RecursionError, MemoryError) as error:  # the program's, which may have room the next time
            return f"there is no room to rewrite code ({type(error).__name__})"
    if what and loudly:
        report(what)
    return what


@functools.cache
def _failure() -> str:
    _running.now = True
    try:
        return _unrecognised() or _unrecorded()
    except (RecursionError, MemoryError):
        raise
    except Exception as error:
        return f"the rewriting of code fails on this Python ({type(error).__name__}: {error})"
    finally:
        _running.now = False


def report(what: str) -> None:
    """Say loudly, once, that there is something about this Python that clew does not know."""
    remedy = (
        "Until there is a clew for this Python, functions are watched by interpreter events, which is slow, and calls "
        "cannot be followed or recorded as graphs. `clew doctor` shows more."
    )
    trouble.report("blind", what, remedy)


def _functions(code: CodeType) -> Iterator[CodeType]:
    for const in code.co_consts:
        if isinstance(const, CodeType):
            if engine.is_function(const):
                yield const
            yield from _functions(const)


def _compiled() -> CodeType:
    return compile(_SOURCE, _FILE, "exec", dont_inherit=True)


def _unrecognised() -> str:
    """The first function that is not found in its own source."""
    lines = _SOURCE.splitlines(keepends=True)
    for code in _functions(_compiled()):
        if flags := source.unknown_flags(code):
            return flags
        if source.find_in(lines, code) is None:
            return f"this Python compiles functions in a way that this version of clew does not know ({code.co_name})"
    return ""


def _unrecorded() -> str:
    """Whether a rewritten function does, and tells, something else than it should."""
    namespace: dict[str, Any] = {"__name__": "clew_self_test"}
    exec(_compiled(), namespace)
    function = namespace["Sample"].method
    original, told = function.__code__, _Told()
    found = source.find_in(_SOURCE.splitlines(keepends=True), original)
    assert found is not None
    node = source.as_function(found.node)
    own = local_names(original, node, found.context.class_name)
    items, watched, _ = items_for(own, bound_elsewhere(node), [options(("total",))])
    rewritten = rewrite(node, items, parameter_names(node), lambda first, last: False)
    plan: Any = _Plan([None] * len(watched))
    names = engine.objects(lambda arguments: told, plan)
    function.__code__ = assemble(rewritten, original, found.context, plan, names)
    result = namespace["Sample"]().method(3)
    if result != -1 or told.values != _EXPECTED:
        return f"on this Python, rewritten functions do not record what they do ({told.values!r}, {result!r})"
    return ""


@dataclass(frozen=True, slots=True)
class _Plan:
    """As much of a plan as rewritten code needs."""

    expected: list[Any]

    def site(self, statement: int, index: int = 0) -> int:
        return statement


class _Told(Silent):
    """A call that keeps the values it is told of."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        super().__init__()
        self.values: list[Any] = []

    def note(self, index: int, value: Any, site: int) -> tuple[None, None]:
        self.values.append(value)
        return None, None

"""When clew itself fails: said once, loudly, with what to do; then quiet, and the user's program goes on."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

from clew import env

_said: set[str] = set()
_lock = threading.Lock()


class InternalError(Exception):
    """Raised in place of a report under CLEW_STRICT=1, so that tests see what users would only read."""


def report(
    key: str, what: str, remedy: str = "", cause: BaseException | None = None, *, internal: bool = False
) -> bool:
    """Say `what` on stderr, once per `key`; True if it was said now.

    `internal` marks a bug of clew's own, which under CLEW_STRICT=1 raises. A full disk is not one.
    """
    if internal and env.strict():
        raise InternalError(what) from cause
    with _lock:
        if key in _said:
            return False
        _said.add(key)
    try:
        reason = f" ({type(cause).__name__}: {cause})" if cause is not None else ""
        said = f"{what}{reason}"
        stop = "" if said.endswith((".", "?", "!")) else "."
        sys.stderr.write(f"clew: {said}{stop} {remedy}".rstrip() + "\n")
        sys.stderr.flush()
    except Exception:
        pass  # no stderr to speak to: a closed, missing or replaced stream must not harm the program
    return True


def report_unknown_switch() -> None:
    """Say that `CLEW` is set to what clew does not understand."""
    value = env.unknown_switch()
    if value is not None:
        what = f"CLEW={value} is neither on nor off, so clew is on"
        report("switch", what, "Write CLEW=0 to turn it off, or CLEW=1.")


# ---- entry points ----------------------------------------------------------------------------------------------------

_Function = TypeVar("_Function", bound=Callable[..., Any])
ENTRY_POINTS: Final[dict[str, Callable[..., Any]]] = {}  # what the user's code calls of ours, by name
_ROOM: Final = 200  # frames that must be left for a RecursionError to be a bug of ours, not the program's own
_listeners: Final[list[Callable[[str], None]]] = []
_stops: Final[list[Callable[[], None]]] = []
_deciding: Final[list[int]] = []  # threads that look whether a RecursionError is the program's own


def on_endless(stop: Callable[[], None]) -> None:
    """What stops recording when an entry point leads to itself without end: a watched audit hook does, because Python
    calls it for things as small as `id()`."""
    _stops.append(stop)


def on_failure(tell: Callable[[str], None]) -> None:
    """Somebody wants to know, in one sentence, when an entry point fails; the ledger does."""
    _listeners.append(tell)


def failed(error: Exception, where: str, otherwise: Any = None) -> Any:
    """An entry point has failed: told once. Gives what takes the place of its result."""
    if sys.is_finalizing():
        return otherwise  # the interpreter is being taken apart: nothing can be recorded any more, and nobody asks
    if isinstance(error, RecursionError):
        thread = threading.get_ident()
        if thread in _deciding:  # an entry point below the one that has failed: even looking at the stack leads there
            for stop in _stops:
                stop()
            return otherwise
        _deciding.append(thread)
        try:
            is_full = _stack_is_full()
        finally:
            _deciding.remove(thread)
        if is_full:
            raise error
    try:
        strict = env.strict()
    except Exception:  # the interpreter is being taken apart
        strict = False
    if strict:
        raise error if isinstance(error, InternalError) else InternalError(f"{where} failed") from error
    try:
        if report(f"entry:{where}", f"recording failed in {where}", "Your program goes on; what it did there is not "
                  "recorded. Please report this.", error):  # fmt: skip
            for tell in _listeners:
                tell(f"{where} failed: {type(error).__name__}.")
    except Exception:
        pass  # nothing more can be done than to leave the program alone
    return otherwise


def _stack_is_full() -> bool:
    frame, left = sys._getframe(1), sys.getrecursionlimit() - _ROOM
    while frame.f_back is not None and left > 0:
        frame, left = frame.f_back, left - 1
    return left <= 0


def entry_point(
    otherwise: Callable[..., Any] | None = None, *, passes: tuple[type[Exception], ...] = ()
) -> Callable[[_Function], _Function]:
    """Mark a function that the user's code calls: it never raises. `otherwise` makes what it gives when it fails.

    `passes` are exceptions that it may raise: those that tell users of their own mistakes.
    For those that are called at every call of a watched function this costs too much: they have their own `try`.
    """

    let_through: tuple[type[Exception], ...] = (*passes, InternalError)

    def decorate(function: _Function) -> _Function:
        where = f"{function.__module__}.{function.__qualname__}"

        @wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except let_through:
                raise
            except Exception as error:
                return failed(error, where, None if otherwise is None else otherwise(*args, **kwargs))

        ENTRY_POINTS[where] = guarded
        return guarded  # type: ignore[return-value]

    return decorate


def forget() -> None:
    """Let every message be said again (a new run, a test)."""
    with _lock:
        _said.clear()

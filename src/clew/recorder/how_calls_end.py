"""How a call or a program ended, in words that run no code of the user's."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from clew.values import SCALAR_IDS
from clew.values.class_facts import inherits, module_of, qualname_of


def describe(error: BaseException | None) -> str:
    """The type of an exception and, where that runs no code of the user's, its message."""
    kind = type(error)
    module, name = module_of(kind), qualname_of(kind)
    name = name if module == "builtins" else f"{module}.{name}"
    args = BaseException.args.__get__(error) if error is not None else ()  # type: ignore[attr-defined]
    if not all(id(type(arg)) in SCALAR_IDS for arg in args) or not args:
        return name
    message = str(args[0]) if len(args) == 1 else ", ".join(map(repr, args))
    return f"{name}: {message}"


def is_error(error: BaseException | None, *kinds: type[BaseException]) -> bool:
    """`isinstance`, which asks a user's exception for its `__class__`."""
    return any(inherits(type(error), kind) for kind in kinds)


def traceback_of(error: BaseException) -> TracebackType | None:
    """Its `__traceback__`; a class of the user's that answers for itself is not asked."""
    traceback: TracebackType | None = vars(BaseException)["__traceback__"].__get__(error)
    return traceback


def how_it_ended(error: BaseException | None) -> tuple[str, str | None, int | None]:
    """How, the error in words, and the exit status, as far as known."""
    if error is None:
        return "finished", None, None
    if is_error(error, KeyboardInterrupt):
        return "interrupted", "KeyboardInterrupt", 130
    if is_error(error, SystemExit):
        status = vars(SystemExit)["code"].__get__(error)
        code = status if type(status) is int else 0 if status is None else 1
        return ("finished" if code == 0 else "exited"), None, code
    return "failed", describe(error), 1


@contextmanager
def dies_of_interrupt(error: BaseException | None) -> Iterator[None]:
    """Around what is done at exit: a program that Ctrl-C ends dies of the signal, as it would without clew.

    Python remembers that an exception was Ctrl-C's until other code is run in a certain way, and loading an extension
    module (pyarrow, for the first flush) is one. Ctrl-C while a run is closed waits until it is; a second one does not.
    """
    loaded_before = len(sys.modules)
    interrupts: list[BaseException] = []
    plain = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    is_main_thread = threading.current_thread() is threading.main_thread()

    def wait(number: int, frame: object) -> None:
        interrupts.append(KeyboardInterrupt())
        signal.signal(signal.SIGINT, signal.default_int_handler)

    if plain and is_main_thread:
        signal.signal(signal.SIGINT, wait)
    try:
        yield
    except KeyboardInterrupt as interrupt:
        interrupts.append(interrupt)
    finally:
        if plain and is_main_thread:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if (
        is_error(error, KeyboardInterrupt)
        and error is not None
        and len(sys.modules) > loaded_before
        and not hasattr(sys, "ps1")
    ):
        interrupts.append(error)
    if interrupts:
        _remember_interrupt()


def _remember_interrupt() -> None:
    """Let Python take Ctrl-C for one that nobody caught in the main program: it remembers the one it prints."""
    hook, sys.excepthook = sys.excepthook, lambda *raised: None
    try:
        import ctypes

        ctypes.pythonapi.PyRun_SimpleString(b"raise KeyboardInterrupt")
    except BaseException:
        pass  # a Python without ctypes, whose exit status says what happened less well
    finally:
        sys.excepthook = hook

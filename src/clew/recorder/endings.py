"""How a call or a program ended, in words that run no code of the user's."""

from __future__ import annotations

from clew.values import SCALARS


def describe(error: BaseException | None) -> str:
    """The type of an exception and, where that runs no code of the user's, its message."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    args = BaseException.args.__get__(error) if error is not None else ()  # type: ignore[attr-defined]
    if not all(type(arg) in SCALARS for arg in args) or not args:
        return name
    message = str(args[0]) if len(args) == 1 else ", ".join(map(repr, args))
    return f"{name}: {message}"


def how_it_ended(error: BaseException | None) -> tuple[str, str | None, int | None]:
    """How, the error in words, and the exit status, as far as known."""
    if error is None:
        return "finished", None, None
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", "KeyboardInterrupt", 130
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        return ("finished" if code == 0 else "exited"), None, code
    return "failed", describe(error), 1

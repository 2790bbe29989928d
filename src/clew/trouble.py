"""When clew itself fails: said once, loudly, with what to do; then quiet, and the user's program goes on."""

from __future__ import annotations

import sys
import threading

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
    reason = f" ({type(cause).__name__}: {cause})" if cause is not None else ""
    try:
        said = f"{what}{reason}"
        stop = "" if said.endswith((".", "?", "!")) else "."
        sys.stderr.write(f"clew: {said}{stop} {remedy}".rstrip() + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass  # no stderr to speak to: a closed or missing stream must not harm the program
    return True


def forget() -> None:
    """Let every message be said again (a new run, a test)."""
    with _lock:
        _said.clear()

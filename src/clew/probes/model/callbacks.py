"""Callbacks of users: called with lists they may change, and never able to harm the program."""

from __future__ import annotations

from typing import Any

from clew import trouble
from clew.recorder.quiet_threads import QUIET

from .options import Callback


def run(callbacks: tuple[Callback, ...], stage: str, name: str, values: list[Any], iterations: Any, ranks: Any) -> None:
    """One after the other. What one returns, if it is a list, takes the place of the values. One that raises is told
    once, and what there was before it stays."""
    for callback in callbacks:
        before = list(values)
        try:
            with QUIET:
                given = callback(name, values, iterations, ranks)
        except Exception as error:
            values[:] = before
            _report(callback, stage, f"raised on `{name}`; the values stay as they were before it", error)
            continue
        if given is None:
            continue
        if isinstance(given, list):
            values[:] = given
        else:
            values[:] = before
            _report(
                callback, stage, f"gave a {type(given).__name__} for `{name}`; a list of values, or None, is needed"
            )


def guarded(callback: Any, stage: str, name: str, arguments: tuple[Any, ...]) -> bool:
    """Call it, and whatever it returns, say whether it did not raise; if it did, that is reported."""
    try:
        with QUIET:
            callback(*arguments)
    except Exception as error:
        _report(callback, stage, f"raised on `{name}`; the values stay as they were before it", error)
        return False
    return True


def _report(callback: Any, stage: str, what: str, error: Exception | None = None) -> None:
    title = getattr(callback, "__qualname__", type(callback).__name__)
    trouble.report(f"callback:{stage}:{id(callback)}", f"the {stage} callback {title} {what}", "", error)

"""ztrace's face: `from clew.compat.ztrace import ztrace`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial, wraps
from typing import Any, TypeVar

from clew import trouble
from clew.export.ztrace_log import write_call, write_entry
from clew.instrument.expressions import parse
from clew.probes.watch import watch

F = TypeVar("F", bound=Callable[..., Any])

DISABLED = bool(os.getenv("ZEXPER_DISABLED"))  # ztrace's own switch


def ztrace(key_vars_name: Sequence[str]) -> Callable[[F], F]:
    """Trace the named values of a function; `./ztrace_logs/<date>/<time>.json` is complete when each call returns."""
    names = (key_vars_name,) if isinstance(key_vars_name, str) else tuple(key_vars_name)
    if DISABLED:
        return lambda function: function
    if not names:
        return _log_calls
    return _Trace(*names, keep="full", on_return=_writer(names))


class _Trace(watch):
    """For ztrace a name that is deleted and bound to an equal value again has not changed."""

    def __init__(self, *expressions: str, **options: Any) -> None:
        super().__init__(*expressions, **options)
        self._options = replace(self._options, deletions=False)


def _log_calls(function: F) -> F:
    """With no names the log has an entry without values for each call that returns."""

    @wraps(function)
    def logged(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        try:
            write_entry(function.__code__.co_filename, function.__name__, {})
        except Exception as error:  # the log may fail, the user's call may not
            trouble.report("ztrace-log", "the ztrace log could not be written", "", error)
        return result

    return logged  # type: ignore[return-value]


@cache
def _writer(names: tuple[str, ...]) -> Callable[[Any], None]:
    """One for the same names, so that a function that is made again and again is rewritten once."""
    return partial(write_call, {name: parse(name).text for name in names})

"""Arrays of which only the outline is kept: made once an outline, since a pipeline shows the same ones all day."""

from __future__ import annotations

from typing import Any, Final

from clew.records import Value
from clew.values.capture import Capture, by_walk
from clew.values.keep import Keep

_MOST: Final = 1024
_known: Final[dict[Any, Value]] = {}


def outlined(obj: Any, keep: Keep, key: tuple[Any, ...]) -> Capture:
    """The capture of an array that is too large to be kept; `key` says everything that is kept of it."""
    value = _known.get((key, keep.array_limit))
    if value is None:
        value = by_walk(obj, keep).value
        if len(_known) < _MOST:
            _known[key, keep.array_limit] = value
    return Capture(value, obj, [])

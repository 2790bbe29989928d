"""Code is parsed and compiled again without the warnings that Python has given already."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_NOTHING: Final[list[Any]] = [("ignore", None, Warning, None, 0)]


@contextmanager
def no_warnings() -> Iterator[None]:
    """Meanwhile there are no warnings.

    `warnings.catch_warnings` makes Python forget which warnings it has shown: the program's own would be shown again.
    """
    filters = warnings.filters
    warnings.filters = _NOTHING
    try:
        yield
    finally:
        warnings.filters = filters

"""Steps that are all taken, such as those that put a model back as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def do_all(steps: Iterable[Callable[[], object]]) -> None:
    """Take every step, whatever fails in one before it. The first failure is raised at the end."""
    first: Exception | None = None
    for step in steps:
        try:
            step()
        except Exception as error:
            first = first or error
    if first is not None:
        raise first

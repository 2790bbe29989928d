"""The bar of `graph.map` on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic


@contextmanager
def progress_bar(count: int | None, kept: int, wanted: bool) -> Iterator[Callable[[int, int], object]]:
    """A bar on stderr, if someone is looking: it is told how many more items are done, and how many failed so far."""
    if not wanted or sys.stderr is None or not sys.stderr.isatty():
        yield lambda done, failed: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:,.0f}/s"),
        TextColumn("{task.fields[failed]:,} failed"),
        TimeRemainingColumn(),
    )
    began, advanced = monotonic(), 0
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("clew map", total=count, completed=kept, rate=0.0, failed=0)

        def tick(done: int, failed: int) -> None:
            nonlocal advanced
            advanced += done
            rate = advanced / max(monotonic() - began, 1e-9)
            bar.update(task, advance=done, rate=rate, failed=failed)

        yield tick

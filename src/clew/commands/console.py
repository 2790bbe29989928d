"""Where commands speak: colours and the terminal's width on a terminal; plain text and no limit in a pipe."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_UNBOUNDED = 100_000  # in a pipe nothing is cut or wrapped


def console() -> Console:
    """stdout, for tables."""
    from rich.console import Console

    class Ours(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would end the program here; `main` knows better how

    width = None if sys.stdout.isatty() else _UNBOUNDED
    return Ours(width=width, markup=False, highlight=False, emoji=False)


def print_json(item: Any) -> None:
    """For machines: strict JSON in ASCII."""
    from clew.export.plain_data import to_plain

    print(json.dumps(to_plain(item), allow_nan=False, indent=2))


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr while work goes on, if someone is looking; it goes away at the end."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)

"""A file or folder that appears whole or not at all, and changes read a block at a time."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from clew.errors import OptionError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from clew.history.run import Run
    from clew.history.table import Table

BLOCK = 50_000
BYTES = 64 << 20  # of values that are read at a time


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """A draft beside `target` that takes its place at the end; nothing is left behind by a failure."""
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield draft
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A draft beside `target` that gets its name at the end; nothing is left behind by a failure."""
    if target.exists() or target.is_symlink():
        raise OptionError("export-target", f"{target} exists.", "Give another name, or remove it first.")
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield draft
        os.rename(draft, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


class Block(NamedTuple):
    """Some changes of one name, as columns."""

    name: str
    rows: npt.NDArray[np.int64]
    steps: list[Any]
    times: npt.NDArray[np.float64]
    lines: list[int]
    functions: list[str]
    ranks: list[int]
    calls: npt.NDArray[np.int64]


def chosen(run: Run, names: list[str] | None) -> list[str]:
    return run.names if names is None else names


def total(run: Run, names: list[str] | None) -> int:
    """How many changes there are to write."""
    return sum(len(run[name]) for name in chosen(run, names))


def sayable(text: str) -> str:
    """A text as UTF-8 can say it."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def blocks(run: Run, name: str, size: int = BLOCK) -> Iterator[Block]:
    """The changes of a name in order of time, at most `size` at a time, and about `BYTES` of their values.

    Equal arrays are stored once: a thousand rows may stand for a thousand times the bytes there are.
    """
    table, steps = run.tables.table, run.tables.steps
    rows = table.rows_of(name)
    for part in _split(table, rows, size):
        functions, ranks = table.functions(part), table.ranks(part)
        calls = table.gather("call", part)
        yield Block(name, part, steps.at(part), table.times(part), table.lines(part), functions, ranks, calls)


def _split(table: Table, rows: npt.NDArray[np.int64], size: int) -> Iterator[npt.NDArray[np.int64]]:
    for begin in range(0, len(rows), size):
        part = rows[begin : begin + size]
        held = table.stored_bytes(part).cumsum() // BYTES
        edges = [0, *((held[1:] != held[:-1]).nonzero()[0] + 1).tolist(), len(part)]
        for first, end in pairwise(edges):
            yield part[first:end]

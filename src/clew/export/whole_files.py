"""Writes files and folders that appear whole or not at all, and reads changes a block at a time."""

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

    from clew.reading.run import Run
    from clew.reading.table import Table

BLOCK = 50_000
BYTES = 64 << 20  # about so many bytes of values are read at a time


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """A path to write to; the file then replaces `target`. A failure leaves nothing behind."""
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield draft
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A path to make a folder at, which is then renamed to `target`. A failure leaves nothing behind."""
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


def names_to_export(run: Run, names: list[str] | None) -> list[str]:
    return run.names if names is None else names


def count_changes(run: Run, names: list[str] | None) -> int:
    """The number of changes to write."""
    return sum(len(run[name]) for name in names_to_export(run, names))


def escape_surrogates(text: str) -> str:
    """The text with what UTF-8 cannot encode as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def read_blocks(run: Run, name: str, size: int = BLOCK) -> Iterator[Block]:
    """The changes of a name in order of time, at most `size` of them and about `BYTES` of values at a time.

    Equal arrays are stored once, so a thousand rows may refer to the same bytes and need a thousand times the memory.
    """
    table, steps = run.tables.table, run.tables.steps
    rows = table.rows_of(name)
    for part in _split_rows(table, rows, size):
        functions, ranks = table.functions(part), table.ranks(part)
        calls = table.gather("call", part)
        yield Block(name, part, steps.at(part), table.times(part), table.lines(part), functions, ranks, calls)


def _split_rows(table: Table, rows: npt.NDArray[np.int64], size: int) -> Iterator[npt.NDArray[np.int64]]:
    for begin in range(0, len(rows), size):
        part = rows[begin : begin + size]
        piece = table.stored_bytes(part).cumsum() // BYTES
        edges = [0, *((piece[1:] != piece[:-1]).nonzero()[0] + 1).tolist(), len(part)]
        for first, end in pairwise(edges):
            yield part[first:end]

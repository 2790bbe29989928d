"""Exports runs to other formats. Each format is one module with

    def write(run, target, *, names, progress) -> Path

`names` are the names to export (None: all), and `progress(done, total)` is called as changes are written.
Other packages add formats with an entry point in the group `clew.exports` that leads to such a function.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from clew.errors import ExportError, OptionError, nearest

if TYPE_CHECKING:
    from clew.reading.run import Run

FORMATS = {  # format → module, file ending
    "json": ("clew.export.json", ".json"),
    "csv": ("clew.export.csv", ".csv"),
    "parquet": ("clew.export.parquet", ".parquet"),
    "hdf5": ("clew.export.hdf5", ".h5"),
    "zarr": ("clew.export.zarr", ".zarr"),
    "safetensors": ("clew.export.safetensors", ".safetensors"),
    "tensorboard": ("clew.export.tensorboard", ".tensorboard"),
    "perfetto": ("clew.export.perfetto", ".perfetto.json"),
}
FOLDERS = frozenset(["zarr", "tensorboard"])  # these write a folder, and refuse an existing one themselves

Progress = Callable[[int, int], None]


class Writer(Protocol):
    """The function that writes a format."""

    def __call__(self, run: Run, target: Path, *, names: list[str] | None, progress: Progress) -> Path: ...


def ignore_progress(count: int, total: int) -> None:
    """Show no progress."""


def formats() -> list[str]:
    """The names of all formats, clew's own first."""
    return [*FORMATS, *(point.name for point in _entry_points() if point.name not in FORMATS)]


def ending(format: str) -> str:
    """The ending of a file of this format."""
    return FORMATS[format][1] if format in FORMATS else f".{format}"


def writer(format: str) -> Writer:
    """The function that writes this format."""
    if format in FORMATS:
        own_writer: Writer = importlib.import_module(FORMATS[format][0]).write
        return own_writer
    for point in _entry_points():
        if point.name == format:
            other_writer: Writer = point.load()
            return other_writer
    raise OptionError("unknown-format", f"There is no export to `{format}`;", nearest(format, formats()))


def export(
    run: Run,
    format: str,
    target: str | Path | None = None,
    *,
    names: list[str] | None = None,
    progress: Progress = ignore_progress,
    raw_cells: bool = False,
) -> Path:
    """Write a run, or some of its names, to a file; by default one in the working folder that is named after the run.

    With `raw_cells`, texts that a spreadsheet would take for formulas stay as they are in a CSV file.
    """
    from clew.export.csv import write as csv_writer

    write = writer(format)
    if raw_cells and format != "csv":
        raise OptionError("bad-option", f"raw_cells applies to CSV files, not to {format}.", "Leave it out.")
    if raw_cells:
        write = partial(csv_writer, raw_cells=True)
    path = Path(f"{run.path.name}{ending(format)}") if target is None else Path(target)
    for name in names or []:
        run[name]  # raises for an unknown name, before anything is written
    if not path.absolute().parent.is_dir():
        raise OptionError(
            "no-folder", f"There is no folder {path.absolute().parent}.", "Create it, or choose another with -o."
        )
    if path.is_dir() and format not in FOLDERS:
        raise OptionError("export-target", f"{path} is a folder.", "Give the name of a file.")
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OptionError("export-target", f"{path} is a device or a pipe.", "Give the name of a file.")
    try:
        return write(run, path, names=names, progress=progress)
    except OSError as error:
        if not _is_about_target(error, path):
            raise
        what = f"{path} cannot be written: {error.strerror or error}."
        raise ExportError("export-not-written", what, "Give another path with -o.") from error


def _is_about_target(error: OSError, target: Path) -> bool:
    """Drafts stand beside the target; libraries do not always name the file."""
    if error.filename is None:
        return True
    file, folder = Path(os.fsdecode(error.filename)).absolute(), target.absolute().parent
    return file.parent == folder or file.is_relative_to(target.absolute())


def _entry_points() -> list[EntryPoint]:
    return list(entry_points(group="clew.exports"))

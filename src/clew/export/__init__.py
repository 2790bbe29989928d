"""Runs for other tools: one file a format, each with

    def write(run, target, *, names, progress) -> Path

`names` are the names wanted (None: all), `progress(done, total)` is told of changes written. Other packages add formats
with an entry point in the group `clew.exports` that leads to such a function.
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
    from clew.history.run import Run

FORMATS = {  # format → module, ending
    "json": ("clew.export.json", ".json"),
    "csv": ("clew.export.csv", ".csv"),
    "parquet": ("clew.export.parquet", ".parquet"),
    "hdf5": ("clew.export.hdf5", ".h5"),
    "zarr": ("clew.export.zarr", ".zarr"),
    "safetensors": ("clew.export.safetensors", ".safetensors"),
    "tensorboard": ("clew.export.tensorboard", ".tensorboard"),
    "perfetto": ("clew.export.perfetto", ".perfetto.json"),
}
FOLDERS = frozenset(["zarr", "tensorboard"])  # these write a folder, and say themselves that one is there

Progress = Callable[[int, int], None]


class Writer(Protocol):
    """How every export is called."""

    def __call__(self, run: Run, target: Path, *, names: list[str] | None, progress: Progress) -> Path: ...


def silent(done: int, total: int) -> None:
    """No progress bar."""


def formats() -> list[str]:
    """Every format there is, clew's own first."""
    return [*FORMATS, *(point.name for point in _others() if point.name not in FORMATS)]


def ending(format: str) -> str:
    """The ending of a file of that format."""
    return FORMATS[format][1] if format in FORMATS else f".{format}"


def writer(format: str) -> Writer:
    """The function that writes this format."""
    if format in FORMATS:
        found: Writer = importlib.import_module(FORMATS[format][0]).write
        return found
    for point in _others():
        if point.name == format:
            loaded: Writer = point.load()
            return loaded
    raise OptionError("unknown-format", f"There is no export to `{format}`;", nearest(format, formats()))


def export(
    run: Run,
    format: str,
    target: str | Path | None = None,
    *,
    names: list[str] | None = None,
    progress: Progress = silent,
    raw_cells: bool = False,
) -> Path:
    """Write a run, or some names of it, as a file; beside the run's folder name if no target is given.

    `raw_cells`: texts that a spreadsheet would take for formulas stay as they are in a CSV file.
    """
    from clew.export.csv import write as csv_writer

    write = writer(format)
    if raw_cells and format != "csv":
        raise OptionError("bad-option", f"raw_cells is about CSV files, not about {format}.", "Leave it out.")
    if raw_cells:
        write = partial(csv_writer, raw_cells=True)
    path = Path(f"{run.path.name}{ending(format)}") if target is None else Path(target)
    for name in names or []:
        run[name]  # an unknown name is said before anything is written
    if not path.absolute().parent.is_dir():
        raise OptionError(
            "no-folder", f"There is no folder {path.absolute().parent}.", "Make it, or choose another with -o."
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


def _others() -> list[EntryPoint]:
    return list(entry_points(group="clew.exports"))

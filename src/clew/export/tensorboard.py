"""Exports to TensorBoard event files: numbers become scalars, arrays histograms, texts text.

Each rank has its own folder. The step is the recorded one if it is an integer of at most 63 bits, else
the number of the change. Times are those of the run.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clew.errors import MissingLibraryError
from clew.export.whole_files import Block, count_changes, escape_surrogates, names_to_export, read_blocks, whole_folder
from clew.reading.series import as_array

if TYPE_CHECKING:
    import numpy.typing as npt

    from clew.export import Progress
    from clew.reading.run import Run

_LONGEST_INTEGER = 1000  # bits; longer integers are not floats
_STEP_BITS = 63
_BINS = 64


def write(run: Run, target: Path, *, names: list[str] | None, progress: Progress) -> Path:
    """Write a folder for `tensorboard --logdir`. It names the values left out: other types, and arrays not kept."""
    file_writer = _file_writer_class()
    total, count = count_changes(run, names), 0
    with whole_folder(target) as draft:
        out = _EventWriter(run, draft, file_writer)
        try:
            for name in names_to_export(run, names):
                for block in read_blocks(run, name, 10_000):
                    out.add(block)
                    progress(count := count + len(block.rows), total)
            out.add_notes()
            out.ensure_file()
        finally:
            out.close()
    return target


def _file_writer_class() -> Any:
    try:
        from tensorboardX import FileWriter
    except ImportError as error:
        message = "Export to TensorBoard needs tensorboardX."
        raise MissingLibraryError("missing-library", message, "pip install tensorboardX") from error
    return FileWriter


_RANK = re.compile(r"@rank=-?\d+\Z")


class _EventWriter:
    """Writes changes with one writer for each rank."""

    def __init__(self, run: Run, folder: Path, file_writer: Any) -> None:
        self._table = run.tables.table
        self._start = run.tables.start_ns / 1e9
        self._folder = folder
        self._file_writer = file_writer
        self._has_ranks = len({shard.rank for shard in self._table.shards}) > 1
        self._writers: dict[int, Any] = {}
        self._tags: dict[str, str] = {}
        self._left_out: dict[str, int] = {}
        self._last_ordinals: dict[tuple[str, int], int] = {}

    def writer_of(self, rank: int) -> Any:
        if rank not in self._writers:
            folder = self._folder / f"rank{rank}" if self._has_ranks else self._folder
            self._writers[rank] = self._file_writer(str(folder), max_queue=1000)
        return self._writers[rank]

    def tag_of(self, name: str) -> str:
        """The name as TensorBoard allows it, with letters, digits and `_./-`; each name has its own tag."""
        if name not in self._tags:
            base = tag = re.sub(r"[^-/\w.]", "_", name, flags=re.ASCII).lstrip("/") or "_"
            used, number = set(self._tags.values()), 2
            while tag in used:
                tag, number = f"{base}_{number}", number + 1
            self._tags[name] = tag
        return self._tags[name]

    def add(self, block: Block) -> None:
        tag = self.tag_of(_RANK.sub("", block.name))  # ranks have folders, so curves of one name are shown together
        numbers, are_numbers = self._table.numbers(block.rows)
        not_numbers = np.flatnonzero(~are_numbers)
        values = dict(zip(not_numbers.tolist(), self._table.values(block.rows[not_numbers]), strict=True))
        for place, time in enumerate(block.times.tolist()):
            rank = block.ranks[place]
            ordinal = self._last_ordinals[block.name, rank] = self._last_ordinals.get((block.name, rank), -1) + 1
            recorded_step = block.steps[place]
            is_usable = type(recorded_step) is int and recorded_step.bit_length() < _STEP_BITS
            value = values[place] if place in values else float(numbers[place])
            step = recorded_step if is_usable else ordinal
            if not self._add_value(self.writer_of(rank), tag, value, step, self._start + time):
                self._left_out[block.name] = self._left_out.get(block.name, 0) + 1

    def _add_value(self, writer: Any, tag: str, value: Any, step: int, when: float) -> bool:
        """Write one value; False if TensorBoard has no form for it."""
        if type(value) is int and value.bit_length() > _LONGEST_INTEGER:
            return False
        if type(value) in (int, float, bool):
            writer.add_summary(_scalar(tag, float(value)), step, when)
            return True
        if isinstance(value, str):
            writer.add_summary(_text(tag, value), step, when)
            return True
        array = as_array(value)
        if array is None or array.dtype.kind not in "biuf":
            return False
        with np.errstate(over="ignore"):  # a long double may become Inf
            numbers = np.asarray(array, dtype=np.float64)
        return self._add_array(writer, tag, numbers, step, when)

    def _add_array(self, writer: Any, tag: str, array: npt.NDArray[np.float64], step: int, when: float) -> bool:
        if array.ndim == 0:
            writer.add_summary(_scalar(tag, float(array)), step, when)
            return True
        finite = array[np.isfinite(array)]
        if finite.size:
            writer.add_summary(_histogram(tag, finite), step, when)
        if finite.size < array.size:  # a histogram has no place for them
            writer.add_summary(_scalar(f"{tag}/not_finite", array.size - finite.size), step, when)
        return array.size > 0

    def add_notes(self) -> None:
        """Write a text that lists changed names and left out values."""
        lines = [f"- {tag} is {name}" for name, tag in self._tags.items() if name != tag]
        if self._left_out:
            lines += ["", "Left out, because TensorBoard has no picture for them, or they were not kept:", ""]
            lines += [f"- {name}: {count} values" for name, count in self._left_out.items()]
        if lines:
            rank = min((shard.rank for shard in self._table.shards), default=0)
            self.writer_of(rank).add_summary(_text("clew", "\n".join(lines)), 0, self._start)

    def ensure_file(self) -> None:
        """Write an empty event file if nothing was written, so that TensorBoard can open the folder."""
        if not self._writers:
            self.writer_of(0)

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


def _scalar(tag: str, value: float) -> Any:
    """tensorboardX's own `scalar` logs a warning about each NaN, and by that configures the root logger."""
    from tensorboardX.proto.summary_pb2 import Summary

    return Summary(value=[Summary.Value(tag=tag, simple_value=value)])


def _text(tag: str, text: str) -> Any:
    from tensorboardX.summary import text as summary

    return summary(tag, escape_surrogates(text))


def _histogram(tag: str, values: npt.NDArray[np.float64]) -> Any:
    """Counted as shares of the range: `np.histogram` fails where that is wider, or finer, than a float can say."""
    from tensorboardX.summary import histogram_raw

    low, high = float(values.min()), float(values.max())
    half_range = high / 2 - low / 2
    shares = (values / 2 - low / 2) / half_range if half_range else np.zeros(len(values))
    counts, edges = np.histogram(shares, bins=_BINS, range=(0.0, 1.0))
    limits = np.maximum.accumulate(low * (1 - edges) + high * edges)
    with np.errstate(over="ignore"):
        total, squares = float(values.sum()), float(values.dot(values))
    # TensorBoard knows the right limits of buckets only: an empty one holds the leftmost limit.
    buckets = [0, *counts.tolist()]
    return histogram_raw(tag, low, high, len(values), total, squares, limits.tolist(), buckets)

"""TensorBoard: event files. Numbers become scalars, arrays histograms, texts text; each rank has a folder of its own.

The step is the recorded one where it is a whole number of 64 bits, else the number of the change. Times are those of
the run.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clew.errors import MissingLibraryError
from clew.export.files import Block, blocks, chosen, sayable, total, whole_folder
from clew.history.series import as_array

if TYPE_CHECKING:
    import numpy.typing as npt

    from clew.export import Progress
    from clew.history.run import Run

_LONGEST_INTEGER = 1000  # bits; what is longer is no float
_STEP_BITS = 63
_BINS = 64


def write(run: Run, target: Path, *, names: list[str] | None, progress: Progress) -> Path:
    """A folder for `tensorboard --logdir`. Other values and arrays that were not kept are left out, and it says so."""
    file_writer = _file_writer_class()
    count, done = total(run, names), 0
    with whole_folder(target) as draft:
        out = _Out(run, draft, file_writer)
        try:
            for name in chosen(run, names):
                for block in blocks(run, name, 10_000):
                    out.add(block)
                    progress(done := done + len(block.rows), count)
            out.say_what_is_different()
            out.begin()
        finally:
            out.close()
    return target


def _file_writer_class() -> Any:
    try:
        from tensorboardX import FileWriter
    except ImportError as error:
        what = "Export to TensorBoard needs tensorboardX."
        raise MissingLibraryError("missing-library", what, "pip install tensorboardX") from error
    return FileWriter


_RANK = re.compile(r"@rank=-?\d+\Z")


class _Out:
    """One writer a rank."""

    def __init__(self, run: Run, folder: Path, file_writer: Any) -> None:
        self._table = run.tables.table
        self._began = run.tables.start_ns / 1e9
        self._folder = folder
        self._file_writer = file_writer
        self._several = len({shard.rank for shard in self._table.shards}) > 1
        self._writers: dict[int, Any] = {}
        self._tags: dict[str, str] = {}
        self._left_out: dict[str, int] = {}
        self._seen: dict[tuple[str, int], int] = {}

    def of(self, rank: int) -> Any:
        if rank not in self._writers:
            folder = self._folder / f"rank{rank}" if self._several else self._folder
            self._writers[rank] = self._file_writer(str(folder), max_queue=1000)
        return self._writers[rank]

    def tag(self, name: str) -> str:
        """The name as TensorBoard can say it: letters, digits and `_./-`; no two names under one tag."""
        if name not in self._tags:
            plain = wanted = re.sub(r"[^-/\w.]", "_", name, flags=re.ASCII).lstrip("/") or "_"
            taken, number = set(self._tags.values()), 2
            while wanted in taken:
                wanted, number = f"{plain}_{number}", number + 1
            self._tags[name] = wanted
        return self._tags[name]

    def add(self, block: Block) -> None:
        tag = self.tag(_RANK.sub("", block.name))  # each rank has a folder, and curves of one name are shown together
        numbers, are_numbers = self._table.numbers(block.rows)
        others = np.flatnonzero(~are_numbers)
        values = dict(zip(others.tolist(), self._table.values(block.rows[others]), strict=True))
        for place, time in enumerate(block.times.tolist()):
            rank = block.ranks[place]
            ordinal = self._seen[block.name, rank] = self._seen.get((block.name, rank), -1) + 1
            told = block.steps[place]
            step = told if type(told) is int and told.bit_length() < _STEP_BITS else ordinal
            value = values[place] if place in values else float(numbers[place])
            if not self._one(self.of(rank), tag, value, step, self._began + time):
                self._left_out[block.name] = self._left_out.get(block.name, 0) + 1

    def _one(self, writer: Any, tag: str, value: Any, step: int, when: float) -> bool:
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
        with np.errstate(over="ignore"):  # a long double may be Inf here
            numbers = np.asarray(array, dtype=np.float64)
        return self._array(writer, tag, numbers, step, when)

    def _array(self, writer: Any, tag: str, array: npt.NDArray[np.float64], step: int, when: float) -> bool:
        if array.ndim == 0:
            writer.add_summary(_scalar(tag, float(array)), step, when)
            return True
        finite = array[np.isfinite(array)]
        if finite.size:
            writer.add_summary(_histogram(tag, finite), step, when)
        if finite.size < array.size:  # a histogram has no place for them
            writer.add_summary(_scalar(f"{tag}/not_finite", array.size - finite.size), step, when)
        return array.size > 0

    def say_what_is_different(self) -> None:
        lines = [f"- {tag} is {name}" for name, tag in self._tags.items() if name != tag]
        if self._left_out:
            lines += ["", "Left out, because TensorBoard has no picture for them, or they were not kept:", ""]
            lines += [f"- {name}: {count} values" for name, count in self._left_out.items()]
        if lines:
            rank = min((shard.rank for shard in self._table.shards), default=0)
            self.of(rank).add_summary(_text("clew", "\n".join(lines)), 0, self._began)

    def begin(self) -> None:
        """Where there was nothing to write, an event file that says just that much: TensorBoard opens it."""
        if not self._writers:
            self.of(0)

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


def _scalar(tag: str, value: float) -> Any:
    """tensorboardX's own `scalar` logs a warning about each NaN, and by that configures the root logger."""
    from tensorboardX.proto.summary_pb2 import Summary

    return Summary(value=[Summary.Value(tag=tag, simple_value=value)])


def _text(tag: str, text: str) -> Any:
    from tensorboardX.summary import text as summary

    return summary(tag, sayable(text))


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

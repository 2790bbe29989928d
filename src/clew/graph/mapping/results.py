"""What `graph.map` gives: the results, as they are asked for."""

from __future__ import annotations

import weakref
from collections.abc import Generator, Iterator, Sequence
from functools import cached_property
from operator import length_hint
from pathlib import Path
from typing import Any, Protocol

from clew.engines.adaptive import Choice
from clew.engines.engine import Done, Unsent
from clew.errors import GraphError

from .batches import Block, joined, parted
from .failures import Failure


class Piece:
    """Some items that travel together, and what came of them."""

    def __init__(self, indices: Sequence[int], items: Any, carried: dict[str, list[Any]]) -> None:
        self.indices = indices
        self.items = items  # a list, or a Block
        self.carried = carried  # columns that pass by the graph
        self.failures: dict[int, tuple[str, str]] = {}
        self.missing = len(items)
        self.deaths: dict[int, int] = {}
        self._outputs: list[tuple[int, int, Any]] = []  # of batches: place, rows, what the graph gave
        self._results: list[Any] = [None] * len(items)

    def take(self, begin: int, end: int, done: Done) -> None:
        if done.counts is None:
            self._results[begin:end] = done.results
        else:
            place = begin
            for count, output in zip(done.counts, done.results, strict=True):
                self._outputs.append((place, count, output))
                place += count
        self.failures.update({begin + place: (error, trace) for place, error, trace in done.failures})
        self.missing -= end - begin

    def fail(self, place: int, why: str) -> None:
        self.failures[place] = (why, why)
        self.missing -= 1

    def item(self, place: int) -> Any:
        """What an item was, for whoever looks at its failure."""
        if isinstance(self.items, Block):
            return self.items.row(place)
        item = self.items[place]
        return item.item if type(item) is Unsent else item

    def outputs(self) -> list[tuple[int, int, Any]]:
        """What the graph gave for batches, in the order of the items, without the rows that failed."""
        return sorted((one for one in self._outputs if one[0] not in self.failures), key=lambda one: one[0])

    @cached_property
    def results(self) -> list[Any]:
        """Item by item."""
        for place, count, output in self.outputs():
            self._results[place : place + count] = parted(output, count)
        return self._results


class Job(Protocol):
    """The work behind results, as they see it."""

    failures: list[Failure]
    done: int
    kept: int
    batches_split: int
    pieces: Generator[Piece, None, None]

    @property
    def count(self) -> int | None: ...

    @property
    def chosen(self) -> Choice | None: ...

    @property
    def is_batched(self) -> bool: ...

    def close(self) -> None: ...


class Mapped:
    """The results, as they are asked for. A failed item has a `Failure` in its place.

    Nothing of the job refers to it, so that a loop that is left early lets go of the workers at once."""

    def __init__(self, job: Job, output: Path | None = None) -> None:
        self.output = output
        self._job = job
        self._indices: Sequence[int] = ()  # of the piece that is being given
        self._left: Iterator[Any] = iter([])  # what is left of it
        self._read: Iterator[tuple[int, Any]] | None = None if output is None else _read(output, job.failures)
        self._begun = False
        weakref.finalize(self, job.close)

    @property
    def failures(self) -> list[Failure]:
        """The items that have failed so far."""
        return self._job.failures

    @property
    def ok(self) -> bool:
        """True while no item has failed."""
        return not self._job.failures

    @property
    def done(self) -> int:
        """Items that are over, the failed ones too."""
        return self._job.done

    @property
    def kept(self) -> int:
        """Items that an earlier job had done."""
        return self._job.kept

    @property
    def chosen(self) -> Choice | None:
        """Where items are run and why: `.kind` ("serial", "threads", "processes"), `.workers`, `.reason`. None before
        the first result was asked for."""
        return self._job.chosen

    @property
    def batches_split(self) -> int:
        """Batches that could not be run as a whole."""
        return self._job.batches_split

    def __iter__(self) -> Iterator[Any]:
        if self._read is not None:
            return (value for _, value in self._read)
        return self._give_values()

    def __next__(self) -> Any:
        return next(iter(self))

    def indexed(self) -> Iterator[tuple[int, Any]]:
        """The results with the numbers of their items."""
        return self._give_indexed() if self._read is None else self._read

    def join(self, failed: str = "raise") -> Any:
        """All results as one, in the order of the items: what the graph gave for batches, one after the other (frames
        with their index, arrays, tensors, lists; dictionaries and tuples of those); without batches, a list.

        failed   "raise": a failed item is an error; "drop": it is left out
        """
        if failed not in ("raise", "drop"):
            raise GraphError("bad-option", f"failed={failed!r} is not known.", 'There is "raise" and "drop".')
        if self._begun or self._read is not None:
            what = "join() takes all results, and some were taken already."
            if self._read is not None:
                what = f"the results are in {self.output}, not here."
            raise GraphError("graph-join", what, "Call join() first; or read the file.")
        parts = self._parts()
        if failed == "raise" and self.failures:
            what = f"{len(self.failures):,} items failed, the first of them item {self.failures[0].index}: "
            raise GraphError("graph-join", what + self.failures[0].error, 'join("drop") leaves them out.')
        outputs = [output for _, _, output in parts]
        return joined(outputs, [count for _, count, _ in parts]) if self._job.is_batched else outputs

    def _parts(self) -> list[tuple[int, int, Any]]:
        """(index, items, output) of everything that has not failed, by index."""
        self._begun = True
        parts: list[tuple[int, int, Any]] = []
        for piece in self._job.pieces:
            if self._job.is_batched:
                parts += [(piece.indices[place], count, output) for place, count, output in piece.outputs()]
            else:
                numbered = zip(piece.indices, piece.results, strict=True)
                parts += [(index, 1, value) for index, value in numbered if not isinstance(value, Failure)]
        return sorted(parts, key=lambda part: part[0])

    def _give_values(self) -> Iterator[Any]:
        while True:
            left = self._left
            yield from left
            if self._left is left and not self._advance():
                return

    def _give_indexed(self) -> Iterator[tuple[int, Any]]:
        while True:
            left = self._left
            for value in left:
                yield self._indices[-length_hint(left) - 1], value
            if self._left is left and not self._advance():
                return

    def _advance(self) -> bool:
        """On to the next piece, if there is one; whoever asks, by value or with numbers."""
        self._begun = True
        for piece in self._job.pieces:
            self._indices, self._left = piece.indices, iter(piece.results)
            return True
        return False

    def close(self) -> None:
        """Let go of the workers. What was not taken is given up."""
        self._left = iter([])
        self._job.close()

    def __enter__(self) -> Mapped:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        of = "" if self._job.count is None else f" of {self._job.count:,}"
        kept = f", {self.kept:,} from before" if self.kept else ""
        where = f" in {self.output}" if self.output is not None else ""
        return f"<clew map: {self.done:,}{of} items done{kept}, {len(self.failures):,} failed{where}>"


def _read(path: Path, failures: list[Failure]) -> Iterator[tuple[int, Any]]:
    """What an output holds, with the failures of the job that wrote it."""
    from .output_parts import rows_in

    known = {failure.index: failure for failure in failures}
    for index, value, error in rows_in(path):
        if error is None:
            yield index, value
        else:
            found = known.get(index)
            yield index, Failure(index, None, error) if found is None else found

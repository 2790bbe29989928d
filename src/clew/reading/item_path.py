"""Follows one item through the stages, and leads from a row of a batch back to its sample."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from clew.reading.stage import Displayed, StageCall, unknown_part_error
from clew.records import Passage

BEFORE_ROWS = ("sampler", "dataset")  # stages whose rows are in the order of drawing


def gives_row_order(passage: Passage, previous: Passage | None) -> bool:
    """Whether the rows of this passage replace those of the previous one as the order of the batch."""
    return previous is None or (previous.stage in BEFORE_ROWS and passage.stage not in BEFORE_ROWS)


def why_lost(passages: list[Passage]) -> str:
    """Why it is unknown which rows of a batch belong to its items; "" if it is known."""
    return next((p.lost for p in passages if p.lost and p.stage not in BEFORE_ROWS), "")


@dataclass(frozen=True, slots=True)
class Step:
    """One item in one call, with its own share of the call's values."""

    call: StageCall
    row: int | None  # its row in the batch, if there is one
    inputs: dict[str, Any]
    outputs: dict[str, Any]


class _ItemPath(Displayed):
    """The calls that an item passed, in some order."""

    def __init__(self, id: Any, source: str, calls: list[StageCall], files: tuple[str, ...]) -> None:
        self.id = id
        self.source = source
        self.calls = calls
        self.files = files

    @property
    def steps(self) -> list[Step]:
        """What each stage received and gave for this item: its row of a batch, its part of a loss per item."""
        return [self._step(call) for call in self.calls]

    def _step(self, call: StageCall) -> Step:
        from clew.reading.rows import row_of

        passage = call._passage
        if not passage.by_row or self.id not in passage.ids:
            return Step(call, None, dict(passage.inputs), dict(passage.outputs))
        row, count = passage.ids.index(self.id), len(passage.ids)
        input_ids = passage.given or passage.ids
        inputs = {
            name: row_of(value, input_ids.index(self.id), len(input_ids)) for name, value in passage.inputs.items()
        }
        outputs = {name: row_of(value, row, count) for name, value in passage.outputs.items()}
        return Step(call, row, inputs, outputs)

    @property
    def stages(self) -> list[str]:
        return list(dict.fromkeys(call._passage.stage for call in self.calls))

    def __getitem__(self, stage: str) -> list[Step]:
        steps = [step for step in self.steps if step.call._passage.stage == stage]
        if not steps:
            raise unknown_part_error(f"item {self.id!r} did not pass a stage `{stage}`", stage, self.stages)
        return steps

    def __getattr__(self, name: str) -> list[Step]:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.calls)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *filter(str.isidentifier, self.stages)]


class Item(_ItemPath):
    """One item and the calls it passed: `item.steps`, `item["collate"]`, `item.files`."""

    @property
    def batch(self) -> int | None:
        """The number of its batch."""
        return next((call._passage.batch for call in self.calls if call._passage.batch is not None), None)

    @property
    def row(self) -> int | None:
        """Its row in the batch; None if unknown."""
        steps = [step for step in self.steps if step.row is not None]
        rows = [step.row for step in steps if step.call._passage.stage not in BEFORE_ROWS]
        if not rows and why_lost([call._passage for call in self.calls]):
            return None  # the position at which it was drawn need not be its row
        return next(iter([*rows, *(step.row for step in steps)]), None)

    @property
    def loss(self) -> Any:
        """Its own part of the loss, if the loss has one value per item; else None."""
        for call in self.calls:
            passage = call._passage
            if passage.stage == "loss" and passage.by_row and self.id in passage.ids:
                for value in passage.outputs.values():
                    if getattr(value, "shape", None) and value.shape[0] == len(passage.ids):
                        part = value[passage.ids.index(self.id)]
                        return part.detach() if hasattr(part, "detach") else part
        return None


class Lineage(_ItemPath):
    """The calls that led to a row of a batch, last one first, back to its sample."""

    def __init__(self, batch: int, row: int, item: Item) -> None:
        super().__init__(item.id, item.source, list(reversed(item.calls)), item.files)
        self.batch = batch
        self.row = row

    @property
    def sample(self) -> Any:
        """The sample from the dataset: the output of the first call of the item on its own."""
        for call in reversed(self.calls):
            if call._passage.outputs and not call._passage.by_row:
                return next(iter(call._passage.outputs.values()))
        return None

    @property
    def file(self) -> str | None:
        """The file it was read from, if any."""
        return self.files[0] if self.files else None

"""One item on its way through the stages, and from a row of a batch back to its sample."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from clew.history.stage import Shown, StageCall, unknown
from clew.records import Passage

BEFORE_ROWS = ("sampler", "dataset")  # stages whose rows are in the order in which they were drawn


def may_say(passage: Passage, before: Passage | None) -> bool:
    return before is None or (before.stage in BEFORE_ROWS and passage.stage not in BEFORE_ROWS)


def why_lost(passages: list[Passage]) -> str:
    """Why it is not known which rows of a batch its items are; "" if nothing was lost."""
    return next((p.lost for p in passages if p.lost and p.stage not in BEFORE_ROWS), "")


@dataclass(frozen=True, slots=True)
class Step:
    """An item in one call: what of the call's values is this item's own."""

    call: StageCall
    row: int | None  # its place in the batch, if it is in one
    inputs: dict[str, Any]
    outputs: dict[str, Any]


class _Way(Shown):
    """The way of an item through the stages."""

    def __init__(self, id: Any, source: str, calls: list[StageCall], files: tuple[str, ...]) -> None:
        self.id = id
        self.source = source
        self.calls = calls
        self.files = files

    @property
    def steps(self) -> list[Step]:
        """What each stage got and gave of this item: of a batch its row, of a loss per item its part."""
        return [self._step(call) for call in self.calls]

    def _step(self, call: StageCall) -> Step:
        from clew.history.rows import row_of

        passage = call._passage
        if not passage.by_row or self.id not in passage.ids:
            return Step(call, None, dict(passage.inputs), dict(passage.outputs))
        row, count = passage.ids.index(self.id), len(passage.ids)
        given = passage.given or passage.ids
        inputs = {name: row_of(value, given.index(self.id), len(given)) for name, value in passage.inputs.items()}
        outputs = {name: row_of(value, row, count) for name, value in passage.outputs.items()}
        return Step(call, row, inputs, outputs)

    @property
    def stages(self) -> list[str]:
        return list(dict.fromkeys(call._passage.stage for call in self.calls))

    def __getitem__(self, stage: str) -> list[Step]:
        found = [step for step in self.steps if step.call._passage.stage == stage]
        if not found:
            raise unknown(f"item {self.id!r} did not pass a stage `{stage}`", stage, self.stages)
        return found

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


class Item(_Way):
    """One item on its way: `item.steps`, `item["collate"]`, `item.files`."""

    @property
    def batch(self) -> int | None:
        """The number of the batch it was in."""
        return next((call._passage.batch for call in self.calls if call._passage.batch is not None), None)

    @property
    def row(self) -> int | None:
        """Its row there; None if it is not known."""
        steps = [step for step in self.steps if step.row is not None]
        rows = [step.row for step in steps if step.call._passage.stage not in BEFORE_ROWS]
        if not rows and why_lost([call._passage for call in self.calls]):
            return None  # the place it was drawn at need not be its row
        return next(iter([*rows, *(step.row for step in steps)]), None)

    @property
    def loss(self) -> Any:
        """Its own part of the loss, if the loss was given for each item; else None."""
        for call in self.calls:
            passage = call._passage
            if passage.stage == "loss" and passage.by_row and self.id in passage.ids:
                for value in passage.outputs.values():
                    if getattr(value, "shape", None) and value.shape[0] == len(passage.ids):
                        part = value[passage.ids.index(self.id)]
                        return part.detach() if hasattr(part, "detach") else part
        return None


class Lineage(_Way):
    """From a row of a batch back to its sample: the calls that led to it, the last one first."""

    def __init__(self, batch: int, row: int, item: Item) -> None:
        super().__init__(item.id, item.source, list(reversed(item.calls)), item.files)
        self.batch = batch
        self.row = row

    @property
    def sample(self) -> Any:
        """What the dataset gave for it: the output of the first call it was in."""
        for call in reversed(self.calls):
            if call._passage.outputs and not call._passage.by_row:
                return next(iter(call._passage.outputs.values()))
        return None

    @property
    def file(self) -> str | None:
        """The file it was read from, if one was opened."""
        return self.files[0] if self.files else None

"""A trace of a pipeline: its stages in the order they were reached, the calls of each, and the path of each item.

`trace.collate[0].batch`: stage names work both as attributes and as keys. A key always means the recorded name; a
method of the same name takes precedence over an attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clew.errors import OptionError
from clew.reading.item_path import BEFORE_ROWS, Item, Lineage, Step, gives_row_order, why_lost
from clew.reading.stage import Displayed, Stage, StageCall, unknown_part_error
from clew.records import Passage, TraceFacts

if TYPE_CHECKING:
    from clew.reading.check import Findings

Loaded = tuple[list[Passage], TraceFacts]


@dataclass
class _Content:
    passages: list[Passage] = field(default_factory=list)
    facts: TraceFacts = field(default_factory=TraceFacts)


class Trace(Displayed):
    """What passed through a pipeline: `trace.collate`, `trace["collate"]`, `trace.item(7)`, `trace.check()`."""

    def __init__(self, load: Callable[[], Loaded]) -> None:
        self._load = load
        self._content: _Content | None = None  # kept once the trace has ended and cannot change

    @classmethod
    def of(cls, passages: Sequence[Passage], facts: TraceFacts | None = None) -> Trace:
        """A trace made of these passages."""
        trace_facts = facts or TraceFacts(state="finished")
        return cls(lambda: (list(passages), trace_facts))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles hold the current content."""
        content = self._current_content()
        return Trace.of, (content.passages, content.facts)

    def _current_content(self) -> _Content:
        if self._content is not None:
            return self._content
        passages, facts = self._load()
        content = _Content(sorted(passages, key=lambda p: p.started), facts)
        if facts.state != "running":
            self._content = content
        return content

    # ---- stages

    @property
    def stages(self) -> dict[str, Stage]:
        """By name, in the order they were first reached."""
        content = self._current_content()
        names = dict.fromkeys(p.stage for p in content.passages)
        calls: dict[str, list[StageCall]] = {name: [] for name in names}
        for passage in content.passages:
            calls[passage.stage].append(StageCall(passage))
        return {name: Stage(name, stage_calls) for name, stage_calls in calls.items()}

    @property
    def calls(self) -> list[StageCall]:
        """The calls of all stages, in the order they began."""
        return [StageCall(passage) for passage in self._current_content().passages]

    def __getitem__(self, stage: str) -> Stage:
        stages = self.stages
        if stage not in stages:
            raise unknown_part_error(
                f"the trace has no stage `{stage}`", stage, list(stages), addition=self._why_empty()
            )
        return stages[stage]

    def __getattr__(self, name: str) -> Stage:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def _why_empty(self) -> str:
        facts = self._current_content().facts
        return f"It ended early: {facts.error}" if facts.error else ""

    def __contains__(self, stage: object) -> bool:
        return stage in self.stages

    def __iter__(self) -> Iterator[Stage]:
        return iter(self.stages.values())

    def __len__(self) -> int:
        return len(self.stages)

    def __bool__(self) -> bool:
        return True

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *filter(str.isidentifier, self.stages)]

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.stages)

    # ---- what was done to the program, and how it ended

    @property
    def facts(self) -> TraceFacts:
        return self._current_content().facts

    @property
    def altered(self) -> list[str]:
        """What was changed in the program so that it ended early."""
        return list(self.facts.altered)

    @property
    def notes(self) -> list[str]:
        """Further remarks: fewer items than requested, calls that could not be observed."""
        return list(self.facts.notes)

    @property
    def error(self) -> str | None:
        """The exception that ended the program during the trace."""
        return self.facts.error

    @property
    def path(self) -> str:
        """The folder of the run it is stored in; "" if it is not stored."""
        return self.facts.run

    # ---- items

    @property
    def items(self) -> list[Item]:
        """Every item that passed, in order of first appearance."""
        keys = dict.fromkeys((p.source, _id_key(id)) for p in self._current_content().passages for id in p.ids)
        ids = {_id_key(id): id for p in self._current_content().passages for id in p.ids}
        return [self._item(source, ids[key]) for source, key in keys]

    def item(self, id: Any, source: str | None = None) -> Item:
        """One item with every stage it passed. `source` selects the dataset if several have an item with this id."""
        sources = list(dict.fromkeys(p.source for p in self._current_content().passages if _contains_id(id, p.ids)))
        if source is not None:
            sources = [candidate for candidate in sources if candidate == source]
        if not sources:
            ids = list(dict.fromkeys(repr(item.id) for item in self.items))
            raise unknown_part_error(f"no item {id!r} is in the trace", id, ids)
        if len(sources) > 1:
            options = ", ".join(f"source={candidate!r}" for candidate in sources)
            cli_options = ", ".join(f"--item {f'{candidate}:{id}'!r}" for candidate in sources)
            message = f"item {id!r} came from {len(sources)} places."
            raise OptionError("item-of-several", message, f"Say which: {options} (with `clew show`: {cli_options}).")
        return self._item(sources[0], id)

    def _item(self, source: str, id: Any) -> Item:
        passages = [p for p in self._current_content().passages if p.source == source and _contains_id(id, p.ids)]
        # A file opened for a whole batch belongs to no single item.
        files = dict.fromkeys(file for p in passages if len(p.ids) == 1 for file in p.files)
        recorded_id = next(i for p in passages for i in p.ids if _id_key(i) == _id_key(id))
        return Item(recorded_id, source, [StageCall(p) for p in passages], tuple(files))

    def lineage(self, batch: int, row: int) -> Lineage:
        """Lead from a row of a batch back to its sample and file."""
        batches: dict[int, Passage] = {}
        for passage in self._current_content().passages:
            # Before collate, rows are in the order of the samples, which may differ from that of the batch.
            if passage.batch is not None and passage.by_row and gives_row_order(passage, batches.get(passage.batch)):
                batches[passage.batch] = passage
        if batch not in batches:
            raise unknown_part_error(
                f"the trace has no batch {batch}", batch, [str(number) for number in sorted(batches)]
            )
        passage = batches[batch]
        if not 0 <= row < len(passage.ids):
            rows = [str(number) for number in range(len(passage.ids))]
            raise unknown_part_error(f"batch {batch} has no row {row}", row, rows)
        reason = why_lost([p for p in self._current_content().passages if p.batch == batch])
        if reason and passage.stage in BEFORE_ROWS:
            message = f"it is not known which item row {row} of batch {batch} is: {reason}"
            raise unknown_part_error(message, "", [repr(id) for id in passage.ids])
        return Lineage(batch, row, self._item(passage.source, passage.ids[row]))

    def check(self) -> Findings:
        """Check for the usual mistakes, with a warning for each, and list what changed between the stages."""
        from clew.reading.check import check

        return check(self)


def _id_key(id: Any) -> Any:
    """A hashable key for an id of any type; True and 1 differ."""
    try:
        hash(id)
    except TypeError:
        return repr(id)
    return type(id).__name__ if isinstance(id, bool) else "", id


def _contains_id(id: Any, ids: tuple[Any, ...]) -> bool:
    key = _id_key(id)
    return any(_id_key(candidate) == key for candidate in ids)


__all__ = ["Item", "Lineage", "Stage", "StageCall", "Step", "Trace"]

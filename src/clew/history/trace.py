"""What a trace of a pipeline says: stages in the order they were reached, the calls of each, and each item's way.

`trace.collate[0].batch`: names of stages are attributes and keys alike; a key always means the recorded name, an
attribute gives way to a method of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clew.errors import OptionError
from clew.history.item import BEFORE_ROWS, Item, Lineage, Step, may_say, why_lost
from clew.history.stage import Shown, Stage, StageCall, unknown
from clew.records import Passage, TraceFacts

if TYPE_CHECKING:
    from clew.history.check import Findings

Loaded = tuple[list[Passage], TraceFacts]


@dataclass
class _Content:
    passages: list[Passage] = field(default_factory=list)
    facts: TraceFacts = field(default_factory=TraceFacts)


class Trace(Shown):
    """What passed through a pipeline: `trace.collate`, `trace["collate"]`, `trace.item(7)`, `trace.check()`."""

    def __init__(self, load: Callable[[], Loaded]) -> None:
        self._load = load
        self._content: _Content | None = None  # once it is over, nothing comes any more

    @classmethod
    def of(cls, passages: Sequence[Passage], facts: TraceFacts | None = None) -> Trace:
        """A trace of these passages."""
        known = facts or TraceFacts(state="finished")
        return cls(lambda: (list(passages), known))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied and pickled with what it holds now."""
        content = self._now()
        return Trace.of, (content.passages, content.facts)

    def _now(self) -> _Content:
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
        content = self._now()
        names = dict.fromkeys(p.stage for p in content.passages)
        calls: dict[str, list[StageCall]] = {name: [] for name in names}
        for passage in content.passages:
            calls[passage.stage].append(StageCall(passage))
        return {name: Stage(name, found) for name, found in calls.items()}

    @property
    def calls(self) -> list[StageCall]:
        """All of them, in the order they began."""
        return [StageCall(passage) for passage in self._now().passages]

    def __getitem__(self, stage: str) -> Stage:
        stages = self.stages
        if stage not in stages:
            raise unknown(f"the trace has no stage `{stage}`", stage, list(stages), also=self._why_empty())
        return stages[stage]

    def __getattr__(self, name: str) -> Stage:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def _why_empty(self) -> str:
        facts = self._now().facts
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
        return self._now().facts

    @property
    def altered(self) -> list[str]:
        """What had to be changed in the program so that it ended soon."""
        return list(self.facts.altered)

    @property
    def notes(self) -> list[str]:
        """What else is to be known: fewer items than were asked for, calls that could not be seen."""
        return list(self.facts.notes)

    @property
    def error(self) -> str | None:
        """The exception that ended the program while it was traced."""
        return self.facts.error

    @property
    def path(self) -> str:
        """The folder of the run it is stored in; "" if it is not stored."""
        return self.facts.run

    # ---- items

    @property
    def items(self) -> list[Item]:
        """Every item that was seen, in the order they came."""
        seen = dict.fromkeys((p.source, _key(id)) for p in self._now().passages for id in p.ids)
        ids = {_key(id): id for p in self._now().passages for id in p.ids}
        return [self._item(source, ids[key]) for source, key in seen]

    def item(self, id: Any, source: str | None = None) -> Item:
        """One item in every stage it passed. `source` tells items of two datasets apart that have the same id."""
        sources = list(dict.fromkeys(p.source for p in self._now().passages if _in(id, p.ids)))
        if source is not None:
            sources = [known for known in sources if known == source]
        if not sources:
            known = list(dict.fromkeys(repr(item.id) for item in self.items))
            raise unknown(f"no item {id!r} is in the trace", id, known)
        if len(sources) > 1:
            named = ", ".join(f"source={known!r}" for known in sources)
            typed = ", ".join(f"--item {f'{known}:{id}'!r}" for known in sources)
            what = f"item {id!r} came from {len(sources)} places."
            raise OptionError("item-of-several", what, f"Say which: {named} (with `clew show`: {typed}).")
        return self._item(sources[0], id)

    def _item(self, source: str, id: Any) -> Item:
        passages = [p for p in self._now().passages if p.source == source and _in(id, p.ids)]
        # A file that was opened for a batch as a whole is nobody's own.
        files = dict.fromkeys(file for p in passages if len(p.ids) == 1 for file in p.files)
        found = next(i for p in passages for i in p.ids if _key(i) == _key(id))
        return Item(found, source, [StageCall(p) for p in passages], tuple(files))

    def lineage(self, batch: int, row: int) -> Lineage:
        """From a row of a batch back to the sample and its file."""
        batches: dict[int, Passage] = {}
        for passage in self._now().passages:
            # Before collate the rows are in the order of the samples, which need not be that of the batch.
            if passage.batch is not None and passage.by_row and may_say(passage, batches.get(passage.batch)):
                batches[passage.batch] = passage
        if batch not in batches:
            raise unknown(f"the trace has no batch {batch}", batch, [str(number) for number in sorted(batches)])
        passage = batches[batch]
        if not 0 <= row < len(passage.ids):
            rows = [str(number) for number in range(len(passage.ids))]
            raise unknown(f"batch {batch} has no row {row}", row, rows)
        lost = why_lost([p for p in self._now().passages if p.batch == batch])
        if lost and passage.stage in BEFORE_ROWS:
            what = f"which item row {row} of batch {batch} is, is not known: {lost}"
            raise unknown(what, "", [repr(id) for id in passage.ids])
        return Lineage(batch, row, self._item(passage.source, passage.ids[row]))

    def check(self) -> Findings:
        """What changed between the stages, with a warning for each of the usual mistakes."""
        from clew.history.check import check

        return check(self)


def _key(id: Any) -> Any:
    """An id as something that can be looked up, whatever it is; True is no 1."""
    try:
        hash(id)
    except TypeError:
        return repr(id)
    return type(id).__name__ if isinstance(id, bool) else "", id


def _in(id: Any, ids: tuple[Any, ...]) -> bool:
    wanted = _key(id)
    return any(_key(known) == wanted for known in ids)


__all__ = ["Item", "Lineage", "Stage", "StageCall", "Step", "Trace"]

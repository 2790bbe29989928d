"""What a trace of a pipeline says: stages in the order they were reached, the calls of each, and each item's way.

`trace.collate[0].batch`: whatever a person would write to get at something is the way to it. Names of stages,
functions and fields are attributes and keys alike; a key always means the recorded name, an attribute gives way to a
method of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clew.errors import OptionError, UnknownPartError, nearest
from clew.records import Passage, TraceFacts

if TYPE_CHECKING:
    from clew.history.check import Findings

Loaded = tuple[list[Passage], TraceFacts]


class _Shown:
    """Printed and displayed alike."""

    def __str__(self) -> str:
        from clew.show.pipeline import text

        return text(self)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from clew.show.pipelinehtml import html

        return html(self)


def unknown(what: str, asked: object, known: Sequence[str], *, also: str = "") -> UnknownPartError:
    remedy = nearest(str(asked), known)
    if not remedy.startswith("there is") and known:
        remedy = f"{remedy} There is {', '.join(f'`{name}`' for name in known)}."
    return UnknownPartError("unknown-part-of-trace", f"{what};", f"{remedy} {also}".strip())


class StageCall(_Shown):
    """One call in a stage: `call.batch` and `call["batch"]` are what it was given or gave under that name."""

    def __init__(self, passage: Passage) -> None:
        self._passage = passage

    @property
    def passage(self) -> Passage:
        """Everything that is known of it, as plain data."""
        return self._passage

    @property
    def stage(self) -> str:
        return self._passage.stage

    @property
    def function(self) -> str:
        """The qualified name of the function that was called."""
        return self._passage.function

    @property
    def inputs(self) -> dict[str, Any]:
        return dict(self._passage.inputs)

    @property
    def outputs(self) -> dict[str, Any]:
        return dict(self._passage.outputs)

    @property
    def ids(self) -> tuple[Any, ...]:
        """The items it was about; in the order of its rows, if it was given or gave a batch."""
        return self._passage.ids

    @property
    def batch_number(self) -> int | None:
        return self._passage.batch

    @property
    def duration(self) -> float | None:
        """Seconds; None if it had not ended."""
        return None if self._passage.duration is None else self._passage.duration / 1e9

    @property
    def duration_ns(self) -> int | None:
        return self._passage.duration

    @property
    def error(self) -> str | None:
        return self._passage.error

    @property
    def files(self) -> tuple[str, ...]:
        """The files that were opened while it ran."""
        return self._passage.files

    @property
    def lost(self) -> str:
        """Why it is not known which items it was about; "" if it is."""
        return self._passage.lost

    def keys(self) -> list[str]:
        """The names of what it was given and gave."""
        return list(dict.fromkeys([*self._passage.inputs, *self._passage.outputs]))

    def __getitem__(self, key: str | int) -> Any:
        inputs, outputs = self._passage.inputs, self._passage.outputs
        if isinstance(key, int):
            values = [*inputs.values(), *outputs.values()]
            if not -len(values) <= key < len(values):
                raise unknown(f"{self.function} has no field {key}", key, self.keys())
            return values[key]
        if key in inputs and key in outputs:
            return inputs[key], outputs[key]
        if key in inputs:
            return inputs[key]
        if key in outputs:
            return outputs[key]
        raise unknown(f"{self.function} in stage `{self.stage}` has no `{key}`", key, self.keys(), also=self._why())

    def _why(self) -> str:
        if self._passage.error is not None:
            return f"It raised {self._passage.error}, so it gave nothing."
        return "" if self._passage.duration is not None else "It had not ended."

    def __getattribute__(self, name: str) -> Any:
        # What the user's function calls `stage` or `inputs` is meant by that name before what we call so.
        if name[:1] != "_":
            passage = object.__getattribute__(self, "_passage")
            if name in passage.inputs or name in passage.outputs:
                return object.__getattribute__(self, "__getitem__")(name)
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __contains__(self, key: object) -> bool:
        return key in self._passage.inputs or key in self._passage.outputs

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.keys()]

    def _ipython_key_completions_(self) -> list[str]:
        return self.keys()


class Stage(_Shown, Sequence[StageCall]):
    """The calls of one stage, in the order they began. `stage["load"]` is the list of the calls of `load`."""

    def __init__(self, name: str, calls: Sequence[StageCall]) -> None:
        self._name = name
        self._calls = list(calls)

    @property
    def name(self) -> str:
        return self._name

    @property
    def functions(self) -> list[str]:
        """The functions that were called, in the order of their first call."""
        return list(dict.fromkeys(call._passage.function for call in self._calls))

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[StageCall]:
        return iter(self._calls)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return Stage(self._name, self._calls[key])
        if isinstance(key, int):
            if not -len(self) <= key < len(self):
                calls = f"{len(self)} call{'' if len(self) == 1 else 's'}"
                raise unknown(f"stage `{self._name}` has {calls}, and none numbered {key}", key, self.functions)
            return self._calls[key]
        found = [call for call in self._calls if call._passage.function == key]
        found = found or [call for call in self._calls if call._passage.function.rpartition(".")[2] == key]
        if not found:
            raise unknown(f"stage `{self._name}` has no call of `{key}`", key, self.functions)
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *filter(str.isidentifier, self.functions)]

    def _ipython_key_completions_(self) -> list[str]:
        return self.functions


@dataclass(frozen=True, slots=True)
class Step:
    """An item in one call: what of the call's values is this item's own."""

    call: StageCall
    row: int | None  # its place in the batch, if it is in one
    inputs: dict[str, Any]
    outputs: dict[str, Any]


class _Way(_Shown):
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

    def __getattr__(self, name: str) -> Any:
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
        rows = [step.row for step in steps if step.call._passage.stage not in _BEFORE_ROWS]
        if not rows and _why_lost([call._passage for call in self.calls]):
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


@dataclass
class _Content:
    passages: list[Passage] = field(default_factory=list)
    facts: TraceFacts = field(default_factory=TraceFacts)


class Trace(_Shown):
    """What passed through a pipeline: `trace.collate`, `trace["collate"]`, `trace.item(7)`, `trace.check()`."""

    def __init__(self, load: Callable[[], Loaded]) -> None:
        self._load = load
        self._content: _Content | None = None  # once it is over, nothing comes any more

    @classmethod
    def of(cls, passages: Sequence[Passage], facts: TraceFacts | None = None) -> Trace:
        """A trace of these passages."""
        known = facts or TraceFacts(state="finished")
        return cls(lambda: (list(passages), known))

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

    def __getattr__(self, name: str) -> Any:
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
            what = f"item {id!r} came from {len(sources)} places."
            raise OptionError("item-of-several", what, f"Say which: {named}.")
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
            if passage.batch is not None and passage.by_row and _may_say(passage, batches.get(passage.batch)):
                batches[passage.batch] = passage
        if batch not in batches:
            raise unknown(f"the trace has no batch {batch}", batch, [str(number) for number in sorted(batches)])
        passage = batches[batch]
        if not 0 <= row < len(passage.ids):
            rows = [str(number) for number in range(len(passage.ids))]
            raise unknown(f"batch {batch} has no row {row}", row, rows)
        lost = _why_lost([p for p in self._now().passages if p.batch == batch])
        if lost and passage.stage in _BEFORE_ROWS:
            what = f"which item row {row} of batch {batch} is, is not known: {lost}"
            raise unknown(what, "", [repr(id) for id in passage.ids])
        return Lineage(batch, row, self._item(passage.source, passage.ids[row]))

    def check(self) -> Findings:
        """What changed between the stages, with a warning for each of the usual mistakes."""
        from clew.history.check import check

        return check(self)


_BEFORE_ROWS = ("sampler", "dataset")  # stages whose rows are in the order in which they were drawn


def _may_say(passage: Passage, before: Passage | None) -> bool:
    return before is None or (before.stage in _BEFORE_ROWS and passage.stage not in _BEFORE_ROWS)


def _why_lost(passages: list[Passage]) -> str:
    """Why it is not known which rows of a batch its items are; "" if nothing was lost."""
    return next((p.lost for p in passages if p.lost and p.stage not in _BEFORE_ROWS), "")


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

"""What the rules look at: the passages of a trace, which of them are what, and the leaves of their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from clew.history.checks.finding import Finding, Level
from clew.history.checks.leaf import Leaf, leaves_of
from clew.history.rows import is_sequence
from clew.records import Passage
from clew.show.text import brief

if TYPE_CHECKING:
    from clew.history.trace import Trace

_MODELS: Final = ("model", "forward", "evaluation", "predict", "inference")
_PLAIN: Final = (int, str, bytes, float, bool, type(None))


class Seen:
    """A trace as the rules see it. Leaves are found once for each value, and so are their statistics."""

    def __init__(self, trace: Trace) -> None:
        self.passages: list[Passage] = [call._passage for call in trace.calls]
        self.facts = trace.facts
        # Not asked of the trace again: of one that goes on it would be another answer.
        reached = {passage.stage for passage in self.passages}
        order = dict.fromkeys([*self.facts.stages, *(passage.stage for passage in self.passages)])
        self.stages: list[str] = [stage for stage in order if stage in reached]
        self._leaves: dict[tuple[int, str], list[Leaf]] = {}
        self._parents = {passage.key: passage for passage in self.passages if passage.key != ("", 0)}

    def leaves(self, value: Any, path: str = "") -> list[Leaf]:
        key = id(value), path  # the passages hold on to their values, so that no other one gets this id
        if key not in self._leaves:
            self._leaves[key] = leaves_of(value, path)
        return self._leaves[key]

    def inputs(self, passage: Passage) -> list[Leaf]:
        return self._of(passage.inputs)

    def outputs(self, passage: Passage) -> list[Leaf]:
        return self._of(passage.outputs, alone="")

    def _of(self, fields: dict[str, Any], alone: str | None = None) -> list[Leaf]:
        """Each with the name of its field; that of a single output says nothing."""
        single = alone if len(fields) == 1 else None
        return [
            leaf for name, value in fields.items() for leaf in self.leaves(value, name if single is None else single)
        ]

    def ancestors(self, passage: Passage) -> Iterator[Passage]:
        """The passages inside which it was called, the nearest first."""
        seen = {passage.key}
        parent = passage.parent
        while parent is not None and parent not in seen:
            seen.add(parent)
            found = self._parents.get(parent)
            if found is None:
                return
            yield found
            parent = found.parent

    def models(self) -> list[Passage]:
        """The outermost calls of a model."""
        found = [passage for passage in self.passages if is_model(passage)]
        return [passage for passage in found if not any(is_model(outer) for outer in self.ancestors(passage))]


def is_model(passage: Passage) -> bool:
    """A loss is a module too, and has a mode."""
    return not is_loss(passage) and (passage.mode != "" or passage.stage in _MODELS)


def is_loss(passage: Passage) -> bool:
    return "loss" in passage.stage.lower() or passage.stage == "criterion"


def is_collate(passage: Passage) -> bool:
    return "collate" in passage.stage.lower() or "collate" in passage.function.lower()


def samples_of(passage: Passage) -> Sequence[Any] | None:
    """The samples a collate was given; as many as it has items, if it left none out."""
    if not is_collate(passage):
        return None
    lists = [value for value in passage.inputs.values() if is_sequence(value)]
    fitting = [value for value in lists if len(value) == len(passage.ids)]
    return next(iter(fitting or lists), None)


def principal(leaves: Iterable[Leaf]) -> Leaf | None:
    """What a batch is about: its largest array of numbers that is no mask, no label and the like."""
    found = [leaf for leaf in leaves if leaf.is_array and leaf.shape and not leaf.is_aside]
    found = [leaf for leaf in found if leaf.is_float or leaf.dtype == "uint8"]
    return max(found, key=lambda leaf: leaf.size) if found else None


def key_of(id: Any) -> Any:
    """An id as something that can be looked up, whatever it is; no code of its class runs."""
    if type(id) in _PLAIN:
        return type(id).__name__, id
    if type(id) is tuple:
        return tuple(key_of(part) for part in id)
    return brief(id, 400)


def name_of(leaf: Leaf, fallback: str = "the value") -> str:
    return f"`{leaf.path}`" if leaf.path else fallback


def found(
    kind: str, passage: Passage, text: str, remedy: str = "", *, level: Level = "warning", items: Sequence[Any] = ()
) -> Finding:
    """About one call."""
    return Finding(kind, level, passage.stage, passage.function, tuple(items or passage.ids), text, remedy)


def merged(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Those of the same kind at the same place as one, with the figures of the first; a warning outweighs a note."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for one in findings:
        groups.setdefault((one.kind, one.stage, one.function), []).append(one)
    for group in groups.values():
        first = next((one for one in group if one.level == "warning"), group[0])
        more = len(group) - 1
        again = "" if not more else f" So in {more:,} more {'call' if more == 1 else 'calls'}."
        yield replace(first, items=unique(item for one in group for item in one.items), text=first.text + again)


def unique(items: Iterable[Any]) -> tuple[Any, ...]:
    return tuple({key_of(item): item for item in reversed(list(items))}.values())[::-1]

"""Prepares a trace for the rules: its passages, which of them are models, losses and collates, and their leaves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from clew.reading.checks.finding import Finding, Level, repetition
from clew.reading.checks.leaves import Leaf, leaves_of
from clew.reading.rows import is_sequence
from clew.records import Passage
from clew.text.brief import brief

if TYPE_CHECKING:
    from clew.reading.trace import Trace

_MODELS: Final = ("model", "forward", "evaluation", "predict", "inference")
_PLAIN: Final = (int, str, bytes, float, bool, type(None))


class Evidence:
    """A trace as the rules see it. Leaves and their statistics are computed once per value."""

    def __init__(self, trace: Trace) -> None:
        self.passages: list[Passage] = [call._passage for call in trace.calls]
        self.facts = trace.facts
        # Computed from these passages: a running trace would by now give a different answer.
        reached = {passage.stage for passage in self.passages}
        order = dict.fromkeys([*self.facts.stages, *(passage.stage for passage in self.passages)])
        self.stages: list[str] = [stage for stage in order if stage in reached]
        self._leaves: dict[tuple[int, str], list[Leaf]] = {}
        self._parents = {passage.key: passage for passage in self.passages if passage.key != ("", 0)}

    def leaves(self, value: Any, path: str = "") -> list[Leaf]:
        key = id(value), path  # passages keep their values alive, so an id is not reused
        if key not in self._leaves:
            self._leaves[key] = leaves_of(value, path)
        return self._leaves[key]

    def inputs(self, passage: Passage) -> list[Leaf]:
        return self._leaves_of_fields(passage.inputs)

    def outputs(self, passage: Passage) -> list[Leaf]:
        return self._leaves_of_fields(passage.outputs, single_name="")

    def _leaves_of_fields(self, fields: dict[str, Any], single_name: str | None = None) -> list[Leaf]:
        """The leaves, each under the name of its field; `single_name` replaces the name of an only field."""
        replacement = single_name if len(fields) == 1 else None
        return [
            leaf
            for name, value in fields.items()
            for leaf in self.leaves(value, name if replacement is None else replacement)
        ]

    def ancestors(self, passage: Passage) -> Iterator[Passage]:
        """The passages that enclose this one, innermost first."""
        visited = {passage.key}
        key = passage.parent
        while key is not None and key not in visited:
            visited.add(key)
            ancestor = self._parents.get(key)
            if ancestor is None:
                return
            yield ancestor
            key = ancestor.parent

    def models(self) -> list[Passage]:
        """The outermost calls of a model."""
        models = [passage for passage in self.passages if is_model(passage)]
        return [passage for passage in models if not any(is_model(ancestor) for ancestor in self.ancestors(passage))]


def is_model(passage: Passage) -> bool:
    """Whether a passage is a call of a model. Losses have a mode too, but are not models."""
    return not is_loss(passage) and (passage.mode != "" or passage.stage in _MODELS)


def is_loss(passage: Passage) -> bool:
    return "loss" in passage.stage.lower() or passage.stage == "criterion"


def is_collate(passage: Passage) -> bool:
    return "collate" in passage.stage.lower() or "collate" in passage.function.lower()


def samples_of(passage: Passage) -> Sequence[Any] | None:
    """The samples passed to a collate function, or None; their number matches its items if it dropped none."""
    if not is_collate(passage):
        return None
    lists = [value for value in passage.inputs.values() if is_sequence(value)]
    fitting = [value for value in lists if len(value) == len(passage.ids)]
    return next(iter(fitting or lists), None)


def principal(leaves: Iterable[Leaf]) -> Leaf | None:
    """The main array of a batch: the largest array of numbers that is not a mask, label or similar."""
    arrays = [
        leaf
        for leaf in leaves
        if leaf.is_array and leaf.shape and not leaf.is_aside and (leaf.is_float or leaf.dtype == "uint8")
    ]
    return max(arrays, key=lambda leaf: leaf.size) if arrays else None


def key_of(id: Any) -> Any:
    """A hashable key for an id of any type; no code of its class runs."""
    if type(id) in _PLAIN:
        return type(id).__name__, id
    if type(id) is tuple:
        return tuple(key_of(part) for part in id)
    return brief(id, 400)


def name_of(leaf: Leaf, fallback: str = "the value") -> str:
    return f"`{leaf.path}`" if leaf.path else fallback


def make_finding(
    kind: str, passage: Passage, text: str, remedy: str = "", *, level: Level = "warning", items: Sequence[Any] = ()
) -> Finding:
    """A finding about one call."""
    return Finding(kind, level, passage.stage, passage.function, tuple(items or passage.ids), text, remedy)


def merged(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Merge findings of the same kind and place into one with the figures of the first; warnings outweigh notes."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.kind, finding.stage, finding.function), []).append(finding)
    for group in groups.values():
        first = next((finding for finding in group if finding.level == "warning"), group[0])
        yield replace(
            first,
            items=unique(item for finding in group for item in finding.items),
            text=first.text + repetition(len(group) - 1),
        )


def unique(items: Iterable[Any]) -> tuple[Any, ...]:
    return tuple({key_of(item): item for item in reversed(list(items))}.values())[::-1]

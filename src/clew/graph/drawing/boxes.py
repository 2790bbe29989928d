"""The things in a picture of a graph: inputs, steps, decisions, outputs, each in a few words and with what it needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clew.graph.brief_values import visible, words
from clew.graph.nodes import Block, Const, Guard, Step, Template, refs_in
from clew.graph.running.compiled import SYMBOLS

if TYPE_CHECKING:
    from clew.graph.graph import Graph

_LONGEST = 24  # characters of a constant that are shown
_WORDS = {
    "contains": "{1} in {0}", "in": "{0} in {1}", "not in": "{1} not in {0}", "not within": "{0} not in {1}",
    "not": "not {0}", "neg": "-{0}", "pos": "+{0}", "abs": "abs({0})", "invert": "~{0}", "setitem": "{0}[{1}] = {2}",
    "delitem": "del {0}[{1}]", "setattr": "{0}.{1} = {2}", "getitem": "{0}[{1}]", "getattr": "{0}.{1}",
    "made": "a container", "drawn": "next({0})", "raised": "what was raised", "raised as": "what was raised",
    "given": "what came", "text": 'f"{{{0}}}"', "join": 'f"…"', "enter": "with {0}: begins",
    "leave": "with {0}: ends", "spread": "{{**{0}}}",
}  # fmt: skip


@dataclass
class Box:
    """One thing in the picture."""

    key: str
    text: str
    kind: str  # input, operator, step, guard, output
    hint: str = ""
    needs: list[str] = field(default_factory=list)
    below: list[str] = field(default_factory=list)  # what it is drawn below, though no line leads to it


def boxes(graph: Graph) -> list[Box]:
    """Everything, each after what it needs."""
    found = [Box(f"v{given.id}", given.name, "input") for given in graph._inputs]
    _add(graph._block, found, [])
    for box in found:
        box.text, box.hint = _readable(box.text), _readable(box.hint.replace("\n", " "))
    return found


def _readable(text: str) -> str:
    """Somebody else may have written it: it must not act on a terminal, nor hide."""
    return "\n".join(visible(line.replace("\t", " ")) for line in text.split("\n"))


def _add(block: Block, found: list[Box], after: list[str]) -> None:
    found += [_step(event, after) for event in block.events if isinstance(event, Step)]
    found += _guards(block, len(found))
    if block.decision is not None:
        _decision(block, found, after)
        return
    needs = [f"v{ref.id}" for ref in refs_in(block.output)]
    found.append(Box(f"o{len(found)}", "output", "output", "", [*dict.fromkeys(needs), *after]))


def _step(step: Step, after: list[str]) -> Box:
    needs = [f"v{id}" for id in sorted(step.refs)]
    kind = "operator" if step.kind == "operator" else "step"
    return Box(f"v{step.id}", described(step), kind, f"{step.where.short} → {step.type}", needs or after, after)


def _guards(block: Block, number: int) -> list[Box]:
    """The decisions that must be as they were, those of one line together."""
    known: dict[tuple[str, str], Box] = {}
    for guard in block.events:
        if isinstance(guard, Guard):
            way = _way(guard.kind, guard.expected)
            key = (f"{guard.where}", way)
            box = known.setdefault(key, Box(f"h{number + len(known)}", guard.condition, "guard"))
            box.hint = f"{guard.where.short}, holds for: {way}"
            box.needs.append(f"v{guard.ref}")
    for box in known.values():
        box.needs = list(dict.fromkeys(box.needs))
    return list(known.values())


def _decision(block: Block, found: list[Box], after: list[str]) -> None:
    guard = block.decision
    assert guard is not None
    key = f"g{len(found)}"
    found.append(Box(key, guard.condition or guard.kind, "guard", guard.where.short, [f"v{guard.ref}", *after]))
    for expected, branch in block.branches:
        way = f"w{len(found)}"
        found.append(Box(way, _way(guard.kind, expected), "guard", guard.where.short, [key]))
        _add(branch, found, [way])


def _way(kind: str, expected: object) -> str:
    if kind == "truth":
        return "yes" if expected else "no"
    if kind == "type":
        return getattr(expected, "__name__", "another type")
    said = words(expected, _LONGEST)
    return f"length {said}" if kind == "length" else said


def label(step: Step) -> str:
    """A step in a word."""
    if step.kind == "operator":
        return str(step.target.name)
    if step.kind == "item":
        return "[…]"
    if step.kind in ("method", "attribute"):
        return f".{step.target}" + ("()" if step.kind == "method" else "")
    return str(step.target).rpartition(":")[2]


def described(step: Step) -> str:
    """A step in a few words: what is done, with the constants that go into it. A dot stands for a value."""
    given = [_operand(arg) for arg in step.args]
    if step.kind == "operator":
        return str(step.target.name).removesuffix(".__call__")
    if step.kind == "item":
        return f"[{given[1]}]"
    if step.kind == "python" and step.target in SYMBOLS and len(given) == 2:
        return f"{given[0]} {SYMBOLS[step.target]} {given[1]}"
    if step.kind == "python" and step.target in _WORDS:
        return _WORDS[step.target].format(*given, "·", "·", "·")
    return label(step)


def _operand(template: Template) -> str:
    if isinstance(template, Const):
        return words(template.value, _LONGEST)
    return "·"

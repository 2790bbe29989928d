"""Several examples of one pipeline as one graph: the same up to a decision, and from there one way or the other."""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import FunctionType, MethodType
from typing import Any

from clew.graph.nodes import Block, Build, Const, Event, Guard, Ref, Step, Template, mapped, same

from . import mismatch_causes
from .pruning import pruned


def merged(blocks: Sequence[Block]) -> Block:
    """One block that goes the way of each of these, by what its decisions see."""
    try:
        result = _all_merged(blocks)
    except _DifferenceError as error:
        try:  # they may differ by what makes no difference: a clock that is looked at, calls that are counted
            result = _all_merged([pruned(block) for block in blocks])
        except _DifferenceError:
            difference: mismatch_causes.Difference = error.args[0]
            before, new = blocks[: difference.number - 1], blocks[difference.number - 1]
            raise mismatch_causes.differs(difference, before, new) from None
    for event in _events(result):
        event.scope = None
    return result


def _all_merged(blocks: Sequence[Block]) -> Block:
    result, *others = _attempted(blocks)
    for number, block in enumerate(others, 2):
        try:
            result = _merge(result, block, {}, [])
        except _DifferenceError as error:
            difference: mismatch_causes.Difference = error.args[0]
            raise _DifferenceError(difference._replace(number=number)) from None
    return result


class _DifferenceError(Exception):
    """Two runs part: at two events, or in what comes out."""


def _differs(
    a: Event | None, b: Event | None, outputs: tuple[Template | None, Template | None] | None = None
) -> _DifferenceError:
    return _DifferenceError(mismatch_causes.Difference(a, b, outputs))


def _events(block: Block) -> Iterator[Event]:
    yield from block.events
    if block.decision is not None:
        yield block.decision
    for _, inner in block.branches:
        yield from _events(inner)


def _attempted(blocks: Sequence[Block]) -> Sequence[Block]:
    """A step that raises for one example, and not for another, is a decision by what it raises."""
    failing = {_site(step) for block in blocks for step in block.steps() if step.fails}

    def told(event: Event) -> list[Event]:
        is_one = isinstance(event, Step) and event.tried and _site(event) in failing
        return _attempt(event) if is_one else [event]  # type: ignore[arg-type]

    return [
        Block([one for event in block.events for one in told(event)], block.output, choices=block.choices)
        for block in blocks
    ]


def _site(step: Step) -> tuple[Any, ...]:
    return step.where, step.kind, step.target if isinstance(step.target, str) else ""


def _attempt(step: Step) -> list[Event]:
    """What a step that did not raise looks like beside one that did."""
    ended = replace(step, id=_fresh(), fails=True, tried=False, type="")
    raised = Step(_fresh(), "python", "raised", (Ref(ended.id),), {}, step.where, type="str")
    line = linecache.getline(step.where.file, step.where.line).strip()
    guard = Guard("value", raised.id, "nothing raised", step.where, line)
    return [ended, raised, guard, Step(step.id, "python", "given", (Ref(ended.id),), {}, step.where, type=step.type)]


Pairs = list[tuple[Step, Step]]


def _merge(known: Block, new: Block, ids: dict[int, int], pairs: Pairs) -> Block:
    """`ids` tells which value of the known block a value of the new one is, `pairs` which step is which."""
    for number, (a, original) in enumerate(zip(known.events, new.events, strict=False)):
        b = _renamed(original, ids)
        if isinstance(a, Guard) and isinstance(b, Guard) and _same_question(a, b):
            if same(a.expected, b.expected):
                continue
            return _branched(known, new, number, ids, pairs)
        if not (isinstance(a, Step) and isinstance(original, Step) and isinstance(b, Step) and _same_step(a, b)):
            raise _differs(a, b)
        ids[b.id] = a.id
        pairs.append((a, original))
    common = len(known.events)
    if known.decision is not None and len(new.events) > common:
        return _decided(known, new, common, ids, pairs)
    if len(new.events) != common or known.decision is not None:
        raise _differs(None, _first_beyond(known, new))
    output = _template(new.output, ids)
    if not _same_template(known.output, output):
        raise _differs(None, None, (known.output, output))
    _also_change(pairs, ids)
    return known


def _first_beyond(known: Block, new: Block) -> Event | None:
    """What one of two blocks does after the other is at its end."""
    if len(new.events) > len(known.events):
        return new.events[len(known.events)]
    return known.events[len(new.events)] if len(known.events) > len(new.events) else known.decision


def _also_change(pairs: Pairs, ids: dict[int, int]) -> None:
    """Once all values are known: a step may change what is named only after it."""
    for a, original in pairs:
        b = _renamed(original, ids)
        assert isinstance(b, Step)
        _also_changes(a, b)


def _also_changes(a: Step, b: Step) -> None:
    """What a step changes for one of the examples, it may change for all."""
    if b.answer is None:
        a.answer = None
    if a.effect and not a.changes:
        return
    if b.effect:
        a.changes = tuple(dict.fromkeys((*a.changes, *b.changes))) if b.changes else ()
        a.effect = True


def _branched(known: Block, new: Block, number: int, ids: dict[int, int], pairs: Pairs) -> Block:
    """From here on there are two ways."""
    guard, other = known.events[number], new.events[number]
    assert isinstance(guard, Guard)
    assert isinstance(other, Guard)
    first = Block(known.events[number + 1 :], known.output, known.decision, known.branches)
    second = _rest(new, number + 1, ids, pairs)
    return Block(known.events[:number], None, guard, [(guard.expected, first), (other.expected, second)])


def _decided(known: Block, new: Block, number: int, ids: dict[int, int], pairs: Pairs) -> Block:
    """The known block decides here already: the new one goes a way that is there, or one of its own."""
    other = _renamed(new.events[number], ids)
    decision = known.decision
    assert decision is not None
    if not isinstance(other, Guard) or not _same_question(decision, other):
        raise _differs(decision, other)
    tail = Block(new.events[number + 1 :], new.output)
    branches = []
    taken = False
    for expected, branch in known.branches:
        if same(expected, other.expected):
            branch, taken = _merge(branch, tail, dict(ids), pairs), True
        branches.append((expected, branch))
    if not taken:
        branches.append((other.expected, _rest(new, number + 1, ids, pairs)))
    return Block(known.events, None, decision, branches)


def _rest(new: Block, number: int, ids: dict[int, int], pairs: Pairs) -> Block:
    """The remaining way of a new block, its values told apart from all that are known."""
    rest = new.events[number:]
    ids = ids | {event.id: _fresh() for event in rest if isinstance(event, Step)}
    _also_change(pairs, ids)
    events = [_renamed(event, ids) for event in rest]
    named = [replace(event, id=ids[event.id]) if isinstance(event, Step) else event for event in events]
    return Block(named, _template(new.output, ids))


_next = [1_000_000]


def _fresh() -> int:
    _next[0] += 1
    return _next[0]


def _renamed(event: Event, ids: dict[int, int]) -> Event:
    if isinstance(event, Guard):
        return replace(event, ref=ids.get(event.ref, event.ref))
    args = tuple(_template(arg, ids) for arg in event.args)
    kwargs = {name: _template(value, ids) for name, value in event.kwargs.items()}
    changes = tuple(ids.get(id, id) for id in event.changes)
    return replace(event, args=args, kwargs=kwargs, changes=changes)


def _template(template: Template | None, ids: dict[int, int]) -> Template:
    assert template is not None
    return mapped(template, lambda leaf: Ref(ids.get(leaf.id, leaf.id)) if isinstance(leaf, Ref) else leaf)


def _same_question(a: Guard, b: Guard) -> bool:
    return a.kind == b.kind and a.ref == b.ref and a.where == b.where


def _same_step(a: Step, b: Step) -> bool:
    return (
        a.kind == b.kind
        and a.fails == b.fails
        and _same_target(a.target, b.target)
        and len(a.args) == len(b.args)
        and list(a.kwargs) == list(b.kwargs)
        and all(_same_template(x, y) for x, y in zip(a.args, b.args, strict=True))
        and all(_same_template(a.kwargs[name], b.kwargs[name]) for name in a.kwargs)
    )


def _same_target(a: Any, b: Any) -> bool:
    if a is b or (type(a) is str and type(b) is str):
        return bool(a is b or a == b)
    if type(a) is not type(b) or type(a) is str:
        return False
    one, other = a.target, b.target
    if isinstance(one, MethodType) and isinstance(other, MethodType):
        return one.__self__ is other.__self__ and one.__func__ is other.__func__
    return one is other or (isinstance(one, FunctionType) and same(one, other))


def _same_template(a: Template | None, b: Template | None) -> bool:
    if isinstance(a, Ref) and isinstance(b, Ref):
        return a.id == b.id
    if isinstance(a, Const) and isinstance(b, Const):
        return same(a.value, b.value)
    if isinstance(a, Build) and isinstance(b, Build):
        if (a.kind, len(a.items), len(a.keys)) != (b.kind, len(b.items), len(b.keys)):
            return False
        return all(map(_same_template, (*a.keys, *a.items), (*b.keys, *b.items)))
    return False

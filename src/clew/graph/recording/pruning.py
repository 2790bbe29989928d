"""What nobody uses is left out: steps whose result goes nowhere and that change nothing that does."""

from __future__ import annotations

from clew.graph.nodes import Block, Guard, Step, refs_in

from .operator_state import State, state_of

_SCALARS = ("int", "float", "bool", "str", "bytes", "complex", "NoneType")


def pruned(block: Block) -> Block:
    """The same without what makes no difference."""
    return _pruned(block, Kin(block))[0]


class Kin:
    """Values that may be one object, or parts of each other: a change of one may be a change of the others."""

    def __init__(self, block: Block) -> None:
        self._parent: dict[int, int] = {}
        steps = list(block.steps())
        made = {step.id for step in steps}
        self._given = {id for step in steps for id in step.refs if id not in made}  # inputs: the caller has them too
        for step in steps:
            if step.type.rpartition(".")[2] in _SCALARS and not step.changes:
                continue
            for id in {*step.refs, *step.changes}:
                self._join(step.id, id)

    def of(self, id: int) -> int:
        while self._parent.setdefault(id, id) != id:
            id = self._parent[id]
        return id

    def given(self) -> set[int]:
        return {self.of(id) for id in self._given}

    def _join(self, a: int, b: int) -> None:
        self._parent[self.of(a)] = self.of(b)


def _pruned(block: Block, kin: Kin) -> tuple[Block, set[int], list[State]]:
    needed = {ref.id for ref in refs_in(block.output)}
    asked: list[State] = []  # what later steps go by in the objects they belong to
    branches = []
    for expected, branch in block.branches:
        kept, wanted, states = _pruned(branch, kin)
        branches.append((expected, kept))
        needed |= wanted
        asked += states
    if block.decision is not None:
        needed.add(block.decision.ref)
    concerned = {kin.of(id) for id in needed} | kin.given()
    events = []
    for event in reversed(block.events):
        if isinstance(event, Guard):
            needed.add(event.ref)
            concerned.add(kin.of(event.ref))
        elif not (_is_needed(event, needed, concerned, kin) or _is_remembered(event, asked)):
            continue
        else:
            asked += [state for state in (state_of(event),) if state is not None]
            needed |= event.refs
            concerned |= {kin.of(id) for id in event.refs}
        events.append(event)
    events.reverse()
    return Block(events, block.output, block.decision, branches), needed, asked


def _is_needed(step: Step, needed: set[int], concerned: set[int], kin: Kin) -> bool:
    if step.id in needed:
        return True
    if not step.effect:
        return False
    # A change of something that nobody looks at any more makes no difference; an effect of another kind does.
    return not step.changes or any(kin.of(id) in concerned for id in step.changes)


def _is_remembered(step: Step, asked: list[State]) -> bool:
    """Whether it changes the object it belongs to, and a later step goes by that."""
    if not asked:
        return False
    state = state_of(step)
    return state is not None and any(state.matters_to(other) for other in asked)

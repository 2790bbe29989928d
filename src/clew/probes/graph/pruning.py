"""What nobody uses is left out: steps whose result goes nowhere and that change nothing that does."""

from __future__ import annotations

from .nodes import Block, Guard, Step, refs_in


def pruned(block: Block) -> Block:
    """The same without what makes no difference."""
    return _pruned(block)[0]


def _pruned(block: Block) -> tuple[Block, set[int]]:
    needed = {ref.id for ref in refs_in(block.output)}
    branches = []
    for expected, branch in block.branches:
        kept, wanted = _pruned(branch)
        branches.append((expected, kept))
        needed |= wanted
    if block.decision is not None:
        needed.add(block.decision.ref)
    events = []
    for event in reversed(block.events):
        if isinstance(event, Guard):
            needed.add(event.ref)
        elif not _is_needed(event, needed):
            continue
        else:
            needed |= event.refs
        events.append(event)
    events.reverse()
    return Block(events, block.output, block.decision, branches), needed


def _is_needed(step: Step, needed: set[int]) -> bool:
    if step.id in needed:
        return True
    if not step.effect:
        return False
    # A change of something that nobody looks at any more makes no difference; an effect of another kind does.
    return not step.changes or any(id in needed for id in step.changes)

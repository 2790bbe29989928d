"""Constants that libraries computed while a pipeline was recorded: the graph does not ask the libraries again.

A library's call that no input goes into (`AutoTokenizer.from_pretrained("name")`) is recorded as a step. If the
pipeline has left alone what the call gave, the graph keeps that instead: it needs neither the time nor the files.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterable, Iterator
from typing import Any

from clew.graph.brief_values import words
from clew.graph.nodes import Block, Const, Event, Guard, Note, Ref, Step, Template, mapped, refs_in

from .operator_state import LEARNING
from .purity import is_changer

_LONGEST = 80  # characters of a value in a note


class Answer:
    """What a library's call gave, as it was then."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self._state = _pickled(value)

    def is_unchanged(self) -> bool:
        return self._state is not None and _pickled(self.value) == self._state


class _Hash:
    """A file that only keeps the hash of what is written: models may be large."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def write(self, data: Any) -> int:
        self._hash.update(data)
        return len(data)

    def digest(self) -> bytes:
        return self._hash.digest()


def _pickled(value: Any) -> bytes | None:
    file = _Hash()
    try:
        pickle.Pickler(file, 5).dump(value)
    except Exception:  # of a library's object: who cannot be compared may have changed
        return None
    return file.digest()


def note(kind: str, step: Step, value: Any) -> Note:
    return Note(kind, title(step), step.where, words(value, _LONGEST))


def title(step: Step) -> str:
    """The name of the function that a step calls, as a reader knows it."""
    if step.kind == "method" and isinstance(step.args[0], Const):
        return f"{type(step.args[0].value).__name__}.{step.target}"
    return str(step.target).replace(":", ".").removeprefix("builtins.")


def drop_changed_answers(events: list[Event], output: Template) -> None:
    """At the end of a recording: what the pipeline has changed, kept or given away is no constant."""
    candidates = {event.id: event for event in events if isinstance(event, Step) and event.answer is not None}
    if not candidates:
        return
    shared = {ref.id for ref in refs_in(output)}
    for event in events:
        if isinstance(event, Step):
            shared |= {*event.refs, *event.changes} - _only_read(event)
    for id, step in candidates.items():
        if id in shared or not step.answer.is_unchanged():
            step.answer = None


def _only_read(step: Step) -> set[int]:
    """The object whose method, attribute or item a step asks for; it is empty where the step may change the object."""
    if not step.args or not isinstance(step.args[0], Ref) or step.fails:
        return set()
    is_method = step.kind == "method" and not is_changer(step.target) and not step.target.startswith(LEARNING)
    is_call = (is_method or (step.kind == "python" and step.target == "call")) and step.type != "NoneType"
    if not (is_call or step.kind in ("attribute", "item")):
        return set()
    rest = {ref.id for arg in (*step.args[1:], *step.kwargs.values()) for ref in refs_in(arg)}
    return {step.args[0].id} - rest


def with_constants(block: Block) -> tuple[Block, list[Note]]:
    """The block with answers that are constants in place of the calls that gave them, and a note of each."""
    asked = {guard.ref for guard in _decisions(block)}
    answers = {step.id: step for step in block.steps() if step.answer is not None and step.id not in asked}
    notes = [note("constant", step, step.answer.value) for step in answers.values()]
    return (_replaced(block, answers), notes) if answers else (block, [])


def _decisions(block: Block) -> Iterator[Guard]:
    if block.decision is not None:
        yield block.decision
    for _, inner in block.branches:
        yield from _decisions(inner)


def _replaced(block: Block, answers: dict[int, Step]) -> Block:
    constants = {id: Const(step.answer.value) for id, step in answers.items()}

    def replaced(template: Template) -> Template:
        return mapped(template, lambda leaf: constants.get(leaf.id, leaf) if isinstance(leaf, Ref) else leaf)

    events: list[Event] = []
    for event in block.events:
        if isinstance(event, Guard):
            if event.ref not in answers:  # a constant decides the same each time
                events.append(event)
        elif event.id not in answers:
            event.args = tuple(map(replaced, event.args))
            event.kwargs = {name: replaced(value) for name, value in event.kwargs.items()}
            _leave_alone(event, answers)
            events.append(event)
    output = None if block.output is None else replaced(block.output)
    branches = [(expected, _replaced(inner, answers)) for expected, inner in block.branches]
    return Block(events, output, block.decision, branches)


def _leave_alone(step: Step, ids: Iterable[int]) -> None:
    """A step that was taken to change a constant does not change it."""
    if step.changes:
        step.changes = tuple(id for id in step.changes if id not in ids)
        step.effect = bool(step.changes) or step.tried or step.fails

"""What a recorded pipeline is made of: inputs, steps, the decisions between them, and what comes out. Plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath
from types import FunctionType
from typing import Any


@dataclass(frozen=True, slots=True)
class Ref:
    """The value of an input or of an earlier step."""

    id: int


@dataclass(frozen=True, slots=True, eq=False)
class Const:
    """A value that was there when the pipeline was recorded."""

    value: Any


@dataclass(frozen=True, slots=True, eq=False)
class Build:
    """A container that is made anew each time, because something in it is not a constant."""

    kind: str  # list, tuple, set, dict, slice
    items: tuple[Template, ...]
    keys: tuple[Template, ...] = ()  # of a dict


Template = Ref | Const | Build


@dataclass(frozen=True, slots=True)
class Where:
    """A line of the user's program."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def short(self) -> str:
        """Without the folders, for pictures."""
        return f"{PurePath(self.file).name}:{self.line}"


@dataclass(slots=True, eq=False)
class Step:
    """One thing done: an operator called, or a Python operation on recorded values."""

    id: int
    kind: str  # "operator", "function" (a library's), "method", "attribute", "item", "python" (an operation)
    target: Any  # the Operator; or the qualified name of a function; or the name of a method or attribute
    args: tuple[Template, ...]
    kwargs: dict[str, Template]
    where: Where
    effect: bool = False  # it changes something: kept even if nobody uses its result
    changes: tuple[int, ...] = ()  # ids of the values it was seen to change in place
    type: str = ""  # of what it gave
    fails: bool = False  # it raised, and the pipeline went on: its value is what was raised, or an operations.Given
    tried: bool = False  # it did not raise, inside a `try` that would have caught it
    policy: Any = None  # of a bundle that is trusted by names: what looks at what it does
    scope: Any = None  # the plain variables around it, while several examples are recorded (mismatch_causes.py)
    # of a library's call that no input goes into: what it gave, and may be a constant (computed_constants.py)
    answer: Any = None

    @property
    def refs(self) -> set[int]:
        return {ref.id for template in (*self.args, *self.kwargs.values()) for ref in refs_in(template)}


@dataclass(slots=True, eq=False)
class Guard:
    """A decision the pipeline has made by a value: valid while the value decides the same."""

    kind: str  # "truth", "length", "value", "type"
    ref: int
    expected: Any
    where: Where
    condition: str = ""  # the line, as it is written
    scope: Any = None  # the plain variables around it, while several examples are recorded (mismatch_causes.py)

    def holds(self, value: Any) -> bool:
        return same(self.seen(value), self.expected)

    def seen(self, value: Any) -> Any:
        """What of a value the decision depends on."""
        return SEEN[self.kind](value)


@dataclass(frozen=True, slots=True)
class Note:
    """Something about a recording that its user should know, and that its steps do not show."""

    kind: str  # one of NOTES
    name: str  # of the function that was called
    where: Where
    value: str = ""  # what it gave, in a few words

    def __str__(self) -> str:
        value = f" = {self.value}" if self.value else ""
        return f"{self.name}(){value}, {self.where.short}: {NOTES[self.kind]}"


#: What a note says of its function, by its kind.
NOTES = {
    "constant": "a library computed it while the pipeline was recorded; no input goes in",
    "constant by chance": "it differs from call to call, and is a constant of the graph",
    "constant by input": "it depends on an input, and is a constant of the graph",
    "one step": "its decorator belongs to a library, so that the whole function is one step",
    "one step without source": "its source is not known, so that the whole function is one step",
}


SEEN: dict[str, Callable[[Any], Any]] = {
    "truth": bool,
    "length": len,
    "value": lambda value: value,
    "type": type,
}


def same(a: Any, b: Any, depth: int = 8) -> bool:
    """Exactly the same: 1 is not True, NaN is NaN, arrays element by element."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) in (bool, int, str, bytes, type):
        return bool(a == b)
    if isinstance(a, FunctionType):  # made anew each time the pipeline runs
        return a.__code__ is b.__code__ and a.__defaults__ == b.__defaults__ and _same_cells(a, b, depth)
    if type(a).__module__ == "operator":  # itemgetter(0), made anew each time as well
        return bool(a.__reduce__() == b.__reduce__())
    from clew.values import capture

    return capture(a).digest == capture(b).digest or _same_parts(a, b, depth)


def _same_parts(a: Any, b: Any, depth: int) -> bool:
    """Plain containers with functions in them, and functions with some of their arguments."""
    if type(a) is partial:
        return _same_parts([a.func, a.args, a.keywords], [b.func, b.args, b.keywords], depth)
    if type(a) is dict:
        return _same_parts([*a, *a.values()], [*b, *b.values()], depth)
    if type(a) not in (list, tuple) or len(a) != len(b) or depth == 0:
        return False
    return all(same(x, y, depth - 1) for x, y in zip(a, b, strict=True))


def _same_cells(a: FunctionType, b: FunctionType, depth: int) -> bool:
    cells, others = a.__closure__ or (), b.__closure__ or ()
    if depth == 0:  # it sees itself
        return True
    return all(same(x.cell_contents, y.cell_contents, depth - 1) for x, y in zip(cells, others, strict=True))


Event = Step | Guard


@dataclass(frozen=True, slots=True)
class Choice:
    """A decision that a pipeline has made by a plain value: no guard, but a reason for two examples to differ."""

    where: Where
    outcome: Any  # True or False; of a loop, how often it runs
    scope: dict[str, str]  # the plain variables around it, in words


@dataclass(slots=True, eq=False)
class Block:
    """Steps and guards in their order; then what comes out, or a decision after which it goes on one way or another."""

    events: list[Event] = field(default_factory=list)
    output: Template | None = None
    decision: Guard | None = None
    branches: list[tuple[Any, Block]] = field(default_factory=list)  # by what the decision sees
    choices: list[Choice] = field(default_factory=list)  # decisions by plain values, if several examples are recorded

    def steps(self) -> Iterator[Step]:
        for event in self.events:
            if isinstance(event, Step):
                yield event
        for _, block in self.branches:
            yield from block.steps()

    def guards(self) -> Iterator[Guard]:
        for event in self.events:
            if isinstance(event, Guard):
                yield event
        if self.decision is not None:
            yield self.decision
        for _, block in self.branches:
            yield from block.guards()


@dataclass(slots=True)
class Input:
    """A value that is given when the graph is run."""

    id: int
    name: str
    default: Any = None
    has_default: bool = False
    is_rest: bool = False  # the values of `*rest`, a tuple


def refs_in(template: Template | None) -> Iterator[Ref]:
    return (leaf for leaf in _leaves(template) if isinstance(leaf, Ref))


def consts_in(template: Template | None) -> Iterator[Const]:
    return (leaf for leaf in _leaves(template) if isinstance(leaf, Const))


def _leaves(template: Template | None) -> Iterator[Template | None]:
    stack = [template]
    while stack:
        part = stack.pop()
        if isinstance(part, Build):
            stack.extend(reversed((*part.keys, *part.items)))
        else:
            yield part


def mapped(template: Template, change: Callable[[Template], Template]) -> Template:
    """The template with each of its leaves changed."""
    if not isinstance(template, Build):
        return change(template)
    keys = tuple(mapped(key, change) for key in template.keys)
    return Build(template.kind, tuple(mapped(item, change) for item in template.items), keys)

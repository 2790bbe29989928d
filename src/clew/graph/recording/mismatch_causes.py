"""Why a pipeline did something else for another example: which constant was another, where it was made, and the remedy.

While several examples are recorded, each event remembers the plain variables around it (`scope_of`). Where two runs
part, the variables that differ are the reason, or are near it.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Sequence
from functools import lru_cache
from inspect import CO_OPTIMIZED
from itertools import takewhile
from types import FrameType
from typing import Any, NamedTuple

from clew.errors import GraphError
from clew.graph.brief_values import words
from clew.graph.nodes import Block, Build, Const, Event, Ref, Step, Template, Where, same
from clew.instrument import parsing

from .traced_values import is_traced

_LONGEST = 60  # characters of a value
_PLAIN = (bool, int, float, str, bytes, type(None), list, tuple, dict, set, frozenset)
CHOOSING = (*_PLAIN, range)  # what a decision by is noted
_MOST = 3  # variables that are named
Scope = dict[str, str]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def scope_of(frame: FrameType | None) -> Scope:
    """The plain variables that a function sees now, in words: its own, and globals and attributes that it names."""
    if frame is None:
        return {}
    # In rewritten code the names of attributes are constants: hooks are given them.
    names = [*frame.f_code.co_names, *(one for one in frame.f_code.co_consts if type(one) is str)]
    found = {name: frame.f_globals[name] for name in names if name in frame.f_globals} | _variables_of(frame)
    scope: Scope = {}
    for name, value in found.items():
        if type(value) in _PLAIN:
            scope[name] = words(value, _LONGEST)
            continue
        held = _attributes(value)
        plain = (key for key in names if key in held and type(held[key]) in _PLAIN)
        scope |= {f"{name}.{key}": words(held[key], _LONGEST) for key in plain}
    return {name: text for name, text in scope.items() if "Traced" not in text}


def _variables_of(frame: FrameType) -> dict[str, Any]:
    """Its variables. Up to 3.12 the frame keeps a dictionary of them, and who counts references would see that."""
    variables = frame.f_locals
    copied = dict(variables)
    if frame.f_code.co_flags & CO_OPTIMIZED and type(variables) is dict:
        variables.clear()
    return copied


def _attributes(value: Any) -> dict[str, Any]:
    if is_traced(value):
        return {}
    try:
        held = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return {}
    return held if type(held) is dict else {}


class Difference(NamedTuple):
    """Where two runs part: at these events (None: one of them is at its end), or in what comes out."""

    a: Event | None
    b: Event | None
    outputs: tuple[Template | None, Template | None] | None  # if they part there
    number: int = 0  # of the second example


class Cause(NamedTuple):
    """A constant, and what it was for each of the two examples."""

    name: str
    first: str
    second: str


def differs(difference: Difference, before: Sequence[Block], new: Block) -> GraphError:
    """The error for an example for which the pipeline did something else than for those before."""
    a, b, _, number = difference
    what = f"{b.where if b is not None else 'the output'}"
    if a is not None and b is not None and a.where != b.where:
        what += f" (and {a.where} before)"
    what += f": the pipeline did something else for another example ({number}), without deciding by a recorded value."
    at, decision, found = _explained(difference, before, new)
    if not found:
        return GraphError("graph-examples", f"{what}{decision}", "Let it decide by its inputs, or record two graphs.")
    lines = [_told(cause, at, number) for cause in found[:_MOST]]
    return GraphError("graph-examples", f"{what}{decision} {' '.join(lines)}", _remedy(found[0].name, at))


def _explained(difference: Difference, before: Sequence[Block], new: Block) -> tuple[Where | None, str, list[Cause]]:
    """A line, what was decided there, and the constants that were others."""
    a, b, outputs, number = difference
    if isinstance(a, Step) and isinstance(b, Step) and _is_same_call(a, b):
        leaves = _other_constants(a, b)
        return (
            b.where,
            "",
            [_named(path, words(x, _LONGEST), words(y, _LONGEST), b, _scopes(a, b)) for path, x, y in leaves],
        )
    old = max(before, key=lambda block: _common_length(block, new))
    if outputs:
        last = [block.events[-1] if block.events else None for block in (old, new)]
        at = last[1].where if last[1] is not None else None
        leaves = _other_leaves(*outputs, "the output")
        return at, "", [_held(path, words(x, _LONGEST), words(y, _LONGEST), _scopes(*last)) for path, x, y in leaves]
    pairs = zip(old.choices, new.choices, strict=False)
    parting = next(((x, y) for x, y in pairs if x.where == y.where and x.outcome != y.outcome), None)
    if parting is not None:
        first, second = parting
        line = linecache.getline(second.where.file, second.where.line).strip()
        decision = (
            f" `{line}` ({second.where}) went by {first.outcome} before, and by {second.outcome} for example {number}."
        )
        return second.where, decision, _other_variables(first.scope, second.scope, _names_in_line(second.where))
    at = b.where if b is not None else (a.where if a is not None else None)
    return at, "", _other_variables(*_scopes(a, b), set())


def _scopes(a: Event | None, b: Event | None) -> tuple[Scope, Scope]:
    return (a.scope if a is not None else None) or {}, (b.scope if b is not None else None) or {}


def _common_length(block: Block, other: Block) -> int:
    """How far two runs are the same, by their lines and what was decided there."""
    pairs = zip(block.events, other.events, strict=False)
    alike = (x.where == y.where and getattr(x, "expected", None) is getattr(y, "expected", None) for x, y in pairs)
    return sum(1 for _ in takewhile(bool, alike))


def _other_variables(first: Scope, second: Scope, preferred: set[str]) -> list[Cause]:
    """The variables that differ; if some of them stand in the line that decides, those alone."""
    found = [Cause(name, first[name], second[name]) for name in second if first.get(name, second[name]) != second[name]]
    near = [cause for cause in found if cause.name in preferred]
    return near or found


def _is_same_call(a: Step, b: Step) -> bool:
    same_target = a.target == b.target if isinstance(a.target, str) else a.kind == b.kind
    return a.kind == b.kind and same_target and len(a.args) == len(b.args) and list(a.kwargs) == list(b.kwargs)


def _other_constants(a: Step, b: Step) -> Iterator[tuple[str, Any, Any]]:
    for number, (one, other) in enumerate(zip(a.args, b.args, strict=True)):
        yield from _other_leaves(one, other, f"argument {number + (a.kind != 'method')}")
    for name in a.kwargs:
        yield from _other_leaves(a.kwargs[name], b.kwargs[name], f"{name}=")


def _other_leaves(a: Template | None, b: Template | None, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(a, Const) and isinstance(b, Const):
        if not same(a.value, b.value):
            yield path, a.value, b.value
    elif isinstance(a, Build) and isinstance(b, Build) and (a.kind, len(a.items)) == (b.kind, len(b.items)):
        keys = [words(key.value) if isinstance(key, Const) else "…" for key in a.keys] or range(len(a.items))
        for key, one, other in zip(keys, a.items, b.items, strict=True):
            yield from _other_leaves(one, other, f"{path}[{key}]")
    elif isinstance(a, Const) and isinstance(b, Build | Ref):
        yield path, a.value, _Recorded()
    elif isinstance(b, Const) and isinstance(a, Build | Ref):
        yield path, _Recorded(), b.value


class _Recorded:
    """A value that the graph makes."""


def _named(path: str, first: str, second: str, step: Step, scopes: tuple[Scope, Scope]) -> Cause:
    """The variable that holds a constant; else how the step's line writes it."""
    return _held(_written(step, path) or f"{path} of {_title(step)}()", first, second, scopes)


def _held(path: str, first: str, second: str, scopes: tuple[Scope, Scope]) -> Cause:
    names = (name for name, text in scopes[1].items() if text == second and scopes[0].get(name) == first)
    return Cause(next(names, path), first, second)


def _title(step: Step) -> str:
    name = step.target if isinstance(step.target, str) else step.target.name
    return str(name).rpartition(":")[2].rpartition(".")[2] or step.kind


def _told(cause: Cause, at: Where | None, number: int) -> str:
    made = _made(cause.name, at)
    place = f" (made at {made[0]}: `{made[1]}`)" if made is not None else ""
    return f"`{cause.name}` was {cause.first} before, and is {cause.second} for example {number}{place}."


def _remedy(name: str, at: Where | None) -> str:
    made = _made(name, at)
    is_name = all(part.isidentifier() for part in name.split("."))
    expression = made[2] if made is not None and made[2] and "." not in name else name
    if not is_name and made is None and not _is_expression(name):
        return "Compute the constant in an operator (clew.op), or give it to the pipeline as an argument."
    target = name.rpartition(".")[2] if is_name else "value"
    if is_name and expression == name and "." not in name:  # of a global: the line must not make it a local
        target = name.lower() if name != name.lower() else f"{name}_now"
    line = f"{target} = clew.op(lambda: {expression})()"
    return f"Compute it in an operator: `{line}`; or give it to the pipeline as an argument."


def _is_expression(text: str) -> bool:
    try:
        parsing.parse(text, mode="eval")
    except SyntaxError:
        return False
    return True


# ---- source ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def _parsed(text: str) -> ast.Module:
    try:
        return parsing.parse(text)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _nodes(file: str) -> list[Any]:
    return list(ast.walk(_parsed("".join(linecache.getlines(file)))))


def _is_around(node: Any, line: int) -> bool:
    return getattr(node, "lineno", line + 1) <= line <= (getattr(node, "end_lineno", None) or 0)


def _made(name: str, at: Where | None) -> tuple[Where, str, str] | None:
    """Where a variable, or an attribute, was last given a value before a line; that line, and the expression."""
    if at is None:
        return None
    last = name.rpartition(".")[2]
    stores = [node for node in _nodes(at.file) if last in _stored(node)]
    functions = [node for node in _nodes(at.file) if isinstance(node, _FUNCTIONS)]
    around = [node for node in functions if _is_around(node, at.line)]
    inside = [node for node in stores if node.lineno <= at.line and any(_is_around(one, node.lineno) for one in around)]
    whole = [node for node in stores if "." in name or not any(_is_around(one, node.lineno) for one in functions)]
    node = max(inside or whole, key=lambda one: one.lineno, default=None)
    if node is None:
        return None
    value = getattr(node, "value", None)
    is_local = bool(inside) and isinstance(node, ast.Assign | ast.AnnAssign) and value is not None
    line = linecache.getline(at.file, node.lineno).strip()
    return Where(at.file, node.lineno), line, ast.unparse(value) if is_local and value is not None else ""


def _stored(node: Any) -> Iterator[str]:
    """The names and attributes that a statement gives a value."""
    targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
    for target in targets if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.For) else ():
        for part in ast.walk(target):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                yield part.id
            elif isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
                yield part.attr


def _written(step: Step, path: str) -> str | None:
    """How a step's line writes an argument."""
    calls = [
        node for node in _nodes(step.where.file) if isinstance(node, ast.Call) and _is_around(node, step.where.line)
    ]
    calls = [node for node in calls if getattr(node.func, "attr", getattr(node.func, "id", "")) == _title(step)]
    if len(calls) != 1 or any(isinstance(arg, ast.Starred) for arg in calls[0].args):
        return None
    if path.startswith("argument "):
        number = int(path.removeprefix("argument ").partition("[")[0]) - 1
        return ast.unparse(calls[0].args[number]) if 0 <= number < len(calls[0].args) else None
    named = [one.value for one in calls[0].keywords if path.startswith(f"{one.arg}=")]
    return ast.unparse(named[0]) if named else None


def _names_in_line(at: Where) -> set[str]:
    """The names and attributes in the condition, or the head of the loop, that stands in a line."""
    found: set[str] = set()
    for node in _nodes(at.file):
        if isinstance(node, ast.If | ast.While | ast.IfExp | ast.For):
            head = node.iter if isinstance(node, ast.For) else node.test
            if _is_around(head, at.line):
                found |= {ast.unparse(part) for part in ast.walk(head) if isinstance(part, ast.Name | ast.Attribute)}
    return found

"""A graph as a Python function: straight code, one line a step, so that running it costs what calling by hand costs."""

from __future__ import annotations

import copy
import keyword
from collections.abc import Callable
from typing import Any

from clew.errors import GuardError

from . import operations
from .nodes import SEEN, Block, Build, Const, Guard, Input, Ref, Step, Template, same

_OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "lshift": "<<", "rshift": ">>", "and": "&", "or": "|", "xor": "^", "eq": "==", "ne": "!=", "lt": "<", "le": "<=",
    "gt": ">", "ge": ">=", "is": "is", "is not": "is not",
}  # fmt: skip
_LITERALS = (int, bool, type(None), str)
_SHARED = (str, bytes, int, float, complex, bool, type(None), type, frozenset)  # nobody can change them


def compiled(inputs: list[Input], block: Block) -> Callable[..., Any]:
    """The function that does what was recorded. It takes the inputs in their order."""
    writer = _Writer()
    parameters = ", ".join(f"v{given.id}" for given in inputs)
    writer.line(f"def graph({parameters}):", 0)
    writer.block(block, 1)
    code = compile("\n".join(writer.lines), "<clew graph>", "exec")
    scope = dict(writer.names)
    exec(code, scope)
    return scope["graph"]  # type: ignore[no-any-return]


def source_of(inputs: list[Input], block: Block) -> str:
    """The same as text, for people."""
    writer = _Writer()
    writer.line(f"def graph({', '.join(given.name for given in inputs)}):", 0)
    writer.block(block, 1)
    return "\n".join(writer.lines)


class _Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"_guard": _broken, "_nowhere": _nowhere, "_same": same, "_copy": copy.deepcopy}
        self._known: dict[int, str] = {}

    def line(self, text: str, depth: int) -> None:
        self.lines.append("    " * depth + text)

    def named(self, thing: Any, hint: str) -> str:
        """A name for an object that the code uses."""
        known = self._known.get(id(thing))
        if known is None:
            known = self._known[id(thing)] = f"{hint}{len(self.names)}"
            self.names[known] = thing
        return known

    def block(self, block: Block, depth: int) -> None:
        for event in block.events:
            if isinstance(event, Step):
                self.step(event, depth)
            else:
                self.guard(event, depth)
        if block.decision is not None:
            self.decision(block, depth)
        else:
            self.line(f"return {self.value(block.output) if block.output is not None else 'None'}", depth)

    def step(self, step: Step, depth: int) -> None:
        self.line(f"v{step.id} = {self.expression(step)}", depth)

    def expression(self, step: Step) -> str:
        args = [self.value(arg, step) for arg in step.args]
        if step.kind == "item":
            return f"{args[0]}[{args[1]}]"
        if step.kind == "attribute" and _is_name(step.target):
            return f"{args[0]}.{step.target}"
        if step.kind == "python" and step.target in _OPERATORS and len(args) == 2:
            return f"{args[0]} {_OPERATORS[step.target]} {args[1]}"
        given = ", ".join([*args, *(self.keyword(name, value, step) for name, value in step.kwargs.items())])
        if step.kind == "method" and _is_name(step.target):
            rest = ", ".join([*args[1:], *(self.keyword(name, value, step) for name, value in step.kwargs.items())])
            return f"{args[0]}.{step.target}({rest})"
        return f"{self.named(_function(step), 'f')}({given})"

    def keyword(self, name: str, value: Template, step: Step) -> str:
        text = self.value(value, step)
        return f"{name}={text}" if _is_name(name) else f"**{{{name!r}: {text}}}"

    def value(self, template: Template, step: Step | None = None) -> str:
        if isinstance(template, Ref):
            return f"v{template.id}"
        if isinstance(template, Const):
            return self.constant(template, step)
        items = [self.value(item, step) for item in template.items]
        return self.container(template, items, step)

    def constant(self, const: Const, step: Step | None) -> str:
        value = const.value
        if type(value) in _LITERALS and (type(value) is not str or len(value) < 100):
            return f"({value!r})" if type(value) is int and value < 0 else repr(value)
        name = self.named(value, "k")
        # An operator that changes what it is given must find it as it was the next time.
        mine = step is None or step.kind in ("operator", "python", "method")
        return f"_copy({name})" if mine and type(value) in (list, dict, set, bytearray) else name

    def container(self, build: Build, items: list[str], step: Step | None) -> str:
        inside = ", ".join(items)
        if build.kind == "dict":
            keys = [self.value(key, step) for key in build.keys]
            return "{" + ", ".join(f"{key}: {item}" for key, item in zip(keys, items, strict=True)) + "}"
        if build.kind == "tuple":
            return f"({inside}{',' if len(items) == 1 else ''})"
        if build.kind == "list":
            return f"[{inside}]"
        return f"{build.kind}([{inside}])" if build.kind != "slice" else f"slice({inside})"

    def guard(self, guard: Guard, depth: int) -> None:
        value = f"v{guard.ref}"
        name = self.named(guard, "g")
        self.line(f"if not ({self.test(guard, value, guard.expected)}): _guard({name}, {value})", depth)

    def test(self, guard: Guard, value: str, expected: Any) -> str:
        if guard.kind == "truth":
            return value if expected is True else f"not {value}"
        if guard.kind == "length":
            return f"len({value}) == {expected}"
        if guard.kind == "type":
            return f"type({value}) is {self.named(expected, 'k')}"
        return f"_same({value}, {self.named(expected, 'k')})"

    def decision(self, block: Block, depth: int) -> None:
        guard = block.decision
        assert guard is not None
        value, word = f"v{guard.ref}", "if"
        for expected, branch in block.branches:
            self.line(f"{word} {self.test(guard, value, expected)}:", depth)
            self.block(branch, depth + 1)
            word = "elif"
        name = self.named([guard, [expected for expected, _ in block.branches]], "g")
        self.line(f"_nowhere({name}, {value})", depth)


def _function(step: Step) -> Callable[..., Any]:
    if step.kind == "operator":
        return step.target.call  # type: ignore[no-any-return]
    if step.kind == "function":
        return operations.function_named(step.target)
    if step.kind == "python":
        return operations.PYTHON[step.target]
    target = step.target
    return lambda value, *args, **kwargs: getattr(value, target)(*args, **kwargs)


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _broken(guard: Guard, value: Any) -> None:
    raise GuardError.of(guard.kind, guard.where, guard.condition, [guard.expected], SEEN[guard.kind](value))


def _nowhere(decision: list[Any], value: Any) -> None:
    guard, expected = decision
    raise GuardError.of(guard.kind, guard.where, guard.condition, expected, SEEN[guard.kind](value))

"""A graph as a Python function: straight code, one line a step, so that running it costs what calling by hand costs."""

from __future__ import annotations

import keyword
import linecache
import re
from collections.abc import Callable
from typing import Any
from unicodedata import is_normalized

from clew.errors import GuardError
from clew.graph import operations
from clew.graph.brief_values import Said
from clew.graph.nodes import SEEN, Block, Build, Const, Guard, Input, Ref, Step, Template, Where, same
from clew.graph.parts import COLLECTIONS, copied

SYMBOLS = {
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
    made: Callable[..., Any] = scope["graph"]
    enters = any(step.kind == "python" and step.target == "enter" for step in block.steps())
    return operations.unwinding(made) if enters else made


def source_of(inputs: list[Input], block: Block) -> str:
    """The same as text, for people."""
    writer = _Writer({given.id: given.name for given in inputs})
    writer.line(f"def graph({', '.join(given.name for given in inputs)}):", 0)
    writer.block(block, 1)
    return "\n".join(writer.lines)


class _Writer:
    def __init__(self, inputs: dict[int, str] | None = None) -> None:
        self._inputs = inputs or {}
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"_guard": _broken, "_nowhere": _nowhere, "_same": same, "_copy": copied}
        self._known: dict[int, str] = {}

    def line(self, text: str, depth: int) -> None:
        self.lines.append("    " * depth + text)

    def named(self, thing: Any, hint: str) -> str:
        """A name for an object that the code uses."""
        known = self._known.get(id(thing))
        if known is None:
            is_free = self._inputs and len(hint) > 1 and hint not in self.names and hint not in self._inputs.values()
            known = self._known[id(thing)] = hint if is_free else f"{hint}{len(self.names)}"
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
        if step.fails or step.tried or (step.policy is not None and step.policy.checked(step) is not None):
            named = (self.keyword(name, value, step) for name, value in step.kwargs.items())
            return f"{self.function(step)}({', '.join([*args, *named])})"
        if step.kind == "item":
            return f"{args[0]}[{args[1]}]"
        if step.kind == "attribute" and _is_name(step.target):
            return f"{args[0]}.{step.target}"
        if step.kind == "python" and step.target in SYMBOLS and len(args) == 2 and not _is_odd(step):
            return f"{args[0]} {SYMBOLS[step.target]} {args[1]}"
        given = ", ".join([*args, *(self.keyword(name, value, step) for name, value in step.kwargs.items())])
        if step.kind == "method" and _is_name(step.target):
            rest = ", ".join([*args[1:], *(self.keyword(name, value, step) for name, value in step.kwargs.items())])
            return f"{args[0]}.{step.target}({rest})"
        return f"{self.function(step)}({given})"

    def function(self, step: Step) -> str:
        """The name of what a step calls: for people its own, with a number if there are others of that name."""
        if not self._inputs:
            return self.named(_function(step), "f")
        said = step.target.name if step.kind == "operator" else str(step.target).rpartition(":")[2]
        return self.named(_function(step), re.sub(r"\W+", "_", said.removesuffix(".__call__")))

    def keyword(self, name: str, value: Template, step: Step) -> str:
        text = self.value(value, step)
        return f"{name}={text}" if _is_name(name) else f"**{{{name!r}: {text}}}"

    def reference(self, id: int) -> str:
        return self._inputs.get(id) or f"v{id}"

    def value(self, template: Template, step: Step | None = None) -> str:
        if isinstance(template, Ref):
            return self.reference(template.id)
        if isinstance(template, Const):
            return self.constant(template, step)
        items = [self.value(item, step) for item in template.items]
        return self.container(template, items, step)

    def constant(self, const: Const, step: Step | None) -> str:
        value = const.value
        if type(value) in _LITERALS and _is_short(value):
            return f"({value!r})" if type(value) is int and (value < 0 or _is_owner(const, step)) else repr(value)
        # Who changes what it is given must find it as it was the next time.
        if type(value) in (list, dict, set) and _is_literal(value):
            return repr(value) if value or type(value) is not set else "set()"
        name = self.named(value, "k")
        return f"_copy({name})" if _holds_changing(value) and not _only_looked_at(const, step) else name

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
        value = self.reference(guard.ref)
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
        value, word = self.reference(guard.ref), "if"
        for expected, branch in block.branches:
            self.line(f"{word} {self.test(guard, value, expected)}:", depth)
            self.block(branch, depth + 1)
            word = "elif"
        name = self.named([guard, [expected for expected, _ in block.branches]], "g")
        self.line(f"_nowhere({name}, {value})", depth)


def _function(step: Step) -> Callable[..., Any]:
    if step.fails:
        return _failing(_of(step))
    return _tried(_of(step), step) if step.tried else _of(step)


def _of(step: Step) -> Callable[..., Any]:
    checked = step.policy.checked(step) if step.policy is not None else None
    if checked is not None:
        return checked  # type: ignore[no-any-return]
    if step.kind == "operator":
        return step.target.call  # type: ignore[no-any-return]
    if step.kind == "function":
        return operations.function_named(step.target)
    if step.kind == "python":
        return operations.PYTHON[step.target]
    if step.kind == "item":
        return operations.PYTHON["getitem"]
    target = step.target
    if step.kind == "attribute":
        return lambda value: getattr(value, target)
    return lambda value, *args, **kwargs: getattr(value, target)(*args, **kwargs)


def _tried(function: Callable[..., Any], step: Step) -> Callable[..., Any]:
    """A step inside `try`: if it raises, the pipeline would have gone on elsewhere."""

    def succeeding(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            line = linecache.getline(step.where.file, step.where.line).strip()
            raised = operations.PYTHON["raised"](error)
            raise otherwise("value", step.where, line, ["nothing raised"], raised) from error

    return succeeding


def _failing(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a step raises that raised when it was recorded; or what it gives after all."""

    def raised(*args: Any, **kwargs: Any) -> Exception | operations.Given:
        try:
            return operations.Given(function(*args, **kwargs))
        except Exception as error:
            return error

    return raised


def _is_odd(step: Step) -> bool:
    """`x is 5` is a warning of Python's when it is written."""
    asks = step.target in ("is", "is not")
    return asks and any(isinstance(arg, Const) and type(arg.value) not in (bool, type(None)) for arg in step.args)


def _is_owner(const: Const, step: Step | None) -> bool:
    return step is not None and step.kind in ("method", "attribute") and step.args[0] is const


def _is_short(value: Any) -> bool:
    return len(value) < 100 if type(value) is str else type(value) is not int or abs(value) < 1 << 64


def _is_literal(value: Any) -> bool:
    """Whether a container is written as it is: a few plain things."""
    parts = [*value, *value.values()] if isinstance(value, dict) else value
    return len(value) < 20 and all(type(part) in _LITERALS and _is_short(part) for part in parts)


def _holds_changing(value: Any) -> bool:
    parts, seen = [value], set()
    while parts:
        part = parts.pop()
        if type(part) in (list, dict, set, bytearray) or type(part) in COLLECTIONS:
            return True
        if type(part) is tuple and id(part) not in seen:
            seen.add(id(part))
            parts.extend(part)
    return False


def _only_looked_at(const: Const, step: Step | None) -> bool:
    """A table in which something is looked up: it is not given away, and what is found in it cannot be changed."""
    if step is None or not step.args or step.args[0] is not const:
        return step is not None and step.kind == "python" and step.target in ("contains", "not in")
    looked = step.kind == "item" or (step.kind == "method" and step.target in ("get", "index", "count"))
    return looked or (step.kind == "python" and step.target in ("contains", "not in"))


def _is_name(text: str) -> bool:
    """Whether Python reads it in code as what it is."""
    is_plain = text.isidentifier() and is_normalized("NFKC", text)
    return is_plain and not keyword.iskeyword(text) and text != "__debug__"


def _broken(guard: Guard, value: Any) -> None:
    raise otherwise(guard.kind, guard.where, guard.condition, [guard.expected], SEEN[guard.kind](value))


def _nowhere(decision: list[Any], value: Any) -> None:
    guard, expected = decision
    raise otherwise(guard.kind, guard.where, guard.condition, expected, SEEN[guard.kind](value))


def otherwise(kind: str, where: Where, condition: str, expected: list[Any], seen: Any) -> GuardError:
    """A decision that goes another way, with both values: in words, and as they are."""
    error = GuardError.of(kind, where, condition, [Said(one) for one in expected], Said(seen))
    error.expected, error.seen = expected, seen
    return error

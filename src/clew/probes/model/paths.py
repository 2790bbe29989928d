"""Paths inside a model: what `encoder.*.forward.q` leads to.

A path walks down the modules (`*` is one level, `**` any number, none included), and ends in one of these:

    encoder.1                what the module gives; further steps go into it (`encoder.1.0`, `encoder.1.logits`)
    encoder.1.input          what it is given
    encoder.1.grad           the gradient of what it gives
    encoder.1.weight         a parameter or buffer; `.grad`, its gradient
    encoder.1.forward        what the method gives; of any method
    encoder.1.forward.q      an argument or a local variable of it, every version of it, and on into it
    encoder.1.forward.x.input   the argument alone, as it was passed
    encoder.1.forward.self.n an attribute as it is inside the method; further steps go into submodules
    encoder.1.n              an attribute as it is when the model is done
    optimizer.state.**       with `optimizer=`
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import takewhile
from keyword import iskeyword
from types import CodeType, FunctionType
from typing import Any, Final, Literal

from clew.errors import OptionError

Facet = Literal["output", "input", "grad", "tensor", "tensor.grad", "method", "within", "attribute", "optimizer"]
Steps = tuple[str, ...]
Entry = tuple[str, Steps, str]  # what a value is called, the steps on into it, the pattern that asked for it

ANY: Final = "**"
_WILD: Final = frozenset("*?[")
OPTIMIZER: Final = "optimizer"


@dataclass(frozen=True, slots=True)
class Spot:
    """One thing in a model that a path leads to."""

    pattern: str  # as the user wrote it
    module: str  # the path of the module, "" for the model itself
    facet: Facet
    name: str = ""  # of the method, tensor or attribute
    rest: Steps = ()  # on into the value

    @property
    def label(self) -> str:
        """What it is called, as far as it is known before the value is."""
        facet = "" if self.facet == "output" else self.facet if self.facet in ("input", "grad") else self.name
        return joined(self.module, facet, "grad" if self.facet == "tensor.grad" else "")

    @property
    def stem(self) -> str:
        """What the names of its values begin with."""
        return joined(self.label, *takewhile(lambda step: not is_wild(step) and step != "grad", self.rest))


def joined(*steps: str) -> str:
    return ".".join(filter(None, steps))


def parsed(pattern: object) -> Steps:
    """The steps of a path, or what is wrong with it."""
    if not isinstance(pattern, str):
        raise OptionError(
            "bad-path",
            f"ModelTracer was given a {type(pattern).__name__} among its paths.",
            'Name paths as text: "forward.x", "encoder.*.attn".',
        )
    steps = tuple(pattern.strip().split("."))
    if not all(steps):
        raise OptionError(
            "bad-path", f"`{pattern}` is not a path: there is nothing between two of its dots, or at an end."
        )
    return steps


def spots(model: Any, pattern: str, *, methods: bool = False) -> list[Spot]:
    """Everything in a model that a path may lead to; empty if there is nothing of the kind.

    With `methods` a wildcard in place of a submodule matches the module's own methods too."""
    steps = parsed(pattern)
    if steps[0] == OPTIMIZER and OPTIMIZER not in model._modules:
        return [Spot(pattern, "", "optimizer", OPTIMIZER, steps[1:])]
    found = list(_walk(model, "", steps, pattern, True))
    if methods:
        found += _methods_at(model, "", steps, pattern)
    return list(dict.fromkeys(found))


def is_wild(step: str) -> bool:
    return not _WILD.isdisjoint(step)


def _walk(module: Any, path: str, steps: Steps, pattern: str, named: bool) -> Iterator[Spot]:
    """`named`: no wildcard led here, so that what the module has not may be an item of what it gives."""
    if not steps:
        if path:
            yield Spot(pattern, path, "output")
        return
    head, rest = steps[0], steps[1:]
    children = _children(module)
    if head == ANY:
        yield from _walk(module, path, rest, pattern, False)
        for name, child in children.items():
            yield from _walk(child, joined(path, name), steps, pattern, False)
    elif is_wild(head):
        matching = {name: child for name, child in children.items() if fnmatchcase(name, head)}
        for name, child in matching.items():
            yield from _walk(child, joined(path, name), rest, pattern, False)
        if not children:  # of a leaf: its tensors
            for name in [*module._parameters, *module._buffers]:
                if fnmatchcase(name, head):
                    yield from _facet(module, path, name, rest, pattern)
    elif head in children:
        yield from _walk(children[head], joined(path, head), rest, pattern, True)
    else:
        found = list(_facet(module, path, head, rest, pattern))
        if not found and named and path:
            found = [Spot(pattern, path, "output", "", steps)]  # an item of what it gives
        yield from found


def _children(module: Any) -> dict[str, Any]:
    return {name: child for name, child in module._modules.items() if child is not None}


def _facet(module: Any, path: str, head: str, rest: Steps, pattern: str) -> Iterator[Spot]:
    if head in module._parameters or head in module._buffers:
        if (module._parameters.get(head) if head in module._parameters else module._buffers.get(head)) is None:
            return
        if rest[:1] == ("grad",):
            yield Spot(pattern, path, "tensor.grad", head, rest[1:])
        else:
            yield Spot(pattern, path, "tensor", head, rest)
    elif head in ("input", "output", "grad"):
        yield Spot(pattern, path, head, "", rest)  # type: ignore[arg-type]
    elif method_of(module, head) is not None:
        yield from _method(module, path, head, rest, pattern)
    elif head in vars(module):
        yield Spot(pattern, path, "attribute", head, rest)


def _method(module: Any, path: str, head: str, rest: Steps, pattern: str) -> Iterator[Spot]:
    if not rest:
        yield Spot(pattern, path, "method", head)
        return
    names = names_in(module, head)
    first, more = rest[0], rest[1:]
    if first == "self" and more:
        for steps in _steps_in_self(module, more, named=True):
            yield Spot(pattern, path, "within", head, ("self", *steps))
    elif is_wild(first):
        for name in names.arguments + names.locals:
            if fnmatchcase(name, first if first != ANY else "*"):
                yield Spot(pattern, path, "within", head, (name, *(rest if first == ANY else more)))
    elif first in names.arguments or first in names.locals:
        yield Spot(pattern, path, "within", head, rest)
    elif not is_wild(pattern):
        yield Spot(pattern, path, "method", head, rest)  # into what it gives


def _methods_at(module: Any, path: str, steps: Steps, pattern: str) -> Iterator[Spot]:
    """What a wildcard finds among the methods of the modules that it stands for a part of."""
    head, rest = steps[0], steps[1:]
    children = _children(module)
    if is_wild(head):
        for name in own_methods(module):
            if name not in children and fnmatchcase(name, head):
                yield from _method(module, path, name, rest, pattern)
    if rest:
        for name, child in children.items():
            if fnmatchcase(name, head):
                yield from _methods_at(child, joined(path, name), rest, pattern)


def own_methods(module: Any) -> list[str]:
    """Methods that the classes of a module define, without special ones and what it has from torch.nn.Module."""
    import torch

    names = [name for name in dir(type(module)) if not name.startswith("__") and method_of(module, name) is not None]
    return [name for name in names if method_of(module, name) is not vars(torch.nn.Module).get(name)]


def _steps_in_self(module: Any, steps: Steps, *, named: bool) -> Iterator[Steps]:
    """The concrete steps that these lead to from `self`. `named`: no wildcard led here, so that an attribute that is
    not there yet may still come."""
    if not steps:
        if named:
            yield ()
        return
    head, rest = steps[0], steps[1:]
    children = _children(module)
    values = {**vars(module), **module._parameters, **module._buffers}
    own = [name for name, value in values.items() if not name.startswith("_") and value is not None]
    if head == ANY:
        if rest:
            yield from _steps_in_self(module, rest, named=False)
        else:
            yield from ((name,) for name in own)
        for name, child in children.items():
            yield from ((name, *tail) for tail in _steps_in_self(child, steps, named=False))
    elif is_wild(head):
        yield from ((name, *rest) for name in own if fnmatchcase(name, head))
        for name, child in children.items():
            if fnmatchcase(name, head):
                yield from ((name, *tail) for tail in _steps_in_self(child, rest, named=False))
    elif head in children and rest:
        yield from ((head, *tail) for tail in _steps_in_self(children[head], rest, named=named))
    elif named or head in own:
        yield steps


def expression_in_self(module: Any, steps: Steps) -> tuple[str, int]:
    """The expression for these steps from `self`, as far as they go through modules, and how many steps that are."""
    expression = "self"
    for count, step in enumerate(steps, 1):
        plain = step.isidentifier() and not iskeyword(step)
        child = module._modules.get(step)
        if child is None:
            return (f"{expression}.{step}", count) if plain else (expression, count - 1)
        expression += f".{step}" if plain else f"._modules[{step!r}]"
        module = child
    return expression, len(steps)


# ---- methods


@dataclass(frozen=True, slots=True)
class Names:
    arguments: list[str]  # without `self`
    locals: list[str]  # that are no arguments


def method_of(module: Any, name: str) -> FunctionType | None:
    """The function behind a method, if it is one of Python's."""
    found = inspect.getattr_static(type(module), name, None)
    if isinstance(found, FunctionType):
        inner = inspect.unwrap(found)  # `@torch.no_grad()` and others wrap it
        return inner if isinstance(inner, FunctionType) else None
    return None


def names_in(module: Any, name: str) -> Names:
    """The arguments and local variables of a method."""
    function = method_of(module, name)
    if function is None:
        return Names([], [])
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    own = [each for each in code.co_varnames if not each.startswith((".", "_clew"))]
    arguments = list(code.co_varnames[1:count])
    others = [each for each in [*own, *code.co_cellvars] if each not in code.co_varnames[:count]]
    return Names(arguments, list(dict.fromkeys(others)))


def rebinds(code: CodeType, name: str) -> bool:
    """Whether code binds a name anew."""
    for instruction in dis.get_instructions(code):
        if instruction.opname.startswith("STORE_"):
            bound = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
            if name in bound:
                return True
    return False


# ---- what there is, for who has mistyped


def existing(model: Any) -> list[str]:
    """Paths that lead to something, to suggest from."""
    found = []
    for path, module in model.named_modules():
        found += [path] if path else []
        found += [joined(path, name) for name in [*module._parameters, *module._buffers]]
        for method in dict.fromkeys(["forward", *own_methods(module)]):
            names = names_in(module, method)
            found += [joined(path, method, name) for name in [*names.arguments, *names.locals]]
    return ["forward", *found]

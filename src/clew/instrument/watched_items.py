"""What to look for in a function: the expressions asked for, and the function's own names."""

from __future__ import annotations

import ast
from types import CodeType
from typing import Any

from clew.recorder.plan import Watched

from . import effects, source
from .expressions import Expression, Form
from .options import Options
from .rewrite import Item


def parameter_names(node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[str, ...]:
    """As they are written, in the order of the code's variables."""
    args = node.args
    stars = [arg for arg in (args.vararg, args.kwarg) if arg is not None]
    return tuple(arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, *stars))


def items_for(
    own: list[str], elsewhere: set[str], requests: list[Options]
) -> tuple[list[Item], tuple[Watched, ...], tuple[Any, ...] | None]:
    """What to look for, in order, each expression once, and twice if it is the step and watched too; steps first."""
    wanted: dict[tuple[str, bool], tuple[Expression, Options, bool]] = {}
    for options in requests:
        if options.step is not None:
            wanted.setdefault((options.step.text, True), (options.step, options, True))
    for options in requests:
        for expression in options.expressions:
            for each in expand(expression, own):
                wanted.setdefault((each.text, False), (each, options, False))
    items, watched, hooks = [], [], []
    for index, (expression, options, is_step) in enumerate(wanted.values()):
        local = expression.form is Form.NAME and expression.text in own
        shared = not local or expression.text in elsewhere
        breaks = options.hooks.break_text or options.hooks.break_when is not None
        items.append(Item(index, expression, local, shared, options.when, options.break_when, breaks, first=is_step))
        role = "step" if is_step else "value"
        thinning = None if is_step else options.thinning
        watched.append(Watched(expression.text, role, options.keep_of(expression.text), thinning))  # type: ignore[arg-type]
        hooks.append(options.hooks if options.hooks.any() and not is_step else None)
    return items, tuple(watched), tuple(hooks) if any(hooks) else None


def expand(expression: Expression, own: list[str]) -> list[Expression]:
    """`*` is every local; anything else is itself."""
    if expression.form is not Form.ALL:
        return [expression]
    return [Expression(name, Form.NAME) for name in own]


def local_names(code: CodeType, node: Any, class_name: str | None = None) -> list[str]:
    """The function's own names: parameters first, then as they are bound. Not those of comprehensions."""
    own = {*code.co_varnames, *code.co_cellvars}
    bound = dict.fromkeys([*parameter_names(node), *effects.bound_names(node)])
    # Merely to read `super` gives a method a `__class__` cell, which the running function may not have. Names that are
    # no identifiers are pytest's, for the parts of an assert.
    names = [name for name in bound if name != "super" and name.isidentifier()]
    return [name for name in names if source.mangled(name, class_name) in own]

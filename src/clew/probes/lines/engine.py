"""Chooses how a function is watched, and puts the chosen code in and out.

Rewriting (rewrite.py) where the source is known to be what runs; events of the interpreter (events.py) elsewhere, with
the reason kept for the ledger. Only `__code__` is exchanged, so every reference to the function, every thread and
every debugger sees the same function as before.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import threading
import weakref
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, FunctionType
from typing import Any

from clew import recording
from clew.recorder.plan import Plan, Watched
from clew.records import Note

from . import compilers, effects, events, ignore, runtime, source
from .assemble import assemble
from .expressions import Expression, Form, roots
from .options import Options
from .rewrite import Item, rewrite

_PAUSES = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR | inspect.CO_COROUTINE


@dataclass(eq=False, slots=True)
class Instrumented:
    """A function under watch: what it was, and what it is while watching is on."""

    original: CodeType
    requests: list[tuple[Options, str | None]] = field(default_factory=list)
    code: CodeType | None = None  # None: watched by events
    plan: Plan | None = None


_known: weakref.WeakKeyDictionary[FunctionType, Instrumented] = weakref.WeakKeyDictionary()
_cache: dict[tuple[object, ...], tuple[CodeType, Plan]] = {}
_CACHE_SIZE = 1024
_lock = threading.RLock()


def instrument(function: FunctionType, options: Options, group: str | None = None) -> bool:
    """Watch a function; a second request adds to the first. False if nothing in it concerns the request."""
    with _lock:
        known = _known.get(function) or Instrumented(function.__code__)
        if group is not None and not _concerns(function, known.original, options):
            return False
        known.requests.append((options, group))
        found = source.find(known.original, function.__globals__)
        made = found if isinstance(found, source.Unknown) else _rewritten(function, known, found)
        if isinstance(made, source.Unknown):
            known.plan = events.attach(known.original, function, known.requests)
            recording.note_later(
                Note("fallback", function.__qualname__, f"watched by interpreter events: {made.reason}.")
            )
        else:
            known.code, known.plan = made
            compilers.exempt(known.code, function)
            if recording.is_on():
                function.__code__ = known.code
        known.plan.owners.add(function)
        _known[function] = known
        recording.add_tags(options.tags)
        return True


def _rewritten(
    function: FunctionType, known: Instrumented, found: source.Found
) -> tuple[CodeType, Plan] | source.Unknown:
    """A function made again and again (a closure, a fixture) is rewritten once."""
    requests = [options for options, _ in known.requests]
    group = known.requests[-1][1]
    code = known.original
    # code objects of different files can be equal
    where = (code.co_filename, code.co_qualname, function.__module__, group)
    key = (code, where, tuple(options.key() for options in requests))
    if key not in _cache:
        while len(_cache) >= _CACHE_SIZE:
            _cache.pop(next(iter(_cache)))
        made = rewrite_code(code, found, requests, function.__module__, group)
        if isinstance(made, source.Unknown):
            return made
        _cache[key] = made
    return _cache[key]


def rewrite_code(
    original: CodeType, found: source.Found, requests: list[Options], module: str | None, group: str | None
) -> tuple[CodeType, Plan] | source.Unknown:
    """The instrumented form of a code object, and its plan; or why there is none."""
    node = source.as_function(found.node)
    own = local_names(original, node, found.context.class_name)
    items, watched, hooks = items_for(own, effects.bound_elsewhere(node), requests)
    parameters = parameter_names(node)
    rewritten = rewrite(node, items, parameters, ignore.ignorer(found.lines), bool(original.co_flags & _PAUSES))
    plan = Plan(
        original.co_qualname,
        module or "?",
        original.co_filename,
        original.co_firstlineno,
        watched,
        rewritten.lines,
        rewritten.ignored,
        parameters=parameters,
        dedupe=hooks is None,
        group=group,
        hooks=hooks,
    )
    plan.on_return = [options.on_return for options in requests if options.on_return is not None]
    plan.locals = own
    plan.from_star = any(e.form is Form.ALL for options in requests for e in options.expressions)
    try:
        code = assemble(rewritten, original, found.context, plan, objects(partial(_entrance(original, plan), plan)))
    except (SyntaxError, RecursionError) as error:  # "too many statically nested blocks": ours are one more
        return source.Unknown(f"with the tests in it, it does not compile ({error})")
    if code.co_freevars != original.co_freevars:
        return source.Unknown("with the tests in it, it needs other cells")
    return code, plan


def _entrance(original: CodeType, plan: Plan) -> Any:
    if original.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR):
        return runtime.enter_generator
    if original.co_flags & inspect.CO_COROUTINE:
        return runtime.enter_coroutine
    return runtime.enter_hooked if plan.hooks is not None else runtime.enter


def objects(enter: Any) -> dict[str, Any]:
    """What instrumented code calls, by the names rewrite.py uses."""
    return {
        "enter": enter,
        "clean": runtime.clean,
        "type": type,
        "NameError": NameError,
        "Exception": Exception,
        "breakpoint": builtins.breakpoint,
    }


def parameter_names(node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[str, ...]:
    """As they are written, in the order of the code's variables."""
    args = node.args
    stars = [arg for arg in (args.vararg, args.kwarg) if arg is not None]
    return tuple(arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, *stars))


def items_for(
    own: list[str], elsewhere: set[str], requests: list[Options]
) -> tuple[list[Item], tuple[Watched, ...], tuple[Any, ...] | None]:
    """What to look for, in order, each expression once; steps first."""
    wanted: dict[str, tuple[Expression, Options, bool]] = {}
    for options in requests:
        if options.step is not None:
            wanted.setdefault(options.step.text, (options.step, options, True))
    for options in requests:
        for expression in options.expressions:
            for each in expand(expression, own):
                wanted.setdefault(each.text, (each, options, False))
    items, watched, hooks = [], [], []
    for index, (expression, options, is_step) in enumerate(wanted.values()):
        local = expression.form is Form.NAME and expression.text in own
        shared = not local or expression.text in elsewhere
        breaks = options.hooks.break_text or options.hooks.break_when is not None
        items.append(Item(index, expression, local, shared, options.when, options.break_when, breaks, first=is_step))
        role = "step" if is_step and not _also_watched(expression, requests, own) else "value"
        thinning = None if is_step else options.thinning
        watched.append(Watched(expression.text, role, options.keep_of(expression.text), thinning))  # type: ignore[arg-type]
        hooks.append(options.hooks if options.hooks.any() and not is_step else None)
    return items, tuple(watched), tuple(hooks) if any(hooks) else None


def _also_watched(expression: Expression, requests: list[Options], own: list[str]) -> bool:
    return any(e.text == expression.text for o in requests for w in o.expressions for e in expand(w, own))


def expand(expression: Expression, own: list[str]) -> list[Expression]:
    """`*` is every local; anything else is itself."""
    if expression.form is not Form.ALL:
        return [expression]
    return [Expression(name, Form.NAME) for name in own]


def local_names(code: CodeType, node: Any, class_name: str | None = None) -> list[str]:
    """The function's own names: parameters first, then as they are bound. Not those of comprehensions."""
    own = {*code.co_varnames, *code.co_cellvars}
    names = dict.fromkeys([*parameter_names(node), *effects.bound_names(node)])
    # merely to read `super` gives a method a `__class__` cell, which the running function may not have
    return [name for name in names if name != "super" and source.mangled(name, class_name) in own]


def _concerns(function: FunctionType, code: CodeType, options: Options) -> bool:
    """Whether a function that was not named itself (a method of a watched class) holds anything asked for."""
    names = {*code.co_varnames, *code.co_cellvars, *code.co_freevars, *function.__globals__}
    for expression in options.expressions:
        if expression.form is Form.ALL:
            return True
        if roots(expression) <= names:
            return True
    return False


def switch(on: bool) -> None:
    """Put the instrumented code in, or take it out."""
    with _lock:
        for function, known in list(_known.items()):
            if known.code is not None:
                function.__code__ = known.code if on else known.original
        events.switch(on)
        compilers.switch(on)


recording.on_switch(switch)

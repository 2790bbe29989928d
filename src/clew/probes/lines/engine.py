"""Chooses how a function is watched, and puts the chosen code in and out.

Rewriting (rewrite.py) where the source is known to be what runs; events of the interpreter (events.py) elsewhere, with
the reason kept for the ledger. Only `__code__` is exchanged, so every reference to the function, every thread and
every debugger sees the same function as before.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import inspect
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from clew import recording
from clew.recorder.plan import Plan, Watched
from clew.records import Note

from . import compilers, effects, events, ignore, runtime, source
from .assemble import assemble
from .expressions import Expression, Form, roots
from .options import Options
from .rewrite import Item, rewrite

PAUSES = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR | inspect.CO_COROUTINE


@dataclass(eq=False, slots=True)
class Instrumented:
    """A function under watch: what it was, and what it is while watching is on."""

    original: CodeType
    requests: list[tuple[Options, str | None]] = field(default_factory=list)
    follow: Follow | None = None
    code: CodeType | None = None  # None: watched by events
    plan: Plan | None = None


class Follow(NamedTuple):
    """What is needed to follow the calls of a function."""

    lean: Callable[[CodeType, source.Found, str | None, Follow], Any]  # for a function that needs no object
    enter: Callable[[Plan, int], Any]  # the way into any other, for a plan and the code's flags
    names: Options | None  # changes of these names are recorded too, inside followed calls only
    root: Any = None  # not None: its calls begin a tree of their own


_known: weakref.WeakKeyDictionary[FunctionType, Instrumented] = weakref.WeakKeyDictionary()
#: Code of functions defined inside followed ones, which is rewritten before they are made: as it was, and how followed.
_inside: weakref.WeakKeyDictionary[CodeType, tuple[CodeType, Follow]] = weakref.WeakKeyDictionary()
_cache: dict[tuple[object, ...], tuple[CodeType, Plan]] = {}
_CACHE_SIZE = 1024
_lock = threading.RLock()


def instrument(function: FunctionType, options: Options, group: str | None = None) -> bool:
    """Watch a function; a second request adds to the first. False if nothing in it concerns the request."""
    with _lock:
        known = _known.get(function) or _untouched(function)
        if group is not None and not _concerns(function, known.original, options):
            return False
        known.requests.append((options, group))
        made = _made(function, known)
        if isinstance(made, source.Unknown):
            known.plan = events.attach(known.original, function, known.requests)
            recording.note_later(
                Note("fallback", function.__qualname__, f"watched by interpreter events: {made.reason}.")
            )
        else:
            _put_in(function, known, *made)
        assert known.plan is not None
        known.plan.owners.add(function)
        _known[function] = known
        recording.add_tags(options.tags)
        return True


def follow(function: FunctionType, wanted: Follow | None) -> str:
    """Follow the calls of a function, or no longer; "" or why it cannot be done."""
    with _lock:
        known = _known.get(function) or _untouched(function)
        before, known.follow = known.follow, wanted
        if wanted is None and not known.requests:
            function.__code__ = known.original
            _known.pop(function, None)
            return ""
        made = _made(function, known)
        if isinstance(made, source.Unknown):
            known.follow = before
            return made.reason
        _put_in(function, known, *made)
        if wanted is not None and wanted.root is not None:
            made[1].owners.add(function)
        _known[function] = known
        return ""


def uninstrument(function: FunctionType, options: Options) -> None:
    """Take one request to watch back (not from a function that is watched by events)."""
    with _lock:
        known = _known.get(function)
        if known is None or known.code is None:
            return
        known.requests = [request for request in known.requests if request[0] is not options]
        if known.plan is not None:
            known.plan.owners.discard(function)
        made = _made(function, known) if known.requests or known.follow is not None else None
        if made is None or isinstance(made, source.Unknown):
            function.__code__ = known.original
            _known.pop(function, None)
        else:
            _put_in(function, known, *made)
            made[1].owners.add(function)


def _untouched(function: FunctionType) -> Instrumented:
    """A function of which nothing was asked yet; if it was made inside a followed one, it is followed."""
    code, wanted = _inside.get(function.__code__, (function.__code__, None))
    return Instrumented(code, follow=wanted)


def is_ours(function: FunctionType) -> bool:
    """Whether a function was made with code that is rewritten already (inside a followed one, or by `clew run`)."""
    if function in _known:
        return False
    return any(name.startswith(".clew_") for name in function.__code__.co_varnames)


def original_code(function: FunctionType) -> CodeType:
    """The code as the user wrote it."""
    known = _known.get(function)
    return _inside.get(function.__code__, (function.__code__,))[0] if known is None else known.original


def followed(function: FunctionType) -> Follow | None:
    """How a function is followed, if it is."""
    known = _known.get(function)
    return None if known is None else known.follow


def _put_in(function: FunctionType, known: Instrumented, code: CodeType, plan: Plan) -> None:
    if known.plan is not None:
        known.plan.owners.discard(function)  # it does not answer for this function any more
        plan.called = plan.called or known.plan.called
    known.code, known.plan = code, plan
    compilers.exempt(code, function)
    if recording.is_on():
        function.__code__ = code


def _made(function: FunctionType, known: Instrumented) -> tuple[CodeType, Plan] | source.Unknown:
    found = source.find(known.original, function.__globals__)
    return found if isinstance(found, source.Unknown) else _rewritten(function, known, found)


def _rewritten(
    function: FunctionType, known: Instrumented, found: source.Found
) -> tuple[CodeType, Plan] | source.Unknown:
    """A function made again and again (a closure, a fixture) is rewritten once."""
    requests = [options for options, _ in known.requests]
    group = known.requests[-1][1] if known.requests else None
    code, wanted = known.original, known.follow
    # code objects of different files can be equal
    where = (code.co_filename, code.co_qualname, function.__module__, group)
    key = (code, where, tuple(options.key() for options in requests), wanted)
    if key not in _cache:
        while len(_cache) >= _CACHE_SIZE:
            _cache.pop(next(iter(_cache)))
        if wanted is not None and not requests and is_lean(code, wanted):
            made = wanted.lean(code, found, function.__module__, wanted)
        else:
            made = rewrite_code(code, found, requests, function.__module__, group, wanted)
        if isinstance(made, source.Unknown):
            return made
        _cache[key] = made
    return _cache[key]


def rewrite_code(
    original: CodeType,
    found: source.Found,
    requests: list[Options],
    module: str | None,
    group: str | None,
    follow: Follow | None = None,
    entrance: Callable[[Plan], Any] | None = None,
) -> tuple[CodeType, Plan] | source.Unknown:
    """The instrumented form of a code object, and its plan; or why there is none.

    `entrance` makes the way in, where that is not one of watched or followed functions.
    """
    node = source.as_function(found.node)
    own = local_names(original, node, found.context.class_name)
    parameters = parameter_names(node)
    asked = [*requests, *_names_there(follow, own)]
    items, watched, hooks = items_for(own, effects.bound_elsewhere(node), asked)
    if follow is not None:
        watched += in_and_out(parameters)
        hooks = (*(hooks or ()), *[None] * (len(watched) - len(hooks or ())))  # its changes are judged at once
    pauses = bool(original.co_flags & PAUSES)
    rewritten = rewrite(node, items, parameters, ignore.ignorer(found.lines), pauses, says_where=follow is not None)
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
    if follow is not None:
        plan.always, plan.root = bool(requests), follow.root
    if entrance is not None:
        enter = entrance(plan)
    else:
        enter = partial(_entrance(original, plan), plan) if follow is None else follow.enter(plan, original.co_flags)
    try:
        code = assemble(rewritten, original, found.context, plan, objects(enter))
    except (SyntaxError, RecursionError) as error:  # "too many statically nested blocks": ours are one more
        return source.Unknown(f"with the tests in it, it does not compile ({error})")
    if code.co_freevars != original.co_freevars:
        return source.Unknown("with the tests in it, it needs other cells")
    return code if follow is None else inner_followed(code, module, follow), plan


def is_lean(code: CodeType, follow: Follow) -> bool:
    """Whether a followed function can write its log itself: it does not pause, and holds none of the names."""
    if code.co_flags & PAUSES:
        return False
    own = {*code.co_varnames, *code.co_cellvars}
    names = follow.names.expressions if follow.names is not None else ()
    return not any(e.form is Form.ALL or roots(e) & own for e in names)


def inner_followed(code: CodeType, module: str | None, follow: Follow) -> CodeType:
    """The code with the functions defined in it followed too."""
    inner = partial(_inner, module=module, follow=follow._replace(root=None))
    return code.replace(co_consts=tuple(inner(c) if isinstance(c, CodeType) else c for c in code.co_consts))


def is_function(code: CodeType) -> bool:
    """Whether it is the code of a function or lambda, and not of a module, class or comprehension."""
    return bool(code.co_flags & inspect.CO_NEWLOCALS) and (
        not code.co_name.startswith("<") or code.co_name == "<lambda>"
    )


def _inner(code: CodeType, module: str | None, follow: Follow) -> CodeType:
    """The code of a function defined inside a followed one (or in a class there), followed too."""
    if is_function(code):
        found = source.find(code)
        if not isinstance(found, source.Unknown):
            lean = is_lean(code, follow)
            made = (
                follow.lean(code, found, module, follow)
                if lean
                else rewrite_code(code, found, [], module, None, follow)
            )
            if not isinstance(made, source.Unknown):
                compilers.exempt(made[0])
                _inside[made[0]] = code, follow
                return made[0]
    return inner_followed(code, module, follow)


def _names_there(follow: Follow | None, own: list[str]) -> list[Options]:
    """The part of the names followed everywhere that this function has."""
    if follow is None or follow.names is None:
        return []
    held = tuple(e for e in follow.names.expressions if e.form is Form.ALL or roots(e) & set(own))
    return [dataclasses.replace(follow.names, expressions=held)] if held else []


def in_and_out(parameters: tuple[str, ...]) -> tuple[Watched, ...]:
    """What is recorded of every followed call."""
    return (*(Watched(name, "input") for name in parameters), Watched("return", "output"), Watched("clock", "clock"))


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

"""Chooses how a function is watched, and puts the chosen code in and out.

Rewriting (rewrite.py) where the source is known to be what runs; events of the interpreter (events.py) elsewhere, with
the reason kept for the ledger. Only `__code__` is exchanged, so every reference to the function, every thread and
every debugger sees the same function as before.
"""

from __future__ import annotations

import builtins
import dataclasses
import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from clew import recording
from clew.instrument import pickling
from clew.recorder import quiet_threads
from clew.recorder.fingerprints import original_code_finders
from clew.recorder.plan import Plan, Watched
from clew.records import Note

from . import compilers, effects, events, ignored_lines, runtime, source
from .assembling import assemble
from .branch import PREFIX, Branch, heard, merge
from .expressions import Form, roots
from .options import Options, options
from .rewrite import Rewritten, rewrite
from .watched_items import items_for, local_names, parameter_names

PAUSES = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR | inspect.CO_COROUTINE


@dataclass(eq=False, slots=True)
class Instrumented:
    """A function under watch: what it was, and what it is while watching is on."""

    original: CodeType
    requests: list[tuple[Options, str | None]] = field(default_factory=list)
    follow: Follow | None = None
    branch: Branch | None = None
    code: CodeType | None = None  # None: watched by events
    plan: Plan | None = None
    before: CodeType | None = None  # what the function had when it was first asked for, if that is not `original`


class Follow(NamedTuple):
    """What is needed to follow the calls of a function."""

    lean: Callable[[CodeType, source.Found, str | None, Follow], Any]  # for a function that needs no object
    enter: Callable[[Plan, int], Any]  # the way into any other, for a plan and the code's flags
    names: Options | None  # changes of these names are recorded too, inside followed calls only
    root: Any = None  # not None: its calls begin a tree of their own
    root_inside: Callable[[CodeType, str | None], Any] | None = None  # gives that of a function defined inside


_known: weakref.WeakKeyDictionary[FunctionType, Instrumented] = weakref.WeakKeyDictionary()
#: Code of functions defined inside followed ones, which is rewritten before they are made: as it was, and how followed.
_inside: weakref.WeakKeyDictionary[CodeType, tuple[CodeType, Follow]] = weakref.WeakKeyDictionary()
#: Code that `clew run` rewrote before functions were made with it: as it was, and what was asked for.
_rewritten_before: weakref.WeakKeyDictionary[CodeType, Instrumented] = weakref.WeakKeyDictionary()
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
            requests = [options for options, _ in known.requests]
            known.plan = events.attach(known.original, function.__module__, requests)
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
        if wanted is None and not known.requests and known.branch is None:
            _put_back(function, known)
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


def branch(function: FunctionType, wanted: Branch | None) -> str:
    """Give a function a second body for certain receivers, or take it away; "" or why it cannot be done."""
    with _lock:
        known = _known.get(function) or _untouched(function)
        before, known.branch = known.branch, wanted
        compilers.wait()
        if wanted is None and not known.requests and known.follow is None:
            compilers.readmit(function)
            _put_back(function, known)
            return ""
        made = _made(function, known)
        if isinstance(made, source.Unknown):
            known.branch = before
            return made.reason
        _put_in(function, known, *made)
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
        needed = known.requests or known.follow is not None or known.branch is not None
        made = _made(function, known) if needed else None
        if made is None or isinstance(made, source.Unknown):
            _put_back(function, known)
        else:
            _put_in(function, known, *made)
            made[1].owners.add(function)


def _untouched(function: FunctionType) -> Instrumented:
    """A function of which nothing was asked yet; if it was made inside a followed one, it is followed."""
    code = function.__code__
    asked = _rewritten_before.get(code)
    if asked is not None:
        return dataclasses.replace(asked, requests=list(asked.requests), before=code)
    original, wanted = _inside.get(code, (code, None))
    return Instrumented(original, follow=wanted)


def _put_back(function: FunctionType, known: Instrumented) -> None:
    function.__code__ = known.before or known.original
    _known.pop(function, None)


def is_ours(function: FunctionType) -> bool:
    """Whether a function was made with code that is rewritten already (inside a followed one, or by `clew run`)."""
    if function in _known:
        return False
    return any(name.startswith(".clew_") for name in function.__code__.co_varnames)


def original_code(function: FunctionType) -> CodeType:
    """The code as the user wrote it."""
    known = _known.get(function)
    if known is not None:
        return known.original
    code = function.__code__
    asked = _rewritten_before.get(code)
    return asked.original if asked is not None else pickling.as_written(code)


def remember_original(
    code: CodeType,
    original: CodeType,
    requests: Iterable[tuple[Options, str | None]] = (),
    follow: Follow | None = None,
) -> None:
    """`code`, with which functions will be made, was rewritten from `original` for these requests."""
    _rewritten_before[code] = Instrumented(original, list(requests), follow)


def _original_code(function: FunctionType) -> CodeType | None:
    original = original_code(function)
    return None if original is function.__code__ else original


original_code_finders.append(_original_code)


def followed(function: FunctionType) -> Follow | None:
    """How a function is followed, if it is."""
    return (_known.get(function) or _untouched(function)).follow


def _put_in(function: FunctionType, known: Instrumented, code: CodeType, plan: Plan) -> None:
    if known.plan is not None:
        known.plan.owners.discard(function)  # it does not answer for this function any more
        plan.called = plan.called or known.plan.called
    known.code, known.plan = code, plan
    pickling.remember(code, known.original)
    if _can_be_off(known):
        compilers.exempt(code, function)
    if recording.is_on() or not _can_be_off(known):
        function.__code__ = code


def _can_be_off(known: Instrumented) -> bool:
    """Who has a second body put in asks what is on: a tracer counts the iterations that it does not record."""
    return bool(known.requests) or known.follow is not None


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
    torch = _torch_name(function) if known.branch is not None else None
    key = (code, where, tuple(options.key() for options in requests), wanted, known.branch, torch)
    if key not in _cache:
        while len(_cache) >= _CACHE_SIZE:
            _cache.pop(next(iter(_cache)))
        if known.branch is not None:
            made = _branched(code, found, requests, function.__module__, group, wanted, known.branch, torch)
        elif wanted is not None and not requests and is_lean(code, wanted):
            made = wanted.lean(code, found, function.__module__, wanted)
        else:
            made = rewrite_code(code, found, requests, function.__module__, group, wanted)
        if isinstance(made, source.Unknown):
            return made
        _cache[key] = made
    return _cache[key]


def _torch_name(function: FunctionType) -> str | None:
    """What a function calls torch; "" if it does not, None if nothing can be compiled (yet)."""
    if not compilers.is_loaded():
        return None
    code, torch = function.__code__, sys.modules.get("torch")
    own = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    return "torch" if function.__globals__.get("torch") is torch and "torch" not in own else ""


@compilers.on_load
def _remake_branches() -> None:
    """torch's compiler is loaded: second bodies must be hidden from it."""
    with _lock:
        for function, known in list(_known.items()):
            made = _made(function, known) if known.branch is not None else None
            if isinstance(made, tuple):
                _put_in(function, known, *made)


class _Prepared(NamedTuple):
    """A rewritten function before it is compiled."""

    rewritten: Rewritten
    plan: Plan
    objects: dict[str, Any]


def rewrite_code(
    original: CodeType,
    found: source.Found,
    requests: list[Options],
    module: str | None,
    group: str | None,
    follow: Follow | None = None,
) -> tuple[CodeType, Plan] | source.Unknown:
    """The instrumented form of a code object, and its plan; or why there is none."""
    prepared = _prepared(original, found, requests, module, group, follow)
    code = _compiled(prepared, original, found)
    if isinstance(code, source.Unknown):
        return code
    return code if follow is None else inner_followed(code, module, follow), prepared.plan


def _branched(
    original: CodeType,
    found: source.Found,
    requests: list[Options],
    module: str | None,
    group: str | None,
    follow: Follow | None,
    branch: Branch,
    torch: str | None,
) -> tuple[CodeType, Plan] | source.Unknown:
    """The same with a second body, whatever the first is: as written, watched or followed."""
    receiver = next(iter(original.co_varnames[: original.co_argcount]), None)
    if receiver is None:
        return source.Unknown("it has no `self`")
    if original.co_flags & PAUSES:
        return source.Unknown("it is a generator or coroutine")
    if not branch.expressions and (requests or follow is not None):
        first = _prepared(original, found, requests, module, group, follow)
        function = first.rewritten.function
        merge(function, heard(function, first.plan.parameters), None, receiver, torch)
        names = {**first.objects, **branch.objects(branch.entrance(first.plan))}
    else:
        looked_at = [options(branch.expressions)] if branch.expressions else []
        second = _prepared(original, found, looked_at, module, None, entrance=branch.entrance)
        second.plan.always = False
        if requests or follow is not None:
            first = _prepared(original, found, requests, module, group, follow)
        else:
            first = _Prepared(Rewritten(source.as_function(found.node), [], []), second.plan, {})
        merge(first.rewritten.function, second.rewritten.function, second.plan, receiver, torch)
        seconds = {f"{PREFIX}{name}": each for name, each in second.objects.items()}
        names = {**first.objects, **seconds, **branch.objects(second.objects["enter"])}
    code = _compiled(first._replace(objects=names), original, found)
    if isinstance(code, source.Unknown):
        return code
    return code if follow is None else inner_followed(code, module, follow), first.plan


def _prepared(
    original: CodeType,
    found: source.Found,
    requests: list[Options],
    module: str | None,
    group: str | None,
    follow: Follow | None = None,
    entrance: Callable[[Plan], Any] | None = None,
) -> _Prepared:
    """`entrance` makes the way in, where that is not one of watched or followed functions."""
    node = source.as_function(found.node)
    own = local_names(original, node, found.context.class_name)
    parameters = parameter_names(node)
    asked = [*requests, *_names_there(follow, own)]
    items, watched, hooks = items_for(own, effects.bound_elsewhere(node), asked)
    watched += in_and_out(parameters)
    if follow is not None:
        watched += (Watched("clock", "clock"),)
        hooks = hooks and (*hooks, *[None] * (len(watched) - len(hooks)))
    pauses = bool(original.co_flags & PAUSES)
    rewritten = rewrite(
        node, items, parameters, ignored_lines.ignorer(found.lines), pauses, says_where=follow is not None
    )
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
    plan.code, plan.source = original, found.text
    plan.on_return = [options.on_return for options in requests if options.on_return is not None]
    plan.deletions = not requests or any(options.deletions for options in requests)
    plan.locals = own
    plan.from_star = any(e.form is Form.ALL for options in requests for e in options.expressions)
    plan.result_site = plan.output_site
    plan.argument_sites = plan.input_sites
    if follow is not None:
        plan.always, plan.root = bool(requests), follow.root
    if follow is None:
        enter = partial(_entrance(original, plan), plan) if entrance is None else entrance(plan)
        return _Prepared(rewritten, plan, objects(enter, plan))
    enter = follow.enter(plan, original.co_flags) if entrance is None else entrance(plan)
    return _Prepared(rewritten, plan, {**objects(enter, plan), "expected": partial(runtime.expected_types, plan)})


def _compiled(prepared: _Prepared, original: CodeType, found: source.Found) -> CodeType | source.Unknown:
    rewritten, plan, names = prepared
    try:
        code = assemble(rewritten, original, found.context, plan, names)
    except (SyntaxError, RecursionError) as error:  # "too many statically nested blocks": ours are one more
        return source.Unknown(f"with the tests in it, it does not compile ({error})")
    if code.co_freevars != original.co_freevars:
        return source.Unknown("with the tests in it, it needs other cells")
    return code


def is_lean(code: CodeType, follow: Follow) -> bool:
    """Whether a followed function can write its log itself: it does not pause, and neither holds
    nor adds names, and prints nothing of its own."""
    root = follow.root
    if code.co_flags & PAUSES or (root is not None and (root.brings_names or root.prints_elsewhere)):
        return False
    own = {*code.co_varnames, *code.co_cellvars}
    names = follow.names.expressions if follow.names is not None else ()
    return not any(e.form is Form.ALL or roots(e) & own for e in names)


def inner_followed(code: CodeType, module: str | None, follow: Follow) -> CodeType:
    """The code with the functions defined in it followed too."""
    inner = partial(_inner, module=module, follow=follow._replace(root=None))
    return code.replace(co_consts=tuple(inner(c) if isinstance(c, CodeType) else c for c in code.co_consts))


def is_function(code: CodeType) -> bool:
    """Whether it is the code of a function or lambda that somebody wrote: no module, class or comprehension."""
    is_named = not code.co_name.startswith("<") or code.co_name == "<lambda>"
    return bool(code.co_flags & inspect.CO_NEWLOCALS) and is_named and source.is_written(code)


def _inner(code: CodeType, module: str | None, follow: Follow) -> CodeType:
    """The code of a function defined inside a followed one (or in a class there), followed too."""
    if is_function(code):
        found = source.find(code)
        if follow.root_inside is not None:
            follow = follow._replace(root=follow.root_inside(code, module))
        if not isinstance(found, source.Unknown):
            made: tuple[CodeType, Plan] | source.Unknown
            if is_lean(code, follow):
                made = follow.lean(code, found, module, follow)
            else:
                made = rewrite_code(code, found, [], module, None, follow)
            if not isinstance(made, source.Unknown):
                compilers.exempt(made[0])
                _inside[made[0]] = code, follow
                pickling.remember(made[0], code)
                return made[0]
    return inner_followed(code, module, follow)


def _names_there(follow: Follow | None, own: list[str]) -> list[Options]:
    """The part of the names followed everywhere that this function has."""
    if follow is None or follow.names is None:
        return []
    held = tuple(e for e in follow.names.expressions if e.form is Form.ALL or roots(e) & set(own))
    return [dataclasses.replace(follow.names, expressions=held)] if held else []


def in_and_out(parameters: tuple[str, ...]) -> tuple[Watched, ...]:
    """What is recorded of every call."""
    return (*(Watched(name, "input") for name in parameters), Watched("return", "output"))


def _entrance(original: CodeType, plan: Plan) -> Any:
    if original.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR):
        return runtime.enter_generator
    if original.co_flags & inspect.CO_COROUTINE:
        return runtime.enter_coroutine
    return runtime.enter_hooked if plan.hooks is not None else runtime.enter


def objects(enter: Any, plan: Plan) -> dict[str, Any]:
    """What instrumented code calls, by the names rewrite.py uses."""
    return {
        "enter": enter,
        "expected": plan.expected.copy,
        "clean": runtime.clean,
        **runtime.HIDING,
        "quiet": quiet_threads,
        "type": type,
        "NameError": NameError,
        "Exception": Exception,
        "breakpoint": builtins.breakpoint,
    }


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
            if known.code is not None and _can_be_off(known):
                function.__code__ = known.code if on else known.original
        events.switch(on)
        compilers.switch(on)


recording.on_switch(switch)

"""One request to follow: what is in scope, how deep, what is printed; and the functions rewritten for it."""

from __future__ import annotations

import builtins
import functools
import gc
import sys
import threading
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any

from clew import recording
from clew.instrument import engine
from clew.instrument.expressions import Form
from clew.instrument.options import Options, options
from clew.recorder.call_log import NO_LIMIT, Busy, Trace, Way, clock, here
from clew.recorder.plan import Plan
from clew.records import Change, Note
from clew.values import LIGHT, Keep

from . import call_objects, lean_calls
from .live_telling import Teller, TellingTrace
from .scope import Scope

_LOOK_AGAIN = 50_000_000  # ns
_lock = threading.RLock()


class Following:
    """How the calls inside a followed one are followed."""

    def __init__(
        self,
        names: tuple[str, ...] = (),
        *,
        own_names: tuple[str, ...] = (),
        depth: int | None = None,
        scope: Scope | None = None,
        printer: Any = None,
        keep: Keep = LIGHT,
    ) -> None:
        self.scope = scope or Scope()
        self.depth = NO_LIMIT if depth is None else depth
        self.keep = keep
        self.printer = printer
        # its part of another one's tree is printed there, too
        self.prints_elsewhere = printer is not None and printer.destination is not None
        self._takes: dict[Plan, bool] = {}  # whether in scope, as far as met
        self.names = _options(names)
        self.root_names = _options((*names, *own_names))  # in the function it was put on
        self._is_named = _test_of(self.names)
        self._is_named_in_root = _test_of(self.root_names)
        self.brings_names = self.root_names is not None  # whether a call of its function adds to what is followed
        self._parts = {self}  # the requests that it stands for
        self._count = 0  # how many modules there were when that was last looked at
        self._modules: set[str] = set()  # those whose functions were looked for
        self._main: set[tuple[int, int]] = set()
        self._way: Way | None = None  # on which the program came when all was ready
        self._names_of_main = 0
        self._looks_again_at = 0
        self._refused: weakref.WeakSet[FunctionType] = weakref.WeakSet()

    # ---- hot

    def takes(self, plan: Plan) -> bool:
        """Whether calls under this plan are in scope; asked once a plan."""
        taken = self._takes.get(plan)
        if taken is None:
            taken = plan.root is not None or self.scope.includes(plan.module, plan.file, plan.name)
            self._takes[plan] = taken
        return taken

    def wants(self, plan: Plan, name: str) -> bool:
        """Whether the changes of this name were asked for; in its own function a request may ask for more."""
        return self._is_named(name) or (plan.root is self and self._is_named_in_root(name))

    def new_trace(self, recorder: Any, thread: int, thread_name: str, tellers: list[Teller] | None = None) -> Trace:
        """A log; `tellers` hear what is written into it, by default this request's own."""
        if tellers is None:
            tellers = [Teller(self)] if self.printer is not None else []
        if not tellers:
            return Trace(recorder, self, thread, thread_name)
        return TellingTrace(recorder, self, thread, thread_name, tellers)

    # ---- making functions ready

    def prepare(self, way: Way | None = None, *, as_roots: bool = False) -> None:
        """Rewrite the functions in scope; again when there are new modules, or new functions in a notebook. `way` is
        that on which the program came here."""
        if not self._sees_nothing_new():
            if as_roots:
                self.brings_names = False  # every call follows the same names already
            with _lock:  # a second thread waits until all is ready
                if not self._sees_nothing_new():
                    self._prepare(as_roots)
        main = sys.modules.get("__main__")
        if way is not None and main is not None:
            self._way, self._names_of_main, self._looks_again_at = way, len(vars(main)), clock() + _LOOK_AGAIN

    def _prepare(self, as_roots: bool) -> None:
        modules, main = dict(sys.modules), _functions_of_main()
        new = [module for name, module in modules.items() if name not in self._modules]
        if not _identities(main) <= self._main or any(map(self.scope.may_hold, new)):
            for function in _all_functions(self.scope):
                self.follow_if_in_scope(function, as_roots)
        self._modules.update(modules)
        self._count, self._main = len(modules), _identities(main)

    def is_ready(self, way: Way) -> bool:
        """Hot: whether all was ready already when the program's own level was where it is now. What another thread, or
        `exec`, puts in the place of a known function is seen a little later."""
        main, before = sys.modules.get("__main__"), self._way
        return (
            before is not None
            and way.place is not None
            and (way is before or way.place == before.place)
            and len(sys.modules) == self._count
            and main is not None
            and len(vars(main)) == self._names_of_main
            and clock() < self._looks_again_at
        )

    def _sees_nothing_new(self) -> bool:
        return len(sys.modules) == self._count and _identities(_functions_of_main()) <= self._main

    def follow_if_in_scope(self, function: FunctionType, as_root: bool) -> None:
        """Rewrite a function if it is in scope."""
        code = function.__code__
        module = function.__module__ or ""
        if not engine.is_function(code) or function in self._refused:
            return
        if engine.is_ours(function) and engine.followed(function) is None:
            return
        if not self.scope.includes(module, code.co_filename, code.co_qualname):
            return
        if self.follow(function, root=as_root):
            self._refused.add(function)

    def follow(self, function: FunctionType, *, root: bool = False) -> str:
        """Rewrite one function; "" or why that cannot be."""
        before = engine.followed(function)
        of: Following | None = before.root if before is not None else None
        if root:
            of = self if of is None else self._together_with(of)
        names = of.root_names if root and of is not None else self.names
        if before is not None and before.names is not None:
            names = _joined(before.names, names)
        if before is not None and before.names is names and before.root is of:
            return ""
        with Busy():
            reason = engine.follow(function, engine.Follow(lean_calls.make, call_objects.entrance, names, of))
        if reason:
            what = f"its calls are not followed: {reason}."
            recording.note_later(Note("fallback", function.__qualname__, what))
        return reason

    def _together_with(self, before: Following) -> Following:
        """One request for a function that two were put on: the names of both, otherwise as the later one says."""
        if self in before._parts:
            return before
        both = Following(
            (*_texts(before.names), *_texts(self.names)),
            own_names=(*_texts(before.root_names), *_texts(self.root_names)),
            depth=self.depth,
            scope=self.scope,
            printer=self.printer,
            keep=self.keep,
        )
        both._parts |= before._parts | self._parts
        return both


def _options(names: tuple[str, ...]) -> Options | None:
    return options(names, on_change=tell) if names else None


def _texts(names: Options | None) -> tuple[str, ...]:
    return tuple(expression.text for expression in names.expressions) if names is not None else ()


def _test_of(names: Options | None) -> Callable[[str], bool]:
    """Whether a name is among these."""
    texts = frozenset(_texts(names))
    return (lambda name: True) if names is not None and _has_all(names) else texts.__contains__


def _has_all(names: Options) -> bool:
    return any(expression.form is Form.ALL for expression in names.expressions)


def _joined(names: Options, more: Options | None) -> Options:
    """Names that several requests follow: each is recorded once."""
    if more is None or set(more.expressions) <= set(names.expressions):
        return names
    expressions = dict.fromkeys([*names.expressions, *more.expressions])
    return options(tuple(e.text for e in expressions), on_change=tell)


def tell(change: Change) -> None:
    """A change of a followed name, to whoever prints the tree."""
    trace = here.get(None)
    if isinstance(trace, TellingTrace):
        trace.tell_change(change)


def _functions_of_main() -> list[FunctionType]:
    main = sys.modules.get("__main__")
    return [each for each in list(vars(main).values()) if type(each) is FunctionType] if main is not None else []


def _identities(functions: list[FunctionType]) -> set[tuple[int, int]]:
    """A new function may have the address of an old one, but not the code that was put into that."""
    return {(id(function), id(function.__code__)) for function in functions}


def _all_functions(scope: Scope) -> list[FunctionType]:
    """Every function there is in files that matter: methods, closures, callbacks, wherever they are held.

    Each function holds the built-in names, so that they lead to it. The list of all objects (`gc.get_objects`) would
    hold tuples that other threads are still filling, and CPython's `tuple(generator)` raises SystemError there.
    """
    is_in_scope = functools.cache(scope.may_be_in)
    functions = [each for each in gc.get_referrers(vars(builtins)) if type(each) is FunctionType]
    return [function for function in functions if is_in_scope(function.__code__.co_filename)]

"""One request to follow: what is in scope, how deep, what is printed; and the functions rewritten for it."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from types import FunctionType
from typing import Any

from clew import recording
from clew.probes.lines import engine
from clew.probes.lines.expressions import Form
from clew.probes.lines.hooks import Change
from clew.probes.lines.options import Options, options
from clew.recorder.plan import Plan
from clew.recorder.trace import NO_LIMIT, Busy, Trace, here
from clew.records import Note
from clew.values import LIGHT, Keep

from . import lean, objects
from .scope import Scope
from .telling import TellingTrace

_lock = threading.RLock()


class Following:
    """How the calls inside a followed one are followed."""

    def __init__(
        self,
        names: tuple[str, ...] = (),
        *,
        depth: int | None = None,
        scope: Scope | None = None,
        printer: Any = None,
        keep: Keep = LIGHT,
    ) -> None:
        self.scope = scope or Scope()
        self.depth = NO_LIMIT if depth is None else depth
        self.keep = keep
        self.printer = printer
        self._takes: dict[Plan, bool] = {}  # whether in scope, as far as met
        self.names: Options | None = options(names, on_change=_tell) if names else None
        expressions = self.names.expressions if self.names is not None else ()
        self._names = {expression.text for expression in expressions}
        self._all_names = any(expression.form is Form.ALL for expression in expressions)
        self._count = 0  # how many modules there were when that was last looked at
        self._modules: set[str] = set()  # those whose functions were looked for
        self._main: set[int] = set()
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
        return self._all_names or name in self._names or plan.root is self

    def new_trace(self, recorder: Any, thread: int, thread_name: str) -> Trace:
        kind = Trace if self.printer is None else TellingTrace
        return kind(recorder, self, thread, thread_name)

    # ---- making functions ready

    def prepare(self, *, as_roots: bool = False) -> None:
        """Rewrite the functions in scope; again when there are new modules, or new functions in a notebook."""
        if self._is_ready():
            return
        with _lock:  # a second thread waits until all is ready
            if self._is_ready():
                return
            modules, main = dict(sys.modules), _functions_of_main()
            new = [module for name, module in modules.items() if name not in self._modules]
            if not main <= self._main or any(map(self.scope.may_hold, new)):
                for function in _all_functions(self.scope):
                    self._follow_if_in_scope(function, as_roots)
            self._modules.update(modules)
            self._count, self._main = len(modules), main

    def _is_ready(self) -> bool:
        return len(sys.modules) == self._count and _functions_of_main() <= self._main

    def _follow_if_in_scope(self, function: FunctionType, as_root: bool) -> None:
        code = function.__code__
        module = function.__module__ or ""
        if not engine.is_function(code) or engine.is_ours(function) or function in self._refused:
            return
        if not self.scope.includes(module, code.co_filename, code.co_qualname):
            return
        if self.follow(function, root=as_root):
            self._refused.add(function)

    def follow(self, function: FunctionType, *, root: bool = False) -> str:
        """Rewrite one function; "" or why that cannot be."""
        before = engine.followed(function)
        names = self.names if before is None or before.names is None else _joined(before.names, self.names)
        of = self if root else before.root if before is not None else None
        if before is not None and before.names is names and before.root is of:
            return ""
        with Busy():
            reason = engine.follow(function, engine.Follow(lean.make, objects.entrance, names, of))
        if reason:
            what = f"its calls are not followed: {reason}."
            recording.note_later(Note("fallback", function.__qualname__, what))
        return reason


def _joined(names: Options, more: Options | None) -> Options:
    """Names that several requests follow: each is recorded once."""
    if more is None or set(more.expressions) <= set(names.expressions):
        return names
    expressions = dict.fromkeys([*names.expressions, *more.expressions])
    return options(tuple(e.text for e in expressions), on_change=_tell)


def _tell(change: Change) -> None:
    trace = here.get(None)
    if isinstance(trace, TellingTrace):
        trace.tell_change(change)


def _functions_of_main() -> set[int]:
    main = sys.modules.get("__main__")
    return {id(each) for each in list(vars(main).values()) if type(each) is FunctionType} if main is not None else set()


def _all_functions(scope: Scope) -> list[FunctionType]:
    """Every function there is in files that matter: methods, closures, callbacks, wherever they are held."""
    files: dict[str, bool] = {}
    found = []
    for each in gc.get_objects():
        if type(each) is FunctionType:
            file = each.__code__.co_filename
            if file not in files:
                files[file] = scope.may_be_in(file)
            if files[file]:
                found.append(each)
    return found

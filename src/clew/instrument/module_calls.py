"""Hot: hears the calls of torch modules. Nothing is put on a module: who listens to it stands in a table here.

`torch.nn.Module.__call__` has, while anybody listens, a second body for the modules in the table (lines/branch.py).
Copies of a module, saved ones and replaced `forward`s are what they are without clew.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection, Iterable
from functools import partial
from threading import get_ident
from types import FunctionType, SimpleNamespace
from typing import Any, Final, Protocol

import torch
from torch.fx import _symbolic_trace
from torch.nn.modules import module as torch_module

from clew import trouble
from clew.errors import NonfiniteError
from clew.instrument import engine
from clew.instrument.branch import Branch, Receivers
from clew.recorder.plan import Plan

_tracing_state: Final = torch._C._get_tracing_state


class Listener(Protocol):
    """Hears of calls. It may raise: then `failed` is told, and the call is what it is without."""

    @property
    def hears(self) -> Collection[str]:
        """Which of the following are called at all."""

    def called(self, module: Any) -> None: ...

    def given(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """What `forward` is called with, after hooks of the user's that change it."""

    def returned(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None: ...

    def left(self, module: Any, error: BaseException | None) -> None:
        """The call is over, whether it returned or raised."""

    def failed(self, error: Exception) -> None: ...


ALL: Final = ("called", "given", "returned", "left")


class Audience:
    """Listeners, by what they hear."""

    __slots__ = ("called", "given", "left", "returned")

    def __init__(self, listeners: Iterable[Listener]) -> None:
        everybody = tuple(listeners)
        self.called, self.given, self.returned, self.left = (
            tuple(each for each in everybody if name in each.hears) for name in ALL
        )


class _Heard:
    """Who listens to one module."""

    __slots__ = ("audience", "forward_is_heard", "listeners", "module", "open")

    def __init__(self, module: Any) -> None:
        self.module = weakref.ref(module, partial(_forget, heard, id(module)))
        self.listeners: tuple[Listener, ...] = ()
        self.audience = Audience(())
        self.open: dict[int, ModuleCall] = {}  # by thread: the call whose `forward` has not begun
        self.forward_is_heard = 0  # by so many: they tell when `forward` begins

    def set_listeners(self, listeners: tuple[Listener, ...]) -> None:
        self.listeners, self.audience = listeners, Audience(listeners)


heard: Final[Receivers[_Heard]] = Receivers()
_finders: list[Finder] = []
lock = threading.RLock()


class Finder(Protocol):
    """Hears of the calls of all modules, before anybody else does."""

    def called(self, module: Any) -> None: ...

    def left(self, module: Any) -> None: ...


def _compiling_flag() -> Any:
    """What has the `_is_compiling_flag` that says whether torch exports or compiles what runs."""
    places = (torch.compiler, torch._utils, SimpleNamespace(_is_compiling_flag=False))  # an older torch has none
    return next(place for place in places if hasattr(place, "_is_compiling_flag"))


_flags: Final = _compiling_flag()
#: Whether torch.fx traces: a flag of each thread since torch 2.14, one of the module before.
_is_fx_tracing: Final[Callable[[], Any]] = getattr(
    _symbolic_trace, "_get_is_fx_tracing", lambda: _symbolic_trace._is_fx_tracing_flag
)


def is_captured() -> bool:
    """Whether torch traces, exports or compiles the code that runs: a look at a value would become a part of that."""
    return bool(_tracing_state() is not None or _flags._is_compiling_flag or _is_fx_tracing())


# ---- calls


class NotHeard:
    """A call nobody hears of: it holds its result, because the code puts it there."""

    __slots__ = ("result",)
    result: Any

    def __enter__(self) -> NotHeard:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class HeardCall:
    """A call that listeners hear of; also of a method that is called past the module's own call."""

    __slots__ = ("args", "audience", "is_given", "kwargs", "module", "result")

    def __init__(self, audience: Audience, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.result: Any = None
        self.audience = audience
        self.module = module
        self.args = args
        self.kwargs = kwargs
        self.is_given = False
        for listener in audience.called:
            try:
                listener.called(module)
            except Exception as error:
                listener.failed(error)

    def give(self) -> None:
        """Tell what `forward` is called with."""
        self.is_given = True
        for listener in self.audience.given:
            try:
                listener.given(self.module, self.args, self.kwargs)
            except Exception as error:
                listener.failed(error)

    def __enter__(self) -> HeardCall:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        audience = self.audience
        try:
            if error is None:
                if not self.is_given:
                    self.give()
                for listener in audience.returned:
                    try:
                        listener.returned(self.module, self.args, self.kwargs, self.result)
                    except NonfiniteError as raised:  # asked for: nonfinite="raise"
                        error = raised
                        raise
                    except Exception as failure:
                        listener.failed(failure)
        finally:
            for listener in audience.left:
                try:
                    listener.left(self.module, error)
                except Exception as failure:
                    listener.failed(failure)


class ModuleCall(HeardCall):
    """A call of a module, hooks of the user's included."""

    __slots__ = ("_known", "_thread")

    def __init__(self, known: _Heard, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        HeardCall.__init__(self, known.audience, module, args, kwargs)
        self._known = known
        self._thread = thread = get_ident()
        if known.forward_is_heard:
            known.open[thread] = self
            if module._forward_pre_hooks or torch_module._global_forward_pre_hooks:
                return  # they may change the arguments: `forward` tells what it is given
        if self.audience.given:
            self.give()
        self.is_given = True

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        self._known.open.pop(self._thread, None)
        HeardCall.__exit__(self, kind, error, traceback)


class _FoundCall:
    """A call that finders hear of as well."""

    __slots__ = ("_inner", "_module", "result")

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.result: Any = None
        self._module = values[0]
        for finder in _finders:
            finder.called(self._module)
        self._inner = _enter(values)

    def __enter__(self) -> _FoundCall:
        return self

    def __exit__(self, *error: Any) -> None:
        self._inner.result = self.result
        try:
            self._inner.__exit__(*error)
        finally:
            for finder in _finders:
                finder.left(self._module)


def _enter(values: tuple[Any, ...]) -> ModuleCall | NotHeard:
    module, args, kwargs = values
    try:
        known = heard.get(id(module))
        if known is not None and not is_captured():
            return ModuleCall(known, module, args, kwargs)
    except Exception as error:
        trouble.failed(error, "entering a module")
    return NotHeard()


def _enter_found(values: tuple[Any, ...]) -> Any:
    try:
        return NotHeard() if is_captured() else _FoundCall(values)
    except Exception as error:
        return trouble.failed(error, "entering a module", NotHeard())


# ---- listening


class _Everything:
    def __contains__(self, item: object) -> bool:
        return True


EVERYTHING: Final = _Everything()


def _entrance(enter: Callable[[tuple[Any, ...]], Any]) -> Callable[[Plan], Any]:
    return lambda plan: enter


_LISTENED: Final = Branch(heard, (), _entrance(_enter))
_FOUND: Final = Branch(EVERYTHING, (), _entrance(_enter_found))


def _call_function() -> FunctionType:
    own = vars(torch.nn.Module)
    function: FunctionType = own.get("_wrapped_call_impl") or own["_call_impl"]
    return function


_CALL: Final = _call_function()
_REPLICATE: Final[FunctionType] = torch.nn.Module._replicate_for_data_parallel  # type: ignore[assignment]
_in_place: dict[FunctionType, Branch | None] = {_CALL: None, _REPLICATE: None}


def _place(function: FunctionType, wanted: Branch | None) -> None:
    if _in_place[function] is wanted:
        return
    reason = engine.branch(function, wanted)
    if reason:
        text = f"calls of torch modules cannot be seen: {reason}"
        trouble.report("module-calls", text, "Install torch with its source files.")
    else:
        _in_place[function] = wanted


def _update() -> None:
    """Put the second bodies where they are needed, and nowhere else."""
    _place(_CALL, _FOUND if _finders else _LISTENED if heard else None)
    _place(_REPLICATE, _REPLICATED if heard else None)


def listen(module: Any, listener: Listener) -> Callable[[], None]:
    """Tell `listener` of the calls of a module; gives what ends that."""
    with lock:
        known = _known_of(module)
        known.set_listeners((*known.listeners, listener))
        _update()
    return partial(_end, known, listener)


def _known_of(module: Any) -> _Heard:
    known = heard.get(id(module))
    if known is None:
        known = heard[id(module)] = _Heard(module)
    return known


def expect_forward(module: Any, change: int) -> None:
    """One more (1) or one less (-1) who tells when `forward` of a module begins."""
    with lock:
        known = heard.get(id(module))
        if known is not None:
            known.forward_is_heard += change


def _end(known: _Heard, listener: Listener) -> None:
    with lock:
        known.set_listeners(tuple(each for each in known.listeners if each is not listener))
        module = known.module()
        if not known.listeners and module is not None and heard.get(id(module)) is known:
            del heard[id(module)]
        _update()


def _forget(table: Receivers[_Heard], key: int, reference: Any) -> None:
    """A module is gone. Called by the garbage collector at any point, also when this file's names are gone: the code
    is exchanged another time."""
    known = table.get(key)
    if known is not None and known.module is reference:
        table.pop(key, None)


def find(finder: Finder) -> None:
    """Tell `finder` of the calls of all modules."""
    with lock:
        _finders.append(finder)
        _update()


def find_no_more(finder: Finder) -> None:
    with lock:
        if finder in _finders:
            _finders.remove(finder)
        _update()


# ---- replicas that torch's DataParallel makes of a module for one call

on_replica: list[Callable[[Any, Any], None]] = []  # what else is known of a module is known of its replica


class _Replication(NotHeard):
    __slots__ = ("_module",)

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.result = None
        self._module = values[0]

    def __exit__(self, *error: object) -> None:
        if self.result is not None:
            _replicated(self._module, self.result)


@trouble.entry_point()
def _replicated(module: Any, replica: Any) -> None:
    known = heard.get(id(module))
    if known is not None:
        copy = _known_of(replica)
        copy.set_listeners(known.listeners)
        copy.forward_is_heard = known.forward_is_heard
    for tell in on_replica:
        tell(module, replica)


_REPLICATED: Final = Branch(heard, (), _entrance(_Replication))

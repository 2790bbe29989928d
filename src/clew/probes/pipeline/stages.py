"""`clew.stage`: functions that are stages of a pipeline. Put on a function it changes nothing until a trace is open."""

from __future__ import annotations

import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Iterable
from types import FunctionType, MethodType
from typing import Any, TypeVar, cast

from clew.errors import OptionError, TargetError, nearest
from clew.instrument.call_guard import attempt, call_once, leave_no_frames
from clew.instrument.code_swap import Swap

from .generators import passing_async_generator, passing_coroutine, passing_generator
from .stage_functions import Params, Result, Spot, spot_of
from .trace_recording import current

F = TypeVar("F")
_lock = threading.RLock()
_registered: list[Registered] = []
_live = 0  # how many traces want the registered functions instrumented


class Passer:
    """Stands at a function while a trace is open: its calls pass a spot, if they are meant."""

    __slots__ = ("cls", "obj", "spot")

    def __init__(self, spot: Spot, obj: Any = None, cls: type | None = None) -> None:
        self.spot = spot
        self.obj = obj  # only calls on this object are meant
        self.cls = cls  # only calls on objects of this class, which has inherited the function

    @property
    def rank(self) -> int:
        """One object comes before its class, and that before the class it inherits from."""
        return 2 if self.obj is not None else int(self.cls is not None)

    def wants(self, args: tuple[Any, ...]) -> bool:
        if self.obj is not None:
            return len(args) > 0 and args[0] is self.obj
        return self.cls is None or (len(args) > 0 and self.cls in _ancestry(args[0]))

    def __call__(self, twin: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tracing = current()
        if tracing is None:
            return twin(*args, **kwargs)
        flags = twin.__code__.co_flags
        for flag, passing in _PASSING.items():
            if flags & flag:
                return passing(tracing, self.spot, twin, args, kwargs)
        return tracing.run(self.spot, twin, args, kwargs)


_PASSING: dict[int, Callable[..., Any]] = {
    inspect.CO_GENERATOR: passing_generator,
    inspect.CO_COROUTINE: passing_coroutine,
    inspect.CO_ASYNC_GENERATOR: passing_async_generator,
}


def _ancestry(receiver: Any) -> tuple[type, ...]:
    """Of an object, or of the class a class method is called on; no code of its class runs."""
    cls = receiver if issubclass(type(receiver), type) else type(receiver)
    found: tuple[type, ...] = type.__dict__["__mro__"].__get__(cls)
    return found


class Registered:
    """A function the user has named as a stage."""

    def __init__(
        self,
        function: FunctionType,
        spot: Spot,
        obj: Any = None,
        again: tuple[Any, ...] = (),
        cls: type | None = None,
    ) -> None:
        self._function = weakref.ref(function)
        self._passer: Passer | None = None
        self._obj = weakref.ref(obj) if obj is not None and _can_be_weak(obj) else (lambda: obj)
        self._of_object = obj is not None
        self._cls = cls
        self.spot = spot
        self.again = again  # how a spawned worker instruments the same: the arguments of `instrument`

    @property
    def function(self) -> FunctionType | None:
        return self._function()

    def put_in(self) -> None:
        function, obj = self._function(), self._obj()
        if function is not None and self._passer is None and (obj is not None or not self._of_object):
            self._passer = Passer(self.spot, obj, self._cls)
            Swap.add(function, self._passer)

    def take_out(self) -> None:
        function, passer = self._function(), self._passer
        self._passer = None
        if function is not None and passer is not None:
            Swap.remove(function, passer)


def _can_be_weak(obj: Any) -> bool:
    try:
        weakref.ref(obj)
    except TypeError:
        return False
    return True


def register(registered: Registered) -> None:
    with _lock:
        _registered[:] = [known for known in _registered if known.function is not None]
        _registered.append(registered)
        if _live:
            registered.put_in()


def put_in() -> None:
    """A trace begins."""
    global _live
    with _lock:
        _live += 1
        if _live == 1:
            for registered in _registered:
                attempt(registered.put_in)


def take_out() -> None:
    """A trace has ended."""
    global _live
    with _lock:
        _live -= 1
        if _live == 0:
            for registered in _registered:
                attempt(registered.take_out)


def unreached(reached: set[str]) -> bool:
    """Whether there are stages the user has named that no call has reached."""
    return any(known.spot.stage not in reached for known in [*_registered, *_around] if known.function is not None)


def is_stage(function: Any) -> bool:
    """Whether the user has made a stage of it: then a plug-in leaves it alone."""
    return spot_at(function) is not None


def spot_at(function: Any) -> Spot | None:
    """The stage the user has made of a function."""
    function = getattr(function, "__func__", function)
    return next((known.spot for known in [*_registered, *_around] if known.function is function), None)


def to_take_along() -> list[tuple[Any, ...]]:
    """What a spawned worker must instrument itself: decorators run there, calls of `instrument` do not."""
    return [known.again for known in _registered if known.again and known.function is not None]


class StageMaker:
    """`@clew.stage("clean")`, and `clew.stage.instrument(Dataset, "load", stage="load")` for code one cannot edit."""

    def __call__(self, stage: str, *, params: Params = None, result: Result = None) -> Callable[[F], F]:
        """Make a stage of a function: what goes in and comes out is captured while a trace is open.

        stage   its name in the trace; several functions may share one
        params  what is captured of the arguments, if not all: names, positions, {"captured as": name or position}
        result  the name of what it gives; names, if it gives a tuple
        """
        if not stage or not isinstance(stage, str):
            what = f"clew.stage() takes the name of the stage first, not {_described(stage)}."
            raise OptionError("bad-option", what, 'Write @clew.stage("clean").')

        def decorate(target: F) -> F:
            decorated: F = _staged(target, stage, params, result)
            return decorated

        return decorate

    def instrument(
        self,
        owner: Any,
        method: str,
        *,
        stage: str,
        params: Params = None,
        result: Result = None,
    ) -> None:
        """Make a stage of a method of a class, of one object, or of a function of a module."""
        instrument(owner, method, stage, params, result)

    def __repr__(self) -> str:
        return "clew.stage"


def _described(thing: object) -> str:
    if thing == "":
        return "an empty text"
    name = getattr(thing, "__qualname__", None)
    return f"the {type(thing).__name__} {name}" if isinstance(name, str) else f"a {type(thing).__name__}"


def _staged(target: Any, stage: str, params: Params, result: Result, owner: type | None = None) -> Any:
    if isinstance(target, FunctionType):
        register(Registered(target, spot_of(target, stage, params, result, owner=owner)))
        return target
    if isinstance(target, (staticmethod, classmethod)):
        inner = target.__func__
        if isinstance(inner, FunctionType):
            receiver = isinstance(target, classmethod)
            register(Registered(inner, spot_of(inner, stage, params, result, owner=owner, receiver=receiver)))
            return target
        return type(target)(_staged(inner, stage, params, result))
    if isinstance(target, MethodType) and isinstance(target.__func__, FunctionType):
        instrument(target.__self__, target.__func__.__name__, stage, params, result)
        return target
    if isinstance(target, type):
        return _staged_class(target, stage, params, result)
    if not callable(target):
        what = f"clew.stage({stage!r}) was put on {_described(target)}, which cannot be called."
        raise TargetError("not-a-stage", what, "Put it on a function or a method.")
    return _wrapped(target, stage, params, result)


def _staged_class(cls: type, stage: str, params: Params, result: Result) -> type:
    """A class whose objects are called is the stage that calling them is."""
    called = cls.__dict__.get("__call__")
    if not isinstance(called, FunctionType):
        what = f"clew.stage({stage!r}) was put on the class {cls.__name__}, whose objects cannot be called."
        raise TargetError("not-a-stage", what, "Put it on one of its methods.")
    register(Registered(called, spot_of(called, stage, params, result, owner=cls)))
    return cls


def _wrapped(target: Any, stage: str, params: Params, result: Result) -> Any:
    """Something built in, or an object that can be called: no code to exchange, so a function is put around it."""
    name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None) or type(target).__qualname__
    spot = spot_of(target, stage, params, result, name=name, receiver=False)

    def passing(once: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tracing = current()
        return once(*args, **kwargs) if tracing is None else tracing.run(spot, once, args, kwargs)

    @functools.wraps(target, updated=())
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return call_once(passing, target, args, kwargs)
        except BaseException:
            leave_no_frames()
            raise

    _around.append(Registered(cast(FunctionType, wrapper), spot))
    return wrapper


_around: list[Registered] = []  # they ask for the trace themselves


def instrument(owner: Any, method: str, stage: str, params: Params = None, result: Result = None) -> None:
    """Make a stage of a method one cannot decorate."""
    if not isinstance(method, str):
        raise OptionError("bad-option", f"the method is named by a text, not by {_described(method)}.", 'E.g. "load".')
    cls = owner if isinstance(owner, type) else type(owner)
    found = inspect.getattr_static(owner, method, None)
    where = cls.__qualname__ if not inspect.ismodule(owner) else owner.__name__
    if found is None:
        known = [name for name in dir(owner) if not name.startswith("__")]
        raise TargetError("no-such-method", f"{where} has no `{method}`;", nearest(method, known))
    inner = getattr(found, "__func__", found)
    inner = getattr(inner, "__wrapped__", inner) if not isinstance(inner, FunctionType) else inner
    if not isinstance(inner, FunctionType):
        what = f"{where}.{method} is {_described(inner)}, not a Python function: it cannot be instrumented."
        raise TargetError("not-a-stage", what, "Put clew.stage() on a function of your own that calls it.")
    again = (owner, method, stage, params, result)
    if inspect.ismodule(owner):
        register(Registered(inner, spot_of(inner, stage, params, result), again=again))
        return
    receiver = not isinstance(found, staticmethod)
    spot = spot_of(inner, stage, params, result, owner=cls, receiver=receiver)
    # A static function is not told on which object it was called.
    obj = None if isinstance(owner, type) or isinstance(found, (staticmethod, classmethod)) else owner
    inherited = receiver and isinstance(owner, type) and method not in vars(owner)
    register(Registered(inner, spot, obj, again, cls if inherited else None))


def instrument_all(again: Iterable[tuple[Any, ...]]) -> None:
    """In a spawned worker: what `instrument` was asked for where it was started."""
    for owner, method, stage, params, result in again:
        instrument(owner, method, stage, params, result)


stage = StageMaker()

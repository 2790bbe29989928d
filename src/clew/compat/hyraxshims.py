"""What `clew.compat.hyrax` puts in the place of functions, and of settings, while there is a trace."""

from __future__ import annotations

import functools
import importlib
import inspect
import operator
import os
import sys
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

from clew.compat.hyraxcalls import RESULT, TraceDef
from clew.errors import OptionError, TargetError
from clew.probes.pipeline.stage_functions import Spot, _is_method, fixed
from clew.recorder.fingerprints import original_code

if TYPE_CHECKING:
    from clew.compat.hyrax import TraceResult

_KINDS = {"field_level_collation": "collate", "collate": "collate", "evaluation": "model"}  # as clew calls them
ABSENT: Final = object()
_shims: weakref.WeakSet[Any] = weakref.WeakSet()


class Shim:
    """Stands in the place of a function: while there is a trace, its calls are kept."""

    def __init__(self, original: Any, trace_def: TraceDef, trace: Callable[[], TraceResult | None]) -> None:
        positions: dict[str, Any] = dict(trace_def.params_to_capture or {})
        for name, place in positions.items():
            if not isinstance(place, int):
                what = f"params_to_capture leads from names to positions, and {name!r} leads to {place!r}."
                raise OptionError("bad-option", what, f'E.g. {{"{name}": 1}}, where 0 is `self`.')
        self._trace = trace  # the one there is now
        self.original = original
        self.trace_def = trace_def
        function = inner(original)
        self._object = (original.__self__,) if isinstance(original, MethodType) else ()
        self.is_method = bool(self._object) or _is_method(function)
        try:
            self._signature: inspect.Signature | None = inspect.signature(function)
        except (TypeError, ValueError):
            self._signature = None  # built in
        self.spot = _spot(trace_def, function)

    def function(self) -> Any:
        original, now = self.original, self._trace

        @functools.wraps(original)
        def shim(*args: Any, **kwargs: Any) -> Any:
            trace = now()
            if trace is None or trace._process != os.getpid():  # what a worker sees nobody would hear of
                return original(*args, **kwargs)
            return trace._made(self, args, kwargs)

        return shim

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments by their positions, however they were given; and those that have none."""
        args = (*self._object, *args)
        if self._signature is None:
            return args, kwargs
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError:  # a call that cannot be made: the program's own error comes next
            return args, kwargs
        if self.trace_def.params_to_capture:
            bound.apply_defaults()
        return bound.args, bound.kwargs


def _spot(trace_def: TraceDef, function: Any) -> Spot:
    """The place in clew's own trace."""
    of_item = next(iter(trace_def.params_to_capture or ()), "") == "index"
    return Spot(
        trace_def.stage_name,
        trace_def.disp_name,
        module=getattr(function, "__module__", "") or "",
        code=original_code(function),
        names=fixed(),
        result=trace_def.result_name or RESULT,
        kind="dataset" if of_item else _KINDS.get(trace_def.stage_name, "stage"),
    )


def named_arguments(trace_def: TraceDef, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    wanted = trace_def.params_to_capture
    if not wanted:
        return {**{f"{number:03}_call": value for number, value in enumerate(args)}, **kwargs}
    return {name: args[place] for name, place in wanted.items() if -len(args) <= place < len(args)}


def put_up(function: Any) -> Any:
    """A shim that is put in the place of something, and known again as one."""
    _shims.add(function)
    return function


def unshimmed(member: Any) -> Any:
    """What a shim stands for, so that a call is not kept twice."""
    shim = inner(member)
    if shim not in _shims:
        return member
    original = shim.__wrapped__
    if isinstance(member, MethodType):
        return unshimmed(MethodType(original, member.__self__))
    return unshimmed(type(member)(original) if isinstance(member, (staticmethod, classmethod)) else original)


def inner(member: Any) -> Any:
    return member.__func__ if isinstance(member, (MethodType, staticmethod, classmethod)) else member


def found_in(cls: type, name: str) -> Any:
    found = inspect.getattr_static(cls, name, None)
    if found is None:
        what = f"{cls.__qualname__} has no `{name}`."
        raise TargetError("no-such-method", what, "Name a method of the class, or of one it inherits from.")
    return found


def known_models() -> list[type]:
    """The models hyrax knows; none where there is no hyrax."""
    if "hyrax" not in sys.modules:
        return []
    try:
        registry = importlib.import_module("hyrax.models.model_registry").MODEL_REGISTRY
    except (ImportError, AttributeError):
        return []
    return [cls for cls in dict(registry).values() if isinstance(cls, type)]


def item_count(trace: Any) -> int:
    try:
        count = operator.index(trace)  # True is 1
    except TypeError:
        count = 0
    if count < 1:
        raise OptionError("bad-option", f"trace= is a number of items, not {trace!r}.", "E.g. trace=3.")
    return count


def alter(config: Any, count: int, undo: ExitStack) -> list[str]:
    """One epoch of one batch, and nothing from a cache. What was changed is told, and undone."""
    altered = []
    for section, key, value in (
        ("train", "epochs", 1),
        ("data_loader", "batch_size", count),
        ("data_set", "use_cache", False),
    ):
        if config is None or section not in config:
            continue  # of no verb of hyrax's
        part = config[section]
        before = part.get(key, ABSENT)
        part[key] = value
        if before is ABSENT:
            undo.callback(part.pop, key, None)
        else:
            undo.callback(part.__setitem__, key, before)
        if before != value:
            altered.append(f"{section}.{key} = {value}" + ("" if before is ABSENT else f", not {before!r}"))
    return altered


def workers_in(config: Any) -> bool:
    loader = config["data_loader"] if config is not None and "data_loader" in config else {}
    return bool(loader.get("num_workers"))

"""Transforms of datasets, and the steps of a `Compose` one by one."""

from __future__ import annotations

import sys
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from clew.instrument.call_guard import call_once, leave_no_frames
from clew.probes.pipeline.stage_functions import Spot, fixed
from clew.probes.pipeline.stages import Passer
from clew.probes.pipeline.trace_recording import current
from clew.recorder.fingerprints import original_code
from clew.values.class_facts import is_exactly

if TYPE_CHECKING:
    from clew.probes.pipeline.plugins import Site

_DEEP = 5


def install(site: Site) -> None:
    """Transforms are found at the datasets they belong to; see `prepare`."""


def prepare(site: Site, dataset: Any) -> None:
    """What a dataset calls a transform passes the stage "transform"."""
    for name, value in list(getattr(dataset, "__dict__", {}).items()):
        if "transform" in name.lower() or "augment" in name.lower():
            _prepare(site, value, 0)


def _prepare(site: Site, transform: Any, depth: int) -> None:
    if depth > _DEEP or transform is None:
        return
    steps = _steps(transform)
    if steps is not None:
        for number, step in enumerate(steps):
            _prepare(site, step, depth + 1)
            if _is_closed(step) and type(steps) is list:
                _exchange(site, steps, number)
        return
    if isinstance(transform, (FunctionType, MethodType)):
        function = transform.__func__ if isinstance(transform, MethodType) else transform
        if isinstance(function, FunctionType):
            site.swap(function, Passer(_spot(function, function.__qualname__, isinstance(transform, MethodType))))
        return
    called = _called(transform)
    if called is not None:
        name = f"{type(transform).__qualname__.rpartition('<locals>.')[2]}.{called.__name__}"
        site.swap(called, Passer(_spot(called, name, True), transform if _is_module(transform) else None))


def _steps(transform: Any) -> list[Any] | tuple[Any, ...] | None:
    """The steps of a Compose, or of whatever calls a list of transforms its own."""
    steps = getattr(transform, "__dict__", {}).get("transforms")
    if is_exactly(steps, list, tuple) and steps and all(callable(step) for step in steps):
        found: list[Any] | tuple[Any, ...] = steps
        return found
    return None


def _called(transform: Any) -> FunctionType | None:
    """The Python function that runs when a transform is called."""
    name = "forward" if _is_module(transform) else "__call__"
    for cls in type(transform).__mro__:
        function = vars(cls).get(name)
        if function is not None:
            return function if isinstance(function, FunctionType) else None
    return None


def _is_module(transform: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(transform, torch.nn.Module)


def _is_closed(step: Any) -> bool:
    """Whether there is no Python function whose code could be exchanged: torch.from_numpy, a partial."""
    return not isinstance(step, (FunctionType, MethodType)) and _called(step) is None and _steps(step) is None


def _exchange(site: Site, steps: list[Any], number: int) -> None:
    """In the list of steps, something stands in for it meanwhile."""
    own = steps[number]
    if isinstance(own, _Step):
        return
    steps[number] = stand_in = _Step(own)

    def undo() -> None:
        for place, step in enumerate(steps):
            if step is stand_in:
                steps[place] = own

    site.on_leaving(undo)


class _Step:
    """A step that is no Python function."""

    def __init__(self, own: Any) -> None:
        self._own = own
        inner = getattr(own, "func", own)  # of a functools.partial
        name = getattr(inner, "__name__", None) or type(own).__name__
        self._spot = Spot("transform", name, names=fixed("input"), result="output", kind="transform", ours=True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return call_once(self._pass, self._own, args, kwargs)
        except BaseException:
            leave_no_frames()
            raise

    def _pass(self, own: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tracing = current()
        return own(*args, **kwargs) if tracing is None else tracing.run(self._spot, own, args, kwargs)

    def __reduce__(self) -> Any:
        return _as_it_was, (self._own,)  # to a spawned worker, which puts its own in

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_own":
            raise AttributeError(name)
        return getattr(self._own, name)

    def __repr__(self) -> str:
        return repr(self._own)


def _as_it_was(own: Any) -> Any:
    return own


def _spot(function: FunctionType, name: str, receiver: bool) -> Spot:
    code = original_code(function)
    return Spot(
        "transform",
        name.rpartition("<locals>.")[2],
        module=function.__module__ or "",
        code=code,
        names=fixed("input", receiver=receiver),
        result="output",
        kind="transform",
        ours=True,
    )

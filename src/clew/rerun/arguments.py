"""The arguments of a recorded call, as the function takes them today."""

from __future__ import annotations

import copy
import inspect
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType, MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from clew.errors import RerunError, nearest
from clew.records import Kept, NotKept, Object

if TYPE_CHECKING:
    from clew.history.call import Call

_Arguments = tuple[list[Any], dict[str, Any]]
_MORE = 'Record it in full (`keep="full"`), or give it:'
_Step = tuple[str, Any]  # how one writes the way to a part of a value, and the part


def arguments_for(call: Call, function: FunctionType, replace: dict[str, Any]) -> _Arguments:
    """The recorded arguments, as the function takes them today."""
    parameters = inspect.signature(function, follow_wrapped=False).parameters
    recorded = call.args
    _check_names(call, parameters, recorded, replace)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    memo: dict[int, Any] = {}
    for name, parameter in parameters.items():
        value = replace[name] if name in replace else _recorded(call, recorded, parameter, memo)
        if parameter.kind is parameter.VAR_POSITIONAL:
            args.extend(value)
        elif parameter.kind is parameter.VAR_KEYWORD:
            kwargs.update(value)
        elif parameter.kind is parameter.KEYWORD_ONLY:
            kwargs[name] = value
        else:
            args.append(value)
    kwargs.update((name, value) for name, value in replace.items() if name not in parameters)
    return args, kwargs


def _check_names(
    call: Call, parameters: Mapping[str, inspect.Parameter], recorded: dict[str, Any], replace: dict[str, Any]
) -> None:
    lost = [name for name in recorded if name not in parameters]
    if lost:
        raise RerunError(
            "rerun-parameters",
            f"{call.function}() was recorded with {_listed(lost)}, which it does not take any more; "
            f"it takes {_listed(parameters) or 'nothing'}.",
            "Go back to the code of the run (`run.meta['git']`), or call it yourself with `call.args`.",
        )
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    unknown = next((name for name in replace if name not in parameters), None)
    if unknown is not None and not takes_any:
        raise RerunError(
            "rerun-unknown-argument",
            f"{call.function}() has no parameter `{unknown}`;",
            nearest(unknown, parameters) if parameters else "it takes nothing.",
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _recorded(call: Call, recorded: dict[str, Any], parameter: inspect.Parameter, memo: dict[int, Any]) -> Any:
    """A copy of what was recorded; for a parameter that has come since, its default."""
    if parameter.name in recorded:
        value = recorded[parameter.name]
        _check_kept(call, parameter.name, value)
        return _own_copy(value, memo)
    if recorded and parameter.default is not parameter.empty:
        return parameter.default
    raise RerunError(
        "rerun-no-argument",
        f"{call.function}() needs `{parameter.name}`, and the run has no value for it.",
        f"Give one: call.rerun({parameter.name}=...).",
    )


def _own_copy(value: Any, memo: dict[int, Any]) -> Any:
    """What is read back can lie on the run's mapped bytes; what the function writes must not be seen by the next."""
    try:
        return copy.deepcopy(value, memo)
    except TypeError:  # a memoryview, a mappingproxy: made for this reading, and not to be written to
        return value


def _check_kept(call: Call, name: str, value: Any) -> None:
    found = _not_as_it_was(name, value, set())
    if found is None:
        return
    place, what = found
    where = f"argument `{name}` of {call.function}()" + (f", in `{place}`," if place != name else "")
    example = what.type.rpartition(".")[2].lower() if place == name else "..."
    if isinstance(what, Object):
        raise RerunError(
            "rerun-object",
            f"{where} was an instance of {what.type}: its attributes were recorded, but the instance cannot be remade.",
            f"Give one: call.rerun({name}={example}).",
        )
    opaque = what.kept is Kept.OPAQUE  # recording more of it would not help
    raise RerunError(
        "rerun-not-kept",
        f"{where} was not kept in full: {repr(what).removeprefix('<not kept in full: ').removesuffix('>')}.",
        f"Give it: call.rerun({name}={example})." if opaque else f"{_MORE} call.rerun({name}=...).",
    )


def _not_as_it_was(place: str, value: Any, seen: set[int]) -> tuple[str, NotKept | Object] | None:
    """The first thing in a value that did not come back as what it was, and how one gets there."""
    if isinstance(value, NotKept):
        if isinstance(value.part, Object):
            return place, value.part
        inside = None if _is_cut(value) else _not_as_it_was(place, value.part, seen)
        return inside or (place, value)
    if isinstance(value, Object):
        return place, value
    if id(value) in seen:
        return None
    seen.add(id(value))
    for step, part in _parts(value):
        found = _not_as_it_was(f"{place}{step}", part, seen)
        if found is not None:
            return found
    return None


def _is_cut(value: NotKept) -> bool:
    """Whether items are missing: those that are there have other numbers then."""
    return isinstance(value.part, list | dict) and len(value.part) != value.summary.length


def _parts(value: Any) -> Iterator[_Step]:
    if isinstance(value, dict | MappingProxyType):
        for key, inside in value.items():
            yield "", key
            yield f"[{key!r}]", inside
    elif isinstance(value, list | tuple | deque):
        yield from ((f"[{index}]", inside) for index, inside in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield from (("", inside) for inside in value)
    elif isinstance(value, SimpleNamespace):
        yield from ((f".{name}", inside) for name, inside in vars(value).items())
    elif getattr(getattr(value, "dtype", None), "hasobject", False) and hasattr(value, "flat"):
        yield from ((f".flat[{index}]", inside) for index, inside in enumerate(value.flat))

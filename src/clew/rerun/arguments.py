"""Finds the arguments of a recorded call, in the form in which the function takes them today."""

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
    from clew.reading.call import Call

_Arguments = tuple[list[Any], dict[str, Any]]
_Part = tuple[str, Any]  # the text that leads to a part of a value, and the part


def arguments_for(call: Call, function: FunctionType, replace: dict[str, Any]) -> _Arguments:
    """The recorded arguments, positional and by name, as the function takes them today."""
    parameters = inspect.signature(function, follow_wrapped=False).parameters
    recorded = call.args
    _check_names(call, parameters, recorded, replace)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    memo: dict[int, Any] = {}
    for name, parameter in parameters.items():
        value = replace[name] if name in replace else _recorded_argument(call, recorded, parameter, memo)
        _check_variadic(call, parameter, value, parameters)
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


def _check_variadic(
    call: Call, parameter: inspect.Parameter, value: Any, parameters: Mapping[str, inspect.Parameter]
) -> None:
    """Refuse for `*rest` and `**options` what no call can have given them: a forged run may hold anything."""
    if parameter.kind is parameter.VAR_POSITIONAL:
        expected, fits = f"`*{parameter.name}` takes a tuple", isinstance(value, tuple | list)
    elif parameter.kind is parameter.VAR_KEYWORD:
        taken = {name for name, other in parameters.items() if other.kind is not other.POSITIONAL_ONLY}
        expected = f"`**{parameter.name}` takes a dictionary whose keys are other names"
        fits = isinstance(value, dict) and all(type(key) is str and key not in taken for key in value)
    else:
        return
    if not fits:
        raise RerunError(
            "rerun-parameters",
            f"In {call.function}() {expected}, and the run holds another value for it.",
            f"Give one: call.rerun({parameter.name}=...).",
        )


def _check_names(
    call: Call, parameters: Mapping[str, inspect.Parameter], recorded: dict[str, Any], replace: dict[str, Any]
) -> None:
    removed = [name for name in recorded if name not in parameters]
    if removed:
        raise RerunError(
            "rerun-parameters",
            f"{call.function}() was recorded with {_list_names(removed)}, which it does not take any more; "
            f"it takes {_list_names(parameters) or 'nothing'}.",
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


def _list_names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _recorded_argument(call: Call, recorded: dict[str, Any], parameter: inspect.Parameter, memo: dict[int, Any]) -> Any:
    """A copy of the recorded argument; for a parameter that was added since, its default."""
    if parameter.name in recorded:
        value = recorded[parameter.name]
        _require_kept(call, parameter.name, value)
        return _copy_value(value, memo)
    if recorded and parameter.default is not parameter.empty:
        return parameter.default
    raise RerunError(
        "rerun-no-argument",
        f"{call.function}() needs `{parameter.name}`, and the run has no value for it.",
        f"Give one: call.rerun({parameter.name}=...).",
    )


def _copy_value(value: Any, memo: dict[int, Any]) -> Any:
    """The value may share the run's mapped bytes, and the next rerun must not see what the function writes to it."""
    try:
        return copy.deepcopy(value, memo)
    except TypeError:  # a memoryview or a mappingproxy: made by this reading, and read-only
        return value


def _require_kept(call: Call, name: str, value: Any) -> None:
    """Refuse an argument of which some part cannot be restored."""
    obstacle = _first_unrestorable(name, value, set())
    if obstacle is None:
        return
    path, part = obstacle
    subject = f"argument `{name}` of {call.function}()" + (f", in `{path}`," if path != name else "")
    example = part.type.rpartition(".")[2].lower() if path == name else "..."
    if isinstance(part, Object):
        raise RerunError(
            "rerun-object",
            f"{subject} was an instance of {part.type}: its attributes were recorded, "
            "but the instance cannot be recreated.",
            f"Give one: call.rerun({name}={example}).",
        )
    is_opaque = part.kept is Kept.OPAQUE  # recording more of it would not help
    remedy = (
        f"Give it: call.rerun({name}={example})."
        if is_opaque
        else f'Record it in full (`keep="full"`), or give it: call.rerun({name}=...).'
    )
    raise RerunError(
        "rerun-not-kept",
        f"{subject} was not kept in full: {repr(part).removeprefix('<not kept in full: ').removesuffix('>')}.",
        remedy,
    )


def _first_unrestorable(path: str, value: Any, visited: set[int]) -> tuple[str, NotKept | Object] | None:
    """The first part of a value that was not restored as what it was, with its path."""
    if isinstance(value, NotKept):
        if isinstance(value.part, Object):
            return path, value.part
        obstacle = None if _lacks_items(value) else _first_unrestorable(path, value.part, visited)
        return obstacle or (path, value)
    if isinstance(value, Object):
        return path, value
    if id(value) in visited:
        return None
    visited.add(id(value))
    for step, part in _iterate_parts(value):
        obstacle = _first_unrestorable(f"{path}{step}", part, visited)
        if obstacle is not None:
            return obstacle
    return None


def _lacks_items(value: NotKept) -> bool:
    """Whether items are missing: the remaining ones then have other indices."""
    return isinstance(value.part, list | dict) and len(value.part) != value.summary.length


def _iterate_parts(value: Any) -> Iterator[_Part]:
    if isinstance(value, dict | MappingProxyType):
        for key, item in value.items():
            yield "", key
            yield f"[{key!r}]", item
    elif isinstance(value, list | tuple | deque):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield from (("", item) for item in value)
    elif isinstance(value, SimpleNamespace):
        yield from ((f".{name}", item) for name, item in vars(value).items())
    elif getattr(getattr(value, "dtype", None), "hasobject", False) and hasattr(value, "flat"):
        yield from ((f".flat[{index}]", item) for index, item in enumerate(value.flat))

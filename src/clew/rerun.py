"""`call.rerun()`: the function of a recorded call, called again with the arguments it had.

Reading a run never runs the user's code; this does, because that is what it is for. Whatever stands in the way (a
function that has no name, an argument that was not kept) is said before anything runs.
"""

from __future__ import annotations

import bdb
import copy
import functools
import importlib
import importlib.util
import inspect
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import FunctionType, MappingProxyType, MethodType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from clew.errors import RerunError, nearest
from clew.recorder import alive
from clew.records import Kept, NotKept, Object

if TYPE_CHECKING:
    from clew.history.call import Call

_Arguments = tuple[list[Any], dict[str, Any]]
_MORE = 'Record it in full (`keep="full"`), or give it:'
_Step = tuple[str, Any]  # how one writes the way to a part of a value, and the part


def rerun(call: Call, *, debug: bool = False, replace: Mapping[str, Any] | None = None) -> Any:
    """Call the function of a recorded call again; gives what it returns.

    debug    stop in the debugger at its first line
    replace  arguments by name, in place of the recorded ones
    """
    function, given = _find(call)
    owner = alive.owner_of(call.pid, call.id)
    if owner is not None:
        given = {"self": owner, **given}
    args, kwargs = _arguments(call, function, {**given, **(replace or {})})
    return _debugged(function, args, kwargs) if debug else function(*args, **kwargs)


# ---- the function ----------------------------------------------------------------------------------------------------


def _find(call: Call) -> tuple[FunctionType, dict[str, Any]]:
    """The function, and the arguments that come with where it was found (the class of a classmethod)."""
    unnamed = next((part for part in call.function.split(".") if part.startswith("<")), None)
    if unnamed is not None:
        raise RerunError(
            "rerun-no-name",
            f"{call.function} at {call.file}:{call.line} {_why_unnamed(unnamed)}, so it cannot be found by its name.",
            "Rerun the recorded function that called it, or call it yourself with `call.args`.",
        )
    module = _module(call)
    owner: Any = module
    found: Any = module
    for name in call.function.split("."):
        owner = found
        try:
            found = inspect.getattr_static(owner, _attribute(owner, name))
        except AttributeError:
            raise _gone(call, f"{_place(module)} has no {call.function} any more") from None
    function = _function_of(found, call.line)
    if not isinstance(function, FunctionType):
        raise _gone(call, f"{call.function} in {_place(module)} is a {type(found).__name__} now, not a function")
    return function, _class_argument(call, found, owner, function)


def _why_unnamed(part: str) -> str:
    if part == "<locals>":
        return "was defined inside another function"
    return "is a lambda" if part == "<lambda>" else "is no function"


def _attribute(owner: Any, name: str) -> str:
    """Private names of a class are kept under another name."""
    private = isinstance(owner, type) and name.startswith("__") and not name.endswith("__")
    return f"_{owner.__name__.lstrip('_')}{name}" if private else name


def _place(module: ModuleType) -> str:
    return f"{getattr(module, '__file__', None) or module.__name__}"


def _gone(call: Call, what: str) -> RerunError:
    return RerunError(
        "rerun-no-function",
        f"{what}.",
        f"It was defined at {call.file}:{call.line} when it was recorded; bring that code back, or rerun a newer run.",
    )


def _function_of(found: Any, line: int) -> Any:
    """What ran: the function itself, without the wrappers that decorators have put around it."""
    if isinstance(found, property):
        parts = [inspect.unwrap(part) for part in (found.fget, found.fset, found.fdel) if part is not None]
        return next((part for part in parts if _first_line(part) == line), parts[0] if parts else None)
    if isinstance(found, functools.cached_property):
        return found.func
    if isinstance(found, staticmethod | classmethod | MethodType):
        found = found.__func__
    return inspect.unwrap(found) if callable(found) else found


def _first_line(function: Any) -> int | None:
    code = getattr(function, "__code__", None)
    return None if code is None else code.co_firstlineno


def _class_argument(call: Call, found: Any, owner: Any, function: FunctionType) -> dict[str, Any]:
    """For a classmethod its class: the one it was found in, or the one below it that was recorded."""
    if not isinstance(found, classmethod) or not isinstance(owner, type):
        return {}
    name = next(iter(inspect.signature(function).parameters), "cls")
    recorded = call.args.get(name)
    told = recorded.part if isinstance(recorded, NotKept) else None
    if not isinstance(told, str):
        return {name: owner}
    for cls in _with_subclasses(owner):
        if told in (f"{cls.__module__}.{cls.__qualname__}", f"{call.module}.{cls.__qualname__}", cls.__qualname__):
            return {name: cls}
    return {}


def _with_subclasses(cls: type) -> Iterator[type]:
    yield cls
    subclasses: list[type] = type.__subclasses__(cls)
    for below in subclasses:
        yield from _with_subclasses(below)


# ---- its module ------------------------------------------------------------------------------------------------------


def _module(call: Call) -> ModuleType:
    if call.module.startswith("clew.graph."):
        what = f"{call.function} is a step of a graph, which a run does not hold."
        remedy = "Run the graph again (clew.load, graph.run), or call the operator itself with `call.args`."
        raise RerunError("rerun-graph", what, remedy)
    try:
        return _main(call) if call.module == "__main__" else _imported(call.module, call.file)
    except RerunError:
        raise
    except (Exception, SystemExit) as error:  # whatever a module does when it is loaded
        what = f"{call.module} ({call.file})" if call.module != "__main__" else call.file
        raise RerunError(
            "rerun-no-module",
            f"{what}, which defines {call.function}, does not load here: {type(error).__name__}: {error}.",
            "Rerun it where the program ran: the same environment, and the program's folder on `sys.path`.",
        ) from error


def _imported(name: str, file: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        root = _root(name, file)
        if error.name is None or not f"{name}.".startswith(f"{error.name}.") or root is None or root in sys.path:
            raise
    # It was found beside the script then. At the end of the path it hides nothing that is found today.
    sys.path.append(root)
    importlib.invalidate_caches()
    return importlib.import_module(name)


def _root(name: str, file: str) -> str | None:
    """The folder from which importing `name` gives `file`."""
    path = Path(file)
    parts = path.parent.parts if path.stem == "__init__" else path.with_suffix("").parts
    names = tuple(name.split("."))
    if not path.is_file() or parts[-len(names) :] != names:
        return None
    return str(Path(*parts[: -len(names)]))


def _main(call: Call) -> ModuleType:
    """The program's own module: the one that runs now, if it is the same, else its file, loaded under another name."""
    present = sys.modules["__main__"]
    if _same_file(getattr(present, "__file__", None), call.file):
        return present
    path = Path(call.file)
    if path.is_file():
        package = _package_name(path)
        return importlib.import_module(package) if package is not None else _loaded(path)
    if hasattr(present, call.function.split(".")[0]):
        return present  # a notebook's cells, or what was typed, have no file
    raise RerunError(
        "rerun-no-module",
        f"{call.function} was recorded from {call.file}, which is not there any more.",
        "Bring the file back; for a notebook, define the function again in this session.",
    )


def _same_file(one: str | None, other: str) -> bool:
    return one is not None and os.path.realpath(one) == os.path.realpath(other)


def _package_name(path: Path) -> str | None:
    """`package.module` for a file that ran as `python -m package.module`, if importing that gives this file."""
    names, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    if len(names) == 1:
        return None
    try:
        spec = importlib.util.find_spec(".".join(names))
    except ImportError:
        return None
    return ".".join(names) if spec is not None and _same_file(spec.origin, str(path)) else None


_as_loaded: dict[str, tuple[int, int]] = {}  # private name -> how old and how long its file was


def _loaded(path: Path) -> ModuleType:
    """The script as a module of a private name: its `if __name__ == "__main__"` part does not run."""
    path = path.resolve()
    name = f"_clew_rerun_{path.stem}_{abs(hash(str(path))):x}"
    status = path.stat()
    state = status.st_mtime_ns, status.st_size
    if name in sys.modules and _as_loaded.get(name) == state:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # a script finds its neighbours, also those it imports later
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _as_loaded[name] = state
    return module


# ---- its arguments ---------------------------------------------------------------------------------------------------


def _arguments(call: Call, function: FunctionType, replace: dict[str, Any]) -> _Arguments:
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


# ---- the debugger ----------------------------------------------------------------------------------------------------


class _Pdb:
    """Begins to trace, so that the next function stops at its first line: `pdb.runcall`, in two halves.

    In halves, because a coroutine or a generator runs later than it is called.
    """

    def __init__(self, kind: type[bdb.Bdb]) -> None:
        # clew's own functions begin before the first line of a function that is watched
        self._pdb = kind(skip=["clew", "clew.*"])
        self._before: Any = None

    def __call__(self) -> None:
        self._before = sys.gettrace()
        self._pdb.reset()
        sys.settrace(self._pdb.trace_dispatch)

    def end(self) -> None:
        self._pdb.quitting = True
        sys.settrace(self._before)


def _debugger() -> Any:
    """What `breakpoint()` would open, and None where the user has switched it off.

    Of pdb and its kin the debugger itself is taken, which can stop at the function's first line. Of others only the
    hook is known: it opens right before the call, and one step goes into the function.
    """
    hook: Any = sys.breakpointhook
    home: Any = sys.modules.get(getattr(hook, "__module__", None) or "")
    if hook is sys.__breakpointhook__:
        wanted = os.environ.get("PYTHONBREAKPOINT") or "pdb.set_trace"
        if wanted == "0":
            return None
        name, _, attribute = wanted.rpartition(".")
        home = importlib.import_module(name or "builtins")
        hook = getattr(home, attribute)
    kind = getattr(home, "Pdb", None)
    return _Pdb(kind) if isinstance(kind, type) and issubclass(kind, bdb.Bdb) else hook


def _debugged(function: FunctionType, args: list[Any], kwargs: dict[str, Any]) -> Any:
    start = _debugger()
    if start is None:
        return function(*args, **kwargs)
    end = start.end if isinstance(start, _Pdb) else _nothing
    if inspect.iscoroutinefunction(function):
        return _debugged_coroutine(start, end, function(*args, **kwargs))
    if inspect.isgeneratorfunction(function):
        return _debugged_generator(start, end, function(*args, **kwargs))
    if inspect.isasyncgenfunction(function):
        return _debugged_async_generator(start, end, function(*args, **kwargs))
    try:
        start()
        return function(*args, **kwargs)  # a debugger that stands here: step into the function
    except bdb.BdbQuit:
        return None
    finally:
        end()


def _nothing() -> None:
    pass


async def _debugged_coroutine(start: Callable[[], object], end: Callable[[], None], coroutine: Any) -> Any:
    try:
        start()
        return await coroutine  # a debugger that stands here: step into the function
    except bdb.BdbQuit:
        return None
    finally:
        end()


def _debugged_generator(start: Callable[[], object], end: Callable[[], None], generator: Any) -> Any:
    try:
        start()
        return (yield from generator)  # a debugger that stands here: step into the function
    except bdb.BdbQuit:
        return None
    finally:
        end()


async def _debugged_async_generator(start: Callable[[], object], end: Callable[[], None], generator: Any) -> Any:
    try:
        start()
        async for item in generator:  # a debugger that stands here: step into the function
            yield item
    except bdb.BdbQuit:
        return
    finally:
        end()

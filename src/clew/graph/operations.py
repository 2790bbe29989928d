"""What steps do when they are run: Python's operations by name, and functions of libraries by their qualified names."""

from __future__ import annotations

import builtins
import operator
import sys
from collections.abc import Callable
from contextvars import ContextVar
from importlib import import_module
from types import BuiltinFunctionType, BuiltinMethodType, CellType, FunctionType, MethodType, ModuleType
from typing import Any

from clew.recorder.how_calls_end import traceback_of

from . import tensorflow


class Given:
    """What a step gave that may raise: it did not."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


#: kind "python": what each name means
PYTHON: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")},
    **{name: getattr(operator, name) for name in ("lshift", "rshift", "xor", "eq", "ne", "lt", "le", "gt", "ge")},
    **{name: getattr(operator, name) for name in ("neg", "pos", "abs", "invert", "contains", "setitem", "delitem")},
    **{f"i{name}": getattr(operator, f"i{name}") for name in ("add", "sub", "mul", "truediv", "floordiv", "mod")},
    **{f"i{name}": getattr(operator, f"i{name}") for name in ("pow", "matmul", "lshift", "rshift", "xor")},
    "and": operator.and_,
    "or": operator.or_,
    "iand": operator.iand,
    "ior": operator.ior,
    "not": operator.not_,
    "is": operator.is_,
    "is not": operator.is_not,
    "in": lambda item, container: item in container,
    "not within": lambda item, container: item not in container,
    "not in": lambda container, item: item not in container,
    "setattr": setattr,
    "delattr": delattr,
    "getattr": getattr,
    "getitem": operator.getitem,
    "made": lambda value: value,  # a container, from now on a value of its own
    "drawn": lambda iterator: next(((True, item) for item in iterator), (False, None)),
    "raised": lambda ended: "nothing raised" if type(ended) is Given else type(ended).__name__,
    "raised as": lambda ended: "nothing raised" if type(ended) is Given else f"{type(ended).__name__}{ended.args!r}",
    "given": lambda ended: ended.value,
    "call": lambda function, *args, **kwargs: function(*args, **kwargs),
    "list": list,
    "spread": lambda mapping: {**mapping},
    "text": lambda value, conversion, spec: format(CONVERSIONS[conversion](value), spec),
    "join": lambda *parts: "".join(parts),
}


def closed(function: FunctionType, values: dict[str, Any]) -> FunctionType:
    """A function of the pipeline's own, with the names that it sees as they are in this run."""
    cells = tuple(CellType(values[name]) for name in function.__code__.co_freevars)
    made = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, cells)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


PYTHON["closed"] = closed
CONVERSIONS: dict[str, Callable[[Any], Any]] = {"": lambda value: value, "r": repr, "s": str, "a": ascii}

#: functions of `builtins` that only compute, and are steps; of these the iterators are taken as lists
PURE = frozenset(
    {
        "abs", "all", "any", "ascii", "bin", "bool", "bytearray", "bytes", "callable", "chr", "complex", "dict",
        "divmod", "float", "format", "frozenset", "hash", "hasattr", "hex", "int", "isinstance", "issubclass", "len",
        "list", "max", "min", "oct", "ord", "pow", "range", "repr", "round", "set", "slice", "sorted", "str", "sum",
        "tuple", "type",
    }
)  # fmt: skip
LISTED = frozenset({"enumerate", "filter", "map", "reversed", "zip"})
LAZY = frozenset({"enumerate", "filter", "iter", "map", "next", "reversed", "zip"})  # done item by item

#: modules of the standard library that only compute
CALCULATING = frozenset(
    {
        "base64", "binascii", "bisect", "calendar", "cmath", "collections", "colorsys", "copy", "csv", "dataclasses",
        "datetime", "decimal", "difflib", "fractions", "functools", "hashlib", "heapq", "html", "itertools", "json",
        "math", "numbers", "operator", "re", "shlex", "statistics", "string", "struct", "textwrap", "types",
        "unicodedata", "urllib.parse", "zlib",
    }
)  # fmt: skip
_CHANCE = ("rand", "bernoulli", "multinomial", "normal", "poisson", "dropout", "seed", "manual_seed", "shuffle")
PATHS = ("join", "basename", "dirname", "split", "splitext", "normpath", "isabs")  # of os.path: these only compute
ARRAYS = ("numpy", "torch", "scipy", "pandas", "tensorflow", "keras")  # libraries whose functions are steps by default


_BOUND = (BuiltinMethodType, MethodType)  # methods of classes

_inside: ContextVar[list[Any] | None] = ContextVar("clew_graph_contexts", default=None)


def entered(manager: Any) -> Any:
    """`with torch.no_grad():` begins."""
    held = _inside.get()
    if held is not None:
        held.append(manager)
    return type(manager).__enter__(manager)


def left(manager: Any, error: BaseException | None = None) -> Any:
    held = _inside.get()
    if held is not None and any(one is manager for one in held):
        held[:] = [one for one in held if one is not manager]
    raised = (None, None, None) if error is None else (type(error), error, traceback_of(error))
    return type(manager).__exit__(manager, *raised)


PYTHON.update(enter=entered, leave=left)


def unwinding(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that leaves what it has entered also when it fails."""

    def unwound(*args: Any) -> Any:
        held: list[Any] = []
        token = _inside.set(held)
        try:
            return function(*args)
        finally:
            _inside.reset(token)
            for manager in reversed(held):
                type(manager).__exit__(manager, None, None, None)

    return unwound


def function_named(name: str) -> Callable[..., Any]:
    """The function of a library, by its qualified name."""
    module, _, rest = name.partition(":")
    if not rest:
        module, _, rest = name.rpartition(".")
    found: Any = builtins if module == "builtins" else import_module(module)
    for part in rest.split("."):
        found = getattr(found, part)
    if module == "builtins" and rest in LISTED:
        return lambda *args: list(found(*args))
    return found  # type: ignore[no-any-return]


def by_chance(name: str) -> bool:
    """Whether a function draws random numbers, or sets where they begin: its order among its like matters."""
    module, _, function = name.partition(":")
    return ".random" in module or function.rpartition(".")[2].startswith(_CHANCE)


_CLOCK = {
    "time": "time perf_counter monotonic process_time thread_time localtime gmtime ctime asctime strftime",
    "datetime": "datetime.now datetime.utcnow datetime.today date.today",
    "uuid": "uuid1 uuid4",
    "secrets": "choice randbelow randbits token_bytes token_hex token_urlsafe",
    "os": "urandom",
    "pandas": "Timestamp.now Timestamp.utcnow Timestamp.today",
}


def by_clock(name: str) -> bool:
    """Whether a function that is given nothing recorded goes by the clock, or by chance that nobody can set."""
    module, _, function = name.partition(":")
    return function.removesuffix("_ns") in _CLOCK.get(module.partition(".")[0], "").split()


def name_of(function: Any) -> str | None:
    """The qualified name under which a function of a library is found again; None if it is not."""
    module, qualname = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if type(function).__name__ == "ufunc":
        module, qualname = "numpy", function.__name__
    if isinstance(module, str) and module.startswith(tensorflow.ROOTS):
        public = tensorflow.public_name(function)
        if public is not None:
            return public
    if module is None and hasattr(function, "__self__") and isinstance(function.__self__, type):
        module, qualname = function.__self__.__module__, f"{function.__self__.__qualname__}.{function.__name__}"
    for place in (module, _public(module)):
        if place is None or qualname is None or "<" in qualname:
            continue
        try:
            found = _found(f"{place}:{qualname}")
            if found is function or (type(found) in _BOUND and found == function):  # those are made when asked for
                return f"{place}:{qualname}"
        except Exception:
            continue
    return _bound(function) or _searched(function) or _renamed(function, module) or _static(function)


def _bound(function: Any) -> str | None:
    """A method of an object that its module keeps, under the module's name for it: `random.random`."""
    owner = getattr(function, "__self__", None)
    if type(function) not in _BOUND or owner is None or isinstance(owner, (type, ModuleType)):
        return None
    module = sys.modules.get(type(owner).__module__)
    if module is None:
        return None
    found = vars(module).get(function.__name__)
    if type(found) in _BOUND and found == function:
        return f"{module.__name__}:{function.__name__}"
    if module.__name__.partition(".")[0] not in sys.stdlib_module_names:
        return None
    names = (name for name, one in vars(module).items() if one is owner and not name.startswith("_"))
    name = next(names, None)  # os.environ.get
    return None if name is None else f"{module.__name__}:{name}.{function.__name__}"


def _renamed(function: Any, module: Any) -> str | None:
    """A function that its module keeps under another name than its own: `hashlib.new`."""
    held = vars(sys.modules[module]) if isinstance(module, str) and module in sys.modules else {}
    named = (name for name, one in held.items() if one is function and not name.startswith("_"))
    found = next(named, None) if isinstance(function, FunctionType) else None
    return None if found is None else f"{module}:{found}"


def _static(function: Any) -> str | None:
    """A static method of a class in C, which does not know its module: `tokenizers.Tokenizer.from_file`."""
    if not isinstance(function, BuiltinFunctionType) or function.__self__ is not None:
        return None
    cls, _, name = function.__qualname__.rpartition(".")
    for module in list(sys.modules.values()) if cls.isidentifier() else ():
        owner = getattr(module, "__dict__", {}).get(cls)
        if isinstance(owner, type) and getattr(owner, name, None) is function:
            return f"{owner.__module__}:{owner.__qualname__}.{name}"
    return None


def _found(name: str) -> Any:
    module, _, rest = name.partition(":")
    found: Any = import_module(module)
    for part in rest.split("."):
        found = getattr(found, part)
    return found


def _public(module: str | None) -> str | None:
    return None if module is None else module.partition(".")[0]


def _searched(function: Any) -> str | None:
    """torch's functions are built in and do not say where they are. A library that is not loaded has not given it."""
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        return None
    for place in ("torch", "torch.nn.functional", "numpy", "numpy.random", "math", "builtins"):
        if getattr(sys.modules.get(place), name, None) is function:
            return f"{place}:{name}"
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    return f"torch:Tensor.{name}" if getattr(tensor, name, None) is function else None

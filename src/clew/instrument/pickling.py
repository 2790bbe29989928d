"""Instrumented functions leave this process as their authors wrote them.

`pickle` sends a function by its name, and nothing needs to be done. cloudpickle and dill send functions of `__main__`,
lambdas and closures by value, and would send the instrumented code. Once one of them is loaded, its pickler gets the
code as it was written in the place of instrumented code. The bytes are those that are made without clew: they load
where clew is not installed, and hashes of them (the caches of `datasets`, the keys of Dask) do not change.
"""

from __future__ import annotations

import functools
import pickle
import weakref
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any, Final

from clew import env, trouble

_PACKAGES: Final = ("", "joblib.externals.", "ray.", "pyspark.", "srsly.")  # some bring a copy of cloudpickle along
_MARK: Final = "_torchdynamo_disable"  # what clew puts into the `__dict__` of a function; see lines/compilers.py

_written: weakref.WeakKeyDictionary[CodeType, CodeType] = weakref.WeakKeyDictionary()
_marked: weakref.WeakSet[FunctionType] = weakref.WeakSet()
_reducers: dict[type, Callable[[Any], Any]] = {}
_tables: list[Any] = []  # where cloudpickle, and copies of it, look for reducers
_prepared = False


def remember(code: CodeType, original: CodeType) -> None:
    """`code`, which functions have or will be made with, was made from `original`."""
    _written[code] = original
    _prepare()


def remember_mark(function: FunctionType) -> None:
    """clew has put its mark into the `__dict__` of this function."""
    _marked.add(function)


def reduce_by(kind: type, reduce: Callable[[Any], Any]) -> None:
    """Objects of a class of clew's are sent by value as `reduce` says, in the form of `__reduce__`."""
    _reducers[kind] = reduce
    for table in _tables:
        table[kind] = reduce
    _prepare()


def as_written(code: CodeType) -> CodeType:
    """The code as its author wrote it: itself, if it is not instrumented."""
    while (original := _written.get(code)) is not None:
        code = original
    return code


def _prepare() -> None:
    global _prepared
    if _prepared:
        return
    _prepared = True
    from wrapt import register_post_import_hook

    for package in _PACKAGES:
        for module in ("cloudpickle", "cloudpickle_fast"):
            # called at once if it is loaded already
            register_post_import_hook(_cloudpickle_is_loaded, f"{package}cloudpickle.{module}")
    register_post_import_hook(_dill_is_loaded, "dill._dill")
    register_post_import_hook(_dill_detect_is_loaded, "dill.detect")


def _tell(what: str, module: Any, act: Callable[[Any], None]) -> None:
    try:
        act(module)
    except Exception as error:  # another version of it
        trouble.report(
            f"pickler:{module.__name__}",
            f"{what} could not be told to leave clew's code out",
            "If functions cannot be pickled, do not watch or follow those that are sent to other processes.",
            error,
        )


# ---- cloudpickle: reduces a function to its parts


def _cloudpickle_is_loaded(module: Any) -> None:
    _tell("cloudpickle", module, _stand_in_cloudpickle)


def _stand_in_cloudpickle(module: Any) -> None:
    kind = getattr(module, "Pickler", None) or getattr(module, "CloudPickler", None)
    plain = None if kind is None else kind.__dict__.get("_dynamic_function_reduce")
    if kind is None or plain is None or hasattr(plain, "__wrapped__"):
        return

    @functools.wraps(plain)
    def reduce(self: Any, func: FunctionType) -> Any:
        return plain(self, _twin(func))

    kind._dynamic_function_reduce = reduce
    reduce_code = kind.dispatch_table[CodeType]
    kind.dispatch_table[CodeType] = lambda code: reduce_code(as_written(code))
    kind.dispatch_table.update(_reducers)
    _tables.append(kind.dispatch_table)


def _twin(function: FunctionType) -> FunctionType:
    """The function with the code as it was written; itself, if nothing of clew's is in it."""
    function = _within(function)
    code = as_written(function.__code__)
    if code is function.__code__:
        return function
    twin = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    for name in ("__kwdefaults__", "__qualname__", "__module__", "__doc__", "__annotations__", "__type_params__"):
        if hasattr(function, name):
            setattr(twin, name, getattr(function, name))
    twin.__dict__ = _unmarked(function.__dict__)
    return twin


def _within(function: FunctionType) -> FunctionType:
    """The function of the user's that a function of clew's was put around."""
    while function.__code__.co_filename.startswith(env.PACKAGE):
        inner = function.__dict__.get("__wrapped__")
        if not isinstance(inner, FunctionType):
            break
        function = inner
    return function


def _unmarked(attributes: dict[str, Any]) -> dict[str, Any]:
    """Without clew's mark, if these are the attributes of a function that has it."""
    if _MARK not in attributes or not any(function.__dict__ is attributes for function in list(_marked)):
        return attributes
    return {name: value for name, value in attributes.items() if name != _MARK}


# ---- dill: saves a function part by part


def _dill_is_loaded(module: Any) -> None:
    _tell("dill", module, _stand_in_dill)


def _stand_in_dill(module: Any) -> None:
    kind = module.Pickler
    plain = kind.save

    @functools.wraps(plain)
    def save(self: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
        of = type(obj)
        if of is CodeType:
            obj = as_written(obj)
        elif of is dict:
            obj = _unmarked(obj)
        elif of is FunctionType:
            obj = _within(obj)
        elif of in _reducers and id(obj) not in self.memo:
            reduced = _reducers[of](obj)
            if not isinstance(reduced, str):
                return self.save_reduce(*reduced, obj=obj)
        return plain(self, obj, *args, **kwargs)

    if not hasattr(plain, "__wrapped__"):
        kind.save = save
        _stand_in_extended(kind)


_AS_WRITTEN: Final[dict[type, Callable[[Any], Any]]] = {CodeType: as_written, dict: _unmarked, FunctionType: _within}


def _stand_in_extended(kind: Any) -> None:
    """dill puts its functions into `pickle._Pickler` too, and so into picklers made of it (joblib's Hasher)."""
    tables = [kind.dispatch, *(other.__dict__.get("dispatch", {}) for other in _kinds(pickle._Pickler))]
    for of, written in _AS_WRITTEN.items():
        plain = kind.dispatch[of]
        for table in tables:
            if table.get(of) is plain:
                table[of] = _saving(plain, written)


def _kinds(kind: type) -> Iterator[type]:
    yield kind
    other: type
    for other in kind.__subclasses__():
        yield from _kinds(other)


def _saving(plain: Callable[[Any, Any], Any], written: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    @functools.wraps(plain)
    def save(pickler: Any, obj: Any) -> Any:
        original = written(obj)
        return plain(pickler, obj) if original is obj else pickler.save(original)

    return save


def _dill_detect_is_loaded(module: Any) -> None:
    _tell("dill", module, _stand_in_dill_detect)


def _stand_in_dill_detect(module: Any) -> None:
    plain = module.nestedglobals

    @functools.wraps(plain)
    def nestedglobals(func: Any, *args: Any, **kwargs: Any) -> Any:
        return plain(as_written(func) if type(func) is CodeType else func, *args, **kwargs)

    if not hasattr(plain, "__wrapped__"):
        module.nestedglobals = nestedglobals

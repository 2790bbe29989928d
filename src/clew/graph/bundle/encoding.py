"""Values as JSON: plain data as it is, everything else as an object whose "$" says what it is.

What is the same object in two places is one object again: it stands in the page's list `objects`, once.
"""

from __future__ import annotations

import base64
import copyreg
import functools
import math
import sys
from pathlib import PurePath
from types import BuiltinFunctionType, EllipsisType, FunctionType, MethodType, ModuleType, NotImplementedType
from typing import Any

from clew.graph import tensorflow
from clew.graph.mapping.one_operator import MapOperator
from clew.graph.operators import UNKNOWN, Made, Operator, OperatorObject, made
from clew.graph.recording import lift

from . import digests, tensorflow_models, torch_classes, torch_modules
from .arrays import Writer
from .assets import Asset, Assets
from .code import Code
from .containers import Containers, is_shareable
from .module_state import unwrapped
from .modules import is_user_module
from .names import CannotSaveError, public_name

_INLINE = 4096  # bytes that stand in the page itself
_SEQUENCES: dict[type, str] = {tuple: "tuple", set: "set", frozenset: "frozenset"}
_Cached = type(functools.lru_cache(len))
_CALLED = (FunctionType, BuiltinFunctionType, type(len), type(str.join), type(str.__add__))


class Encoder:
    """Turns what a graph holds into what a page can say."""

    def __init__(self, assets: Assets, staging: Any, *, prefer_export: bool = False) -> None:
        self.assets = assets
        self.staging = staging
        self.prefer_export = prefer_export  # of torch modules whose class could be saved as well
        self.module_classes_used = False  # a torch module was saved as its class and what it holds
        self.arrays = Writer()
        self.objects: list[dict[str, Any] | None] = []
        self.containers = Containers(self.objects)
        self.code = Code(self.encode, self.containers.name)
        self.warnings: list[str] = []
        self._made_objects: list[tuple[Any, Made, dict[str, Any]]] = []  # and what the page says of them
        self._known: dict[int, tuple[int, Any]] = {}  # the object is held, so that its number stays its own
        self._inside: set[int] = set()

    def encode(self, value: Any) -> Any:
        kind = type(value)
        if kind in (bool, int, str, type(None)):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"$": "float", "text": repr(value)}
        if kind in (list, tuple, set, frozenset, dict):
            return self._container(value, kind)
        plain = self._plain(value, kind)
        return plain if plain is not None else self._shared(value)

    def encode_copied(self, value: Any) -> Any:
        """A constant of a step: its containers are made anew for each run, and are nobody else's."""
        with self.containers.copy():
            return self.encode(value)

    # ---- plain data

    def _container(self, value: Any, kind: type) -> Any:
        if id(value) in self._inside:
            raise CannotSaveError(f"a {kind.__name__} that contains itself")
        if not is_shareable(value):
            return self._parts(value, kind)
        return self.containers.met(value) or self.containers.add(value, self._parts(value, kind))

    def _parts(self, value: Any, kind: type) -> Any:
        self._inside.add(id(value))
        try:
            if kind is dict:
                return {"$": "dict", "items": [[self.encode(key), self.encode(item)] for key, item in value.items()]}
            items = [self.encode(item) for item in value]
        finally:
            self._inside.discard(id(value))
        return items if kind is list else {"$": _SEQUENCES[kind], "items": items}

    def _plain(self, value: Any, kind: type) -> dict[str, Any] | None:
        if kind in (bytes, bytearray) and len(value) <= _INLINE:
            return {"$": kind.__name__, "base64": base64.b64encode(value).decode()}
        if kind is bytes or kind is bytearray:
            return {"$": kind.__name__, "array": self.arrays.add("U8", (len(value),), bytes(value))}
        if kind is complex:
            return {"$": "complex", "parts": [self.encode(value.real), self.encode(value.imag)]}
        if kind in (slice, range):
            parts = [self.encode(part) for part in (value.start, value.stop, value.step)]
            return {"$": kind.__name__, "parts": parts}
        if isinstance(value, EllipsisType | NotImplementedType):
            return {"$": "constant", "name": repr(value)}
        if isinstance(value, Asset):
            return {"$": "asset", "file": value.file, "kind": value.kind, "tail": value.tail}
        if isinstance(value, PurePath):
            return {"$": "path", "text": str(value)}
        if isinstance(value, ModuleType):
            return self._module(value)
        if isinstance(value, MethodType) or _is_method(value):
            return self._method(value)
        if isinstance(value, (type, *_CALLED)):
            return self._callable(value)
        return self._of_libraries(value)

    def _module(self, module: ModuleType) -> dict[str, Any]:
        if is_user_module(module):
            self.code.state.hold(module)
            return {"$": "code", "module": self.code.add(module), "name": ""}
        self.code.packages.add(module.__name__.partition(".")[0])
        return {"$": "named", "name": f"{public_name(module.__name__)}:"}

    def _callable(self, thing: Any) -> dict[str, Any] | None:
        if thing is type(None) or thing is EllipsisType or thing is NotImplementedType:
            return {
                "$": "type of",
                "value": self.encode({type(None): None, EllipsisType: ...}.get(thing, NotImplemented)),
            }
        if isinstance(thing, FunctionType):
            return None  # shared: a function may be referred to twice, and may refer to itself
        return self.code.refer(thing)

    def _method(self, method: Any) -> dict[str, Any]:
        owner = method.__self__
        name = method.__name__
        if isinstance(method, MethodType):
            kind = owner if isinstance(owner, type) else type(owner)
            found = (n for c in kind.__mro__ for n, v in vars(c).items() if unwrapped(_bare(v)) is method.__func__)
            name = next(found, name)
        return {"$": "method", "self": self.encode(owner), "name": name}

    def _of_libraries(self, value: Any) -> dict[str, Any] | None:
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            if isinstance(value, numpy.generic) and not value.dtype.hasobject:
                return {"$": "numpy scalar", **self.arrays.numpy(numpy.asarray(value))}
            if isinstance(value, numpy.ufunc):
                return self.code.library(value)
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "dtype"):
            if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
                return {"$": "named", "name": str(value).replace(".", ":", 1)}
            if isinstance(value, torch.device):
                return {"$": "device", "text": str(value)}
        return tensorflow_models.constant(value)

    def finish(self) -> None:
        """Write what has been waiting until everything that is needed was known."""
        self.code.finish()
        while self._tie_attributes():
            self.code.finish()

    def _tie_attributes(self) -> bool:
        """What a constructor makes, and something else in the bundle refers to as well, stays one object.

        Such an attribute is saved as if it had changed, and refers to the object. Whether there was one.
        """
        count = 0
        for obj, how, said in list(self._made_objects):
            if "changed" not in said or self.objects[self._known.get(id(obj), (-1,))[0]] is not said:
                continue
            made = {name: value for name, value in digests.attributes(obj).items() if name not in said["changed"]}
            tied = {name: value for name, value in made.items() if any(map(self._is_known, digests.parts(value)))}
            self._encode_attributes(tied, how, said["changed"])
            count += len(tied.keys() & said["changed"].keys())
        return count > 0

    def _is_known(self, value: Any) -> bool:
        return id(value) in self._known or self.containers.holds(value)

    # ---- objects

    def mark(self) -> int:
        return len(self.objects)

    def forget(self, count: int) -> None:
        """Leave out what was written since a mark: it is not needed after all."""
        del self.objects[count:]
        self.containers.forget(count)
        self._known = {key: known for key, known in self._known.items() if known[0] < count}

    def _shared(self, value: Any) -> dict[str, Any]:
        known = self._known.get(id(value))
        if known is None:
            number = len(self.objects)
            self._known[id(value)] = (number, value)
            self.objects.append(None)
            try:
                with self.containers.copy(is_copy=False):  # an object is one wherever it is met
                    self.objects[number] = self._object(value)
            except CannotSaveError:  # whoever asked may know another way, and the page has no holes
                self.forget(number)
                raise
            return {"$": "object", "number": number}
        if self.objects[known[0]] is None and isinstance(value, FunctionType | _Cached):
            raise CannotSaveError("a function that holds itself through what it closes over")
        return {"$": "object", "number": known[0]}

    def _object(self, value: Any) -> dict[str, Any]:
        if isinstance(value, FunctionType):
            return self.code.refer(lift.original(value))  # one that a pipeline defines was compiled with hooks in it
        if isinstance(value, _Cached):
            return self._cached(value)
        if type(value) in (Operator, MapOperator):
            return self.operator(value)
        if type(value) is OperatorObject:
            return {"$": "operators of", "value": self.encode(value._target), "side_effects": value._side_effects}
        array = self._array(value)
        if array is not None:
            return array
        if torch_modules.is_script(value):
            return torch_modules.script(value, self)
        how = made(value)
        if how is UNKNOWN:
            raise CannotSaveError(f"a {type(value).__qualname__}, of which could not be noted how it was made")
        if how is not None:
            return self._made(value, how)
        if torch_modules.is_module(value):
            return self._torch_module(value)
        return torch_modules.script_method(value, self) or tensorflow_models.model(value, self) or self._reduced(value)

    def _cached(self, value: Any) -> dict[str, Any]:
        """A function under `functools.lru_cache`: found by its name, or made again with an empty cache."""
        module = sys.modules.get(value.__module__)
        if module is not None and not is_user_module(module):
            return self.code.library(value)
        if module is not None and (found := self.code.by_name(value, module)) is not None:
            return found
        said: dict[str, Any] = {"$": "reduced", "type": "lru_cache", "call": self.encode(functools.lru_cache)}
        made = {**said, "args": [*value.cache_parameters().values()]}
        return {**said, "call": made, "args": [self.encode(value.__wrapped__)]}

    def _torch_module(self, module: Any) -> dict[str, Any]:
        """Its classes and what it holds, which runs as the original does; else exported, for the sizes that it can."""
        if self.prefer_export or not torch_classes.is_at_hand(module):
            exported = torch_modules.exported(module, self, every=True)
            if exported is not None:
                return exported
        count, arrays = self.mark(), len(self.arrays)
        try:
            reduced = self._reduced(module)
            self.module_classes_used = True
            return reduced
        except CannotSaveError:
            self.forget(count)
            self.arrays.forget(arrays)
            exported = torch_modules.exported(module, self, every=True) or torch_modules.exported(
                module, self, every=False
            )
            if exported is None:
                raise
            return exported

    def operator(self, operator: Operator) -> dict[str, Any]:
        if isinstance(operator, MapOperator):
            return {"$": "map", "name": operator.name, "inner": self.encode(operator.inner), "star": operator.star}
        said = {"name": operator.name, "side_effects": operator.side_effects, "target": self.encode(operator.target)}
        return {"$": "operator", **said}

    def _array(self, value: Any) -> dict[str, Any] | None:
        numpy = sys.modules.get("numpy")
        if numpy is not None and type(value) is numpy.ndarray:
            if not value.dtype.hasobject:
                return {"$": "numpy", **self.arrays.numpy(value)}
            items = [self.encode(item) for item in value.reshape(-1).tolist()]
            return {"$": "numpy objects", "shape": list(value.shape), "items": items}
        return torch_modules.tensor(value, self) or tensorflow_models.value(value, self)

    def _made(self, obj: Any, how: Made) -> dict[str, Any]:
        """An object of an operator class: its class, and what its constructor was given, with files taken along."""
        said: dict[str, Any] = {"$": "made", "class": self.encode(how.cls)}
        self._made_objects.append((obj, how, said))
        taken = self.assets.of_constructor(how, f"{how.cls.__name__}()")
        said["args"] = [self.encode(arg) for arg in taken.args]
        said["kwargs"] = [[name, self.encode(value)] for name, value in taken.kwargs.items()]
        said["opened"] = taken.opened
        if not how.is_shared:
            said["unshared"] = True
        if how.notes.random:
            said["random"] = {name: self.encode(state) for name, state in how.notes.random.items()}
        if torch_modules.is_module(obj):
            said["weights"] = self.encode(dict(obj.state_dict()))
            said["training"] = obj.training
            said["changed"] = self._changed(obj, how)
        elif tensorflow.is_layer(obj) or tensorflow.is_module(obj):
            said["variables"] = {"": self._variables(obj)}
            if tensorflow.is_layer(obj) and obj.built:
                said["build"] = self.encode(obj.get_build_config())
        else:
            said["changed"] = self._changed(obj, how)
            held = getattr(obj, "__dict__", {}) if tensorflow.library() is not None else {}
            kept = {name: self._variables(value) for name, value in held.items() if name not in said["changed"]}
            said["variables"] = {name: values for name, values in kept.items() if values}
            if said["variables"] or any(map(tensorflow.is_restored, held.values())):
                self.code.packages.add("tensorflow")
        return said

    def _variables(self, value: Any) -> list[Any]:
        """What the variables of a model hold. They are filled again: the constructor may draw other numbers."""
        import numpy

        return [self.encode(numpy.asarray(one)) for one in tensorflow.variables_of(value)]

    def _changed(self, obj: Any, how: Made) -> dict[str, Any]:
        """Attributes that are other than the constructor has left them."""
        before, held = how.notes.state, digests.attributes(obj)
        if before is None:
            return {}
        now = digests.digests(held)
        differ = {name: value for name, value in held.items() if name not in before or before[name] != now[name]}
        changed: dict[str, Any] = {}
        self._encode_attributes(differ, how, changed)
        return changed

    def _encode_attributes(self, held: dict[str, Any], how: Made, changed: dict[str, Any]) -> None:
        for name, value in held.items():
            try:
                changed[name] = self.encode(value)
            except CannotSaveError as reason:
                said = (
                    f"`{name}` of {how.cls.__qualname__} has changed since it was made and cannot be saved ({reason})"
                )
                self.warnings.append(f"{said}: in the bundle it is as the constructor makes it.")

    def _reduced(self, value: Any) -> dict[str, Any]:
        """Any other object: how Python itself would make a copy of it, in parts that are encoded in turn."""
        if isinstance(value, type(sys._getframe())) or (
            hasattr(value, "__next__") and not hasattr(value, "__reduce_cython__")
        ):
            raise CannotSaveError(f"a {type(value).__name__}, which is used up or bound to where it is")
        try:
            known = copyreg.dispatch_table.get(type(value))
            parts: Any = known(value) if known is not None else value.__reduce_ex__(4)
        except Exception as error:
            raise CannotSaveError(f"a {type(value).__qualname__}: {error}") from None
        if isinstance(parts, str):
            return self.code.refer(value)
        made: list[Any] = [*parts, None, None, None, None]
        call, args, state, items, pairs, setter = made[:6]
        if setter is not None:
            raise CannotSaveError(f"a {type(value).__qualname__}, which is made in a way of its own")
        said: dict[str, Any] = {"$": "reduced", "type": type(value).__qualname__, "call": self.encode(call)}
        said["args"] = [self.encode(arg) for arg in args]
        if state is not None:
            said["state"] = self.encode(state)
        if items is not None:
            said["items"] = [self.encode(item) for item in items]
        if pairs is not None:
            said["pairs"] = [[self.encode(key), self.encode(item)] for key, item in pairs]
        return said


def _is_method(value: Any) -> bool:
    """A method of C, bound to a value: `"-".join`."""
    owner = getattr(value, "__self__", None)
    return isinstance(value, BuiltinFunctionType) and owner is not None and not isinstance(owner, ModuleType)


def _bare(value: Any) -> Any:
    return value.__func__ if isinstance(value, classmethod | staticmethod) else value

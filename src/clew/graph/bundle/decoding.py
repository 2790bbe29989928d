"""Values of a page as they were. Only for bundles that were checked, and that somebody has vouched for."""

from __future__ import annotations

import base64
import linecache
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FunctionType, MemberDescriptorType, ModuleType
from typing import Any

from clew.errors import ClewError, GraphError
from clew.graph import tensorflow
from clew.graph.mapping.one_operator import MapOperator
from clew.graph.operators import Operator, OperatorObject, op
from clew.graph.operators import made as made_of
from clew.graph.savedmodels import SavedModel

from . import constructors, keras_models, tensorflow_models, torch_modules
from .arrays import Reader
from .bundle_code import Package, refill
from .file_redirection import redirected
from .layout import ARRAYS, Bundle, damaged
from .module_state import unwrapped
from .names import PREFIX
from .policy import Policy

_CONTAINERS: dict[str, Any] = {"tuple": tuple, "set": set, "frozenset": frozenset}
_BYTES: dict[str, Any] = {"bytes": bytes, "bytearray": bytearray}
_CONSTANTS: dict[str, Any] = {"Ellipsis": ..., "NotImplemented": NotImplemented}
_MODELS = frozenset({"exported", "torchscript", "saved model", "keras", "tf function", "tf module"})
_NOT_YET = object()


@contextmanager
def remaking(what: str, bundle: Bundle) -> Iterator[None]:
    """What the bundle's own code raises while it is loaded is told with what was being made."""
    try:
        yield
    except ClewError:
        raise
    except Exception as error:
        said = f"{bundle.path}: {what} raised {type(error).__name__}: {error}."
        raise GraphError("bundle-remake", said, "The traceback above it shows where.") from error


class Decoder:
    """The values and objects of one load."""

    def __init__(self, bundle: Bundle, package: Package, device: Any, policy: Policy | None) -> None:
        self.bundle = bundle
        self.policy = policy  # of a bundle that is trusted by names
        self.package = package
        self.device = device
        self.objects: list[dict[str, Any]] = bundle.page["objects"]
        self._objects: dict[int, Any] = {}
        self._arrays: Reader | None = None

    def without(self, numbers: set[int]) -> Decoder:
        """One more load with the same code and objects, apart from these, which it makes anew."""
        other = Decoder(self.bundle, self.package, self.device, self.policy)
        other._objects = {number: obj for number, obj in list(self._objects.items()) if number not in numbers}
        other._arrays = self._arrays
        return other

    def decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        make = getattr(self, "_" + str(value["$"]).replace(" ", "_"), None)
        if make is None:
            raise damaged(f"{self.bundle.path}: a value of kind {value['$']!r}.")
        made = make(value)
        if self.policy is not None and value["$"] in _MODELS:
            self.policy.admit(made)  # the caller has named it
        return made

    @property
    def arrays(self) -> Reader:
        if self._arrays is None:
            self._arrays = Reader(self.bundle.view(ARRAYS), f"{self.bundle.path}: {ARRAYS}")
        return self._arrays

    # ---- plain data

    def _float(self, said: dict[str, Any]) -> float:
        return float(said["text"])

    def _tuple(self, said: dict[str, Any]) -> Any:
        return _CONTAINERS[said["$"]](self.decode(item) for item in said["items"])

    _set = _frozenset = _tuple

    def _list(self, said: dict[str, Any]) -> list[Any]:
        return [self.decode(item) for item in said["items"]]

    def shared_container(self, said: Any) -> dict[str, Any] | None:
        """Of a list, dictionary or set that several refer to, and that is not made yet: what it holds."""
        if not isinstance(said, dict) or said["$"] != "object" or said["number"] in self._objects:
            return None
        content = self.objects[said["number"]]
        return content if content["$"] in ("list", "dict", "set") else None

    def adopt(self, said: dict[str, Any], container: Any) -> None:
        """A container that the bundle's code has made is the one that all refer to; it gets what it held."""
        content = self.decode(self.objects[said["number"]])
        self._objects[said["number"]] = container
        refill(container, content)

    def _dict(self, said: dict[str, Any]) -> dict[Any, Any]:
        return {self.decode(key): self.decode(item) for key, item in said["items"]}

    def _bytes(self, said: dict[str, Any]) -> Any:
        if "base64" in said:
            return _BYTES[said["$"]](base64.b64decode(said["base64"]))
        return _BYTES[said["$"]](self.arrays.numpy({"array": said["array"]}).tobytes())

    _bytearray = _bytes

    def _complex(self, said: dict[str, Any]) -> complex:
        return complex(*map(self.decode, said["parts"]))

    def _slice(self, said: dict[str, Any]) -> slice:
        return slice(*map(self.decode, said["parts"]))

    def _range(self, said: dict[str, Any]) -> range:
        return range(*said["parts"])

    def _constant(self, said: dict[str, Any]) -> Any:
        return _CONSTANTS[said["name"]]

    def _type_of(self, said: dict[str, Any]) -> type:
        return type(self.decode(said["value"]))

    def _path(self, said: dict[str, Any]) -> Path:
        return Path(said["text"])

    def _asset(self, said: dict[str, Any]) -> Any:
        place = self.bundle.unpack(said["file"])
        if said["kind"] == "path":
            return place
        text = str(place) + said["tail"]
        return os.fsencode(text) if said["kind"] == "bytes" else text

    # ---- code

    def _code(self, said: dict[str, Any]) -> Any:
        """A function or class (or a whole module) of the bundle's code."""
        found: Any = self.module(said["module"])
        for part in said["name"].split(".") if said["name"] else ():
            if part not in vars(found):
                what = f"{self.bundle.path}: {said['module']} has no {said['name']}."
                raise GraphError("bundle-unknown", what, "It is made only under some condition: make it always.")
            found = vars(found)[part]
        found = unwrapped(found)
        return found.__func__ if isinstance(found, classmethod | staticmethod) else found

    def module(self, name: str) -> ModuleType:
        with remaking(f"the code of {name}", self.bundle):
            return self.package.module(name)

    def _part(self, said: dict[str, Any]) -> Any:
        """A function or class that has a text of its own."""
        module = self.module(said["module"])
        place = str(self.bundle.folder / said["file"])
        text = self.bundle.text(said["file"])
        # For tracebacks, and for saving it again; the file may be inside a zip.
        linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
        made: dict[str, Any] = {}
        held = {name: self.decode(value) for name, value in said["held"].items()}
        with remaking(f"the code of {said['file']}", self.bundle):
            exec(compile(text, place, "exec", dont_inherit=True), vars(module), made)
            thing = made["part"](**held)
        thing.__qualname__ = said["name"]
        if isinstance(thing, FunctionType):
            thing.__name__ = said["name"].rpartition(".")[2]
            thing.__defaults__ = self.decode(said["defaults"])
            thing.__kwdefaults__ = self.decode(said["kwdefaults"])
        return thing

    def _named(self, said: dict[str, Any]) -> Any:
        thing = library_thing(said["name"], self.bundle)
        return thing if self.policy is None else self.policy.library(said["name"], thing)

    def _method(self, said: dict[str, Any]) -> Any:
        owner = self.decode(said["self"])
        name = said["name"]
        if self.policy is not None:
            self.policy.member(owner, name)
        kind = owner if isinstance(owner, type) else type(owner)
        for cls in kind.__mro__:
            if name in vars(cls):
                function = unwrapped(vars(cls)[name])
                if isinstance(function, FunctionType) and not isinstance(owner, type):
                    return function.__get__(owner)  # unrecorded, as it was called when it was recorded
                break
        return getattr(owner, name)

    # ---- arrays

    def _numpy(self, said: dict[str, Any]) -> Any:
        return self.arrays.numpy(said)

    def _numpy_scalar(self, said: dict[str, Any]) -> Any:
        return self.arrays.numpy(said)[()]

    def _numpy_objects(self, said: dict[str, Any]) -> Any:
        import numpy

        array = numpy.empty(len(said["items"]), dtype=object)
        for at, item in enumerate(said["items"]):
            array[at] = self.decode(item)
        return array.reshape(said["shape"])

    def _tensor(self, said: dict[str, Any]) -> Any:
        import torch

        tensor = self.arrays.torch(said).to(torch_modules.place_for(said["device"], self.device))
        if "order" in said:
            tensor = tensor.contiguous(memory_format=getattr(torch, said["order"]))
        if said.get("parameter"):
            return torch.nn.Parameter(tensor, requires_grad=bool(said.get("requires_grad")))
        return tensor.requires_grad_() if said.get("requires_grad") else tensor

    def _device(self, said: dict[str, Any]) -> Any:
        import torch

        return torch.device(torch_modules.place_for(said["text"], self.device))

    def _exported(self, said: dict[str, Any]) -> Any:
        return torch_modules.loaded(said, self.bundle, self.device)

    def _torchscript(self, said: dict[str, Any]) -> Any:
        return torch_modules.loaded_script(said, self.bundle, self.device)

    # ---- TensorFlow

    def _tf_tensor(self, said: dict[str, Any]) -> Any:
        return tensorflow_models.tensor(said, lambda: self.arrays, self.decode, self.device)

    def _tf_variable(self, said: dict[str, Any]) -> Any:
        return tensorflow_models.variable(said, self.decode, self.device)

    def _tf_function(self, said: dict[str, Any]) -> Any:
        return tensorflow_models.function(said, self.decode)

    def _tf_module(self, said: dict[str, Any], number: int | None = None) -> Any:
        module = tensorflow_models.empty_module(said, self.decode)
        if number is not None:
            self._objects[number] = module
        tensorflow_models.fill_module(module, {name: self.decode(value) for name, value in said["state"].items()})
        return module

    def _saved_model(self, said: dict[str, Any]) -> Any:
        return tensorflow_models.restored(said, self.bundle, self.device)

    def _keras(self, said: dict[str, Any]) -> Any:
        custom = {name: self.decode(thing) for name, thing in said["custom"]}
        return keras_models.loaded(said, self.bundle, custom, self.device)

    # ---- objects

    def _object(self, said: dict[str, Any]) -> Any:
        number = said["number"]
        if number not in self._objects:
            objects = self.objects
            if not (isinstance(number, int) and 0 <= number < len(objects)):
                raise damaged(f"{self.bundle.path}: there is no object {number}.")
            self._objects[number] = _NOT_YET
            if objects[number]["$"] == "reduced":
                self._reduced(objects[number], number)
            elif objects[number]["$"] == "tf module":
                self._tf_module(objects[number], number)
            elif objects[number]["$"] == "made":
                self._made(objects[number], number)
            else:
                self._objects[number] = self.decode(objects[number])
        found = self._objects[number]
        if found is _NOT_YET:
            raise damaged(f"{self.bundle.path}: object {number} is needed to make itself.")
        return found

    def _operator(self, said: dict[str, Any]) -> Operator:
        return Operator(self._called(said["target"]), name=said["name"], side_effects=said["side_effects"])

    def _map(self, said: dict[str, Any]) -> MapOperator:
        return MapOperator(self._called(said["inner"]), bool(said["star"]))

    def _called(self, said: Any) -> Any:
        function = self.decode(said)
        return function if self.policy is None else self.policy.callable(function)

    def _operators_of(self, said: dict[str, Any]) -> OperatorObject:
        return OperatorObject(self.decode(said["value"]), said["side_effects"])

    def _made(self, said: dict[str, Any], number: int | None = None) -> Any:
        """Run a constructor, once, with the arguments it had. What it is given afterwards may refer to it."""
        cls = self._called(said["class"])
        if isinstance(cls, type) and cls.__module__.startswith(PREFIX):
            op(cls)  # by the author's program, not by its text: that it may be saved again
        args = [self.decode(arg) for arg in said["args"]]
        kwargs = {name: self.decode(value) for name, value in said["kwargs"]}
        states = {name: self.decode(state) for name, state in said.get("random", {}).items()}
        now = constructors.random_states() if states else {}
        try:
            constructors.set_random_states(states)
            with redirected(self.package.table), remaking(f"the constructor of {_title(cls)}", self.bundle):
                obj = cls(*args, **kwargs)
        finally:
            constructors.set_random_states(now)
        if number is not None:
            self._objects[number] = obj
        how = made_of(obj)
        if how is not None:
            how.is_shared = not said.get("unshared", False)
        self._move(obj)
        if "weights" in said:
            with remaking(f"giving {_title(cls)} its weights", self.bundle):
                obj.load_state_dict(self.decode(said["weights"]))
                obj.train(said["training"])
        if "build" in said and not obj.built:
            obj.build_from_config(self.decode(said["build"]))
        for name, values in said.get("variables", {}).items():
            self._assign(obj.__dict__[name] if name else obj, [self.decode(value) for value in values])
        for name, value in said.get("changed", {}).items():
            _set_attribute(obj, name, self.decode(value))
        self._move(obj)
        return obj

    def _assign(self, model: Any, values: list[Any]) -> None:
        """Give the variables that a constructor has made what they held."""
        variables = tensorflow.variables_of(model)
        if len(variables) != len(values):
            what = (
                f"{self.bundle.path}: a {type(model).__name__} has {len(variables)} variables, and had {len(values)}."
            )
            raise GraphError("bundle-remake", what, "Make the variables in the constructor, as many each time.")
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)

    def _move(self, obj: Any) -> None:
        """Models go to the device that was asked for, also those that an object holds."""
        if self.device is None:
            return
        for value in (obj, *getattr(obj, "__dict__", {}).values()):
            if torch_modules.is_module(value):
                value.to(torch_modules.device_here(self.device))
            elif isinstance(value, SavedModel):
                value._place(self.device)

    def _reduced(self, said: dict[str, Any], number: int | None = None) -> Any:
        call, args = self._called(said["call"]), [self.decode(arg) for arg in said["args"]]
        with remaking(f"making a {said['type']}", self.bundle):
            obj = call(*args)
        if number is not None:
            self._objects[number] = obj  # before its state, which may refer to it
        if "state" in said:
            state = self.decode(said["state"])
            with remaking(f"giving a {said['type']} its state", self.bundle):
                _set_state(obj, state)
        for item in said.get("items", ()):
            obj.append(self.decode(item))
        for key, item in said.get("pairs", ()):
            obj[self.decode(key)] = self.decode(item)
        if torch_modules.is_module(obj) and self.device is not None:
            obj.to(torch_modules.device_here(self.device))
        return obj


def _title(cls: Any) -> str:
    return cls.__qualname__ if isinstance(cls, type) else f"a {type(cls).__name__}"


def _set_state(obj: Any, state: Any) -> None:
    """As Python's own copying does it."""
    if torch_modules.is_module(obj) and isinstance(state, dict):
        _lay_out(obj, state)
    if hasattr(obj, "__setstate__"):
        obj.__setstate__(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        obj.__dict__.update(state)
    for name, value in (slots or {}).items():
        setattr(obj, name, value)


def _set_attribute(obj: Any, path: str, value: Any) -> None:
    """Give an object, or a module inside a module, an attribute, without any code of its class."""
    inner, _, name = path.rpartition(".")
    holder = obj.get_submodule(inner) if inner else obj
    if torch_modules.is_module(holder) and name in holder._buffers:
        holder._buffers[name] = value
    elif isinstance(getattr(type(holder), name, None), MemberDescriptorType):  # a slot
        object.__setattr__(holder, name, value)
    else:
        vars(holder)[name] = value


def _lay_out(obj: Any, state: dict[str, Any]) -> None:
    """Give an object its attributes one by one, as a constructor does: Python finds them quicker then than those that
    `__setstate__` puts into its dictionary all at once, which counts where a module is called with single rows."""
    for name, value in state.items():
        if not hasattr(getattr(type(obj), name, None), "__set__"):
            object.__setattr__(obj, name, value)


def library_thing(name: str, bundle: Bundle) -> Any:
    """A function, class or module of a library that is installed here."""
    module, _, path = name.partition(":")
    try:
        found: Any = import_module(module)
        for part in path.split(".") if path else ():
            found = getattr(found, part)
            if isinstance(found, ModuleType):
                raise AttributeError(f"{part} is a module of its own")  # what it has imported is not its own
    except (ImportError, AttributeError, ValueError) as error:
        root = module.partition(".")[0]
        made_with = bundle.page.get("versions", {}).get(root)
        what = f"{bundle.path} uses {name}, which is not here: {error}."
        remedy = f"It was made with {root} {made_with}: install that." if made_with else "Install what is missing."
        raise GraphError("bundle-unknown", what, remedy) from None
    return found

"""TensorFlow and Keras in bundles: tensors, variables, models.

Keras models are written by Keras (`.keras`: a configuration in JSON, and numbers), and loaded in its safe mode. Modules
and functions of the user's own are source text with the values of their variables; where there is no source, and where
a module says itself what it takes, TensorFlow writes a SavedModel.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from clew.graph import tensorflow

from . import examples, keras_models
from .layout import MODELS, Bundle
from .names import CannotSaveError

if TYPE_CHECKING:
    from .encoding import Encoder

_INSIDE = ("_self_", "_tf_", "_obj_reference_counts")  # attributes by which TensorFlow keeps its own accounts
_CALL = "call"
_WHOLE = "_clew_saved_model"  # what a function came with: its variables live as long as that


def value(one: Any, encoder: Encoder) -> dict[str, Any] | None:
    """A tensor or a variable, if it is one."""
    tf = tensorflow.library()
    if tf is None:
        return None
    if type(one).__name__ == "EagerTensor" and isinstance(one, tf.Tensor):
        return {"$": "tf tensor", **_tensor(one, encoder)}
    if isinstance(one, tf.Variable):
        said = {"$": "tf variable", "value": encoder.encode(one.read_value()), "name": one.name.partition(":")[0]}
        return {**said, "trainable": bool(one.trainable), "shape": _shape(one.shape)}
    return None


def _tensor(one: Any, encoder: Encoder) -> dict[str, Any]:
    import numpy

    encoder.code.packages.add("tensorflow")
    kind = one.dtype.name
    if kind in ("resource", "variant") or kind.startswith(("q", "int4", "uint4", "float8")):
        raise CannotSaveError(f"a TensorFlow tensor of {kind}")
    array = numpy.asarray(one)
    said: dict[str, Any] = {"dtype": kind, "shape": list(array.shape)}
    if kind == "string":
        return {**said, "items": [encoder.encode(item) for item in array.reshape(-1).tolist()]}
    flat = numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8)
    return {**said, "array": encoder.arrays.add("U8", flat.shape, flat.tobytes())}


def _shape(shape: Any) -> list[int | None] | None:
    return None if shape.rank is None else list(shape.as_list())


def constant(one: Any) -> dict[str, Any] | None:
    """`tf.float32`."""
    if type(one).__name__ != "DType" or not tensorflow.is_constant(one):
        return None
    return {"$": "named", "name": f"tensorflow:{one.name.removesuffix('_ref')}"}


# ---- models


def model(one: Any, encoder: Encoder) -> dict[str, Any] | None:
    """A layer, a module, a function or what a SavedModel gave, if it is one."""
    if tensorflow.is_layer(one):
        return keras_models.written(one, encoder) or _by_example(one, encoder, keras_models.WHY)
    if tensorflow.is_function(one):
        return _function(one, encoder)
    if tensorflow.is_module(one):
        return _module(one, encoder)
    return _saved(one, encoder, type(one).__name__) if tensorflow.is_restored(one) else None


def _function(function: Any, encoder: Encoder) -> dict[str, Any]:
    """What tf.function has made: of a method, of a function that has a name, of any other."""
    whole = vars(function).get(_WHOLE)
    if whole is not None:
        return {**_saved(whole, encoder, function.__name__), "attribute": _CALL}
    bound = getattr(getattr(function, "__wrapped__", None), "__self__", None)
    owner = getattr(bound, "target", bound)
    if owner is not None and not isinstance(owner, type):
        return {"$": "method", "self": encoder.encode(owner), "name": function.__name__}
    try:
        return _as_source(function, encoder)
    except CannotSaveError as reason:
        return _by_example(function, encoder, str(reason))


def _as_source(function: Any, encoder: Encoder) -> dict[str, Any]:
    inner = getattr(function, "python_function", None)
    if inner is None or type(function).__name__ != "Function":
        raise CannotSaveError("a function of a SavedModel")
    if _is_at_home(function):
        return encoder.code.refer(function)
    encoder.code.packages.add("tensorflow")
    signature = function.input_signature
    specs = None if signature is None else [_spec(spec) for spec in signature]
    return {"$": "tf function", "function": encoder.encode(inner), "signature": specs, **_options(function)}


def _options(function: Any) -> dict[str, Any]:
    names = {"autograph": "_autograph", "jit_compile": "_jit_compile", "reduce_retracing": "_reduce_retracing"}
    return {name: bool(getattr(function, inner, name == "autograph")) for name, inner in names.items()}


def _is_at_home(function: Any) -> bool:
    """Whether a module has it under its own name."""
    found: Any = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return getattr(found, "target", found) is function


def _spec(spec: Any) -> dict[str, Any]:
    if type(spec).__name__ != "TensorSpec":
        raise CannotSaveError(f"a function with a {type(spec).__name__} in its signature")
    return {"shape": _shape(spec.shape), "dtype": spec.dtype.name}


def _module(module: Any, encoder: Encoder) -> dict[str, Any]:
    """A tf.Module: as TensorFlow writes it where it says what it takes; as its source; else as it was called."""
    if _is_signed(module):
        return _saved(module, encoder, type(module).__qualname__)
    mark = encoder.mark()
    try:
        state = {name: encoder.encode(_bare(value)) for name, value in vars(module).items() if not _is_inside(name)}
        kind = encoder.encode(type(module))
    except CannotSaveError as reason:
        encoder.forget(mark)
        return _by_example(module, encoder, str(reason))
    encoder.code.packages.add("tensorflow")
    return {"$": "tf module", "class": kind, "name": module.name, "state": state}


def _is_signed(module: Any) -> bool:
    """Whether all that was called of it are functions with a signature of their own, so that sizes stay as open."""
    kind = type(module)
    if callable(module) and not tensorflow.is_function(getattr(kind, "__call__")):  # noqa: B004, B009
        return False
    functions = {name: getattr(module, name) for name in dir(kind) if tensorflow.is_function(getattr(kind, name))}
    used = [one for name, one in functions.items() if examples.of(one) or name == "__call__"]
    return bool(used) and all(one.input_signature is not None for one in used)


def _is_inside(name: str) -> bool:
    return name in ("_name", "_name_scope", "_scope_name") or name.startswith(_INSIDE)


def _bare(value: Any) -> Any:
    """A list or dictionary that TensorFlow has wrapped, as it was given."""
    value = getattr(value, "__wrapped__", value) if type(value).__name__ in ("_DictWrapper", "_TupleWrapper") else value
    if isinstance(value, dict) and type(value).__module__ in ("builtins", "collections"):
        return {key: _bare(item) for key, item in value.items()}
    if type(value).__name__ == "ListWrapper" or type(value) in (list, tuple):
        return (tuple if isinstance(value, tuple) else list)(_bare(item) for item in value)
    return value


# ---- SavedModel


def _by_example(target: Any, encoder: Encoder, why: str) -> dict[str, Any]:
    """As it was called when the pipeline was recorded, with the first dimension of each tensor open."""
    called = examples.of(target)
    if not called:
        raise CannotSaveError(f"{type(target).__qualname__}: {why}")
    tf = tensorflow.library()
    holder = tf.Module()
    holder.inner = target
    traced = tf.function(lambda *args, **kwargs: target(*args, **kwargs))  # noqa: PLW0108 (a model is no function)
    try:
        with _quiet():
            for args, kwargs in called:
                traced.get_concrete_function(*_opened(args), **_opened(kwargs))
                if not keras_models.agree(target, traced, args, kwargs):
                    raise ValueError("it gives something else for the size that was seen")
    except Exception as error:
        raise CannotSaveError(f"{type(target).__qualname__}: {why}; and TensorFlow cannot trace it: {error}") from None
    setattr(holder, _CALL, traced)
    name = getattr(target, "__qualname__", type(target).__qualname__)
    return {**_saved(holder, encoder, str(name)), "attribute": _CALL}


def _opened(value: Any) -> Any:
    tf = tensorflow.library()
    return examples.filled(
        value, lambda shape: tf.TensorSpec((None, *shape.shape[1:]) if shape.shape else (), shape.dtype)
    )


def _saved(one: Any, encoder: Encoder, name: str) -> dict[str, Any]:
    """A SavedModel, every file of it in the bundle."""
    tf = tensorflow.library()
    file = f"{MODELS}/{encoder.staging.count(MODELS)}"
    with tempfile.TemporaryDirectory(prefix="clew_saved_model_") as folder:
        try:
            with _quiet():
                tf.saved_model.save(one, folder, signatures=getattr(one, "signatures", None))
        except Exception as error:
            raise CannotSaveError(f"a {name}, which TensorFlow cannot save: {error}") from None
        for base, _, names in os.walk(folder):
            for each in sorted(names):
                source = os.path.join(base, each)
                inside = os.path.relpath(source, folder).replace(os.sep, "/")
                encoder.staging.copy(source, f"{file}/{inside}")
    encoder.code.packages.add("tensorflow")
    return {"$": "saved model", "file": file, "class": name}


@contextmanager
def _quiet() -> Iterator[None]:
    """TensorFlow tells of each file it writes."""
    spoken = [logging.getLogger(name) for name in ("tensorflow", "absl")]
    before = [one.level for one in spoken]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in spoken:
            one.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for one, was in zip(spoken, before, strict=True):
                one.setLevel(was)


# ---- loading


def tensor(said: dict[str, Any], arrays: Callable[[], Any], decode: Callable[[Any], Any], device: Any) -> Any:
    import numpy
    import tensorflow as tf

    kind, shape = tf.as_dtype(said["dtype"]), said["shape"]
    with tensorflow.placed(device):
        if "items" in said:
            items = numpy.array([decode(item) for item in said["items"]], dtype=object)
            return tf.constant(items.reshape(shape), kind)
        flat = arrays().numpy({"array": said["array"]})
        return tf.constant(flat.view(kind.as_numpy_dtype).reshape(shape), kind)


def variable(said: dict[str, Any], decode: Callable[[Any], Any], device: Any) -> Any:
    import tensorflow as tf

    with tensorflow.placed(device):
        shape = tf.TensorShape(said["shape"])
        return tf.Variable(decode(said["value"]), trainable=said["trainable"], name=said["name"], shape=shape)


def function(said: dict[str, Any], decode: Callable[[Any], Any]) -> Any:
    import tensorflow as tf

    specs = said["signature"]
    signature = None if specs is None else [tf.TensorSpec(spec["shape"], spec["dtype"]) for spec in specs]
    options = {name: said[name] for name in ("autograph", "reduce_retracing")}
    compiled = True if said["jit_compile"] else None
    return tf.function(decode(said["function"]), input_signature=signature, jit_compile=compiled, **options)


def empty_module(said: dict[str, Any], decode: Callable[[Any], Any]) -> Any:
    """A module without its attributes."""
    import tensorflow as tf

    kind = decode(said["class"])
    made = kind.__new__(kind)
    tf.Module.__init__(made, name=said["name"])
    return made


def fill_module(module: Any, state: dict[str, Any]) -> None:
    import tensorflow as tf

    for name, one in state.items():
        tf.Module.__setattr__(module, name, one)


def restored(said: dict[str, Any], bundle: Bundle, device: Any) -> Any:
    import tensorflow as tf

    folder = str(bundle.unpack(said["file"]))
    with tensorflow.placed(device), _quiet():
        loaded = tf.saved_model.load(folder)
    if "attribute" not in said:
        return loaded
    found = getattr(loaded, said["attribute"])
    vars(found)[_WHOLE] = loaded
    return found

"""Keras models and layers in bundles."""

from __future__ import annotations

import io
import json
import os
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any

from clew.errors import GraphError
from clew.graph import tensorflow

from . import examples
from .layout import MODELS, Bundle, damaged, unsafe

if TYPE_CHECKING:
    from .encoding import Encoder

WHY = (
    "Keras cannot make it again from its configuration (a Lambda layer of a lambda, a class without get_config, "
    "a function with the name of one of Keras's)"
)
_LAMBDA = "__lambda__"  # byte code in a configuration
# What a configuration may name of Keras: what models are made of. The rest reads files and runs what it finds.
_PARTS = frozenset(
    {
        "layers", "models", "initializers", "regularizers", "constraints", "activations", "dtype_policies", "ops",
        "losses", "metrics", "optimizers", "quantizers", "random",
    }
)  # fmt: skip


def written(layer: Any, encoder: Encoder) -> dict[str, Any] | None:
    """The layer or model in a file of Keras's own; None if Keras would not make the same of it again."""
    keras = tensorflow.keras()
    is_model = isinstance(layer, keras.Model)
    with tempfile.TemporaryDirectory(prefix="clew_keras_") as folder:
        path = os.path.join(folder, "model.keras")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                keras.saving.save_model(layer if is_model else keras.Sequential([layer]), path)
        except Exception:  # Keras has many words for no
            return None
        config = _config_of(path)
        custom = _custom(layer, config)
        if custom is None or not _comes_back(layer, path, custom, is_model):
            return None
        said: dict[str, Any] = {"$": "keras", "class": type(layer).__qualname__, "model": is_model}
        said["custom"] = [[name, encoder.encode(thing)] for name, thing in custom.items()]
        said["file"] = f"{MODELS}/{encoder.staging.count(MODELS)}.keras"
        encoder.staging.copy(path, said["file"])
    encoder.code.packages |= {"keras", "tensorflow"}
    return said


def _config_of(path: Any) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        found = json.loads(archive.read("config.json"))
    if not isinstance(found, dict):
        raise ValueError("its configuration is no record")
    return found


def _named(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Everything in a configuration that says which class or function it is. What it was compiled with is not used."""
    stack: list[Any] = [{key: value for key, value in config.items() if key != "compile_config"}]
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            if "class_name" in one:
                yield one
            stack.extend(one.values())
        elif isinstance(one, list):
            stack.extend(one)


def _is_own(said: dict[str, Any]) -> bool:
    """Whether it is one of Keras's own."""
    module, name = said.get("module"), said["class_name"]
    if name == "__keras_tensor__" or (module is None and name in ("__tensor__", "__numpy__", "__tuple__", "__slice__")):
        return True
    if not isinstance(module, str) or said.get("registered_name") not in (None, name, "function"):
        return False
    parts = module.split(".")
    inner = parts[2:] if parts[:2] == ["keras", "src"] else parts[1:]
    return parts[0] == "keras" and (not inner or inner[0] in _PARTS)


def _is_function(said: dict[str, Any]) -> bool:
    return said["class_name"] == "function" and said.get("module") == "builtins"


def _custom(layer: Any, config: Any) -> dict[str, Any] | None:
    """The classes and functions of the user's own that a model is made of; None if one of them is not found."""
    found: dict[str, Any] = {}
    classes, functions = _live(layer)
    if any(map(_is_builtin, functions)):  # Keras would take its own of that name
        return None
    for said in _named(config):
        if _is_own(said):
            continue
        if said["class_name"] == _LAMBDA:
            return None
        if _is_function(said):
            name = said["config"]
            if _is_builtin(name):
                continue
            thing = functions.get(name)
        else:
            name = said.get("registered_name") or said["class_name"]
            thing = classes.get(name) or classes.get(said["class_name"])
        if thing is None:
            return None
        found[name] = thing
    return found


def _live(layer: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The classes of the layers in a model, and the functions they hold, by the names Keras has for them."""
    keras = tensorflow.keras()
    classes: dict[str, Any] = {}
    functions: dict[str, Any] = {}
    for one in layer._flatten_layers():
        for held in (one, *vars(one).values()):
            if isinstance(held, FunctionType) and not held.__module__.startswith("keras."):
                functions[keras.saving.get_registered_name(held)] = functions[held.__name__] = held
            elif not isinstance(held, FunctionType) and not type(held).__module__.startswith(("keras.", "builtins")):
                classes[keras.saving.get_registered_name(type(held))] = classes[type(held).__name__] = type(held)
    return classes, functions


def _is_builtin(name: Any) -> bool:
    keras = tensorflow.keras()
    homes = (keras.activations, keras.losses, keras.metrics, keras.initializers, keras.ops)
    return isinstance(name, str) and any(hasattr(home, name) for home in homes)


def _comes_back(layer: Any, path: str, custom: dict[str, Any], is_model: bool) -> bool:
    """Whether Keras makes the same of it again, as far as was seen: it knows many things by their bare names."""
    import numpy

    try:
        again = _loaded(path, custom, is_model)
    except Exception:
        return False
    ours, theirs = layer.get_weights(), again.get_weights()
    if len(ours) != len(theirs) or not all(map(numpy.array_equal, ours, theirs)):
        return False
    return all(agree(layer, again, args, kwargs) for args, kwargs in examples.of(layer))


def agree(model: Any, other: Any, args: Any, kwargs: Any) -> bool:
    """Whether another model gives what a model gives, called with ones of the shapes that were seen.

    What only looks random cannot be compared, and what a call changes in variables is put back.
    """
    tf = tensorflow.library()
    args, kwargs = (examples.filled(one, lambda shape: tf.ones(shape.shape, shape.dtype)) for one in (args, kwargs))
    variables = tensorflow.variables_of(model)
    before = [tf.identity(variable) for variable in variables]
    try:
        expected = tf.nest.flatten(model(*args, **kwargs))
        again = tf.nest.flatten(model(*args, **kwargs))
        found = tf.nest.flatten(other(*args, **kwargs))
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value)
    return not _are_near(expected, again) or _are_near(expected, found)


def _are_near(these: list[Any], those: list[Any]) -> bool:
    import numpy

    pairs = [(numpy.asarray(one), numpy.asarray(other)) for one, other in zip(these, those, strict=True)]
    numbers = [(one, other) for one, other in pairs if one.dtype.kind in "biufc"]
    return all(one.shape == other.shape and numpy.allclose(one, other, 1e-4, 1e-4, True) for one, other in numbers)


def _loaded(path: str, custom: dict[str, Any], is_model: bool) -> Any:
    keras = tensorflow.keras()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = keras.saving.load_model(path, custom_objects=custom, compile=False, safe_mode=True)
    return found if is_model else found.layers[0]


# ---- loading


def loaded(said: dict[str, Any], bundle: Bundle, custom: dict[str, Any], device: Any) -> Any:
    """The model, of its own configuration and of classes that the bundle names. Byte code in it is refused."""
    import_module("keras")
    try:
        config = _config_of(io.BytesIO(bundle.view(said["file"]).tobytes()))
    except (zipfile.BadZipFile, ValueError, KeyError) as error:
        raise damaged(f"{bundle.path}: {said['file']} cannot be read: {error}.") from None
    for one in _named(config):
        named = one["config"] if _is_function(one) else one.get("registered_name") or one["class_name"]
        if not (_is_own(one) or named in custom or (_is_function(one) and _is_builtin(named))):
            what = f"{one.get('module')}:{one['class_name']}" if not _is_function(one) else named
            raise unsafe(f"{bundle.path}: {said['file']} would make a {what}, which is none of Keras's layers.")
    with tensorflow.placed(device):
        try:
            return _loaded(str(bundle.place(said["file"])), custom, said["model"])
        except Exception as error:
            what = f"{bundle.path}: Keras cannot make {said['class']} again: {error}."
            raise GraphError("bundle-remake", what, "Load it with the versions that `clew inspect` shows.") from error

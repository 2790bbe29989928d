"""TensorFlow and Keras in bundles."""

from __future__ import annotations

import importlib
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import clew
from clew.errors import GraphError, OptionError
from clew.graph.bundle.layout import Bundle
from clew.graph.bundle.summary import described
from graph.bundling import project, python, reseal, write

__all__ = ["project"]  # the fixture

MODELS = """
    import keras
    import tensorflow as tf
    import clew

    def squashed(x):
        return x * 0.5 + 1

    class Scale(keras.layers.Layer):
        def __init__(self, by, **more):
            super().__init__(**more)
            self.by = by
        def build(self, shape):
            self.w = self.add_weight(shape=(shape[-1],), initializer="random_normal")
        def call(self, x):
            return x * self.by * self.w
        def get_config(self):
            return {**super().get_config(), "by": self.by}

    class Subclassed(keras.Model):
        '''Keras cannot write down how it was made.'''
        def __init__(self, size):
            super().__init__()
            self.layer = keras.layers.Dense(size)
        def call(self, x):
            return self.layer(x)

    class Module(tf.Module):
        def __init__(self, size):
            super().__init__()
            self.w = tf.Variable(tf.random.normal((2, size)))
            self.many = [tf.Variable(1.0), {"a": tf.Variable(2.0)}]
        def __call__(self, x):
            return x @ self.w + self.many[0] * self.many[1]["a"]
        @tf.function
        def encode(self, x):
            return tf.nn.relu(x @ self.w) if x.shape[0] == 2 else x @ self.w

    class Signed(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(tf.random.normal((2, 3)))
        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])
        def __call__(self, x):
            return x @ self.w

    @tf.function
    def doubled(x):
        return x * 2

    @clew.op
    class Holder:
        '''What its constructor draws is drawn otherwise each time, and one model is built later.'''
        def __init__(self, size):
            self.shift = tf.Variable(tf.random.normal((size,)))
            self.net = keras.Sequential([keras.layers.Dense(size)])
            self.shifted = tf.function(lambda x: x + self.shift)
        def __call__(self, x):
            return self.shifted(self.net(x))

    @clew.op
    class Made(keras.Model):
        def __init__(self, size):
            super().__init__()
            self.layer = keras.layers.Dense(size)
        def call(self, x):
            return self.layer(x)
    """
X = tf.constant([[1.0, 2.0], [3.0, 4.0]])
OTHER = tf.constant([[0.5, -1.0], [2.0, 2.5], [7.0, 1.0]])


@pytest.fixture
def models(project: Path) -> Any:
    write(project, {"models.py": MODELS})
    return importlib.import_module("models")


def network() -> Any:
    return keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(3), keras.layers.BatchNormalization()])


def saved(thing: Any, name: str) -> Path:
    operator = (
        thing if callable(getattr(thing, "target", None)) or hasattr(type(thing), "__clew_op__") else clew.op(thing)
    )

    def pipeline(x: Any) -> Any:
        return operator(x)

    return clew.record(pipeline, X).save(name, assets="anywhere")  # type: ignore[no-any-return]


def kinds(bundle: Path) -> list[str]:
    return [said["$"] for said in json.loads((bundle / "graph.json").read_text())["objects"]]


def test_models_of_every_kind_give_the_same_elsewhere_without_the_source(
    models: Any, project: Path, tmp_path: Path
) -> None:
    tf.saved_model.save(models.Signed(), "exported")
    inputs = keras.Input((2,))
    offset = tf.Variable([2.0, 1.0])
    things: dict[str, Any] = {
        "sequential": network(),
        "functional": keras.Model(inputs, keras.ops.mean(keras.layers.Dense(4, activation="relu")(inputs), axis=1)),
        "custom": keras.Sequential([inputs, models.Scale(3.0), keras.layers.Dense(2, activation=models.squashed)]),
        "lambda": keras.Sequential([inputs, keras.layers.Lambda(lambda x: x * 2), keras.layers.Dense(2)]),
        "subclassed": models.Subclassed(4),
        "layer": keras.layers.Dense(2),
        "module": models.Module(2),
        "method": (module := models.Module(2)).encode,  # TensorFlow itself does not keep the module
        "signed": models.Signed(),
        "function": models.doubled,
        "closure": tf.function(lambda x: x * offset),
        "holder": models.Holder(2),
        "made": models.Made(2),
        "folder": "exported",
        "restored": tf.saved_model.load("exported"),
    }
    for name, thing in things.items():
        saved(thing, name)
        expected = clew.op(thing)(OTHER) if name != "folder" else tf.saved_model.load("exported")(OTHER)
        np.save(f"{name}/../{name}.npy", np.asarray(expected))
    for kind, names in {
        "keras": ("sequential", "functional", "custom", "layer"),
        "saved model": ("lambda", "subclassed", "signed", "restored"),
        "tf module": ("module", "method"),
        "made": ("holder", "made", "folder"),
    }.items():
        assert all(kind in kinds(project / name) for name in names), kind
    del module
    elsewhere = tmp_path / "elsewhere"
    shutil.move(project, elsewhere)
    (elsewhere / "models.py").unlink()
    shutil.rmtree(elsewhere / "exported")
    program = """
        import sys
        import numpy as np
        import tensorflow as tf
        import clew
        other = tf.constant([[0.5, -1.0], [2.0, 2.5], [7.0, 1.0]])
        for name in sys.argv[1:]:
            found = clew.load(name, trusted=True, device="cpu")(other)
            print(name, np.allclose(found, np.load(f"{name}.npy"), atol=1e-5), "models" in sys.modules)
        """
    told = python(program, elsewhere, *things).split("\n")
    assert told[:-1] == [f"{name} True False" for name in things]


def test_a_module_that_says_what_it_takes_is_saved_without_its_code(models: Any, project: Path) -> None:
    bundle = saved(models.Signed(), "signed")
    assert not list(bundle.glob("code/*"))


def test_an_object_shared_by_two_operators_stays_shared(models: Any, project: Path) -> None:
    module, net = models.Module(2), network()
    one, other, first, second = clew.op(module), clew.op(module.encode), clew.op(net), clew.op(net.predict)

    def pipeline(x: Any) -> Any:
        return one(x), other(x), first(x), second(x)

    clew.record(pipeline, X).save("both")
    graph = clew.load("both", trusted=True)
    targets = [operator.target for operator in graph.operators]
    found = next(target for target in targets if type(target).__name__ == "Module")
    found.w.assign(found.w * 0)
    assert np.allclose(graph(OTHER)[0], 2.0) and np.allclose(graph(OTHER)[1], 0.0)
    assert kinds(Path("both")).count("keras") == 1


def test_a_loaded_graph_can_be_saved_again(models: Any, project: Path) -> None:
    for name, thing in {
        "lambda": keras.Sequential([keras.Input((2,)), keras.layers.Lambda(lambda x: x * 2)]),
        "custom": keras.Sequential([keras.Input((2,)), models.Scale(2.0)]),
        "module": models.Module(1),
    }.items():
        saved(thing, name)
        clew.load(name, trusted=True).save(f"{name}-again")
        assert np.allclose(clew.load(f"{name}-again", trusted=True)(OTHER), thing(OTHER))


@pytest.mark.parametrize(
    "value",
    [
        tf.constant([[1.5, float("nan")]]),
        tf.constant([1.5, 2.0], tf.bfloat16),
        tf.constant([b"a", "ü".encode()]),
        tf.constant([1 + 2j], tf.complex64),
        tf.zeros((0, 3), tf.int8),
        tf.constant(True),
    ],
    ids=lambda value: value.dtype.name,
)
def test_a_tensor_is_a_constant_of_a_bundle(value: Any, project: Path) -> None:
    def pipeline(x: Any) -> Any:
        return x, value

    clew.record(pipeline, 1).save("constant")
    found = clew.load("constant", trusted=True)(1)[1]
    assert found.dtype == value.dtype and found.shape == value.shape
    assert (
        found.numpy().tobytes() == value.numpy().tobytes()
        if value.dtype != tf.string
        else (found == value).numpy().all()
    )


def test_every_file_of_a_saved_model_is_checked(models: Any, project: Path) -> None:
    bundle = saved(models.Signed(), "signed")
    files = [path for path in bundle.rglob("models/**/*") if path.is_file()]
    assert len(files) == 4
    for path in files:
        before = path.read_bytes()
        path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        with pytest.raises(GraphError, match="not what it was"):
            clew.load(bundle, trusted=True)
        path.write_bytes(before)
    (files[0].parent / "more.pb").write_bytes(b"x")
    with pytest.raises(GraphError, match="does not belong to it"):
        clew.load(bundle, trusted=True)


def test_a_saved_model_and_a_keras_file_each_need_to_be_named(models: Any, project: Path) -> None:
    signed, layers = saved(models.Signed(), "signed"), saved(network(), "layers")
    with pytest.raises(GraphError, match="models/0"):
        clew.load(signed, trusted=["somebody"])
    assert clew.load(signed, trusted=["models/0"])(OTHER).shape == (3, 3)
    with pytest.raises(GraphError, match=r"models/0\.keras"):
        clew.load(layers, trusted=["somebody"])
    assert clew.load(layers, trusted=["models/0.keras"])(OTHER).shape == (3, 3)
    with pytest.raises(GraphError, match="nobody has said"):
        clew.load(layers)


def test_functions_that_reach_for_files_need_somebodys_word() -> None:
    from clew.graph.bundle.allowed_names import is_allowed

    assert is_allowed("tensorflow.nn:softmax") and is_allowed("tensorflow:cast") and is_allowed("keras.ops:mean")
    for name in (
        "tensorflow.io:read_file",
        "tensorflow:py_function",
        "tensorflow:load_op_library",
        "tensorflow:print",
        "tensorflow.raw_ops:WriteFile",
        "keras.saving:load_model",
        "keras.utils:get_file",
        "keras.layers:Lambda",
        "keras.activations:deserialize",
    ):
        assert not is_allowed(name), name


def test_inspecting_runs_nothing(models: Any, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(models.Signed(), "signed")
    saved(keras.Sequential([keras.Input((2,)), models.Scale(2.0)]), "custom")

    def never(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("it was loaded")

    monkeypatch.setattr(tf.saved_model, "load", never)
    monkeypatch.setattr(keras.saving, "load_model", never)
    assert described(Bundle("signed"))["operators"] == [{"name": "Signed", "what": "Signed, exported (models/0)"}]
    assert "the exported models Sequential" in described(Bundle("custom"))["runs"]


def test_byte_code_in_a_model_is_refused_before_keras_sees_it(project: Path) -> None:
    bundle = saved(network(), "net")
    harmful = keras.Sequential([keras.Input((2,)), keras.layers.Lambda(lambda x: x)])
    harmful.save(bundle / "models" / "0.keras")
    with pytest.raises(GraphError, match="__lambda__"):
        clew.load(resealed(bundle), trusted=True)


def test_a_model_that_names_what_is_no_layer_is_refused(project: Path) -> None:
    bundle = saved(network(), "net")
    file = bundle / "models" / "0.keras"
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(members["config.json"])
    config["config"]["layers"][1].update(module="keras.utils", class_name="get_file")
    members["config.json"] = json.dumps(config).encode()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(GraphError, match=r"keras\.utils:get_file"):
        clew.load(resealed(bundle), trusted=True)


def resealed(bundle: Path) -> Path:
    import hashlib

    data = (bundle / "models" / "0.keras").read_bytes()
    said = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    reseal(bundle, lambda page: page["files"].update({"models/0.keras": said}))
    return bundle


def test_a_device_that_is_not_there_is_named_with_those_that_are(models: Any, project: Path) -> None:
    tf.saved_model.save(models.Signed(), "exported")
    things = {"net": network(), "signed": models.Signed(), "module": models.Module(1), "folder": "exported"}
    for name, thing in things.items():
        saved(thing, name)
        with pytest.raises(OptionError, match="no device 'cuda:3' here; there is /device:CPU:0"):
            clew.load(name, trusted=True, device="cuda:3")


def test_a_model_that_was_never_called_and_cannot_be_written_is_told_at_save(project: Path) -> None:
    net = keras.Sequential([keras.Input((2,)), keras.layers.Lambda(lambda x: x * 2)])
    predict = clew.op(net.predict)

    def pipeline(x: Any) -> Any:
        return predict(x, verbose=0)

    with pytest.raises(GraphError, match="Lambda layer"):
        clew.record(pipeline, X).save("net")


def test_a_function_of_the_authors_is_not_taken_for_keras_of_the_same_name(project: Path) -> None:
    write(project, {"mine.py": "def relu(x):\n    return x * 10\n"})
    mine = importlib.import_module("mine")
    layers = [keras.layers.Activation(mine.relu), keras.layers.Activation("relu")]
    for number, chosen in enumerate((layers[:1], layers)):
        net = keras.Sequential([keras.Input((2,)), *chosen])
        saved(net, f"net{number}")
        assert np.allclose(clew.load(f"net{number}", trusted=True)(OTHER), net(OTHER))


def test_saving_a_model_leaves_its_variables_as_they_are(project: Path) -> None:
    net = keras.Sequential([keras.Input((2,)), keras.layers.Lambda(lambda x: x), keras.layers.BatchNormalization()])
    operator = clew.op(net)

    def pipeline(x: Any) -> Any:
        return operator(x, training=True)

    graph = clew.record(pipeline, X)
    before = net.get_weights()
    graph.save("net")
    assert all(map(np.array_equal, before, net.get_weights()))


def test_a_folder_that_is_no_saved_model_is_told() -> None:
    with pytest.raises(GraphError, match=r"no saved_model\.pb"):
        clew.op("nowhere")


def test_a_zip_holds_a_saved_model_too(models: Any, project: Path) -> None:
    signed = models.Signed()
    saved(signed, "signed.zip")
    assert np.allclose(clew.load("signed.zip", trusted=True)(OTHER), signed(OTHER))

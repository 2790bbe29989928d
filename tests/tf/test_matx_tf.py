"""Matx's names, with TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from clew.compat import matx
from clew.errors import GraphError, OptionError


class Adder(tf.Module):
    @tf.function
    def add(self, x: Any) -> Any:
        return x + x


class Pair(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None]), tf.TensorSpec([None])])
    def minus(self, a: Any, b: Any) -> Any:
        return {"difference": a - b}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    model = Adder()
    tf.saved_model.save(model, "adder", signatures=model.add.get_concrete_function(tf.TensorSpec([None], tf.float32)))
    return tmp_path


def test_a_saved_model_is_fed_by_the_names_of_its_inputs(folder: Path) -> None:
    add = matx.script("adder", backend="TensorFlow", device=-1, use_xla=0, allow_growth=False)

    def process(x: Any) -> Any:
        return add({"x": x})

    module = matx.trace(process, np.array([1.0], np.float32))
    assert np.array_equal(module.run({"x": np.array([1.0, 2.0], np.float32)})["output_0"], [2.0, 4.0])
    module.save("bundle")
    (folder / "adder" / "saved_model.pb").unlink()
    loaded = matx.load("bundle", -1)
    assert np.array_equal(loaded.run({"x": np.array([3.0], np.float32)})["output_0"], [6.0])


def test_a_saved_model_beside_the_program_comes_along_without_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = Adder()
    tf.saved_model.save(model, "./", signatures=model.add.get_concrete_function(tf.TensorSpec([None], tf.float32)))
    Path("program.py").write_text("")
    Path("notes.txt").write_text("")
    add = matx.script("./", backend="TensorFlow", device=-1)
    given = matx.NDArray([1], [1], "float32")
    matx.trace(lambda x: add({"x": x}), given).save("./")
    Path("saved_model.pb").unlink()
    assert np.array_equal(matx.load("./", -1).run({"x": given})["output_0"], [2.0])
    assert [file.name for file in Path("model.clew").rglob("*") if file.name in ("program.py", "notes.txt")] == []


def test_a_module_without_a_call_is_called_by_its_signature(tmp_path: Path) -> None:
    minus = matx.script(Pair(), device=-1)
    one = matx.NDArray([1], [1], "float32")
    module = matx.trace(lambda x: minus({"a": x, "b": one}), one)
    module.save(tmp_path / "saved")
    loaded = matx.load(tmp_path / "saved", -1)
    assert loaded.run({"x": matx.NDArray([3], [1], "float32")})["difference"].numpy() == [2.0]


def test_a_signature_of_several_inputs_takes_them_by_name_alone(folder: Path) -> None:
    pair = Pair()
    tf.saved_model.save(pair, "pair", signatures=pair.minus)
    minus = matx.script("pair", backend="TensorFlow")
    a, b = np.array([3.0], np.float32), np.array([1.0], np.float32)
    assert minus({"a": a, "b": b})["difference"].numpy() == minus(a=a, b=b)["difference"].numpy() == [2.0]
    for given in (({"a": a},), (a, b), ({"a": a, "c": b},)):
        with pytest.raises(GraphError, match="takes a, b"):
            minus(*given)


def test_a_model_of_keras_is_scripted_and_a_device_that_is_not_there_is_told() -> None:
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    net = matx.script(model, device="cpu")

    def process(x: Any) -> Any:
        return net(x)

    x = np.ones((1, 2), np.float32)
    assert np.array_equal(matx.trace(process, x).run({"x": x * 2}), model(x * 2))
    with pytest.raises(OptionError, match="no device 5 here"):
        matx.script(model, device=5)


def test_a_device_of_a_saved_model_that_is_not_there_is_told(folder: Path) -> None:
    with pytest.raises(OptionError, match="no device '0' here"):
        matx.script("adder", backend="TensorFlow", device=0)

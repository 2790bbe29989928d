"""TensorFlow and Keras values, recorded."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import clew
from clew.records import NotKept
from clew.values import capture, decode


@pytest.mark.parametrize(
    "value",
    [
        tf.constant([[1.5, float("nan")]]),
        tf.constant([1.5, 2.0], tf.bfloat16),
        tf.constant([1.5], tf.float16),
        tf.constant([b"a", "ü".encode()]),
        tf.constant([1 + 2j], tf.complex64),
        tf.zeros((0, 3), tf.int8),
        tf.constant(3),
        tf.constant([True, False]),
        tf.Variable([[1.0, 2.0]]),
        tf.Variable(7, dtype=tf.int64),
        keras.Variable([1.0, 2.0]),
    ],
    ids=lambda value: f"{type(value).__name__}-{value.dtype if isinstance(value.dtype, str) else value.dtype.name}",
)
def test_a_tensor_or_variable_comes_back_as_the_array_it_holds(value: Any) -> None:
    found, expected = decode(capture(value).value), np.asarray(value)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert found.tolist() == expected.tolist() or np.isnan(expected).any()
    assert expected.dtype.hasobject or found.tobytes() == expected.tobytes()


def test_every_assignment_to_a_variable_is_a_change() -> None:
    @clew.watch("weights", "kernel", "restored")
    def train() -> None:
        weights = tf.Variable([1.0, 2.0])
        weights.assign_add([1.0, 1.0])
        weights.assign(weights)  # the same again is no change
        weights[0].assign(9.0)
        layer = keras.layers.Dense(1, kernel_initializer="zeros")
        layer.build((None, 2))
        kernel = layer.kernel
        kernel.assign([[1.0], [2.0]])

    with clew.run() as run:
        train()
    found = clew.open(run.path)
    assert [value.tolist() for value in found["weights"]] == [[1, 2], [2, 3], [9, 3]]
    assert [value.tolist() for value in found["kernel"]] == [[[0], [0]], [[1], [2]]]


def test_a_change_of_a_variable_is_seen_by_its_test() -> None:
    for variable in (tf.Variable([1.0]), keras.Variable([1.0])):
        held = capture(variable)
        assert held.unchanged(variable)
        variable.assign([2.0])
        assert not held.unchanged(variable)


def test_a_model_is_told_by_its_identity_and_not_looked_into() -> None:
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    found = decode(capture(model).value)
    assert isinstance(found, NotKept) and "a model" in str(found)
    assert capture(model).digest == capture(model).digest != capture(keras.layers.Dense(1)).digest
    assert isinstance(decode(capture(tf.Module()).value), NotKept)


def test_the_steps_of_a_graph_are_stored_with_their_tensors() -> None:
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(3)])
    net = clew.op(model)

    def pipeline(x: Any) -> Any:
        return tf.nn.relu(net(x))

    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    graph = clew.record(pipeline, x)
    with clew.run() as run:
        graph.run({"x": x}, record=True)
    found = clew.open(run.path)
    results = [call.result for call in found.calls()]
    assert any(np.array_equal(one, model(x)) for one in results)
    assert any(np.array_equal(one, pipeline(x)) for one in results)

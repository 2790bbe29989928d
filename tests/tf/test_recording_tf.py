"""TensorFlow and Keras in recorded pipelines."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import clew

X = tf.constant([[1.0, 2.0], [3.0, 4.0]])
OTHER = tf.constant([[0.5, -1.0], [2.0, 2.5], [7.0, 1.0]])
WEIGHTS = tf.constant([[1.0, 3.0], [1.0, 2.0]])


@pytest.fixture
def model() -> Any:
    return keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(3), keras.layers.Dropout(0.5)])


@tf.function
def doubled(x: Any, by: float = 2.0) -> Any:
    return x * by


class Affine(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = tf.Variable([[1.0, 2.0], [3.0, 4.0]])

    @tf.function
    def __call__(self, x: Any, shift: Any = 0.0) -> Any:
        return x @ self.weight + shift

    @tf.function
    def transposed(self, x: Any) -> Any:
        return x @ tf.transpose(self.weight)


def targets(graph: Any) -> list[str]:
    return [getattr(step.target, "name", step.target) or step.kind for step in graph.steps]


def same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(np.array_equal(np.asarray(a), np.asarray(b)))


def test_a_keras_model_is_an_operator_with_positional_and_keyword_arguments(model: Any) -> None:
    net = clew.op(model)

    def pipeline(x: Any) -> Any:
        return net(x), net(x, training=False), net(inputs=x)

    graph = clew.record(pipeline, X)
    assert targets(graph) == ["Sequential", "Sequential", "Sequential"]
    for found in graph(OTHER):
        assert same(found, model(OTHER))


def test_a_module_and_each_of_its_functions_are_operators() -> None:
    module = Affine()
    affine, back = clew.op(module), clew.op(module.transposed)

    def pipeline(x: Any) -> Any:
        return back(affine(x, shift=1.0))

    graph = clew.record(pipeline, X)
    assert targets(graph) == ["Affine", "Affine.transposed"]
    assert same(graph(OTHER), pipeline(OTHER))


def test_models_and_functions_are_steps_without_clew_op(model: Any) -> None:
    module = Affine()

    def pipeline(x: Any) -> Any:
        return doubled(module(x), by=3.0), model(x), model.predict(x, verbose=0)

    graph = clew.record(pipeline, X)
    assert len(graph.steps) == 4 and not graph.guards
    for found, expected in zip(graph(OTHER), pipeline(OTHER), strict=True):
        assert same(found, expected)


def test_functions_of_tensorflow_and_keras_are_steps_under_their_public_names() -> None:
    def pipeline(x: Any) -> Any:
        return keras.ops.mean(tf.nn.relu(tf.math.log1p(tf.abs(x))) @ WEIGHTS, axis=0) + tf.cast(
            tf.shape(x)[0], tf.float32
        )

    graph = clew.record(pipeline, X)
    assert targets(graph)[:4] == ["tensorflow:abs", "tensorflow.math:log1p", "tensorflow.nn:relu", "matmul"]
    assert "keras.ops:mean" in targets(graph)
    assert same(graph(OTHER), pipeline(OTHER))


def test_arithmetic_and_indexing_are_recorded_also_with_a_tensor_of_the_programs_on_the_left() -> None:
    def pipeline(x: Any) -> Any:
        return (
            WEIGHTS[0] * x - x[:, :1] / 2,
            WEIGHTS[0] + x[-1],
            1.0 - x,
            x @ WEIGHTS,
            x > 1,
            tf.stack([x, x])[1, ..., 0],
        )

    graph = clew.record(pipeline, X)
    for found, expected in zip(graph(OTHER), pipeline(OTHER), strict=True):
        assert same(found, expected)


def test_a_decision_by_a_tensor_is_a_guard() -> None:
    def pipeline(x: Any) -> Any:
        return x * 2 if tf.reduce_sum(x) > 3 else x

    graph = clew.record(pipeline, X)
    assert same(graph(X + 1), (X + 1) * 2)
    with pytest.raises(clew.GuardError, match="reduce_sum"):
        graph(X * 0)


def test_a_loop_over_the_rows_holds_for_any_number_of_them() -> None:
    def pipeline(x: Any) -> Any:
        return tf.stack([tf.norm(row) for row in x])

    graph = clew.record(pipeline, X)
    assert same(graph(X * 2), pipeline(X * 2))
    assert same(graph(OTHER), pipeline(OTHER))


def test_the_value_of_a_tensor_is_guarded_exactly() -> None:
    made: dict[str, Any] = {}
    exec("def pipeline(x):\n    return x * int(x[0, 0])", {}, made)
    pipeline = made["pipeline"]
    graph = clew.record(pipeline, X)
    assert same(graph(X), pipeline(X))
    with pytest.raises(clew.GuardError):
        graph(X + 1)


def test_a_gradient_is_taken_again() -> None:
    def pipeline(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(x * x)
        return tape.gradient(y, x)

    assert same(clew.record(pipeline, X)(OTHER), OTHER * 2)


def test_a_variable_that_the_pipeline_makes_is_made_anew_each_time() -> None:
    def pipeline(x: Any) -> Any:
        total = tf.Variable([0.0, 0.0])
        total.assign_add(x[0])
        total.assign_add(x[1])
        return total + 0

    graph = clew.record(pipeline, X)
    assert same(graph(OTHER), pipeline(OTHER)) and same(graph(OTHER), pipeline(OTHER))


def test_random_numbers_are_drawn_anew() -> None:
    def pipeline(x: Any) -> Any:
        return x + tf.random.uniform((1,))

    graph = clew.record(pipeline, X)
    assert not same(graph(X), graph(X))


def test_code_that_is_not_rewritten_gives_recorded_values_to_tensorflow() -> None:
    made: dict[str, Any] = {}
    exec(
        "def pipeline(x):\n    return tf.nn.relu(x) + weights * x + tf.reduce_sum(x)",
        {"tf": tf, "weights": WEIGHTS[0]},
        made,
    )
    pipeline = made["pipeline"]
    graph = clew.record(pipeline, X)
    assert {"tensorflow.nn:relu", "tensorflow:reduce_sum"} <= set(targets(graph))
    assert same(graph(OTHER), pipeline(OTHER))


def test_steps_of_tensors_are_not_kept_for_what_they_might_change() -> None:
    def pipeline(x: Any) -> Any:
        tf.reduce_sum(x)
        x.numpy()
        return x + 1

    assert targets(clew.record(pipeline, X)) == ["add"]


def test_an_operator_class_may_be_a_keras_model() -> None:
    @clew.op
    class Net(keras.Model):  # type: ignore[misc]
        def __init__(self, size: int) -> None:
            super().__init__()
            self.layer = keras.layers.Dense(size)

        def call(self, x: Any) -> Any:
            return self.layer(x)

    net = Net(3)

    def pipeline(x: Any) -> Any:
        return net(x)

    graph = clew.record(pipeline, X)
    assert targets(graph) == ["Net"]
    assert same(graph(OTHER), net(OTHER))


def test_a_graph_of_tensors_runs_in_parallel_and_is_stored(model: Any) -> None:
    net = clew.op(model)

    def pipeline(x: Any) -> Any:
        return net(x) + net(x * 2)

    graph = clew.record(pipeline, X)
    assert same(graph.run({"x": OTHER}, parallel=2), pipeline(OTHER))
    found = graph.run({"x": OTHER}, record=True)
    assert same(found, pipeline(OTHER))

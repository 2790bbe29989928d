"""What TensorTracer does beyond its README's examples, row by row of docs/coming-from-tensortracer.md."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import clew
from clew.compat.tensortrace import (
    GlobalVariableResult,
    H5PYSaverCallback,
    LocalVariableResult,
    ModelTracer,
    TracedModel,
    Variable,
    stack_padded_tensors,
    stack_tensors,
    trace_model,
)

h5py = pytest.importorskip("h5py")


class Sub(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def double(self, z: Any) -> Any:
        w = z * 2
        return w

    def forward(self, x: Any) -> Any:
        h = self.fc(x)
        h = self.double(h)
        return h


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sub = Sub()
        self.bn = nn.BatchNorm1d(3)
        self.calls = 0

    def forward(self, x: Any, gain: float = 1.0) -> Any:
        self.calls += 1
        lst = [x, x + 1]
        x = self.sub(x) * gain
        x = self.bn(x)
        for i in range(2):
            lst.append(x + i)
        return x


def trace(variables: Any, *given: Any, count: int = 4, batch: Any = None, **options: Any) -> ModelTracer:
    torch.manual_seed(0)
    model = Net()
    with ModelTracer(model, variables, *given, **options) as tracer:
        for _ in range(count):
            model(torch.randn(5, 3) if batch is None else batch)
    return tracer


def counts(variables: Any, **options: Any) -> dict[str, int]:
    return {name: len(result.values) for name, result in trace(variables, **options).results.items()}


# ---- paths


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["forward.x"], {"forward.x": 12}),
        (["forward.x.input"], {"forward.x.input": 4}),
        (["forward.lst.0", "forward.lst.*"], {"forward.lst.0": 4, "forward.lst.1": 4}),
        (["forward.self.bn.running_var"], {"forward.self.bn.running_var": 4}),
        (["forward.self.*.running_var"], {"forward.self.bn.running_var": 4}),
        (["forward.self.sub.fc.weight"], {"forward.self.sub.fc.weight": 4}),
        (["sub.*"], {"sub.fc": 4, "sub.forward": 4, "sub.double": 4}),
        (["sub.*.w"], {"sub.double.w": 4}),
        (["*.forward.h"], {"sub.forward.h": 8}),
        (["sub.forward.*"], {"sub.forward.x": 4, "sub.forward.h": 8}),
        (["forward.gain"], {"forward.gain": 1}),
        (["forward.i"], {"forward.i": 8}),
        (["forward.self.calls"], {"forward.self.calls": 5}),
    ],
)
def test_a_path_gives_as_many_values_as_there(paths: list[str], expected: dict[str, int]) -> None:
    found = counts(paths)
    assert {name: found.get(name) for name in expected} == expected


def test_overlapping_paths_give_each_value_once() -> None:
    assert counts(["forward.x", "forward.*"])["forward.x"] == 12


def test_a_submodule_called_twice_with_one_tensor_has_it_twice() -> None:
    class Twice(Net):
        def forward(self, x: Any, gain: float = 1.0) -> Any:
            return self.sub(x) + self.sub(x)

    with ModelTracer(Twice(), ["sub.forward.x"]) as tracer:
        tracer.model(torch.ones(5, 3))
    assert tracer.results["sub.forward.x"].iterations == [1, 1]


def test_ranks_of_one_process_are_zero_with_either_interface() -> None:
    variable = Variable(["forward"])
    trace(variable)
    assert variable.results["forward"].ranks == trace(["forward"]).results["forward"].ranks == [0, 0, 0, 0]


def test_a_submodule_and_its_forward_are_two_names() -> None:
    assert counts(["sub", "sub.forward", "sub.*"]) == {"sub": 4, "sub.forward": 4, "sub.fc": 4, "sub.double": 4}


def test_an_item_of_a_list_is_found_by_its_place() -> None:
    assert counts(["forward.lst.0"]) == {"forward.lst.0": 4}


def test_a_star_over_locals_leaves_self_out() -> None:
    assert set(counts(["forward.*"])) == {"forward.x", "forward.gain", "forward.lst", "forward.i"}


def test_a_container_without_tensors_is_recorded_when_its_content_differs() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[int] = []

        def forward(self, x: Any) -> Any:
            sizes = {"rows": len(x)}
            if len(self.seen) < 2:
                self.seen.append(sizes["rows"])
            return x

    model = Counting()
    with ModelTracer(model, ["forward.sizes", "forward.self.seen"]) as tracer:
        for _ in range(4):
            model(torch.ones(2))
    assert tracer.results["forward.sizes"].values == [{"rows": 2}]
    assert tracer.results["forward.self.seen"].values == [[], [2], [2, 2]]


def test_no_trace_function_is_set() -> None:
    seen = []

    class Looking(nn.Module):
        def forward(self, x: Any) -> Any:
            y = x + 1
            seen.append(sys.gettrace())
            return y

    before = sys.gettrace()
    trace_model(Looking(), ["forward.y"], torch.ones(1))
    assert seen == [before]


# ---- iterations


def test_iterations_are_counted_from_one() -> None:
    tracer = trace(["forward"])
    assert tracer.results["forward"].iterations == [1, 2, 3, 4]
    assert tracer.current_iteration == 4


def test_training_and_evaluation_are_counted_together() -> None:
    model = Net()
    with ModelTracer(model, ["forward"]) as tracer:
        model(torch.randn(5, 3))
        model.eval()(torch.randn(5, 3))
        model.train()(torch.randn(5, 3))
    assert tracer.results["forward"].iterations == [1, 2, 3]
    assert (tracer.current_training_iteration, tracer.current_evaluation_iteration) == (2, 1)


@pytest.mark.parametrize(("option", "mode"), [("train_only", True), ("eval_only", False)])
def test_only_one_mode_is_traced_and_counted(option: str, mode: bool) -> None:
    model = Net()
    with ModelTracer(model, ["forward"], **{option: True}) as tracer:  # type: ignore[arg-type]
        for is_training in (not mode, mode, not mode, mode):
            model.train(is_training)(torch.randn(5, 3))
    assert tracer.results["forward"].iterations == [1, 2]
    assert tracer.current_iteration == 2


def test_both_modes_only_is_an_error() -> None:
    with pytest.raises(clew.errors.OptionError, match="cannot both"):
        ModelTracer(Net(), ["forward"], eval_only=True, train_only=True)


def test_every_nth_iteration_is_traced_and_all_are_counted() -> None:
    tracer = trace(["forward"], trace_interval=2, count=5)
    assert tracer.results["forward"].iterations == [2, 4]
    assert tracer.current_iteration == 5


def test_gathering_goes_by_iterations_whether_they_are_traced_or_not() -> None:
    sizes: list[int] = []
    trace(
        ["forward"], trace_interval=2, gathering_interval=4, count=8,
        post_gather_callbacks=[lambda name, values, iterations, ranks: sizes.append(len(values))],
    )  # fmt: skip
    assert sizes == [2, 2]


def test_results_can_be_read_as_soon_as_they_are_gathered() -> None:
    model = Net()
    seen = []
    with ModelTracer(model, ["forward"], gathering_interval=2) as tracer:
        for _ in range(5):
            model(torch.randn(5, 3))
            seen.append(len(tracer.results["forward"].values))
    assert seen == [0, 2, 2, 4, 4]


def test_what_came_after_the_last_gathering_is_in_local_results() -> None:
    stack = [stack_padded_tensors]
    tracer = trace(
        ["forward"], gathering_interval=4, count=10, pre_gather_callbacks=stack, post_gather_callbacks=stack,
        post_trace_callbacks=stack,
    )  # fmt: skip
    assert tracer.results["forward"].values[0].shape == (10 // 4, 1, 4, 5, 3)
    iterations, values = tracer.local_results["forward"]
    assert iterations == [9, 10]
    assert [value.shape for value in values] == [(5, 3)] * 2


def test_a_tracer_used_again_goes_on_counting() -> None:
    model = Net()
    tracer = ModelTracer(model, ["forward"], gathering_interval=2)
    for _ in range(2):
        with tracer:
            for _ in range(3):
                model(torch.randn(5, 3))
    assert tracer.results["forward"].iterations == [1, 2, 3, 4, 5, 6]


def test_gradients_which_only_clew_has_are_gathered_to_the_last() -> None:
    model = Net()
    with ModelTracer(model, ["sub.fc.weight.grad"], gathering_interval=2) as tracer:
        for _ in range(4):
            model(torch.randn(5, 3)).square().sum().backward()
    assert tracer.results["sub.fc.weight.grad"].iterations == [1, 2, 3, 4]


# ---- a batch that repeats


def test_a_repeated_batch_is_recorded_in_every_iteration_so_that_the_shape_holds() -> None:
    stack = [stack_padded_tensors]
    tracer = trace(
        ["forward.x.input"], batch=torch.ones(5, 3), gathering_interval=2, pre_gather_callbacks=stack,
        post_gather_callbacks=stack, post_trace_callbacks=stack,
    )  # fmt: skip
    assert tracer.results["forward.x.input"].values[0].shape == (2, 1, 2, 5, 3)


def test_only_what_changed_is_recorded_on_request() -> None:
    tracer = trace(["forward.x.input"], batch=torch.ones(5, 3), repeats="skip")
    assert tracer.results["forward.x.input"].iterations == [1]


def test_numbers_are_recorded_only_when_they_change_and_always_on_request() -> None:
    assert counts(["forward.gain"]) == {"forward.gain": 1}
    assert counts(["forward.gain"], repeats="all") == {"forward.gain": 4}


def test_containers_of_tensors_are_recorded_in_every_iteration() -> None:
    class Two(nn.Module):
        def forward(self, x: Any) -> Any:
            return {"logits": x, "aux": [x]}

    model = Two()
    with ModelTracer(model, ["forward"]) as tracer:
        for _ in range(3):
            model(torch.ones(2))
    assert tracer.results["forward"].iterations == [1, 2, 3]


@pytest.mark.parametrize(("repeats", "expected"), [("skip", 1), ("tensors", 3), ("all", 3)])
def test_clews_own_tracer_has_the_same_choice(repeats: str, expected: int) -> None:
    model = nn.Linear(2, 2)
    with clew.ModelTracer(model, "forward.input", store=False, repeats=repeats) as tracer:
        for _ in range(3):
            model(torch.ones(2))
    assert len(tracer.results["forward.input"]) == expected


# ---- options and results


def test_options_have_the_positions_they_have_there() -> None:
    calls: list[tuple[Any, ...]] = []

    def pre_save(name: str, value: Any, iteration: int) -> Any:
        return value.mean(dim=0)

    def pre_gather(name: str, values: list[Any], iterations: list[int]) -> None:
        calls.append(("pre_gather", len(values), iterations[:]))

    def post_gather(name: str, values: list[Any], iterations: list[int], ranks: list[int]) -> None:
        calls.append(("post_gather", len(values), ranks[:]))

    def post_trace(name: str, values: list[Any], iterations: list[int], ranks: list[int]) -> None:
        calls.append(("post_trace", len(values), iterations[:]))

    tracer = trace(["forward"], 2, 4, [pre_save], [pre_gather], [post_gather], [post_trace], False, True)
    assert tracer.results["forward"].values[0].shape == (3,)
    assert calls == [("pre_gather", 2, [2, 4]), ("post_gather", 2, [0, 0]), ("post_trace", 2, [2, 4])]


def test_variables_is_the_name_of_the_paths() -> None:
    assert counts(variables=["forward"]) == {"forward": 4}


def test_a_result_unpacks_as_iterations_ranks_and_values() -> None:
    result = trace(["forward"]).results["forward"]
    iterations, ranks, values = result
    assert (iterations, ranks, len(values)) == ([1, 2, 3, 4], [0, 0, 0, 0], 4)
    assert (result[0], result[2], len(result)) == (iterations, values, 3)


def test_results_iterate_as_a_dictionary_and_have_nothing_at_unknown_names() -> None:
    tracer = trace(["forward", "sub"])
    for name, (iterations, ranks, values) in tracer.results.items():
        assert name in ("forward", "sub")
        assert len(iterations) == len(ranks) == len(values) == 4
    assert tracer.results["nothing"].values == []
    assert list(tracer.results) == ["sub", "forward"]


def test_trace_model_calls_the_model_and_gives_its_output_and_the_tracer() -> None:
    model = Net().eval()
    x = torch.randn(5, 3)
    output, tracer = trace_model(model, ["forward", "forward.gain"], x, gain=2.0)
    assert torch.equal(output, model(x, gain=2.0))
    assert torch.equal(tracer.results["forward"].values[0], output)
    assert tracer.results["forward.gain"].values == [2.0]


def test_a_traced_model_is_traced_at_every_call() -> None:
    traced = TracedModel(Net(), ["forward"])
    for _ in range(3):
        traced(torch.randn(5, 3))
    assert traced.tracer.results["forward"].iterations == [1, 2, 3]


# ---- callbacks


def test_pre_save_is_called_once_for_each_value() -> None:
    calls = []

    def mean(name: str, value: Any, iteration: int) -> Any:
        calls.append((name, iteration))
        return value.mean()

    tracer = trace(["forward.x"], pre_save_callbacks=[mean], count=2)
    assert calls == [("forward.x", 1)] * 3 + [("forward.x", 2)] * 3
    assert [value.shape for value in tracer.results["forward.x"].values] == [()] * 6


@pytest.mark.parametrize("stage", ["pre_gather_callbacks", "post_gather_callbacks", "post_trace_callbacks"])
def test_callbacks_take_two_three_or_four_parameters(stage: str) -> None:
    def with_two(name: str, result: Any) -> None:
        result.values = [value + 1 for value in result.values]

    def with_three(name: str, values: list[Any], iterations: list[int]) -> None:
        values[:] = [value + 1 for value in values]

    def with_four(name: str, values: list[Any], iterations: list[int], ranks: list[int]) -> None:
        values[:] = [value + 1 for value in values]

    plain = trace(["forward"]).results["forward"].values
    changed = trace(["forward"], **{stage: [with_two, with_three, with_four]}).results["forward"].values
    assert all(torch.equal(after, before + 1 + 1 + 1) for after, before in zip(changed, plain, strict=True))


def test_clews_own_reductions_are_callbacks_too() -> None:
    tracer = trace(["forward"], pre_save_callbacks=[clew.reduce.norm], post_gather_callbacks=[clew.reduce.mean])
    assert [value.shape for value in tracer.results["forward"].values] == [()] * 4


def test_what_a_callback_returns_is_ignored() -> None:
    tracer = trace(["forward"], post_gather_callbacks=[lambda name, values, iterations, ranks: "done"])
    assert len(tracer.results["forward"].values) == 4


def test_a_callback_that_raises_leaves_the_values_and_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    def fails(name: str, values: list[Any], iterations: list[int], ranks: list[int]) -> None:
        values.clear()
        raise RuntimeError("no")

    assert len(trace(["forward"], post_gather_callbacks=[fails]).results["forward"].values) == 4
    assert "fails raised" in capsys.readouterr().err


def test_padding_gives_values_of_fewer_axes_leading_ones() -> None:
    values = [torch.ones(2, 3), torch.ones(4)]
    stack_padded_tensors("x", values, [1, 2])
    assert values[0].shape == (2, 2, 4)
    assert values[0][1].tolist() == [[1, 1, 1, 1], [0, 0, 0, 0]]


def test_padding_stacks_numbers() -> None:
    values: list[Any] = [1, 2]
    stack_padded_tensors("x", values, [1, 2])
    assert values[0].tolist() == [1, 2]


@pytest.mark.parametrize("stack", [stack_tensors, stack_padded_tensors])
def test_stacking_nothing_gives_an_empty_tensor(stack: Any) -> None:
    values: list[Any] = []
    stack("x", values, [], [])
    assert [value.shape for value in values] == [(0,)]


# ---- the later version: Variable


def test_a_variable_has_its_own_callbacks_and_results() -> None:
    def mean_post_gather(name: str, results: GlobalVariableResult) -> None:
        results.values = [results.values.mean(dim=(0, 1))]
        results.iterations = results.iterations[:1]
        results.ranks = results.ranks[:1]

    variable = Variable(
        ["forward", "forward.x.input"],
        post_gather_callbacks=[stack_padded_tensors, mean_post_gather],
        post_trace_callbacks=[stack_padded_tensors],
        gather_interval=4,
    )
    trace(variable, count=10)
    assert variable.results["forward"].values.shape == (2, 3)
    assert variable.results["forward.x.input"].iterations == [1, 5]


def test_variables_have_modes_and_intervals_of_their_own() -> None:
    model = Net()
    often, seldom = Variable(["forward.x.input"]), Variable(["forward.x", "forward"], 2, 2)
    evaluated = Variable(["forward.lst.0"], mode="eval")
    with ModelTracer(model, [often, seldom, evaluated]) as tracer:
        for _ in range(4):
            model.train()(torch.randn(5, 3))
            model.eval()(torch.randn(5, 3))
    assert often.results["forward.x.input"].iterations == [1, 2, 3, 4]
    assert seldom.results["forward"].iterations == [2, 4]
    assert seldom.results["forward.x"].iterations == [2, 2, 2, 4, 4, 4]
    assert evaluated.results["forward.lst.0"].iterations == [1, 2, 3, 4]
    assert (tracer.current_training_iteration, tracer.current_evaluation_iteration) == (4, 4)


def test_a_variable_is_gathered_in_iterations_that_are_not_traced_too() -> None:
    variable = Variable(["forward"], trace_interval=2, gather_interval=3)
    trace(variable, count=5)
    assert variable.results["forward"].iterations == [2]


def test_a_variable_takes_callbacks_of_the_readmes_version() -> None:
    def halve(name: str, values: list[Any], iterations: list[int], ranks: list[int]) -> None:
        del values[1::2], iterations[1::2], ranks[1::2]

    variable = Variable(["forward"], post_gather_callbacks=[halve], gather_interval=4)
    trace(variable)
    assert variable.results["forward"].iterations == [1, 3]


def test_a_variables_callback_that_raises_leaves_the_values(capsys: pytest.CaptureFixture[str]) -> None:
    def fails(name: str, results: GlobalVariableResult) -> None:
        results.values = []
        raise RuntimeError("no")

    variable = Variable(["forward"], post_gather_callbacks=[fails])
    trace(variable)
    assert len(variable.results["forward"].values) == 4
    assert "fails raised" in capsys.readouterr().err


def test_results_are_made_from_their_lists() -> None:
    local, everywhere = LocalVariableResult([1], [2.0]), GlobalVariableResult([1], [0], [2.0])
    assert (local.iterations, local.values) == ([1], [2.0])
    assert (everywhere.iterations, everywhere.ranks, everywhere.values) == ([1], [0], [2.0])
    assert everywhere == GlobalVariableResult(iterations=[1], ranks=[0], values=[2.0])


# ---- HDF5


def saved(folder: Path, callbacks: tuple[Any, ...] = (), **options: Any) -> dict[str, Any]:
    saver = H5PYSaverCallback(folder / "new" / "test.h5", **options)
    trace(["forward", "forward.gain"], gathering_interval=2, post_gather_callbacks=[*callbacks, saver])
    saver.close()
    with h5py.File(folder / "new" / "test.h5") as file:
        return {name: file[name][()] for name in file}


def test_the_file_has_datasets_of_values_iterations_and_ranks(tmp_path: Path) -> None:
    found = saved(tmp_path)
    assert found["forward"].shape == (4, 5, 3)
    assert found["forward_iterations"].tolist() == [1, 2, 3, 4]
    assert found["forward_ranks"].tolist() == [0, 0, 0, 0]
    assert found["forward.gain"].tolist() == [1.0]
    assert found["forward.gain_iterations"].tolist() == [1]


def test_stacked_values_keep_every_iteration_in_one_row(tmp_path: Path) -> None:
    found = saved(tmp_path, (stack_padded_tensors,))
    assert found["forward"].shape == (2, 2, 5, 3)
    assert found["forward_iterations"].tolist() == [1, 2, 3, 4]


def test_numbers_have_the_types_that_are_asked_for(tmp_path: Path) -> None:
    found = saved(tmp_path, iteration_dtype=np.int16, float_dtype=np.float64, compression="gzip", compression_opts=4)
    assert (found["forward"].dtype, found["forward_iterations"].dtype) == (np.float64, np.int16)
    (tmp_path / "default").mkdir()
    assert saved(tmp_path / "default")["forward"].dtype == np.float32


def test_an_existing_file_is_replaced_or_refused(tmp_path: Path) -> None:
    saved(tmp_path)
    assert saved(tmp_path)["forward"].shape == (4, 5, 3)
    with pytest.raises(ValueError, match="exists"):
        H5PYSaverCallback(tmp_path / "new" / "test.h5", existing_ok=False)


def test_the_saver_says_which_file_it_writes(tmp_path: Path) -> None:
    saver = H5PYSaverCallback(dataset_file=str(tmp_path / "test.h5"))
    assert saver.dataset_file == tmp_path / "test.h5"
    trace(["forward"], post_gather_callbacks=[saver])
    assert saver.h5_file["forward"].shape == saver.datasets["forward"].shape == (4, 5, 3)
    assert list(saver.datasets) == ["forward"]
    saver.close()


def test_values_that_come_after_close_are_appended(tmp_path: Path) -> None:
    saver = H5PYSaverCallback(tmp_path / "test.h5")
    for _ in range(2):
        trace(["forward"], post_gather_callbacks=[saver])
        saver.close()
    with h5py.File(tmp_path / "test.h5") as file:
        assert file["forward"].shape == (8, 5, 3)
        assert file["forward_iterations"][()].tolist() == [1, 2, 3, 4] * 2


def test_the_saver_is_a_callback_of_a_variable_too(tmp_path: Path) -> None:
    saver = H5PYSaverCallback(tmp_path / "test.h5")
    variable = Variable(["forward"], post_gather_callbacks=[stack_padded_tensors, saver], gather_interval=2)
    trace(variable)
    assert saver.datasets["forward"].shape == (4, 5, 3)  # there, stacked values are written row by row
    assert variable.results["forward"].values == []
    saver.close()


# ---- names


def test_every_name_can_be_imported_from_where_it_is_there() -> None:
    from clew.compat.tensortrace import h5py_tracer, tracer, variable

    assert h5py_tracer.H5PYSaverCallback is H5PYSaverCallback
    assert (tracer.ModelTracer, tracer.trace_model, tracer.stack_tensors) == (ModelTracer, trace_model, stack_tensors)
    assert variable.Variable is Variable

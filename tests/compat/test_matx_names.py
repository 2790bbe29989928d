"""The names and options that code written for Matx uses."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew.compat import matx
from clew.compat.matx import pipeline
from clew.errors import TargetError


class AddX:
    def __init__(self, x: int) -> None:
        self._x = x

    def __call__(self, x: int) -> int:
        return self._x + x

    def subtract(self, x: int) -> int:
        return x - self._x


def add(x: int, y: int) -> int:
    return x + y


class Clock:
    """Knows when it was made."""

    def __init__(self) -> None:
        self.made = time.perf_counter_ns()

    def __call__(self) -> int:
        return self.made


class OtherClock(Clock):
    pass


class Info:
    def process(self) -> int:
        return 2


class Nested:
    """Makes an operator in its constructor, and is given another."""

    __slots__ = ["given", "own"]

    def __init__(self, given: Any) -> None:
        self.own = matx.script(Info)()
        self.given = given

    def __call__(self, x: int) -> int:
        return int(self.own.process() + self.given.process() + x)


# ---- the pipeline


def test_trace_and_load_are_names_of_the_pipeline(tmp_path: Path) -> None:
    double = matx.script(lambda x: x * 2)
    module = pipeline.Trace(lambda x: double(x), 3)
    pipeline.Save(module, tmp_path / "saved")
    assert matx.pipeline.Load(tmp_path / "saved", -1).run({"x": 4}) == 8
    assert isinstance(module, pipeline.JITModule)


def test_the_pipeline_is_a_module_that_can_be_imported_by_itself() -> None:
    import clew.compat.matx.pipeline as imported

    assert imported.Trace is matx.trace


def test_the_older_names_of_a_module_work() -> None:
    module = matx.trace(lambda x: x + 1, 1)
    module.SetAttr("key", [1])
    module.SetOpParallelismThreads(2)
    assert (module.Run({"x": 2}), module.GetAttr("key"), module.HasAttr("key")) == (3, [1], True)
    assert module.InputNames() == ["x"]
    module.DisableOpParallelism()
    assert module.get_op_parallelism_threads() == 1


def test_another_number_of_values_than_the_traced_one_is_a_value_error() -> None:
    make = matx.script(lambda n: ["hi"] * n)

    def unpack(n: int) -> Any:
        a, b, c = make(n)
        return a, b, c

    def loop(n: int) -> Any:
        return tuple(value for value in make(n))

    for function in (unpack, loop):
        module = matx.trace(function, 3)
        assert module.Run({"n": 3}) == ("hi", "hi", "hi")
        for number in (2, 4):
            with pytest.raises(ValueError, match="the length"):
                module.Run({"n": number})


def test_objects_of_operator_classes_are_inputs(tmp_path: Path) -> None:
    creator = matx.script(AddX)
    read = matx.script(lambda info: info.subtract(10))
    module = matx.trace(lambda info: read(info), info=creator(1))
    module.save(tmp_path / "saved")
    assert module.run(feed_dict={"info": creator(2)}) == 8
    assert matx.load(tmp_path / "saved", -1).run({"info": creator(3)}) == 7


def test_a_nested_operator_is_scripted_traced_saved_and_loaded(tmp_path: Path) -> None:
    def process(x: int) -> Any:
        return matx.script(Nested)(matx.script(Info)())(x)

    module = matx.trace(process, 1)
    module.save(tmp_path / "saved")
    assert process(3) == module.run({"x": 3}) == matx.load(tmp_path / "saved", "cpu").run({"x": 3}) == 7


# ---- sessions


def test_a_session_of_a_function_needs_no_example(tmp_path: Path) -> None:
    session = matx.toolchain.make_session(add)
    assert session.input_names == ["x", "y"]
    assert session.run({"x": 2, "y": 3}) == 5
    session.save(tmp_path / "saved")
    assert matx.load(tmp_path / "saved", -1).run({"x": 2, "y": 3}) == 5


def test_a_session_of_a_class_takes_its_arguments_and_may_name_a_method(tmp_path: Path) -> None:
    session = matx.toolchain.make_session(AddX)(7)
    assert (session.input_names, session.run({"x": 2})) == (["x"], 9)
    other = matx.toolchain.make_session(AddX, method="subtract")(7)
    other.save(tmp_path / "saved")
    assert other.run({"x": 2}) == matx.load(tmp_path / "saved", -1).run({"x": 2}) == -5


@pytest.mark.parametrize(("target", "method"), [(AddX, "nothing"), (AddX(1), "__call__"), (3, "__call__")])
def test_a_session_of_something_else_is_refused(target: Any, method: str) -> None:
    with pytest.raises(TargetError, match="make_session"):
        matx.toolchain.make_session(target, method)


# ---- sharing


def test_loads_of_one_bundle_share_their_operators(tmp_path: Path) -> None:
    clock = matx.script(Clock)()
    matx.trace(lambda: clock()).save(tmp_path / "saved")
    first, second = matx.load(tmp_path / "saved", -1), matx.load(tmp_path / "saved", -1)
    assert first.run({}) == second.run({}) != clock()


def test_an_operator_with_share_false_is_made_by_each_load(tmp_path: Path) -> None:
    clock = matx.script(OtherClock, share=False)()
    matx.trace(lambda: clock()).save(tmp_path / "saved")
    first, second = matx.load(tmp_path / "saved", -1), matx.load(tmp_path / "saved", -1)
    assert len({first.run({}), second.run({}), clock()}) == 3


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> int:
        self.count += 1
        return self.count


def test_share_false_holds_for_the_objects_of_that_call_alone(tmp_path: Path) -> None:
    shared = matx.script(Counter)()
    own = matx.script(Counter, share=False)()
    matx.trace(lambda: (shared(), own())).save(tmp_path / "saved")
    first, second = matx.load(tmp_path / "saved", -1), matx.load(tmp_path / "saved", -1)
    runs = [tuple(one.run({})) for one in (first, first, second, first, second)]
    assert [count - 1 for count, _ in runs] == [1, 2, 3, 4, 5]  # matxscript 1.8.1 gives the same; traced with one call
    assert [count - 1 for _, count in runs] == [1, 2, 1, 3, 2]


class Holder:
    def __init__(self, held: Any) -> None:
        self.held = held

    def __call__(self) -> int:
        return self.held()


def test_what_holds_an_operator_with_share_false_is_not_shared_either(tmp_path: Path) -> None:
    held = matx.script(Counter, share=False)()
    holder = matx.script(Holder)(held)
    matx.trace(lambda: (holder(), held())).save(tmp_path / "saved")
    loads = [matx.load(tmp_path / "saved", -1) for _ in range(3)]
    runs = [one.run({}) for one in loads]
    assert runs[0] == runs[1] == runs[2]
    assert runs[0][1] == runs[0][0] + 1  # one counter in each load


def test_share_false_is_saved_again(tmp_path: Path) -> None:
    own = matx.script(Counter, share=False)()
    matx.trace(lambda: own()).save(tmp_path / "saved")
    matx.load(tmp_path / "saved", -1).save(tmp_path / "again")
    first, second = matx.load(tmp_path / "again", -1), matx.load(tmp_path / "again", -1)
    assert first.run({}) == second.run({})


# ---- timelines


def test_the_meta_data_of_a_run_has_times_inputs_and_outputs() -> None:
    double = matx.script(lambda x: x * 2)
    meta = matx.trace(lambda x: double(x) + 1, 1).gen_step_meta({"x": 4})
    assert [(one["inputs"], one["output"]) for one in meta["ops"]] == [([4], 8), ([8, 1], 9)]
    assert all(meta["start"] <= one["start"] <= one["end"] <= meta["end"] for one in meta["ops"])


def test_a_timeline_has_a_row_for_each_operator_and_one_for_the_whole() -> None:
    meta = {"start": 0, "end": 4_000_000, "ops": [{"op": "double", "start": 1_000_000, "end": 2_000_000}]}
    assert matx.Module.gen_timeline(meta) == [
        ["double", "00:00:00.001000", "00:00:00.002000", "1.0000(ms)", "25.00%"],
        ["Total", "00:00:00.000000", "00:00:00.004000", "4.0000(ms)", "----"],
    ]


# ---- containers, arrays, devices


def test_containers_are_those_of_python(tmp_path: Path) -> None:
    module = matx.trace(lambda x: x, 1)
    module.set_sess_attr("allowed_batch_size", matx.List([4, 8, 16]))
    module.set_sess_attr("names", matx.Dict({"a": 1}))
    module.save(tmp_path / "saved")
    loaded = matx.load(tmp_path / "saved", -1)
    assert loaded.get_sess_attr("allowed_batch_size") == [4, 8, 16]
    assert loaded.get_sess_attr("names") == {"a": 1}


def test_an_array_is_made_in_the_three_ways_of_matx() -> None:
    assert matx.NDArray([1, 2, 3, 4, 5, 6], [3, 2], "int32").tolist() == [[1, 2], [3, 4], [5, 6]]
    assert matx.NDArray([[1, 2], [3, 4]], [], "float32").shape() == [2, 2]
    assert matx.NDArray([], [2, 3], "float32").shape() == [2, 3]
    assert matx.NDArray(1, [2, 2], "int32").tolist() == [[1, 1], [1, 1]]


def test_an_array_tells_what_it_is_by_methods() -> None:
    array = matx.NDArray([1, 2, 3, 4], [2, 2], "int32")
    turned = array.transpose()
    assert (array.dtype(), array.dim(), array.device(), len(array)) == ("int32", 2, "cpu", 2)
    assert (turned.stride(), turned.is_contiguous(), turned.contiguous().is_contiguous()) == ([1, 2], 0, 1)
    assert turned.to_list() == [[1, 3], [2, 4]]


def test_items_of_an_array_are_read_and_written() -> None:
    array = matx.NDArray([1, 2, 3, 4], [2, 2], "int32")
    array[0] = 7
    assert (array[0][1], array[-1].tolist(), array[0:1].tolist()) == (7, [3, 4], [[7, 7]])
    with pytest.raises(IndexError):
        array[2]
    with pytest.raises(TypeError):
        hash(array)


def test_arrays_are_joined_and_computed_with() -> None:
    a, b = matx.NDArray([1.0, 2.0], [2], "float32"), matx.NDArray([3.0, 4.0], [2], "float32")
    assert matx.array.stack([a, b]).shape() == [2, 2]
    assert matx.array.concatenate([a, b]).tolist() == [1, 2, 3, 4]
    found = [matx.array.add(a, b), matx.array.sub(a, 1), matx.array.mul(a, b), matx.array.div(b, 2)]
    assert [one.tolist() for one in found] == [[4, 6], [0, 1], [3, 8], [1.5, 2]]
    assert (matx.array.rand([2, 3]).shape(), matx.array.rand([2, 3]).dtype()) == ([2, 3], "float32")


def test_an_array_becomes_numpy_and_comes_from_it() -> None:
    given = np.arange(6.0, dtype="float32").reshape(2, 3)
    array = matx.array.from_numpy(given)
    given[0, 0] = 9
    assert array[0][0] == 0  # a copy
    assert np.array_equal(np.asarray(array), array.asnumpy()) and array.numpy().dtype == np.float32
    assert array.reshape([3, 2]).unsqueeze(0).squeeze().shape() == [3, 2]
    assert array.from_numpy(given)[0][0] == 9
    with pytest.raises(ValueError, match="does not fit"):
        array.from_numpy(given.T)


def test_an_array_is_made_and_indexed_in_a_pipeline(tmp_path: Path) -> None:
    @matx.script
    def make(dtype: str) -> matx.NDArray:
        return matx.NDArray([1, 2, 3, 4, 5, 6, 7, 8], [2, 2, 2], dtype)

    def process(dtype: str, index: int) -> Any:
        return make(dtype)[index][index][index]

    module = matx.trace(process, "int32", 0)
    module.save(tmp_path / "saved")
    assert module.run({"dtype": "int32", "index": 0}) == 1
    assert matx.load(tmp_path / "saved", -1).run({"dtype": "int32", "index": 1}) == 8


def test_an_array_that_is_a_constant_is_saved(tmp_path: Path) -> None:
    bias = matx.NDArray([1, 2], [2], "int32")
    shift = matx.script(lambda x: matx.array.add(x, bias).tolist())
    matx.trace(lambda x: shift(x), 1).save(tmp_path / "saved")
    assert matx.load(tmp_path / "saved", -1).run({"x": 10}) == [11, 12]


def test_a_device_is_an_operator_that_a_function_may_use(tmp_path: Path) -> None:
    device = matx.Device("cpu")
    number = matx.script(lambda: device())
    matx.trace(lambda: number()).save(tmp_path / "saved")
    assert matx.load(tmp_path / "saved", device).run({}) == device() == -1
    assert (matx.Device("cuda:1")(), matx.Device(0)()) == (1, 0)


def test_calls_outside_a_graph_use_no_threads() -> None:
    assert pipeline.TXObject.default_sess.get_pmap_threads() == 1
    assert list(matx.pmap(matx.script(lambda x: x + 1), [1, 2])) == [2, 3]


def test_names_that_are_no_inputs_are_left_aside() -> None:
    @matx.script
    def add(a: int, b: int) -> int:
        return a + b

    module = matx.trace(lambda a, b: add(a, b), 1, 2)
    feed = {"a": 3, "b": 4, "request_id": "x7"}
    assert module.run(feed) == module.warmup(feed) == 7
    assert module.gen_step_meta(feed)["ops"][0]["output"] == 7


def test_what_is_missing_is_the_error_that_it_is_in_matx(tmp_path: Path) -> None:
    @matx.script
    def add(a: int, b: int) -> int:
        return a + b

    module = matx.trace(lambda a, b: add(a, b), 1, 2)
    with pytest.raises(TypeError, match="input `b` is missing"):
        module.run({"a": 1})
    with pytest.raises(FileNotFoundError, match="is not there"):
        matx.load(tmp_path / "nowhere", -1)


def test_an_input_that_has_a_default_may_be_left_out() -> None:
    @matx.script
    def add(a: int, b: int) -> int:
        return a + b

    def pipeline_with_default(a: int, b: int = 7) -> Any:
        return add(a, b)

    assert matx.trace(pipeline_with_default, 1, 2).run({"a": 1}) == 8


def test_a_tuple_is_made_of_its_items() -> None:
    assert matx.Tuple(1, 2) == (1, 2)
    assert matx.Tuple((1, 2)) == ((1, 2),)
    assert isinstance((1,), matx.Tuple) and not isinstance([1], matx.Tuple)


def test_an_array_has_the_conversions_of_matx() -> None:
    array = matx.NDArray([[1, 2], [3, 4]], [], "int64")
    assert array.as_type("float32").dtype() == "float32"
    assert array.same_as(array) and not array.same_as(array.as_type("int64"))
    assert matx.array.div(array, 2).dtype() == "float32"
    assert matx.array.add(array, 2.5).dtype() == matx.array.mul(array, array.as_type("float32")).dtype() == "float32"
    assert matx.array.div(array.as_type("float64"), 2).dtype() == "float64"

"""clew.compat.hyrax without hyrax: what its page documents, and what hyrax's own module does not do well."""

from __future__ import annotations

import copy
import os
import pickle
import sys
import types
from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import clew
from clew.compat import hyrax
from clew.compat.hyrax import (
    TraceContext,
    TraceDef,
    TraceResult,
    get_trace,
    last_trace,
    reset_trace,
    trace_dataset_func,
    trace_func,
    trace_model_func,
    trace_verb_data,
)
from clew.errors import OptionError, TargetError

STAGES = ["dataset_getter", "resolve_data", "field_level_collation", "collate", "prepare_inputs", "evaluation"]
Pair = namedtuple("Pair", "image label")


class Images:
    """A dataset as hyrax's users write them."""

    def get_image(self, idx: int) -> Any:
        return self.clean(np.full(3, float(idx)))

    @staticmethod
    def get_size(idx: int) -> int:
        return idx * 10

    @trace_dataset_func
    def clean(self, image: Any, scale: float = 1.0, *, offset: float = 0.0) -> Any:
        return image * scale + offset

    def collate(self, samples: list[Any]) -> Any:
        return np.stack(samples)

    def __len__(self) -> int:
        return 20


class Model:
    def forward(self, batch: Any) -> Any:
        return batch.sum(1)

    def train_batch(self, batch: Any) -> dict[str, float]:
        return {"loss": float(self.forward(batch).mean())}

    @staticmethod
    def prepare_inputs(batch: Any) -> Any:
        return batch / 2


class Inherited(Model):
    """Has nothing of its own."""


class Provider:
    def __init__(self, dataset: Images) -> None:
        self.getter = dataset.get_image
        self.dataset = dataset

    def resolve_data(self, idx: int) -> dict[str, Any]:
        return {"image": self.getter(idx)}

    def collate(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        return self.handle_nans({"image": np.stack([row["image"] for row in rows])})

    def handle_nans(self, batch: dict[str, Any]) -> dict[str, Any]:
        batch["image"] = np.nan_to_num(batch["image"])
        return batch


class Verb:
    """The smallest verb: a loader, a model, one epoch after the other."""

    def __init__(self, model: type[Model] = Model) -> None:
        self.config: dict[str, Any] = {
            "train": {"epochs": 3},
            "data_loader": {"batch_size": 4},
            "data_set": {"use_cache": True},
        }
        self.model = model

    @trace_verb_data
    def run(self, fail: bool = False) -> str:
        """Train."""
        trace = get_trace()
        provider, model = Provider(Images()), self.model()
        if trace:
            trace.instrument_dataprovider(provider)
            provider.getter = trace.instrument_dataset_getter(provider.dataset, provider.getter, "data", "image")
        for _ in range(self.config["train"]["epochs"]):
            rows = [provider.resolve_data(idx) for idx in range(self.config["data_loader"]["batch_size"])]
            batch = model.prepare_inputs(provider.collate(rows)["image"])
            if fail:
                raise RuntimeError("out of memory")
            model.train_batch(batch)
        return "trained"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[str, type]:
    """hyrax's registry of models, as if hyrax were there."""
    known: dict[str, type] = {"Model": Model, "Inherited": Inherited}
    module = types.ModuleType("hyrax.models.model_registry")
    module.MODEL_REGISTRY = known  # type: ignore[attr-defined]
    for name in ("hyrax", "hyrax.models"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return known


@pytest.fixture
def trace() -> Iterator[TraceResult]:
    with TraceContext(2, None):
        found = get_trace()
        assert found is not None
        yield found


def test_without_trace_a_verb_gives_what_it_gives() -> None:
    assert [Verb().run(), Verb().run(trace=0), Verb().run(trace=None), Verb().run(trace=False)] == ["trained"] * 4


def test_with_trace_a_verb_gives_the_trace(registry: dict[str, type]) -> None:
    trace = Verb().run(trace=2)
    assert list(trace.stages) == STAGES
    assert [call.disp_name for call in trace.dataset_getter] == ["data__get_image", "clean"] * 2
    assert [call.disp_name for call in trace.collate] == ["DataProvider__collate", "DataProvider__handle_nans"]
    assert [call.disp_name for call in trace.prepare_inputs] == ["Model__prepare_inputs"]
    assert [call.disp_name for call in trace.evaluation] == ["Model__train_batch", "Model__forward"]
    assert trace.evaluation[0].loss_dict == {"loss": 0.75}
    assert get_trace() is None


def test_true_is_one_item() -> None:
    assert len(Verb().run(trace=True).resolve_data) == 1


@pytest.mark.parametrize("asked", [-1, "two", 2.5])
def test_what_is_no_number_of_items_is_refused(asked: Any) -> None:
    with pytest.raises(OptionError, match="trace="):
        Verb().run(trace=asked)
    assert get_trace() is None


def test_a_verb_keeps_its_name_and_signature() -> None:
    assert Verb.run.__name__ == "run"
    assert Verb.run.__doc__ == "Train."
    assert Verb.run.__wrapped__.__qualname__ == "Verb.run"


def test_the_config_is_altered_for_the_trace_alone() -> None:
    config: dict[str, Any] = {"train": {"epochs": 3}, "data_loader": {}, "data_set": {"use_cache": True}, "x": 1}
    before = copy.deepcopy(config)
    with TraceContext(5, config) as altered:
        assert altered is config
        assert config == {
            "train": {"epochs": 1},
            "data_loader": {"batch_size": 5},
            "data_set": {"use_cache": False},
            "x": 1,
        }
    assert config == before


def test_a_trace_is_true_also_when_it_is_empty(trace: TraceResult) -> None:
    assert bool(trace)
    assert not trace.collate


def test_the_clew_run_has_the_same_stages_and_calls(registry: dict[str, type]) -> None:
    trace = Verb().run(trace=3)
    recorded = clew.open("latest").trace
    expected = {name: [call.disp_name for call in stage] for name, stage in trace.stages.items() if stage}
    assert {stage.name: [call.function for call in stage] for stage in recorded} == expected
    assert set(recorded.item(1).stages) == set(expected)
    assert recorded.altered == [
        "train.epochs = 1, not 3",
        "data_loader.batch_size = 3, not 4",
        "data_set.use_cache = False, not True",
    ]
    assert trace.recorded is not None
    assert len(trace.recorded["evaluation"]) == 2


def test_the_object_a_method_belongs_to_is_no_input_of_the_clew_run(trace: TraceResult) -> None:
    images = Images()
    images.clean(np.ones(3))
    assert trace.dataset_getter[0]["000_call"] is images
    assert trace.recorded is not None
    assert list(trace.recorded.dataset_getter[0].inputs) == ["001_call"]


def test_it_traces_also_when_clew_is_switched_off() -> None:
    clew.off()
    try:
        trace = Verb().run(trace=2)
    finally:
        clew.on()
    assert len(trace.resolve_data) == 2
    assert len(trace.recorded.calls) == 0


def test_a_reset_begins_again_in_the_clew_run_too(trace: TraceResult) -> None:
    Images().get_image(0)
    Images().clean(np.zeros(2))
    reset_trace()
    Images().clean(np.ones(3))
    assert len(trace.dataset_getter) == 1
    assert trace.recorded is not None
    assert len(trace.recorded["dataset_getter"]) == 1
    assert len(clew.open("latest").traces) == 2


def test_a_reset_without_a_trace_does_nothing() -> None:
    reset_trace()
    assert get_trace() is None


# ---- what hyrax's own module does not do


def test_inherited_methods_are_traced_and_the_class_is_left_as_it_was(registry: dict[str, type]) -> None:
    before = [dict(vars(Model)), dict(vars(Inherited))]
    trace = Verb(Inherited).run(trace=2)
    assert [call.disp_name for call in trace.evaluation] == ["Inherited__train_batch", "Inherited__forward"]
    assert [dict(vars(Model)), dict(vars(Inherited))] == before


def test_shims_are_removed_when_the_verb_raises_and_the_trace_is_not_lost(registry: dict[str, type]) -> None:
    before, verb = dict(vars(Model)), Verb()
    with pytest.raises(RuntimeError, match="out of memory") as caught:
        verb.run(fail=True, trace=2)
    assert dict(vars(Model)) == before
    assert verb.config["train"]["epochs"] == 3
    assert get_trace() is None
    trace = last_trace()
    assert trace is not None
    assert len(trace.prepare_inputs) == 1
    assert len(clew.open("latest").trace["prepare_inputs"]) == 1
    assert any("last_trace()" in note for note in caught.value.__notes__)


def test_a_call_that_raised_says_so(trace: TraceResult) -> None:
    @trace_func(stage_name="collate")
    def failing(rows: list[int]) -> None:
        raise ValueError("rows of two sizes")

    with pytest.raises(ValueError, match="rows of two sizes"):
        failing([1])
    call = trace.collate[0]
    assert call.retval == {}
    assert "raised ValueError: rows of two sizes" in str(trace)
    with pytest.raises(KeyError, match="It raised ValueError"):
        call["return_value"]


def test_keyword_arguments_are_captured_as_if_given_by_position(trace: TraceResult) -> None:
    @trace_model_func(params_to_capture={"images": 1, "factor": 2}, result_name="scaled")
    def scale(model: Any, images: Any, factor: int = 3) -> Any:
        return images * factor

    scale(None, images=2)
    scale(None, 2, factor=5)
    assert [(call.images, call.factor, call.scaled) for call in trace.evaluation] == [(2, 3, 6), (2, 5, 10)]


def test_every_argument_has_its_number_and_keyword_only_ones_their_name(trace: TraceResult) -> None:
    images = Images()
    images.clean(1.0)
    images.clean(image=2.0, scale=3.0, offset=1.0)
    assert [list(call.params) for call in trace.dataset_getter] == [
        ["000_call", "001_call"],
        ["000_call", "001_call", "002_call", "offset"],
    ]


@pytest.mark.parametrize("captured", [None, {}])
def test_without_names_every_argument_is_captured_and_the_result_has_hyraxs_name(
    trace: TraceResult, captured: Any
) -> None:
    add = hyrax.TraceResult._make_shim(lambda a, b: a + b, TraceDef("add", "add", captured, None, "collate"))
    assert add(1, 2) == 3
    assert trace.collate[0].params == {"000_call": 1, "001_call": 2}
    assert trace.collate[0].retval == {"return_value": 3}


def test_a_parameter_is_captured_by_its_position_alone() -> None:
    with pytest.raises(OptionError, match=r"'image' leads to 'image'"):
        trace_func(stage_name="collate", params_to_capture={"image": "image"})(len)


def test_a_shim_of_a_class_method_or_a_static_one_is_one_too(trace: TraceResult) -> None:
    definition = TraceDef("make", "make", {}, "made", "collate")

    class Made:
        by_class = TraceResult._make_shim(classmethod(lambda cls, x: (cls, x)), definition)
        static = TraceResult._make_shim(staticmethod(lambda x: x), definition)

    assert Made.by_class(1) == (Made, 1) and Made().static(2) == 2
    assert len(trace.collate) == 2


def test_a_position_that_does_not_exist_is_left_out(trace: TraceResult) -> None:
    @trace_func(stage_name="collate", params_to_capture={"rows": 0, "more": 7})
    def collate(rows: Any) -> Any:
        return rows

    assert collate(4) == 4
    assert trace.collate[0].params == {"rows": 4}


def test_a_wrong_call_raises_what_it_raises_without_a_trace(trace: TraceResult) -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        Images().clean()  # type: ignore[call-arg]


def test_static_getters_are_traced(trace: TraceResult) -> None:
    images = Images()
    getter = trace.instrument_dataset_getter(images, images.get_size, "data", "size")
    assert getter(3) == 30
    assert trace.dataset_getter[0].params == {"index": 3}
    assert trace.dataset_getter[0].size == 30


def test_values_are_what_they_were_at_that_moment(trace: TraceResult) -> None:
    @trace_func(stage_name="collate")
    def double(batch: dict[str, Any]) -> dict[str, Any]:
        batch["x"] *= 2
        batch["new"] = [1]
        return batch

    given = {"x": np.ones(2)}
    double(given)["x"] += 100
    call = trace.collate[0]
    assert call["000_call"].keys() == {"x"}
    assert call["000_call"]["x"].tolist() == [1, 1]
    assert call.return_value["x"].tolist() == [2, 2]


def test_copies_have_the_types_of_what_they_are_copies_of(trace: TraceResult) -> None:
    given = [np.float32(2), Pair(np.ones(2), {1, 2}), (b"x", "y", None), {"a": [np.arange(3, dtype=np.uint8)]}]
    trace.trace_call(TraceDef("f", "f", {"given": 0}, "r", "collate"), given)
    found = trace.collate[0].given
    assert [type(each) for each in found] == [type(each) for each in given]
    assert found[1] is not given[1]
    assert found[1].label == {1, 2}
    assert found[3]["a"][0].dtype == np.uint8


def test_what_cannot_be_copied_is_the_object_itself(trace: TraceResult) -> None:
    own: list[Any] = [Images()]
    own.append(own)
    trace.trace_call(TraceDef("f", "f", None, "r", "collate"), own)
    found = trace.collate[0]["000_call"]
    assert found[0] is own[0]
    assert "Images" in str(trace)


def test_hasattr_copy_and_pickle_work() -> None:
    with TraceContext(2, None):
        Images.get_size(1)
        trace = get_trace()
        assert trace is not None
        trace.trace_call(TraceDef("f", "f", {"x": 0}, "r", "collate"), np.ones(2))(3, 10)
    assert not hasattr(trace, "nothing")
    assert not hasattr(trace.collate, "nothing")
    assert not hasattr(trace.collate[0], "nothing")
    for again in (copy.copy(trace), copy.deepcopy(trace), pickle.loads(pickle.dumps(trace))):
        assert again.collate[0].x.tolist() == [1, 1]
        assert str(again) == str(trace)


def test_a_part_of_a_stage_is_a_stage(trace: TraceResult) -> None:
    for number in range(4):
        trace.trace_call(TraceDef("f", "f", {"x": 0}, "r", "collate"), number)
    assert [call.x for call in trace.collate[1:3]] == [1, 2]
    assert trace.collate[-1].x == 3
    assert len(trace.collate["f"]) == len(trace.collate.f) == 4


def test_what_is_missing_is_told_with_what_there_is(trace: TraceResult) -> None:
    trace.trace_call(TraceDef("data__collate", "collate", {"samples": 0}, "batch", "collate"), [1])([1], 5)
    for error in (KeyError, AttributeError):
        with pytest.raises(error, match="prepare_inputs"):
            trace["colate"]
    with pytest.raises(IndexError, match="data__collate"):
        trace.collate[7]
    with pytest.raises(KeyError, match="data__collate"):
        trace.collate["nothing"]
    with pytest.raises(KeyError, match="samples"):
        trace.collate[0]["nothing"]


def test_a_field_is_found_by_name_attribute_and_number(trace: TraceResult) -> None:
    trace.trace_call(TraceDef("f", "f", {"x": 0, "y": 1}, "x", "collate"), 1, 2)(9, 5)
    call = trace.collate[0]
    assert call["y"] == call.y == call[1] == 2
    assert call.x == (1, 9)
    assert call.duration_ns == 5
    assert dir(call) == ["x", "y"]
    assert dir(trace) == sorted(STAGES)


def test_calls_and_fields_are_found_by_a_number_as_text(trace: TraceResult) -> None:
    for number in range(3):
        trace.trace_call(TraceDef("f", "f", {"x": 0}, "y", "collate"), number)(number + 10, 5)
    stage = trace.collate
    assert stage["0"] is stage[0]
    assert stage["-1"] is stage[2]
    assert (stage[0]["0"], stage[0]["1"], stage[0]["-1"]) == (0, 10, 10)
    with pytest.raises(IndexError):
        stage["3"]
    with pytest.raises(KeyError):
        stage[0]["2"]


def test_a_name_that_is_a_number_comes_before_the_number(trace: TraceResult) -> None:
    trace.trace_call(TraceDef("1", "f", {"0": 1, "x": 0}, "y", "collate"), "first", "second")("third", 5)
    assert trace.collate["1"] == [trace.collate[0]]
    assert trace.collate[0]["0"] == "second"


def test_values_are_printed_with_an_equals_sign(trace: TraceResult) -> None:
    definition = TraceDef("f", "f", {"x": 0, "s": 1, "d": 2}, "y", "collate")
    trace.trace_call(definition, 3, "a: b", {"k": np.zeros(20)})(0.5, 2_000_000)
    head, *lines = str(trace.collate[0]).splitlines()
    assert head == "f(x, s, d) -> y duration=2 ms"
    assert lines[:3] == ["inputs:", "\tx = 3", "\ts = 'a: b'"]
    assert lines[3].startswith("\td = dict") and lines[4].startswith("\t\tk: ")
    assert lines[5:] == ["outputs:", "\ty = 0.5"]


def test_printing_never_raises(trace: TraceResult) -> None:
    class Rude:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    ends = trace.trace_call(TraceDef("f", "f", None, "r", "collate"), Rude(), np.array([object()]), range(3), print)
    assert "has not ended" in repr(trace)
    ends(Rude(), 2_000_000)
    shown = str(trace.collate)
    assert "f(000_call, 001_call, 002_call, 003_call) -> r duration=2 ms" in shown
    assert shown.count("Rude") == 2


def test_an_empty_stage_prints_as_an_empty_list(trace: TraceResult) -> None:
    lines = [f"\t{name}: []" for name in STAGES]
    assert str(trace) == "\n".join(["Trace Stages {", *lines, "}", ""])
    assert repr(trace) == str(trace)


def test_nested_traces_are_apart_and_leave_nothing(registry: dict[str, type]) -> None:
    before = [dict(vars(Model)), dict(vars(Inherited))]
    with TraceContext(2, None):
        outer = get_trace()
        Model().forward(np.ones((2, 2)))
        with TraceContext(3, None):
            inner = get_trace()
            Model().forward(np.ones((2, 2)))
        assert get_trace() is outer
        Model().forward(np.ones((2, 2)))
    assert [len(outer.evaluation), len(inner.evaluation)] == [2, 1]  # type: ignore[union-attr]
    assert [dict(vars(Model)), dict(vars(Inherited))] == before


def test_stages_of_the_users_own_come_last(trace: TraceResult) -> None:
    @trace_func(stage_name="augment")
    def flip(x: int) -> int:
        return -x

    flip(3)
    assert list(trace.stages) == [*STAGES, "augment"]
    assert trace.augment[0].return_value == -3


def test_decorators_go_on_static_and_class_methods(trace: TraceResult) -> None:
    class Tools:
        @trace_dataset_func(params_to_capture={"x": 0})
        @staticmethod
        def one(x: int) -> int:
            return x

        @trace_dataset_func
        @classmethod
        def two(cls, x: int) -> int:
            return x

    assert [Tools.one(x=1), Tools().one(2), Tools.two(3)] == [1, 2, 3]
    assert [list(call.params) for call in trace.dataset_getter] == [["x"], ["x"], ["000_call", "001_call"]]


def test_a_decorator_on_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(TargetError, match="int cannot be called"):
        trace_dataset_func(3)


# ---- instrumenting


def test_the_instrument_methods_name_calls_as_hyrax_does(trace: TraceResult) -> None:
    class Engine:
        def create_ort_inputs(self, prepared: Any) -> Any:
            return prepared

        def run_onnx_batch(self, inputs: Any) -> Any:
            return inputs

    images, model, engine = Images(), Model(), Engine()
    trace.instrument_dataset_collate(images, images.collate, "data")([np.ones(2)])
    trace.instrument_field_collate(images, images.collate, "data", "image")([np.ones(2)])
    trace.instrument_prepare_inputs_fn(lambda batch: batch)(1)
    trace.instrument_prepare_inputs(model)
    trace.instrument_engine_verb(engine)
    model.prepare_inputs(2)
    engine.run_onnx_batch(engine.create_ort_inputs(3))
    assert [(stage, call.disp_name, *call.params, *call.retval) for stage in trace for call in trace[stage]] == [
        ("field_level_collation", "data__collate_image", "samples", "batch_dict"),
        ("collate", "data__collate", "samples", "batch_dict"),
        ("prepare_inputs", "saved__prepare_inputs", "batch_dict", "batch_ndarray"),
        ("prepare_inputs", "Model_inst_prepare_inputs", "batch_dict", "batch_ndarray"),
        ("evaluation", "Engine__create_ort_inputs", "prepared_batch", "ort_inputs"),
        ("evaluation", "Engine__run_onnx_batch", "ort_inputs", "onnx_results"),
    ]


def test_objects_are_left_as_they_were() -> None:
    images, provider = Images(), Provider(Images())
    before = dict(vars(provider))
    with TraceContext(1, None):
        trace = get_trace()
        assert trace is not None
        kept = trace.instrument_dataset_getter(images, images.get_image, "data", "image")
        trace.instrument_dataprovider(provider)
        assert "resolve_data" in vars(provider)
    assert vars(images) == {}
    assert vars(provider) == before
    assert kept(2).tolist() == [2, 2, 2]  # hyrax holds it; it passes through
    assert len(trace.dataset_getter) == 0


def test_what_is_instrumented_twice_is_traced_once(trace: TraceResult) -> None:
    images = Images()
    once = trace.instrument_dataset_getter(images, images.get_size, "data", "size")
    trace.instrument_dataset_getter(images, once, "data", "size")(1)
    assert len(trace.dataset_getter) == 1


def test_an_object_that_takes_no_attributes_is_traced_through_what_is_returned(trace: TraceResult) -> None:
    class Slotted:
        __slots__ = ()

        def get_x(self, idx: int) -> int:
            return idx

    slotted = Slotted()
    assert trace.instrument_dataset_getter(slotted, slotted.get_x, "data", "x")(4) == 4
    assert trace.dataset_getter[0].x == 4


def test_a_shim_tells_what_it_stands_for(trace: TraceResult) -> None:
    images = Images()
    shim = trace.instrument_dataset_getter(images, images.get_image, "data", "image")
    assert shim.__wrapped__ == Images.get_image.__get__(images)
    assert shim.__name__ == "get_image"


def test_a_class_method_is_instrumented_by_its_definition(trace: TraceResult) -> None:
    trace.instrument_class_data_handler(Inherited, TraceDef("Inherited__sum", "forward", {"x": 1}, "y", "evaluation"))
    assert trace.shimmed_funcs == [(Inherited, "forward", Model.forward)]
    Inherited().forward(np.ones((1, 2)))
    trace.remove_class_level_shims()
    assert trace.evaluation[0].y.tolist() == [2]
    assert "forward" not in vars(Inherited)


def test_a_method_that_is_not_there_is_refused(trace: TraceResult) -> None:
    with pytest.raises(TargetError, match="Model has no `nothing`"):
        trace.instrument_class_data_handler(Model, TraceDef("n", "nothing", {}, "r", "evaluation"))
    with pytest.raises(TargetError, match="Model has no `__len__`"):
        trace.reduce_len(Model)


def test_a_class_has_no_more_items_than_are_traced(trace: TraceResult) -> None:
    class More(Images):
        pass

    trace.reduce_len(More)
    trace.reduce_len(Images)
    assert [len(More()), len(Images())] == [2, 2]
    trace.remove_class_level_shims()
    assert [len(More()), len(Images())] == [20, 20]
    assert "__len__" not in vars(More)


def test_a_class_shorter_than_that_keeps_its_length(trace: TraceResult) -> None:
    class One(Images):
        def __len__(self) -> int:
            return 1

    trace.reduce_len(One)
    assert len(One()) == 1
    trace.remove_class_level_shims()


def test_what_somebody_else_has_put_there_meanwhile_stays(registry: dict[str, type]) -> None:
    class Mine(Model):
        def forward(self, batch: Any) -> Any:
            return 1

    registry["Mine"] = Mine
    with TraceContext(1, None):
        Mine.forward = replaced = lambda self, batch: 2  # type: ignore[assignment,method-assign]
    assert vars(Mine)["forward"] is replaced


def test_loader_workers_are_said_not_to_be_seen(caplog: pytest.LogCaptureFixture) -> None:
    with TraceContext(1, {"data_loader": {"num_workers": 2}}):
        pass
    assert "data_loader.num_workers = 0" in caplog.text
    assert any("num_workers" in note for note in clew.open("latest").trace.notes)


def test_in_a_forked_worker_calls_pass_through(trace: TraceResult, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert Images().clean(1.0) == 1.0
    monkeypatch.undo()
    assert len(trace.dataset_getter) == 0


def test_the_module_has_the_names_of_hyraxs() -> None:
    names = (
        "TraceCall TraceContext TraceDef TracePrintable TraceResult TraceStage get_trace logger reset_trace "
        "trace_dataset_func trace_func trace_model_func trace_result trace_verb_data"
    )
    assert [name for name in names.split() if not hasattr(hyrax, name)] == []

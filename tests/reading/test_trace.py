"""Reading a trace: whatever a person would write to get at something is the way to it."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import clew
from clew.errors import OptionError, UnknownPartError
from clew.reading.trace import StageCall, Trace
from clew.reading.trace_loading import with_later_knowledge
from clew.records import Passage, TraceFacts


def passage(stage: str, function: str, at: int, ids: tuple[Any, ...] = (0,), **more: Any) -> Passage:
    given: dict[str, Any] = {"inputs": {"x": at}, "outputs": {"result": at * 10}, "source": "rows", "duration": 5_000}
    return Passage(stage, function, started=at, ids=ids, **{**given, **more})


@pytest.fixture
def trace() -> Trace:
    batch = {"image": np.arange(6).reshape(2, 3), "label": np.array([7, 8])}
    return Trace.of(
        [
            passage("collate", "DataProvider.collate", 30, (4, 2), inputs={"samples": ["a", "b"]},
                    outputs={"batch": batch}, batch=0, by_row=True),
            passage("load", "Images.__getitem__", 10, (4,), files=("/data/4.png",), batch=0),
            passage("load", "Images.__getitem__", 20, (2,), files=("/data/2.png",), batch=0),
            passage("load", "decode", 21, (2,), batch=0),
            passage("loss", "mse", 40, (4, 2), outputs={"loss": np.array([0.5, 0.25])}, batch=0, by_row=True),
        ],
        TraceFacts(2, "stopped", altered=["two instead of ten"]),
    )  # fmt: skip


def test_stages_are_attributes_and_keys_in_the_order_they_were_reached(trace: Trace) -> None:
    assert list(trace.stages) == ["load", "collate", "loss"]
    assert [stage.name for stage in trace] == ["load", "collate", "loss"]
    assert len(trace) == 3
    assert len(trace.load) == len(trace["load"]) == 3
    assert "collate" in trace
    assert "colate" not in trace


def test_calls_of_a_stage_are_numbered_and_named(trace: Trace) -> None:
    assert trace.load[0].ids == (4,)
    assert trace.load[-1].function == "decode"
    assert [call.ids for call in trace.load["Images.__getitem__"]] == [(4,), (2,)]
    assert len(trace.load["__getitem__"]) == 2
    assert [call.function for call in trace.load[1:]] == ["Images.__getitem__", "decode"]
    assert [call.function for call in trace.load] == ["Images.__getitem__", "Images.__getitem__", "decode"]


def test_what_a_call_was_given_and_gave_is_its_attributes_and_keys(trace: Trace) -> None:
    call = trace.collate[0]
    assert call.batch is call["batch"]
    assert call.samples == call["samples"] == call[0] == ["a", "b"]
    assert list(call) == ["samples", "batch"]
    assert len(call) == 2
    assert call.duration == 5e-6
    assert call.duration_ns == 5_000


def test_a_field_of_the_users_goes_before_a_word_of_ours() -> None:
    call = StageCall(passage("a", "f", 1, inputs={"stage": "mine", "inputs": 3}))
    assert (call.stage, call.inputs, call["stage"]) == ("mine", 3, "mine")
    assert call.passage.stage == "a"


def test_a_name_that_goes_in_and_comes_out_gives_both() -> None:
    call = StageCall(passage("a", "f", 1, inputs={"row": 1}, outputs={"row": 2}))
    assert call.row == call["row"] == (1, 2)


def test_an_item_is_shown_in_every_stage_with_its_row_and_its_part_of_the_loss(trace: Trace) -> None:
    item = trace.item(2)
    assert (item.batch, item.row, item.loss) == (0, 1, 0.25)
    assert item.files == ("/data/2.png",)
    assert item.stages == ["load", "collate", "loss"]
    (step,) = item["collate"]
    assert step.outputs["batch"]["image"].tolist() == [3, 4, 5]
    assert step.outputs["batch"]["label"] == 8
    assert [step.call.function for step in item.load] == ["Images.__getitem__", "decode"]


def test_a_row_leads_back_to_its_sample_and_its_file(trace: Trace) -> None:
    lineage = trace.lineage(batch=0, row=0)
    assert (lineage.id, lineage.file, lineage.sample) == (4, "/data/4.png", 100)
    assert [call.stage for call in lineage.calls] == ["loss", "collate", "load"]


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda t: t.colate, "no stage `colate`; did you mean `collate`? There is `load`, `collate`, `loss`."),
        (lambda t: t["nothing like it"], "there is `load`, `collate`, `loss`."),
        (lambda t: t.load[7], "stage `load` has 3 calls, and none numbered 7"),
        (lambda t: t.load["encode"], "no call of `encode`; did you mean `decode`?"),
        (lambda t: t.collate[0].bacth, "has no `bacth`; did you mean `batch`?"),
        (lambda t: t.collate[0][9], "has no field 9"),
        (lambda t: t.item(99), "no item 99 is in the trace"),
        (lambda t: t.item(2)["model"], "item 2 did not pass a stage `model`"),
        (lambda t: t.lineage(3, 0), "the trace has no batch 3"),
        (lambda t: t.lineage(0, 5), "batch 0 has no row 5"),
    ],
)
def test_what_is_not_there_is_an_error_that_lists_what_there_is(trace: Trace, ask: Any, said: str) -> None:
    with pytest.raises(UnknownPartError) as caught:
        ask(trace)
    assert said in str(caught.value)
    for kind in (KeyError, IndexError, AttributeError):
        assert isinstance(caught.value, kind)


def test_hasattr_dir_and_completion_know_what_there_is(trace: Trace) -> None:
    assert hasattr(trace, "collate")
    assert not hasattr(trace, "model")
    assert {"load", "collate", "check", "item"} <= set(dir(trace))
    assert "batch" in dir(trace.collate[0])
    assert "decode" in dir(trace.load)
    assert trace._ipython_key_completions_() == ["load", "collate", "loss"]
    assert trace.load._ipython_key_completions_() == ["Images.__getitem__", "decode"]


def test_items_of_two_datasets_with_one_index_are_distinguished() -> None:
    trace = Trace.of([passage("a", "f", 1, (7,), source="train"), passage("a", "f", 2, (7,), source="val")])
    with pytest.raises(OptionError, match="source='train', source='val'"):
        trace.item(7)
    assert trace.item(7, source="val").calls[0].x == 2
    assert [(item.source, item.id) for item in trace.items] == [("train", 7), ("val", 7)]


def test_true_is_not_the_item_one() -> None:
    trace = Trace.of([passage("a", "f", 1, (1,))])
    with pytest.raises(UnknownPartError):
        trace.item(True)


def test_what_an_item_is_called_holds_in_every_stage() -> None:
    passage_made = passage("load", "f", 1, (5,), called="file-5")
    later = passage("use", "g", 2, (5,))
    assert [p.ids for p in with_later_knowledge([later, passage_made])] == [("file-5",), ("file-5",)]


def test_the_order_in_which_collate_put_the_rows_holds_for_the_stages_after_it() -> None:
    collate = passage("collate", "f", 2, (3, 1), batch=0, by_row=True)
    model = passage("model", "g", 3, (1, 3), batch=0, by_row=True)
    sampler = passage("sampler", "s", 1, (1, 3), batch=0, by_row=True)
    assert [(p.stage, p.ids) for p in with_later_knowledge([model, collate, sampler])] == [
        ("sampler", (1, 3)),
        ("collate", (3, 1)),
        ("model", (3, 1)),
    ]


def test_where_collate_has_lost_the_rows_no_item_gets_the_row_of_the_sampler() -> None:
    sampler = passage("sampler", "s", 1, (5, 6), batch=0, by_row=True)
    collate = passage("collate", "f", 2, (5, 6), batch=0, lost="rows are alike")
    trace = Trace.of([sampler, collate])
    with pytest.raises(UnknownPartError, match="not known which item row 1 of batch 0 is: rows are alike"):
        trace.lineage(batch=0, row=1)
    assert trace.item(6).row is None
    assert trace.item(6).batch == 0


def test_a_trace_is_true_even_when_it_is_empty() -> None:
    assert Trace.of([])
    assert len(Trace.of([])) == 0


def test_a_trace_can_be_copied_and_pickled() -> None:
    with clew.items(2) as trace:
        for index in range(3):
            clew.stage("load")(lambda i: {"x": i})(index)
    assert str(pickle.loads(pickle.dumps(trace))) == str(copy.deepcopy(trace)) == str(trace)

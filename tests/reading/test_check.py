"""What `trace.check()` says of a pipeline: the mistakes it finds, and the normal pipelines it is silent about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clew.reading import check as checking
from clew.reading.check import Finding, Findings
from clew.reading.trace import Trace
from clew.records import DELETED, Kept, NotKept, Object, Passage, Summary, TraceFacts
from clew.trouble import InternalError

RANDOM = np.random.default_rng(5)
BEGINNING = RANDOM.bit_generator.state


@pytest.fixture(autouse=True)
def the_same_numbers_whatever_ran_before() -> None:
    RANDOM.bit_generator.state = BEGINNING


class Pipeline:
    """Passages one after the other, so that a test says only what it is about."""

    def __init__(self, source: str = "Images") -> None:
        self.passages: list[Passage] = []
        self.source = source

    def add(self, stage: str, function: str, given: Any, gave: Any, ids: Sequence[Any] = (), **more: Any) -> Passage:
        clock = 100 * len(self.passages)
        inputs = given if type(given) is dict and more.pop("fields", False) else {"x": given}
        outputs = {} if more.get("error") else {"result": gave}
        known = {"source": self.source, "started": clock, "duration": 10, "key": ("shard", clock + 1), **more}
        passage = Passage(stage, function, inputs, outputs, tuple(ids), **known)
        self.passages.append(passage)
        return passage

    def item(self, id: Any, sample: Any, **more: Any) -> Passage:
        return self.add("dataset", "Images.__getitem__", id, sample, [id], **more)

    def batch(self, number: int, ids: Sequence[Any], samples: Any, gave: Any, **more: Any) -> Passage:
        return self.add("collate", "default_collate", list(samples), gave, ids, by_row=True, batch=number, **more)

    def model(self, x: Any, gave: Any = None, ids: Sequence[Any] = (), **more: Any) -> Passage:
        return self.add("model", "Net.forward", x, gave, ids, by_row=bool(ids), **more)

    def loss(self, scores: Any, labels: Any, gave: Any = 0.5, function: str = "CrossEntropyLoss.forward", **more: Any):
        fields = {"input": scores, "target": labels}
        return self.add("loss", function, fields, gave, fields=True, **more)

    def check(self, state: str = "finished") -> Findings:
        return Trace.of(self.passages, TraceFacts(state=state)).check()


def kinds(findings: Any) -> list[str]:
    return [finding.kind for finding in findings]


def warned(findings: Findings) -> list[str]:
    return kinds(findings.warnings)


def images(count: int, low: float = 0.0, high: float = 1.0, size: int = 16) -> Any:
    return RANDOM.uniform(low, high, (count, 3, size, size)).astype("float32")


# ---- findings as such


def test_findings_are_a_sequence_with_warnings_first() -> None:
    note = Finding("change", "note", "a", "f", (), "range 0…1 → 0…2")
    warning = Finding("none-item", "warning", "b", "g", (1,), "item 1 is None.")
    findings = Findings([note, warning])
    assert list(findings) == [warning, note] and len(findings) == 2
    assert findings[0] is warning and findings[1:] == [note]
    assert findings.warnings == [warning] and findings.notes == [note]


def test_findings_are_true_only_if_there_is_a_warning() -> None:
    note = Finding("change", "note", "a", "f", (), "")
    assert not Findings([]) and not Findings([note])
    assert Findings([note, Finding("none-item", "warning", "b", "g", (), "")])


def test_the_report_has_the_warnings_with_remedies_and_then_a_table_of_changes() -> None:
    change = Finding("change", "note", "scale", "to_float", (), "uint8 → float32")
    warning = Finding("none-item", "warning", "dataset", "Images.__getitem__", (1,), "item 1 is None.", "Leave it out.")
    lines = str(Findings([change, warning])).splitlines()
    assert lines[0] == "1 warning."
    assert lines[2:5] == ["warning: none-item  dataset · Images.__getitem__", "  item 1 is None.", "  Leave it out."]
    assert lines[-1].split(maxsplit=2) == ["scale", "to_float", "uint8 → float32"]
    assert repr(Findings([change, warning])) == str(Findings([change, warning]))


def test_a_notebook_shows_the_same_and_nothing_in_it_can_act() -> None:
    finding = Finding("none-item", "warning", "<b>", "f<script>", (), "item '<img src=x>' is None.", "Leave & go.")
    html = Findings([finding, Finding("change", "note", "s", "f", (), "<i> → y")])._repr_html_()
    assert "<script" not in html and "<img" not in html and "<i> →" not in html
    for text in ("&lt;img src=x&gt;", "Leave &amp; go.", "&lt;i&gt; → y", "1 warning."):
        assert text in html


def test_an_empty_result_is_stated_in_words() -> None:
    assert str(Trace.of([], TraceFacts(state="finished")).check()).startswith("No warnings, and nothing changed")


def test_a_rule_that_fails_raises_in_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(seen: Any) -> Any:
        raise KeyError("x")

    monkeypatch.setattr(checking, "RULES", (broken, *checking.RULES))
    with pytest.raises(InternalError):
        Pipeline().check()


def test_for_users_a_rule_that_fails_is_a_note_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def broken(seen: Any) -> Any:
        raise KeyError("x")

    monkeypatch.setenv("CLEW_STRICT", "0")
    monkeypatch.setattr(checking, "RULES", (broken, *checking.RULES))
    pipeline = Pipeline()
    pipeline.item(0, None)
    assert set(kinds(pipeline.check())) == {"check-failed", "none-item"}
    assert "trace.check()" in capsys.readouterr().err


# ---- changes


def test_a_change_inside_a_call_is_reported_once_for_all_items() -> None:
    pipeline = Pipeline()
    for id in range(20):
        raw = np.full((32, 32, 3), id * 10, "uint8")
        raw[0, 0] = 0, 128, 255
        pipeline.add("scale", "to_float", raw, np.moveaxis(raw, 2, 0).astype("float32") / 255, [id])
    (change,) = pipeline.check().notes
    assert change.kind == "change" and change.items == tuple(range(20))
    assert change.text == "shape (32, 32, 3) → (3, 32, 32), uint8 → float32, range 0…255 → 0…1"


def test_shapes_that_differ_from_item_to_item_are_reported_as_ranges() -> None:
    pipeline = Pipeline()
    for id, size in enumerate((20, 31)):
        pipeline.add("crop", "crop", np.zeros((3, size, size), "uint8"), np.zeros((3, 16, 16), "uint8"), [id])
    assert [finding.text for finding in pipeline.check().notes] == ["shape (3, 20…31, 20…31) → (3, 16, 16)"]


def test_a_change_between_two_functions_names_the_one_before() -> None:
    pipeline = Pipeline()
    x = np.arange(12, dtype="float32").reshape(3, 4)
    pipeline.add("clean", "clean", x, x, [0])
    pipeline.add("use", "use", x.astype("float64"), x.astype("float64"), [0])
    (change,) = pipeline.check().notes
    assert (change.stage, change.text) == ("use", "since clean · clean: float32 → float64")


def test_a_call_inside_another_hands_on_to_that_one_alone() -> None:
    pipeline = Pipeline()
    raw = np.arange(12, dtype="float32").reshape(3, 4)
    outer = pipeline.add("dataset", "Scaled.__getitem__", 0, raw / 11, [0], started=0, duration=100)
    pipeline.add("dataset", "Images.__getitem__", 0, raw, [0], started=10, duration=20, parent=outer.key)
    pipeline.add("use", "use", raw / 11, raw / 11, [0], started=200)
    assert len(pipeline.check()) == 0


def test_samples_are_compared_with_their_batch_field_by_field() -> None:
    pipeline = Pipeline()
    samples = [{"image": image, "label": label} for image, label in zip(images(4), (0, 1, 2, 1), strict=True)]
    batch = {"image": np.stack([s["image"] for s in samples]), "label": np.array([0, 1, 2, 1])}
    pipeline.batch(0, range(4), samples, batch)
    assert [finding.text for finding in pipeline.check().notes] == ['["image"]: shape (3, 16, 16) → (4, 3, 16, 16)']


def test_samples_are_compared_with_a_batch_that_has_names_of_its_own() -> None:
    pipeline = Pipeline()
    samples = images(4)
    pipeline.batch(0, range(4), [(x, 1) for x in samples], {"x": samples, "y": np.ones(4, "int64")})
    assert '["x"]: shape (3, 16, 16) → (4, 3, 16, 16)' in str(pipeline.check())


def test_missing_values_that_are_filled_are_a_change() -> None:
    pipeline = Pipeline()
    gaps = np.array([[1.0, np.nan], [3.0, 4.0]])
    pipeline.add("fill", "SimpleImputer.transform", gaps, np.array([[1.0, 4.0], [3.0, 4.0]]))
    findings = pipeline.check()
    assert not findings
    assert [finding.text for finding in findings.notes] == ["NaN or Inf 1 → 0"]


def test_nothing_is_reported_of_a_call_that_changes_nothing() -> None:
    pipeline = Pipeline()
    x = images(2)
    pipeline.add("look", "look", x, x.copy())
    assert len(pipeline.check()) == 0


# ---- into the model


def test_floats_in_the_range_of_bytes_go_into_a_model() -> None:
    pipeline = Pipeline()
    pipeline.model(images(4, 0, 255), np.zeros((4, 10)), range(4))
    (warning,) = pipeline.check().warnings
    assert warning.kind == "bytes-into-model" and "0.0" not in warning.remedy
    assert re.search(r"`x` is float32 \(4, 3, 16, 16\) with values \S+…25\d", warning.text)


def test_a_model_that_divides_by_255_itself_is_fine() -> None:
    for x in (images(4, 0, 255), images(4, 0, 255).astype("uint8")):
        pipeline = Pipeline()
        pipeline.model(x, scores(4), range(4), convolved=(4, 3, 16, 16), convolved_range=(0.0, 1.0))
        assert not pipeline.check()


def test_bytes_are_reported_at_the_loader_if_no_model_is_seen() -> None:
    pipeline = Pipeline()
    pipeline.add("loader", "DataLoader.__next__", {}, [images(4, 0, 255), np.arange(4)], range(4), by_row=True, batch=0)
    (warning,) = pipeline.check().warnings
    assert (warning.kind, warning.stage) == ("bytes-as-floats", "loader") and "255" in warning.text


def test_pictures_of_a_pipeline_without_a_loader_may_be_bytes_in_floats() -> None:
    pipeline = Pipeline()
    pipeline.add("blur", "blur", images(4, 0, 255), images(4, 0, 255), range(4), by_row=True)
    assert not pipeline.check()


def test_a_very_dark_picture_of_whole_numbers_is_bytes_too() -> None:
    pipeline = Pipeline()
    pipeline.model(np.floor(images(4, 0, 40)), np.zeros((4, 10)))
    assert warned(pipeline.check()) == ["bytes-into-model"]


def test_flat_pictures_are_bytes_if_all_are_whole() -> None:
    pipeline = Pipeline()
    pixels = RANDOM.integers(0, 256, (8, 784)).astype("float32")
    pixels[:, 0] = 0
    pipeline.model(pixels)
    assert warned(pipeline.check()) == ["bytes-into-model"]


def test_what_was_not_kept_is_judged_by_its_summary() -> None:
    summary = Summary((4, 3, 64, 64), "float32", "cpu", min=0.0, max=255.0, mean=110.0, std=60.0, nan=0, inf=0)
    pipeline = Pipeline()
    pipeline.model(NotKept("torch.Tensor", Kept.SUMMARY, "over 32 MiB", summary))
    assert warned(pipeline.check()) == ["bytes-into-model"]


def test_the_same_mistake_in_many_batches_is_one_warning() -> None:
    pipeline = Pipeline()
    for number in range(5):
        pipeline.model(images(2, 0, 255), ids=[2 * number, 2 * number + 1], batch=number)
    (warning,) = pipeline.check().warnings
    assert warning.items == tuple(range(10)) and "4 more calls" in warning.text


def test_an_image_of_integers_goes_into_a_model() -> None:
    pipeline = Pipeline()
    pipeline.model(RANDOM.integers(0, 256, (4, 3, 16, 16)).astype("uint8"))
    assert warned(pipeline.check()) == ["integers-into-model"]


def test_a_module_that_makes_images_ready_for_the_model_may_be_given_bytes() -> None:
    pipeline = Pipeline()
    raw = RANDOM.integers(0, 256, (4, 3, 16, 16)).astype("uint8")
    x = raw.astype("float32") / 255
    pipeline.add("model", "ToDtype", raw, x, range(4), by_row=True, mode="train")
    pipeline.model(x, np.zeros((4, 10)), range(4), mode="train")
    assert not pipeline.check()


# ---- labels


def scores(rows: int, classes: int = 10) -> Any:
    return RANDOM.normal(size=(rows, classes)).astype("float32")


@pytest.mark.parametrize(("labels", "wrong"), [([0, 10, 3, 1], [10]), ([0, -7, 3, 1], [-7]), ([1, 2, 3, 10], [10])])
def test_labels_out_of_range_are_named_with_their_item(labels: list[int], wrong: list[int]) -> None:
    pipeline = Pipeline()
    pipeline.loss(scores(4), np.array(labels), ids="abcd", by_row=True)
    (warning,) = pipeline.check().warnings
    assert warning.kind == "labels-out-of-range" and "10 classes (0…9)" in warning.text
    assert warning.items == ("abcd"[labels.index(wrong[0])],)


def test_a_loss_that_raised_because_of_a_label_is_reported_with_its_error() -> None:
    pipeline = Pipeline()
    pipeline.loss(scores(4, 3), np.array([0, 1, 2, 3]), error="IndexError: Target 3 is out of bounds.")
    (warning,) = pipeline.check().warnings
    assert warning.kind == "labels-out-of-range" and "IndexError" in warning.text


def test_an_error_of_the_loss_inside_a_model_is_understood_without_the_scores() -> None:
    pipeline = Pipeline()
    pipeline.model(RANDOM.integers(0, 9, (2, 5)), error="IndexError: Target 7 is out of bounds.")
    (warning,) = pipeline.check().warnings
    assert warning.kind == "labels-out-of-range" and "label 7" in warning.text


@pytest.mark.parametrize("ignored", [255, -1])
def test_one_value_that_is_often_left_out_is_a_note_if_the_loss_went_well(ignored: int) -> None:
    pipeline = Pipeline()
    masks = RANDOM.integers(0, 5, (2, 8, 8))
    masks[0, 0] = ignored
    pipeline.loss(RANDOM.normal(size=(2, 5, 8, 8)).astype("float32"), masks)
    findings = pipeline.check()
    assert not findings and "labels-out-of-range" in kinds(findings.notes)


def test_labels_as_floats_for_a_loss_of_classes() -> None:
    pipeline = Pipeline()
    pipeline.loss(scores(4), np.array([0.0, 1.0, 2.0, 3.0], "float32"))
    assert warned(pipeline.check()) == ["labels-as-floats"]


def test_a_mask_of_0_and_255_for_a_binary_loss() -> None:
    pipeline = Pipeline()
    masks = (RANDOM.integers(0, 2, (2, 1, 8, 8)) * 255).astype("float32")
    pipeline.loss(images(2, -3, 3, 8)[:, :1], masks, function="BCEWithLogitsLoss.forward")
    assert warned(pipeline.check()) == ["labels-out-of-range"]


def test_labels_that_are_all_the_same_are_a_hint() -> None:
    pipeline = Pipeline()
    for _ in range(2):
        pipeline.loss(scores(4), np.array([3, 3, 3, 3]))
    findings = pipeline.check()
    assert not findings
    assert [finding.text for finding in findings if finding.kind == "labels-all-equal"] == ["all 8 labels seen are 3."]


def test_batches_of_one_label_each_are_a_hint_at_missing_shuffling() -> None:
    pipeline = Pipeline()
    for label in (0, 1):
        pipeline.loss(scores(4), np.full(4, label))
    (hint,) = [finding for finding in pipeline.check() if finding.kind == "labels-all-equal"]
    assert "one label only: 0, 1" in hint.text and hint.level == "note"


# ---- the same everywhere


def test_rows_that_are_all_equal_though_the_items_differ() -> None:
    pipeline = Pipeline()
    batch = np.repeat(images(1), 4, axis=0)
    pipeline.batch(0, range(4), list(batch), batch)
    pipeline.model(batch, scores(4), range(4), batch=0)
    (warning,) = pipeline.check().warnings
    assert (warning.kind, warning.stage) == ("rows-all-equal", "collate")


def test_short_rows_that_are_all_equal_are_reported_if_their_numbers_differ() -> None:
    pipeline = Pipeline()
    pipeline.model(np.tile(np.array([1.5, 2.5, -3.0], "float32"), (4, 1)), scores(4), range(4))
    assert warned(pipeline.check()) == ["rows-all-equal"]


def test_short_rows_of_zeros_and_ones_may_well_be_equal() -> None:
    pipeline = Pipeline()
    pipeline.model(np.tile(np.array([0.0, 1.0, 0.0], "float32"), (4, 1)), scores(4), range(4))
    assert not pipeline.check()


def test_inputs_that_are_one_number_everywhere() -> None:
    pipeline = Pipeline()
    for number in range(2):
        pipeline.model(np.zeros((4, 3, 16, 16), "float32"), scores(4), batch=number)
    (warning,) = pipeline.check().warnings
    assert warning.kind == "constant-input" and "is 0, in all 2 calls" in warning.text


def test_items_that_are_each_filled_with_their_own_number_are_not_constants() -> None:
    pipeline = Pipeline()
    batch = np.stack([np.full((3, 16, 16), id, "float32") for id in range(4)])
    pipeline.model(batch, scores(4), range(4))
    assert not pipeline.check()


# ---- NaN


def test_nan_that_appear_are_reported_with_the_first_stage_and_item() -> None:
    pipeline = Pipeline()
    for id in range(3):
        x = np.array([id - 1.0, 4.0], "float32")
        with np.errstate(invalid="ignore"):
            root = np.sqrt(x)
        pipeline.add("root", "root", x, root, [id])
        pipeline.add("double", "double", root, root * 2, [id])
    (warning,) = pipeline.check().warnings
    assert (warning.kind, warning.stage, warning.items) == ("nan-appears", "root", (0,))
    assert "1 NaN for item 0" in warning.text


def test_in_a_batch_the_row_is_named() -> None:
    pipeline = Pipeline()
    x = images(4)
    y = x.copy()
    y[2, 0, 0, 0] = np.inf
    pipeline.add("scale", "scale", x, y, "abcd", by_row=True, batch=7)
    (warning,) = pipeline.check().warnings
    assert warning.items == ("c",) and "row 2 of batch 7" in warning.text and "1 Inf" in warning.text


def test_only_the_innermost_call_is_blamed() -> None:
    pipeline = Pipeline()
    bad = np.array([np.nan, 1.0])
    outer = pipeline.add("outer", "outer", np.ones(2), bad, [0])
    pipeline.add("inner", "inner", np.ones(2), bad, [0], parent=outer.key)
    assert [finding.stage for finding in pipeline.check().warnings] == ["inner"]


def test_a_loss_that_is_nan_is_reported() -> None:
    pipeline = Pipeline()
    pipeline.loss(scores(4), np.array([0, 1, 2, 3]), float("nan"))
    assert warned(pipeline.check()) == ["nan-appears"]


def test_nan_of_the_data_that_harm_the_model_are_a_warning() -> None:
    pipeline = Pipeline()
    row = np.array([1.0, np.nan, 2.0], "float32")
    pipeline.item(0, row)
    pipeline.model(row[None], np.array([[np.nan]]), [0])
    (warning,) = pipeline.check().warnings
    assert (warning.kind, warning.stage, warning.items) == ("nan-in-data", "dataset", (0,))


def test_nan_of_the_data_that_are_filled_are_a_note() -> None:
    pipeline = Pipeline()
    row = np.array([1.0, np.nan, 2.0], "float32")
    pipeline.item(0, row)
    pipeline.model(np.nan_to_num(row)[None], np.array([[0.3]]), [0])
    findings = pipeline.check()
    assert not findings and "nan-in-data" in kinds(findings.notes)


def test_nan_made_between_two_stages_are_reported_where_they_arrive() -> None:
    pipeline = Pipeline()
    x = images(4)
    pipeline.add("loader", "DataLoader.__next__", None, x, range(4), by_row=True, batch=0)
    x = x.copy()
    x[2, 0, 0, 0] = np.nan
    pipeline.model(x, np.full((4, 2), np.nan), range(4), batch=0)
    (warning,) = pipeline.check().warnings
    assert (warning.kind, warning.stage, warning.items) == ("nan-appears", "model", (2,))
    assert "row 2 of batch 0" in warning.text and "between the two" in warning.text


def test_nan_between_two_stages_that_are_filled_are_a_note() -> None:
    pipeline = Pipeline()
    pipeline.add("read", "read", "a.csv", 1.0, [0])
    pipeline.add("fill", "fill", float("nan"), 0.0, [0])
    findings = pipeline.check()
    assert not findings and kinds(findings.notes)[0] == "nan-appears"


def test_nan_that_the_first_stage_is_given_are_of_the_data() -> None:
    pipeline = Pipeline()
    bad = np.array([1.0, np.nan])
    pipeline.add("clean", "clean", bad, bad * 2, [0])
    pipeline.model(bad * 2, bad, [0])
    (warning,) = pipeline.check().warnings
    assert (warning.kind, warning.stage, warning.items) == ("nan-in-data", "clean", (0,))


def test_nan_in_the_gradients_alone_are_put_down_to_the_backward_pass() -> None:
    pipeline = Pipeline()
    pipeline.loss(scores(2), np.array([0, 1]), 0.0)
    step = pipeline.add("optimizer", "SGD.step", {"gradient_norm": float("nan")}, None, fields=True)
    step.outputs.clear()
    (warning,) = pipeline.check().warnings
    assert (warning.kind, warning.stage) == ("nan-appears", "optimizer") and "backward" in warning.remedy


def test_the_nan_that_came_first_are_reported_first() -> None:
    pipeline = Pipeline()
    pipeline.add("read", "read", "a", np.ones(2), [0])
    pipeline.model(np.array([np.nan, 1.0]), np.array([np.nan, 1.0]), [0])
    pipeline.add("read", "read", "b", np.ones(2), [1])
    pipeline.model(np.ones(2), np.array([np.nan, 1.0]), [1])
    assert [finding.items for finding in pipeline.check().warnings] == [(0,), (1,)]


def test_minus_infinity_in_a_mask_is_meant() -> None:
    pipeline = Pipeline()
    mask = np.where(np.tri(4) > 0, 0.0, -np.inf)
    pipeline.add("mask", "causal", np.ones((4, 4)), mask)
    assert not pipeline.check()


# ---- items on their way


def test_an_item_of_none_is_named() -> None:
    pipeline = Pipeline()
    for id in range(3):
        pipeline.item(id, None if id == 1 else images(1)[0])
    (warning,) = pipeline.check().warnings
    assert (warning.kind, warning.items, warning.text) == ("none-item", (1,), "item 1 is None.")


def test_a_step_that_gives_nothing_by_nature_is_not_an_item_of_none() -> None:
    pipeline = Pipeline()
    for id in range(3):
        pipeline.add("save", "save", images(1)[0], None, [id])
    assert not pipeline.check()


def test_an_item_that_never_arrives_is_dropped() -> None:
    pipeline = Pipeline()
    for id in range(4):
        pipeline.item(id, images(1)[0])
        if id != 2:
            pipeline.add("keep", "keep", images(1)[0], images(1)[0], [id])
    (warning,) = pipeline.check().warnings
    assert (warning.kind, warning.stage, warning.items) == ("items-dropped", "keep", (2,))
    assert "1 of 4 items (2) passed `dataset`" in warning.text


def test_items_that_were_fetched_ahead_when_the_trace_ended_are_not_dropped() -> None:
    pipeline = Pipeline()
    for id in range(6):
        pipeline.item(id, images(1)[0], where=f"worker {id % 2}")
    for id in (0, 1):
        pipeline.add("model", "Net.forward", images(1), scores(1), [id], by_row=True)
    assert not pipeline.check(state="stopped")


def test_a_stage_that_only_some_items_pass_is_not_a_drop_if_all_go_on() -> None:
    pipeline = Pipeline()
    for id in range(4):
        pipeline.item(id, images(1)[0])
        if id % 2:
            pipeline.add("flip", "flip", images(1)[0], images(1)[0], [id])
        pipeline.add("use", "use", images(1)[0], images(1)[0], [id])
    assert not pipeline.check()


def test_a_step_inside_the_dataset_that_some_items_skip_is_no_drop() -> None:
    pipeline = Pipeline()
    for id in range(4):
        outer = pipeline.item(id, images(1)[0])
        if id % 2:
            pipeline.add("flip", "flip", images(1)[0], images(1)[0], [id], parent=outer.key)
    assert not pipeline.check()


def test_an_item_that_failed_is_not_silently_dropped() -> None:
    pipeline = Pipeline()
    pipeline.item(0, None, error="OSError: no such file")
    pipeline.item(1, images(1)[0])
    pipeline.add("use", "use", images(1)[0], images(1)[0], [1])
    assert not pipeline.check()


def test_where_identity_was_lost_no_item_is_reported_as_dropped() -> None:
    pipeline = Pipeline()
    for id in range(3):
        pipeline.item(id, images(1)[0])
    pipeline.add("use", "use", images(1)[0], images(1)[0], [2])
    pipeline.add("use", "use", images(1)[0], images(1)[0], [], lost="made of several items")
    assert not pipeline.check()


def test_what_waits_in_a_buffer_when_the_trace_stops_is_a_note() -> None:
    pipeline = Pipeline()
    for id in range(5):
        pipeline.item(id, images(1)[0])
    for id in (3, 1, 4):
        pipeline.add("use", "use", images(1)[0], images(1)[0], [id])
    findings = pipeline.check(state="stopped")
    assert not findings
    assert [finding.items for finding in findings if finding.kind == "items-dropped"] == [(0, 2)]


def test_an_item_twice_in_one_batch() -> None:
    pipeline = Pipeline()
    batch = images(4)
    pipeline.batch(3, [1, 2, 1, 5], list(batch), batch)
    (warning,) = pipeline.check().warnings
    assert (warning.kind, warning.items, warning.text) == (
        "duplicate-items",
        (1,),
        "item 1 is more than once in batch 3.",
    )


def test_a_weighted_sampler_may_repeat_items() -> None:
    pipeline = Pipeline()
    pipeline.add("sampler", "WeightedRandomSampler.__iter__", {}, 1)
    batch = images(3)
    pipeline.batch(0, [1, 2, 1], list(batch), batch)
    assert not pipeline.check()


def test_an_item_in_several_batches_of_one_round() -> None:
    pipeline = Pipeline()
    for number, ids in enumerate([(0, 1), (1, 2), (3, 4)]):
        batch = images(2)
        pipeline.batch(number, ids, list(batch), batch)
    (warning,) = pipeline.check().warnings
    assert (warning.kind, warning.items) == ("duplicate-items", (1,))


def test_epochs_are_not_duplicates() -> None:
    pipeline = Pipeline()
    for number, ids in enumerate([(0, 1), (2, 3), (3, 0), (1, 2), (2, 0)]):
        batch = images(2)
        pipeline.batch(number, ids, list(batch), batch)
    assert not pipeline.check()


def test_a_collate_that_leaves_samples_out_is_reported() -> None:
    pipeline = Pipeline()
    batch = images(5)
    pipeline.batch(0, range(5), list(batch), batch[:4])
    (warning,) = pipeline.check().warnings
    assert warning.kind == "rows-dropped" and "5 samples went in, and a batch of 4 rows came out" in warning.text


def test_the_item_that_a_collate_leaves_out_is_named() -> None:
    pipeline = Pipeline()
    for number in range(2):
        ids = range(3 * number, 3 * number + 3)
        pipeline.add("sampler", "RandomSampler", {}, list(ids), ids, batch=number, by_row=True)
        samples = [pipeline.item(id, images(1)[0]).outputs["result"] for id in ids]
        remaining = [place for place, id in enumerate(ids) if id != 1]
        pipeline.batch(
            number, [ids[place] for place in remaining], samples, np.stack([samples[place] for place in remaining])
        )
    (warning,) = pipeline.check().warnings
    assert (warning.kind, warning.stage, warning.items) == ("items-dropped", "collate", (1,))


def test_rows_that_a_function_drops_are_reported() -> None:
    pipeline = Pipeline()
    x = RANDOM.normal(size=(6, 4))
    pipeline.add("filter", "filter", x, x[:5], range(6), by_row=True)
    assert warned(pipeline.check()) == ["rows-dropped"]


def test_workers_that_each_give_the_whole_dataset_are_found_by_its_content() -> None:
    pipeline = Pipeline()
    content = images(3)
    for id in range(6):  # an iterable dataset counts what comes, so that the ids differ
        pipeline.add("dataset", "Stream.__iter__", {}, (content[id // 2], 1), [id], where=f"worker {id % 2}")
    (warning,) = pipeline.check().warnings
    assert (warning.kind, warning.items) == ("equal-items", (0, 1, 2, 3, 4, 5))
    assert "worker 0 and worker 1" in warning.text and "get_worker_info" in warning.remedy


def test_workers_that_give_the_same_small_items_in_the_same_order_are_found() -> None:
    pipeline = Pipeline()
    for id in range(4):
        pipeline.add("dataset", "Stream.__iter__", {}, (float(id // 2), "text"), [id], where=f"worker {id % 2}")
    (warning,) = pipeline.check().warnings
    assert (warning.kind, warning.items) == ("equal-items", (0, 1, 2, 3))


def test_small_items_that_are_equal_by_chance_are_not_duplicates() -> None:
    pipeline = Pipeline()
    for id, label in enumerate([0, 0, 1, 1, 0, 0, 1, 0]):
        pipeline.add("dataset", "Stream.__iter__", {}, label, [id], where=f"worker {id % 2}")
    assert not pipeline.check()


def test_two_items_of_the_same_content_are_a_note() -> None:
    pipeline = Pipeline()
    content = images(3)
    for id, image in zip("abcd", [*content, content[1]], strict=True):
        pipeline.item(id, image)
    findings = pipeline.check()
    assert not findings
    assert [finding.items for finding in findings if finding.kind == "equal-items"] == [("b", "d")]


def test_empty_and_short_items_may_well_be_equal() -> None:
    pipeline = Pipeline()
    for id in range(4):
        pipeline.item(id, (np.zeros((3, 8, 8)), np.array([1, 0, 0])))
    assert kinds(pipeline.check()) == []


# ---- collate that fails


def clash(samples: list[Any], ids: Sequence[Any] | None = None) -> Finding:
    pipeline = Pipeline()
    error = "RuntimeError: stack expects each tensor to be equal size"
    pipeline.batch(0, range(len(samples)) if ids is None else ids, samples, None, error=error)
    warnings = pipeline.check().warnings
    assert kinds(warnings) == ["collate-clash"]
    return warnings[0]


def test_the_item_of_another_shape_is_named_with_its_path() -> None:
    samples = [{"image": np.zeros((3, 32, 31 if id == 7 else 32)), "label": 1} for id in range(5, 9)]
    finding = clash(samples, range(5, 9))
    assert finding.text == 'item 7: ["image"] is (3, 32, 31), the others (3, 32, 32).'
    assert finding.items == (7,)


def test_another_type_of_numbers_is_named() -> None:
    finding = clash([(np.zeros(3, "float64" if id == 0 else "float32"), id) for id in range(3)])
    assert finding.text == "item 0: [0] is float64 (3,), the others float32 (3,)."


def test_a_key_that_is_missing_is_named() -> None:
    finding = clash([{"x": 1, "mask": 2} if id != 1 else {"x": 1} for id in range(3)])
    assert finding.text == 'item 1: the sample lacks ["mask"].'


def test_lists_of_different_lengths_are_named() -> None:
    finding = clash([{"tokens": [1] * (4 if id == 2 else 3)} for id in range(4)])
    assert finding.text == 'item 2: ["tokens"] is a list of 4, the others a list of 3.'


def test_none_among_samples_is_what_is_odd_even_if_there_are_many() -> None:
    finding = clash([None, None, None, np.zeros(3)])
    assert finding.items == (0, 1, 2) and "None in items 0, 1 and 2" in finding.text


def test_another_type_is_named() -> None:
    finding = clash([(1, "a"), (1, "a"), (1, 5)])
    assert finding.text == "item 2: [1] is int, the others str."


def test_all_different_shapes_are_listed() -> None:
    finding = clash([np.zeros((3, size)) for size in (5, 6, 7)])
    assert finding.text == "the sample is (3, 6) in item 1; (3, 7) in item 2, the other (3, 5)."


def test_samples_without_ids_are_counted() -> None:
    assert clash([np.zeros(3), np.zeros(3), np.zeros(4)], []).text == "sample 2: the sample is (4,), the others (3,)."


def test_a_collate_that_fails_with_samples_that_are_alike_says_so() -> None:
    pipeline = Pipeline()
    pipeline.batch(0, range(2), [{1}, {2}], None, error="TypeError: found <class 'set'>")
    (warning,) = pipeline.check().warnings
    assert warning.kind == "collate-failed" and "alike" in warning.text


def test_a_collate_that_fails_is_reported_where_its_samples_are_not_known() -> None:
    pipeline = Pipeline()
    pipeline.add("collate", "default_collate", None, None, [0, 1], error="TypeError: found <class 'object'>")
    (warning,) = pipeline.check().warnings
    assert warning.kind == "collate-failed" and "found <class 'object'>" in warning.text


# ---- training and evaluation


def test_training_and_evaluation_that_are_normalised_differently() -> None:
    pipeline = Pipeline()
    pipeline.model(images(4, -2.1, 2.6), scores(4), range(4), mode="train")
    pipeline.model(images(4, 0, 1), scores(4), range(10, 14), mode="eval")
    (warning,) = pipeline.check().warnings
    assert warning.kind == "ranges-differ"
    assert re.search(
        r"train -2\S*…2\S*, mean 0\S* std 1\.\S+ .*eval \S+…\S+, mean 0\S* std 0\.\S+ \(4 items\)", warning.text
    )


def test_two_normalisations_with_other_figures_are_distinguished() -> None:
    pipeline = Pipeline()
    pipeline.model(images(4, -2.1, 2.6), scores(4), range(4), mode="train")
    pipeline.model(images(4, -1, 1), scores(4), range(10, 14), mode="eval")
    assert warned(pipeline.check()) == ["ranges-differ"]


def test_one_picture_of_low_contrast_is_not_another_normalisation() -> None:
    pipeline = Pipeline()
    pipeline.model(images(4, -2.1, 2.6), scores(4), range(4), mode="train")
    grey = np.concatenate([images(3, -2.1, 2.6), images(1, -0.5, 0.5)])
    pipeline.model(grey, scores(4), range(10, 14), mode="eval")
    assert not pipeline.check()


def test_a_loss_has_a_mode_and_is_not_a_model() -> None:
    pipeline = Pipeline()
    pipeline.loss(images(2, 0, 255), images(2, 0, 255), function="MSELoss", mode="train")
    assert not pipeline.check()


def test_two_datasets_whose_items_end_in_different_ranges() -> None:
    passages = []
    for source, high in (("train", 1.0), ("val", 255.0)):
        pipeline = Pipeline(source)
        for id in range(3):
            pipeline.item(id, images(1, 0, high)[0])
        passages += pipeline.passages
    (warning,) = Trace.of(passages, TraceFacts(state="finished")).check().warnings
    assert warning.kind == "ranges-differ" and "`train`" in warning.text and "`val`" in warning.text


def test_tables_of_which_one_is_not_standardised() -> None:
    pipeline = Pipeline()
    pipeline.model(RANDOM.normal(size=(8, 20)).astype("float32"), scores(8), range(8), mode="train")
    pipeline.model(RANDOM.normal(40, 30, (8, 20)).astype("float32"), scores(8), range(8, 16), mode="eval")
    assert warned(pipeline.check()) == ["ranges-differ"]


def test_a_dark_and_a_bright_group_of_pictures_are_not_different_normalisations() -> None:
    pipeline = Pipeline()
    pipeline.model(images(4, 0, 0.3), scores(4), range(4), mode="train")
    pipeline.model(images(4, 0.5, 1), scores(4), range(10, 14), mode="eval")
    assert not pipeline.check()


def test_what_differs_at_first_and_is_made_alike_later_is_fine() -> None:
    passages = []
    for source, high in (("train", 1.0), ("val", 255.0)):
        pipeline = Pipeline(source)
        for id in range(3):
            raw = images(1, 0, high)[0]
            pipeline.item(id, raw)
            pipeline.add("scale", "scale", raw, raw / high, [id])
        passages += pipeline.passages
    assert not Trace.of(passages, TraceFacts(state="finished")).check()


# ---- normal pipelines: not a word of warning


def test_classification_of_images_gives_no_warning() -> None:
    pipeline = Pipeline()
    for number in range(3):
        ids = range(4 * number, 4 * number + 4)
        raw = RANDOM.integers(0, 256, (4, 16, 16, 3)).astype("uint8")
        x = np.moveaxis(raw, 3, 1).astype("float32") / 255
        for id, before, after in zip(ids, raw, x, strict=True):
            outer = pipeline.item(id, (after, id % 3))
            pipeline.add("transform", "ToTensor.__call__", before, after, [id], parent=outer.key)
        labels = np.array([id % 3 for id in ids])
        pipeline.batch(number, ids, [(after, id % 3) for after, id in zip(x, ids, strict=True)], [x, labels])
        out = scores(4, 3)
        pipeline.model((x - 0.45) / 0.22, out, ids, mode="train", batch=number)
        pipeline.loss(out, labels, 1.1, ids=ids, by_row=True, batch=number)
    assert pipeline.check().warnings == []


def test_tables_give_no_warning() -> None:
    pipeline = Pipeline()
    table = RANDOM.normal(50, 40, (8, 6)).astype("float32")
    table[:, 0] = RANDOM.integers(0, 255, 8)
    for id, row in enumerate(table):
        pipeline.item(id, (row, float(row[1])))
    pipeline.batch(0, range(8), [(row, 1.0) for row in table], [table, table[:, 1].astype("float64")])
    pipeline.model(table, table[:, :1], range(8))
    pipeline.loss(table[:, :1], table[:, 1:2], function="MSELoss.forward")
    assert pipeline.check().warnings == []


def test_scikit_learn_in_doubles_gives_no_warning() -> None:
    pipeline = Pipeline()
    x = RANDOM.normal(size=(20, 5))
    x[3, 2] = np.nan
    filled = np.nan_to_num(x)
    pipeline.add("impute", "SimpleImputer.transform", x, filled, range(20), by_row=True)
    pipeline.add("predict", "LogisticRegression.predict", filled, np.zeros(20, "int64"), range(20), by_row=True)
    assert pipeline.check().warnings == []


def test_segmentation_gives_no_warning() -> None:
    pipeline = Pipeline()
    x, masks = images(4, -2, 2), RANDOM.integers(0, 5, (4, 16, 16))
    masks[0, :4] = 255
    samples = [{"image": image, "mask": mask} for image, mask in zip(x, masks, strict=True)]
    pipeline.batch(0, range(4), samples, {"image": x, "mask": masks})
    out = RANDOM.normal(size=(4, 5, 16, 16)).astype("float32")
    pipeline.model(x, {"out": out}, range(4))
    pipeline.loss(out, masks)
    assert pipeline.check().warnings == []


def test_padded_sequences_give_no_warning() -> None:
    pipeline = Pipeline()
    lengths = [3, 5, 4, 7]
    samples = [{"input_ids": list(range(1, n + 1)), "label": n % 2} for n in lengths]
    ids = np.array([s["input_ids"] + [0] * (7 - len(s["input_ids"])) for s in samples])
    batch = {"input_ids": ids, "attention_mask": (ids > 0).astype("int64"), "labels": np.array([1, 1, 0, 1])}
    pipeline.batch(0, range(4), samples, batch)
    pipeline.add("model", "Bert.forward", batch, {"logits": scores(4, 2)}, range(4), fields=True, by_row=True)
    assert pipeline.check().warnings == []


def test_sound_gives_no_warning() -> None:
    pipeline = Pipeline()
    waves = [RANDOM.normal(0, loud, (1, 800)).astype("float32").clip(-1, 1) for loud in (0.01, 0.3, 0.002, 0.2)]
    for id, wave in enumerate(waves):
        pipeline.item(id, (wave, 16000, "yes"))
    x = np.stack(waves)
    spectrum = np.abs(np.fft.rfft(x.reshape(4, 1, 20, 40), axis=3)).astype("float32")
    pipeline.batch(0, range(4), [(wave, 16000, "yes") for wave in waves], [x, np.full(4, 16000), ["yes"] * 4])
    pipeline.model(spectrum, scores(4), range(4), mode="train")
    pipeline.model(spectrum * 0.4, scores(4), range(10, 14), mode="eval")
    assert pipeline.check().warnings == []


def test_detection_with_a_list_for_each_batch_gives_no_warning() -> None:
    pipeline = Pipeline()
    pictures = [images(1, size=size)[0] for size in (16, 20, 24)]
    targets = [{"boxes": RANDOM.uniform(0, 16, (count, 4)), "labels": np.arange(count)} for count in (1, 3, 2)]
    pipeline.batch(0, range(3), list(zip(pictures, targets, strict=True)), (tuple(pictures), tuple(targets)))
    assert pipeline.check().warnings == []


def test_graphs_joined_to_one_give_no_warning() -> None:
    pipeline = Pipeline()
    graphs = [{"x": RANDOM.normal(size=(n, 8)), "edge_index": np.zeros((2, 2 * n), "int64")} for n in (5, 7, 4)]
    joined = {
        "x": np.concatenate([g["x"] for g in graphs]),
        "edge_index": np.zeros((2, 32), "int64"),
        "y": np.arange(3),
    }
    pipeline.batch(0, range(3), graphs, joined)
    assert pipeline.check().warnings == []


def test_embeddings_with_labels_beyond_their_width_are_not_scores() -> None:
    pipeline = Pipeline()
    pipeline.loss(scores(4, 8), np.array([100, 3, 200, 4]), function="ArcFaceLoss.forward")
    pipeline.loss(scores(4, 8), np.array([1, -1, 1, -1]), function="CosineEmbeddingLoss.forward")
    assert pipeline.check().warnings == []


def test_no_code_of_a_users_class_runs() -> None:
    class Hostile:
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(f"asked for {name}")

        def __eq__(self, other: object) -> bool:
            raise AssertionError("compared")

        def __hash__(self) -> int:
            raise AssertionError("hashed")

        def __repr__(self) -> str:
            raise AssertionError("shown")

    pipeline = Pipeline()
    odd = Hostile()
    pipeline.item(odd, {"x": odd, "y": [odd, odd]})
    pipeline.add("scale", "scale", np.ones((2, 3)), np.full((2, 3), np.nan), [odd, Hostile()], by_row=True, batch=0)
    for function in ("ToDtype", "Net"):
        pipeline.add("model", function, images(2, 0, 255), None, [odd, Hostile()], by_row=True, mode="train")
    pipeline.batch(0, [odd, odd], [odd, (odd,)], None, error="TypeError: odd")
    findings = pipeline.check()
    assert "collate-clash" in kinds(findings) and str(findings)


# ---- whatever there is

plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=4),
    st.binary(max_size=4),
    st.sampled_from([DELETED, {1}, object(), np.float32(2), np.int64(3), np.datetime64("2020-01-01"), range(3)]),
)
kinds_of_numbers = ["f4", "f8", "f2", "i8", "u1", "?", "c8", "O", "U3", "M8[s]", [("a", "i4"), ("b", "f4")]]
lengths = st.lists(st.integers(0, 4), max_size=5).map(tuple)
arrays = st.builds(np.zeros, lengths, st.sampled_from(kinds_of_numbers).map(np.dtype))
unkept = st.builds(
    NotKept,
    st.sampled_from(["torch.Tensor", "numpy.ndarray", "list", "Config"]),
    st.sampled_from(Kept),
    st.just("large"),
    st.builds(Summary, st.none() | lengths, st.sampled_from([None, "float32"]), min=st.none() | st.floats()),
)
values = st.recursive(
    plain | arrays | unkept,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3),
        st.builds(
            Object, st.just("Batch"), st.dictionaries(st.sampled_from(["value", "data", "x"]), inner, max_size=2)
        ),
    ),
    max_leaves=8,
)
named = st.dictionaries(st.sampled_from(["input", "target", "samples", "x"]), values, max_size=3)
passages = st.builds(
    Passage,
    st.sampled_from(["sampler", "dataset", "collate", "model", "loss", "other"]),
    st.sampled_from(["f", "default_collate", "cross_entropy", "BCELoss", "Images.__getitem__"]),
    named,
    named,
    st.lists(plain, max_size=4).map(tuple),
    source=st.sampled_from(["", "train", "val"]),
    batch=st.none() | st.integers(0, 3),
    by_row=st.booleans(),
    where=st.sampled_from(["", "worker 0", "worker 1"]),
    mode=st.sampled_from(["", "train", "eval"]),
    started=st.integers(0, 100),
    duration=st.none() | st.integers(0, 50),
    error=st.sampled_from([None, "IndexError: Target 3 is out of bounds."]),
    key=st.tuples(st.just("shard"), st.integers(0, 5)),
    parent=st.none() | st.tuples(st.just("shard"), st.integers(0, 5)),
)


@settings(
    max_examples=settings().max_examples * 3 // 5, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
@given(st.lists(passages, max_size=6), st.sampled_from(["finished", "stopped", "failed"]))
def test_nothing_that_can_be_recorded_is_too_odd_for_it(seen: list[Passage], state: str) -> None:
    findings = Trace.of(seen, TraceFacts(state=state)).check()
    assert "check-failed" not in kinds(findings)
    assert str(findings) and findings._repr_html_().startswith("<div>")


def test_a_list_that_stands_in_many_places_is_looked_at_in_few() -> None:
    nested: Any = [1.0]
    for _ in range(40):
        nested = [nested, nested]
    pipeline = Pipeline()
    pipeline.item(0, nested)
    assert kinds(pipeline.check()) == []

"""What `trace.check()` says of tensors: where torch reads channels, what its models and losses take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import default_collate

from clew.reading.check import Findings
from clew.reading.trace import Trace
from clew.records import Kept, NotKept, Object, Passage, Summary, TraceFacts

RANDOM = torch.Generator()


@pytest.fixture(autouse=True)
def the_same_numbers_whatever_ran_before() -> None:
    RANDOM.manual_seed(5)


def uniform(*shape: int, low: float = 0.0, high: float = 1.0) -> Any:
    return torch.rand(*shape, generator=RANDOM) * (high - low) + low


def check(*passages: Passage) -> Findings:
    for number, passage in enumerate(passages):
        passage.started, passage.duration, passage.key = 100 * number, 10, ("shard", number + 1)
    return Trace.of(passages, TraceFacts(state="finished")).check()


def through_model(x: Any, gave: Any = None, **more: Any) -> Passage:
    return Passage("model", "Net.forward", {"x": x}, {} if gave is None else {"result": gave}, mode="train", **more)


def loss(function: Any, given: Any, target: Any) -> Passage:
    """The loss as it is: what it gives, or the error it raises."""
    passage = Passage("loss", f"{type(function).__name__}.forward", {"input": given, "target": target})
    try:
        passage.outputs = {"result": function(given, target)}
    except (IndexError, RuntimeError) as error:
        passage.error = f"{type(error).__name__}: {error}"
    return passage


def warned(findings: Findings) -> list[str]:
    return [finding.kind for finding in findings.warnings]


# ---- channels


def test_channels_last_into_a_convolution_are_reported_with_what_it_raised() -> None:
    x = uniform(2, 32, 24, 3)
    with pytest.raises(RuntimeError) as raised:
        nn.Conv2d(3, 4, 3)(x)
    (warning,) = check(through_model(x, error=f"RuntimeError: {raised.value}")).warnings
    assert warning.kind == "channels-last" and "(2, 32, 24, 3)" in warning.text
    assert "axis 1, of length 32" in warning.text and "to have 3 channels" in warning.text
    assert "permute(0, 3, 1, 2)" in warning.remedy


def test_small_images_with_channels_last_are_reported_if_a_convolution_raised() -> None:
    x = uniform(2, 6, 6, 3)
    with pytest.raises(RuntimeError) as raised:
        nn.Conv2d(3, 4, 3)(x)
    assert warned(check(through_model(x, error=f"RuntimeError: {raised.value}"))) == ["channels-last"]


def test_a_model_that_puts_the_channels_first_by_itself_is_fine() -> None:
    inputs = uniform(2, 32, 32, 3)
    assert warned(check(through_model(inputs, uniform(2, 10), convolved=(2, 3, 32, 32)))) == []
    assert warned(check(through_model(inputs, uniform(2, 10), convolved=(2, 32, 32, 3)))) == ["channels-last"]


def test_channels_last_are_reported_by_the_shape_alone() -> None:
    assert warned(check(through_model(uniform(2, 32, 32, 1), uniform(2, 10)))) == ["channels-last"]


def test_videos_with_channels_last_are_reported() -> None:
    (warning,) = check(through_model(uniform(2, 8, 32, 32, 3), uniform(2, 10))).warnings
    assert warning.kind == "channels-last" and "permute(0, 4, 1, 2, 3)" in warning.remedy


@pytest.mark.parametrize(
    "shape",
    [(2, 3, 32, 32), (2, 1, 28, 28), (2, 64, 16, 16), (2, 8, 3, 32, 32), (2, 3, 8, 32, 32), (8, 100, 3), (2, 3, 32, 4)],
    ids=str,
)
def test_shapes_that_are_not_images_with_channels_last(shape: tuple[int, ...]) -> None:
    assert warned(check(through_model(uniform(*shape), uniform(2, 10)))) == []


def test_an_image_that_is_not_kept_is_judged_by_its_summary() -> None:
    summary = Summary((2, 320, 320, 3), "float32", "cuda:0", min=0.0, max=1.0, mean=0.4, std=0.2, nan=0, inf=0)
    x = NotKept("torch.Tensor", Kept.SUMMARY, "over 32 MiB", summary)
    assert warned(check(through_model(x, uniform(2, 10)))) == ["channels-last"]


# ---- types


def test_doubles_into_a_model_of_floats() -> None:
    x = uniform(4, 8).double()
    (warning,) = check(through_model(x, error="RuntimeError: mat1 and mat2 must have the same dtype")).warnings
    assert warning.kind == "float64-into-model" and "float64 (4, 8)" in warning.text


def test_a_model_that_computes_in_doubles_is_fine() -> None:
    x = uniform(4, 8).double()
    assert warned(check(through_model(x, nn.Linear(8, 2).double()(x)))) == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_bytes_are_seen_in_floats_of_every_width(dtype: Any) -> None:
    x = (uniform(2, 3, 16, 16) * 255).round().to(dtype)
    assert warned(check(through_model(x, uniform(2, 10)))) == ["bytes-into-model"]


def test_an_image_of_bytes_into_a_model() -> None:
    x = (uniform(2, 3, 16, 16) * 255).to(torch.uint8)
    assert warned(check(through_model(x, uniform(2, 10)))) == ["integers-into-model"]


def test_an_image_of_a_class_of_its_own_is_looked_into() -> None:
    x = Object("torchvision.tv_tensors.Image", {"value": uniform(2, 3, 16, 16) * 255})
    assert warned(check(through_model(x, uniform(2, 10)))) == ["bytes-into-model"]


# ---- losses


def test_a_label_beyond_the_classes_is_reported_when_the_loss_raised() -> None:
    passage = loss(nn.CrossEntropyLoss(), uniform(4, 3), torch.tensor([0, 1, 3, 2]))
    passage.ids, passage.by_row = ("a", "b", "c", "d"), True
    assert passage.error is not None
    (warning,) = check(passage).warnings
    assert (warning.kind, warning.items) == ("labels-out-of-range", ("c",))


def test_labels_as_floats_are_reported_when_the_loss_raised() -> None:
    passage = loss(nn.CrossEntropyLoss(), uniform(4, 3), torch.tensor([0.0, 1.0, 2.0, 1.0]))
    assert passage.error is not None
    assert warned(check(passage)) == ["labels-as-floats"]


@pytest.mark.parametrize(
    ("function", "given", "target"),
    [
        (nn.CrossEntropyLoss(), (4, 3), torch.tensor([0, 1, -100, 2])),
        (nn.CrossEntropyLoss(ignore_index=255), (2, 5, 8, 8), torch.full((2, 8, 8), 255)),
        (nn.CrossEntropyLoss(), (4, 3), torch.softmax(torch.randn(4, 3), 1)),
        (nn.CrossEntropyLoss(weight=torch.ones(3)), (3, 3), torch.tensor([0, 1, 2])),
        (nn.NLLLoss(), (4, 3), torch.tensor([0, 1, 1, 2])),
        (nn.MSELoss(), (4, 3), torch.randn(4, 3)),
        (nn.BCEWithLogitsLoss(), (4, 1), torch.tensor([[0.0], [1.0], [1.0], [0.0]])),
        (nn.MultiLabelMarginLoss(), (2, 4), torch.tensor([[3, 0, -1, 1], [1, -1, 0, 0]])),
    ],
    ids=["ignored", "ignored 255", "probabilities", "weights", "nll", "mse", "bce", "multilabel"],
)
def test_losses_as_they_are_meant_give_no_warning(function: Any, given: Sequence[int], target: Any) -> None:
    passage = loss(function, uniform(*given, low=-2, high=2), target)
    assert passage.error is None
    assert warned(check(passage)) == [] or torch.isnan(passage.outputs["result"])


# ---- real collates


def failed_collate(samples: list[Any]) -> Passage:
    with pytest.raises((RuntimeError, TypeError, KeyError, AttributeError)) as raised:
        default_collate(samples)
    error = f"{type(raised.value).__name__}: {raised.value}"
    ids = tuple(range(10, 10 + len(samples)))
    return Passage("collate", "default_collate", {"batch": samples}, ids=ids, by_row=True, batch=0, error=error)


def test_the_tensor_that_cannot_be_stacked_is_named() -> None:
    samples = [{"image": uniform(3, 32, 31 if place == 1 else 32), "label": 1} for place in range(4)]
    (warning,) = check(failed_collate(samples)).warnings
    assert warning.text == 'item 11: ["image"] is (3, 32, 31), the others (3, 32, 32).'
    assert warning.items == (11,)


def test_none_among_samples_is_named() -> None:
    (warning,) = check(failed_collate([(uniform(2), 1), (uniform(2), None)])).warnings
    assert warning.text == "item 11: [1] is None, the other int."


def test_an_array_among_tensors_is_named_though_its_shape_is_the_same() -> None:
    samples = [torch.zeros(3), torch.zeros(3), torch.zeros(3).numpy()]
    (warning,) = check(failed_collate(samples)).warnings
    assert warning.items == (12,) and "numpy.ndarray float32 (3,), the others torch.Tensor" in warning.text


def test_a_key_that_a_sample_lacks_is_named() -> None:
    (warning,) = check(failed_collate([{"x": uniform(2), "y": 1}, {"x": uniform(2)}])).warnings
    assert '["y"]' in warning.text


# ---- normal pipelines


def test_images_from_the_dataset_to_the_loss_give_no_warning() -> None:
    passages = []
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.LazyLinear(3))
    for number in range(3):
        ids = tuple(range(3 * number, 3 * number + 3))
        samples = [(uniform(3, 16, 16, low=-2.1, high=2.6), id % 3) for id in ids]
        for id, sample in zip(ids, samples, strict=True):
            passages.append(
                Passage("dataset", "Images.__getitem__", {"index": id}, {"sample": sample}, (id,), "Images")
            )
        x, labels = batch = default_collate(samples)
        known: dict[str, Any] = {"ids": ids, "source": "Images", "by_row": True, "batch": number}
        passages.append(Passage("collate", "default_collate", {"batch": samples}, {"result": batch}, **known))
        scores = model(x)
        passages.append(Passage("model", "Net.forward", {"x": x}, {"result": scores}, mode="train", **known))
        passages.append(loss(nn.CrossEntropyLoss(), scores, labels))
        passages.append(Passage("optimizer", "SGD.step", {}, {"result": None}))
    findings = check(*passages)
    assert findings.warnings == []
    texts = [(finding.stage, finding.text) for finding in findings.notes]
    assert ("collate", "[0]: shape (3, 16, 16) → (3, 3, 16, 16)") in texts


def test_tokens_into_an_embedding_give_no_warning() -> None:
    tokens = torch.randint(0, 30000, (4, 12), generator=RANDOM)
    mask = torch.ones(4, 12, dtype=torch.int64)
    inputs = {
        "input_ids": tokens,
        "attention_mask": mask,
        "token_type_ids": mask - 1,
        "labels": torch.tensor([0, 1, 1, 0]),
    }
    output = Object("SequenceClassifierOutput", {"loss": torch.tensor(0.7), "logits": uniform(4, 2)})
    model = Passage(
        "model", "Bert.forward", inputs, {"result": output}, ("a", "b", "c", "d"), by_row=True, mode="train"
    )
    assert check(model).warnings == []


def test_a_causal_mask_and_time_first_sequences_give_no_warning() -> None:
    mask = torch.full((6, 6), float("-inf")).triu(1)
    x = uniform(6, 2, 16, low=-1)
    model = Passage("model", "Decoder.forward", {"x": x, "mask": mask}, {"result": x * 0.5}, (0, 1), by_row=True)
    assert check(Passage("mask", "make_mask", {"n": 6}, {"result": mask}), model).warnings == []


def test_nan_in_bfloat16_is_reported_with_its_row() -> None:
    x = uniform(3, 8).bfloat16()
    y = x.clone()
    y[1, 2] = float("nan")
    passage = Passage("model", "Net.forward", {"x": x}, {"result": y}, ("a", "b", "c"), by_row=True, batch=4)
    (warning,) = check(passage).warnings
    assert warning.kind == "nan-appears" and warning.items == ("b",) and "row 1 of batch 4" in warning.text


def test_tensors_that_cannot_be_read_are_passed_over() -> None:
    sparse = torch.eye(20).to_sparse()
    meta = torch.empty(4, 3, 32, 32, device="meta")
    quantised = Passage("model", "Net.forward", {"a": sparse, "b": meta}, {"result": sparse}, mode="train")
    assert check(quantised).warnings == []


# ---- tables: pandas is where torch is


def test_what_a_step_does_to_a_table_is_reported_column_by_column() -> None:
    import pandas as pd

    before = pd.DataFrame({"age": [20.0, None, 40.0], "name": ["a", None, "c"], "n": [1, 2, 3]})
    after = before.dropna().astype({"n": "float64"})
    findings = check(Passage("clean", "clean", {"table": before}, {"result": after}))
    assert findings.warnings == []
    assert [finding.text for finding in findings.notes] == [
        "shape (3, 3) → (2, 3)",
        '["age"]: NaN or Inf 1 → 0',
        '["name"]: NaN or Inf 1 → 0',
        '["n"]: int64 → float64',
    ]


def test_rows_of_a_table_that_are_filtered_are_a_note() -> None:
    import pandas as pd

    table = pd.DataFrame({"a": range(5), "b": range(5)})
    passage = Passage("filter", "keep", {"table": table}, {"result": table[table.a > 1]}, tuple(range(5)), by_row=True)
    findings = check(passage)
    assert findings.warnings == []
    assert [finding.text for finding in findings if finding.kind == "rows-dropped"] == [
        "5 rows went in, and 3 came out."
    ]


def test_nan_that_appear_in_a_column_are_reported() -> None:
    import pandas as pd

    table = pd.DataFrame({"a": [1.0, 0.0], "b": [1.0, 0.0]})
    (warning,) = check(Passage("ratio", "ratio", {"t": table}, {"r": table.assign(c=table.a / table.b)})).warnings
    assert warning.kind == "nan-appears" and '`["c"]`' in warning.text


def test_what_a_loader_passes_on_is_not_reported_twice() -> None:
    bad = torch.tensor([1.0, float("nan")])
    trace = Trace.of(
        [
            Passage("dataset", "Rows.__getitem__", {"index": 3}, {"item": bad}, ids=(3,), source="Rows", started=1),
            Passage("loader", "DataLoader.__next__", {}, {"batch": bad[None]}, ids=(3,), source="Rows", started=2,
                    batch=0, by_row=True),
        ]
    )  # fmt: skip
    assert [finding.stage for finding in trace.check() if finding.kind == "nan-in-data"] == ["dataset"]


def test_nan_of_a_model_whose_gradients_were_broken_is_put_down_to_its_weights() -> None:
    x, nan = torch.ones(2, 3), torch.full((2, 3), float("nan"))
    trace = Trace.of(
        [
            Passage("optimizer", "SGD.step", {"lr": 0.1, "gradient_norm": float("nan")}, {}, started=1),
            Passage("model", "Net", {"x": x}, {"output": nan}, ids=(0, 1), by_row=True, mode="train", started=2),
        ]
    )
    (finding,) = [finding for finding in trace.check() if finding.kind == "nan-appears"]
    assert "weights are broken" in finding.remedy

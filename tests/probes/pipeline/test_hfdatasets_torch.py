"""The functions of `datasets.map` and `filter` are stages, and run over the first examples only."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
from datasets import iterable_dataset

import clew


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


def reviews(count: int = 100) -> Any:
    return datasets.Dataset.from_dict(
        {"text": [f"review {i}" for i in range(count)], "label": [i % 2 for i in range(count)]}
    )


def measure(example: dict[str, Any]) -> Any:
    example["length"] = len(example["text"])
    return example


def even(example: dict[str, Any]) -> bool:
    return bool(example["label"] == 0)


def upper(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {"upper": [text.upper() for text in batch["text"]]}


def test_each_example_is_an_item_and_only_the_first_pass() -> None:
    with clew.items(3) as trace:
        made = reviews().map(measure)
    assert len(made) == 3
    assert [call.passage.ids for call in trace.measure] == [(0,), (1,), (2,)]
    assert trace.measure[1].example == {"text": "review 1", "label": 1}
    assert trace.measure[1]["result"] == {"text": "review 1", "label": 1, "length": 8}
    assert "datasets.map: the first 3 of 100 examples" in trace.altered


def test_what_came_out_is_what_it_would_be() -> None:
    with clew.items(3):
        made = reviews().map(measure, remove_columns=["label"])
    assert made.to_dict() == reviews(3).map(measure, remove_columns=["label"]).to_dict()


def test_a_batched_map_has_the_examples_as_rows() -> None:
    with clew.items(3) as trace:
        reviews().map(upper, batched=True)
    (call,) = trace.upper
    assert call.passage.ids == (0, 1, 2)
    assert trace.item(2)["upper"][0].outputs["result"] == {"upper": "REVIEW 2"}
    assert trace.lineage(0, 1).id == 1


def test_examples_are_followed_through_filters_and_columns() -> None:
    with clew.items(3) as trace:
        reviews().map(measure).filter(even).remove_columns(["label"]).map(upper, batched=True)
    assert [call["result"] for call in trace.even] == [True, False, True]
    assert trace.upper[0].passage.ids == (0, 2)
    assert trace.item(2).stages == ["measure", "even", "upper"]


def test_a_batched_filter_is_followed_too() -> None:
    with clew.items(4) as trace:
        reviews().filter(lambda batch: [label == 1 for label in batch["label"]], batched=True).map(measure)
    assert [call.passage.ids for call in trace.measure] == [(1,), (3,)]


def test_when_a_map_makes_more_examples_of_one_it_is_said() -> None:
    with clew.items(2) as trace:
        doubled = reviews().map(lambda b: {"text": b["text"] * 2}, batched=True, remove_columns=["label"])
        doubled.map(measure)
    assert trace.measure[0].passage.ids == ()
    assert "2 examples went in, 4 came out" in trace.measure[0].passage.lost


def test_the_function_is_called_as_before() -> None:
    calls: list[Any] = []

    def look(text: str, label: int, index: int, rank: int | None, suffix: str) -> dict[str, str]:
        calls.append((text, label, index, rank, suffix))
        return {"text": text + suffix}

    options = {
        "with_indices": True,
        "with_rank": True,
        "input_columns": ["text", "label"],
        "fn_kwargs": {"suffix": "!"},
    }
    with clew.items(2) as trace:
        reviews().map(look, **options)
    traced, calls[:] = list(calls), []
    reviews(2).map(look, **options)
    assert traced == calls
    assert trace.look[1].inputs == {"text": "review 1", "label": 1, "index": 1, "rank": None, "suffix": "!"}


def test_a_function_without_a_name_is_called_after_what_it_is_for() -> None:
    with clew.items(1) as trace:
        reviews().map(lambda example: {"n": 1}).filter(lambda example: True)
    assert list(trace.stages) == ["map", "filter"]


def test_columns_the_function_did_not_touch_are_not_decoded_for_it() -> None:
    touched: list[set[str]] = []

    def look(example: Any) -> None:
        touched.append(set(example.keys_to_format))

    with clew.items(1) as trace:
        reviews().map(look)
    assert touched == [{"text", "label"}]
    assert trace.look[0].example == {"text": "review 0", "label": 0}


def test_the_cache_is_neither_read_nor_written(tmp_path: Path) -> None:
    reviews().save_to_disk(str(tmp_path / "set"))
    stored = datasets.load_from_disk(str(tmp_path / "set"))
    full = stored.map(measure)
    files = sorted(path.name for path in tmp_path.rglob("*"))
    with clew.items(2) as trace:
        short = stored.map(measure)
    assert sorted(path.name for path in tmp_path.rglob("*")) == files
    assert len(short) == 2
    assert len(trace.measure) == 2
    assert any("cache" in what for what in trace.altered)
    again = stored.map(measure)
    assert len(again) == 100
    assert again._fingerprint == full._fingerprint


def test_a_dataset_that_is_short_anyhow_is_mapped_anew_too(tmp_path: Path) -> None:
    reviews(2).save_to_disk(str(tmp_path / "set"))
    stored = datasets.load_from_disk(str(tmp_path / "set"))
    stored.map(measure)
    with clew.items(5) as trace:
        stored.map(measure)
    assert len(trace.measure) == 2


def test_other_processes_are_left_out_and_that_is_said() -> None:
    with clew.items(2) as trace:
        reviews().map(measure, num_proc=2)
    assert len(trace.measure) == 2
    assert "datasets.map: in this process instead of num_proc=2" in trace.altered


def test_each_split_gives_its_own_items() -> None:
    splits = datasets.DatasetDict({"train": reviews(10), "test": reviews(20)})
    with clew.items(2) as trace:
        made = splits.map(measure)
    assert made.num_rows == {"train": 2, "test": 2}
    assert len({call.passage.source for call in trace.measure}) == 2


def test_a_dataset_mapped_twice_has_the_same_items() -> None:
    whole = reviews()
    with clew.items(2) as trace:
        whole.map(measure)
        whole.map(upper, batched=True)
    assert trace.item(1).stages == ["measure", "upper"]


def test_an_exception_is_the_programs_own() -> None:
    def bad(example: dict[str, Any]) -> Any:
        raise KeyError("tokens")

    with pytest.raises(KeyError, match="tokens"), clew.items(2) as trace:
        reviews().map(bad)
    assert "tokens" in trace.bad[0].passage.error
    assert trace.bad[0].example["text"] == "review 0"


def test_asynchronous_functions_are_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.new_event_loop()
    monkeypatch.setattr(asyncio, "new_event_loop", lambda: loop)  # the library does not close its own

    async def fetch(example: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"text": example["text"].title()}

    with contextlib.closing(loop), clew.items(3) as trace:
        made = reviews().map(fetch)
    assert list(made["text"]) == ["Review 0", "Review 1", "Review 2"]
    assert sorted(call.passage.ids for call in trace.fetch) == [(0,), (1,), (2,)]


def test_tensors_of_a_formatted_dataset_are_captured() -> None:
    numbers = datasets.Dataset.from_dict({"x": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]}).with_format("torch")
    with clew.items(2) as trace:
        numbers.map(lambda example: {"x": example["x"] * 2})
    assert torch.equal(trace["map"][1].example["x"], torch.tensor([3.0, 4.0]))
    assert torch.equal(trace["map"][1]["result"]["x"], torch.tensor([6.0, 8.0]))


def test_what_the_library_maps_for_itself_is_no_stage() -> None:
    with clew.items(2) as trace:
        made = (
            reviews()
            .cast_column("label", datasets.Value("int8"))
            .cast(datasets.Features({"text": datasets.Value("large_string"), "label": datasets.Value("int8")}))
        )
    assert len(made) == 100
    assert len(trace) == 0


def test_a_stream_ends_after_the_first_examples() -> None:
    stream = reviews().to_iterable_dataset().map(measure).filter(even).map(upper, batched=True, batch_size=2)
    with clew.items(3) as trace:
        seen = list(stream)
    assert [example["upper"] for example in seen] == ["REVIEW 0", "REVIEW 2"]
    assert [call.passage.ids for call in trace.measure] == [(0,), (1,), (2,)]
    assert [call["result"] for call in trace.even] == [True, False, True]
    assert trace.upper[0].passage.ids == (0, 2)
    assert "datasets: a stream ends after 3 examples" in trace.altered
    assert len(list(stream)) == 50


def test_what_a_loop_takes_from_a_stream_is_the_example_that_passed() -> None:
    @clew.stage("use")
    def use(example: dict[str, Any]) -> None:
        """The end of the pipeline."""

    with clew.items(3) as trace:
        for example in reviews().to_iterable_dataset().map(measure).filter(even):
            use(example)
    assert [call.passage.ids for call in trace.use] == [(0,), (2,)]
    assert trace.item(2).stages[:2] == ["measure", "even"]


@pytest.mark.parametrize("workers", [0, 2])
def test_an_item_of_a_loader_is_the_example_that_was_mapped(workers: int) -> None:
    stream = reviews().to_iterable_dataset(num_shards=2).map(measure)
    loader = torch.utils.data.DataLoader(stream, batch_size=2, num_workers=workers)
    with clew.items(3) as trace:
        texts = [text for batch in loader for text in batch["text"]]
    for number, text in enumerate(texts[:3]):
        (step,) = trace.item(number)["measure"]
        assert step.inputs["example"]["text"] == text


def test_a_stream_that_is_shorter_is_not_said_to_be_cut() -> None:
    with clew.items(5) as trace:
        assert len(list(reviews(2).to_iterable_dataset().map(measure))) == 2
    assert trace.altered == []
    assert len(trace.measure) == 2


def test_afterwards_everything_is_as_before() -> None:
    mapped = iterable_dataset.MappedExamplesIterable
    before = {name: (value, getattr(value, "__code__", None)) for name, value in vars(datasets.Dataset).items()}
    loop = mapped._iter.__code__
    with clew.items(2):
        assert mapped._iter.__code__ is not loop
        reviews().map(measure)
    for name, (value, code) in before.items():
        assert vars(datasets.Dataset)[name] is value
        assert getattr(value, "__code__", None) is code
    assert mapped._iter.__code__ is loop


def test_an_error_after_a_map_that_was_made_differently_says_so() -> None:
    with pytest.raises(IndexError) as raised, clew.items(200):
        reviews().map(measure, num_proc=2).cache_files[0]
    (note,) = (note for note in raised.value.__notes__ if "changed the program" in note)
    assert "in this process instead of num_proc=2" in note

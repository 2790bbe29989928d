"""Collate functions sort, pad, leave out and fail: whose a row is stays true, or is said not to be known."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader, default_collate

import clew
from probes.pipeline.loops import Net, Numbers, Ragged, failed, seen_in, told_apart, traced


class Holes(Numbers):
    """Every third sample is None."""

    def __getitem__(self, index: int) -> Any:
        return None if index % 3 == 1 else super().__getitem__(index)


def sorted_and_padded(samples: list[Any]) -> Any:
    samples.sort(key=lambda sample: -len(sample[0]))
    return nn.utils.rnn.pad_sequence([x for x, _ in samples], batch_first=True), torch.tensor([y for _, y in samples])


def without_none(samples: list[Any]) -> Any:
    return default_collate([sample for sample in samples if sample is not None])


def backwards(samples: list[Any], step: int = -1) -> Any:
    return default_collate(samples[::step])


class Backwards:
    def __call__(self, samples: list[Any]) -> Any:
        return backwards(samples)

    def method(self, samples: list[Any]) -> Any:
        return backwards(samples)


@clew.stage("collate", result="batch")
def staged(samples: list[Any]) -> Any:
    return backwards(samples)


COLLATES: dict[str, tuple[Any, Callable[..., Any]]] = {
    "sorted_and_padded": (Ragged, sorted_and_padded),
    "without_none": (Holes, without_none),
    "backwards": (Numbers, partial(backwards, step=-1)),
    "Backwards": (Numbers, Backwards()),
    "Backwards.method": (Numbers, Backwards().method),
    "staged": (Numbers, staged),
}


@pytest.mark.parametrize(("name", "workers"), [*((name, 0) for name in COLLATES), ("without_none", 2), ("staged", 2)])
def test_every_row_is_whose_the_trace_says(name: str, workers: int) -> None:
    dataset, collate = COLLATES[name]
    loader = DataLoader(dataset(), batch_size=4, shuffle=True, collate_fn=collate, num_workers=workers)
    trace = traced(loader, 8)
    told_apart(trace)
    assert trace.collate.functions == [name]


def test_what_collate_was_given_of_an_item_is_its_own_sample() -> None:
    trace = traced(DataLoader(Numbers(), batch_size=4, collate_fn=backwards))
    (step,) = trace.item(1)["collate"]
    assert step.inputs["samples"][1] == 1 and step.row == 2


def test_an_item_that_was_left_out_ends_at_the_dataset() -> None:
    trace = traced(DataLoader(Holes(), batch_size=4, collate_fn=without_none), 4)
    assert seen_in(trace, "model") == [0, 2, 3]
    assert trace.item(1).stages == ["sampler", "dataset"]


def test_rows_in_a_dict_of_other_names_are_followed() -> None:
    def renamed(samples: list[Any]) -> Any:
        return {"x": torch.stack([x for x, _ in samples[::-1]]), "n": torch.tensor(len(samples))}

    def look(loader: Any) -> None:
        for batch in loader:
            Net()(batch["x"])

    told_apart(traced(DataLoader(Numbers(), batch_size=4, collate_fn=renamed), run=look))


def test_a_batch_that_is_a_list_of_samples_is_followed() -> None:
    def look(loader: Any) -> None:
        for batch in loader:
            Net()(torch.stack([x for x, _ in batch]))

    trace = traced(DataLoader(Numbers(), batch_size=4, collate_fn=lambda samples: samples[::-1]), run=look)
    assert seen_in(trace, "model") == [3, 2, 1, 0, 5, 4]


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_that_do_not_fit_together_are_in_the_trace_with_the_error(workers: int) -> None:
    trace, error = failed(DataLoader(Ragged(), batch_size=4, num_workers=workers), n=4)
    assert "equal size" in error
    (call,) = trace.collate
    assert call.ids == (0, 1, 2, 3) and "equal size" in str(call.error)
    assert [len(x) for x, _ in call.samples] == [1, 2, 3, 4]
    assert "batch 0 (0, 1, 2, 3)" in trace.notes[0]
    assert trace.check().warnings[0].kind == "collate-clash"


@settings(max_examples=25, phases=[Phase.explicit, Phase.generate])  # it would take minutes to make it smaller
@given(data=st.data())
def test_identity_is_the_truth_whatever_is_drawn_and_however_it_is_put_together(data: st.DataObject) -> None:
    drawn = data.draw(st.lists(st.integers(0, 11), min_size=1, max_size=16), label="drawn")
    size = data.draw(st.integers(1, 5), label="batch size")
    wanted = data.draw(st.integers(1, 18), label="wanted")
    keys = data.draw(st.permutations(range(12)), label="order of rows")
    left_out = data.draw(st.sets(st.integers(0, 11), max_size=3), label="left out")
    as_dict = data.draw(st.booleans(), label="as a dict")

    def collate(samples: list[Any]) -> Any:
        kept = [sample for sample in samples if sample[1] not in left_out] or samples[:1]
        x, y = default_collate(sorted(kept, key=lambda sample: keys[sample[1]]))
        return {"image": x, "label": y} if as_dict else (x, y)

    batches: list[list[int]] = []  # the oracle: what the program itself sees
    net = Net()
    with clew.run("example"), clew.items(wanted) as trace:
        for batch in DataLoader(Numbers(12), batch_size=size, sampler=drawn, collate_fn=collate):
            x, y = batch.values() if as_dict else batch
            batches.append(y.tolist())
            nn.functional.l1_loss(net(x), torch.zeros(len(y)), reduction="none")
    assert sorted(seen_in(trace, "sampler")) == sorted(drawn[:wanted])
    for stage in ("collate", "loader", "model", "loss"):
        assert [list(call.ids) for call in trace[stage]] == batches
    for number, rows in enumerate(batches):
        assert [trace.lineage(number, row).id for row in range(len(rows))] == rows
        assert all(trace.item(id).loss == id for id in rows)

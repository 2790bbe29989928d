"""Items through torch's loaders: who they are is checked against the numbers that the samples hold themselves."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    RandomSampler,
    Sampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    random_split,
)

import clew
from probes.pipeline.loops import HandMadeStream, Net, Numbers, Stream, failed, seen_in, told_apart, traced, train

ALL = {"sampler": 2, "dataset": 6, "collate": 2, "loader": 2, "model": 2, "loss": 2, "optimizer": 2}


def counted(trace: Any) -> dict[str, int]:
    return {stage.name: len(stage) for stage in trace}


class Twice(Sampler[int]):
    def __iter__(self) -> Iterator[int]:
        return iter([5, 3, 9, 3, 1, 0, 2])


class Uneven(Sampler[list[int]]):
    def __iter__(self) -> Iterator[list[int]]:
        return iter([[5, 3], [9], [1, 0, 2], [4]])


class Tensors(Sampler[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(torch.arange(20).flip(0))


class InBatches(Dataset[Any]):
    """Has only `__getitems__`."""

    def __len__(self) -> int:
        return 40

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [(torch.full((3,), float(index)), index) for index in indices]


class Generating(DataLoader[Any]):
    def __iter__(self) -> Any:
        yield from super().__iter__()


TABLE = TensorDataset(torch.arange(40.0)[:, None].repeat(1, 3), torch.arange(40))
LIST = [(torch.full((3,), float(i)), i) for i in range(40)]

LOADERS: dict[str, Callable[[], Any]] = {
    "shuffled": lambda: DataLoader(Numbers(), batch_size=4, shuffle=True),
    "a sampler that gives an index twice": lambda: DataLoader(Numbers(), batch_size=4, sampler=Twice()),
    "a sampler that gives tensors": lambda: DataLoader(Numbers(), batch_size=4, sampler=Tensors()),
    "a weighted sampler": lambda: DataLoader(
        Numbers(), batch_size=4, sampler=WeightedRandomSampler(torch.ones(40).tolist(), 20)
    ),
    "batches of any size": lambda: DataLoader(Numbers(), batch_sampler=Uneven()),
    "a subset": lambda: DataLoader(Subset(Numbers(), [7, 5, 3, 20, 1, 0, 30]), batch_size=2, shuffle=True),
    "a split": lambda: DataLoader(random_split(Numbers(), [30, 10])[1], batch_size=2, shuffle=True),
    "datasets in a dataset": lambda: DataLoader(
        Subset(ConcatDataset([Numbers(3), Numbers(5)]), [7, 2, 1, 5, 3, 0]), batch_size=2
    ),
    "tensors": lambda: DataLoader(TABLE, batch_size=4, shuffle=True),
    "a list": lambda: DataLoader(LIST, batch_size=4, shuffle=True),  # type: ignore[arg-type]
    "a dataset that gives batches": lambda: DataLoader(InBatches(), batch_size=4, shuffle=True),
    "a loader that makes none": lambda: DataLoader(
        TABLE, batch_size=None, sampler=BatchSampler(RandomSampler(range(40)), 4, False)
    ),
    "a stream": lambda: DataLoader(Stream(), batch_size=4),
    "a stream without a generator": lambda: DataLoader(HandMadeStream(), batch_size=4),
    "a loader of the user's": lambda: Generating(Numbers(), batch_size=4, shuffle=True),
}


@pytest.mark.parametrize("name", LOADERS)
def test_every_row_is_whose_the_trace_says(name: str) -> None:
    trace = traced(LOADERS[name]())
    told_apart(trace)
    assert len(seen_in(trace, "model")) == 6 and trace.facts.state == "stopped"


def test_all_stages_are_there_once_for_each_item_and_batch() -> None:
    assert counted(traced(DataLoader(Numbers(), batch_size=4, shuffle=True))) == ALL


def test_the_same_order_is_drawn_as_without_a_trace() -> None:
    def order(run: Callable[[Any], Any]) -> tuple[list[Any], int]:
        torch.manual_seed(3)
        steps: list[Any] = []
        run(lambda: train(DataLoader(Numbers(), batch_size=4, shuffle=True), 1, steps))
        return [index for step in steps for index in step], int(torch.randint(0, 10**9, ()))

    def with_trace(run: Callable[[], Any]) -> None:
        with clew.items(6):
            run()

    plain, after = order(lambda run: run())
    seen, after_trace = order(with_trace)
    assert seen == plain[:6]
    assert after == after_trace  # nobody else has drawn a number


def test_a_subset_of_a_dataset_that_only_gives_batches_works_as_without_a_trace() -> None:
    trace = traced(DataLoader(Subset(InBatches(), range(3, 20)), batch_size=4))
    assert seen_in(trace, "model") == [0, 1, 2, 3, 4, 5]
    assert trace.model[0].inputs["x"][:, 0].tolist() == [3, 4, 5, 6]


@pytest.mark.parametrize("dataset", [Numbers, Stream])
def test_a_loader_that_makes_no_batches_gives_its_items_one_by_one(dataset: Any) -> None:
    def look(loader: Any) -> None:
        net = Net()
        for x, _ in loader:
            net(x[None])

    trace = traced(DataLoader(dataset(), batch_size=None), run=look)
    assert seen_in(trace, "model") == seen_in(trace, "dataset") == [0, 1, 2, 3, 4, 5]


def test_batches_of_another_size_are_made_if_asked_for_and_told() -> None:
    trace = traced(DataLoader(Numbers(), batch_size=4, shuffle=True), batch_size=2)
    told_apart(trace)
    assert [len(call.ids) for call in trace.model] == [2, 2, 2]
    assert trace.altered == ["the loader of Numbers gives 6 of 40 items, in batches of 2 instead of 4"]


def test_a_batch_of_a_sampler_of_the_users_own_that_is_cut_is_told() -> None:
    trace = traced(DataLoader(Numbers(), batch_sampler=[[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]))
    assert [len(call.ids) for call in trace.model] == [5, 1]
    assert trace.altered == [
        "the loader of Numbers gives 6 items",
        "the loader of Numbers gives the last batch of 1 instead of 5",
    ]


@pytest.mark.parametrize("workers", [0, 2])
def test_items_that_a_collate_leaves_out_were_there(workers: int) -> None:
    def odd(samples: list[Any]) -> Any:
        return default_collate([sample for sample in samples if sample[1] % 2])

    assert traced(DataLoader(Numbers(), batch_size=4, collate_fn=odd, num_workers=workers)).notes == []


def test_the_second_round_of_a_loop_without_a_model_is_the_end() -> None:
    def look(loader: Any) -> None:
        for _ in range(4):
            for _ in loader:
                pass

    trace = traced(DataLoader(Numbers(), batch_size=4), run=look)
    assert seen_in(trace, "loader") == [0, 1, 2, 3, 4, 5] and trace.facts.state == "stopped"


def test_a_pass_over_the_data_that_another_one_follows_is_not_the_end() -> None:
    def look(loader: Any) -> None:
        float(sum(x.sum() for x, _ in loader))  # as for a mean
        train(loader)

    trace = traced(DataLoader(Numbers(), batch_size=4), run=look)
    assert seen_in(trace, "model") == [0, 1, 2, 3, 4, 5]


def test_more_items_than_there_are_are_all_of_them_and_a_word() -> None:
    trace = traced(DataLoader(Numbers(5), batch_size=4), 10)
    assert seen_in(trace, "model") == [0, 1, 2, 3, 4]
    assert trace.notes == ["Numbers had 5 items; 10 were asked for"] and trace.altered == []
    assert traced(DataLoader(Stream(5), batch_size=4), 10).notes == ["Stream had 5 items; 10 were asked for"]


@pytest.mark.parametrize(
    "loader",
    [
        DataLoader(Numbers(0), batch_size=4),
        DataLoader(Stream(0), batch_size=4),
        DataLoader([], batch_size=4),  # type: ignore[arg-type]
        DataLoader(Numbers(10), batch_size=16, drop_last=True),
    ],
)
def test_a_loader_that_gives_nothing_is_told(loader: Any) -> None:
    trace = traced(loader)
    assert len(trace) == 0
    assert "gave nothing: it is empty, or drop_last= leaves out its only batch" in trace.notes[0]


def test_a_look_at_the_first_batch_is_not_taken_for_the_loop() -> None:
    def peek(loader: Any) -> None:
        Net()(next(iter(loader))[0])
        next(iter(loader))
        train(loader)

    for size in (4, 8):
        trace = traced(DataLoader(Numbers(), batch_size=size, shuffle=True), run=peek)
        told_apart(trace)
        assert len(seen_in(trace, "optimizer")) == 6


def test_training_and_validation_are_each_let_through_once() -> None:
    validation = DataLoader(Numbers(20), batch_size=5)

    def epochs(loader: Any) -> None:
        for _ in range(100):
            train(loader, 1)
            with torch.no_grad():
                for x, _ in validation:
                    Net().eval()(x)

    trace = traced(DataLoader(Numbers(), batch_size=4, shuffle=True), run=epochs)
    told_apart(trace)
    assert [(call.passage.source, call.passage.mode) for call in trace.model] == [
        ("Numbers", "train"), ("Numbers", "train"), ("Numbers#2", "eval"), ("Numbers#2", "eval"),
    ]  # fmt: skip


def test_a_loader_made_anew_for_each_epoch_is_the_same_one() -> None:
    def epochs(_: Any) -> None:
        for _ in range(50):
            train(DataLoader(Numbers(), batch_size=4, shuffle=True), 1)

    assert counted(traced(None, run=epochs)) == ALL


def test_an_endless_cycle_of_batches_ends() -> None:
    trace = traced(DataLoader(Numbers(), batch_size=4), run=lambda loader: train(itertools.cycle(loader), 1))
    assert len(trace.optimizer) == 2 and trace.facts.state == "stopped"


def test_one_batch_that_is_trained_on_forever_ends() -> None:
    def overfit(loader: Any) -> None:
        train([next(iter(loader))] * 1000, 1)

    trace = traced(DataLoader(Numbers(), batch_size=4), run=overfit)
    assert trace.facts.state == "stopped" and len(trace.optimizer) < 50


def test_a_loader_that_was_going_before_gives_no_more_than_was_asked_for_and_then_goes_on() -> None:
    going = iter(DataLoader(Numbers(), batch_size=4))
    next(going)
    trace = traced(going, run=lambda loader: train(loader, 1))
    assert seen_in(trace, "model") == [4, 5, 6, 7, 8, 9, 10, 11]
    assert next(going)[1].tolist() == [12, 13, 14, 15]


def test_an_iterator_made_in_a_trace_goes_on_after_it() -> None:
    with clew.items(30):
        going = iter(DataLoader(Numbers(), batch_size=4))
        next(going)
    assert next(going)[1].tolist() == [4, 5, 6, 7]
    assert sum(len(y) for _, y in going) == 32


def test_items_are_called_what_id_says() -> None:
    trace = traced(DataLoader(Numbers(), batch_size=4, shuffle=True), id=lambda sample: f"number {sample[1]}")
    assert [item.id for item in trace.items] == [f"number {int(y)}" for call in trace.loader for y in call.batch[1]]


def test_the_whole_length_is_back_after_a_trace() -> None:
    loader = DataLoader(Numbers(), batch_size=4)
    with clew.items(6):
        assert len(loader) == 2
    assert len(loader) == 10 and len(list(loader)) == 10


def test_a_loop_that_counted_its_steps_before_ends_well() -> None:
    loader = DataLoader(Numbers(), batch_size=4)
    steps = len(loader)

    def run(loader: Any) -> None:
        batches = iter(loader)
        train([next(batches) for _ in range(steps)], 1)

    trace = traced(loader, run=run)
    assert seen_in(trace, "loader") == [0, 1, 2, 3, 4, 5] and trace.error is None


def test_a_program_that_runs_out_of_batches_by_itself_still_says_so() -> None:
    with pytest.raises(StopIteration), clew.items(60):
        batches = iter(DataLoader(Numbers(), batch_size=4))
        while True:
            next(batches)


def test_a_stream_made_in_a_trace_goes_on_after_it_unseen() -> None:
    with clew.items(30) as trace:
        going = iter(DataLoader(HandMadeStream(), batch_size=4))
        next(going)
    assert sum(len(y) for _, y in going) == 36
    assert seen_in(trace, "dataset") == [0, 1, 2, 3]


def test_end_of_a_loader_is_the_end_of_a_plain_loop() -> None:
    with clew.items(6) as trace:
        assert [y.tolist() for _, y in DataLoader(Numbers(), batch_size=4)] == [[0, 1, 2, 3], [4, 5]]
    assert trace.facts.state == "finished"


def test_a_sampler_that_fails_is_not_said_to_load_anything() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise ValueError("no more")

    trace, error = failed(DataLoader(Numbers(), batch_size=1, sampler=broken()), n=3)  # type: ignore[arg-type]
    assert error == trace.error == "ValueError: no more" and trace.notes == []
    assert seen_in(trace, "model") == [1]


@pytest.mark.parametrize(("count", "enough"), [(3, 8), (11, 16)])
def test_an_error_after_a_batch_that_was_cut_says_so_and_what_to_do(count: int, enough: int) -> None:
    with pytest.raises(AssertionError) as raised, clew.items(count):
        for (batch,) in DataLoader(TensorDataset(torch.arange(32.0)), batch_size=8):
            assert len(batch) == 8
    note = raised.value.__notes__[0]
    assert "the last batch had 3 of its 8 items" in note
    assert f"clew.items({enough})" in note


def test_an_error_without_a_batch_that_was_cut_is_left_alone() -> None:
    with pytest.raises(KeyError) as raised, clew.items(8):
        for _ in DataLoader(TensorDataset(torch.arange(32.0)), batch_size=8):
            raise KeyError("own")
    assert not any("batch" in note for note in raised.value.__notes__)

"""After a trace everything is as it was, however it ended; and traces do not mix."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, default_collate

import clew
from probes.pipeline.loops import Net, Numbers, Stream, failed, left_behind, seen_in, told_apart, traced, train


class Compose:
    def __init__(self, *transforms: Any) -> None:
        self.transforms = list(transforms)

    def __call__(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x


class Double:
    def __call__(self, x: Any) -> Any:
        return x * 2


class Transformed(Dataset[Any]):
    def __init__(self) -> None:
        self.transform = Compose(torch.from_numpy, Double(), nn.Identity())

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Any:
        return self.transform(torch.full((3,), float(index)).numpy()), index


def raising(kind: type[BaseException]) -> Callable[[Any], None]:
    def run(loader: Any) -> None:
        train(loader, 1) if kind is not KeyboardInterrupt else next(iter(loader))
        raise kind("from the loop")

    return run


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", [None, ValueError, KeyboardInterrupt, SystemExit])
def test_everything_is_as_it_was(kind: type[BaseException] | None, workers: int) -> None:
    loader = DataLoader(Numbers(), batch_size=4, num_workers=workers)
    before, own = left_behind(), dict(vars(loader))
    if kind is None:
        traced(loader)
    else:
        trace, said = failed(loader, raising(kind), n=6)
        assert said.startswith(kind.__name__) and "loader" in trace
    after = left_behind()
    assert {name for name in before if after[name] is not before[name] and after[name] != before[name]} == set()
    assert vars(loader) == own


def test_the_steps_of_a_transform_are_seen_and_are_the_same_objects_afterwards() -> None:
    dataset = Transformed()
    steps = list(dataset.transform.transforms)
    code = Double.__call__.__code__
    trace = traced(DataLoader(dataset, batch_size=4), run=list)
    assert trace.transform.functions == ["from_numpy", "Double.__call__", "Identity.forward"]
    assert [call.ids for call in trace.transform["from_numpy"]] == [(0,), (1,), (2,), (3,), (4,), (5,)]
    assert all(now is then for now, then in zip(dataset.transform.transforms, steps, strict=True))
    assert Double.__call__.__code__ is code


def test_while_a_trace_is_off_nothing_is_put_in(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[Any] = []
    before = left_behind()
    clew.off()
    with clew.items(6) as trace:
        assert left_behind() == before
        train(DataLoader(Numbers(), batch_size=4), 1, steps)
    assert len(steps) == 10 and len(trace) == 0 and "switched off" in trace.notes[0]
    clew.on()
    monkeypatch.setenv("CLEW", "0")
    with clew.items(6) as trace:
        train(DataLoader(Numbers(), batch_size=4), 1, steps)
    assert len(steps) == 20 and len(trace) == 0


def test_traces_of_two_threads_do_not_mix() -> None:
    traces: dict[int, Any] = {}
    gate = threading.Barrier(2)

    def run(size: int) -> None:
        with clew.items(2 * size) as traces[size]:
            gate.wait()
            train(DataLoader(Numbers(), batch_size=size, shuffle=True))

    threads = [threading.Thread(target=run, args=(size,)) for size in (3, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for size, trace in traces.items():
        told_apart(trace)
        assert [len(call.ids) for call in trace.model] == [size, size]


def test_a_trace_inside_a_trace_takes_what_is_its_own() -> None:
    loader = DataLoader(Numbers(), batch_size=4)
    with clew.items(8) as outer:
        with clew.items(2) as inner:
            train(loader)
        assert seen_in(inner, "model") == [0, 1]
        train(loader)
    assert seen_in(outer, "model") == list(range(8))


def test_persistent_workers_of_a_trace_inside_a_trace_do_not_work_for_the_other() -> None:
    loader = DataLoader(Numbers(), batch_size=4, num_workers=1, persistent_workers=True)
    with clew.items(8) as outer:
        with clew.items(2) as inner:
            train(loader)
        train(loader)
    assert seen_in(inner, "dataset") == [0, 1] and seen_in(outer, "dataset") == list(range(8))
    assert loader._iterator is None


def test_a_trace_that_cannot_be_written_is_read_from_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CLEW_DIR", os.fspath(tmp_path / "file" / "runs"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = traced(DataLoader(Stream(), batch_size=4))
    told_apart(trace)
    assert trace.path == "" and "optimizer" in str(trace)


def test_a_failure_of_the_first_item_leaves_a_trace_that_can_be_read() -> None:
    class Bad(Numbers):
        def __getitem__(self, index: int) -> Any:
            raise OSError("no such file")

    trace, error = failed(DataLoader(Bad(), batch_size=4), n=3)
    assert error == "OSError: no such file" == trace.dataset[0].error and trace.dataset[0].ids == (0,)
    assert "no such file" in str(trace)


def test_a_collate_function_of_an_object_is_left_as_it_was() -> None:
    class Own:
        def collate(self, samples: Any) -> Any:
            return default_collate(samples)

    own = Own()
    loader = DataLoader(Numbers(), batch_size=4, collate_fn=own.collate)
    code = Own.collate.__code__
    traced(loader, run=lambda loader: [Net()(x) for x, _ in loader])
    assert Own.collate.__code__ is code and loader.collate_fn == own.collate and vars(own) == {}

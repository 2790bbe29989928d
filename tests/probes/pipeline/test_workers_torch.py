"""Loaders with workers, forked and spawned: what they see is in the trace, and nothing of it stays."""

from __future__ import annotations

import os
import signal
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import clew
from probes.pipeline.loops import Net, Numbers, Stream, failed, seen_in, told_apart, traced, workers


def name_of(sample: Any) -> str:
    return f"number {sample[1]}"


class Files(Numbers):
    """Each sample has a file."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        for index in range(self.count):
            (folder / f"{index}.txt").write_text(str(index))

    def __getitem__(self, index: int) -> Any:
        number = int((self.folder / f"{index}.txt").read_text())
        return torch.full((3,), float(number)), number


class Slow(Numbers):
    def __getitem__(self, index: int) -> Any:
        time.sleep(0.02 * (index % 3))
        return super().__getitem__(index)


class Failing(Numbers):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def __getitem__(self, index: int) -> Any:
        if index == 5 and self.how == "raise":
            raise ValueError("bad sample")
        if index == 1 and self.how != "raise":
            time.sleep(0.3)  # until the loop waits for it: torch raises wherever the program is
            os.kill(os.getpid(), signal.SIGKILL) if self.how == "killed" else os._exit(3)
        return super().__getitem__(index)


def forked(dataset: Any, **more: Any) -> Any:
    return DataLoader(dataset, **{"batch_size": 4, "num_workers": 2, "multiprocessing_context": "fork", **more})


def workers_seen(trace: Any) -> set[str]:
    return {call.passage.where for call in trace.dataset}


def test_what_forked_workers_do_is_in_the_trace_with_files(tmp_path: Path) -> None:
    trace = traced(forked(Files(tmp_path), shuffle=True, prefetch_factor=4))
    told_apart(trace)
    assert workers_seen(trace) == {"worker 0", "worker 1"}
    for item in trace.items:
        assert item.files == (str(tmp_path / f"{item.id}.txt"),)
    assert trace.lineage(1, 1).file == str(tmp_path / f"{trace.loader[1].ids[1]}.txt")


def test_spawned_workers_trace_too_and_call_items_by_name(tmp_path: Path) -> None:
    loader = forked(Files(tmp_path), shuffle=True, num_workers=1, multiprocessing_context="spawn")
    trace = traced(loader, id=name_of)
    assert workers_seen(trace) == {"worker 0"}
    for call in trace.model:
        assert list(call.ids) == [f"number {int(row[0])}" for row in call.x]
    assert trace.items[0].files and trace.altered and not trace.notes


def test_batches_that_come_in_any_order_are_known_all_the_same() -> None:
    trace = traced(forked(Slow(), batch_size=2, shuffle=True, in_order=False), 8)
    told_apart(trace)
    assert not any(call.lost for call in trace.calls)


@pytest.mark.filterwarnings("ignore:.*pin_memory.*")
def test_batches_are_pinned_as_they_would_be() -> None:
    told_apart(traced(forked(Numbers(), pin_memory=True)))


def test_a_stream_that_is_shared_among_workers_is_counted_as_it_comes() -> None:
    trace = traced(forked(Stream(10)), 20)
    told_apart(trace)
    assert len(seen_in(trace, "model")) == 10
    assert trace.notes == ["Stream had 10 items; 20 were asked for"]


def test_items_of_a_stream_come_one_by_one_where_no_batches_are_made() -> None:
    def look(loader: Any) -> None:
        for x, _ in loader:
            Net()(x[None])

    assert len(seen_in(traced(forked(Stream(), batch_size=None), run=look), "model")) == 6


def test_persistent_workers_are_set_aside_and_are_back_afterwards() -> None:
    loader = forked(Numbers(), persistent_workers=True)
    list(loader)
    before = loader._iterator
    trace = traced(loader)
    told_apart(trace)
    assert any("set aside" in said for said in trace.altered)
    assert loader._iterator is before and len(list(loader)) == len(loader) == 10


def test_persistent_workers_started_in_a_trace_do_not_outlive_it() -> None:
    loader = forked(Numbers(), persistent_workers=True)
    with clew.items(20) as trace:
        for _ in loader:
            pass
        for _ in loader:  # another loop: the first may have been for a mean
            pass
    assert len(seen_in(trace, "loader")) == 40 and loader._iterator is None
    del trace
    assert workers() == set()
    assert len(list(loader)) == 10


def test_an_iterator_that_outlives_the_trace_gives_plain_batches() -> None:
    with clew.items(30):
        going = iter(forked(Numbers()))
        next(going)
    assert [y.tolist() for _, y in going][:2] == [[4, 5, 6, 7], [8, 9, 10, 11]]


def test_an_error_in_a_worker_is_in_the_trace_at_the_item_it_is_about() -> None:
    trace, error = failed(forked(Failing("raise")), n=8)
    assert "bad sample" in error
    (call,) = [call for call in trace.dataset if call.error and call.function == "Failing.__getitem__"]
    assert call.ids == (5,) and call.error == "ValueError: bad sample" and call.passage.where == "worker 1"
    assert "batch 1 (4, 5, 6, 7)" in trace.notes[0]


@pytest.mark.parametrize("how", ["killed", "exit"])
def test_of_a_worker_that_dies_is_told_what_it_was_loading(how: str) -> None:
    trace, error = failed(forked(Failing(how), num_workers=1), n=4)
    assert "DataLoader worker" in error and trace.error == error.strip()
    assert "batch 0 (0, 1, 2, 3)" in trace.notes[0]


def test_without_a_place_to_write_the_passages_come_back_with_the_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("CLEW_DIR", str(blocked / "runs"))
    for count in (0, 2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trace = traced(forked(Numbers(), num_workers=count, multiprocessing_context="fork" if count else None))
        told_apart(trace)
        assert trace.path == "" and len(seen_in(trace, "model")) == 6

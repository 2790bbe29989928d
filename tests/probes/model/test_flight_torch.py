"""The flight recorder: nothing is written until something happens, and then the last iterations are."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import clew
from probes.model.nets import inputs, net, train
from probes.model.test_nonfinite_torch import model_with_log


def recorder(model: Any, **options: Any) -> clew.ModelTracer:
    return clew.ModelTracer(model, ["forward.input", "forward"], keep="last 3 steps", **options)


def steps_in(path: Path) -> list[int]:
    run = clew.open(path)
    return run["forward"].steps if "forward" in run.names else []


def test_without_a_trigger_nothing_is_written(tmp_path: Path) -> None:
    model = net()
    with clew.run(path=tmp_path / "run"), recorder(model):
        train(model, inputs(6))
    assert steps_in(tmp_path / "run") == []


def test_an_exception_writes_the_last_iterations(tmp_path: Path) -> None:
    model = net()
    with clew.run(path=tmp_path / "run"), pytest.raises(ValueError, match="enough"), recorder(model):
        train(model, inputs(6))
        raise ValueError("enough")
    assert steps_in(tmp_path / "run") == [3, 4, 5]


def test_dump_writes_them_and_the_recorder_goes_on(tmp_path: Path) -> None:
    model = net()
    batches = inputs(8)
    with clew.run(path=tmp_path / "run"), recorder(model) as tracer:
        train(model, batches[:4])
        assert clew.dump() == 3
        train(model, batches[4:])
        assert tracer.dump() == 3
    assert steps_in(tmp_path / "run") == [1, 2, 3, 5, 6, 7]


def test_each_iteration_has_the_time_at_which_it_happened(tmp_path: Path) -> None:
    model = net()
    between = []
    with clew.run(path=tmp_path / "run") as run, recorder(model) as tracer:
        for batch in inputs(4):
            between.append(time.time_ns())
            train(model, [batch])
        tracer.dump()
    began = run.meta["started_ns"]
    calls = clew.open(tmp_path / "run").calls("*.iteration")
    starts = [call.start for call in calls]
    assert [began / 1e9 + start > at / 1e9 for start, at in zip(starts, between[1:], strict=True)] == [True] * 3
    assert starts[0] < (between[2] - began) / 1e9 and starts[1] < (between[3] - began) / 1e9
    for call in calls:
        assert call.duration is not None
        assert all(call.start <= change.time <= call.start + call.duration for change in call.changes)


def test_a_non_finite_value_writes_them(tmp_path: Path) -> None:
    model = model_with_log()
    with clew.run(path=tmp_path / "run"), recorder(model, nonfinite="find"):
        for place, batch in enumerate(inputs(6)):
            model[1].shift = -1.0 if place == 4 else 1.0
            model(batch)
    assert steps_in(tmp_path / "run") == [2, 3]  # of the fourth, what there was before: `forward` was not done yet
    assert any(note.kind == "trigger" for note in clew.open(tmp_path / "run").ledger)


def test_a_spike_against_the_running_median_writes_them(tmp_path: Path) -> None:
    class Loss(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.sum()

    model = Loss()
    with clew.run(path=tmp_path / "run"), recorder(model, spike=10.0):
        for place in range(20):
            model(torch.tensor([1.0 + place / 100 if place != 15 else 50.0]))
    assert steps_in(tmp_path / "run") == [13, 14]
    (note,) = [note for note in clew.open(tmp_path / "run").ledger if note.kind == "trigger"]
    assert "times its running median" in note.text


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="Windows has no such signal")
def test_a_signal_writes_them_and_what_was_there_before_is_put_back(tmp_path: Path) -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: came.append(number))
    try:
        model = net()
        with clew.run(path=tmp_path / "run"), recorder(model, signal=signal.SIGUSR1):
            train(model, inputs(5))
            os.kill(os.getpid(), signal.SIGUSR1)
        assert came == [signal.SIGUSR1]
        assert steps_in(tmp_path / "run") == [2, 3, 4]
        os.kill(os.getpid(), signal.SIGUSR1)
        assert len(came) == 2
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_what_does_not_change_is_in_the_ring_all_the_same(tmp_path: Path) -> None:
    model = net().eval()
    x = inputs(1)[0]
    with clew.run(path=tmp_path / "run"), recorder(model):
        for _ in range(5):
            model(x)
        clew.dump()
    assert steps_in(tmp_path / "run") == [2, 3, 4]


def test_the_ring_holds_no_more_than_it_says(tmp_path: Path) -> None:
    model = net()
    with clew.run(path=tmp_path / "run"), recorder(model) as tracer:
        train(model, inputs(3))
        held = tracer._sink.held  # type: ignore[union-attr]
        train(model, inputs(9))
        assert tracer._sink.held == held  # type: ignore[union-attr]

"""clew.compat.hyrax in the place of hyrax.trace, inside the real hyrax: the same stages, calls, names and values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from clew.compat.hyrax import TraceCall, TraceContext, TraceDef, get_trace

SCRIPT = Path(__file__).with_name("hyrax_stubs.py")
SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What both say. They run at the same time: most of it is importing hyrax."""
    started = {}
    for mode in ("own", "stand-in"):
        folder = tmp_path_factory.mktemp(mode)
        environment = os.environ | {"PYTHONPATH": str(SOURCE), "CLEW_DIR": str(folder / "clew_runs")}
        started[mode] = subprocess.Popen(
            [sys.executable, "-B", str(SCRIPT), mode],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    found = {}
    for mode, process in started.items():
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors[-3000:]
        found[mode] = json.loads(output)
    return found


@pytest.mark.parametrize("verb", ["train", "infer"])
def test_a_verb_of_hyrax_gives_the_same_trace_with_either_module(told: dict[str, Any], verb: str) -> None:
    own = told["own"]["traced"][verb]
    assert [name for name, _ in own] == [
        "dataset_getter",
        "resolve_data",
        "field_level_collation",
        "collate",
        "prepare_inputs",
        "evaluation",
    ]
    assert all(calls for _, calls in own)
    assert told["stand-in"]["traced"][verb] == own


@pytest.mark.parametrize("verb", ["train", "infer"])
def test_the_clew_run_has_the_same_calls_by_stage(told: dict[str, Any], verb: str) -> None:
    traced = {name: [call[0] for call in calls] for name, calls in told["stand-in"]["traced"][verb]}
    assert told["stand-in"]["recorded"][verb]["functions"] == traced


def test_the_clew_run_knows_which_items_the_model_was_given(told: dict[str, Any]) -> None:
    ids = told["stand-in"]["recorded"]["infer"]["ids"]
    assert ids
    assert all(each == [0, 1, 2] for each in ids)


def test_what_was_altered_stands_in_the_clew_run(told: dict[str, Any]) -> None:
    altered = told["stand-in"]["recorded"]["train"]["altered"]
    assert "train.epochs = 1, not 3" in altered
    assert "data_loader.batch_size = 2, not 4" in altered


def test_the_device_a_tensor_was_on_is_printed_though_its_copy_is_on_the_cpu() -> None:
    call = TraceCall("f", "f", {"x": torch.ones(2)}, {}, 1, devices={"x": "cuda:0"})
    assert "cuda:0" in str(call)


def test_a_tensor_is_a_copy_without_its_history() -> None:
    weight = torch.ones(2, requires_grad=True)
    with TraceContext(1, None):
        trace = get_trace()
        assert trace is not None
        ended = trace.trace_call(TraceDef("f", "f", {"x": 0}, "y", "evaluation"), weight)
        ended(weight * 2, 1)
    with torch.no_grad():
        weight += 1
    call = trace.evaluation[0]
    assert call.x.tolist() == [1, 1]
    assert call.y.grad_fn is None

"""ztrace's example with arrays and tensors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import clew
from clew.compat.ztrace import ztrace
from clew.export import ztrace_log


def test_special_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ztrace_log, "_path", None)
    monkeypatch.setattr(ztrace_log, "_calls", {})

    @ztrace(["arr", "arr[1]", "tensor", "tensor[1]"])
    def trace_special_array(t):
        arr = np.zeros((t,))
        tensor = torch.zeros((t,))

        for i in range(t):
            arr[i] = i
            tensor[i] = i

        tensor = torch.cat([tensor, torch.from_numpy(arr).float()])

    trace_special_array(3)
    current = clew.current()
    assert current is not None
    found = current.calls()[0].data
    assert [a.tolist() for a in found["arr"]] == [[0, 0, 0], [0, 1, 0], [0, 1, 2]]
    assert all(isinstance(a, np.ndarray) for a in found["arr"])
    assert found["arr[1]"] == [0.0, 1.0]
    assert [t.tolist() for t in found["tensor"]] == [[0, 0, 0], [0, 1, 0], [0, 1, 2], [0, 1, 2, 0, 1, 2]]
    assert all(isinstance(t, torch.Tensor) for t in found["tensor"])
    assert found["tensor[1]"] == [torch.tensor(0.0), torch.tensor(1.0)]


def test_tensors_inside_containers_are_nested_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ztrace_log, "_path", None)
    monkeypatch.setattr(ztrace_log, "_calls", {})

    @ztrace(["batch"])
    def f():
        batch = {"x": torch.eye(2), 0: (torch.tensor(float("nan")), np.arange(2))}

    f()
    (path,) = Path("ztrace_logs").glob("*/*.json")
    text = json.dumps(json.loads(path.read_text())["f()"][0]["data"])
    assert text == '{"batch": {"x": [[1.0, 0.0], [0.0, 1.0]], "0": [NaN, [0, 1]]}}'

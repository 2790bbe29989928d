"""Models of torch under Matx's names."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from clew.compat import matx


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        return self.linear(x)


def test_a_module_is_scripted_for_a_device() -> None:
    net = Net().eval()
    scripted = matx.script(net, device=-1)
    module = matx.trace(lambda x: scripted(x), torch.ones(1, 3))
    given = torch.arange(12.0).view(4, 3)
    assert torch.equal(module.run({"x": given}), net(given))


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_a_saved_model_is_scripted_by_its_path_and_goes_into_the_bundle(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    net = Net().eval()
    torch.jit.trace(net, torch.ones(1, 3)).save("net.pt")  # type: ignore[no-untyped-call]
    scripted = matx.script("net.pt", backend="pytorch", device=-1)
    module = matx.trace(lambda x: scripted(x), torch.ones(1, 3))
    with warnings.catch_warnings(record=True) as said:
        module.save("saved")
    assert [one for one in said if one.category is not DeprecationWarning] == []
    Path("net.pt").unlink()
    given = torch.arange(6.0).view(2, 3)
    assert torch.allclose(matx.load("saved", -1).run({"x": given}), net(given))

"""Models that modules hold, filled after the import, are in a bundle as they are."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import clew

from .bundling import project, write

torch = pytest.importorskip("torch")
__all__ = ["project"]

DECORATORS = {
    "clew.op": "@clew.op",
    "torch.no_grad": "@torch.no_grad()",
    "torch.inference_mode": "@torch.inference_mode()",
    "both": "@clew.op\n@torch.no_grad()",
}


@pytest.mark.parametrize("decorator", DECORATORS, ids=str)
def test_weights_loaded_after_the_import_are_in_the_bundle(decorator: str, project: Path, tmp_path: Path) -> None:
    text = f"""
import clew, torch

net = torch.nn.Linear(1, 1)


{DECORATORS[decorator]}
def predict(x):
    return net(x)


def main():
    net.load_state_dict({{"weight": torch.tensor([[2.0]]), "bias": torch.tensor([1.0])}})
"""
    write(project, {"app.py": text})
    app = importlib.import_module("app")
    app.main()
    graph = clew.record(lambda x: app.predict(x), torch.tensor([[3.0]]))
    graph.save(tmp_path / "bundle")
    assert clew.load(tmp_path / "bundle", trusted=True)(x=torch.tensor([[3.0]])).item() == 7.0


def test_a_user_s_module_class_keeps_its_weights_and_its_mode(project: Path, tmp_path: Path) -> None:
    text = """
import clew, torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.layer(x))

net = Net()
state = {"threshold": torch.zeros(2)}

@clew.op
def predict(x):
    return net(x) > state["threshold"]
"""
    write(project, {"app.py": text})
    app = importlib.import_module("app")
    app.net.eval()
    app.state["threshold"] += 0.25
    x = torch.randn(50, 2)
    graph = clew.record(lambda x: app.predict(x), x)
    graph.save(tmp_path / "bundle")
    assert torch.equal(clew.load(tmp_path / "bundle", trusted=True)(x=x), app.predict(x))


def test_a_fitted_estimator_in_a_module_is_in_the_bundle(project: Path, tmp_path: Path) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    text = """
import clew
from sklearn.linear_model import LinearRegression

model = LinearRegression()

@clew.op
def predict(x):
    return float(model.predict([[x]])[0])
"""
    write(project, {"app.py": text})
    app = importlib.import_module("app")
    assert isinstance(app.model, linear_model.LinearRegression)
    app.model.fit([[0.0], [1.0]], [1.0, 3.0])
    graph = clew.record(lambda x: app.predict(x), 3.0)
    graph.save(tmp_path / "bundle")
    assert clew.load(tmp_path / "bundle", trusted=True)(x=3.0) == app.predict(3.0)


def test_what_an_operator_s_module_holds_besides_weights_is_saved_as_it_is_now(project: Path, tmp_path: Path) -> None:
    text = """
        import clew
        import torch
        from torch import nn

        @clew.op
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale, self.act = 1.0, nn.LeakyReLU()
                self.register_buffer("shift", torch.ones(1), persistent=False)
            def forward(self, x):
                return self.act(x * self.scale) + self.shift

        @clew.op
        class Holder:
            def __init__(self):
                self.net = nn.Linear(1, 1)
            def __call__(self, x):
                return self.net(x)

        net, holder = Net(), Holder()
        """
    write(project, {"app.py": text})
    app = importlib.import_module("app")
    app.net.scale, app.net.act.negative_slope = 5.0, 0.5
    app.net.shift.fill_(4)
    app.holder.net.weight.data.fill_(3)  # which the version of the tensor does not tell
    x = torch.tensor([-2.0])
    clew.record(lambda x: (app.net(x), app.holder(x)), x).save(tmp_path / "bundle", test=False)
    loaded = clew.load(tmp_path / "bundle", trusted=True)
    assert loaded(x)[0].item() == -1
    assert torch.equal(loaded(x)[1], app.holder(x))

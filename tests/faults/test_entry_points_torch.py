"""Whatever fails behind a tracer of a model, the model gives what it gives without one.

The tracer is made before anything fails: its constructor tells users of their mistakes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import clew
from clew.errors import OptionError
from clew.probes.model.model_state import StateProbe
from clew.probes.model.probes import ModuleProbe

from .injection import PARTS, check, functions_behind

MODEL = """
    import torch
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(2, 2, bias=False)
            torch.nn.init.ones_(self.fc.weight)
        def forward(self, x):
            h = self.fc(x)
            h = h + 1
            return self.scaled(h)
        def scaled(self, h):
            return h * 2
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    PATHS = ["forward.h", "forward.x", "fc", "fc.input", "fc.grad", "scaled", "**.weight.grad", "fc.weight"]
    tracer = clew.ModelTracer(model, [*PATHS, "optimizer.state.**"], optimizer=optimizer, {options})
    def main():
        out = []
        with tracer:
            for i in range(3):
                y = (model if i else model.forward)(torch.ones(1, 2)).sum()
                y.backward()
                out += [round(y.item(), 4), model.fc.weight.grad.tolist()]
                optimizer.step()
                optimizer.zero_grad()
        try:
            with tracer:
                model(None)
        except TypeError as error:
            out.append(type(error).__name__)
        left = [name for name in vars(model) if name in ("forward", "scaled")]
        return [out, left if not target.partition("#")[0].endswith(SPOIL_UNDOING) else []]
    SPOIL_UNDOING = (".detach", "._detach", ".take_out", ".stop", "._take_away", "do_all")  # they are what undoes
    """

PROGRAMS = {
    "model": MODEL.replace("{options}", "store=True"),
    "model_in_memory": MODEL.replace("{options}", "store=False, nonfinite='find', spike=100.0"),
    "model_ring": MODEL.replace("{options}", "keep='last 2 steps'"),
}


#: What these programs reach and the others do not; what is behind it, test_entry_points.py tries.
PLACES = (
    "probes/model/",
    "instrument/module_calls.py",
    "instrument/eager_torch.py",
    "values/torch",
    "values/owned_tensors.py",
)

#: One of each kind: entering, gradients (hooks of modules: see test_tracer_torch.py), leaving.
SAMPLE = [
    "probes/model/probes.py:ModuleProbe.attach",
    "probes/model/model_state.py:StateProbe._gradient_of",
    "probes/model/tracer.py:ModelTracer._conclude",
]


def test_a_failure_behind_a_traced_model_does_not_reach_the_program(tmp_path: Path) -> None:
    check(PROGRAMS["model"], SAMPLE, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_no_failure_behind_a_traced_model_reaches_the_program(program: str, part: int, tmp_path: Path) -> None:
    targets = [target for target in functions_behind(PROGRAMS[program], tmp_path) if target.startswith(PLACES)]
    assert len(targets) > 100
    check(PROGRAMS[program], targets[part :: len(PARTS)], tmp_path)


def fail(*args: Any, **kwargs: Any) -> Any:
    raise ZeroDivisionError("a bug")


def is_untouched(model: torch.nn.Module) -> bool:
    return "forward" not in vars(model) and not model._forward_hooks and not model._forward_pre_hooks


def test_a_tracer_that_cannot_start_leaves_the_model_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_STRICT", "0")
    monkeypatch.setattr(StateProbe, "attach", fail)  # after the hooks of modules
    model = torch.nn.Linear(2, 2)
    with clew.ModelTracer(model, ["forward"], store=False) as tracer:
        assert is_untouched(model)
        model(torch.ones(2))
    assert tracer.counts == {"train": 0, "eval": 0}


def test_a_mistake_found_at_the_start_is_raised_and_leaves_the_model_as_it_was() -> None:
    model = torch.nn.Linear(2, 2)
    with pytest.raises(OptionError), clew.ModelTracer(model, ["forward"], store=False, signal=10_000):
        pass
    assert is_untouched(model)


def test_a_failure_on_leaving_neither_hides_the_exception_nor_keeps_the_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_STRICT", "0")
    monkeypatch.setattr(StateProbe, "detach", fail)
    monkeypatch.setattr(clew.ModelTracer, "_tell_of_compilation", fail)
    model = torch.nn.Linear(2, 2)
    with pytest.raises(KeyError, match="own"), clew.ModelTracer(model, ["forward"], store=False):
        model(torch.ones(2))
        raise KeyError("own")
    assert is_untouched(model)


@pytest.mark.parametrize("name", ["called", "returned", "left"])
def test_a_method_runs_once_whatever_fails_around_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_STRICT", "0")
    monkeypatch.setattr(ModuleProbe, name, fail)
    calls = []

    class Net(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            calls.append(x)
            return x

    model = Net()
    with clew.ModelTracer(model, ["forward"], store=False):
        assert model.forward(1) == 1
    assert calls == [1]

"""Where a NaN or Inf was born, told apart from where it went."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import clew
from clew.errors import NonfiniteError
from clew.probes.model.finite_checks import is_finite
from probes.model.nets import inputs, net, train


class Log(nn.Module):
    """Makes a NaN by a line of its own when told to."""

    shift = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Any, mask: Any = None) -> Any:
        h = self.fc(x)
        h = h * 0 + self.shift
        return torch.log(h)  # the line


def model_with_log() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), Log(), nn.Tanh(), nn.Linear(4, 1))


def find(model: Any, use: Any, **options: Any) -> Any:
    with clew.ModelTracer(model, [], **{"nonfinite": "find", "store": False, **options}) as tracer:
        use()
    return tracer.nonfinite


def test_the_first_call_that_made_one_is_told_with_its_line_and_operation(tmp_path: Path) -> None:
    model = model_with_log()
    batches = inputs(6)

    def use() -> None:
        for place, batch in enumerate(batches):
            model[1].shift = -1.0 if place == 4 else 1.0
            model(batch)

    with clew.run("nan", path=tmp_path / "run"):
        found = find(model, use, store=True)
    assert (found.where, found.path, found.iteration, found.operation) == ("forward", "1", 4, "log")
    line = Path(found.file).read_text().splitlines()[found.line - 1]
    assert "# the line" in line
    assert torch.isnan(found.call.rerun()).all()
    assert torch.equal(found.call.args["x"], found.inputs["x"])
    (note,) = [note for note in clew.open(tmp_path / "run").ledger if note.kind == "non-finite"]
    assert "`1` (Log) made a NaN from finite inputs, by log" in note.text


def test_calls_that_only_passed_it_on_are_not_blamed() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    found = find(model, lambda: model(torch.tensor([float("nan"), 1.0])))
    assert (found.where, found.path) == ("input", "")
    assert found.passed_on == ["0", "1", "the model"]


def test_a_module_made_it_between_its_layers() -> None:
    class Between(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            return self.b(self.a(x) / torch.zeros(2))

    model = nn.Sequential(Between())
    found = find(model, lambda: model(torch.ones(2)))
    assert (found.where, found.path, found.operation, found.passed_on) == ("forward", "0", "div", ["0.b"])


def test_a_gradient_is_blamed_on_the_module_whose_backward_made_it() -> None:
    class Root(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.sqrt(x)

    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), Root())
    with torch.no_grad():
        model[0].weight.zero_()
        model[0].bias.zero_()
    found = find(model, lambda: model(torch.ones(2)).sum().backward())
    assert (found.where, found.path) == ("backward", "2")


def test_a_gradient_that_came_from_the_loss_is_the_losss() -> None:
    model = nn.Linear(2, 2)
    found = find(model, lambda: (model(torch.ones(2)).sum() * float("inf")).backward())
    assert (found.where, found.path) == ("backward", "")
    assert "the loss" in found.what


def test_weights_that_a_step_made_non_finite_are_the_optimizers() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e38)

    def use() -> None:
        (model(torch.full((3, 2), 100.0))).sum().backward()
        optimizer.step()

    found = find(model, use)
    assert (found.where, found.path) == ("optimizer", "weight")


def test_weights_that_were_bad_already_are_told_as_such() -> None:
    model = nn.Linear(2, 2)
    with torch.no_grad():
        model.weight[0, 0] = float("inf")
    found = find(model, lambda: model(torch.ones(2)))
    assert "were non-finite already: `weight`" in found.what


def test_raise_raises_at_the_call() -> None:
    model = model_with_log()
    model[1].shift = -1.0
    with pytest.raises(NonfiniteError, match="made a NaN from finite inputs"):
        find(model, lambda: model(inputs(1)[0]), nonfinite="raise")


def test_stop_records_no_more_and_lets_the_program_go_on() -> None:
    model = model_with_log()
    model[1].shift = -1.0
    with clew.ModelTracer(model, ["0"], nonfinite="stop", store=False) as tracer:
        for batch in inputs(3):
            model(batch)
    assert tracer.results["0"].iterations == [0]


def test_a_sound_training_has_nothing_to_tell() -> None:
    model = net()
    assert find(model, lambda: train(model, inputs(3))) is None


@pytest.mark.parametrize(
    ("tensor", "finite"),
    [
        (torch.ones(3), True),
        (torch.tensor([1.0, float("nan")]), False),
        (torch.tensor([float("inf")], dtype=torch.bfloat16), False),
        (torch.full((10,), 3e38), True),  # its sum is not
        (torch.full((70000,), 1.0, dtype=torch.float16), True),
        (torch.tensor([1, 2]), True),
        (torch.empty(0), True),
        (torch.tensor([complex(0, float("inf"))]), False),
        (torch.ones(2, device="meta"), True),
    ],
)
def test_finite_is_judged_exactly(tensor: Any, finite: bool) -> None:
    assert is_finite(tensor) is finite


@pytest.mark.parametrize("how", ["step", "next call"])
def test_a_gradient_of_weights_alone_is_the_backwards(how: str) -> None:
    model = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)

    def use() -> None:
        with torch.no_grad():
            model.weight.fill_(1e-30)
        (model(torch.full((1, 1), 3e38)) * 3e38).sum().backward()  # 3e38 * 3e38 is too much for the weight's
        if how == "step":
            optimizer.step()
        else:
            model(torch.ones(1, 1))

    found = find(model, use)
    assert (found.where, found.path) == ("backward", "weight")


class Masked(nn.Module):
    """Masks with -Inf, as attention does."""

    def forward(self, scores: Any, mask: Any) -> Any:
        scores = scores.masked_fill(mask, -torch.inf)
        return torch.softmax(scores, -1)  # the line


def test_an_inf_that_is_meant_is_not_blamed_and_the_nan_made_of_it_is() -> None:
    model = Masked()

    def use() -> None:
        model(torch.zeros(2, 3), torch.tensor([[True, False, False]] * 2))
        model(torch.zeros(2, 3), torch.tensor([[True, True, True]] * 2))

    found = find(model, use)
    assert (found.iteration, found.operation) == (1, "softmax")
    assert "an Inf, as it was told, by masked_fill" in found.what
    assert "# the line" in Path(found.file).read_text().splitlines()[found.line - 1]


def test_an_inf_that_reaches_the_end_is_told_with_the_call_that_made_it() -> None:
    class Exponential(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.exp(x)

    model = nn.Sequential(nn.Identity(), Exponential(), nn.Identity())
    found = find(model, lambda: model(torch.tensor([100.0])))
    assert (found.path, found.operation, found.passed_on) == ("1", "exp", ["2"])
    assert "made an Inf from finite inputs" in found.what


def test_an_inf_that_stays_inside_is_nobodys_fault() -> None:
    class Mask(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.full_like(x, -torch.inf)

    class Uses(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mask = Mask()

        def forward(self, x: Any) -> Any:
            return torch.maximum(x, self.mask(x))

    model = Uses()
    assert find(model, lambda: model(torch.ones(2))) is None


def test_of_an_inf_and_the_nan_another_module_made_of_it_the_inf_is_the_birth() -> None:
    class Exponential(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.exp(x)

    class Centre(nn.Module):
        def forward(self, x: Any) -> Any:
            return x - x.max()

    model = nn.Sequential(Exponential(), Centre())
    found = find(model, lambda: model(torch.tensor([100.0])))
    assert (found.path, found.operation, found.passed_on) == ("0", "exp", ["1"])
    assert "made an Inf from finite inputs, of which `1` (Centre) made a NaN" in found.what


def test_of_a_mask_that_is_a_module_and_the_nan_made_of_it_the_nan_is_the_birth() -> None:
    class Mask(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.masked_fill(x == x, -torch.inf)

    model = nn.Sequential(Mask(), nn.Softmax(-1))
    found = find(model, lambda: model(torch.ones(3)))
    assert (found.path, found.operation) == ("1", "softmax")
    assert "with an Inf that `0` (Mask) was told to make" in found.what


@pytest.mark.parametrize(
    ("scale", "text"),
    [
        (1.0, "; weights were finite, the largest 1 in `0.weight`"),
        (1e30, "; weights were very large already: `0.weight` (up to 1e+30)"),
    ],
)
def test_the_report_says_what_the_weights_were(scale: float, text: str) -> None:
    class Root(nn.Module):
        def forward(self, x: Any) -> Any:
            return (-x).sqrt()

    model = nn.Sequential(nn.Linear(1, 1, bias=False), Root())
    nn.init.constant_(model[0].weight, scale)
    with clew.ModelTracer(model, [], nonfinite="find", store=False) as tracer:
        model(torch.ones(1))
    assert str(tracer.nonfinite).endswith(f"(iteration 0, rank 0){text}")

"""Paths lead to what they name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import clew
from clew.errors import OptionError, UnknownNameError
from clew.probes.model.inside import inside
from clew.probes.model.paths import spots
from probes.model.nets import Net, Pair, inputs, net, train


def seen(paths: Any, count: int = 2, **options: Any) -> dict[str, int]:
    """How many values each path gave, in memory."""
    model = net()
    with clew.ModelTracer(model, paths, store=False, **options) as tracer:
        train(model, inputs(count))
    return {name: len(result) for name, result in tracer.results.items()}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("forward", {"forward": 2}),
        ("forward.x", {"forward.x": 2}),
        ("forward.scale", {"forward.scale": 1}),  # it never changed
        ("forward.y", {"forward.y": 4}),
        ("encoder.1", {"encoder.1": 2}),
        ("encoder.1.output", {"encoder.1": 2}),
        ("encoder.1.input", {"encoder.1.input": 2}),
        ("encoder.1.grad", {"encoder.1.grad": 2}),
        ("encoder.*", {"encoder.0": 2, "encoder.1": 2}),
        ("encoder.*.norm", {"encoder.0.norm": 2, "encoder.1.norm": 2}),
        ("**.norm", {"encoder.0.norm": 2, "encoder.1.norm": 2}),
        ("encoder.*.forward.q", {"encoder.0.forward.q": 6, "encoder.1.forward.q": 6}),
        ("encoder.0.forward.self.counter", {"encoder.0.forward.self.counter": 4}),
        ("encoder.0.counter", {"encoder.0.counter": 2}),
        ("encoder.0.forward.out.logits", {"encoder.0.forward.out.logits": 2}),
        ("encoder.0.forward.out.aux.0", {"encoder.0.forward.out.aux.0": 2}),
        ("encoder.0.forward.out.aux.*", {"encoder.0.forward.out.aux.0": 2, "encoder.0.forward.out.aux.1": 2}),
        ("head.weight", {"head.weight": 2}),
        ("head.weight.grad", {"head.weight.grad": 2}),
        ("head.*", {"head.weight": 2, "head.bias": 2}),
        ("**.running_mean", {"bn.running_mean": 2}),
        ("bn.num_batches_tracked", {"bn.num_batches_tracked": 2}),
    ],
)
def test_a_path_gives_every_value_at_it(path: str, expected: dict[str, int]) -> None:
    assert seen(path) == expected


def test_two_stars_are_every_submodules_output_and_not_the_models() -> None:
    modules = [name for name, _ in net().named_modules() if name]
    assert sorted(seen("**")) == sorted(modules)


def test_two_stars_before_a_tensors_name_are_any_depth_and_none() -> None:
    weights = [name for name, _ in net().named_parameters() if name.endswith("weight")]
    assert sorted(seen("**.weight")) == sorted(weights)
    assert sorted(seen("**.weight.grad")) == sorted(f"{name}.grad" for name in weights)


def test_all_arguments_and_locals_of_a_method() -> None:
    assert set(seen("forward.*")) == {"forward.x", "forward.scale", "forward.y"}


def test_the_optimizers_state_has_the_names_of_the_parameters() -> None:
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    with clew.ModelTracer(model, "optimizer.state.**", optimizer=optimizer, store=False) as tracer:
        train(model, inputs(2), optimizer)
    assert len(tracer.results["optimizer.state.head.weight.exp_avg"]) == 2
    assert set(tracer.results["optimizer.state.head.weight.step"].iterations) == {0, 1}


def test_the_optimizers_settings_can_be_had_too() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    with clew.ModelTracer(model, "optimizer.param_groups.0.lr", optimizer=optimizer, store=False) as tracer:
        train(model, inputs(1), optimizer)
    assert tracer.results["optimizer.param_groups.0.lr"].values == [0.5]


def test_another_method_in_place_of_forward() -> None:
    model = net()
    block = model.encoder[0]
    paths = ["encoder.0.encode", "encoder.0.encode.x", "encoder.0.encode.scale", "encoder.0.encode.code"]
    with clew.ModelTracer(model, paths, store=False) as tracer:
        block.encode(torch.ones(2))
        model(inputs(1)[0])
        block.encode(torch.ones(2), scale=3.0)
    values = {name: result.values for name, result in tracer.results.items()}
    assert torch.equal(values["encoder.0.encode"][-1], torch.full((2,), 3.0))
    assert values["encoder.0.encode.scale"][-1] == 3.0
    assert torch.equal(values["encoder.0.encode.code"][-1], torch.full((2,), 3.0))


def test_items_of_what_a_module_gives() -> None:
    class Two(nn.Module):
        def forward(self, x: Any) -> Any:
            return {"logits": x + 1, "pair": Pair(x, [x * 2])}

    model = nn.Sequential(Two())
    model.forward = lambda x: model[0](x)["logits"]  # type: ignore[method-assign]
    with clew.ModelTracer(model, ["0.logits", "0.pair.left", "0.pair.right.0"], store=False) as tracer:
        model(torch.ones(1))
    assert [result.values[0].item() for result in tracer.results.values()] == [2.0, 1.0, 2.0]


def test_steps_into_containers_take_stars() -> None:
    value = {"a": [1, {"b": 2}], "c": Pair(3, 4)}
    assert [(name, found) for name, found, _ in inside(value, ("**",), "v")] == [
        ("v.a.0", 1), ("v.a.1.b", 2), ("v.c.left", 3), ("v.c.right", 4),
    ]  # fmt: skip
    assert [name for name, _, _ in inside(value, ("*",), "v")] == ["v.a", "v.c"]
    assert list(inside(value, ("nothing",), "v")) == []


def test_a_module_is_preferred_to_a_word_of_its_name() -> None:
    model = nn.ModuleDict({"input": nn.Linear(1, 1)})
    (spot,) = spots(model, "input")
    assert (spot.module, spot.facet) == ("input", "output")


@pytest.mark.parametrize("path", ["", "encoder..1", ".x", 3])
def test_what_is_no_path_is_an_error(path: Any) -> None:
    with pytest.raises(OptionError, match="path"):
        clew.ModelTracer(Net(), [path])


def test_a_path_that_matched_nothing_is_said_once_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    model = net()
    with clew.ModelTracer(model, ["encodr.1", "encoder.1", "forward.z"], store=False) as tracer:
        train(model, inputs(1))
    said = capsys.readouterr().err
    assert said.count("clew:") == 1
    assert "`encodr.1`: there is no such path; did you mean `encoder.1`?" in said
    assert [note.subject for note in tracer.ledger] == ["encodr.1", "forward.z"]


def test_an_unknown_name_among_the_results_is_an_error_with_the_nearest() -> None:
    model = net()
    with clew.ModelTracer(model, "encoder.*", store=False) as tracer:
        model(inputs(1)[0])
    with pytest.raises(UnknownNameError, match=r"did you mean `encoder\.1`"):
        tracer.results["encoder.11"]
    assert set(tracer.results["encoder.*"]) == {"encoder.0", "encoder.1"}


def test_a_gradient_of_what_needs_none_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    model = net()
    model.head.weight.requires_grad_(False)
    with clew.ModelTracer(model, ["head.weight.grad"], store=False):
        train(model, inputs(1))
    assert "no gradient reached it" in capsys.readouterr().err


def test_an_item_of_what_a_module_gives_behind_a_star() -> None:
    class Attention(nn.Module):
        def forward(self, x: Any) -> Any:
            return x, None

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attn = Attention()

        def forward(self, x: Any) -> Any:
            return self.attn(x)[0]

    model = nn.Sequential(Layer(), Layer())
    with clew.ModelTracer(model, ["**.attn.0", "*.attn"], store=False) as tracer:
        model(torch.ones(1))
    assert sorted(tracer.results) == ["0.attn", "0.attn.0", "1.attn", "1.attn.0"]

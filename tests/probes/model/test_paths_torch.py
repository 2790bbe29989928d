"""Paths lead to what they name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import clew
from clew.errors import OptionError, UnknownNameError
from clew.probes.model.container_items import inside
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


def test_an_optimizer_that_has_nothing_of_a_name_is_not_said_to_have_made_no_step(
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = net()
    with clew.ModelTracer(model, ["optimizer.lr"], store=False):
        train(model, inputs(1))
    assert "did you mean `optimizer.param_groups.0.lr`?" in capsys.readouterr().err


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


class Rebinding(nn.Module):
    """Binds its argument anew, and changes it in place."""

    def __init__(self) -> None:
        super().__init__()
        self.bn = nn.BatchNorm1d(2)
        self.layers = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        self.config = {"gain": 2.0, "shift": 1.0}

    def forward(self, x: Any) -> Any:
        pair = [x, x + 1]
        x = self.bn(x)
        x = self.layers(x) * self.config["gain"]
        x += self.config["shift"]
        return x + pair[1]


def values_at(paths: Any, model: Any = None, count: int = 4, **options: Any) -> dict[str, list[Any]]:
    torch.manual_seed(0)
    model = model or Rebinding()
    with clew.ModelTracer(model, paths, store=False, **options) as tracer:
        for place in range(count):
            model(torch.randn(3, 2) + place)
    return {name: result.values for name, result in tracer.results.items()}


def test_an_argument_is_followed_through_every_version() -> None:
    found = values_at(["forward.x", "forward.x.input", "bn.input", "layers.input"])
    assert {name: len(values) for name, values in found.items()} == {
        "forward.x": 16, "forward.x.input": 4, "bn.input": 4, "layers.input": 4,
    }  # fmt: skip
    assert torch.equal(found["forward.x"][0], found["bn.input"][0])
    assert torch.equal(found["forward.x"][1], found["layers.input"][0])
    assert torch.equal(found["forward.x"][3], found["forward.x"][2] + 1.0)  # changed in place
    assert all(map(torch.equal, found["forward.x.input"], found["bn.input"]))


def test_an_argument_changed_in_place_only_is_followed_too() -> None:
    class InPlace(nn.Module):
        def forward(self, x: Any) -> Any:
            x.mul_(2)
            y = x + 1
            return y

    found = values_at("forward.x", InPlace(), count=1)
    assert torch.equal(found["forward.x"][1], found["forward.x"][0] * 2)


def test_the_item_input_of_an_argument_is_preferred_to_the_word() -> None:
    class Batch(nn.Module):
        def forward(self, batch: Any) -> Any:
            batch = {"input": batch["input"] + 1}
            return batch["input"]

    with clew.ModelTracer(model := Batch(), "forward.batch.input", store=False) as tracer:
        model({"input": torch.zeros(1)})
    assert [value.item() for value in tracer.results["forward.batch.input"].values] == [0.0, 1.0]


def test_versions_of_an_argument_are_seen_inside_a_decorator() -> None:
    class Decorated(nn.Module):
        @torch.no_grad()
        def forward(self, x: Any) -> Any:
            x = x + 1
            return x

    with clew.ModelTracer(model := Decorated(), ["forward.x", "forward.x.input"], store=False) as tracer:
        model(torch.zeros(1))
    assert [value.item() for value in tracer.results["forward.x"].values] == [0.0, 1.0]
    assert [value.item() for value in tracer.results["forward.x.input"].values] == [0.0]


def test_an_argument_whose_versions_cannot_be_seen_is_seen_itself_and_that_is_noted() -> None:
    namespace: dict[str, Any] = {}
    exec("def forward(self, x):\n    x = x + 1\n    return x", namespace)
    made = type("Made", (nn.Module,), {"forward": namespace["forward"]})
    with clew.ModelTracer(model := made(), ["forward.x", "forward.x.input"], store=False) as tracer:
        model(torch.zeros(1))
    assert [value.item() for value in tracer.results["forward.x"].values] == [0.0]
    assert [value.item() for value in tracer.results["forward.x.input"].values] == [0.0]
    assert [(note.kind, note.subject) for note in tracer.ledger] == [("fallback", "forward.x")]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("forward.self.bn.running_var", ["forward.self.bn.running_var"]),
        ("forward.self.*.running_var", ["forward.self.bn.running_var"]),
        ("forward.self.layers.1.running_mean", ["forward.self.layers.1.running_mean"]),
        ("forward.self.layers.*.running_mean", ["forward.self.layers.1.running_mean"]),
        ("forward.self.**.running_var", ["forward.self.bn.running_var", "forward.self.layers.1.running_var"]),
    ],
)
def test_a_path_from_self_goes_into_submodules(path: str, names: list[str]) -> None:
    found = values_at(path)
    assert {name: len(values) for name, values in found.items()} == dict.fromkeys(names, 4)
    assert torch.equal(found[names[0]][0], torch.ones(2) if "var" in path else torch.zeros(2))
    assert not torch.equal(found[names[0]][1], found[names[0]][0])


@pytest.mark.parametrize("path", ["forward.self.layers.0.weight", "forward.self.config.gain", "forward.self.*.gain"])
def test_a_path_from_self_gives_what_never_changes_once(path: str) -> None:
    (values,) = values_at(path).values()
    assert len(values) == 1


def test_a_star_from_self_gives_the_attributes_of_the_module() -> None:
    assert set(values_at("forward.self.*")) == {"forward.self.training", "forward.self.config"}


def test_a_local_variable_that_is_a_module_has_its_tensors_inside() -> None:
    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x)
            return x

    model = Loop()
    found = values_at("forward.layer.bias", model, count=1)["forward.layer.bias"]
    assert all(map(torch.equal, found, [layer.bias for layer in model.layers]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("paths", "name", "count"),
    [
        (["forward.pair.0", "forward.pair.*"], "forward.pair.0", 4),
        (["forward.pair.*", "forward.pair.0"], "forward.pair.0", 4),
        (["forward.pair.**", "forward.pair.*"], "forward.pair.1", 4),
        (["forward.*.0", "forward.pair.0"], "forward.pair.0", 4),
        (["forward.x", "forward.*"], "forward.x", 16),
        (["forward", "forward"], "forward", 4),
        (["bn", "*", "**"], "bn", 4),
        (["bn.running_var", "bn.*", "**.running_var"], "bn.running_var", 4),
        (["layers.0.weight", "layers.*.weight"], "layers.0.weight", 1),
        (["config.gain", "config.*"], "config.gain", 1),
        (["forward.self.bn.running_var", "forward.self.*.running_var"], "forward.self.bn.running_var", 4),
        (["forward.self.config.gain", "forward.self.config.*"], "forward.self.config.gain", 1),
        (["layers.input", "layers.*.input", "layers.0.input"], "layers.0.input", 4),
    ],
)
def test_paths_that_overlap_record_each_value_once(
    paths: list[str], name: str, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(values_at(paths)[name]) == count
    assert not capsys.readouterr().err  # nor is one of them said to have led nowhere


def test_overlapping_paths_record_gradients_and_optimizer_state_once() -> None:
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    paths = ["head.weight.grad", "**.weight.grad", "head.grad", "*.grad"]
    paths += ["optimizer.state.**", "optimizer.state.head.weight.exp_avg"]
    with clew.ModelTracer(model, paths, optimizer=optimizer, store=False) as tracer:
        train(model, inputs(2), optimizer)
    names = ["head.weight.grad", "head.grad", "optimizer.state.head.weight.exp_avg"]
    assert [len(tracer.results[name]) for name in names] == [2, 2, 2]


def test_several_arguments_are_taken_once_whatever_names_them() -> None:
    class Two(nn.Module):
        def forward(self, a: Any, b: Any) -> Any:
            return a + b

    model = nn.ModuleDict({"two": Two()})
    model.forward = lambda: model["two"](torch.zeros(1), torch.ones(1))  # type: ignore[method-assign]
    with clew.ModelTracer(model, ["two.input", "two.input.a"], store=False) as tracer:
        model()
    assert {name: len(result) for name, result in tracer.results.items()} == {"two.input.a": 1, "two.input.b": 1}


def test_a_wildcard_matches_methods_and_their_locals_where_that_is_asked_for() -> None:
    labels = {
        spot.stem for pattern in ["encoder.0.*", "encoder.0.*.code"] for spot in spots(net(), pattern, methods=True)
    }
    assert labels >= {"encoder.0.fc", "encoder.0.forward", "encoder.0.encode", "encoder.0.encode.code"}
    assert {spot.stem for spot in spots(net(), "encoder.0.*")} == {"encoder.0.fc", "encoder.0.norm"}


def test_an_item_is_not_recorded_again_because_its_list_grows() -> None:
    class Growing(nn.Module):
        def forward(self, x: Any) -> Any:
            states = [x]
            for _ in range(3):
                states.append(states[-1] + 1)
            states[0] = x - 1
            return states[-1]

    found = values_at(["forward.states.*"], Growing(), count=2)
    assert {name: len(values) for name, values in found.items()} == {
        "forward.states.0": 4, "forward.states.1": 2, "forward.states.2": 2, "forward.states.3": 2,
    }  # fmt: skip


def test_several_tracers_see_the_variables_of_one_method_in_whatever_order_they_end() -> None:
    model = Rebinding()
    tracers = [clew.ModelTracer(model, path, store=False) for path in ("forward.x", "forward.*", "forward.pair")]
    for tracer in tracers:
        tracer.start()
        model(torch.randn(3, 2))
    for tracer in (tracers[0], tracers[2], tracers[1]):
        tracer.stop()
        model(torch.randn(3, 2))
    counts = [{name: len(result) for name, result in tracer.results.items()} for tracer in tracers]
    assert counts == [{"forward.x": 12}, {"forward.x": 16, "forward.pair": 4}, {"forward.pair": 2}]
    assert "forward" not in vars(model)
    assert not any(tracer.ledger for tracer in tracers)


@pytest.mark.parametrize("paths", [["0.forward.x"], ["0.forward.x", "0"], ["forward.input", "0.forward.x"]])
def test_an_argument_of_a_submodule_is_followed_too(paths: list[str]) -> None:
    assert len(values_at(paths, nn.Sequential(Rebinding()))["0.forward.x"]) == 16

"""Models, losses and optimizers: what is recorded of them, and where a loop ends that only has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import clew
from probes.pipeline.loops import Net, Numbers, failed, seen_in, told_apart, traced, train

X = torch.arange(40.0)[:, None].repeat(1, 3)


class Around(nn.Module):
    """A model that gives its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net()
        self.loss = nn.L1Loss(reduction="none")

    def forward(self, x: Any) -> Any:
        return self.loss(self.net(x), torch.zeros(len(x)))


def step(net: Any, optimizer: Any, x: Any) -> None:
    optimizer.zero_grad()
    net(x).mean().backward()
    optimizer.step()


def test_a_loop_over_all_data_at_once_ends_after_one_step() -> None:
    def run(net: Any) -> None:
        optimizer = torch.optim.Adam(net.parameters())
        for _ in range(1000):
            step(net, optimizer, X)

    trace = traced(Net(), run=run)
    assert {stage.name: len(stage) for stage in trace} == {"model": 1, "optimizer": 1}
    assert trace.facts.state == "stopped"


def test_inference_without_a_loader_ends_too() -> None:
    @torch.no_grad()
    def run(net: Any) -> None:
        for _ in range(1000):
            net(X)

    assert len(traced(Net().eval(), run=run).model) == 1


@pytest.mark.parametrize("whole", [True, False])
def test_a_closure_that_an_optimizer_calls_is_about_the_batch(whole: bool) -> None:
    def run(loader: Any) -> None:
        net = Net()
        optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3, lr=1e-9)
        for x, _ in [(X, None)] * 100 if whole else loader:

            def closure(x: Any = x) -> Any:
                optimizer.zero_grad()
                loss = nn.functional.l1_loss(net(x), torch.zeros(len(x)))
                loss.backward()
                return loss

            optimizer.step(closure)

    trace = traced(DataLoader(Numbers(), batch_size=4), run=run)
    assert trace.model[0].ids == (tuple(range(40)) if whole else (0, 1, 2, 3))
    assert trace.loss[0].ids == trace.model[0].ids and "optimizer" in trace


def test_two_optimizers_each_step_for_every_batch() -> None:
    def run(loader: Any) -> None:
        nets = [Net(), Net()]
        optimizers = [torch.optim.SGD(net.parameters(), lr=0.0) for net in nets]
        for _ in range(10):
            for x, _ in loader:
                for net, optimizer in zip(nets, optimizers, strict=True):
                    step(net, optimizer, x)

    trace = traced(DataLoader(Numbers(), batch_size=4), run=run)
    assert [call.ids for call in trace.optimizer] == [(0, 1, 2, 3)] * 2 + [(4, 5)] * 2


def test_gradients_that_are_gathered_over_batches_end_in_one_step() -> None:
    def run(loader: Any) -> None:
        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
        for number, (x, _) in enumerate(loader):
            net(x).mean().backward()
            if number % 3 == 2:
                optimizer.step()

    trace = traced(DataLoader(Numbers(), batch_size=2), run=run)
    assert len(trace.model) == 3 and len(trace.optimizer) == 1


def test_the_part_of_a_loss_inside_a_model_is_the_items_own() -> None:
    def run(loader: Any) -> None:
        net = Around()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
        for x, _ in loader:
            step(net, optimizer, x)

    trace = traced(DataLoader(Numbers(), batch_size=4, shuffle=True), run=run)
    told_apart(trace)
    assert trace.model.functions == ["Around"] and trace.loss.functions == ["L1Loss"]
    assert all(item.loss == item.id for item in trace.items)


def test_a_loss_of_the_users_own_is_a_loss_wherever_it_is_defined() -> None:
    class FocalLoss(nn.Module):
        def forward(self, given: Any, target: Any) -> Any:
            return (given - target).abs().mean(1)

    FocalLoss.__module__ = "__main__"  # as in a script or a notebook

    def run(loader: Any) -> None:
        for x, _ in loader:
            FocalLoss()(Net()(x), x)

    trace = traced(DataLoader(Numbers(), batch_size=3), run=run)
    assert (trace.model.functions, trace.loss.functions) == (["Net"], ["FocalLoss"])


def test_a_model_that_gives_its_loss_as_well_is_a_model() -> None:
    class NetWithLoss(Net):
        pass

    def run(loader: Any) -> None:
        for x, _ in loader:
            NetWithLoss()(x)

    assert traced(DataLoader(Numbers(), batch_size=3), run=run).model.functions == ["NetWithLoss"]


def test_what_the_first_convolution_of_a_model_was_given_is_known_and_stored() -> None:
    class ChannelsLast(nn.Module):
        def forward(self, x: Any) -> Any:
            return nn.Conv2d(3, 1, 1)(x.permute(0, 3, 1, 2) / 255)

    with clew.items(1) as trace:
        ChannelsLast()(torch.rand(2, 16, 16, 3) * 255)
    stored = clew.open("latest").trace
    assert trace.model[0].passage.convolved == stored.model[0].passage.convolved == (2, 3, 16, 16)
    low, high = stored.model[0].passage.convolved_range
    assert 0 <= low < high <= 1 and not trace.check()


def test_modules_inside_modules_are_there_as_deep_as_asked() -> None:
    def run(loader: Any) -> None:
        for x, _ in loader:
            Around()(x)

    trace = traced(DataLoader(Numbers(), batch_size=6), run=run, depth=2)
    assert trace.model.functions == ["Around", "Net"]


def test_a_compiled_model_runs_uncompiled_and_that_is_told() -> None:
    compiled = []

    def backend(graph: Any, inputs: Any) -> Any:
        compiled.append(graph)
        return graph.forward

    net = torch.compile(Net(), backend=backend)

    def run(loader: Any) -> None:
        for x, _ in loader:
            net(x)

    trace = traced(DataLoader(Numbers(), batch_size=4), run=run)
    assert trace.model.functions == ["Net"] and "compiled models run uncompiled (torch.compile)" in trace.altered
    assert compiled == []
    net(X)
    assert len(compiled) == 1


def test_a_program_that_is_not_stopped_compiles_its_model_whole() -> None:
    from torch._dynamo import trace_rules

    compiled = []

    def backend(graph: Any, inputs: Any) -> Any:
        compiled.append(graph)
        return graph.forward

    trace_rules.add("clew")  # as it is where anything is watched
    net = torch.compile(Around(), backend=backend, fullgraph=True)
    with pytest.raises(ZeroDivisionError), clew.items(keep="last batch") as trace:
        for x, _ in DataLoader(Numbers(8), batch_size=4):
            net(x)
        _ = 1 / 0
    assert len(compiled) == 1 and trace.altered == []
    assert trace.model[-1].function == "Around" and trace.model[-1].ids == (4, 5, 6, 7)


def test_labels_out_of_range_are_in_the_trace_with_the_error() -> None:
    def run(loader: Any) -> None:
        model = nn.Linear(3, 2)
        for x, y in loader:
            nn.functional.cross_entropy(model(x), y)

    trace, error = failed(DataLoader(Numbers(), batch_size=4), run, n=4)
    assert trace.error == error and trace.loss[0].error == error
    assert trace.loss[0].target.tolist() == [0, 1, 2, 3]
    assert any(warning.kind == "labels-out-of-range" for warning in trace.check().warnings)


def test_a_model_that_fails_is_in_the_trace_with_what_it_was_given() -> None:
    trace, error = failed(
        DataLoader(Numbers(), batch_size=4), lambda loader: nn.Linear(4, 2)(next(iter(loader))[0]), n=4
    )
    assert trace.model[0].error == error and trace.model[0].input.shape == (4, 3)


def test_a_model_that_is_saved_meanwhile_is_told(tmp_path: Path) -> None:
    def run(loader: Any) -> None:
        train(loader, 1)
        torch.save({}, tmp_path / "best.pt")

    trace = traced(DataLoader(Numbers(), batch_size=4), run=run)
    assert any(str(tmp_path / "best.pt") in note for note in trace.notes)
    assert seen_in(trace, "model") == [0, 1, 2, 3, 4, 5]


def test_learning_rates_of_two_groups_are_no_rows_of_two_items() -> None:
    def run(loader: Any) -> None:
        nets = [Net(), Net()]
        optimizer = torch.optim.SGD([{"params": net.parameters(), "lr": 0.0} for net in nets])
        for x, _ in loader:
            nets[0](x).mean().backward()
            optimizer.step()

    trace = traced(DataLoader(Numbers(), batch_size=2), 2, run)
    assert trace.optimizer[0].lr == (0.0, 0.0) and not trace.optimizer[0].passage.by_row


def test_traceable_gives_a_training_function_a_trace_of_its_own() -> None:
    verb = clew.traceable(train)
    loader = DataLoader(Numbers(8), batch_size=4)
    assert verb(loader, 1) == verb(loader, 1, trace=0) == "done"
    assert seen_in(verb(loader, trace=3), "model") == [0, 1, 2]

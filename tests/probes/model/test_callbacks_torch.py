"""Callbacks: what they are given, what they may do, and what becomes of bad ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import clew
from clew.errors import OptionError
from probes.model.nets import inputs, net, train


class Echo(nn.Module):
    def forward(self, x: Any) -> Any:
        return x


def traced(count: int = 4, sizes: list[int] | None = None, **options: Any) -> clew.ModelTracer:
    """A model that gives what it is given: iteration i gets so many times i."""
    model = Echo()
    with clew.ModelTracer(model, ["forward.x"], **{"store": False, **options}) as tracer:
        for place in range(count):
            model(torch.full((sizes[place] if sizes else 2,), float(place)))
    return tracer


def test_pre_save_replaces_each_value_before_it_is_kept(tmp_path: Path) -> None:
    with clew.run(path=tmp_path / "run"):
        tracer = traced(pre_save=clew.reduce.mean, store=True)
    assert [value.item() for value in tracer.results["forward.x"].values] == [0.0, 1.0, 2.0, 3.0]
    assert [value.shape for value in clew.open(tmp_path / "run")["forward.x"].values] == [()] * 4


def test_gatherings_come_every_so_many_iterations_and_once_more_at_the_end() -> None:
    seen: list[tuple[str, int, list[int], list[int]]] = []

    def look(name: str, values: list[Any], iterations: list[int], ranks: list[int]) -> None:
        seen.append((name, len(values), list(iterations), list(ranks)))

    traced(5, pre_gather=look, gathering_interval=2)
    assert seen == [
        ("forward.x", 2, [0, 1], [0, 0]),
        ("forward.x", 2, [2, 3], [0, 0]),
        ("forward.x", 1, [4], [0]),
    ]


def test_stacks_of_stacks() -> None:
    stack = clew.reduce.stack
    tracer = traced(4, pre_gather=stack, post_gather=stack, post_trace=stack, gathering_interval=2)
    (value,) = tracer.results["forward.x"].values
    assert value.shape == (2, 1, 2, 2)  # gatherings, ranks, iterations of each, x


def test_ragged_values_are_padded() -> None:
    tracer = traced(3, sizes=[1, 3, 2])
    padded = tracer.results["forward.x"].pad(fill=-1)
    assert padded.tolist() == [[0, -1, -1], [1, 1, 1], [2, 2, -1]]
    with pytest.raises(OptionError, match="different shapes"):
        tracer.results["forward.x"].stack()
    assert traced(3).results["forward.x"].stack().shape == (3, 2)


def test_a_callback_may_return_the_values_instead() -> None:
    tracer = traced(3, post_trace=lambda name, values, iterations, ranks: [float(value[0]) for value in values])
    assert tracer.results["forward.x"].values == [0.0, 1.0, 2.0]


def test_a_callback_that_raises_is_told_once_and_what_there_was_stays(capsys: pytest.CaptureFixture[str]) -> None:
    def bad(name: str, values: list[Any], iterations: list[int], ranks: list[int]) -> None:
        values.clear()
        raise ZeroDivisionError("oh")

    tracer = traced(4, post_gather=bad)
    assert len(tracer.results["forward.x"]) == 4
    said = capsys.readouterr().err
    assert said.count("clew:") == 1
    assert "the post_gather callback" in said
    assert "ZeroDivisionError: oh" in said


def test_nonsense_from_a_callback_is_told_and_what_there_was_stays(capsys: pytest.CaptureFixture[str]) -> None:
    tracer = traced(2, pre_save=lambda name, values, iterations, ranks: 3)
    assert len(tracer.results["forward.x"]) == 2
    assert "gave a int for `forward.x`" in capsys.readouterr().err


def test_results_can_be_read_while_the_program_goes_on() -> None:
    model = net()
    with clew.ModelTracer(model, ["forward"], store=False) as tracer:
        train(model, inputs(2))
        assert len(tracer.results["forward"]) == 2
        train(model, inputs(4)[2:])
        assert len(tracer.results["forward"]) == 4


# ---- the ready-made ones


def reduced(reduce: Any, value: Any) -> Any:
    values = [value]
    assert reduce("x", values, [0], [0]) is None
    return values[0]


def test_mean_norm_and_their_options() -> None:
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    assert reduced(clew.reduce.mean, x) == 1.75
    assert reduced(clew.reduce.mean(dim=0), x).tolist() == [1.5, 2.0]
    assert reduced(clew.reduce.mean, torch.tensor([1, 2])) == 1.5
    assert reduced(clew.reduce.norm, x) == 5.0
    assert reduced(clew.reduce.norm, torch.full((100_000,), 60000.0, dtype=torch.float16)).isfinite()


def test_a_histogram_counts_everything_that_is_finite() -> None:
    x = torch.tensor([0.0, 0.1, 0.9, 1.0, float("nan")])
    found = reduced(clew.reduce.histogram(bins=2), x)
    assert found["counts"].tolist() == [2, 2]
    assert found["edges"].tolist() == [0.0, 0.5, 1.0]
    assert found["outside"] == 1


def test_a_sample_is_of_so_many_values_and_leaves_random_numbers_alone() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    found = reduced(clew.reduce.sample(k=5), torch.arange(1000.0))
    assert found.shape == (5,)
    assert torch.equal(torch.get_rng_state(), before)
    assert reduced(clew.reduce.sample(k=5), torch.arange(3.0)).tolist() == [0.0, 1.0, 2.0]


def test_the_largest_by_size_with_their_places() -> None:
    found = reduced(clew.reduce.topk(k=2), torch.tensor([[1.0, -5.0], [2.0, 0.0]]))
    assert found["values"].tolist() == [-5.0, 2.0]
    assert found["places"].tolist() == [1, 2]


def test_quantiles_are_torchs_for_any_size() -> None:
    x = torch.randn(1001, generator=torch.Generator().manual_seed(0))
    found = reduced(clew.reduce.quantiles(q=(0.1, 0.5, 0.99)), x)
    assert torch.allclose(found.float(), torch.quantile(x, torch.tensor([0.1, 0.5, 0.99])), atol=1e-6)


def test_what_is_no_tensor_is_left_alone() -> None:
    assert reduced(clew.reduce.mean, "text") == "text"


def test_an_unknown_option_of_a_reducer_is_an_error() -> None:
    with pytest.raises(OptionError, match="k=8"):
        clew.reduce.topk(n=3)

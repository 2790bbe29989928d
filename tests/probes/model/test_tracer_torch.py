"""What a tracer catches, and what it leaves alone."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import clew
from clew.errors import OptionError, TargetError
from probes.model.nets import Net, inputs, net, train


def in_memory(model: Any, paths: Any, **options: Any) -> clew.ModelTracer:
    return clew.ModelTracer(model, paths, store=False, **options)


# ---- exactly what was there


def test_values_are_what_the_module_gave_and_was_given() -> None:
    model, batches = net(), inputs(3)
    with in_memory(model, ["forward", "forward.x"]) as tracer:
        given = train(model, batches)
    assert all(map(torch.equal, tracer.results["forward"].values, given))
    assert all(map(torch.equal, tracer.results["forward.x"].values, batches))
    assert tracer.results["forward"].iterations == [0, 1, 2]
    assert tracer.results["forward"].ranks == [0, 0, 0]


def test_a_value_is_kept_as_it_was_before_it_was_changed_in_place() -> None:
    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Identity(), nn.ReLU(inplace=True)

        def forward(self, x: Any) -> Any:
            return self.second(self.first(x * 1))

    model = InPlace()
    with in_memory(model, ["first", "second", "second.input"]) as tracer:
        model(torch.tensor([-1.0, 1.0]))
    assert tracer.results["first"].values[0].tolist() == [-1.0, 1.0]
    assert tracer.results["second.input"].values[0].tolist() == [-1.0, 1.0]
    assert tracer.results["second"].values[0].tolist() == [0.0, 1.0]


def test_views_and_other_strides_are_kept_as_what_they_mean() -> None:
    class Views(nn.Module):
        def forward(self, x: Any) -> Any:
            a = x.t()
            b = x[0].expand(3, 4)
            c = x[:, 1]
            d = torch.complex(x, x).conj()
            return a, b, c, d

    model, x = Views(), torch.arange(8.0).reshape(2, 4)
    with in_memory(model, ["forward.*"]) as tracer:
        a, b, c, d = model(x)
    for name, value in {"a": a, "b": b, "c": c, "d": d}.items():
        (kept,) = tracer.results[f"forward.{name}"].values
        assert torch.equal(kept, value)
        assert kept.is_contiguous()


def test_each_version_of_a_local_in_order() -> None:
    model, x = net(), inputs(1)[0]
    with in_memory(model, ["encoder.0.forward.q"]) as tracer:
        model(x)
    first, second, third = tracer.results["encoder.0.forward.q"].values
    assert torch.equal(second, first * 2)
    assert torch.equal(third, second + 1)


def test_a_module_called_several_times_gives_each_call_in_order() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            return self.layer(self.layer(x))

    torch.manual_seed(0)
    model = Twice()
    with in_memory(model, ["layer"]) as tracer:
        out = model(torch.ones(2))
        model(torch.ones(2))  # the same again: nothing has changed
        last = model(torch.zeros(2))
    result = tracer.results["layer"]
    assert result.iterations == [0, 0, 2, 2]
    assert torch.equal(result.values[1], out)
    assert torch.equal(result.values[3], last)


def test_only_what_changed_since_the_last_iteration_is_kept() -> None:
    model = net().eval()
    x = inputs(1)[0]
    with in_memory(model, ["forward", "head.weight"]) as tracer:
        for _ in range(3):
            model(x)
        with torch.no_grad():
            model.head.weight[0, 0] += 1e-7
        model.head.weight.data[0, 0] += 1  # past the version counter
        model(x)
    assert tracer.results["head.weight"].iterations == [0, 3]
    assert tracer.results["forward"].iterations == [0, 3]


def test_a_direct_call_of_forward_is_seen() -> None:
    class Direct(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            return self.layer.forward(x)

    model = Direct()
    with in_memory(model, ["layer", "layer.input", "forward"]) as tracer:
        model.forward(torch.ones(2))
    assert {name: len(result) for name, result in tracer.results.items()} == {
        "layer.input": 1,
        "layer": 1,
        "forward": 1,
    }
    assert tracer.counts["train"] == 1


def test_keyword_arguments_are_inputs_by_their_name() -> None:
    class Masked(nn.Module):
        def forward(self, x: Any, *, mask: Any = None) -> Any:
            return x

    model = nn.ModuleDict({"layer": Masked()})
    model.forward = lambda x: model["layer"](x, mask=x > 0)  # type: ignore[method-assign]
    with in_memory(model, ["layer.input", "layer.forward.mask"]) as tracer:
        model(torch.ones(1))
    assert sorted(tracer.results) == ["layer.forward.mask", "layer.input.mask", "layer.input.x"]


# ---- gradients and other modes


def test_gradients_of_activations_are_those_autograd_computes_and_all_stay_bit_identical() -> None:
    batches = inputs(3)
    plain, traced = net(), net()
    train(plain, batches)
    with in_memory(traced, ["**.grad", "**.weight.grad", "encoder.0.forward.q.grad"]) as tracer:
        train(traced, batches)
    assert all(map(torch.equal, plain.state_dict().values(), traced.state_dict().values()))
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(plain.parameters(), traced.parameters(), strict=True))
    assert torch.equal(tracer.results["head.weight.grad"].values[-1], traced.head.weight.grad)
    assert len(tracer.results["encoder.0.grad"]) == 3
    assert len(tracer.results["encoder.0.forward.q.grad"]) == 3 * 3  # of each version


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_modes_without_gradients(mode: Any) -> None:
    model, x = net().eval(), inputs(1)[0]
    with in_memory(model, ["**", "**.forward.*", "**.grad"]) as tracer, mode():
        out = model(x)
    (kept,) = tracer.results["bn"].values
    assert torch.equal(kept, out)
    assert not kept.is_inference()
    assert "bn.grad" not in tracer.results


def test_autocast_gives_the_values_of_autocast() -> None:
    model, x = net(), inputs(1)[0]
    with in_memory(model, ["head", "head.grad"]) as tracer, torch.autocast("cpu", torch.bfloat16):
        model(x).float().sum().backward()
    assert tracer.results["head"].values[0].dtype is torch.bfloat16
    assert len(tracer.results["head.grad"]) == 1


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_a_checkpoint_computes_again_is_not_seen_again(reentrant: bool) -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(2, 2), nn.Tanh())

        def forward(self, x: Any) -> Any:
            return checkpoint(self.inner, x, use_reentrant=reentrant)

    model = Checkpointed()
    with in_memory(model, ["inner.0", "inner.1", "inner.0.grad"]) as tracer:
        model(torch.ones(2, requires_grad=True)).sum().backward()
    assert [len(tracer.results[name]) for name in ("inner.0", "inner.1", "inner.0.grad")] == [1, 1, 1]


def test_training_and_evaluation_are_counted_apart() -> None:
    model, batches = net(), inputs(5)
    with in_memory(model, ["forward"]) as tracer:
        for place, batch in enumerate(batches):
            model.train(place not in (1, 3))
            model(batch)
    result = tracer.results["forward"]
    assert result.modes == ["train", "eval", "train", "eval", "train"]
    assert result.iterations == [0, 0, 1, 1, 2]


@pytest.mark.parametrize(("mode", "expected"), [("train", [0, 1]), ("eval", [0, 1, 2])])
def test_one_mode_alone(mode: str, expected: list[int]) -> None:
    model = net()
    with in_memory(model, ["forward"], mode=mode) as tracer:
        for place, batch in enumerate(inputs(5)):
            model.train(place < 2)
            model(batch)
    assert tracer.results["forward"].iterations == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"every": 3}, [0, 3, 6]),
        ({"steps": [0, 1, 5]}, [0, 1, 5]),
        ({"when": lambda iteration: iteration > 5}, [6, 7]),
    ],
)
def test_some_iterations_alone(options: dict[str, Any], expected: list[int]) -> None:
    model = net()
    with in_memory(model, ["forward", "head.weight.grad"], **options) as tracer:
        train(model, inputs(8))
    assert tracer.results["forward"].iterations == expected
    assert tracer.results["head.weight.grad"].iterations == expected


# ---- wrappers


def test_dataparallel_has_the_paths_of_the_model() -> None:
    model = nn.DataParallel(net())
    with in_memory(model, ["encoder.1", "forward.x"]) as tracer:
        model(inputs(1)[0])
    assert list(tracer.results) == ["forward.x", "encoder.1"]


@pytest.mark.parametrize("before", [True, False])
def test_a_compiled_model_runs_as_written_and_the_ledger_says_so(before: bool) -> None:
    model, x = net().eval(), inputs(1)[0]
    compiled = torch.compile(model, backend="eager")
    if before:
        compiled(x)
    with in_memory(compiled, ["encoder.1", "encoder.0.forward.q"]) as tracer, torch.no_grad():
        compiled(x)
    assert len(tracer.results["encoder.1"]) == 1
    assert len(tracer.results["encoder.0.forward.q"]) == 3
    assert [note.subject for note in tracer.ledger] == ["torch.compile"]
    torch._dynamo.reset()


# ---- left as it was


def everything(model: Any) -> dict[str, Any]:
    return {
        path: {name: dict(held) if name.endswith("_hooks") else held for name, held in vars(module).items()}
        for path, module in model.named_modules()
    }


def test_the_model_is_left_exactly_as_it_was() -> None:
    model = net()
    before = everything(model)
    with in_memory(model, ["**", "**.forward.*", "**.input", "**.grad", "**.weight.grad", "encoder.0.encode"]):
        pass
    after = everything(model)
    assert {path: set(held) for path, held in before.items()} == {path: set(held) for path, held in after.items()}
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert all(not parameter._post_accumulate_grad_hooks for parameter in model.parameters() if parameter.is_leaf)


def test_also_after_an_exception_which_goes_on_unchanged() -> None:
    model = net()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), in_memory(model, ["**", "**.forward.*"]):
        model(torch.ones(5, 3))
    assert not any(module._forward_hooks for module in model.modules())
    assert "forward" not in vars(model.encoder[0])


def test_a_forward_of_the_instances_own_is_put_back() -> None:
    model = net()
    own = model.head.forward
    model.head.forward = own
    with in_memory(model, ["head"]) as tracer:
        model(inputs(1)[0])
    assert vars(model.head)["forward"] is own
    assert len(tracer.results["head"]) == 1


def test_results_random_numbers_and_buffers_are_the_same_with_and_without() -> None:
    batches = inputs(3)
    plain, traced = net(), net()
    torch.manual_seed(7)
    first = train(nn.Sequential(plain, nn.Dropout()), batches)
    torch.manual_seed(7)
    with in_memory(traced, ["**", "**.forward.*", "**.weight", "**.grad"], nonfinite="find"):
        second = train(nn.Sequential(traced, nn.Dropout()), batches)
    assert all(map(torch.equal, first, second))
    assert all(map(torch.equal, plain.state_dict().values(), traced.state_dict().values()))


def test_signatures_are_those_of_the_model() -> None:
    import inspect

    model = net()
    before = inspect.signature(model.forward)
    with in_memory(model, ["forward", "forward.y"]):
        assert inspect.signature(model.forward) == before


def test_other_instances_of_the_class_are_not_recorded() -> None:
    one, other = net(), net()
    with in_memory(one, ["forward", "forward.y"]) as tracer:
        other(inputs(1)[0])
        one(inputs(1)[0])
    assert len(tracer.results["forward"]) == 1


def test_a_copy_of_a_traced_model_can_be_made() -> None:
    model = net()
    with in_memory(model, ["forward"]):
        copy.deepcopy(model.state_dict())


# ---- in the run


def test_a_run_has_the_same_as_changes_and_series(tmp_path: Path) -> None:
    model, batches = net(), inputs(3)
    with clew.run("model", path=tmp_path / "run"), clew.ModelTracer(model, ["forward.x", "**.weight"]) as tracer:
        train(model, batches)
    run = clew.open(tmp_path / "run")
    assert all(map(torch.equal, run["forward.x"].values, batches))
    assert run["forward.x"].steps == [0, 1, 2]
    assert [call.stage for call in run.calls("Net.iteration")] == ["train"] * 3
    assert all(map(torch.equal, tracer.results["forward.x"].values, batches))
    assert tracer.results["forward.x"].iterations == [0, 1, 2]


def test_many_names_found_on_the_way_all_have_their_place(tmp_path: Path) -> None:
    class Wide(nn.Module):
        def forward(self, x: Any) -> Any:
            many = {f"k{place}": x + place for place in range(700)}
            return many["k0"]

    model = Wide()
    with clew.run("wide", path=tmp_path / "run"), clew.ModelTracer(model, ["forward.many.*"]):
        model(torch.zeros(1))
        model(torch.ones(1))
    run = clew.open(tmp_path / "run")
    assert len(run.names) == 700
    assert run["forward.many.k699"].values == [torch.tensor([699.0]), torch.tensor([700.0])]
    assert run["forward.many.k699"].steps == [0, 1]


def test_an_unfinished_iteration_says_why(tmp_path: Path) -> None:
    model = net()
    with (
        clew.run("failed", path=tmp_path / "run"),
        pytest.raises(ValueError, match="no"),
        clew.ModelTracer(model, ["encoder.0"]),
    ):
        model(inputs(1)[0])
        raise ValueError("no")
    (call,) = clew.open(tmp_path / "run").calls("Net.iteration")
    assert call.error == "ValueError: no"
    assert [change.name for change in call.changes] == ["encoder.0"]


def test_clew_off_records_nothing(tmp_path: Path) -> None:
    model = net()
    with clew.run("off", path=tmp_path / "run"), clew.ModelTracer(model, ["forward"]):
        clew.off()
        try:
            model(inputs(1)[0])
        finally:
            clew.on()
        model(inputs(1)[0])
    assert clew.open(tmp_path / "run")["forward"].steps == [1]


def test_summaries_alone(tmp_path: Path) -> None:
    model = net()
    with clew.run("summaries", path=tmp_path / "run"), clew.ModelTracer(model, ["forward"], keep="summary") as tracer:
        out = model(inputs(1)[0]).detach()
    (value,) = tracer.results["forward"].values
    assert value.summary.mean == pytest.approx(float(out.mean()), abs=1e-6)
    assert value.summary.norm == pytest.approx(float(out.norm()), rel=1e-5)


def test_a_table_for_pandas() -> None:
    model = net()
    with in_memory(model, ["forward", "forward.scale"]) as tracer:
        train(model, inputs(2))
    table = tracer.frame()
    assert table["path"].tolist() == ["forward.scale", "forward", "forward"]
    assert table["iteration"].tolist() == [0, 0, 1]
    assert table["shape"].tolist()[1] == (5, 2)


# ---- bad input


def test_something_that_is_no_module_is_an_error() -> None:
    with pytest.raises(TargetError, match="torch modules, not int"):
        clew.ModelTracer(3, ["forward"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [{"mode": "test"}, {"every": 0}, {"steps": "all"}, {"when": 3}, {"gather": "all"}, {"pre_save": 3},
     {"keep": "last 5"}, {"nonfinite": "look"}, {"spike": -1}, {"gathering_interval": 0}],
)  # fmt: skip
def test_an_option_that_makes_no_sense_is_an_error(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        clew.ModelTracer(Net(), ["forward"], **options)


def test_a_model_without_parameters_is_traced_like_any() -> None:
    model = nn.ReLU()
    with in_memory(model, ["forward", "**.weight"]) as tracer:
        model(torch.tensor([-1.0]))
    assert len(tracer.results["forward"]) == 1


def test_a_tensor_that_cannot_be_copied_is_told_and_training_goes_on() -> None:
    class Meta(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.empty(3, device="meta")

    model = Meta()
    with in_memory(model, ["forward"]) as tracer:
        model(torch.ones(1))
    assert tracer.results["forward"].values[0].summary.shape == (3,)


def test_a_model_that_was_never_called_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with in_memory(net(), ["forward"]):
        pass
    assert "the model was not called while it was traced" in capsys.readouterr().err


def test_a_full_disk_in_the_middle_leaves_training_alone_and_what_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from clew.store.writer import ShardWriter

    model, batches = net(), inputs(6)
    write = ShardWriter.write

    def full(self: ShardWriter, flush: Any) -> None:
        raise OSError(28, "No space left on device")

    with clew.run("full", path=tmp_path / "run") as run, clew.ModelTracer(model, ["forward"]):
        given = train(model, batches[:3])
        run.flush()
        monkeypatch.setattr(ShardWriter, "write", full)
        given += train(model, batches[3:])
        run.flush()
        monkeypatch.setattr(ShardWriter, "write", write)
    assert len(given) == 6
    assert "No space left on device" in capsys.readouterr().err
    assert clew.open(tmp_path / "run")["forward"].steps == [0, 1, 2]


def test_containers_of_tensors_are_kept_as_what_they_were(tmp_path: Path) -> None:
    class Many(nn.Module):
        def forward(self, x: Any) -> Any:
            return {"a": x, "b": (x + 1, [x * 2, None, "text"])}

    model, x = Many(), torch.ones(2)
    with clew.run("many", path=tmp_path / "run"), clew.ModelTracer(model, ["forward"]) as stored:
        model(x)
        model(x)
        model(x + 1)
    with in_memory(model, ["forward"]) as tracer:
        model(x)
    for value in (stored.results["forward"].values[0], tracer.results["forward"].values[0]):
        assert torch.equal(value["a"], x)
        assert isinstance(value["b"], tuple)
        assert torch.equal(value["b"][1][0], x * 2)
        assert value["b"][1][1:] == [None, "text"]
    assert stored.results["forward"].iterations == [0, 2]


@pytest.mark.parametrize("first_ends_first", [True, False])
def test_two_tracers_of_one_model_see_everything_once_and_leave_nothing(first_ends_first: bool) -> None:
    model = net()
    one, other = in_memory(model, ["head", "encoder.0.encode"]), in_memory(model, ["head", "forward"])
    one.start()
    other.start()
    model(inputs(1)[0])
    model.forward(inputs(2)[1])
    model.encoder[0].encode(torch.ones(1))
    for tracer in (one, other) if first_ends_first else (other, one):
        tracer.stop()
    assert [len(tracer.results["head"]) for tracer in (one, other)] == [2, 2]
    assert len(one.results["encoder.0.encode"]) == 1
    assert all("forward" not in vars(module) and "encode" not in vars(module) for module in model.modules())


def test_a_method_that_was_put_there_while_tracing_stays() -> None:
    model = net()
    with in_memory(model, ["head"]):
        model.head.forward = lambda x: x[:, :2]  # type: ignore[method-assign]
    assert "forward" in vars(model.head)


DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.bool, torch.uint8, torch.int64,
    torch.float8_e4m3fn,
]  # fmt: skip


@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_every_dtype_and_shape_is_stored_as_it_was(tmp_path: Path, shape: tuple[int, ...]) -> None:
    class Cast(nn.Module):
        def forward(self, x: Any, dtype: Any) -> Any:
            return x.to(dtype)

    model = Cast()
    with clew.run(path=tmp_path / "run"), clew.ModelTracer(model, ["forward"]) as tracer:
        for dtype in DTYPES:
            model(torch.ones(shape), dtype)
    values = tracer.results["forward"].values
    assert [value.dtype for value in values] == DTYPES
    assert all(value.shape == shape and bool((value.to(torch.complex64) == 1).all()) for value in values)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
def test_sparse_and_quantised_tensors_are_told_without_their_bytes() -> None:
    class Odd(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.to_sparse(), torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)

    model = Odd()
    with in_memory(model, ["forward.0", "forward.1", "forward"]) as tracer:
        model(torch.ones(3))
    assert "sparse" in repr(tracer.results["forward.0"].values[0])
    assert "quantised" in repr(tracer.results["forward.1"].values[0])
    assert len(tracer.results["forward"]) == 1


def test_a_failure_of_the_tracers_own_is_told_and_the_program_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLEW_STRICT", "0")
    from clew.probes.model import tracer as module

    def broken(*args: Any) -> Any:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(module, "copied", broken)
    model = net()
    with in_memory(model, ["**", "**.input"]) as tracer:
        assert len(train(model, inputs(2))) == 2
    assert "tracing Net has stopped (ZeroDivisionError: a bug)" in capsys.readouterr().err
    assert "tracing Net has stopped: ZeroDivisionError." in [note.text for note in tracer.ledger]


def test_a_when_that_raises_is_told_and_records_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    model = net()
    with in_memory(model, ["forward"], when=lambda iteration: iteration / 0):
        model(inputs(1)[0])
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_summaries_of_a_tuple_are_those_of_its_items() -> None:
    class Two(nn.Module):
        def forward(self, x: Any) -> Any:
            return x, {"weights": x * 0}

    model = Two()
    with in_memory(model, ["forward"], keep="summary") as tracer:
        model(torch.ones(4))
    found = {name: result.values[0].summary for name, result in tracer.results.items()}
    assert {name: (summary.norm, summary.zeros) for name, summary in found.items()} == {
        "forward.0": (2.0, 0.0), "forward.1.weights": (0.0, 1.0),
    }  # fmt: skip


@pytest.mark.parametrize("how", ["deepcopy", "pickle"])
def test_a_copy_made_while_tracing_is_a_model_of_its_own_that_nobody_hears(how: str, tmp_path: Path) -> None:
    model, x = net().eval(), inputs(1)[0]
    with in_memory(model, ["**", "forward.y", "encoder.0.encode", "**.input"], nonfinite="find") as tracer:
        expected = model(x)
        if how == "deepcopy":
            other = copy.deepcopy(model)
        else:
            torch.save(model, tmp_path / "model.pt")
            other = torch.load(tmp_path / "model.pt", weights_only=False)
        with torch.no_grad():
            other.head.weight.zero_()
            other.head.bias.zero_()
        assert torch.equal(other(x), torch.zeros_like(expected))  # its own weights, not those of the original
        assert torch.equal(other.encoder[0].encode(x), x * 2)
        assert torch.equal(model(x), expected)
    assert tracer.counts["eval"] == 2
    assert torch.equal(other(x), torch.zeros_like(expected))
    assert torch.equal(model(x), expected)


def test_what_is_watched_around_the_model_lies_in_time_between_what_it_was_made_of_and_what_was_made_of_it(
    runs_folder: Path,
) -> None:
    model, batches = net(), inputs(2)

    @clew.watch("loss")
    def training() -> None:
        for batch in batches:
            loss = model(batch).square().mean()
            loss.backward()
            loss = loss.item()

    with clew.run("order") as run, clew.ModelTracer(model, ["head", "head.weight.grad"]):
        training()
    found = [(change.time, name) for name in ("loss", "head", "head.weight.grad") for change in run.changes(name)]
    assert [name for _, name in sorted(found)] == ["head", "loss", "head.weight.grad", "loss"] * 2

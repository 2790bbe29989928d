"""The callback in a real Lightning trainer."""

from __future__ import annotations

import importlib
import pickle
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch
import pytest
import pytorch_lightning
import torch
from torch import nn

import clew
from clew.errors import MissingLibraryError, OptionError
from clew.integrations.lightning import ModelTracerCallback
from clew.integrations.pytorch_lightning import ModelTracerCallback as OtherCallback

# Lightning's advice on speed, and what it still uses of torch
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*smaller than the logging interval"),
    pytest.mark.filterwarnings("ignore:You defined a .validation_step. but have no"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:lightning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:lightning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pytorch_lightning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:pytorch_lightning"),
]

BATCHES = 4
WATCHED = ["model.encoder.0", "model.encoder.1.grad", "**.weight.grad", "training_step.loss"]


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.2))
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 1)

    def forward(self, x: Any) -> Any:
        return self.head(self.norm(self.encoder(x)))


class Steps:
    """The steps of a LightningModule, for either package."""

    fails_at: int | None = None
    skips_at: int | None = None

    def training_step(self, batch: Any, index: int) -> Any:
        x, y = batch
        if index == self.fails_at:
            raise ArithmeticError("the third batch")
        loss = (self.model(x) - y).square().mean()  # type: ignore[attr-defined]
        return loss

    def validation_step(self, batch: Any, index: int) -> Any:
        x, y = batch
        error = (self.model(x) - y).abs().mean()  # type: ignore[attr-defined]
        return error

    test_step = validation_step

    def predict_step(self, batch: Any, index: int) -> Any:
        return self.model(batch[0])  # type: ignore[attr-defined]

    def on_train_batch_start(self, batch: Any, index: int) -> int | None:
        return -1 if index == self.skips_at else None

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), lr=0.01)  # type: ignore[attr-defined]


class Module(Steps, lightning.pytorch.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = Inner()

    def forward(self, x: Any) -> Any:
        return self.model(x)


class OtherModule(Steps, pytorch_lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = Inner()


def module(kind: Any = Module) -> Any:
    torch.manual_seed(0)
    return kind()


def loader(batches: int = BATCHES) -> Any:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batches * 5, 3, generator=generator)
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=5)


def trainer(*callbacks: Any, package: Any = lightning.pytorch, **options: Any) -> Any:
    quiet = dict.fromkeys(
        ["logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary", "barebones"], False
    )
    return package.Trainer(
        **{"max_epochs": 1, "num_sanity_val_steps": 0, "accelerator": "cpu", **quiet, **options},
        callbacks=list(callbacks),
    )


def fit(model: Any, *callbacks: Any, validates: bool = False, **options: Any) -> Any:
    torch.manual_seed(2)
    made = trainer(*callbacks, **options)
    made.fit(model, loader(), loader(2) if validates else None)
    return made


def traced(*paths: str, **options: Any) -> ModelTracerCallback:
    return ModelTracerCallback(list(paths), **{"store": False, **options})


def own_names(model: Any) -> dict[str, Any]:
    """What each module has of its own; hooks by their number, for Lightning moves modules about."""
    return {
        path: {name: len(held) if name.endswith("_hooks") else None for name, held in vars(each).items()}
        for path, each in model.named_modules()
    }


# ---- what is recorded


def test_one_batch_is_one_iteration_whatever_the_step_calls() -> None:
    callback = traced("model.encoder.0")
    fit(module(), callback, max_epochs=2)
    result = callback.results["model.encoder.0"]
    assert result.iterations == list(range(2 * BATCHES))
    assert set(result.modes) == {"train"}
    assert callback.tracer is not None
    assert callback.tracer.counts == {"train": 2 * BATCHES, "eval": 0}


def test_also_if_the_step_itself_is_traced_and_calls_forward() -> None:
    class Calls(Module):
        def training_step(self, batch: Any, index: int) -> Any:
            first = self(batch[0])
            second = self(batch[0] * 2)
            loss = (first + second).square().mean()
            return loss

    callback = traced("training_step.loss", "training_step", "forward")
    fit(module(Calls), callback)
    assert callback.results["training_step.loss"].iterations == [0, 1, 2, 3]
    assert callback.results["forward"].iterations == [0, 0, 1, 1, 2, 2, 3, 3]
    assert callback.results["training_step"].values == callback.results["training_step.loss"].values


def test_gradients_belong_to_the_batch_they_were_computed_for() -> None:
    callback, model = traced(*WATCHED), module()
    fit(model, callback)
    for path in ("model.head.weight.grad", "model.encoder.1.grad", "training_step.loss"):
        assert callback.results[path].iterations == [0, 1, 2, 3]
    assert torch.equal(callback.results["model.head.weight.grad"].values[-1], model.model.head.weight.grad)


def test_gradients_that_are_accumulated_are_seen_batch_by_batch() -> None:
    callback = traced("model.head.weight.grad", "model.head.weight")
    fit(module(), callback, accumulate_grad_batches=2)
    assert callback.results["model.head.weight.grad"].iterations == [0, 1, 2, 3]
    assert callback.results["model.head.weight"].iterations == [0, 2]


def test_weights_are_those_a_batch_ran_with() -> None:
    callback, model = traced("model.head.weight"), module()
    before = model.model.head.weight.detach().clone()
    fit(model, callback)
    result = callback.results["model.head.weight"]
    assert torch.equal(result.values[0], before)
    assert result.iterations == [0, 1, 2, 3]


def test_the_optimizer_is_the_trainers() -> None:
    callback = traced("optimizer.state.**")
    made = fit(module(), callback)
    assert callback.tracer is not None
    assert callback.tracer.optimizer is made.optimizers[0]
    assert callback.results["optimizer.state.model.head.weight.exp_avg"].iterations == [0, 1, 2, 3]


def test_validation_is_told_from_training_and_the_sanity_check_left_out() -> None:
    callback = traced("model.encoder.0", "validation_step.error")
    fit(module(), callback, validates=True, max_epochs=2, num_sanity_val_steps=2)
    result = callback.results["model.encoder.0"]
    # the second validation gives other values, because the weights are others
    assert result.modes == (["train"] * BATCHES + ["eval"] * 2) * 2
    assert result.iterations == [0, 1, 2, 3, 0, 1, 4, 5, 6, 7, 2, 3]
    assert callback.results["validation_step.error"].iterations == [0, 1, 2, 3]


@pytest.mark.parametrize("use", ["validate", "test", "predict"])
def test_other_uses_are_traced_alone(use: str) -> None:
    callback, plain, model = traced("model.encoder.0"), module(), module()
    options = {"verbose": False} if use != "predict" else {}
    getattr(trainer(), use)(plain, loader(3), **options)
    getattr(trainer(callback), use)(model, loader(3), **options)
    assert callback.results["model.encoder.0"].iterations == [0, 1, 2]
    assert set(callback.results["model.encoder.0"].modes) == {"eval"}
    assert own_names(model) == own_names(plain)


def test_each_use_has_its_own_tracer() -> None:
    callback, model = traced("model.encoder.0"), module()
    made = fit(model, callback)
    first = callback.tracer
    made.predict(model, loader(2))
    assert callback.tracer is not first
    assert callback.results["model.encoder.0"].iterations == [0, 1]
    assert first is not None
    assert len(first.results["model.encoder.0"]) == BATCHES


def test_a_batch_that_is_skipped_does_not_swallow_the_next() -> None:
    callback, model = traced("model.encoder.0"), module()
    model.skips_at = 2
    fit(model, callback, max_epochs=2)
    assert callback.results["model.encoder.0"].iterations == [0, 1, 3, 4]


def test_options_are_the_tracers() -> None:
    callback = traced("model.encoder.0", every=2)
    fit(module(), callback)
    assert callback.results["model.encoder.0"].iterations == [0, 2]


def test_the_three_lines_record_into_the_run(tmp_path: Path) -> None:
    with clew.run("fit", path=tmp_path / "run"):
        fit(module(), ModelTracerCallback(["model.encoder.*", "**.weight.grad"]))
    run = clew.open(tmp_path / "run")
    assert run["model.encoder.1"].steps == [0, 1, 2, 3]
    assert run["model.head.weight.grad"].steps == [0, 1, 2, 3]
    assert [call.stage for call in run.calls("Module.iteration")] == ["train"] * BATCHES


def test_the_other_package_has_its_own_callback() -> None:
    callback = OtherCallback(["model.encoder.0", "training_step.loss"], store=False)
    fit(module(OtherModule), callback, package=pytorch_lightning)
    assert callback.results["model.encoder.0"].iterations == [0, 1, 2, 3]
    assert callback.results["training_step.loss"].iterations == [0, 1, 2, 3]


# ---- what is left alone


def test_training_is_the_same_to_the_bit_with_and_without() -> None:
    plain, watched = module(), module()
    fit(plain, validates=True, max_epochs=2)
    fit(watched, traced("**", "**.grad", "**.weight", *WATCHED), validates=True, max_epochs=2)
    assert all(map(torch.equal, plain.state_dict().values(), watched.state_dict().values()))


def test_the_model_is_left_as_it_was() -> None:
    plain, model = module(), module()
    fit(plain)
    fit(model, traced("**", "**.forward.*", *WATCHED))
    assert own_names(model) == own_names(plain)
    assert all(not parameter._post_accumulate_grad_hooks for parameter in model.parameters())


def test_also_after_an_exception_which_goes_on_unchanged(tmp_path: Path) -> None:
    plain, model, callback = module(), module(), ModelTracerCallback(WATCHED)
    fit(plain)
    model.fails_at = 2
    with clew.run("failed", path=tmp_path / "run"), pytest.raises(ArithmeticError, match="the third batch"):
        fit(model, callback)
    del model.fails_at
    assert own_names(model) == own_names(plain)
    assert callback.results["model.encoder.0"].iterations == [0, 1]
    assert clew.open(tmp_path / "run").calls("Module.iteration")[-1].error == "ArithmeticError: the third batch"


def test_after_an_exception_it_can_be_used_again() -> None:
    model, callback = module(), traced("model.encoder.0")
    model.fails_at = 2
    with pytest.raises(ArithmeticError):
        fit(model, callback)
    model.fails_at = None
    fit(model, callback)
    assert callback.results["model.encoder.0"].iterations == [0, 1, 2, 3]


def test_switched_off_it_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW", "0")
    callback = traced("model.encoder.0")
    fit(module(), callback)
    assert dict(callback.results) == {}


def test_it_can_be_sent_to_processes_that_the_trainer_starts() -> None:
    assert pickle.loads(pickle.dumps(traced("model.encoder.0"))).results == {}


# ---- bad input


def test_a_bad_option_is_told_where_it_is_written() -> None:
    with pytest.raises(OptionError, match="every=0"):
        ModelTracerCallback(["forward"], every=0)


@pytest.mark.parametrize("name", ["lightning", "pytorch_lightning"])
def test_a_missing_package_is_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("lightning", "lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"clew.integrations.{name}")
    with pytest.raises(MissingLibraryError, match=f"needs {name}"):
        importlib.import_module(f"clew.integrations.{name}")


def test_the_old_package_alone_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("lightning", "lightning.pytorch"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "clew.integrations.lightning")
    made = importlib.import_module("clew.integrations.lightning").ModelTracerCallback
    assert issubclass(made, pytorch_lightning.Callback)
    assert not issubclass(made, lightning.pytorch.Callback)

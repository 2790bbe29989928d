"""The callback in a real trainer of transformers."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["TRANSFORMERS_OFFLINE"] = os.environ["HF_HUB_OFFLINE"] = "1"  # read when they are imported

import accelerate
import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import clew
from clew.errors import MissingLibraryError, OptionError
from clew.integrations import huggingface
from clew.integrations.huggingface import ModelTracerCallback
from documents import ROOT

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:transformers"),
    pytest.mark.filterwarnings("ignore::FutureWarning:transformers"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:accelerate"),
    pytest.mark.filterwarnings("ignore::FutureWarning:accelerate"),
]

STEPS = 4
WATCHED = ["transformer.h.0.attn.0", "transformer.h.*.mlp", "**.weight.grad", "transformer.h.1.mlp.grad"]


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    for callback in list(huggingface._active):
        callback.stop(RuntimeError("a test left it"))


def language_model() -> Any:
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=16, n_head=2, n_positions=8, vocab_size=11))


class Plain(nn.Module):
    """Any module that gives a loss will do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(3, 4), nn.Linear(4, 1)
        self.fails_at = -1
        self.calls = 0

    def forward(self, x: Any, labels: Any = None) -> Any:
        if self.calls == self.fails_at:
            raise ArithmeticError("the third batch")
        self.calls += 1
        hidden = self.layer(x).tanh()
        given = self.head(hidden)
        loss = (given - labels).square().mean()
        return {"loss": loss, "logits": given}


def plain_model() -> Plain:
    torch.manual_seed(0)
    return Plain()


def sentences(count: int = 8) -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, 11, (count, 6), generator=generator)
    return [{"input_ids": row, "labels": row} for row in tokens]


def numbers(count: int = 8) -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(1)
    return [{"x": row, "labels": row.sum()[None]} for row in torch.randn(count, 3, generator=generator)]


def trainer(model: Any, folder: Path, *callbacks: Any, **options: Any) -> Any:
    given = {
        "max_steps": STEPS, "per_device_train_batch_size": 2, "per_device_eval_batch_size": 4, "use_cpu": True,
        "report_to": [], "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True, "seed": 3,
        "dataloader_pin_memory": False,
    } | options  # fmt: skip
    data = numbers() if isinstance(model, Plain) else sentences()
    return Trainer(
        model, TrainingArguments(str(folder), **given), train_dataset=data, eval_dataset=data, callbacks=list(callbacks)
    )


def traced(*paths: str, **options: Any) -> ModelTracerCallback:
    return ModelTracerCallback(list(paths), **{"store": False, **options})


def own_names(model: Any) -> dict[str, Any]:
    """What each module has of its own; hooks by their number."""
    return {
        path: {name: len(held) if name.endswith("_hooks") else None for name, held in vars(each).items()}
        for path, each in model.named_modules()
    }


# ---- what is recorded


def test_one_forward_is_one_iteration(tmp_path: Path) -> None:
    callback = traced(*WATCHED)
    trainer(language_model(), tmp_path, callback).train()
    for path in ("transformer.h.0.attn.0", "transformer.h.1.mlp", "transformer.h.1.mlp.grad"):
        assert callback.results[path].iterations == list(range(STEPS))
        assert set(callback.results[path].modes) == {"train"}
    assert callback.tracer is not None
    assert callback.tracer.counts == {"train": STEPS, "eval": 0}


def test_gradients_belong_to_the_forward_they_were_computed_for(tmp_path: Path) -> None:
    callback, seen = traced("head.weight.grad", "forward.loss"), []
    made = trainer(plain_model(), tmp_path, callback)
    made.optimizer = torch.optim.SGD(made.model.parameters(), lr=0.1)
    made.optimizer.register_step_pre_hook(lambda *given: seen.append(made.model.head.weight.grad.clone()))
    made.train()
    assert callback.results["head.weight.grad"].iterations == list(range(STEPS))
    assert callback.results["forward.loss"].iterations == list(range(STEPS))
    clipped = [each / each.norm() for each in seen]  # the trainer clips them after they were computed
    taken = [each / each.norm() for each in callback.results["head.weight.grad"].values]
    assert all(map(torch.allclose, clipped, taken))


def test_each_forward_counts_where_gradients_are_accumulated(tmp_path: Path) -> None:
    callback = traced("layer", "head.weight")
    trainer(plain_model(), tmp_path, callback, gradient_accumulation_steps=2, max_steps=2).train()
    assert callback.results["layer"].iterations == [0, 1, 2, 3]
    assert callback.results["head.weight"].iterations == [0, 2]


def test_evaluation_is_told_from_training(tmp_path: Path) -> None:
    callback = traced("layer")
    trainer(plain_model(), tmp_path, callback, eval_strategy="steps", eval_steps=2).train()
    result = callback.results["layer"]
    assert result.modes == (["train"] * 2 + ["eval"] * 2) * 2
    assert result.iterations == [0, 1, 0, 1, 2, 3, 2, 3]


def test_the_optimizer_is_the_trainers_without_its_wrapper(tmp_path: Path) -> None:
    callback = traced("optimizer.state.**")
    made = trainer(plain_model(), tmp_path, callback)
    made.train()
    assert isinstance(made.optimizer, accelerate.optimizer.AcceleratedOptimizer)
    assert callback.tracer is not None
    assert callback.tracer.optimizer is made.optimizer.optimizer
    assert callback.results["optimizer.state.head.weight.exp_avg"].iterations == list(range(STEPS))


def test_the_three_lines_record_into_the_run(tmp_path: Path) -> None:
    with clew.run("train", path=tmp_path / "run"):
        trainer(language_model(), tmp_path, ModelTracerCallback(["**.mlp", "**.weight.grad"])).train()
    run = clew.open(tmp_path / "run")
    assert run["transformer.h.0.mlp"].steps == list(range(STEPS))
    assert run["transformer.h.0.attn.c_proj.weight.grad"].steps == list(range(STEPS))
    assert [call.stage for call in run.calls("GPT2LMHeadModel.iteration")] == ["train"] * STEPS


def test_evaluation_alone_is_told_and_a_tracer_sees_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = trainer(plain_model(), tmp_path, traced("layer"))
    with clew.ModelTracer(made.model, ["layer"], store=False) as tracer:
        made.evaluate()
    assert "evaluate() or predict() was called alone" in capsys.readouterr().err
    assert tracer.results["layer"].iterations == [0, 1]
    assert tracer.results["layer"].modes == ["eval", "eval"]


# ---- what is left alone


@pytest.mark.parametrize("make", [language_model, plain_model])
def test_training_is_the_same_to_the_bit_with_and_without(make: Any, tmp_path: Path) -> None:
    plain, watched = make(), make()
    trainer(plain, tmp_path, max_steps=2, eval_strategy="epoch").train()
    callback = traced("**", "**.input", "**.grad", "**.weight", "**.weight.grad", "forward.*")
    trainer(watched, tmp_path, callback, max_steps=2, eval_strategy="epoch").train()
    assert len(callback.results) > 5
    assert all(map(torch.equal, plain.state_dict().values(), watched.state_dict().values()))
    assert own_names(plain) == own_names(watched)
    assert all(not parameter._post_accumulate_grad_hooks for parameter in watched.parameters())


def fails(model: Plain, folder: Path, *callbacks: Any) -> Any:
    model.fails_at, model.calls = 2, 0
    made = trainer(model, folder, *callbacks)
    with pytest.raises(ArithmeticError, match="the third batch"):
        made.train()
    model.fails_at = -1
    return made


def is_as_it_was(model: Plain) -> bool:
    hooks = any(each._forward_hooks or each._forward_pre_hooks for each in model.modules())
    return not hooks and not any("forward" in vars(each) for each in model.modules())


def test_a_block_around_it_ends_it_with_the_exception(tmp_path: Path) -> None:
    model = plain_model()
    model.fails_at = 2
    with (
        clew.run("failed", path=tmp_path / "run"),
        pytest.raises(ArithmeticError),
        ModelTracerCallback(["layer"]) as callback,
    ):
        trainer(model, tmp_path, callback).train()
    assert is_as_it_was(model)
    assert callback.results["layer"].iterations == [0, 1]
    assert clew.open(tmp_path / "run").calls("Plain.iteration")[-1].error == "ArithmeticError: the third batch"


def test_after_an_exception_stop_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    model, callback = plain_model(), traced("layer", "forward.hidden")
    fails(model, tmp_path, callback)
    callback.stop()
    assert is_as_it_was(model)
    assert callback.results["layer"].iterations == [0, 1]


def test_after_an_exception_the_next_training_begins_anew(tmp_path: Path) -> None:
    model, callback = plain_model(), traced("layer")
    made = fails(model, tmp_path, callback)
    made.train()
    assert callback.results["layer"].iterations == list(range(STEPS))
    assert is_as_it_was(model)


def test_also_if_model_is_trained_by_another_trainer_with_another_callback(tmp_path: Path) -> None:
    model, callback = plain_model(), traced("layer")
    fails(model, tmp_path, traced("layer"))
    trainer(model, tmp_path, callback).train()
    assert callback.results["layer"].iterations == list(range(STEPS))
    assert is_as_it_was(model)


def test_the_end_of_the_program_ends_it_with_the_exception(tmp_path: Path) -> None:
    """A flight recorder that nobody has stopped still writes."""
    program = f"""
import sys; sys.path.insert(0, {str(ROOT / "src")!r})
import torch
from clew.integrations.huggingface import ModelTracerCallback
model = torch.nn.Sequential(torch.nn.Linear(3, 1))
callback = ModelTracerCallback(["0"], keep="last 5 steps")
callback.on_train_begin(None, object(), None, model=model, optimizer=None)  # as the trainer would, which takes seconds
for place in range(2):
    model(torch.full((1, 3), float(place)))
raise ArithmeticError("the third batch")
"""
    environment = os.environ | {"CLEW_DIR": str(tmp_path / "runs")}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert "ArithmeticError: the third batch" in done.stderr
    (folder,) = (tmp_path / "runs").glob("*/*")
    run = clew.open(folder)
    assert run["0"].steps == [0, 1]
    assert any("ArithmeticError: the third batch" in note.text for note in run.ledger)


def test_switched_off_it_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW", "0")
    callback = traced("layer")
    trainer(plain_model(), tmp_path, callback).train()
    assert dict(callback.results) == {}


# ---- bad input


def test_a_bad_option_is_told_where_it_is_written() -> None:
    with pytest.raises(OptionError, match="every=0"):
        ModelTracerCallback(["forward"], every=0)


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "clew.integrations.huggingface")
    with pytest.raises(MissingLibraryError, match="needs transformers"):
        importlib.import_module("clew.integrations.huggingface")

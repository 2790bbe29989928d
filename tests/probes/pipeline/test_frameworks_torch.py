"""Loops that belong to someone else: Lightning, the Trainer of Hugging Face, accelerate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import clew
from probes.pipeline.loops import Net, Numbers, Stream, seen_in, told_apart

pytestmark = pytest.mark.filterwarnings("ignore")


def modes(trace: Any) -> list[tuple[str, str, int]]:
    return [(call.passage.source, call.passage.mode, len(call.ids)) for call in trace.model]


@pytest.mark.parametrize("workers", [0, 2])
def test_lightning_is_let_through_once_and_overwrites_no_checkpoint(tmp_path: Path, workers: int) -> None:
    import lightning
    from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint

    class Module(lightning.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def forward(self, x: Any) -> Any:
            return self.net(x)

        def training_step(self, batch: Any, number: int) -> Any:
            return nn.functional.l1_loss(self(batch[0]), torch.zeros(len(batch[0])), reduction="none").mean()

        def validation_step(self, batch: Any, number: int) -> None:
            self.log("loss", nn.functional.l1_loss(self(batch[0]), torch.zeros(len(batch[0]))))

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.0)

    (tmp_path / "best.ckpt").write_text("months of work")
    callbacks = [EarlyStopping("loss"), ModelCheckpoint(tmp_path, filename="best", monitor="loss")]
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    trainer = lightning.Trainer(max_epochs=100, callbacks=callbacks, default_root_dir=tmp_path, **quiet)
    with clew.items(6) as trace:
        trainer.fit(
            Module(),
            DataLoader(Numbers(), batch_size=4, shuffle=True, num_workers=workers),
            DataLoader(Numbers(20), batch_size=4, num_workers=workers),
        )
    told_apart(trace)
    assert modes(trace) == [
        ("Numbers", "eval", 4),
        ("Numbers", "eval", 2),
        ("Numbers#2", "train", 4),
        ("Numbers#2", "train", 2),
    ]
    assert len(seen_in(trace, "optimizer")) == 6
    assert (tmp_path / "best.ckpt").read_text() == "months of work"


def test_lightning_takes_batches_of_a_stream_ahead_and_they_are_known(tmp_path: Path) -> None:
    import lightning

    class Module(lightning.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def predict_step(self, batch: Any, number: int) -> Any:
            return nn.functional.l1_loss(self.net(batch[0] * 1.0), torch.zeros(len(batch[0])), reduction="none")

    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    with clew.items(6) as trace:
        lightning.Trainer(default_root_dir=tmp_path, **quiet).predict(Module(), DataLoader(Stream(), batch_size=3))
    told_apart(trace)
    assert [call.ids for call in trace.loss] == [(0, 1, 2), (3, 4, 5)]


class Texts(Dataset[Any]):
    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Any:
        return {"input_ids": [index + 1] * (index % 4 + 2), "labels": index % 2}


def test_the_trainer_of_hugging_face_is_let_through_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import transformers

    def padded(samples: list[Any]) -> Any:
        rows = [torch.tensor(sample["input_ids"]) for sample in samples]
        ids = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        return {
            "input_ids": ids,
            "attention_mask": (ids > 0).long(),
            "labels": torch.tensor([s["labels"] for s in samples]),
        }

    config = transformers.BertConfig(
        vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    options = transformers.TrainingArguments(
        str(tmp_path), per_device_train_batch_size=4, num_train_epochs=50, report_to=[], use_cpu=True,
        eval_strategy="epoch", disable_tqdm=True, remove_unused_columns=False,
    )  # fmt: skip
    model = transformers.BertForSequenceClassification(config)
    trainer = transformers.Trainer(model, options, data_collator=padded, train_dataset=Texts(), eval_dataset=Texts())
    with clew.items(6) as trace:
        trainer.train()
    assert modes(trace) == [("Texts", "train", 4), ("Texts", "train", 2), ("Texts#2", "eval", 6)]
    assert len(seen_in(trace, "optimizer")) == 6
    for call in trace.model:
        assert [int(row[0]) - 1 for row in call.input_ids] == list(call.ids)
    assert list(tmp_path.iterdir()) == []


def test_accelerate_which_takes_batches_ahead_steps_for_each() -> None:
    import accelerate

    accelerator = accelerate.Accelerator(cpu=True)
    net: Any = Net()
    optimizer: Any = torch.optim.SGD(net.parameters(), lr=0.0)
    loader: Any = DataLoader(Numbers(), batch_size=3, shuffle=True)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    with clew.items(6) as trace:
        for _ in range(50):
            for x, _ in loader:
                loss = nn.functional.l1_loss(net(x * 1.0), torch.zeros(len(x)), reduction="none")
                accelerator.backward(loss.mean())
                optimizer.step()
    told_apart(trace)
    assert [call.ids for call in trace.optimizer] == [call.ids for call in trace.loss]
    assert len(trace.optimizer) == 2

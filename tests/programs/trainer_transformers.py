"""transformers: a tiny model from a configuration, trained by `Trainer`."""

import torch
import transformers
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        ids = torch.tensor([i, i + 1, 3])
        return {"input_ids": ids, "labels": torch.tensor(i % 2)}


def metrics(prediction):
    right = (prediction.predictions.argmax(-1) == prediction.label_ids).mean()
    return {"right": float(right)}


class Own(Trainer):
    def log(self, logs, *args, **kwargs):
        kept = {name for name in logs if "loss" in name}
        seen.update(kept)


seen = set()
if __name__ == "__main__":
    transformers.set_seed(0)
    config = BertConfig(
        vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    arguments = TrainingArguments(
        "out", num_train_epochs=1, per_device_train_batch_size=4, report_to=[], use_cpu=True, disable_tqdm=True,
        save_strategy="no", logging_steps=1,
    )  # fmt: skip
    trainer = Own(model, arguments, train_dataset=Rows(), eval_dataset=Rows(), compute_metrics=metrics)
    trainer.train()
    print(trainer.state.global_step, sorted(seen), sorted(trainer.evaluate())[:2])

# Needs: transformers
# Output:
# 2 ['loss', 'train_loss'] ['eval_loss', 'eval_right']

"""Lightning: a module of the program, trained for two epochs."""

import logging
import warnings

import torch

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
import lightning  # noqa: E402


class Line(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
        self.seen = []

    def training_step(self, batch, index):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.layer(x), y)
        self.seen.append(round(loss.item(), 3))
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


if __name__ == "__main__":
    lightning.seed_everything(0, verbose=False)
    x = torch.randn(8, 2)
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    model = Line()
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(model, torch.utils.data.DataLoader(data, 4))
    print(len(model.seen), model.seen[-1] < model.seen[0], trainer.global_step)

# Needs: lightning
# Without: model, because its model is a single layer: nothing lies under it that ** could mean, and that is said
# Output:
# 4 True 4

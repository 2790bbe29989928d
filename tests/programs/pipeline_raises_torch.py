"""torch: a dataset, a collate function and a model raise, in the main process and in a worker."""

import gc
import re
import traceback

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __init__(self, bad, length):
        self.bad, self.length = bad, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if index == self.bad:
            raise LookupError(f"no sample {index}")
        return torch.full((3,), float(index))


def collate(samples):
    if any(sample[0] == 2 for sample in samples):
        raise ArithmeticError("cannot be collated")
    return torch.stack(samples)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(x)


def train(samples, workers, width):
    model = nn.Sequential(Block(), nn.ReLU())
    for batch in DataLoader(samples, batch_size=2, collate_fn=collate, num_workers=workers):
        model(batch[:, :width])


def main():
    torch.manual_seed(0)
    for bad, length, workers, width in ((1, 4, 0, 3), (9, 5, 0, 3), (9, 2, 0, 2), (1, 6, 1, 3), (9, 7, 1, 3)):
        try:
            train(Samples(bad, length), workers, width)
        except Exception as error:
            frames = [frame.name for frame in traceback.extract_tb(error.__traceback__) if frame.name != "<listcomp>"]
            in_worker = re.findall(r" in (\w+)$", str(error), re.MULTILINE)
            print(type(error).__name__, str(error).split("\n")[-2:][0][:40], *frames, "|", *in_worker)
        gc.collect()  # a loader that is collected in a worker of the next complains


if __name__ == "__main__":
    main()

# Needs: torch
# Output:
# LookupError no sample 1 main train __next__ _next_data fetch __getitem__ |
# ArithmeticError cannot be collated main train __next__ _next_data fetch collate |
# RuntimeError mat1 and mat2 shapes cannot be multiplie main train _wrapped_call_impl _call_impl forward _wrapped_call_impl _call_impl forward _wrapped_call_impl _call_impl forward |
# LookupError LookupError: no sample 1 main train __next__ _next_data _process_data reraise | _worker_loop fetch __getitem__
# ArithmeticError ArithmeticError: cannot be collated main train __next__ _next_data _process_data reraise | _worker_loop fetch collate

"""A DataLoader whose workers are spawned, with a dataset and a collate function of the program."""

import torch
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        square = float(index) ** 2
        return torch.tensor([square])


def collate(samples):
    batch = torch.stack(samples)
    return batch.sum(), len(samples)


def init(worker):
    torch.manual_seed(worker)


def show(context):
    loader = DataLoader(
        Squares(), 2, num_workers=1, collate_fn=collate, worker_init_fn=init, multiprocessing_context=context
    )
    for total, count in loader:
        print(context, total.item(), count)


if __name__ == "__main__":
    show("spawn")
    show("fork")  # not in a loop: its second round is where `--items` ends a program

# Needs: torch
# Output:
# spawn 1.0 2
# spawn 13.0 2
# spawn 41.0 2
# fork 1.0 2
# fork 13.0 2
# fork 41.0 2

"""torch: a model in use is sent to spawned processes and to spawned workers of a loader."""

import torch
from torch import multiprocessing, nn
from torch.utils.data import DataLoader, Dataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(1, 1, bias=False)
        nn.init.constant_(self.fc.weight, 2)

    def forward(self, x):
        y = self.fc(x)
        return y


class Encoded(Dataset):
    def __init__(self, model):
        self.model = model

    def __len__(self):
        return 4

    def __getitem__(self, index):
        with torch.no_grad():
            return self.model(torch.tensor([float(index)]))


def work(model, queue):
    queue.put(model(torch.tensor([3.0])).item())


if __name__ == "__main__":
    model = Net()
    print(model(torch.ones(1)).item())
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=work, args=(model, queue))
    process.start()
    print(queue.get())
    process.join()
    loader = DataLoader(Encoded(model), batch_size=2, num_workers=1, multiprocessing_context="spawn")
    print([batch.flatten().tolist() for batch in loader], process.exitcode)

# Needs: torch
# Probes: watch+follow, model, nonfinite, items
# Output:
# 2.0
# 6.0
# [[0.0, 2.0], [4.0, 6.0]] 0

# A program that insists on whole batches and counts what it was given.
# Needs: torch
import torch
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, index):
        if index >= len(self):
            raise IndexError(index)
        x = torch.tensor([float(index)])
        return {"x": x, "y": x * x}


def fit(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    sizes = []
    for batch in loader:
        assert batch["x"].shape == (5, 1), batch["x"].shape
        loss = torch.nn.functional.mse_loss(model(batch["x"]), batch["y"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        sizes.append(len(batch["x"]))
    return sizes, loss


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    loader = DataLoader(Squares(), batch_size=5, shuffle=True, generator=torch.Generator().manual_seed(1))
    sizes, loss = fit(model, loader)
    print(len(loader), sizes, f"{loss.item():.3f}")
    print(sorted(vars(loader)) == sorted(vars(DataLoader(Squares(), batch_size=5))), loader.dataset[3]["y"].item())


main()


# Output:
# 2 [5, 5] 1415.316
# True 9.0

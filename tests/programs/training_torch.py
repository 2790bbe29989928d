"""torch: a small training loop, a checkpoint, and evaluation."""

import io

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, x):
        hidden = self.layers[:2](x)
        return self.layers[2](hidden)


def train(model, x, y, epochs):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for epoch in range(epochs):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


@torch.no_grad()
def evaluate(model, x):
    model.eval()
    result = model(x).sum()
    return round(result.item(), 4)


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Net()
    x = torch.randn(32, 4)
    y = x.sum(1, keepdim=True)
    print(round(train(model, x, y, 5), 4))
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    copy = Net()
    copy.load_state_dict(torch.load(file, weights_only=True))
    print(evaluate(copy, x) == evaluate(model, x), [name for name, _ in copy.named_parameters()])

# Needs: torch
# Output:
# 3.0195
# True ['layers.0.weight', 'layers.0.bias', 'layers.2.weight', 'layers.2.bias']

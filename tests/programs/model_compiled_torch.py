"""torch: a model in use is compiled, as a whole."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x):
        return torch.relu(self.fc(x)) + x


torch.manual_seed(0)
model, x = Net(), torch.ones(1, 2)
expected = model(x)
strict = torch.export.export(model, (x,), strict=True)
print(torch.equal(strict.module()(x), expected))
print(torch.equal(torch.compile(model, backend="eager", fullgraph=True)(x), expected))

# Needs: torch
# Probes: model, nonfinite, items
# Without: watch, follow, because a watched function is not compiled, which fullgraph=True does not allow
# Output:
# True
# True

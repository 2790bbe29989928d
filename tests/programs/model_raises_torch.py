"""torch: an exception inside a model ends the program."""

import sys
import traceback

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x):
        if x.shape[0] > 1:
            raise ValueError("only one at a time")
        return self.fc(x)


model = nn.Sequential(Net())
print(model(torch.ones(1, 2)).shape)
try:
    model(torch.ones(2, 2))
except ValueError as error:
    print([frame.name for frame in traceback.extract_tb(error.__traceback__)])
    print(error.__context__, error.__cause__)
sys.exit(3)

# Needs: torch
# Probes: watch+follow, model, nonfinite, items
# Status: 3
# Output:
# torch.Size([1, 2])
# ['<module>', '_wrapped_call_impl', '_call_impl', 'forward', '_wrapped_call_impl', '_call_impl', 'forward']
# None None

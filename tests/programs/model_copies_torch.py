"""torch: an average of the weights, checkpoints, and copies of a model that is in use."""

import copy
import io
import pickle

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))

    def forward(self, x):
        hidden = self.layers[0](x)
        return self.layers[2](self.layers[1](hidden))


def save(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return buffer


torch.manual_seed(0)
model = Net()
average = copy.deepcopy(model)
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
criterion = nn.MSELoss()
x, y = torch.ones(8, 2), torch.zeros(8, 1)
for step in range(5):
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 2:
        average = copy.deepcopy(model)
    with torch.no_grad():
        for mean, weight in zip(average.parameters(), model.parameters(), strict=True):
            mean.lerp_(weight, 0.5)

saved = save(model)
print("of other packages:", b"clew" in saved.getvalue())
again = torch.load(saved, weights_only=False)
print("loaded:", torch.equal(again(x), model(x)), sorted(vars(again)) == sorted(vars(Net())))
print("state:", list(torch.load(save(model.state_dict()), weights_only=True)))
print("optimizer:", sorted(torch.load(save(optimizer.state_dict()), weights_only=True)))
print("pickled:", torch.equal(pickle.loads(pickle.dumps(model))(x), model(x)))
print("average:", any(average._forward_hooks) or "forward" in vars(average), type(copy.copy(model)).__name__)
print("output:", torch.load(save(model(x))).shape)

# Needs: torch
# Probes: watch+follow, model, nonfinite, items
# Output:
# of other packages: False
# loaded: True True
# state: ['layers.0.weight', 'layers.0.bias', 'layers.2.weight', 'layers.2.bias']
# optimizer: ['param_groups', 'state']
# pickled: True
# average: False Net
# output: torch.Size([8, 1])

"""torch: hooks of the program's own, parametrizations and functional calls, while a model is in use."""

import torch
from torch import nn
from torch.nn.utils import parametrize


class Double(nn.Module):
    def forward(self, weight):
        return weight * 2


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Identity())
nn.init.ones_(model[0].weight)
x = torch.ones(1, 2, requires_grad=True)
print(model(x).tolist())
model.register_forward_pre_hook(lambda module, args: print("before", args[0].tolist()))
model[0].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
model[0].register_forward_hook(lambda module, args, output: print("inside", args[0].tolist()) or output * 10)
model.register_forward_hook(lambda module, args, output: print("after", output.tolist()))
model.register_full_backward_hook(lambda module, grad_input, grad_output: print("backward", grad_input[0].tolist()))
model(x).sum().backward()
print(model[0].weight.grad.tolist())
parametrize.register_parametrization(model[0], "weight", Double())
print(model(x).tolist())
new = {"0.parametrizations.weight.original": torch.zeros(2, 2)}
print(torch.func.functional_call(model, new, (x,)).tolist())
print([len(module._forward_hooks) for module in model.modules()])


def fails(module, args):
    raise ValueError("not this time")


handle = model.register_forward_pre_hook(fails)
try:
    model(x)
except ValueError as error:
    print(error)
handle.remove()
print(model(x).tolist())

# Needs: torch
# Probes: watch+follow, model, nonfinite, items
# Output:
# [[2.0, 2.0]]
# before [[1.0, 1.0]]
# inside [[2.0, 2.0]]
# after [[40.0, 40.0]]
# backward [[20.0, 20.0]]
# [[20.0, 20.0], [20.0, 20.0]]
# before [[1.0, 1.0]]
# inside [[2.0, 2.0]]
# after [[80.0, 80.0]]
# [[80.0, 80.0]]
# before [[1.0, 1.0]]
# inside [[2.0, 2.0]]
# after [[0.0, 0.0]]
# [[0.0, 0.0]]
# [1, 1, 0, 0, 0, 0]
# before [[1.0, 1.0]]
# not this time
# before [[1.0, 1.0]]
# inside [[2.0, 2.0]]
# after [[80.0, 80.0]]
# [[80.0, 80.0]]

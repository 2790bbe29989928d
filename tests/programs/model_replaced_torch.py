"""torch: `forward` is replaced while a model is in use, in its class, in itself, by another class and by torch.fx."""

import functools
import types

import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        y = x * 1
        return y


class Other(Net):
    def forward(self, x):
        return super().forward(x) + 5


def thousandfold(self, x):
    return x * 1000


one = torch.ones(())
model, other = Net(), Net()
print("as written", model(one).item(), model.forward(one).item())
model.forward = types.MethodType(thousandfold, model)
print("a method of its own", model(one).item(), other(one).item())
model.forward = functools.partial(thousandfold, model)
print("a partial function", model(one).item())
del model.forward
print("as written", model(one).item())
model.__class__ = Other
print("another class", model(one).item())
Net.forward = thousandfold
print("in the class", model(one).item(), other(one).item())

graph = torch.fx.symbolic_trace(other)
print("a graph", graph(one).item())
for node in graph.graph.nodes:
    if node.op == "call_function":
        node.args = (node.args[0], 2000)
graph.recompile()
print("another graph", graph(one).item(), sorted(vars(other)) == sorted(vars(Net())))

# Needs: torch
# Probes: watch+follow, model, nonfinite, items
# Output:
# as written 1.0 1.0
# a method of its own 1000.0 1.0
# a partial function 1000.0
# as written 1.0
# another class 6.0
# in the class 1005.0 1000.0
# a graph 1000.0
# another graph 2000.0 True

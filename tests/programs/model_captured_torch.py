"""torch: a model in use is exported, traced and scripted."""

import warnings

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        hidden = torch.relu(self.fc(x)) * scale
        return hidden + x


def lines(code):
    return "\n".join(line for line in code.splitlines() if line.strip())


warnings.simplefilter("ignore")
torch.manual_seed(0)
model, x = Net(), torch.ones(1, 2)
expected = model(x)
print(lines(torch.fx.symbolic_trace(model).code))
exported = torch.export.export(model, (x,))
print(lines(exported.graph_module.code), torch.equal(exported.module()(x), expected))
traced = torch.jit.trace(model, (x,))
print(torch.equal(traced(x), expected), torch.equal(torch.jit.script(model)(x), expected))
print(*(node.kind() for node in traced.inlined_graph.nodes()))
gradients = torch.func.grad(lambda weights: torch.func.functional_call(model, weights, (x,)).sum())
print(gradients(dict(model.named_parameters()))["fc.bias"].tolist(), torch.func.vmap(model)(x).shape)

# Needs: torch
# Probes: watch+follow, model, nonfinite, items
# Output:
# def forward(self, x : torch.Tensor, scale : float = 2.0) -> torch.Tensor:
#     fc = self.fc(x)
#     relu = torch.relu(fc);  fc = None
#     mul = relu * scale;  relu = scale = None
#     add = mul + x;  mul = x = None
#     return add
# def forward(self, p_fc_weight, p_fc_bias, x):
#     linear = torch.ops.aten.linear.default(x, p_fc_weight, p_fc_bias);  p_fc_weight = p_fc_bias = None
#     relu = torch.ops.aten.relu.default(linear);  linear = None
#     mul = torch.ops.aten.mul.Tensor(relu, 2.0);  relu = None
#     add = torch.ops.aten.add.Tensor(mul, x);  mul = x = None
#     return (add,) True
# True True
# prim::GetAttr prim::GetAttr prim::GetAttr aten::linear aten::relu prim::Constant aten::mul prim::Constant aten::add
# [2.0, 0.0] torch.Size([1, 2])

"""Where a NaN comes from: `python examples/nan.py` trains until the loss is NaN, and says which line made it so.

The texts are of different lengths, and padding is masked out of the attention. One text in the data is empty.
"""

import torch
from torch import nn

import clew


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x, mask):
        scores = self.query(x) @ self.key(x).transpose(-1, -2)
        scores = scores.masked_fill(~mask[:, None, :], -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        return weights @ self.value(x)


class Classifier(nn.Module):
    def __init__(self, words=50, width=16):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.attention = Attention(width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 2)

    def forward(self, words, mask):
        x = self.embedding(words)
        x = self.norm(x + self.attention(x, mask))
        return self.head(x.mean(1))


def batches(count):
    generator = torch.Generator().manual_seed(0)
    for number in range(count):
        words = torch.randint(0, 50, (8, 12), generator=generator)
        lengths = torch.randint(1, 13, (8,), generator=generator)
        if number == 37:
            lengths[5] = 0
        yield words, torch.arange(12) < lengths[:, None], (words[:, 0] > 25).long()


def main():
    torch.manual_seed(0)
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with clew.ModelTracer(model, ["attention", "**.weight.grad"], keep="last 5 steps", nonfinite="find") as tracer:
        for words, mask, labels in batches(100):
            loss = nn.functional.cross_entropy(model(words, mask), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"loss after 100 steps: {loss.item()}")
    mask = tracer.nonfinite.inputs["mask"]
    print("lengths of the texts in that batch:", mask.sum(1).tolist())


if __name__ == "__main__":
    main()

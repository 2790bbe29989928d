import torch
from torch import nn

from app.config import CFG


class Net(nn.Module):
    def __init__(self, vocab, dim, classes):
        super().__init__()
        self.emb = nn.EmbeddingBag(vocab, dim, mode="mean")
        self.fc = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Dropout(0.1), nn.Linear(dim, classes))

    def forward(self, ids, offsets):
        return self.fc(self.emb(ids, offsets))


net = Net(60, CFG.dim, 2)

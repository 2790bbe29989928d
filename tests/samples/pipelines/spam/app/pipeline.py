import functools
import logging

import torch
from tokenizers import Tokenizer

from app.config import CFG
from app.net import net

log = logging.getLogger(__name__)
tok: Tokenizer | None = None
bias = {}


@functools.lru_cache(maxsize=1000)
def stem(word):
    for ending in ("ing", "ed", "s"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return word[: -len(ending)]
    return word


def encode(text):
    words = [stem(w) for w in text.lower().split()]
    enc = tok.encode(" ".join(words))
    ids = enc.ids[: CFG.max_len]
    log.debug("%d ids", len(ids))
    return ids


@torch.inference_mode()
def classify(text):
    ids = encode(text)
    if not ids:
        return {"label": "empty", "p": None}
    x = torch.tensor(ids, dtype=torch.long)
    out = net(x, torch.zeros(1, dtype=torch.long))
    p = torch.softmax(out, dim=1)[0]
    label = CFG.labels[int(p[0] < CFG.threshold)]
    p = p[0].item() + bias.get(label, 0.0)
    return {"label": label, "p": p, "tokens": tok.encode(text).tokens}

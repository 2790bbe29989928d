"""Generating until a full stop comes, with a model of the project's own."""
import torch
from app.generate import CHARS, Generator
from app.gpt import GPT

CHANGED = "nothing"


def prepare():
    torch.manual_seed(3)
    model = GPT(len(CHARS))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    torch.save(model.state_dict(), "model.pt")
    return Generator.from_checkpoint("model.pt"), ["hello", "once upon"]


def random_input(rng):
    return {"prompt": "".join(rng.choice("abc defg.ghiXÜ") for _ in range(rng.randint(0, 30)))}

"""`model.generate` of transformers, in a class of the project's own."""
from app.chat import build

CHANGED = "nothing"


def prepare():
    return build().respond, ["hello there", "how are"]


def random_input(rng):
    return {"prompt": "".join(rng.choice("hello there youß .") for _ in range(rng.randint(1, 20)))}

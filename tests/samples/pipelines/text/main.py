"""A tokenizer of transformers and a BERT in module globals, behind `@torch.no_grad()`."""
from app import model

CHANGED = "nothing"
WORDS = "the film was great terrible boring loved ünïcode I ! ? 漢字 minute long  it so and every xyz".split(" ")


def prepare():
    model.build()
    return model.predict, ["The film was great!", "boring"]


def random_input(rng):
    return {"text": " ".join(rng.choice(WORDS) for _ in range(rng.randint(0, 60)))}

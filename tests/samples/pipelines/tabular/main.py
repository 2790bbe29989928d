"""Features made with pandas, a pipeline of scikit-learn in a module global, fitted by the program."""
import random

import pandas as pd
from app import model

CHANGED = "nothing"


def frame(rng, count):
    return pd.DataFrame(
        {
            "age": [rng.choice([rng.randint(1, 90), None, 40.5]) for _ in range(count)],
            "income": [rng.random() * 100 for _ in range(count)],
            "city": [rng.choice(["Paris", " rome ", "Oslo", None, "Lima"]) for _ in range(count)],
            "joined": [rng.choice(["2020-01-01", "2023-05-06", "bad", None]) for _ in range(count)],
            "extra": [1] * count,
        }
    )


def prepare():
    rng = random.Random(0)
    model.train(frame(rng, 200), [rng.randint(0, 1) for _ in range(200)])
    model.settings["cutoff"] = 0.42
    return model.score, [frame(rng, 3), frame(rng, 8)]


def random_input(rng):
    return {"df": frame(rng, rng.randint(1, 40))}

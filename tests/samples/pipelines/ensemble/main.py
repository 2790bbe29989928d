"""Steps by name from a registry, with a decorator that counts seconds; models of three classes."""
import random

from app.models import Ensemble, Sk

CHANGED = "nothing; each way through its branches has an example"


def row(rng):
    return {name: rng.uniform(-5, 5) for name in "abc"}


def prepare():
    rng = random.Random(0)
    rows = [row(rng) for _ in range(50)]
    steps = [("scale", {"mean": 0.5, "std": 2.0}), ("clip", {"high": 2}), ("poly", {})]
    ensemble = Ensemble({"steps": steps, "combine": "mean"}).fit(rows, [r["a"] * 2 + r["b"] ** 2 for r in rows])
    Sk.weight = 2.0
    return ensemble.predict, [{"row": one} for one in rows[:30]]


def random_input(rng):
    return {"row": row(rng)}

"""Spectra by NumPy and SciPy, and the loud parts of a signal found by a loop."""
import random

import numpy as np
from app import mfcc

CHANGED = "nothing; each way through its branches has an example"


def signal(rng, count, loud=True):
    noise = np.random.default_rng(rng.randint(0, 10**6)).normal(size=count)
    return noise * (np.sin(np.arange(count) / 200) ** 8) * (0.1 if loud else 0.001)


def prepare():
    rng = random.Random(0)
    return mfcc.features, [signal(rng, count, loud) for count in (100, 300, 3000) for loud in (False, True)] + [
        np.concatenate([signal(rng, count), np.zeros(1000)]) for count in (300, 700, 3000)
    ]


def random_input(rng):
    return {"sig": signal(rng, rng.randint(10, 3000))}

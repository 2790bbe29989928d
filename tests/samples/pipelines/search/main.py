"""An index by TF-IDF, filled after the import; the best hits by heapq."""
import random

from app import search

CHANGED = "nothing"
WORDS = "cat dog rose garden winter summer train station music piano model graph paper".split()


def prepare():
    rng = random.Random(0)
    texts = [" ".join(rng.choice(WORDS) for _ in range(15)) for _ in range(30)]
    search.index.fit([{"id": f"d{i}", "title": f"Doc {i}", "text": text} for i, text in enumerate(texts)])
    return search.answer, ["cat in the garden", "", "xyz"]


def random_input(rng):
    return {"query": " ".join(rng.choice([*WORDS, "zzz", "", "?"]) for _ in range(rng.randint(0, 5)))}

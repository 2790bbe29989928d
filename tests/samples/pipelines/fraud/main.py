"""A booster of LightGBM, loaded from its file, with the contributions of its features."""
import random

from app import score

CHANGED = "nothing"


def rows(rng, count):
    def time():
        return f"2024-0{rng.randint(1, 9)}-1{rng.randint(0, 9)} {rng.randint(10, 23)}:00"

    return [
        {
            "id": number,
            "amount": rng.random() * 100,
            "balance": rng.random() * 1000,
            "kind": rng.choice(["card", "wire", "cash", "new"]),
            "time": time(),
        }
        for number in range(count)
    ]


def prepare():
    rng = random.Random(0)
    known = [row for row in rows(rng, 300) if row["kind"] != "new"]
    score.fit(known, [int(row["amount"] > 50) for row in known])
    score.load()
    return score.score, [{"rows": rows(rng, 2)}, {"rows": rows(rng, 5)}, {"rows": []}]


def random_input(rng):
    return {"rows": rows(rng, rng.randint(0, 12))}

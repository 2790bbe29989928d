"""Orders that are checked and summed up: branches, exceptions of the project's own, dataclasses, decimals."""
import clew
from app import process

CHANGED = "process() is a clew.op: its branches are many, and each way would need an example"


def order(rng):
    made = {
        "id": rng.choice([rng.randint(1, 99999), "17"]),
        "email": rng.choice(["A@b.de ", "x.y@z.fr", "q@w.com", "bad"]),
        "when": rng.choice(["2024-01-31", "2024-02-28T12:30:00", "soon"]),
        "kind": rng.choice(["sale", "refund"]),
        "lines": [
            {"sku": rng.choice("abc"), "qty": rng.choice([1, 2, 0, 5]), "price": rng.choice([1.5, "2.25", 10])}
            for _ in range(rng.randint(0, 5))
        ],
    }
    for key in ("kind", "when"):
        if rng.random() < 0.1:
            del made[key]
    if rng.random() < 0.1 and made["lines"]:
        made["lines"][0]["price"] = "x"
    return made


def prepare():
    process.RATES["com"] = "0.07"
    example = {"id": 1, "email": "a@b.de", "when": "2024-01-31", "kind": "sale", "lines": []}
    return clew.op(process.process), [{"raw": example}]


def random_input(rng):
    return {"raw": order(rng)}

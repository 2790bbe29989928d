"""Loops around models of torch, in bundles: generating with an early stop, and a batch row by row."""

from __future__ import annotations

import random
from functools import partial

import pytest

from graph.bundling import opened, write
from graph.test_bundle_loops import ALL_EQUAL, Case, compare_elsewhere

APP = """
    import torch

    torch.manual_seed(0)
    STOP = 3

    class Tiny(torch.nn.Module):
        def __init__(self, tokens=13, width=8):
            super().__init__()
            self.embed = torch.nn.Embedding(tokens, width)
            self.rnn = torch.nn.GRU(width, width, batch_first=True)
            self.head = torch.nn.Linear(width, tokens)

        def forward(self, ids):
            hidden, _ = self.rnn(self.embed(ids))
            return self.head(hidden)

    model = Tiny().eval()
    score = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)).eval()

    def generate(ids, limit=20):
        ids = list(ids)
        with torch.no_grad():
            for _ in range(limit):
                logits = model(torch.tensor([ids]))
                following = int(logits[0, -1].argmax())
                if following == STOP:
                    break
                ids.append(following)
        return ids

    def continued(ids):
        tokens = torch.tensor([ids])
        with torch.inference_mode():
            while tokens.shape[1] < 24:
                following = model(tokens)[:, -1].argmax(-1, keepdim=True)
                tokens = torch.cat([tokens, following], dim=1)
                if following.item() == STOP:
                    break
        return tokens[0].tolist()

    class Generator:
        def __init__(self, model, limit):
            self.model = model
            self.limit = limit

        def following(self, ids):
            with torch.no_grad():
                return int(self.model(torch.tensor([ids]))[0, -1].argmax())

        def __call__(self, ids):
            new = []
            while len(new) < self.limit:
                token = self.following(ids + new)
                if token == STOP:
                    return {"new": new, "stopped": True}
                new.append(token)
            return {"new": new, "stopped": False}

    generator = Generator(model, 12)

    def by_rows(rows):
        with torch.no_grad():
            return [round(score(torch.tensor(row)).item(), 5) for row in rows]

    def totals(rows):
        labels, counts = [], {}
        with torch.no_grad():
            for number, row in enumerate(rows):
                label = "high" if score(torch.tensor(row)).item() > 0 else "low"
                counts[label] = counts.get(label, 0) + 1
                labels.append([number, label])
        best = max((sum(row) for row in rows), default=None)
        return {"labels": labels, "counts": counts, "best": best, "lengths": list(map(len, rows))}
"""


def _tokens(source: random.Random) -> list[int]:
    return [source.randrange(13) for _ in range(source.randrange(1, 10))]


def _rows(source: random.Random) -> list[list[float]]:
    return [[source.random() for _ in range(3)] for _ in range(source.randrange(9))]


GENERATING = ("generate", "continued", "generator")
ROWS = ("by_rows", "totals")


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, int]]:
    """By pipeline, how its bundle fares: all of them in one process, which takes seconds to import torch."""
    folder = tmp_path_factory.mktemp("loops")
    write(folder / "project", {"app.py": APP})
    source = random.Random(3)
    with opened(folder / "project", "app") as app:
        cases = [Case(getattr(app, name), "ids", [[1, 2, 4]], partial(_tokens, source)) for name in GENERATING]
        rows = partial(_rows, source)
        cases += [Case(getattr(app, name), "rows", [_rows(source), []], rows) for name in ROWS]
        return dict(zip((*GENERATING, *ROWS), compare_elsewhere(cases, folder), strict=True))


@pytest.mark.parametrize("name", GENERATING)
def test_a_generate_loop_with_an_early_stop_is_equal_for_other_lengths(
    name: str, counts: dict[str, dict[str, int]]
) -> None:
    assert counts[name] == ALL_EQUAL


@pytest.mark.parametrize("name", ROWS)
def test_a_batch_that_a_model_sees_row_by_row_is_equal_for_other_lengths(
    name: str, counts: dict[str, dict[str, int]]
) -> None:
    assert counts[name] == ALL_EQUAL

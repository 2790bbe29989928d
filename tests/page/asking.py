"""Runs to look at, and a browser's part: questions with the right token, to an app that has no socket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from starlette.testclient import TestClient

from clew.page.access import Access
from clew.page.server import make_app
from clew.page.shelf import Shelf, run_id
from clew.records import DELETED
from reading.writing import Written

TOKEN = "t" * 32
HOST = "http://127.0.0.1:8412"


class Page:
    """The page over a folder of runs."""

    def __init__(self, base: Path, *given: Path) -> None:
        self.shelf = Shelf(base, list(given))
        self.access = Access(TOKEN)
        self.client = TestClient(make_app(self.shelf, self.access), base_url=HOST, headers={"X-Clew-Token": TOKEN})

    def ask(self, path: str, **params: Any) -> Any:
        answer = self.client.get(path, params={key.rstrip("_"): str(value) for key, value in params.items()})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refused(self, status: int, path: str, **params: Any) -> dict[str, str]:
        answer = self.client.get(path, params={key.rstrip("_"): str(value) for key, value in params.items()})
        assert answer.status_code == status, answer.text
        return answer.json()

    def post(self, path: str, body: Any) -> Any:
        return self.client.post(path, json=body)

    def run(self, folder: Path) -> str:
        return f"/api/run/{run_id(folder)}"

    def of(self, folder: Path, what: str = "", **params: Any) -> Any:
        """An answer about a run."""
        return self.ask(self.run(folder) + (f"/{what}" if what else ""), **params)


def training(
    base: Path, name: str = "120000-training", *, file: str = "mod.py", source: str | None = None, **meta: Any
) -> Written:
    """Ten steps of a training loop: numbers, a NaN, a deletion, text, tensors, calls that repeat, one that raised."""
    writer = Written(base, name, **meta)
    shard = writer.shard()
    train = shard.call("train", args={"epochs": 2}, file=file, line=3, source=source)
    for step in range(10):
        shard.step(train, step)
        shard.change(train, "loss", float("nan") if step == 4 else 1.0 / (step + 1), line=5)
        shard.change(train, "weight", np.full((4, 6), step, np.float32), line=6)
        layer = shard.call("layer", parent=train, file=file, line=20, stage="model" if step == 1 else None)
        shard.change(layer, "x", np.arange(3.0), line=20, role="input")
        shard.change(layer, "return", step * 2.0, line=22, role="output")
        shard.end(layer, error="ValueError: seven" if step == 7 else None)
    shard.change(train, "loss", DELETED, line=5)
    shard.change(train, "loss", "gone", line=5)
    shard.note("never-seen", "accuracy", "never seen in train()")
    shard.end(train, result=0.1)
    shard.close()
    return writer

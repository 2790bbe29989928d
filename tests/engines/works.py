"""Work for engines under test: it doubles numbers, and does as it is told by other items."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clew.engines.engine import Done, Engine, Outcome, Unsent


@dataclass(frozen=True)
class Doubling:
    """`folder`: each worker leaves a file there when it is made ready, and finds orders to wait for each other."""

    folder: str = ""
    broken: bool = False
    here: bool = True
    content: bool = False

    def is_here(self) -> bool:
        return self.here

    def with_content(self) -> Doubling:
        return replace(self, content=True)

    def prepare(self) -> Callable[[list[Any]], Done]:
        if self.broken:
            raise RuntimeError("the model is missing")
        if self.folder:
            (Path(self.folder) / f"ready-{os.getpid()}").touch()
        return self.run

    def run(self, items: list[Any]) -> Done:
        results: list[Any] = []
        failures: list[tuple[int, str, str]] = []
        for place, item in enumerate(items):
            results.append(None)
            if type(item) is Unsent:
                failures.append((place, item.error, item.error))
            else:
                results[place] = self._one(item)
        return Done(results, failures, 0.001)

    def _one(self, item: Any) -> Any:
        if item == "pid":
            return os.getpid()
        if item == "content":
            return self.content
        if item == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if item == "function":
            return lambda: None
        if item == "wait":
            return self._waited()
        return item * 2

    def _waited(self) -> str:
        """Says where it runs, and stays until it is told to go on."""
        folder = Path(self.folder)
        (folder / f"at-{os.getpid()}").touch()
        while not (folder / "go").exists():
            time.sleep(0.01)
        return "waited"


def drained(engine: Engine, count: int) -> dict[int, Outcome]:
    """Outcomes of so many pieces by their number; each of them once."""
    outcomes: dict[int, Outcome] = {}
    while len(outcomes) < count:
        for outcome in engine.collect(wait=True):
            assert outcome.key[0] not in outcomes
            outcomes[outcome.key[0]] = outcome
    return outcomes

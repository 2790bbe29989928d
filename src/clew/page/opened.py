"""One run that is being looked at: read again while it is written, and what was computed of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from clew.errors import ClewError, PageError, UnknownNameError
from clew.history.call import Call
from clew.history.run import Run
from clew.store.format import META_NAME, SHARDS_NAME

if TYPE_CHECKING:
    from pathlib import Path

    from clew.history.lazy import Rows
    from clew.history.view import View
    from clew.page.cache import Cache
    from clew.records import Summary

SECONDS = 0.5  # between two looks at what was written since
PATIENCE = 4.0  # a run whose answers cost much is looked at so many times more seldom than that
LONGEST = 20.0
LONG = 1_000_000  # changes: columns of so many take a while to be made
WARMED = 6  # names

T = TypeVar("T")


class Opened:
    """A run behind the page. Answers are made one at a time: `with opened:` gives its tables as they stand."""

    def __init__(self, id: str, folder: Path, cache: Cache) -> None:
        self.id = id
        self.folder = folder
        self.version = 1
        self._cache = cache
        self._lock = threading.RLock()
        self._run: Run | None = None
        self._looked = 0.0
        self._spent = 0.0  # seconds that answers took since the last look
        self._begun = 0.0
        self._warmed = False
        self._waiting = 0  # questions that wait for another's answer
        self._counting = threading.Lock()
        self.statistics: dict[tuple[str, int], Summary] = {}  # by shard and value, of arrays that had to be read

    def __enter__(self) -> Opened:
        with self._counting:
            self._waiting += 1
        self._lock.acquire()
        with self._counting:
            self._waiting -= 1
        try:
            self._refresh()
        except BaseException:
            self._lock.release()
            raise
        self._begun = time.monotonic()
        return self

    def __exit__(self, *error: object) -> None:
        self._spent += time.monotonic() - self._begun
        self._lock.release()

    def glance(self) -> tuple[int, str] | None:
        """Version and status; without waiting: None while an answer is being made."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            self._refresh()
            return self.version, self.run.status
        finally:
            self._lock.release()

    @property
    def run(self) -> Run:
        if self._run is None:
            self._run = Run(self.folder)
            self._looked = time.monotonic()
        return self._run

    @property
    def tables(self) -> View:
        return self.run.tables

    def _refresh(self) -> None:
        self.check_there()
        wait = min(max(SECONDS, PATIENCE * self._spent), LONGEST)
        if self._run is None or time.monotonic() - self._looked < wait:
            return
        try:
            changed = self._run.refresh()
        except ClewError:
            self.check_there()
            raise
        self._looked, self._spent = time.monotonic(), 0.0
        if changed:
            self.version += 1
            self._cache.forget(lambda key: key[0] == self.id)

    def check_there(self) -> None:
        if not (self.folder / META_NAME).is_file() and not (self.folder / SHARDS_NAME).is_dir():
            what = f"The run {self.folder.name} is no longer there: its folder was deleted or moved."
            raise PageError("run-gone", what, "Go back to the list of runs and choose another.")

    def warm(self) -> None:
        """Make the curves of a long run's first names while nobody asks, one at a time: others may come between."""
        from clew.page.answers.tree import tree
        from clew.page.curves import curve_of
        from clew.page.query import Query

        with self:
            if self._warmed or len(self.tables.table) < LONG:
                return
            self._warmed = True
            names = sorted(self.run.names, key=lambda name: "loss" not in name.lower())[:WARMED]  # as the page begins
        work = [partial(curve_of, self, name, "step") for name in names] + [partial(tree, self, Query())]
        for one in work:
            while self._waiting:
                time.sleep(0.02)  # who asks comes first
            with self:
                one()

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made of this version of the run, or is made now."""
        return self._cache.get((self.id, self.version, key), make)

    # ---- finding things

    def rows_of(self, name: str) -> Rows:
        """The rows of a series; an error that names the nearest if there is none, or those that could be meant."""
        return self.tables.table.rows_of(self.run[name].name)

    def place(self, call: str) -> int:
        """The place of a call by its id in the page."""
        name, _, number = call.rpartition(":")
        for shard, reader in enumerate(self.tables.table.shards):
            if reader.name == name and number.isdecimal() and len(number) < 20 and int(number) < 2**63:
                found = self.tables.calls.place(shard, int(number))
                if found is not None:
                    return found
        what = f"There is no call {call[:80]!r} in {self.folder.name}."
        raise UnknownNameError("no-such-call", what, "Open the tree again.")

    def call(self, id: str) -> Call:
        return Call(self.tables, self.place(id))

    def call_ids(self, places: Rows) -> list[str]:
        """The ids of these calls in the page."""
        calls = self.tables.calls
        where = np.searchsorted(calls.offsets, places, side="right") - 1
        out: list[str] = [""] * len(places)
        for shard in np.unique(where).tolist():
            part = calls.shards[shard]
            at = np.flatnonzero(where == shard)
            numbers = part.start("call")[places[at] - calls.offsets[shard]]
            for index, number in zip(at.tolist(), numbers.tolist(), strict=True):
                out[index] = f"{part.reader.name}:{number}"
        return out


def step_text(step: Any) -> str | None:
    """A step as people read it."""
    from clew.show.text import brief

    if step is None:
        return None
    if type(step) is float and step.is_integer() and abs(step) < 2**53:
        return str(int(step))
    return step[:80] if type(step) is str else brief(step, 80)

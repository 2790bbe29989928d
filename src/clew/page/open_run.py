"""Keeps one run open: refreshes it while it is being written, and caches what was computed from it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from clew.errors import ClewError, PageError, UnknownNameError
from clew.reading.call import Call
from clew.reading.run import Run
from clew.store.format import META_NAME, SHARDS_NAME

if TYPE_CHECKING:
    from pathlib import Path

    from clew.page.cache import Cache
    from clew.reading.lazy import Rows
    from clew.reading.view import View
    from clew.records import Summary

SECONDS = 0.5  # between two refreshes
PATIENCE = 4.0  # the time between refreshes is at least this multiple of the time spent on answers
LONGEST = 20.0
LONG = 1_000_000  # changes: building columns of this length takes a while
WARMED = 6  # names

T = TypeVar("T")


class OpenedRun:
    """A run behind the page. Answers are computed one at a time: `with opened:` locks and refreshes the run."""

    def __init__(self, id: str, folder: Path, cache: Cache) -> None:
        self.id = id
        self.folder = folder
        self.version = 1
        self._cache = cache
        self._lock = threading.RLock()
        self._run: Run | None = None
        self._refreshed_at = 0.0
        self._spent = 0.0  # seconds spent on answers since the last refresh
        self._entered_at = 0.0
        self._warmed = False
        self._waiting = 0  # requests that wait for the lock
        self._counting = threading.Lock()
        self.statistics: dict[tuple[str, int], Summary] = {}  # by shard and value id, for arrays that had to be read

    def __enter__(self) -> OpenedRun:
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
        self._entered_at = time.monotonic()
        return self

    def __exit__(self, *error: object) -> None:
        self._spent += time.monotonic() - self._entered_at
        self._lock.release()

    def glance(self) -> tuple[int, str] | None:
        """Version and status without waiting; None while an answer is being computed."""
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
            self._refreshed_at = time.monotonic()
        return self._run

    @property
    def tables(self) -> View:
        return self.run.tables

    def _refresh(self) -> None:
        self.check_exists()
        wait = min(max(SECONDS, PATIENCE * self._spent), LONGEST)
        if self._run is None or time.monotonic() - self._refreshed_at < wait:
            return
        try:
            changed = self._run.refresh()
        except ClewError:
            self.check_exists()
            raise
        self._refreshed_at, self._spent = time.monotonic(), 0.0
        if changed:
            self.version += 1
            self._cache.forget(lambda key: key[0] == self.id)

    def check_exists(self) -> None:
        if not (self.folder / META_NAME).is_file() and not (self.folder / SHARDS_NAME).is_dir():
            message = f"The run {self.folder.name} is no longer there: its folder was deleted or moved."
            raise PageError("run-gone", message, "Go back to the list of runs and choose another.")

    def warm(self) -> None:
        """Compute the curves of a long run's first names in advance, one at a time, so that requests come first."""
        from clew.page.answers.tree import tree
        from clew.page.curves import curve_of
        from clew.page.query_parameters import Query

        with self:
            if self._warmed or len(self.tables.table) < LONG:
                return
            self._warmed = True
            names = sorted(self.run.names, key=lambda name: "loss" not in name.lower())[
                :WARMED
            ]  # the order in which the page shows them
        tasks = [partial(curve_of, self, name, "step") for name in names] + [partial(tree, self, Query())]
        for task in tasks:
            while self._waiting:
                time.sleep(0.02)  # requests come first
            with self:
                task()

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """The cached result for this version of the run, or a new one."""
        return self._cache.get((self.id, self.version, key), make)

    # ---- lookups

    def rows_of(self, name: str) -> Rows:
        """The rows of a series; the error for an unknown or ambiguous name lists candidates."""
        return self.tables.table.rows_of(self.run[name].name)

    def place(self, call: str) -> int:
        """The place of the call with this id of the page."""
        shard_name, _, number = call.rpartition(":")
        for shard, reader in enumerate(self.tables.table.shards):
            if reader.name == shard_name and number.isdecimal() and len(number) < 20 and int(number) < 2**63:
                place = self.tables.calls.place(shard, int(number))
                if place is not None:
                    return place
        message = f"There is no call {call[:80]!r} in {self.folder.name}."
        raise UnknownNameError("no-such-call", message, "Open the tree again.")

    def call(self, id: str) -> Call:
        return Call(self.tables, self.place(id))

    def call_ids(self, places: Rows) -> list[str]:
        """The page's ids of these calls."""
        calls = self.tables.calls
        shards = np.searchsorted(calls.offsets, places, side="right") - 1
        ids: list[str] = [""] * len(places)
        for shard in np.unique(shards).tolist():
            shard_calls = calls.shards[shard]
            indices = np.flatnonzero(shards == shard)
            numbers = shard_calls.start("call")[places[indices] - calls.offsets[shard]]
            for index, number in zip(indices.tolist(), numbers.tolist(), strict=True):
                ids[index] = f"{shard_calls.reader.name}:{number}"
        return ids


def step_text(step: Any) -> str | None:
    """A step as short text."""
    from clew.text.brief import brief

    if step is None:
        return None
    if type(step) is float and step.is_integer() and abs(step) < 2**53:
        return str(int(step))
    return step[:80] if type(step) is str else brief(step, 80)

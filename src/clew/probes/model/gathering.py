"""Values on their way from what ranks have seen to the lists users read: batches, callbacks, gathering."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from clew import recording, trouble

from . import callbacks
from .options import Options
from .results import Result, as_seen

if TYPE_CHECKING:
    from .path_tracks import Track

FEW_RANKS = 4
_runs = 0  # made known to other ranks so far


class Gathering:
    """The lists, and how they are filled."""

    def __init__(self, options: Options, rank: int, before: Gathering | None = None) -> None:
        self._options = options
        self._results: dict[str, Result] = {} if before is None else before._results  # of a tracer used once more
        self._gatherer: Any = None
        self.rank, self.world = rank, 1
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            self.rank, self.world = distributed.get_rank(), distributed.get_world_size()
            recording.set_rank(self.rank)
        self.collective = self.world > 1 and self._wants_collective()
        if self.collective:
            from clew.engines.gather import Gatherer

            self._gatherer = Gatherer(timeout=options.timeout)

    def _wants_collective(self) -> bool:
        options = self._options
        if options.gather == "auto":
            return self.world <= FEW_RANKS and (options.in_memory or options.gathers)
        return options.gather == "collective"

    def join_run(self) -> None:
        """In a job of several ranks: all write into one run, the one of rank 0, each into a shard of its own."""
        global _runs
        if self.world == 1 or self._options.gather == "none":
            recording.recorder()
            return
        number, _runs = _runs, _runs + 1
        store = torch.distributed.distributed_c10d._get_default_store()
        key = f"clew/run/{number}"
        if self.rank == 0:
            recording.recorder()
            run = recording.current()
            store.set(key, str(run.path if run is not None and run.path is not None else ""))
        elif recording.current() is None:
            self._join(store, key)

    def _join(self, store: Any, key: str) -> None:
        from datetime import timedelta

        try:
            store.wait([key], timedelta(seconds=self._options.timeout))
            path = Path(store.get(key).decode())
        except RuntimeError as error:
            trouble.report(
                "model:join", "rank 0 did not say where its run is; this rank writes one of its own", "", error
            )
            return
        if path.name and (path / "run.json").is_file():
            recording.join(path)
        else:
            trouble.report(
                "model:join",
                f"the run of rank 0, {path}, cannot be seen from here; this rank writes one of its own",
                "To have one run, set CLEW_DIR to a folder that all machines share.",
            )

    # ---- batches

    def gather(self, tracks: list[Track]) -> None:
        options = self._options
        batches = []
        for track in tracks:
            values = [as_seen(copy) for copy in track.values]
            iterations, modes = list(track.iterations), list(track.modes)
            track.values, track.iterations, track.modes = [], [], []
            if values:
                ranks = [self.rank] * len(values)
                callbacks.run(options.pre_gather, "pre_gather", track.name, values, iterations, ranks)
                batches.append((track.name, values, iterations, modes))
        if self._gatherer is None:
            for name, values, iterations, modes in batches:
                self._add(name, values, iterations, [self.rank] * len(iterations), modes)
            return
        self._gather_all(batches)

    def _gather_all(self, batches: list[tuple[str, list[Any], list[int], list[str]]]) -> None:
        from clew.engines.gather import Batch

        was_broken = bool(self._gatherer.broken)
        given = self._gatherer.gather([Batch(name, values, iterations) for name, values, iterations, _ in batches])
        if self._gatherer.broken and not was_broken:
            trouble.report(
                "model:gather", f"values are no longer gathered: {self._gatherer.broken}", "Training goes on."
            )
        if given is None:
            return
        merged: dict[str, tuple[list[Any], list[int], list[int]]] = {}
        for rank, theirs in enumerate(given):
            for batch in theirs:
                values, iterations, ranks = merged.setdefault(batch.name, ([], [], []))
                values += batch.values
                iterations += batch.iterations
                ranks += [rank] * len(batch.iterations)
        for name, (values, iterations, ranks) in merged.items():
            self._add(name, values, iterations, ranks, [])

    def _add(self, name: str, values: list[Any], iterations: list[int], ranks: list[int], modes: list[str]) -> None:
        callbacks.run(self._options.post_gather, "post_gather", name, values, iterations, ranks)
        result = self._results.get(name)
        if result is None:
            result = self._results[name] = Result(name, [], [], [], [])
        result.values += values
        result.iterations += iterations
        result.ranks += ranks
        result.modes += modes if len(modes) == len(iterations) else []  # a callback may have emptied the lists

    def finish(self) -> None:
        """The trace is over."""
        for name, result in self._results.items():
            callbacks.run(
                self._options.post_trace, "post_trace", name, result.values, result.iterations, result.ranks
            )  # fmt: skip

    # ---- reading

    def names(self) -> list[str]:
        return list(self._results)

    def result(self, name: str) -> Result:
        return self._results.get(name) or Result(name, [], [], [], [])

    def close(self) -> None:
        if self._gatherer is not None:
            self._gatherer.close()
            self._gatherer = None

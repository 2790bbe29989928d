"""RunReader: a run folder, whole or not, finished or being written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from clew.errors import FormatError, NotARunError
from clew.store.files import size_of
from clew.store.folder import read_checked_meta
from clew.store.format import META_NAME, RECORDS_NAME, SHARDS_NAME
from clew.store.shard import ShardReader

__all__ = ["RunReader", "ShardReader"]


class RunReader:
    """A run with all its shards. What is damaged is told in `problems`; what is whole is there.

    NotARunError if `path` is no run, FormatError if it was written by a newer clew.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.meta: dict[str, Any] = {}
        self.shards: list[ShardReader] = []  # by rank, then by name
        self._meta_problem = ""
        self._gone: set[str] = set()  # shards that were there and are no more
        self._read_meta()
        self.refresh()

    def refresh(self) -> bool:
        """Pick up what was written since; True if anything was."""
        before = self.meta
        self._read_meta()
        news = [shard.refresh() for shard in self.shards]
        found = self._find_shards()
        for shard in self.shards:
            shard.run_ended = self._ended()
        return any(news) or found or before != self.meta

    def verify(self) -> None:
        """Read every byte that was kept; `problems` then tells of all damage, not only of what opening notices."""
        for shard in self.shards:
            shard.verify()

    @property
    def problems(self) -> list[str]:
        """What is damaged or missing, for people."""
        found = [self._meta_problem] if self._meta_problem else []
        found += [f"shard {name} is missing" for name in self._missing_shards()]
        for shard in self.shards:
            found += shard.problems
            if shard.missing_end:
                found.append(f"shard {shard.name}: {shard.missing_end}")
        if self._stopped():
            found.append(f"nothing could be written: {self._stopped()}")
        return found

    def incomplete(self) -> list[str]:
        """Why this run may not hold all that was recorded; nothing if it is known to."""
        reasons = [shard.missing_end for shard in self.shards if shard.missing_end]
        return reasons + ([f"nothing could be written: {self._stopped()}"] if self._stopped() else [])

    def _stopped(self) -> str:
        """Why the process that opened the run could not even begin to write."""
        reason = self.meta.get("stopped")
        return reason if isinstance(reason, str) and not self.shards else ""

    def _read_meta(self) -> None:
        """A damaged or missing page is only a problem where records are; else this is no run."""
        try:
            self.meta, self._meta_problem = read_checked_meta(self.path)
        except (NotARunError, FormatError) as error:
            if error.slug == "newer-format" or not self._has_records():
                raise
            self._meta_problem = error.what if error.slug != "not-a-run" else f"{META_NAME} is missing"

    def _has_records(self) -> bool:
        return any(size_of(folder / RECORDS_NAME) is not None for folder in self._shard_folders())

    def _shard_folders(self) -> list[Path]:
        """The folders of shards; links are not followed, for they may lead anywhere."""
        shards = self.path / SHARDS_NAME
        if shards.is_symlink():
            return []
        try:
            with os.scandir(shards) as entries:
                return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return []

    def _find_shards(self) -> bool:
        known = {shard.name for shard in self.shards}
        folders = self._shard_folders()
        self._gone = known - {folder.name for folder in folders}
        new = [ShardReader(folder) for folder in folders if folder.name not in known]
        self.shards = sorted(self.shards + new, key=lambda shard: (shard.rank, shard.name))
        return bool(new)

    def _missing_shards(self) -> list[str]:
        """Shards that run.json lists, or that were here before, and that are not there."""
        listed = self.meta.get("shards")
        names = {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
        return sorted(self._gone | (names - {shard.name for shard in self.shards}))

    def _ended(self) -> bool:
        return self.meta.get("how") not in (None, "running")

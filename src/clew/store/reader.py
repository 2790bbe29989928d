"""RunReader reads a run folder, damaged or not, finished or still being written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from clew.errors import FormatError, NotARunError
from clew.store.folder import read_checked_meta
from clew.store.format import META_NAME, RECORDS_NAME, SHARDS_NAME
from clew.store.run_files import size_of
from clew.store.shard import ShardReader

__all__ = ["RunReader", "ShardReader"]


class RunReader:
    """A run with all its shards. Everything undamaged can be read; `problems` lists the rest.

    NotARunError if `path` is not a run, FormatError if a newer clew wrote it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.meta: dict[str, Any] = {}
        self.shards: list[ShardReader] = []  # by rank, then by name
        self._meta_problem = ""
        self._removed: set[str] = set()  # shards that were there before
        self._read_meta()
        self.refresh()

    def refresh(self) -> bool:
        """Read what was written since the last time; True if there was anything."""
        old_meta = self.meta
        self._read_meta()
        has_new_rows = [shard.refresh() for shard in self.shards]
        has_new_shards = self._find_shards()
        for shard in self.shards:
            shard.run_ended = self.meta.get("how") not in (None, "running")
        return any(has_new_rows) or has_new_shards or old_meta != self.meta

    def verify(self) -> None:
        """Read every byte of the run; `problems` then lists all damage, not only what opening notices."""
        for shard in self.shards:
            shard.verify()

    @property
    def problems(self) -> list[str]:
        """What is damaged or missing, as messages for people."""
        messages = [self._meta_problem] if self._meta_problem else []
        messages += [f"shard {name} is missing" for name in self._missing_shards()]
        for shard in self.shards:
            messages += shard.problems
            if shard.missing_end:
                messages.append(f"shard {shard.name}: {shard.missing_end}")
        if self._stop_reason():
            messages.append(f"nothing could be written: {self._stop_reason()}")
        return messages

    def incomplete(self) -> list[str]:
        """Why this run may lack something that was recorded; empty if it is known to be complete."""
        reasons = [shard.missing_end for shard in self.shards if shard.missing_end]
        return reasons + ([f"nothing could be written: {self._stop_reason()}"] if self._stop_reason() else [])

    def _stop_reason(self) -> str:
        """Why the process that opened the run could not even begin to write."""
        reason = self.meta.get("stopped")
        return reason if isinstance(reason, str) and not self.shards else ""

    def _read_meta(self) -> None:
        """Read run.json. If it is damaged or missing, this is still a run if there are records."""
        try:
            self.meta, self._meta_problem = read_checked_meta(self.path)
        except (NotARunError, FormatError) as error:
            if error.slug == "newer-format" or not self._has_records():
                raise
            self._meta_problem = error.what if error.slug != "not-a-run" else f"{META_NAME} is missing"

    def _has_records(self) -> bool:
        return any(size_of(folder / RECORDS_NAME) is not None for folder in self._shard_folders())

    def _shard_folders(self) -> list[Path]:
        """The folders of shards; links are not followed, as they may lead anywhere."""
        shards = self.path / SHARDS_NAME
        if shards.is_symlink():
            return []
        try:
            with os.scandir(shards) as entries:
                return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return []

    def _find_shards(self) -> bool:
        known_names = {shard.name for shard in self.shards}
        folders = self._shard_folders()
        self._removed = known_names - {folder.name for folder in folders}
        new = [ShardReader(folder) for folder in folders if folder.name not in known_names]
        self.shards = sorted(self.shards + new, key=lambda shard: (shard.rank, shard.name))
        return bool(new)

    def _missing_shards(self) -> list[str]:
        """Shards that run.json lists, or that existed before, but that are not there now."""
        listed = self.meta.get("shards")
        names = {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
        return sorted(self._removed | (names - {shard.name for shard in self.shards}))

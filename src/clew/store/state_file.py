"""The state file of a shard, in which its process notes why the shard is not complete.

The file is small and of fixed size. It is written when the shard is created and overwritten in place, because
a full disk has no space for a new file. Only the end of the stream shows whether a shard is complete.
"""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Final, NamedTuple

from clew.store.format import STATE_NAME
from clew.store.run_files import open_regular, read_exactly, write_all

_SIZE: Final = 512  # bytes
_LONGEST_REASON: Final = 300  # characters


class Stop(NamedTuple):
    """When a process stopped writing, in ns since 1970, and why."""

    time: int
    reason: str


class StateFile:
    """The state file of a shard that is being written."""

    def __init__(self, folder: Path) -> None:
        self._file = io.FileIO(folder / STATE_NAME, "x")
        try:
            self._write({"state": "open"})
        except BaseException:
            self._file.close()
            raise

    def _write(self, state: dict[str, object]) -> None:
        self._file.seek(0)
        write_all(self._file, json.dumps(state).encode("ascii").ljust(_SIZE)[:_SIZE])

    def stop(self, reason: str) -> None:
        """Note why nothing more is written."""
        shortened = reason.encode("ascii", "replace").decode("ascii")[:_LONGEST_REASON]
        try:
            self._write({"state": "stopped", "time": time.time_ns(), "reason": shortened})
        except (OSError, ValueError):
            pass  # the stream has no end, so readers know that something is missing, though not why

    def close(self) -> None:
        self._file.close()


def read_stop(folder: Path) -> Stop | None:
    """When and why the process of a shard stopped writing; None if it did not, or could not note it."""
    try:
        with open_regular(folder / STATE_NAME) as file:
            state = json.loads(bytes(read_exactly(file, 0, _SIZE)))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(state, dict) or state.get("state") != "stopped":
        return None
    time, reason = state.get("time"), state.get("reason")
    return Stop(time, reason) if type(time) is int and isinstance(reason, str) else None

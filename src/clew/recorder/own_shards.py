"""Which shards this process wrote itself, and what it knows of their calls that no file can say.

`call.rerun()` asks here. All of it is in memory, so that no run made elsewhere can claim to be this process's own.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from clew.store.format import RECORDS_NAME

if TYPE_CHECKING:
    from pathlib import Path

    from clew.records import Function


@dataclass(frozen=True, slots=True)
class _OwnShard:
    file: tuple[int, int] | None  # device and number of the records' file
    functions: dict[int, Function]  # as they were written, by id, without their source
    owners: dict[int, Any] = field(default_factory=dict)  # call → the `self` it had
    changed: int | None = None  # when the file was last changed, by its file system; None while this process writes


_shards: dict[str, _OwnShard] = {}


def add(folder: Path, functions: dict[int, Function]) -> None:
    """This process writes the shard in `folder`; `functions` grows while it does."""
    status = _status(folder)
    file = None if status is None else (status.st_dev, status.st_ino)
    _shards[os.path.realpath(folder)] = _OwnShard(file, functions)


def close(folder: Path) -> None:
    """This process has closed the shard in `folder`. A file in its place that was made or changed at another time is
    not this one: file systems give the number of a deleted file to the next."""
    path, status = os.path.realpath(folder), _status(folder)
    if path in _shards and status is not None:
        _shards[path] = replace(_shards[path], changed=status.st_ctime_ns)


def wrote(folder: Path, function: Function) -> bool:
    """Whether this process itself wrote the shard in `folder`, with exactly this function."""
    shard = _own(folder)
    return shard is not None and shard.functions.get(function.id) == replace(function, source=None)


def keep_owner(folder: Path, call: int, owner: Any) -> None:
    """`owner` is the `self` of a call of this process: a model, which no file can hold."""
    shard = _own(folder)
    if shard is not None:
        shard.owners[call] = owner


def owner_of(folder: Path, call: int) -> Any:
    """The `self` of a call of this process; None if it is not known."""
    shard = _own(folder)
    return None if shard is None else shard.owners.get(call)


def _own(folder: Path) -> _OwnShard | None:
    shard = _shards.get(os.path.realpath(folder))
    status = _status(folder)
    if shard is None or status is None or shard.file != (status.st_dev, status.st_ino):
        return None
    return shard if shard.changed in (None, status.st_ctime_ns) else None


def _status(folder: Path) -> os.stat_result | None:
    try:
        return os.lstat(folder / RECORDS_NAME)
    except OSError:
        return None

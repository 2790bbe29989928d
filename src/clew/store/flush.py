"""The records that the recorder hands to the store: everything since the last flush."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from clew.store.format import NO_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from clew.records import Function, Note, Origin, Site, Value


class CallStart(NamedTuple):
    """A call began. A tuple, because one `zip` turns a million of them into columns."""

    call: int
    parent: int  # NO_ID at the root
    function: int
    time: int  # ns since 1970, UTC, like all times here
    thread: int
    thread_name: str
    args: int = NO_ID  # value id
    step: int | None = None
    rank: int = 0
    stage: str | None = None
    line: int | None = None  # of the caller
    callers: str | None = None  # for a call without a parent: the frames around it, as JSON


def written_callers(frames: list[tuple[str, int, str]] | None) -> str | None:
    """The frames around a call (file, line, function), innermost first, as JSON."""
    return json.dumps(frames) if frames else None


class CallEnd(NamedTuple):
    """A call returned, or raised `error`."""

    call: int
    time: int
    error: str | None = None
    result: int = NO_ID  # value id


@dataclass(slots=True)
class StartColumns:
    """Many calls that began, as columns of equal length."""

    call: npt.NDArray[np.int64]
    parent: npt.NDArray[np.int64]
    function: npt.NDArray[np.int32]
    time: npt.NDArray[np.int64]
    thread: npt.NDArray[np.int64]
    thread_names: list[tuple[str, int]]  # a name, and the number of consecutive calls that have it
    line: npt.NDArray[np.int64] | Sequence[int | None] | None
    stage: Sequence[str | None] | None
    callers: Sequence[str | None] | None  # None, here and above: no call has any
    rank: int


@dataclass(slots=True)
class EndColumns:
    """Many calls that ended."""

    call: npt.NDArray[np.int64]
    time: npt.NDArray[np.int64]
    error: list[str | None] | None  # None: all of them returned


class Span(NamedTuple):
    """Consecutive changes of one call, which are taken to be spread evenly from `start` to `stop`."""

    changes: int
    call: int
    start: int
    stop: int


@dataclass(slots=True)
class ChangeColumns:
    """Many changes, as columns of equal length, and their spans, in the same order.

    `kind` is a records.Kind; if it is VALUE, `number` is the value's id.
    """

    site: npt.NDArray[np.int32]
    kind: npt.NDArray[np.uint8]
    number: npt.NDArray[np.float64]
    spans: list[Span]
    # more spans, after those, as columns: the fields of `Span`
    more_spans: tuple[npt.NDArray[np.int64], ...] | None = None

    def __len__(self) -> int:
        return len(self.site)


@dataclass(slots=True)
class Flush:
    """One batch. Everything a row refers to (a function, a site, a value) is in this batch or an earlier one.

    `text_ids` and `texts` are a faster way for many short texts: each becomes a value of type "str", kept in full.
    """

    time: int
    functions: list[Function] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    starts: list[CallStart] = field(default_factory=list)
    ends: list[CallEnd] = field(default_factory=list)
    changes: ChangeColumns | None = None
    values: list[tuple[int, Value]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    more_starts: list[StartColumns] = field(default_factory=list)
    more_ends: list[EndColumns] = field(default_factory=list)
    text_ids: npt.NDArray[np.int64] | None = None
    texts: list[str] = field(default_factory=list)

"""Logs of numbers, packed: from a list of Python objects to NumPy columns at C speed.

`marshal` writes a list of numbers in one pass, and each number's type with it: five bytes for the list, then for each
item a tag and, for most, a fixed number of bytes. That makes it the quickest exact way out of a list there is (12 ns
a number here; a NumPy array from a list takes 50, and needs the types looked at besides).

The items' places follow from their tags, one after the other. To read them without a loop, the tag is taken to be the
same each time a site comes again; all tags are then tested, so that a wrong guess is always noticed.
"""

from __future__ import annotations

import marshal
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clew.records import Kind

Bytes = npt.NDArray[np.uint8]
Sites = npt.NDArray[np.int32]

_VERSION: Final = 2  # the first with binary floats, and the last without references to earlier items
_HEAD: Final = 5  # "[" and the number of items
_FLOAT, _INT = ord("g"), ord("i")
_KIND_OF_TAG: Final = {_FLOAT: Kind.FLOAT, _INT: Kind.INT, ord("T"): Kind.BOOL, ord("F"): Kind.BOOL, ord("N"): Kind.NONE}
_UNKNOWN: Final = 255
_STEPS: Final = 256  # items read one by one after a wrong guess: usually the body of a loop


def _by_tag(default: int, entries: dict[int, Any]) -> npt.NDArray[Any]:
    table = np.full(256, default, np.uint8)
    for tag, entry in entries.items():
        table[tag] = entry
    return table


_KINDS: Final = _by_tag(_UNKNOWN, _KIND_OF_TAG)
_SIZES: Final = _by_tag(0, {_FLOAT: 9, _INT: 5, ord("T"): 1, ord("F"): 1, ord("N"): 1})  # 0: not a number
_GUESSES: Final = _by_tag(0, {_FLOAT: _FLOAT, _INT: _INT, ord("T"): ord("T"), ord("F"): ord("T"), ord("N"): ord("N")})


def pack(items: list[Any]) -> bytes | None:
    """The items as bytes; None if there is one that is neither a number nor any other scalar."""
    try:
        return marshal.dumps(items, _VERSION)
    except ValueError:
        return None


def unpack(packed: bytes) -> list[Any]:
    """The very items again, by type and value."""
    items: list[Any] = marshal.loads(packed)
    return items


def sites_of(packed: bytes) -> Sites:
    """Packed site numbers as a column. (They are below 2**31, so all have the same size.)"""
    return np.ascontiguousarray(_fixed(packed, "<i4")["number"])


def _fixed(packed: bytes, number: str) -> npt.NDArray[Any]:
    return np.frombuffer(packed, np.dtype([("tag", "u1"), ("number", number)]), offset=_HEAD)


def columns_of(packed: bytes, sites: Sites) -> tuple[Bytes, npt.NDArray[np.float64]] | None:
    """Kinds and numbers; None if something is no number, or a site had numbers of several types."""
    if len(packed) == _HEAD + 9 * len(sites):
        fixed = _fixed(packed, "<f8")
        if (fixed["tag"] == _FLOAT).all():
            return np.full(len(sites), Kind.FLOAT, np.uint8), np.ascontiguousarray(fixed["number"])
    return _mixed_columns(np.frombuffer(packed, np.uint8), sites - sites.min())


def _mixed_columns(data: Bytes, sites: Sites) -> tuple[Bytes, npt.NDArray[np.float64]] | None:
    guesses = np.full(int(sites.max()) + 1, _UNKNOWN, np.uint8)
    at = _learn(data, sites, guesses, 0, _HEAD)
    while at is not None:
        sizes = _SIZES[guesses][sites]
        ends = np.cumsum(sizes, dtype=np.int64)
        starts = ends - sizes + _HEAD
        tags = data[np.minimum(starts, len(data) - 1)]
        wrong = _GUESSES[tags] != guesses[sites]
        if not wrong.any():
            return _KINDS[tags], _gather(data, starts, tags)
        first = int(wrong.argmax())  # all before it is certain, and so is where it starts
        at = _learn(data, sites, guesses, first, int(starts[first]))
    return None


def _learn(data: Bytes, sites: Sites, guesses: Bytes, row: int, at: int) -> int | None:
    """Read some items one by one, to know the tags of their sites; None if that leads nowhere."""
    for site in sites[row : row + _STEPS].tolist():
        guess = _GUESSES[data[at]]
        if not guess or guesses[site] not in (_UNKNOWN, guess):
            return None
        guesses[site] = guess
        at += int(_SIZES[guess])
    return at


def _gather(data: Bytes, starts: npt.NDArray[np.int64], tags: Bytes) -> npt.NDArray[np.float64]:
    numbers = np.zeros(len(starts), np.float64)
    numbers[tags == ord("T")] = 1.0
    for tag, number in ((_FLOAT, "<f8"), (_INT, "<i4")):
        rows = np.flatnonzero(tags == tag)
        if len(rows):
            # every place of the buffer seen as the start of a number, though few of them are one
            windows = np.ndarray((len(data) - np.dtype(number).itemsize,), number, data, 1, (1,))
            numbers[rows] = windows[starts[rows]]
    return numbers

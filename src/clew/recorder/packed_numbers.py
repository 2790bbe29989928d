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

Packed = memoryview  # what marshal wrote, without the head: two pieces one after the other are one
Bytes = npt.NDArray[np.uint8]
Sites = npt.NDArray[np.int32]

_VERSION: Final = 2  # the first with binary floats, and the last without references to earlier items
_HEAD: Final = 5  # "[" and the number of items, before them
_FLOAT, _INT, _TRUE, _FALSE, _NONE = b"giTFN"
_UNKNOWN: Final = 255
_LONGEST_PERIOD: Final = 64
_GUESSES_AT_PERIODS: Final = 8
_STEPS: Final = 256  # items read one by one after a wrong guess: usually the body of a loop


def _by_tag(default: int, entries: dict[int, Any]) -> npt.NDArray[Any]:
    table = np.full(256, default, np.uint8)
    for tag, entry in entries.items():
        table[tag] = entry
    return table


_KINDS: Final = _by_tag(0, {_FLOAT: Kind.FLOAT, _INT: Kind.INT, _TRUE: Kind.BOOL, _FALSE: Kind.BOOL, _NONE: Kind.NONE})
_SIZES: Final = _by_tag(0, {_FLOAT: 9, _INT: 5, _TRUE: 1, _FALSE: 1, _NONE: 1})
# the tag that stands for all of the same size; 0: not a number, or one too large for the fixed size
_GUESSES: Final = _by_tag(0, {_FLOAT: _FLOAT, _INT: _INT, _TRUE: _TRUE, _FALSE: _TRUE, _NONE: _TRUE})


def pack(items: list[Any]) -> Packed | None:
    """The items as bytes; None if there is one that is neither a number nor any other scalar."""
    try:
        return memoryview(marshal.dumps(items, _VERSION))[_HEAD:]
    except ValueError:
        return None


def unpack(packed: Packed, count: int) -> list[Any]:
    """The very items again, by type and value."""
    items: list[Any] = marshal.loads(b"[" + count.to_bytes(4, "little") + packed)
    return items


class PackedSites:
    """Site numbers as bytes: one each while they are small, because that takes half the time, else marshal's."""

    __slots__ = ("data", "size")

    def __init__(self, data: bytes, size: int) -> None:
        self.data = data
        self.size = size  # bytes a site

    def column(self) -> Sites:
        if self.size == 1:
            return np.frombuffer(self.data, np.uint8).astype(np.int32)
        return _fixed(memoryview(self.data), "<i4")["number"].astype(np.int32)

    def period(self) -> int:
        """After how many sites they all come again in the same order, as in a loop; 0 if they do not, or late."""
        data, size, at = self.data, self.size, 0
        for _ in range(_GUESSES_AT_PERIODS):
            at = data.find(data[:size], at + size)
            if at < 0 or at > _LONGEST_PERIOD * size:
                return 0
            if not at % size and data.startswith(data[:at], at) and data[at:] == data[:-at]:
                return at // size
        return 0


def pack_sites(sites: list[int]) -> PackedSites:
    try:
        return PackedSites(bytes(sites), 1)
    except ValueError:  # they are below 2**31 in any case, so all have the same size
        return PackedSites(marshal.dumps(sites, _VERSION)[_HEAD:], 5)


def join(pieces: list[tuple[Packed, PackedSites]]) -> tuple[Packed, PackedSites]:
    """Pieces taken one after the other as one."""
    if len(pieces) == 1:
        return pieces[0]
    values, sites = zip(*pieces, strict=True)
    # a plan's sites may be small at first and large later on
    if len({piece.size for piece in sites}) > 1:
        sites = tuple(PackedSites(marshal.dumps(piece.column().tolist(), _VERSION)[_HEAD:], 5) for piece in sites)
    return memoryview(b"".join(values)), PackedSites(b"".join(piece.data for piece in sites), sites[0].size)


def _fixed(packed: Packed, number: str) -> npt.NDArray[Any]:
    return np.frombuffer(packed, np.dtype([("tag", "u1"), ("number", number)]))


def columns_of(packed: Packed, sites: Sites) -> tuple[Bytes, npt.NDArray[np.float64]] | None:
    """Kinds and numbers; None if something is no number, or a site had numbers of several types."""
    if len(packed) == 9 * len(sites):
        fixed = _fixed(packed, "<f8")
        if (fixed["tag"] == _FLOAT).all():
            return _ones(Kind.FLOAT, len(sites)), np.ascontiguousarray(fixed["number"])
    return _mixed_columns(np.frombuffer(packed, np.uint8), sites - sites.min())


def _mixed_columns(data: Bytes, sites: Sites) -> tuple[Bytes, npt.NDArray[np.float64]] | None:
    guesses = np.full(int(sites.max()) + 1, _UNKNOWN, np.uint8)
    at = _learn(data, sites, guesses, 0, 0)
    while at is not None:
        sizes = _SIZES[guesses][sites]
        ends = np.cumsum(sizes, dtype=np.int64)
        starts = ends - sizes
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
    numbers[tags == _TRUE] = 1.0
    for tag, number in ((_FLOAT, "<f8"), (_INT, "<i4")):
        rows = np.flatnonzero(tags == tag)
        if len(rows):
            # every place of the buffer seen as the start of a number, though few of them are one
            windows = np.ndarray((len(data) - np.dtype(number).itemsize,), number, data, 1, (1,))
            numbers[rows] = windows[starts[rows]]
    return numbers


def steady_columns(packed: Packed, count: int, period: int) -> tuple[Bytes, npt.NDArray[np.float64]] | None:
    """Kinds and numbers of floats and integers whose types come again with the period; None if they do not.

    In as few steps of NumPy as can be: each lets go of the interpreter's lock, and a busy program gives it back only
    after 5 ms. That, not the work, is what makes a background thread late.
    """
    tags = _tags(packed, period)
    if tags is None:
        return None
    sizes = [int(_SIZES[tag]) for tag in tags]
    starts, stride = [sum(sizes[:k]) for k in range(period)], sum(sizes)
    rounds, rest = divmod(count, period)
    if len(packed) != rounds * stride + sum(sizes[:rest]):
        return None
    table = np.frombuffer(packed, np.uint8, rounds * stride).reshape(rounds, stride)
    if not (table.take(starts, axis=1) == np.frombuffer(tags, np.uint8)).all():
        return None
    numbers = np.empty(count, np.float64)
    if tags == bytes([_FLOAT]) * period:
        fixed = _fixed(packed, "<f8")
        if fixed["tag"][count - rest :].tobytes() != tags[:rest]:
            return None
        numbers[:] = fixed["number"]
        return _ones(Kind.FLOAT, count), numbers
    for k, (tag, start) in enumerate(zip(tags, starts, strict=True)):
        dtype = np.dtype("<f8" if tag == _FLOAT else "<i4")
        numbers[k : rounds * period : period] = np.ndarray((rounds,), dtype, packed, start + 1, (stride,))
    try:
        tail = unpack(packed[rounds * stride :], rest)
    except (ValueError, EOFError, TypeError):
        return None
    if [type(item) for item in tail] != [float if tag == _FLOAT else int for tag in tags[:rest]]:
        return None
    numbers[rounds * period :] = tail
    return np.resize(_KINDS[np.frombuffer(tags, np.uint8)], count), numbers


def _tags(packed: Packed, period: int) -> bytes | None:
    """The tags of the first round; None if one is neither a float's nor an integer's."""
    tags, at = bytearray(), 0
    for _ in range(period):
        if at >= len(packed) or packed[at] not in (_FLOAT, _INT):
            return None
        tags.append(packed[at])
        at += int(_SIZES[packed[at]])
    return bytes(tags)


_constants: dict[int, Bytes] = {}


def _ones(kind: int, count: int) -> Bytes:
    """So many times the same kind; made once, and never written to."""
    known = _constants.get(kind)
    if known is None or len(known) < count:
        known = _constants[kind] = np.full(max(count, 1 << 16), kind, np.uint8)
    return known[:count]

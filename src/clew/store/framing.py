"""The frames of an Arrow IPC stream: sealing a message with its checksum, and finding the whole ones again.

Lengths and checksums are tested here, before pyarrow sees a message, so that damage never reaches its parser.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import xxhash

from clew.store.format import CHECKSUM_BYTES, CONTINUATION, END_OF_STREAM, HEADER_DIGITS, HEADER_MARK

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

_PREFIX: Final = 8  # continuation and length
_LONGEST_METADATA: Final = 1 << 20  # ours is below 4 KiB; more is not a message of ours
_BODY_LENGTH_SLOT: Final = 4 + 2 * 3  # Message.bodyLength is the fourth field of its table
_SEARCH_WINDOW: Final = 16 << 20
_SEARCH_SLACK: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Frame:
    """A whole message, its checksum tested."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes that are not a whole message: damage if a whole one follows, or an unfinished end."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class End:
    """The mark of a stream that was closed."""

    stop: int


def seal_batch(message: pa.Buffer, offset: int, unsealed: int) -> memoryview:
    """`message` with its checksum in the last 8 bytes; `offset` is where in the file it will stand."""
    view = memoryview(message).cast("B")
    if int.from_bytes(view[-CHECKSUM_BYTES:], "little") != unsealed:
        raise AssertionError("the checksum column is not at the end of the message: pyarrow lays batches out anew")
    view[-CHECKSUM_BYTES:] = _batch_checksum(view[:-CHECKSUM_BYTES], offset)
    return view


def _batch_checksum(content: memoryview, offset: int) -> bytes:
    return xxhash.xxh3_64_intdigest(content, seed=offset).to_bytes(CHECKSUM_BYTES, "little")


def header(schema: pa.Schema, metadata: dict[str, str]) -> bytes:
    """The schema message that begins a stream, with its own checksum inside."""
    blank = (HEADER_MARK + b"0" * HEADER_DIGITS).decode()
    message = bytes(schema.with_metadata({**metadata, "clew.checksum": blank}).serialize())
    digits = message.index(HEADER_MARK) + len(HEADER_MARK)
    return message[:digits] + _header_checksum(message) + message[digits + HEADER_DIGITS :]


def _header_checksum(blank: bytes) -> bytes:
    return b"%016x" % xxhash.xxh3_64_intdigest(blank)


def header_is_whole(message: bytes) -> bool:
    """True if not one byte of the header was changed."""
    digits = message.find(HEADER_MARK) + len(HEADER_MARK)
    if digits < len(HEADER_MARK):
        return False
    given = message[digits : digits + HEADER_DIGITS]
    blank = message[:digits] + b"0" * HEADER_DIGITS + message[digits + HEADER_DIGITS :]
    return given == _header_checksum(blank)


def header_length(data: memoryview) -> int | None:
    """How long the stream's first message says it is; None if that makes no sense."""
    if len(data) < _PREFIX or bytes(data[:4]) != CONTINUATION:
        return None
    length = int.from_bytes(data[4:8], "little")
    return _PREFIX + length if _sensible(length) else None


def _sensible(metadata_length: int) -> bool:
    return 0 < metadata_length <= _LONGEST_METADATA and metadata_length % 8 == 0


def frames(data: memoryview, base: int) -> Iterator[Frame | Gap | End]:
    """What stands in `data`, which begins at offset `base` of the file, one after the other without holes.

    After damage the next whole message is searched for, so that a flipped byte costs one batch and not the rest.
    """
    at = 0
    search = _Search(data, base)
    while at < len(data):
        stop = message_end(data, at, base)
        if stop is not None:
            yield Frame(base + at, base + stop)
            at = stop
            continue
        following = search.next_after(at)
        if bytes(data[at : at + _PREFIX]) == END_OF_STREAM and not search.is_message(following):
            yield End(base + at + _PREFIX)  # in the middle of things it would be damage that looks like an end
            at += _PREFIX
            following = len(data)
        if at < following:
            yield Gap(base + at, base + following)
        at = following


def message_end(data: memoryview, at: int, base: int) -> int | None:
    """Where the message at `at` ends, if it is whole and its checksum is right."""
    stop = _claimed_end(data, at)
    if stop is None or stop > len(data):
        return None
    content, given = data[at : stop - CHECKSUM_BYTES], bytes(data[stop - CHECKSUM_BYTES : stop])
    return stop if _batch_checksum(content, base + at) == given else None


def _claimed_end(data: memoryview, at: int) -> int | None:
    """Where the message at `at` says it ends; None if it says nothing sensible."""
    if len(data) - at < _PREFIX or bytes(data[at : at + 4]) != CONTINUATION:
        return None
    length = int.from_bytes(data[at + 4 : at + 8], "little")
    body_at = at + _PREFIX + length
    if not _sensible(length) or body_at > len(data):
        return None
    body = _body_length(data[at + _PREFIX : body_at])
    return None if body is None or body < CHECKSUM_BYTES else body_at + body


def _body_length(metadata: memoryview) -> int | None:
    """Message.bodyLength, read from the flatbuffer by hand; None if the way there leads out of it."""
    try:
        (table,) = struct.unpack_from("<I", metadata, 0)
        (back,) = struct.unpack_from("<i", metadata, table)
        vtable = table - back
        if vtable < 0:
            return None
        size, _, slot = struct.unpack_from("<HH", metadata, vtable) + struct.unpack_from(
            "<H", metadata, vtable + _BODY_LENGTH_SLOT
        )
        if size < _BODY_LENGTH_SLOT + 2 or slot == 0:
            return None
        (length,) = struct.unpack_from("<q", metadata, table + slot)
    except struct.error:
        return None
    return int(length) if 0 <= length < 1 << 62 else None


class _Search:
    """Looks for the next whole message after damage, with a bound on the work a hostile file can cause."""

    def __init__(self, data: memoryview, base: int) -> None:
        self._data = data
        self._base = base
        self._budget = 4 * len(data) + _SEARCH_SLACK  # bytes to hash before giving up

    def next_after(self, at: int) -> int:
        """The offset of the next whole message or end mark after `at`; the end of the data if there is none."""
        for candidate in self._candidates(at + 8 - (self._base + at) % 8):
            if candidate == len(self._data) - _PREFIX and bytes(self._data[candidate:]) == END_OF_STREAM:
                return candidate
            stop = _claimed_end(self._data, candidate)
            if stop is None or stop > len(self._data):
                continue
            self._budget -= stop - candidate
            if self._budget < 0:
                break
            if message_end(self._data, candidate, self._base) is not None:
                return candidate
        return len(self._data)

    def is_message(self, at: int) -> bool:
        return message_end(self._data, at, self._base) is not None

    def _candidates(self, first: int) -> Iterator[int]:
        """Places, a multiple of 8 in the file, with a continuation mark and a sensible length after it."""
        for start in range(first, len(self._data), _SEARCH_WINDOW):
            window = self._data[start : start + _SEARCH_WINDOW]
            words: Any = np.frombuffer(window[: len(window) // 8 * 8], dtype="<u4").reshape(-1, 2)
            length = words[:, 1]
            fits = (words[:, 0] == 0xFFFFFFFF) & (length <= _LONGEST_METADATA) & (length % 8 == 0)
            yield from (np.flatnonzero(fits) * 8 + start).tolist()

"""The frames of an Arrow IPC stream: seals messages with their checksum, and finds the complete ones.

Lengths and checksums are checked here, before pyarrow sees a message, so that damage never reaches its parser.
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
_LONGEST_METADATA: Final = 1 << 20  # clew's messages have less than 4 KiB
_BODY_LENGTH_SLOT: Final = 4 + 2 * 3  # Message.bodyLength is the fourth field of its table
_SEARCH_WINDOW: Final = 16 << 20
_SEARCH_SLACK: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Frame:
    """A complete message with a correct checksum."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes that are not a complete message: damage if a complete one follows, else an unfinished end."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class End:
    """The mark of a stream that was closed."""

    stop: int


def seal_batch(message: pa.Buffer, offset: int, unsealed: int) -> memoryview:
    """`message` with its checksum in the last 8 bytes; `offset` is its future position in the file."""
    view = memoryview(message).cast("B")
    if int.from_bytes(view[-CHECKSUM_BYTES:], "little") != unsealed:
        raise AssertionError("the checksum column is not at the end of the message: pyarrow's layout has changed")
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
    """True if no byte of the header was changed."""
    digits = message.find(HEADER_MARK) + len(HEADER_MARK)
    if digits < len(HEADER_MARK):
        return False
    checksum = message[digits : digits + HEADER_DIGITS]
    blank = message[:digits] + b"0" * HEADER_DIGITS + message[digits + HEADER_DIGITS :]
    return checksum == _header_checksum(blank)


def header_length(data: memoryview) -> int | None:
    """The length that the stream's first message claims; None if it is invalid."""
    if len(data) < _PREFIX or bytes(data[:4]) != CONTINUATION:
        return None
    length = int.from_bytes(data[4:8], "little")
    return _PREFIX + length if _is_valid_length(length) else None


def _is_valid_length(metadata_length: int) -> bool:
    return 0 < metadata_length <= _LONGEST_METADATA and metadata_length % 8 == 0


def frames(data: memoryview, base: int) -> Iterator[Frame | Gap | End]:
    """The contents of `data`, which begins at offset `base` of the file, in order and without holes.

    After damage the next complete message is searched for, so that a flipped byte costs one batch and not the rest.
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
            yield End(base + at + _PREFIX)  # before another message it would be damage that looks like an end
            at += _PREFIX
            following = len(data)
        if at < following:
            yield Gap(base + at, base + following)
        at = following


def message_end(data: memoryview, at: int, base: int) -> int | None:
    """Where the message at `at` ends; None if it is not complete or its checksum is wrong."""
    stop = _claimed_end(data, at)
    if stop is None or stop > len(data):
        return None
    content, checksum = data[at : stop - CHECKSUM_BYTES], bytes(data[stop - CHECKSUM_BYTES : stop])
    return stop if _batch_checksum(content, base + at) == checksum else None


def _claimed_end(data: memoryview, at: int) -> int | None:
    """The end that the message at `at` claims; None if it is invalid."""
    if len(data) - at < _PREFIX or bytes(data[at : at + 4]) != CONTINUATION:
        return None
    length = int.from_bytes(data[at + 4 : at + 8], "little")
    body_at = at + _PREFIX + length
    if not _is_valid_length(length) or body_at > len(data):
        return None
    body = _body_length(data[at + _PREFIX : body_at])
    return None if body is None or body < CHECKSUM_BYTES else body_at + body


def _body_length(metadata: memoryview) -> int | None:
    """Message.bodyLength, read from the flatbuffer by hand; None if an offset leads outside of it."""
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
    """Finds the next complete message after damage, with a limit on the work that a hostile file can cause."""

    def __init__(self, data: memoryview, base: int) -> None:
        self._data = data
        self._base = base
        self._budget = 4 * len(data) + _SEARCH_SLACK  # bytes to hash before giving up

    def next_after(self, at: int) -> int:
        """The offset of the next complete message or end mark after `at`; the end of the data if there is none."""
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
        """Multiples of 8 in the file where a continuation mark and a valid length stand."""
        for start in range(first, len(self._data), _SEARCH_WINDOW):
            window = self._data[start : start + _SEARCH_WINDOW]
            number_pairs: Any = np.frombuffer(window[: len(window) // 8 * 8], dtype="<u4").reshape(-1, 2)
            length = number_pairs[:, 1]
            fits = (number_pairs[:, 0] == 0xFFFFFFFF) & (length <= _LONGEST_METADATA) & (length % 8 == 0)
            yield from (np.flatnonzero(fits) * 8 + start).tolist()

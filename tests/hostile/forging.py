"""Runs as an attacker writes them: any row, any value body, and always the right checksums."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from clew.store.encode import UNSEALED
from clew.store.format import END_OF_STREAM, schema
from clew.store.framing import Frame, frames, header_length, seal_batch
from store.making import records

Row = dict[str, Any]  # one flush: by table its rows

TABLES = ("functions", "sites", "starts", "ends", "spans", "changes", "values", "notes", "origins")
NUMBERS = (-1, -2, 0, 1, 7, 2**31 - 1, -(2**31), 2**53, 2**62, 2**63 - 1, -(2**63), 10_000, 255)
TEXTS = (
    "",
    "step",
    "input",
    "output",
    "item",
    "value",
    "<log>",
    "é\x1b[31m</script>",
    "[[1,2,3]]",
    "{}",
    "x" * 3000,
    "/dev/zero",
)
ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**31, 10**30, 1.5, float("nan"), "", "x", "9" * 5000, "1e999999999", "=1+1", "\ud800"),
    *(
        [],
        [1],
        [[1]],
        [-1],
        [10**9, 0],
        [40_000, 40_000],
        [2**62, 4],
        ["x"],
        [None, None],
        {},
        {"a": 1},
        {"$": "ref", "to": 0},
    ),
    *({"$": "tuple", "items": []}, {"$": "float", "is": "nan"}, {"$": "int", "is": "0x" + "f" * 6000}, {"$": "nobody"}),
    *(
        {"$": "dict", "keys": [[1]], "values": [2]},
        {"$": "numpy.scalar", "is": ["<f8", "00" * 8]},
        {"$": "bytes", "is": "AA=="},
    ),
)


def read_flushes(run: Path) -> tuple[bytes, list[Row]]:
    """The header of a run's only stream, and its flushes as plain data."""
    data = records(run).read_bytes()
    length = header_length(memoryview(data)) or 0
    found = [item for item in frames(memoryview(data)[length:], length) if isinstance(item, Frame)]
    batches = [pa.ipc.read_record_batch(pa.py_buffer(data[f.start : f.stop]), schema()) for f in found]
    return data[:length], [batch.to_pylist()[0] for batch in batches]


def write_flushes(run: Path, head: bytes, flushes: list[Row]) -> None:
    """Write a stream of these flushes, each with the right checksum."""
    out = bytearray(head)
    for row in flushes:
        batch = pa.RecordBatch.from_pylist([{**row, "checksum": UNSEALED}], schema())
        out += seal_batch(batch.serialize(), len(out), UNSEALED)
    records(run).write_bytes(bytes(out) + END_OF_STREAM)


def copied(run: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(run, target)
    return target


# ---- rows


def columns() -> list[tuple[str, str, pa.DataType]]:
    """Every column of every table."""
    return [(name, field.name, field.type) for name in TABLES for field in schema().field(name).type.value_type]


def odd_cells(type: pa.DataType) -> list[Any]:
    """What might stand in a column of that type."""
    if pa.types.is_string(type) or pa.types.is_large_string(type):
        return [*TEXTS, None]
    if pa.types.is_floating(type):
        return [*map(float, NUMBERS), float("nan"), float("inf"), 1e308, None]
    if pa.types.is_list(type):
        return [[], None, [{}] if pa.types.is_struct(type.value_type) else [-1], [2**62, 2**62]]
    if pa.types.is_binary(type) or pa.types.is_large_binary(type):
        return [b"", b"x" * 16, None]
    bits = type.bit_width
    low, high = (0, 2**bits - 1) if pa.types.is_unsigned_integer(type) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return [*(number for number in NUMBERS if low <= number <= high), None]


def put_cell(flushes: list[Row], table: str, column: str, cell: Any, which: Callable[[int], bool]) -> None:
    """Put `cell` into a column, in the rows that are wanted."""
    number = 0
    for row in flushes:
        for entry in row[table]:
            if which(number):
                entry[column] = cell
            number += 1


# ---- bodies


def forged_bodies(body: str) -> Iterator[str]:
    """A value's body with each field, item and atom of it replaced by each odd thing, and left out."""
    tree = json.loads(body)
    for path in _places(tree):
        for odd in ODD:
            yield _dump(_replaced(tree, path, odd))
        yield _dump(_without(tree, path))


def _dump(tree: Any) -> str:
    return json.dumps(tree).replace('"\\ud800"', '"\\\\ud800"')


def _places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(tree, dict):
        for key, inside in tree.items():
            yield from _places(inside, (*path, key))
    elif isinstance(tree, list):
        for index, inside in enumerate(tree[:4]):
            yield from _places(inside, (*path, index))


def _replaced(tree: Any, path: tuple[Any, ...], odd: Any) -> Any:
    copy = json.loads(json.dumps(tree))
    at = copy
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = odd
    return copy


def _without(tree: Any, path: tuple[Any, ...]) -> Any:
    copy = json.loads(json.dumps(tree))
    at = copy
    for key in path[:-1]:
        at = at[key]
    del at[path[-1]]
    return copy


# ---- bytes


def mutated(data: bytes, random: random.Random, count: int) -> bytes:
    """`data` with some bytes changed at random: single ones, words of odd numbers, stretches moved about."""
    out = bytearray(data)
    for _ in range(count):
        at = random.randrange(max(1, len(out) - 8))
        way = random.randrange(4)
        if way == 0:
            out[at] ^= 1 << random.randrange(8)
        elif way == 1:
            out[at : at + 8] = random.choice((0, 1, 2**31, 2**62, 2**63, 2**64 - 1)).to_bytes(8, "little")
        elif way == 2:
            out[at : at + 4] = random.choice((0, 1, 2**31 - 1, 2**32 - 1, 16)).to_bytes(4, "little")
        else:
            other, size = random.randrange(len(out)), random.randrange(1, 40)
            piece = bytes(out[other : other + size])
            out[at : at + len(piece)] = piece
    return bytes(out[: len(data)])


def reseal_bytes(data: bytes) -> bytes:
    """A changed stream whose batches have the right checksums again, as far as they can still be found."""
    from clew.store.framing import _batch_checksum, _claimed_end

    out = bytearray(data)
    at = header_length(memoryview(data)) or 0
    while at < len(out):
        stop = _claimed_end(memoryview(out), at)
        if stop is None or stop > len(out):
            break
        out[stop - 8 : stop] = _batch_checksum(memoryview(out)[at : stop - 8], at)
        at = stop
    return bytes(out)


def mutate_stream(run: Path, seed: int) -> None:
    """Change bytes of one batch at random, and seal it again."""
    chance = random.Random(seed)
    path = records(run)
    data = path.read_bytes()
    length = header_length(memoryview(data)) or 0
    batches = [(item.start, item.stop) for item in frames(memoryview(data)[length:], length) if isinstance(item, Frame)]
    start, stop = chance.choice(batches)
    # Past the prefix and, mostly, the metadata too: what pyarrow does not take is refused at once.
    skip = 8 if chance.random() < 0.2 else 8 + int.from_bytes(data[start + 4 : start + 8], "little")
    piece = mutated(data[start + skip : stop - 8], chance, chance.choice((1, 1, 2, 5, 20)))
    path.write_bytes(reseal_bytes(data[: start + skip] + piece + data[stop - 8 :]))

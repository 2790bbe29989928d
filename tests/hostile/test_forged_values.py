"""Bodies of values that anybody may have made: decoding takes memory and time in proportion to their bytes."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from clew.records import NotKept, Value
from clew.values import decode
from clew.values.arrow_tables import read_table

MEGABYTE = 1 << 20
PART = memoryview(bytearray(8))
ONE = [{"$": "long-bytes", "is": 0}]


def nested(node: Any, depth: int) -> Any:
    for _ in range(depth):
        node = [node]
    return node


FORGED: dict[str, tuple[Any, list[Any]]] = {
    "a huge shape without bytes": ({"$": "numpy", "dtype": "<f8", "shape": [2**40], "part": 0}, [b""]),
    "a huge shape of no elements": ({"$": "numpy", "dtype": "<f8", "shape": [10**12, 0], "part": 0}, [b""]),
    "a huge text type": ({"$": "numpy", "dtype": "<U999999999", "shape": [1], "part": 0}, [PART]),
    "objects over bytes": ({"$": "numpy", "dtype": "|O", "shape": [1], "part": 0}, [PART]),
    "a field of objects over bytes": (
        {
            "$": "numpy",
            "shape": [1],
            "part": 0,
            "dtype": {
                "names": ["a"],
                "formats": ["|O"],
                "offsets": [0],
                "itemsize": 8,
                "aligned": False,
                "record": False,
            },
        },
        [PART],
    ),
    "a subarray of objects": ({"$": "numpy", "dtype": {"base": "|O", "shape": [1]}, "shape": [1], "part": 0}, [PART]),
    "a record of a huge size": (
        {
            "$": "numpy.object",
            "items": [1],
            "shape": [1],
            "dtype": {
                "names": ["a"],
                "formats": ["|O"],
                "offsets": [0],
                "itemsize": 2**31 - 1,
                "aligned": False,
                "record": False,
            },
        },
        [],
    ),
    "variable strings over bytes": (
        {"$": "numpy", "dtype": {"named": "StringDType()"}, "shape": [1], "part": 0},
        [PART],
    ),
    "a scalar of objects": ({"$": "numpy.scalar", "is": ["|O", "00" * 8]}, []),
    "an attribute of ml_dtypes": ({"$": "numpy", "dtype": {"named": "finfo"}, "shape": [1], "part": 0}, [PART]),
    "bytes of a number": ({"$": "numpy.bytes", "is": 10**10}, []),
    "a quantised tensor": ({"$": "torch", "dtype": "qint8", "shape": [8], "part": 0, "requires_grad": False}, [PART]),
    "a huge tensor": ({"$": "torch", "dtype": "float32", "shape": [2**40], "part": 0, "requires_grad": False}, [b""]),
    "a size of long integers": ({"$": "torch.size", "items": [{"$": "int", "is": "0x" + "f" * 40}]}, []),
    "an image without pixels": (
        {"$": "PIL", "mode": "RGB", "size": [40_000, 40_000], "palette": None, "items": [{}], "part": 0},
        [b""],
    ),
    "an image of no width": (
        {"$": "PIL", "mode": "RGB", "size": [0, 2**31 - 1], "palette": None, "items": [{}], "part": 0},
        [b""],
    ),
    "an image of another mode": (
        {"$": "PIL", "mode": "RGB;16B", "size": [1, 1], "palette": None, "items": [{}], "part": 0},
        [PART],
    ),
    "a fraction by its exponent": ({"$": "fraction", "is": ["1e999999999", 1]}, []),
    "a fraction of floats": ({"$": "fraction", "is": [1e300, 1]}, []),
    "a fraction of nothing": ({"$": "fraction", "is": [1, 0]}, []),
    "a range of texts": ({"$": "range", "is": ["0", "9", "1"]}, []),
    "a decimal by number": ({"$": "decimal", "is": 5}, []),
    "a zone by a path": ({"$": "zone", "is": {"key": "../../../etc/passwd"}}, []),
    "an array of another type": ({"$": "array", "code": "Z", "part": 0}, [PART]),
    "characters that are none": ({"$": "array", "code": "u", "part": 0}, [b"\xff" * 8]),
    "bytes of a negative part": ({"$": "long-bytes", "is": -1}, [PART]),
    "bytes that are taken twice": (ONE * 1000, [bytes(MEGABYTE)]),
    "buffers that share their bytes": ([{"$": "bytearray", "part": 0}] * 1000, [bytes(MEGABYTE)]),
    "images that share their pixels": (
        [{"$": "PIL", "mode": "L", "size": [1024, 1024], "palette": None, "items": [{}], "part": 0}] * 1000,
        [bytes(MEGABYTE)],
    ),
    "a reference to what is not there": ([{"$": "ref", "to": 10**9}], []),
    "a list deeper than any": (nested(1, 900), []),
    "a key that holds itself often": (
        {
            "$": "set",
            "items": [{"$": "tuple", "items": [{"$": "tuple", "items": [1] * 1000}, *[{"$": "ref", "to": 2}] * 1000]}],
        },
        [],
    ),
    "a table that is none": ({"$": "pandas", "kind": "frame", "names": {}, "part": 0}, [PART]),
    "a mask of another shape": (
        {"$": "numpy.masked", "items": [{"$": "numpy", "dtype": "|u1", "shape": [8], "part": 0}, [True], None]},
        [PART],
    ),
}


def decoded(tree: Any, parts: list[Any]) -> Any:
    return decode(Value("forged", json.dumps(tree), [memoryview(bytearray(part)) for part in parts]))


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_value_is_damaged_and_takes_little(name: str) -> None:
    tree, parts = FORGED[name]
    body = json.dumps(tree)
    views = [memoryview(bytearray(part)) for part in parts]
    decode(Value("list", "[1]"))  # what the decoders load is not this value's
    decode(Value("forged", body, views))
    tracemalloc.start()
    found = decode(Value("forged", body, views))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert type(found) is NotKept, found
    assert peak < 20 * MEGABYTE


def test_an_image_file_s_pixels_are_exactly_its_bytes() -> None:
    tree = {"$": "PIL", "mode": "1", "size": [9, 2], "palette": None, "items": [{}], "part": 0}
    assert type(decoded(tree, [bytes(3)])) is NotKept
    assert type(decoded(tree, [bytes(4)])) is not NotKept


def test_shared_references_are_read_once() -> None:
    tree: Any = [1]
    for _ in range(30):
        tree = [tree]
    node = tree
    for number in range(30):
        node.append({"$": "ref", "to": number + 1})
        node = node[0]
    found = decoded(tree, [])
    assert found[0] is found[1]


def test_plain_dtypes_still_come_back() -> None:
    for dtype in ("<f8", "<U3", "|S4", "<M8[ns]", "<c16", "|b1", "|V8"):
        array = np.zeros(2, dtype)
        tree = {"$": "numpy", "dtype": dtype, "shape": [2], "part": 0}
        back = decoded(tree, [array.tobytes()])
        assert (back.dtype, back.shape) == (array.dtype, array.shape)


def table_bytes(column: pa.Array, metadata: dict[bytes, bytes] | None = None, **options: Any) -> bytes:
    table = pa.table({"0": column}).replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def words(**column: Any) -> dict[bytes, bytes]:
    """What pandas would read beside the columns."""
    told = {"name": "0", "field_name": "0", "pandas_type": "x", "numpy_type": "int64", "metadata": None, **column}
    return {b"pandas": json.dumps({"columns": [told], "index_columns": [], "column_indexes": []}).encode()}


NUMBERS = pa.array(range(8), pa.int64())
TABLES: dict[str, bytes] = {
    "run-end encoded": table_bytes(pa.RunEndEncodedArray.from_arrays(pa.array([10**9], pa.int32()), pa.array([1]))),
    "a union": table_bytes(pa.UnionArray.from_sparse(pa.array([0] * 8, pa.int8()), [NUMBERS])),
    "views of texts": table_bytes(pa.array(["x" * 20] * 8).cast(pa.string_view())),
    "categories in a list": table_bytes(pa.ListArray.from_arrays(pa.array([0, 8]), NUMBERS.dictionary_encode())),
    "compressed": table_bytes(pa.array([bytes(10**6)] * 8), compression="zstd"),
    "a zone that is a file": table_bytes(NUMBERS.cast(pa.timestamp("ns", tz="dateutil//etc/passwd"))),
    "a type that is a file": table_bytes(NUMBERS, words(numpy_type="datetime64[ns, dateutil//etc/passwd]")),
    "nulls without end": table_bytes(pa.nulls(10**8)),
    "a long index": table_bytes(
        NUMBERS,
        {b"pandas": b'{"columns":[],"column_indexes":[],"index_columns":[{"start":0,"stop":1000000000,"step":1}]}'},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_a_forged_table_is_damaged(name: str) -> None:
    found = decoded({"$": "pandas", "kind": "frame", "names": {"freq": None}, "part": 0}, [TABLES[name]])
    assert type(found) is NotKept
    with pytest.raises((ValueError, pa.ArrowException)):
        read_table(TABLES[name])


def test_a_zone_is_no_way_to_a_file() -> None:
    for zone in ("dateutil//etc/passwd", "dateutil/../../etc/passwd"):
        found = decoded({"$": "pandas.scalar", "kind": "Timestamp", "value": [0, "ns", zone]}, [])
        assert type(found) is NotKept or type(found) is int  # without pandas, the count

"""The format's own page: layout, schema, version, history, and the rule for older versions.

    <run>/
      run.json                            metadata of the run; "format": FORMAT; always replaced as a whole
      shards/
        <host>-r<rank>-<pid>-<n>/         one for each process; no other process writes here
          records.arrow                   an Arrow IPC stream, append only
          blobs.bin                       the bytes of arrays, append only; created with the first blob
          state.json                      512 bytes, overwritten in place: why the stream has no end, if known

    records.arrow
      ┌──────────────────────────────────────────────────────────────────────────────────────────────┐
      │ FF FF FF FF │ length u32 │ schema (flatbuffer, padded to 8)                                  │ header
      │             │            │   metadata "clew.format" = "2", "clew.checksum" = "xxh3:" + 16 hex │
      ├──────────────────────────────────────────────────────────────────────────────────────────────┤
      │ FF FF FF FF │ length u32 │ batch (flatbuffer, padded to 8) │ body: columns ... checksum u64  │ one flush
      ├──────────────────────────────────────────────────────────────────────────────────────────────┤
      │ ...                                                                                          │
      ├──────────────────────────────────────────────────────────────────────────────────────────────┤
      │ FF FF FF FF │ 00 00 00 00                                                                    │ end, if closed
      └──────────────────────────────────────────────────────────────────────────────────────────────┘

    blobs.bin
      │ bytes │ zeros up to the next multiple of 64 │ bytes │ zeros │ ...

* A batch has one row. Its columns are lists of structs, so that one flush carries every kind of record and any Arrow
  tool can unnest them.
* `checksum` is the last column and therefore the last 8 bytes of a batch's message: the xxh3-64 of all bytes of the
  message before them, seeded with the message's offset in the file. So readers notice every changed byte.
* The header's checksum is the xxh3-64 of the header with its own 16 digits as "0".
* Blobs are written before the batch that points to them; `blobs` is the length of blobs.bin at the time of the batch.
* Functions, sites and values have ids that count within one shard. A value's id may occur again: the later row counts.
  -1 means "none" where an id is expected.
* `spans` assigns changes to calls and times: each span covers the next so many rows of `changes`. Row i of n
  (from 1) of a span has the time start + (stop - start) // n * i. It is only known to have happened between
  start and stop, because the program does not read the clock for each change. A change of kind 0 has the id of its
  value in `number`.
* `origins` tells, for a call without a parent in its own shard, which call of another shard started its process. If
  the call has no start in its own shard, it is that other call, which was open when its process forked.
* All numbers are little-endian; times are nanoseconds since 1970, UTC.

History
    1   the first. `changes` had fields `call`, `time` and `value` in each row; no `spans`.
    2   spans: 13 bytes for each number instead of 37. Added since: `origins`; `norm` and `zeros` of `values`;
        `code_hash`, `file_hash` and `source` of `functions`; `mode` of `sites`.

Rule for older versions: a reader reads every version from 1 to its own `FORMAT` and refuses newer ones by name. A
version changes when an old reader would misread a new file. Columns and struct fields are therefore only ever added,
are found by name, and never change their meaning; a field that an older file lacks reads as null. Adding one does not
change the version; removing one does.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT: Final = 2

META_NAME: Final = "run.json"
SHARDS_NAME: Final = "shards"
RECORDS_NAME: Final = "records.arrow"
BLOBS_NAME: Final = "blobs.bin"
STATE_NAME: Final = "state.json"

CONTINUATION: Final = b"\xff\xff\xff\xff"
END_OF_STREAM: Final = CONTINUATION + bytes(4)
HEADER_MARK: Final = b"xxh3:"
HEADER_DIGITS: Final = 16
CHECKSUM_BYTES: Final = 8

BLOB_ALIGNMENT: Final = 64
INLINE_LIMIT: Final = 4096  # a part up to this size is in the batch itself: a seek for so little is not worth it

NO_ID: Final = -1  # "none" where an id is expected
NO_STEP: Final = -(2**63)  # a null step in numpy columns


@cache
def schema() -> pa.Schema:
    """The Arrow schema of a flush."""
    import pyarrow as pa

    def required(name: str, type: pa.DataType) -> pa.Field:
        return pa.field(name, type, nullable=False)

    def rows(name: str, fields: list[pa.Field]) -> pa.Field:
        return required(name, pa.list_(required("item", pa.struct(fields))))

    i8, i32, i64, f64, text, raw = pa.uint8(), pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.binary()
    part = [
        required("offset", i64),
        required("length", i64),
        pa.field("inline", pa.large_binary()),
        pa.field("digest", raw),
    ]
    statistics = [pa.field(name, f64) for name in ("min", "max", "mean", "std")]
    return pa.schema(
        [
            required("time", i64),
            rows(
                "functions",
                [
                    required("id", i32),
                    required("name", text),
                    required("module", text),
                    required("file", text),
                    required("line", i32),
                    pa.field("code_hash", text),
                    pa.field("file_hash", text),
                    pa.field("source", text),
                ],
            ),
            rows(
                "sites",
                [
                    required("id", i32),
                    required("function", i32),
                    required("name", text),
                    required("line", i32),
                    required("role", text),
                    pa.field("mode", text),
                ],
            ),
            rows(
                "starts",
                [
                    required("call", i64),
                    required("parent", i64),
                    required("function", i32),
                    required("time", i64),
                    required("thread", i64),
                    required("thread_name", text),
                    required("args", i64),
                    pa.field("step", i64),
                    required("rank", i32),
                    pa.field("stage", text),
                    pa.field("line", i64),
                    pa.field("callers", text),
                ],
            ),
            rows(
                "ends",
                [required("call", i64), required("time", i64), pa.field("error", text), required("result", i64)],
            ),
            rows(
                "spans",
                [required("changes", i64), required("call", i64), required("start", i64), required("stop", i64)],
            ),
            rows("changes", [required("site", i32), required("kind", i8), required("number", f64)]),
            rows(
                "values",
                [
                    required("id", i64),
                    required("type", text),
                    pa.field("body", pa.large_string()),
                    required("kept", i8),
                    required("why", text),
                    required("digest", raw),
                    pa.field("shape", pa.list_(required("item", i64))),
                    pa.field("dtype", text),
                    pa.field("device", text),
                    pa.field("length", i64),
                    pa.field("size", i64),
                    *statistics,
                    pa.field("nan", i64),
                    pa.field("inf", i64),
                    pa.field("norm", f64),
                    pa.field("zeros", f64),
                    required("parts", pa.list_(required("item", pa.struct(part)))),
                ],
            ),
            rows(
                "notes",
                [required("kind", text), required("subject", text), required("text", text), required("count", i64)],
            ),
            rows("origins", [required("call", i64), required("shard", text), required("parent", i64)]),
            required("blobs", i64),
            required("checksum", pa.uint64()),
        ]
    )

"""Exports to JSON: everything, readable. It is written piece by piece, so that long runs do not need more memory.

{"run": {...}, "names": {"loss": [{"step", "time", "line", "function", "rank", "value"}, ...]},
 "calls": [{...}], "ledger": [{...}]}
"""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any

from clew.export.plain_data import to_plain
from clew.export.whole_files import Block, count_changes, names_to_export, read_blocks, whole_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from clew.export import Progress
    from clew.reading.call import Call
    from clew.reading.run import Run


def write(run: Run, target: Path, *, names: list[str] | None, progress: Progress) -> Path:
    """Write one object; the calls and the ledger are in it only if the whole run is exported."""
    total, count = count_changes(run, names), 0
    with whole_file(target) as draft, draft.open("w", encoding="utf-8") as file:
        file.write('{"run": ' + to_json({**run.meta, "status": run.status}) + ',\n"names": {')
        for place, name in enumerate(names_to_export(run, names)):
            file.write((",\n" if place else "\n") + to_json(name) + ": [")
            for number, block in enumerate(read_blocks(run, name)):
                file.write(",\n" if number else "\n")
                file.write(",\n".join(map(_encode, changes(run, block))))
                count += len(block.rows)
                progress(count, total)
            file.write("]")
        file.write("}")
        if names is None:
            _write_list(file, "calls", map(call_dict, run.calls()))
            _write_list(
                file,
                "ledger",
                ({"kind": n.kind, "subject": n.subject, "text": n.text, "count": n.count} for n in run.ledger),
            )
        file.write("}\n")
    return target


def to_json(item: Any) -> str:
    """Strict JSON in ASCII, since a recorded text may hold anything."""
    return _encode(to_plain(item))


_encode = json.JSONEncoder(allow_nan=False).encode


def changes(run: Run, block: Block) -> Iterable[dict[str, Any]]:
    """The changes of a block as dictionaries of plain data."""
    values = map(to_plain, run.tables.table.values(block.rows))
    steps = map(to_plain, block.steps)
    columns = zip(steps, block.times.tolist(), block.lines, block.functions, block.ranks, values, strict=True)
    for step, time, line, function, rank, value in columns:
        yield {"step": step, "time": time, "line": line, "function": function, "rank": rank, "value": value}


def call_dict(call: Call) -> dict[str, Any]:
    """A call as a dictionary."""
    parent = call.parent
    return {
        "id": call.id,
        "process": call.shard,
        "parent": None if parent is None else parent.id,
        "parent_process": None if parent is None else parent.shard,
        "function": call.function,
        "module": call.module,
        "file": call.file,
        "line": call.line,
        "start": call.start,
        "duration": call.duration,
        "thread": call.thread,
        "rank": call.rank,
        "step": call.step,
        "stage": call.stage,
        "args": call.args,
        "result": call.result,
        "error": call.error,
    }


def _write_list(file: IO[str], key: str, items: Iterable[Any]) -> None:
    file.write(f",\n{to_json(key)}: [")
    for place, item in enumerate(items):
        file.write((",\n" if place else "\n") + to_json(item))
    file.write("]")

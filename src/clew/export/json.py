"""JSON: everything, readable. Written piece by piece, so that a long run needs no memory.

{"run": {...}, "names": {"loss": [{"step", "time", "line", "function", "rank", "value"}, ...]},
 "calls": [{...}], "ledger": [{...}]}
"""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any

from clew.export.files import Block, blocks, chosen, total, whole_file
from clew.export.plain import plain

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from clew.export import Progress
    from clew.history.call import Call
    from clew.history.run import Run


def write(run: Run, target: Path, *, names: list[str] | None, progress: Progress) -> Path:
    """One object; the calls and the ledger only when the whole run is wanted."""
    count, done = total(run, names), 0
    with whole_file(target) as draft, draft.open("w", encoding="utf-8") as file:
        file.write('{"run": ' + text({**run.meta, "status": run.status}) + ',\n"names": {')
        for place, name in enumerate(chosen(run, names)):
            file.write((",\n" if place else "\n") + text(name) + ": [")
            for number, block in enumerate(blocks(run, name)):
                file.write(",\n" if number else "\n")
                file.write(",\n".join(map(_encode, changes(run, block))))
                done += len(block.rows)
                progress(done, count)
            file.write("]")
        file.write("}")
        if names is None:
            _list(file, "calls", map(call_dict, run.calls()))
            _list(
                file,
                "ledger",
                ({"kind": n.kind, "subject": n.subject, "text": n.text, "count": n.count} for n in run.ledger),
            )
        file.write("}\n")
    return target


def text(item: Any) -> str:
    """One piece of JSON, strict and in ASCII: a recorded text may hold anything."""
    return _encode(plain(item))


_encode = json.JSONEncoder(allow_nan=False).encode


def changes(run: Run, block: Block) -> Iterable[dict[str, Any]]:
    """The changes of a block as dictionaries of plain data."""
    values = map(plain, run.tables.table.values(block.rows))
    steps = map(plain, block.steps)
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


def _list(file: IO[str], key: str, items: Iterable[Any]) -> None:
    file.write(f",\n{text(key)}: [")
    for place, item in enumerate(items):
        file.write((",\n" if place else "\n") + text(item))
    file.write("]")

"""`clew run-graph`: a saved graph over the rows of a file, into another file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.commands.console import print_json
from clew.errors import GraphError

if TYPE_CHECKING:
    import argparse

    from clew.probes.graph import Graph
    from clew.probes.graph.mapping import Mapped

_SHOWN = 5  # failures that are told of one by one


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser("run-graph", help="run a saved graph over the rows of a file")
    parser.description = (
        "Runs a bundle for each row of a Parquet or JSON Lines file and writes the results. The same command goes on "
        "with a job that was stopped, and tries failed rows again. The status is 1 if rows failed. A bundle is a "
        "program, and this command runs it; `clew inspect` looks at it without."
    )
    parser.add_argument("bundle", metavar="BUNDLE", help="what graph.save wrote: a folder or a zip")
    parser.add_argument("--input", required=True, metavar="FILE", help="in.parquet or in.jsonl; columns are inputs")
    parser.add_argument("--output", required=True, metavar="FILE", help="out.parquet or out.arrow")
    parser.add_argument("--trusted", metavar="NAMES", help="run it only if these modules, or its SHA-256, cover it")
    parser.add_argument("--engine", choices=["local", "dask"], default="local", help="where (default: local)")
    parser.add_argument("--address", metavar="URL", help="of the Dask scheduler, tcp://host:8786")
    parser.add_argument("--processes", action="store_true", help="processes that each load the bundle, not threads")
    parser.add_argument("--workers", type=int, metavar="N", help="how many of them (default: one a processor)")
    parser.add_argument("--batch", type=int, metavar="N", help="rows in one call of the graph, as lists")
    parser.add_argument("--retries", type=int, default=0, metavar="N", help="times a row that fails is tried again")
    parser.add_argument("--json", action="store_true", help="say what was done for machines")


def main(args: argparse.Namespace) -> int:
    from clew.probes.graph.bundle import load

    if args.address and args.engine != "dask":
        raise GraphError("bad-option", "--address is of a Dask scheduler.", "Say --engine dask, too.")
    source = Path(args.input)
    if source.suffix not in (".parquet", ".jsonl", ".ndjson") or not source.is_file():
        what = f"{source} is no Parquet or JSON Lines file that can be read."
        raise GraphError("graph-items", what, "Give an existing .parquet or .jsonl file.")
    try:
        # As with `python FILE`, whoever says this means that it shall run; --trusted holds it to what they know.
        graph = load(args.bundle, trusted=True if args.trusted is None else args.trusted.split(","))
    except GraphError as error:
        if error.slug != "bundle-trust":
            raise
        ways = f"Look with `clew inspect {args.bundle}`, then give --trusted more names, or leave it out."
        raise GraphError("bundle-trust", error.what, ways) from None
    done = graph.map(
        _rows(source, graph),
        output=args.output,
        engine=args.engine,
        address=args.address,
        processes=args.processes,
        workers=args.workers,
        batch=args.batch,
        retries=args.retries,
    )
    _tell(done, args.json)
    return 1 if done.failures else 0


def _rows(source: Path, graph: Graph) -> Any:
    if source.suffix != ".parquet":
        return _lines(source, graph)
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(source)
    except pa.ArrowException as error:
        raise GraphError("graph-items", f"{source} is no Parquet file ({error}).", "Write it anew.") from error


def _lines(source: Path, graph: Graph) -> Iterator[Any]:
    """The items of a JSON Lines file. As in a table, what is no input is left out."""
    names = graph.input_names
    with source.open(encoding="utf-8-sig") as file:  # what other systems write may begin with a mark
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                item = json.loads(line)
            except ValueError as error:
                raise GraphError("graph-items", f"{source}, line {number}: {error}.", "Mend the line.") from error
            known = {name: item[name] for name in names if name in item} if isinstance(item, dict) else {}
            yield known or item


def _tell(done: Mapped, as_json: bool) -> None:
    failures = [{"index": one.index, "error": one.error} for one in done.failures]
    if as_json:
        print_json({"output": str(done.output), "done": done.done, "before": done.kept, "failures": failures})
        return
    before = f", {done.kept:,} before" if done.kept else ""
    print(f"{done.output}: {done.done - len(failures):,} rows done{before}, {len(failures):,} failed")
    for one in failures[:_SHOWN]:
        print(f"clew: row {one['index']}: {one['error']}", file=sys.stderr)
    if len(failures) > _SHOWN:
        more = len(failures) - _SHOWN
        print(f"clew: and {more:,} more; the column `error` of the output has all of them", file=sys.stderr)

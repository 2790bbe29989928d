"""`clew run-graph`: a saved graph over the rows of files, into another file."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import TYPE_CHECKING, Any

from clew.commands.console import print_json
from clew.errors import GraphError

if TYPE_CHECKING:
    import argparse

    from clew.graph import Graph
    from clew.graph.mapping.results import Mapped

_SHOWN = 5  # failures that are told of one by one

EXAMPLES = [
    "clew run-graph bundle --input rows.csv --output out.parquet --trusted app",
    'clew run-graph bundle -i "rows/*.jsonl" -o out.arrow --keep id --batch 64 --processes',
]


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser("run-graph", help="run a saved graph over the rows of files")
    parser.description = (
        "Runs a bundle for each row of CSV, JSON Lines, Parquet or Arrow files and writes the results. Columns give "
        "the inputs by their names; if the one input was recorded with a dictionary, it takes the whole row; any other "
        "row has failed. The same command goes on with a job that was stopped, and tries failed rows again. The status "
        "is 1 if rows failed. A bundle is a program, and this command runs it; `clew inspect` looks at it without."
    )
    parser.add_argument("bundle", metavar="BUNDLE", help="what graph.save wrote: a folder or a zip")
    parser.add_argument(
        "-i", "--input", required=True, nargs="+", metavar="PATH", help="files of rows, folders of them, or patterns"
    )
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="out.parquet or out.arrow")
    parser.add_argument(
        "--keep", action="append", default=[], metavar="COLUMNS", help="carry columns of the input through: id,name"
    )
    parser.add_argument("--device", metavar="NAME", help="where its models and tensors are put: cpu, cuda:0")
    parser.add_argument("--trusted", metavar="NAMES", help="run it only if these modules, or its SHA-256, cover it")
    parser.add_argument("--engine", choices=["local", "dask"], default="local", help="where (default: local)")
    parser.add_argument("--address", metavar="URL", help="of the Dask scheduler, tcp://host:8786")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--processes", action="store_true", default=None, help="processes that each load the bundle")
    kinds.add_argument(
        "--threads", action="store_false", dest="processes", help="threads (default: what is fastest, by measuring)"
    )
    parser.add_argument("--workers", type=int, metavar="N", help="how many of them (default: one a processor)")
    parser.add_argument("--batch", type=int, metavar="N", help="rows in one call of the graph")
    parser.add_argument("--retries", type=int, default=0, metavar="N", help="times a row that fails is tried again")
    parser.add_argument("--json", action="store_true", help="say what was done for machines")


def main(args: argparse.Namespace) -> int:
    from clew.graph.mapping.row_files import RowFiles

    if args.address and args.engine != "dask":
        raise GraphError("bad-option", "--address is of a Dask scheduler.", "Say --engine dask, too.")
    files = RowFiles(args.input)
    graph = _loaded(args)
    began = perf_counter()
    done = graph.map(
        files,
        output=args.output,
        engine=args.engine,
        address=args.address,
        processes=args.processes,
        workers=args.workers,
        batch=args.batch,
        retries=args.retries,
        keep=[name for given in args.keep for name in given.split(",")],
    )
    _tell(done, perf_counter() - began, args.json)
    return 0 if done.ok else 1


def _loaded(args: argparse.Namespace) -> Graph:
    from clew.graph.bundle import load

    try:
        # As with `python FILE`, whoever says this means that it shall run; --trusted holds it to what they know.
        trusted = True if args.trusted is None else args.trusted.split(",")
        return load(args.bundle, trusted=trusted, device=args.device)
    except GraphError as error:
        if error.slug != "bundle-trust":
            raise
        ways = f"Look with `clew inspect {args.bundle}`, then give --trusted more names, or leave it out."
        raise GraphError("bundle-trust", error.what, ways) from None


def _tell(done: Mapped, seconds: float, as_json: bool) -> None:
    failures = [{"index": one.index, "error": one.error} for one in done.failures]
    if as_json:
        print_json({"output": str(done.output), "done": done.done, "before": done.kept, "failures": failures})
        return
    before = f", {done.kept:,} before" if done.kept else ""
    print(f"{done.output}: {done.done - len(failures):,} rows done{before}, {len(failures):,} failed")
    if done.done:
        print(f"clew: {done.done / max(seconds, 1e-9):,.0f} rows a second, {done.chosen}", file=sys.stderr)
    for one in failures[:_SHOWN]:
        print(f"clew: row {one['index']}: {one['error']}", file=sys.stderr)
    if len(failures) > _SHOWN:
        more = len(failures) - _SHOWN
        print(f"clew: and {more:,} more; the column `error` of the output has all of them", file=sys.stderr)

"""`clew report`: one HTML file of a run, which opens without clew."""

from __future__ import annotations

import argparse
from typing import Any

from clew.commands.console import print_json

PARTS = "series, pipeline, tree, source, graph, tensors, calls or points"

EXAMPLES = [
    "clew report latest",
    'clew report 120000-spirals -o spirals.html --names "loss, acc" --max-size 5MB',
]


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser("report", help="one HTML file of a run, to send away")
    parser.description = "Writes a run as one HTML file that opens from disk, without clew and without a network."
    parser.add_argument("run", metavar="RUN", help="a run's folder, its name, or `latest`")
    parser.add_argument("-o", "--output", metavar="FILE", default="report.html", help="where to (report.html)")
    parser.add_argument("--names", metavar="NAMES", help="only these series: names or patterns, with commas between")
    parser.add_argument("--max-size", metavar="SIZE", default="20MB", help="the size of the file, at most (20MB)")
    parser.add_argument("--limit", dest="max_size", default="20MB", help=argparse.SUPPRESS)  # its name before
    parser.add_argument("--without", metavar="PART", action="append", default=[], help=f"leave out: {PARTS}")
    parser.add_argument("--json", action="store_true", help="say what was written for machines")


def main(args: argparse.Namespace) -> int:
    from clew.page.report import make_report
    from clew.reading import open_run

    without = [part.strip() for given in args.without for part in given.split(",") if part.strip()]
    names = [name.strip() for name in args.names.split(",") if name.strip()] if args.names else None
    made = make_report(open_run(args.run), args.output, names=names, without=without, limit=args.max_size)
    if args.json:
        print_json({"path": str(made.path), "bytes": made.size, "left_out": made.left_out})
        return 0
    print(f"{made.path} ({made.size:,} bytes)")
    for text in made.left_out:
        print(f"left out: {text}")
    return 0

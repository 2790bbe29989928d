"""`clew runs`: the runs there are."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.commands.console import console, print_json

if TYPE_CHECKING:
    from clew.reading.run import Run

EXAMPLES = [
    "clew runs --last 5",
    "clew runs --quiet | xargs -n 1 clew show",
    "clew runs other/folder --json",
]


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser("runs", help="list the runs", description="The runs, oldest first.")
    parser.add_argument("folder", nargs="?", help="where to look (CLEW_DIR, or ./clew_runs)")
    parser.add_argument("-n", "--last", type=int, metavar="N", help="only the last N")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="for machines")
    how.add_argument("-q", "--quiet", action="store_true", help="only the names of their folders, one a line")
    how.add_argument("--names", dest="quiet", action="store_true", help=argparse.SUPPRESS)  # its name before


def main(args: argparse.Namespace) -> int:
    runs, unreadable = readable_runs(args.folder, args.last)
    if args.json:
        print_json([_facts(run) for run in runs])
    elif args.quiet:
        for run in runs:
            print(run.path.name)
    else:
        _show(runs, args.folder)
    for problem in unreadable:
        _warn(problem)
    return 0


def readable_runs(folder: str | None, last: int | None = None) -> tuple[list[Run], list[str]]:
    """The runs that open, and why others do not: one bad folder must not hide the rest."""
    from clew.errors import ClewError, NotARunError, OptionError
    from clew.reading.run import Run
    from clew.reading.run_lookup import run_folders

    if last is not None and last < 1:
        raise OptionError("last", f"--last {last} asks for nothing.", "Give a number of runs, 1 or more.")
    if folder is not None and not Path(folder).is_dir():
        raise NotARunError("no-runs", f"There is no folder {folder}.", "Give the folder that holds the runs.")
    folders = run_folders(folder)
    runs, unreadable = [], []
    for path in folders[-last:] if last else folders:
        try:
            runs.append(Run(path))
        except ClewError as error:
            unreadable.append(str(error))
    return runs, unreadable


def _facts(run: Run) -> dict[str, Any]:
    meta = run.meta
    told = {key: meta.get(key) for key in ("id", "started", "ended", "argv", "git", "host", "tags", "error")}
    return {"path": str(run.path), "name": run.name, "status": run.status, "duration": run.duration, **told}


def _show(runs: list[Run], folder: str | None) -> None:
    from clew import env
    from clew.show.table import runs_table

    if runs:
        console().print(runs_table(runs))
    else:
        print(f"no runs in {folder or env.runs_folder()}")


def _warn(problem: str) -> None:
    import sys

    print(f"clew: {problem}", file=sys.stderr)

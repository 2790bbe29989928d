"""`clew rm`: deletes runs by name."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from clew.reading.run import Run

EXAMPLES = [
    "clew rm latest",
    "clew rm 120000-spirals 2026-01-31/130000-test --dry-run",
]


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser("rm", help="delete runs")
    parser.description = "Deletes runs. `clew prune` deletes those that are old, large or failed."
    parser.add_argument("runs", metavar="RUN", nargs="+", help="a run's folder, its name, or `latest`")
    parser.add_argument("-n", "--dry-run", action="store_true", help="say what would be deleted, and delete nothing")
    parser.add_argument(
        "-f", "--force", action="store_true", help="also runs that seem to be going on, and other files in the folder"
    )


def main(args: argparse.Namespace) -> int:
    from clew.reading import open_run

    runs = {run.path: run for run in map(open_run, args.runs)}  # all of them are there before any is deleted
    return delete(list(runs.values()), dry_run=args.dry_run, force=args.force)


def delete(runs: list[Run], *, dry_run: bool, force: bool) -> int:
    """Delete runs, a line each. 1 if one of them could not be."""
    from clew.errors import ClewError
    from clew.store.removal import check_removable, remove_run, size_on_disk
    from clew.text.brief import byte_size

    status, total = 0, 0
    for run in runs:
        size = size_on_disk(run.path)
        try:
            if run.status == "running" and not force:
                raise _is_running(run.path)
            if dry_run:
                check_removable(run.path, everything=force)
            else:
                remove_run(run.path, everything=force)
        except (ClewError, OSError) as error:
            print(f"clew: {_reason(error, run.path)}", file=sys.stderr)
            status = 1
            continue
        total += size
        print(f"{'would delete' if dry_run else 'deleted'} {run.path} ({byte_size(size)})")
    if len(runs) > 1:
        print(f"{byte_size(total)} in total")
    return status


def _is_running(folder: Path) -> Exception:
    from clew.errors import PageError

    what = f"{folder} is still being recorded, or its process ran on another machine."
    return PageError("run-goes-on", what, "Wait for its end, or give --force.")


def _reason(error: Exception, folder: Path) -> str:
    if isinstance(error, OSError) and not hasattr(error, "slug"):
        return f"{folder} could not be deleted: {error.strerror or error}. Is the folder read-only?"
    return str(error)

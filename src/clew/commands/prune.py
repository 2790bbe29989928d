"""`clew prune`: deletes runs by age, status and size."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clew.reading.run import Run

DAY = 86_400
UNITS = {"s": 1, "m": 60, "h": 3600, "d": DAY, "w": 7 * DAY}
STATUSES = ("finished", "incomplete", "failed", "interrupted", "exited", "killed")

EXAMPLES = [
    "clew prune --older-than 30d --dry-run",
    "clew prune --status failed,killed --older-than 12h",
    "clew prune --total 20GB --yes",
]


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser("prune", help="delete runs by age, status or size")
    parser.description = (
        "Deletes the runs to which all of the conditions apply. Runs that are being recorded are never deleted."
    )
    parser.add_argument("folder", nargs="?", help="where to look (CLEW_DIR, or ./clew_runs)")
    parser.add_argument("--older-than", metavar="AGE", help="that began before: 30d, 12h, 45m, 2w")
    parser.add_argument("--status", metavar="STATUS", help=f"that ended so: {', '.join(STATUSES)}")
    parser.add_argument("--larger-than", metavar="SIZE", help="that take more room: 500MB, 2GB")
    parser.add_argument("--total", metavar="SIZE", help="the oldest of them, until all runs together take no more")
    parser.add_argument("-n", "--dry-run", action="store_true", help="say what would be deleted, and delete nothing")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def main(args: argparse.Namespace) -> int:
    from clew.commands.rm import delete
    from clew.commands.runs import readable_runs

    runs, unreadable = readable_runs(args.folder)
    chosen = _chosen(runs, args)
    for problem in unreadable:
        print(f"clew: {problem}", file=sys.stderr)
    if not chosen:
        print("nothing to delete")
        return 0
    if args.dry_run or args.yes or not sys.stdin.isatty() or _agrees(len(chosen)):
        return delete(chosen, dry_run=args.dry_run, force=False)
    return 1


def _chosen(runs: list[Run], args: argparse.Namespace) -> list[Run]:
    from clew.errors import OptionError
    from clew.store.removal import size_on_disk
    from clew.text.sizes import parse_size

    if not (args.older_than or args.status or args.larger_than or args.total):
        what = "`clew prune` was not told which runs to delete."
        raise OptionError("bad-option", what, "Give --older-than, --status, --larger-than or --total.")
    statuses = _statuses(args.status)
    before = time.time_ns() - _nanoseconds(args.older_than) if args.older_than else None
    least = parse_size(args.larger_than, "--larger-than") if args.larger_than else 0
    most = parse_size(args.total, "--total") if args.total else None
    sizes = {run.path: size_on_disk(run.path) for run in runs}
    candidates = [
        run
        for run in runs
        if run.status != "running"
        and (statuses is None or run.status in statuses)
        and (before is None or (run.meta.get("started_ns") or 0) < before)
        and sizes[run.path] >= least
    ]
    if most is None:
        return candidates
    chosen, total = [], sum(sizes.values())
    for run in candidates:  # the oldest first
        if total <= most:
            break
        chosen.append(run)
        total -= sizes[run.path]
    return chosen


def _statuses(text: str | None) -> list[str] | None:
    from clew.errors import OptionError, nearest

    if text is None:
        return None
    statuses = [word.strip() for word in text.split(",")]
    for status in statuses:
        if status not in STATUSES:
            raise OptionError("bad-option", f"--status {status}: there is no such status;", nearest(status, STATUSES))
    return statuses


def _nanoseconds(age: str) -> int:
    from clew.errors import OptionError

    number, unit = age[:-1], age[-1:]
    if unit not in UNITS or not number.isdecimal():
        raise OptionError("bad-option", f"--older-than {age} is not an age.", "Write it like 30d, 12h, 45m or 2w.")
    return int(number) * UNITS[unit] * 1_000_000_000


def _agrees(count: int) -> bool:
    try:
        return input(f"Delete {count:,} run{'s' if count > 1 else ''}? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False

"""`clew show`: what a run recorded; with names, their changes."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from clew.commands.console import console, print_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clew.reading.item_path import Item
    from clew.reading.run import Run
    from clew.reading.series import Series
    from clew.reading.trace import StageCall, Trace
    from clew.show.overview import NameLine

NAMES = 50  # shown of a run that has many
HEAD, TAIL = 20, 10  # changes shown of a long series

EXAMPLES = [
    "clew show latest",
    'clew show latest loss "acc*" --all',
    "clew show 120000-spirals --tree --slow 10ms",
    "clew show latest --trace --check",
]


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser("show", help="show what a run recorded")
    parser.description = "What a run recorded: its names, calls and ledger; or the changes of some names."
    parser.add_argument("run", metavar="RUN", help="a run's folder, its name, or `latest`")
    parser.add_argument("names", metavar="NAME", nargs="*", help="show the changes of this name (or pattern)")
    parser.add_argument("-a", "--all", action="store_true", help="everything, however long")
    parser.add_argument("-t", "--tree", action="store_true", help="the calls as a tree")
    tree = parser.add_argument_group("the tree (each implies --tree)")
    tree.add_argument("--function", metavar="F", help="only calls of this function (or pattern) and what they called")
    tree.add_argument("--changed", metavar="N", help="only calls in which this name changed or was an input")
    tree.add_argument("--name", dest="changed", help=argparse.SUPPRESS)  # its name before
    tree.add_argument("--errors", action="store_true", help="only calls that raised")
    tree.add_argument("--slow", metavar="TIME", help="only calls that took at least so long: 10ms, 2s")
    tree.add_argument("--full", action="store_true", help="nothing folded, nothing cut")
    tree.add_argument("--ascii", action="store_true", help="marks that every console can show")
    trace = parser.add_argument_group("items of a pipeline (each implies --trace)")
    trace.add_argument("--trace", action="store_true", help="the last trace, stage by stage")
    trace.add_argument("--stage", metavar="S", help="only this stage")
    trace.add_argument("--item", metavar="ID", help="one item in every stage it passed")
    trace.add_argument("--check", action="store_true", help="what changed between stages, and the usual mistakes")
    parser.add_argument("--json", action="store_true", help="for machines")


def main(args: argparse.Namespace) -> int:
    from clew.reading import open_run
    from clew.values.adapters import read_without

    if not args.json:
        read_without("torch")
    run = open_run(args.run)
    if any((args.trace, args.stage, args.item, args.check)):
        return _trace(run, args)
    if args.names:
        series = [run[name] for name in chosen(run, args.names)]
        (_changes_json if args.json else _changes)(series, args.all)
    elif args.json:
        _run_json(run)
    elif any((args.tree, args.function, args.changed, args.errors, args.slow, args.full, args.ascii)):
        _tree(run, args)
    else:
        _overview(run, args.all)
    return 0


def chosen(run: Run, wanted: list[str]) -> list[str]:
    """The names meant: exact ones, or all that fit a pattern; an unknown one is an error with the nearest."""
    from fnmatch import fnmatchcase

    out: dict[str, None] = {}
    for name in wanted:
        fitting = [] if name in run else [known for known in run.names if fnmatchcase(known, name)]
        if not fitting:
            run[name]  # raises for a name that is not there
        out.update(dict.fromkeys(fitting or [name]))
    return list(out)


# ---- for people


def _overview(run: Run, everything: bool) -> None:
    from clew.show.table import functions_table, names_table, run_head
    from clew.text.brief import printable

    out = console()
    out.print(run_head(run))
    for problem in run.problems:
        out.print(f"problem: {printable(problem)}", style="red")
    names = run.names
    shown = names if everything else names[:NAMES]
    if names:
        out.print()
        out.print(names_table(_lines(run, shown)))
    if len(names) > len(shown):
        out.print(f"... {len(names) - len(shown):,} more names (use --all)")
    functions = run.functions()
    if functions:
        out.print()
        out.print(functions_table(functions, len(functions) if everything else 20))
    out.print()
    out.print("nothing was recorded" if not names and not functions else "ledger", style="bold")
    _ledger(run, out)


def _lines(run: Run, names: list[str]) -> Iterator[NameLine]:
    from clew.show.overview import name_line

    return (name_line(run[name]) for name in names)


def _ledger(run: Run, out: Any) -> None:
    from clew.text.brief import printable

    for line in str(run.ledger).splitlines():
        out.print(f"  {printable(line)}")


def _changes(series: list[Series], everything: bool) -> None:
    from clew.show.table import change_lines
    from clew.text.brief import changes, printable

    width = get_terminal_size().columns if sys.stdout.isatty() else 134
    for place, one in enumerate(series):
        if place:
            print()
        console().print(f"{printable(one.name)}: {changes(len(one))}", style="bold")
        for line in change_lines(one, len(one) if everything else HEAD, TAIL, width):
            print(line)


def _tree(run: Run, args: argparse.Namespace) -> None:
    from clew.show.tree import write_tree

    tree = run.tree(function=args.function, name=args.changed, errors=args.errors, slow=args.slow)
    write_tree(tree, sys.stdout, full=args.full or args.all, ascii=args.ascii)


def _trace(run: Run, args: argparse.Namespace) -> int:
    """Gives 1 if --check has found something to warn of."""
    trace = run.trace
    if args.check:
        findings = trace.check()
        print_json([dataclasses.asdict(finding) for finding in findings]) if args.json else print(findings)
        return 1 if findings.warnings else 0
    if args.json:
        print_json([_passage_json(call) for call in trace.calls])
    elif args.item is not None:
        print(_item(trace, args.item))
    else:
        print(trace[args.stage] if args.stage else trace)
    return 0


def _item(trace: Trace, asked: str) -> Item:
    """An item as people type it: 7, or file-7; `train:7` of the source `train`."""
    for item in trace.items:
        if asked == f"{item.source}:{item.id}":
            return trace.item(item.id, item.source)
    return trace.item(next((item.id for item in trace.items if str(item.id) == asked), asked))


# ---- for machines


def _passage_json(call: StageCall) -> dict[str, Any]:
    told = dataclasses.asdict(dataclasses.replace(call.passage, inputs={}, outputs={}))
    return {**told, "inputs": list(call.passage.inputs), "outputs": list(call.passage.outputs)}


def _run_json(run: Run) -> None:
    names = [
        {
            "name": line.name,
            "count": line.count,
            "first": line.first,
            "last": line.last,
            "min": line.extremes and line.extremes[0],
            "max": line.extremes and line.extremes[1],
            "complete": line.complete,
            "places": [{"function": function, "file": file, "line": at} for function, file, at in line.places],
        }
        for line in _lines(run, run.names)
    ]
    print_json(
        {
            "path": str(run.path),
            "name": run.name,
            "status": run.status,
            "duration": run.duration,
            "meta": run.meta,
            "names": names,
            "functions": [dataclasses.asdict(line) for line in run.functions()],
            "ledger": [dataclasses.asdict(note) for note in run.ledger],
            "problems": run.problems,
        }
    )


def _changes_json(series: list[Series], everything: bool) -> None:
    """Every change, whether `--all` was said or not: a machine is not bored."""
    out = {}
    for one in series:
        columns = zip(one.lines, one.steps, one.times.tolist(), one.times_error.tolist(), one, strict=True)
        keys = ("line", "step", "time", "time_error", "value")
        out[one.name] = [dict(zip(keys, row, strict=True)) for row in columns]
    print_json(out)

"""`clew diff`: where two runs first differ. 0: equal; 1: they differ; 2: a mistake in what was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.commands.console import console, print_json, progress_bar

if TYPE_CHECKING:
    import argparse

EXAMPLES = [
    "clew diff 120000-fp32 120500-bf16",
    "clew diff 120000-a 120500-b --reference 121000-a --limit 3",
]


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser("diff", help="where two runs first differ")
    parser.description = "Compares two runs value by value. The exit status is 0 if they are equal, 1 if they differ."
    parser.add_argument("a", metavar="A", help="a run's folder, its name, or `latest`")
    parser.add_argument("b", metavar="B", help="the run to compare it with")
    parser.add_argument("--reference", metavar="A2", help="a second run of what A was: shows each place's own noise")
    parser.add_argument("--noise", type=float, default=3.0, metavar="N", help="with it: differ by so many times (3)")
    parser.add_argument("--rtol", type=float, metavar="X", help="relative tolerance (defaults by dtype)")
    parser.add_argument("--atol", type=float, metavar="X", help="absolute tolerance (defaults by dtype)")
    parser.add_argument("--ulp", type=float, metavar="N", help="or so many floating-point numbers apart")
    parser.add_argument("--ignore", action="append", default=[], metavar="P", help="leave out these names or functions")
    parser.add_argument("--only", action="append", default=[], metavar="P", help="only these: names, functions")
    parser.add_argument("--map", action="append", default=[], metavar="OLD=NEW", help="what B calls something of A")
    parser.add_argument("--common", action="store_true", help="judge only what both runs have")
    parser.add_argument(
        "-n", "--limit", type=int, metavar="N", help="differences to list (10; with --json 100; with --full all)"
    )
    parser.add_argument("--full", action="store_true", help="nothing folded, nothing cut")
    parser.add_argument("--json", action="store_true", help="for machines")


def main(args: argparse.Namespace) -> int:
    from clew.compare import diff
    from clew.show.diff import diff_lines

    with progress_bar("comparing") as progress:
        found = diff(
            args.a,
            args.b,
            reference=args.reference,
            rtol=args.rtol,
            atol=args.atol,
            ulp=args.ulp,
            ignore=args.ignore,
            only=args.only,
            map=renames(args.map),
            noise=args.noise,
            common=args.common,
            progress=progress,
        )
    usual = max(len(found.differences), 1) if args.full else 100 if args.json else 10
    told = found.to_dict(limit=limit(args.limit, usual))
    if args.json:
        print_json(told)
    else:
        out = console()
        for text, style in diff_lines(told, full=args.full):
            out.print(text, style=style or None, soft_wrap=True)
    return 0 if found.equal else 1


def renames(given: list[str]) -> dict[str, str]:
    """`old=new`, as it is written on the command line."""
    from clew.errors import OptionError

    found = {}
    for text in given:
        old, sign, new = text.partition("=")
        if not (sign and old and new):
            raise OptionError("bad-option", f"--map {text} is not of the form OLD=NEW.", "For instance train=fit.")
        found[old] = new
    return found


def limit(given: int | None, usual: int) -> int:
    from clew.errors import OptionError

    if given is None:
        return usual
    if given < 1:
        raise OptionError("bad-option", f"--limit {given} lists nothing.", "Give a number of differences, 1 or more.")
    return given

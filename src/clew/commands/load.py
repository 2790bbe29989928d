"""`clew load`: a virtual environment for a saved graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.commands.console import print_json

if TYPE_CHECKING:
    import argparse

EXAMPLES = [
    "clew load bundle --env venv",
    "clew load bundle.zip --env venv --python /usr/bin/python3.12",
]


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser("load", help="make a virtual environment for a saved graph")
    parser.description = (
        "Makes a virtual environment with the packages that a bundle names, in the versions it was made with, and with "
        "this clew. pip installs them from where it is set to. Nothing of the bundle itself is run."
    )
    parser.add_argument("bundle", metavar="BUNDLE", help="a folder or zip that graph.save() has written")
    parser.add_argument("--env", required=True, metavar="DIR", help="the folder of the environment, not there yet")
    told = "the Python of the environment (default: one of the version the bundle was made with, else this one)"
    parser.add_argument("--python", metavar="PATH", help=told)
    told = "packages that exist as sources only may be built; that runs code of theirs"
    parser.add_argument("--allow-builds", action="store_true", help=told)
    parser.add_argument("--json", action="store_true", help="for machines")


def main(args: argparse.Namespace) -> int:
    from clew.commands.inspect import say
    from clew.graph.bundle import environment, schema
    from clew.graph.bundle.layout import Bundle, as_it_should_be

    bundle = Bundle(args.bundle)
    with as_it_should_be(bundle.path):
        schema.check(bundle)
    needed = environment.pins(bundle)
    if not args.json:
        say([f"installing clew and {', '.join(needed) or 'nothing else'} into {args.env}"])
    python = environment.make(bundle, Path(args.env), python=args.python, builds=args.allow_builds)
    if args.json:
        print_json({"path": str(bundle.path), "python": str(python), "installed": needed})
    else:
        say([f"{python} -c 'import clew; graph = clew.load(\"{bundle.path}\", trusted=True)'  # runs it"])
    return 0

"""The `clew` command: finds the verb, and turns errors into a sentence and an exit status.

0 when it did what was asked, 2 for a mistake of the user's, 1 for a failure. Only the verb that was asked for is
imported, so that `clew --help` and the user's own program under `clew run` start at once.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from clew import env
from clew.errors import ClewError, nearest

VERBS = {
    "run": "run a script or a module with watching on, without changing a line of it",
    "runs": "list the runs",
    "show": "show what a run recorded",
    "view": "look at runs in the browser",
    "report": "one HTML file of a run, to send away",
    "diff": "where two runs first differ",
    "export": "write a run for other tools: JSON, CSV, Parquet, HDF5, Zarr, TensorBoard, Perfetto",
    "inspect": "what is inside a saved graph; nothing of it is run",
    "load": "make a virtual environment for a saved graph",
    "run-graph": "run a saved graph over the rows of a file",
    "rm": "delete runs",
    "prune": "delete runs by age, status or size",
    "doctor": "what clew finds on this machine",
    "completion": "print the completion script of a shell",
}


class HelpFormatter(argparse.HelpFormatter):
    """Fills paragraphs, and leaves indented lines, the examples, as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        return "\n\n".join(b if "\n  " in b else fill(b, width, indent) for b in text.split("\n\n"))


class Parser(argparse.ArgumentParser):
    """argparse, whose complaint about an unknown verb names the nearest."""

    verbs: Mapping[str, Parser] = {}

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": HelpFormatter, **options})

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, f"clew: {message}\n")


def parser(verb: str | None = None, *, every: bool = False) -> Parser:
    """The parser with the options of one verb (or of every verb), and a line of help for each."""
    top = Parser(prog="clew", description="clew records what happens to the values in Python code.")
    top.add_argument("--version", action="store_true", help="print the version")
    verbs = top.add_subparsers(dest="verb", metavar="COMMAND", parser_class=Parser)
    for name, line in VERBS.items():
        if every or name == verb:
            module = load(name)
            module.add(verbs)
            verb_parser = verbs.choices[name]
            examples = "\n".join(f"  {line}" for line in module.EXAMPLES)
            verb_parser.epilog = "\n\n".join(filter(None, [verb_parser.epilog, f"examples:\n{examples}"]))
        else:
            verbs.add_parser(name, help=line)
    top.verbs = verbs.choices
    return top


def load(verb: str) -> Any:
    """The module of a verb."""
    return importlib.import_module(f"clew.commands.{verb.replace('-', '_')}")


def main(argv: Sequence[str] | None = None) -> int:
    """What the `clew` script calls."""
    words = list(sys.argv[1:] if argv is None else argv)
    verb = next((word for word in words if not word.startswith("-")), None)
    if verb is not None and verb not in VERBS:
        return _say(f"there is no command `{verb}`; {nearest(verb, VERBS)}")
    try:
        top = parser(verb)
    except ClewError as error:  # what the verb needs cannot be imported on this Python
        return _say(str(error))
    args = _parsed_run(top, words) if verb == "run" else _parsed(top, words)
    if args.version:
        return _print_version()
    if verb is None:
        top.print_help()
        return 2
    # The user's program runs inside `clew run`: its broken pipe, its Ctrl-C and its errors are its own.
    return _guarded_by_own_errors_only(args) if verb == "run" else _guarded(verb, args)


def _parsed(top: Parser, words: list[str]) -> argparse.Namespace:
    """The arguments; names may stand after options too, which argparse alone does not understand."""
    args, more = top.parse_known_args(words)
    if more and (not isinstance(getattr(args, "names", None), list) or any(word.startswith("-") for word in more)):
        top.verbs.get(args.verb, top).error(f"unrecognized arguments: {' '.join(more)}")
    if more:
        args.names = [*args.names, *more]
    return args


def _parsed_run(top: Parser, words: list[str]) -> argparse.Namespace:
    """The arguments of `clew run`, which end where those of the program begin."""
    verb = words.index("run")
    ours, program = load("run").split_words(words[verb + 1 :], top.verbs["run"])
    args = top.parse_args([*words[: verb + 1], *ours])
    args.program, args.own = program, ours
    return args


def _guarded_by_own_errors_only(args: argparse.Namespace) -> int:
    try:
        return int(load("run").main(args))
    except ClewError as error:
        return _say(str(error))


def _guarded(verb: str, args: argparse.Namespace) -> int:
    try:
        _open_closed_streams()
        _speak_any_text()
        status = int(load(verb).main(args))
        sys.stdout.flush()  # here, where a closed pipe is still ours to notice
        return status
    except ClewError as error:
        return _say(str(error))
    except BrokenPipeError:
        return _reader_went_away()
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if isinstance(error, FileNotFoundError) and error.filename is None and not env.current_folder():
            return _say("the current folder was deleted. Change to another, or set CLEW_DIR to where the runs are.", 1)
        return _say(f"{error.strerror or error}: {error.filename}" if error.filename else str(error), 1)


def _open_closed_streams() -> None:
    """`clew export latest >&-` leaves Python without a stdout: what would be said goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - until the process ends


def _speak_any_text() -> None:
    """A terminal or pipe in a small encoding gets `?` for what it cannot show, instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _reader_went_away() -> int:
    """`clew show | head` closed the pipe: Python must not complain at exit. The status is a shell's for SIGPIPE."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141


def _say(message: str, status: int = 2) -> int:
    from clew.text.brief import printable

    sys.stdout.flush()
    print("\n".join(map(printable, f"clew: {message}".split("\n"))), file=sys.stderr)  # it may name what a run holds
    return status


def _print_version() -> int:
    from importlib.metadata import PackageNotFoundError, version

    try:
        print(f"clew {version('clew')}")
    except PackageNotFoundError:
        print("clew (not installed)")
    return 0

"""`clew run`: a script or module, unchanged, with watching on.

The program sees what it would see under plain `python`: the same `sys.argv`, `__main__`, `sys.path[0]`, exit status and
tracebacks.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import sys
from contextlib import AbstractContextManager, nullcontext
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from clew import env, recording
from clew.errors import MissingLibraryError, OptionError
from clew.probes.lines.program import Program, forget_names, parse_request, split
from clew.records import Note


def add(verbs: Any) -> None:
    verb = verbs.add_parser(
        "run",
        help="run a script or a module with watching on, without changing a line of it",
        usage="clew run [options] script.py [args...]\n       clew run [options] -m package.module [args...]",
        epilog='A --watch "function: names" is understood after the script too; after `--` all is the script\'s.',
    )
    verb.add_argument(
        "--watch",
        action="append",
        default=[],
        metavar='"FUNCTION: EXPR, EXPR"',
        help="what to watch, in which functions (name, qualified name or pattern; * for any that has it)",
    )
    verb.add_argument(
        "--follow",
        action="append",
        default=[],
        metavar='"MODULE:FUNCTION"',
        help="follow the calls inside this function (name, qualified name or pattern)",
    )
    verb.add_argument("--names", default="", metavar="NAME, NAME", help="with --follow: variables to look for")
    verb.add_argument("--depth", type=int, metavar="N", help="with --follow: so many levels of calls beneath it")
    verb.add_argument("--only", action="append", metavar="PATTERN", help="with --follow: modules, files or functions")
    verb.add_argument("--skip", action="append", metavar="PATTERN", help="with --follow: what to leave out")
    verb.add_argument("--no-show", action="store_true", help="with --follow: record without printing the tree")
    verb.add_argument(
        "--model",
        action="append",
        default=[],
        metavar='"NAME: PATH, PATH"',
        help="trace paths inside the torch model that a variable, or its class, is called (* for any)",
    )
    verb.add_argument(
        "--nonfinite", choices=["find", "raise", "stop"], help="tell where the first NaN or Inf in a model was born"
    )
    verb.add_argument("--items", type=int, metavar="N", help="let N items through its data pipeline, then stop")
    verb.add_argument("--id", metavar="NAME", help="with --items: the key of a sample that says what it is called")
    verb.add_argument("--step", metavar="EXPR", help="the expression that says which step it is")
    verb.add_argument("--every", type=int, default=1, metavar="N", help="record every n-th change of a name")
    verb.add_argument("--when", metavar="EXPR", help="record changes only while this holds")
    verb.add_argument("--show", action="store_true", help="print changes as they happen")
    verb.add_argument("--name", help="the run's name (the script's, if none is given)")
    verb.add_argument("--tag", action="append", default=[], metavar="KEY=VALUE", help="a tag for the run")
    verb.add_argument("--keep", metavar="POLICY", help='how much of large values: full, summary or "last N"')
    verb.add_argument("--disk", default=recording.DISK, metavar="SIZE", help="how much the run may write (2GB)")
    verb.add_argument("--memory", default=recording.MEMORY, metavar="SIZE", help="how much may wait to be written")
    verb.add_argument("-m", dest="module", action="store_true", help="the program is a module, as in python -m")
    verb.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def main(args: argparse.Namespace) -> int:
    words: list[str] = list(args.program)
    if not words:
        raise OptionError("nothing-to-run", "clew run: no script was given.", "Write: clew run script.py")
    ours = {"--watch": args.watch, "--follow": args.follow, "--model": args.model}
    target, rest = words[0], _take_requests(words[1:], ours)
    sys.argv[:] = [target, *rest]
    options = {"step": args.step, "every": args.every, "when": args.when, "show": args.show}
    requests = [parse_request(text, **options) for text in args.watch]
    program = Program(requests, _follows(args)) if env.enabled() else Program([])
    models = _models(args) if env.enabled() else None
    around = _items(args)
    run = recording.start(
        args.name or _name(target, args.module),
        tags=_tags(args.tag),
        keep=None if _is_ring(args.keep) else args.keep,
        disk=args.disk,
        memory=args.memory,
    )
    if not args.module and not Path(target).exists():
        raise OptionError("no-such-script", f"clew run: there is no {target}.", "Check the path and the folder.")
    if env.enabled():
        program.install()
        if models is not None:
            models.install()
        recording.open_until_exit(run, lambda: [*_ended(models), *program.ledger()])
    return _module(target, rest, program, around) if args.module else _script(target, rest, program, around)


def _items(args: argparse.Namespace) -> AbstractContextManager[Any]:
    """Around the program: the trace that was asked for, or nothing."""
    if args.items is None:
        return nullcontext()
    from clew.probes.pipeline import items

    return _Through(items(args.items, id=args.id))


class _Through(AbstractContextManager[Any]):
    """Says why a program ended before its time, and how to see what it did."""

    def __init__(self, block: Any) -> None:
        self._block = block

    def __enter__(self) -> Any:
        self._trace = self._block.__enter__()
        return self._trace

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        over = bool(self._block.__exit__(kind, error, traceback))
        if over:
            passed = f"{len(self._trace.items)} items passed {len(self._trace.stages)} stages"
            print(f"clew: {passed}, and the program was stopped; see `clew show latest --trace`", file=sys.stderr)
        return over


def _follows(args: argparse.Namespace) -> Any:
    if not args.follow:
        return None
    from clew.probes.calls import following
    from clew.probes.calls.program import Follows

    names = tuple(split(args.names)) if args.names.strip() else ()
    how = following(names, depth=args.depth, only=args.only, skip=args.skip, show=not args.no_show, keep=args.keep)
    return Follows(args.follow, how)


def _models(args: argparse.Namespace) -> Any:
    if not args.model and args.nonfinite is None:
        return None
    try:
        from clew.probes.model.program import Models, parse_model
    except ImportError as error:
        what = "clew run --model and --nonfinite trace torch models, and torch is not installed."
        raise MissingLibraryError("missing-library", what, "pip install torch") from error
    keep = args.keep if args.model else None
    return Models(list(map(parse_model, args.model)), nonfinite=args.nonfinite, keep=keep)


def _ended(models: Any) -> list[Note]:
    return models.finish(recording.ended_by()) if models is not None else []


def _is_ring(keep: str | None) -> bool:
    """`last 50 steps` is a tracer's word; of everything else the run keeps as by default."""
    return keep is not None and keep.endswith(("step", "steps", "iteration", "iterations"))


def _take_requests(words: list[str], ours: dict[str, list[str]]) -> list[str]:
    """`--watch "f: x"` and `--follow "m:f"` after the script are ours, up to `--`; everything else is the script's."""
    rest: list[str] = []
    while words:
        word = words.pop(0)
        if word == "--":
            return [*rest, *words]
        option, equals, value = word.partition("=")
        if word in ours and words and ":" in words[0]:
            ours[word].append(words.pop(0))
        elif equals and option in ours and ":" in value:
            ours[option].append(value)
        else:
            rest.append(word)
    return rest


def _name(target: str, is_module: bool) -> str:
    return target.rpartition(".")[2] if is_module else Path(target).stem


def _tags(pairs: list[str]) -> dict[str, Any]:
    tags: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise OptionError("bad-tag", f"--tag {pair!r} has no value.", "Write --tag lr=0.1")
        tags[key] = value
    return tags


# ---- the program -----------------------------------------------------------------------------------------------------


def _script(path: str, rest: list[str], program: Program, around: AbstractContextManager[Any]) -> int:
    if os.path.isdir(path):
        return _module_spec(_folder_main(path), path, rest, program, around)
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    path = os.path.abspath(path)
    main = _new_main(path)
    main.__loader__ = SourceFileLoader("__main__", path)
    main.__file__ = path
    return _execute(lambda: program.compile_main(Path(path).read_bytes(), path)[0], main, around)


def _folder_main(path: str) -> ModuleSpec:
    sys.path.insert(0, path)
    spec = importlib.util.find_spec("__main__") if "__main__" not in sys.modules else None
    spec = spec or importlib.util.spec_from_file_location("__main__", os.path.join(path, "__main__.py"))
    assert spec is not None
    return spec


def _module(name: str, rest: list[str], program: Program, around: AbstractContextManager[Any]) -> int:
    sys.path[0] = os.getcwd()
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        raise OptionError("no-such-module", f"clew run -m: no module named {name}.", "Check the name and the folder.")
    return _module_spec(spec, spec.origin, rest, program, around)


def _module_spec(
    spec: ModuleSpec, argv0: str, rest: list[str], program: Program, around: AbstractContextManager[Any]
) -> int:
    sys.argv[:] = [argv0, *rest]
    main = _new_main(spec.origin or argv0)
    main.__spec__ = spec
    main.__loader__ = spec.loader
    main.__package__ = spec.parent
    main.__file__ = spec.origin or argv0

    path = spec.origin or argv0
    return _execute(lambda: program.compile_main(Path(path).read_bytes(), path)[0], main, around)


def _new_main(path: str) -> ModuleType:
    main = ModuleType("__main__")
    main.__dict__.update(__builtins__=__builtins__, __file__=path, __cached__=None, __package__=None, __spec__=None)
    sys.modules["__main__"] = main
    return main


def _execute(code: Any, main: ModuleType, around: AbstractContextManager[Any]) -> int:
    """Run the program; show its exceptions as Python would."""
    try:
        compiled = code()
        with around:
            exec(compiled, main.__dict__)
    except SystemExit as error:
        recording.ends_with(error)
        raise
    except BaseException as error:
        recording.ends_with(error)
        traceback = _own_frames_removed(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(traceback), traceback)
        if isinstance(error, KeyboardInterrupt):
            return _die_of_interrupt()
        return 1
    finally:
        forget_names(main.__dict__)
    return 0


def _own_frames_removed(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback from the program's own first frame on."""
    own = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    while traceback is not None and os.path.realpath(traceback.tb_frame.f_code.co_filename).startswith(own):
        traceback = traceback.tb_next
    return traceback


def _die_of_interrupt() -> int:
    """Python dies of the signal itself after Ctrl-C, so that shells stop their loops; so do we, the run closed."""
    recording.close_all()
    sys.stdout.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
    return 130

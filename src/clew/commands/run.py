"""`clew run`: a script or module, unchanged, with watching on.

The program sees what it would see under plain `python`: the same `sys.argv`, `__main__`, `sys.path[0]`, exit status and
tracebacks.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from types import TracebackType
from typing import Any

from clew import env, recording, trouble
from clew.commands import launch, ranks, shadows
from clew.errors import OptionError
from clew.instrument import source
from clew.probes.model_requests import ModelsToCome, parse_model
from clew.probes.watch.unchanged_program import Program, parse_request, split
from clew.recorder import child_processes
from clew.recorder.how_calls_end import traceback_of
from clew.records import Note

EXAMPLES = [
    'clew run --watch "train: loss, acc" train.py --epochs 3',
    'clew run --follow "data:load" --depth 3 -m package.main',
    'clew run --model "net: encoder.*" --nonfinite find train.py',
]


def add(verbs: Any) -> None:
    verb = verbs.add_parser(
        "run",
        help="run a script or a module with watching on, without changing a line of it",
        usage="clew run [options] script.py [args...]\n       clew run [options] -m package.module [args...]\n"
        "       clew run [options] -c code [args...]",
        epilog="The program is a script, a folder or zip file with a __main__.py, -m module, -c code, or - for stdin. "
        "What follows it is the program's own; only if nothing was asked for before it, a --watch, --follow or --model "
        'of the form "function: names" is understood there too, up to a `--`.',
    )
    verb.add_argument(
        "-w",
        "--watch",
        action="append",
        default=[],
        metavar='"FUNCTION: EXPR, EXPR"',
        help="what to watch, in which functions (name, qualified name or pattern; * for any that has it)",
    )
    verb.add_argument(
        "-f",
        "--follow",
        action="append",
        default=[],
        metavar='"MODULE:FUNCTION"',
        help="follow the calls inside this function (name, qualified name or pattern)",
    )
    verb.add_argument("--names", default="", metavar="NAME, NAME", help="with --follow: variables to look for")
    verb.add_argument("--depth", type=int, metavar="N", help="with --follow: so many levels of calls beneath it")
    verb.add_argument(
        "--only",
        action="append",
        metavar="PATTERN",
        help="with --follow: only these: modules, files, functions",
    )
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
    verb.add_argument("-n", "--name", help="the run's name (the script's, if none is given)")
    verb.add_argument("-t", "--tag", action="append", default=[], metavar="KEY=VALUE", help="a tag for the run")
    verb.add_argument("--keep", metavar="POLICY", help='how much of large values: full, summary or "last N"')
    verb.add_argument("--disk", default=recording.DISK, metavar="SIZE", help="how much the run may write (2GB)")
    verb.add_argument("--memory", default=recording.MEMORY, metavar="SIZE", help="how much may wait to be written")
    verb.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def split_words(words: list[str], parser: argparse.ArgumentParser) -> tuple[list[str], list[str]]:
    """clew's own words, and those that Python would get: from the script, `-m`, `-c`, `-` or `--` on."""
    options = parser._option_string_actions
    at = 0
    while at < len(words) and words[at] != "--" and (words[at].startswith("--") or words[at] in options):
        name, equals, _ = words[at].partition("=")
        fitting = [options[name]] if name in options else [options[o] for o in options if o.startswith(name)]
        at += 1 if equals or not fitting or fitting[0].nargs == 0 else 2
        if fitting and "-h" in fitting[0].option_strings:
            return words, []
    return words[:at], words[at:]


def main(args: argparse.Namespace) -> int:
    words = launch.words_of(args.program)
    if words is None:
        raise OptionError("nothing-to-run", "clew run: no script was given.", "Write: clew run script.py")
    if words.target.startswith("-") and not words.kind and args.program[0] != "--":
        raise OptionError("bad-option", f"clew run has no option {words.target}.", "`clew run --help` lists them.")
    if not _asks_for_anything(args) and args.program[0] != "--":
        ours = {"--watch": args.watch, "--follow": args.follow, "--model": args.model}
        words = replace(words, rest=_take_requests(words.rest, ours))
    _check_options(args)
    command = ranks.with_clew_in_ranks(words, args.own)
    if command is not None:
        os.execv(command[0], command)
    program = _program(args) if env.enabled() else Program([])
    models = _models(args) if env.enabled() else None
    around = _items(args)
    run = recording.start(
        args.name or words.name(),
        tags=_tags(args.tag),
        keep=None if _is_ring(args.keep) else args.keep,
        disk=args.disk,
        memory=args.memory,
    )
    try:
        start = launch.find(words) if words.kind != "-m" else None
        sys.argv[:] = [words.target, *words.rest]
        if env.enabled():
            program.install()
            _tell_children(args)
            if models is not None:
                models.install()
            ranks.open_run(run, lambda: [*_ended(models), *program.ledger(), *_nothing_asked(args, run)])
        return _start(words, start, program, around)
    except launch.RefusedError as refusal:
        _discard(run)
        print(refusal, file=sys.stderr)
        return refusal.status


def _asks_for_anything(args: argparse.Namespace) -> bool:
    return bool(args.watch or args.follow or args.model or args.nonfinite or args.items is not None)


def _discard(run: recording.Recording) -> None:
    """Of a program that was never started there is no run."""
    if run.folder is not None and run._owner == os.getpid():
        run._close("refused")
        shutil.rmtree(run.folder, ignore_errors=True)
        with suppress(OSError):
            run.folder.parent.rmdir()  # the day's folder, if it is the only run


#: What each option needs to have an effect.
_NEEDS = {
    "--names": "--follow", "--depth": "--follow", "--only": "--follow", "--skip": "--follow", "--id": "--items",
    "--step": "--watch", "--every": "--watch", "--when": "--watch", "--show": "--watch",
}  # fmt: skip
_DEFAULTS = (None, "", False, 1)


def _check_options(args: argparse.Namespace) -> None:
    """Raise if an option has no effect, because that which it belongs to was not asked for."""
    for option, needed in _NEEDS.items():
        if getattr(args, option[2:]) not in _DEFAULTS and getattr(args, needed[2:]) in ([], None):
            what = f"clew run: {option} has no effect without {needed}."
            raise OptionError("option-without-effect", what, f"Add {needed}, or leave {option} out.")


def _nothing_asked(args: argparse.Namespace, run: recording.Recording) -> list[Note]:
    """A word about a run in which nothing was asked for, and nothing recorded by the program itself."""
    if _asks_for_anything(args):
        return []
    error = recording.ended_by()
    if error is not None and not (isinstance(error, SystemExit) and not error.code):
        return []  # what ended the program stands last
    reader = run.reader()
    if reader.names or reader.calls():
        return []
    what = "clew run was not told what to record, and the program recorded nothing itself."
    remedy = 'Write: clew run --watch "function: name" script.py; or use --follow, --model, --nonfinite or --items.'
    trouble.report(f"nothing-asked:{run.path}", what, remedy)
    return []


def _program(args: argparse.Namespace) -> Program:
    options = {"step": args.step, "every": args.every, "when": args.when, "show": args.show}
    return Program([parse_request(text, **options) for text in args.watch], _follows(args))


_FOR_CHILDREN = ("watch", "step", "every", "when", "show")
_FOR_FOLLOWING_CHILDREN = ("follow", "names", "depth", "only", "skip", "no_show", "keep")


def _tell_children(args: argparse.Namespace) -> None:
    """Children that multiprocessing starts afresh (`spawn`, `forkserver`) are instrumented as this process is."""
    if args.watch or args.follow:
        requests = {name: getattr(args, name) for name in (*_FOR_CHILDREN, *_FOR_FOLLOWING_CHILDREN)}
        child_processes.tell(__name__, lambda: requests)


def arrive(requests: dict[str, Any]) -> None:
    """In such a child, whose main module is imported: instrument what is there, and what will be."""
    args = argparse.Namespace(**requests)
    program = _program(args)
    program.install()
    _tell_children(args)
    for module in {id(module): module for module in list(sys.modules.values())}.values():
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and program.concerns(module.__name__, file):
            program.instrument_loaded(module)


def _items(args: argparse.Namespace) -> AbstractContextManager[Any]:
    """Around the program: the trace that was asked for, or nothing."""
    if args.items is None:
        return nullcontext()
    from clew.probes.pipeline import items

    return _Through(items(args.items, id=args.id))


_READ = "see `clew show latest --trace`"


class _Through(AbstractContextManager[Any]):
    """Says how far items came: whether the program was stopped, ran to its end, or passed no stage."""

    def __init__(self, block: Any) -> None:
        self._block = block

    def __enter__(self) -> Any:
        self._trace = self._block.__enter__()
        return self._trace

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        over = bool(self._block.__exit__(kind, error, traceback))
        if over or error is None or (isinstance(error, SystemExit) and not error.code):
            message = self._message(over)
            if message and not env.quiet():
                print(f"clew: {message}", file=sys.stderr)
        return over

    @trouble.entry_point(lambda self, over: "")
    def _message(self, over: bool) -> str:
        trace = self._trace
        if not trace.stages:
            return (
                "--items saw nothing: the program passed no stage that is known (loaders and modules of torch, Hugging "
                "Face datasets, scikit-learn, pandas). Put @clew.stage on the functions that its items pass."
            )
        items, stages = len(trace.items), len(trace.stages)
        passed = f"{items} item{'' if items == 1 else 's'} passed {stages} stage{'' if stages == 1 else 's'}"
        if over:
            return f"{passed}, and the program was stopped; {_READ}"
        if trace.altered:
            changed = "; ".join(trace.altered)
            return f"{passed}, and the program ran to its end, changed for the trace: {changed}; {_READ}"
        return f"{passed}, and the program ran to its end; {_READ}"


def _follows(args: argparse.Namespace) -> Any:
    if not args.follow:
        return None
    from clew.probes.follow import following
    from clew.probes.follow.unchanged_program import Follows

    names = tuple(split(args.names)) if args.names.strip() else ()
    how = following(names, depth=args.depth, only=args.only, skip=args.skip, show=not args.no_show, keep=args.keep)
    return Follows(args.follow, how)


def _models(args: argparse.Namespace) -> ModelsToCome | None:
    if not args.model and args.nonfinite is None:
        return None
    keep = args.keep if args.model else None
    return ModelsToCome(list(map(parse_model, args.model)), nonfinite=args.nonfinite, keep=keep)


def _ended(models: ModelsToCome | None) -> list[Note]:
    return models.finish(recording.ended_by()) if models is not None else []


def _is_ring(keep: str | None) -> bool:
    """`last 50 steps` is a tracer's word; of everything else the run keeps as by default."""
    return keep is not None and keep.endswith(("step", "steps", "iteration", "iterations"))


def _take_requests(words: list[str], ours: dict[str, list[str]]) -> list[str]:
    """`--watch "f: x"` and `--follow "m:f"` after the script, up to `--`; everything else is the script's."""
    rest: list[str] = []
    while words:
        word = words.pop(0)
        if word == "--":
            return [*rest, word, *words]
        option, equals, value = word.partition("=")
        if word in ours and words and ":" in words[0]:
            ours[word].append(words.pop(0))
        elif equals and option in ours and ":" in value:
            ours[option].append(value)
        else:
            rest.append(word)
    return rest


def _tags(pairs: list[str]) -> dict[str, Any]:
    tags: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise OptionError("bad-tag", f"--tag {pair!r} has no value.", "Write --tag lr=0.1")
        tags[key] = value
    return tags


# ---- the program -----------------------------------------------------------------------------------------------------


def _start(
    words: launch.Words, start: launch.Start | None, program: Program, around: AbstractContextManager[Any]
) -> int:
    sys.argv[:] = [words.kind or words.target, *words.rest]
    folder = env.current_folder() if start is None else start.folder
    shadows.step_aside(folder)
    if not sys.flags.safe_path:
        sys.path[0] = folder
    try:
        return _execute(lambda: launch.find_module(words.target) if start is None else start, program, around)
    finally:
        program.forget_values()


def _compiled(start: launch.Start, program: Program) -> Any:
    if start.text is None:
        assert start.code is not None
        return program.instrument(start.code, "__main__")
    source.remember_text(start.filename, start.text)
    return program.compile_main(start.text, start.filename)[0]


def _execute(find: Callable[[], launch.Start], program: Program, around: AbstractContextManager[Any]) -> int:
    """Run the program; show its exceptions as Python would."""
    try:
        start = find()
        sys.argv[0] = start.argv0
        main = start.new_main()
        code = _compiled(start, program)
        with around:
            launch.execute(code, main.__dict__)
    except launch.RefusedError:
        raise
    except SystemExit as error:
        recording.ends_with(error)
        raise
    except BaseException as error:
        recording.ends_with(error)
        traceback = _own_frames_removed(traceback_of(error))
        sys.excepthook(type(error), BaseException.with_traceback(error, traceback), traceback)
        if isinstance(error, KeyboardInterrupt):
            return _die_of_interrupt()
        return 1
    return 0


def _own_frames_removed(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback from the program's own first frame on."""
    own = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    while traceback is not None and (
        launch.is_outside(traceback.tb_frame) or os.path.realpath(traceback.tb_frame.f_code.co_filename).startswith(own)
    ):
        traceback = traceback.tb_next
    return traceback


def _die_of_interrupt() -> int:
    """Python dies of the signal itself after Ctrl-C, so that shells stop their loops; so do we, the run closed."""
    recording.close_for_good()
    sys.stdout.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
    return 130

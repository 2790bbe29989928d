"""`%load_ext clew`, `%%clew --watch x --follow f`: one notebook cell, recorded in a run of its own."""

from __future__ import annotations

import argparse
import ast
import contextlib
import inspect
import shlex
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from types import CodeType
from typing import Any, NoReturn

from clew import env, recording, trouble
from clew.errors import ClewError
from clew.probes.follow import follow, unfollow
from clew.probes.watch.notebook_cell import Cell, nearest_of, resolve
from clew.probes.watch.unchanged_program import Request, parse_request
from clew.recorder.how_calls_end import traceback_of
from clew.records import Note

HELP = """Record what happens while this cell runs, in a run of its own, and show it.

    %%clew --watch "x, y" --follow prepare
    ...

--watch "x, y"        every change of these names, in the cell and in the functions it defines
--watch "train: loss" the same in one function, of this cell or an earlier one
--follow train        every call inside this function: what went in, what came out (several: a, b)
--name N              the run's name
--tag KEY=VALUE       a tag for the run
--show                print changes and calls as they happen
"""


@trouble.entry_point()
def load_ipython_extension(ipython: Any) -> None:
    """What `%load_ext clew` calls."""
    from IPython.core.magic import no_var_expand

    @no_var_expand  # `{` and `$` in an expression are the user's own
    def clew(line: str, cell: str) -> Any:
        __tracebackhide__ = True
        return run_cell(ipython, line, cell)

    clew.__doc__ = HELP
    ipython.register_magic_function(clew, magic_kind="cell", magic_name="clew")


@trouble.entry_point()
def unload_ipython_extension(ipython: Any) -> None:
    """What `%unload_ext clew` calls."""
    ipython.magics_manager.magics["cell"].pop("clew", None)


def run_cell(shell: Any, line: str, text: str) -> Any:
    """Run a cell under the options of its first line; gives the value it ends with, for the notebook to show."""
    __tracebackhide__ = True
    from IPython.core.error import UsageError

    try:
        recorded, code, results = _begin(shell, line, text)
    except (UsageError, ClewError, SyntaxError):
        raise  # the user's own mistakes
    except Exception as error:
        trouble.failed(error, "%%clew")
        return _run_unrecorded(shell, text)
    try:
        exec(code, shell.user_global_ns, shell.user_ns)
    except BaseException as error:
        _end(recorded, error)
        raise
    _end(recorded, None)
    return None if not results or shell.displayhook.semicolon_at_end_of_expression(text) else results[-1]


def _begin(shell: Any, line: str, text: str) -> tuple[ExitStack, CodeType, list[Any]]:
    """What is closed after the cell, its code, and the list that gets its value."""
    wanted = _options(line)
    following = _Following(shell.user_ns, wanted.follow, wanted.show)
    cell = _cell(shell, text, wanted.requests if env.enabled() else [], following)
    for sentence in (*cell.unknown(), *following.unknown(cell.names)):
        _refuse(sentence)
    run = recording.start(wanted.name, tags=wanted.tags)
    with ExitStack() as recorded:
        recorded.enter_context(following)
        recorded.callback(_display, run, tree=bool(wanted.follow), names=bool(wanted.watch))
        recorded.enter_context(run)
        recorded.enter_context(cell)
        recorded.push(lambda kind, error, traceback: following.note_missing() if error is None else None)
        code, results = recorded.enter_context(cell.ready())
        return recorded.pop_all(), code, results


@trouble.entry_point()
def _end(recorded: ExitStack, error: BaseException | None) -> None:
    if error is None:
        recorded.close()
    else:
        recorded.__exit__(type(error), error, traceback_of(error))


def _run_unrecorded(shell: Any, text: str) -> Any:
    """The cell as IPython would run it, where clew has failed before it began."""
    __tracebackhide__ = True
    source = "\n" + shell.transform_cell(text)
    name = shell.compile.cache(source, shell.execution_count)
    tree = shell.transform_ast(shell.compile.ast_parse(source, name))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(shell.compile(tree, name, "exec"), shell.user_global_ns, shell.user_ns)
    if last is None:
        return None
    value = eval(shell.compile(ast.Expression(last.value), name, "eval"), shell.user_global_ns, shell.user_ns)
    return None if shell.displayhook.semicolon_at_end_of_expression(text) else value


def _cell(shell: Any, text: str, requests: list[Request], following: _Following) -> Cell:
    """The cell as it stands below its first line, so that line numbers are the notebook's own."""
    source = "\n" + shell.transform_cell(text)
    name = shell.compile.cache(source, shell.execution_count)
    tree = shell.transform_ast(shell.compile.ast_parse(source, name))
    if not tree.body:
        _refuse("there is nothing in this cell to run.")
    if _awaits(tree, name):
        _refuse("a cell that awaits at its own level cannot be recorded; put that into a function and watch it there.")
    code: CodeType = shell.compile(tree, name, "exec")
    where = f"<cell line: {tree.body[0].lineno}>"  # as IPython names it
    return Cell(tree, code.replace(co_name=where, co_qualname=where), requests, shell.user_ns, following.defined)


def _awaits(tree: ast.Module, name: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said again when it is compiled to run
        code = compile(tree, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    return bool(code.co_flags & inspect.CO_COROUTINE)


def _display(run: recording.Recording, *, tree: bool, names: bool) -> None:
    from IPython import display

    if run.folder is None:
        return
    show: Any = display.display
    reader = run.reader()
    if tree:
        show(reader.tree())
    if names:
        show(reader)


# ---- --follow --------------------------------------------------------------------------------------------------------


class _Following:
    """The functions named by `--follow`: those that are there from the beginning, others once they are defined."""

    def __init__(self, namespace: dict[str, Any], names: list[str], show: bool) -> None:
        self._namespace = namespace
        self._names = names
        self._show = show
        self._followed: dict[int, Any] = {}
        self._done: set[str] = set()
        self._failed: dict[str, str] = {}

    def unknown(self, bound: list[str]) -> Iterator[str]:
        """A sentence for each name that is neither there nor going to be."""
        for name in self._names:
            if name.split(".")[0] not in bound and resolve(self._namespace, name) is None:
                known = [*bound, *(key for key, value in self._namespace.items() if callable(value))]
                yield f"--follow {name}: there is no `{name}` in this cell or before it; {nearest_of(name, known)}"

    def __enter__(self) -> None:
        for name in self._names:
            if resolve(self._namespace, name) is not None:
                self._begin(name)
        if self._failed:
            self.__exit__()
            _refuse(next(iter(self._failed.values())))

    def __exit__(self, *_: object) -> None:
        for target in self._followed.values():
            unfollow(target)

    def note_missing(self) -> None:
        """In the ledger: what the cell was to define, and did not."""
        for name in self._names:
            why = self._failed.get(name) or ("" if name in self._done else "it was never defined.")
            if why:
                recording.recorder().note(Note("never-seen", name, f"--follow {name}: {why}"))

    def defined(self, bound: str) -> None:
        for name in self._names:
            if name.split(".")[0] == bound:
                self._begin(name)

    def _begin(self, name: str) -> None:
        target = resolve(self._namespace, name)
        if target is None or id(target) in self._followed:
            return
        try:
            follow(show=self._show)(target)
        except ClewError as error:
            self._failed[name] = str(error)
        else:
            self._followed[id(target)] = target
            self._done.add(name)


# ---- the first line --------------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        _refuse(f"{message}; the options are --watch, --follow, --name, --tag and --show.")


class _Options(argparse.Namespace):
    watch: list[str]
    follow: list[str]
    name: str | None
    tags: dict[str, str]
    show: bool
    requests: list[Request]


def _parser() -> _Parser:
    parser = _Parser(prog="%%clew", add_help=False, allow_abbrev=False)
    parser.add_argument("--watch", action="append", default=[])
    parser.add_argument("--follow", action="append", default=[])
    parser.add_argument("--name")
    parser.add_argument("--tag", action="append", default=[])
    parser.add_argument("--show", action="store_true")
    return parser


def _options(line: str) -> _Options:
    try:
        words = shlex.split(line)
    except ValueError as error:
        _refuse(f"{str(error).lower()} in: {line}")
    wanted = _parser().parse_args(words, namespace=_Options())
    if not wanted.watch and not wanted.follow:
        _refuse("say what to record: --watch NAMES, or --follow FUNCTION.")
    wanted.follow = [name.strip() for names in wanted.follow for name in names.split(",") if name.strip()]
    wanted.tags = {}
    for pair in wanted.tag:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            _refuse(f"--tag {pair!r} has no value; write --tag lr=0.1")
        wanted.tags[key] = value
    with _errors_as_one_line():
        wanted.requests = [parse_request(text, show=wanted.show) for text in wanted.watch]
    return wanted


@contextlib.contextmanager
def _errors_as_one_line() -> Iterator[None]:
    try:
        yield
    except ClewError as error:
        _refuse(str(error))


def _refuse(message: str) -> NoReturn:
    """One line, without a traceback."""
    from IPython.core.error import UsageError

    raise UsageError(f"%%clew: {message}") from None

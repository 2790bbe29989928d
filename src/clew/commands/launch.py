"""Starts a program as `python` does: a script, a folder or zip file, `-m module`, `-c code`, or `-` for stdin.

The program sees the same `__main__`, `sys.argv` and `sys.path[0]`; what cannot be started is refused in Python's words.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import os
import pkgutil
import runpy
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.machinery import BuiltinImporter, ModuleSpec, SourceFileLoader, SourcelessFileLoader
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from clew import env


class RefusedError(Exception):
    """The program cannot be started: what Python says, and its exit status."""

    def __init__(self, what: str, status: int) -> None:
        super().__init__(f"{sys.executable}: {what}")
        self.status = status


@dataclass(slots=True)
class Start:
    """What is run, and what it sees."""

    argv0: str
    folder: str  # the first of sys.path
    filename: str
    text: bytes | str | None  # the source; None if there is only code
    code: CodeType | None = None
    names: dict[str, Any] = field(default_factory=dict)  # in `__main__`, besides those that are always there

    def new_main(self) -> ModuleType:
        main = ModuleType("__main__")
        if sys.version_info < (3, 14):
            main.__dict__.update(__annotations__={})
        main.__dict__.update(__builtins__=builtins, __loader__=BuiltinImporter)
        main.__dict__.update(self.names)
        if sys.version_info >= (3, 15):
            main.__dict__.pop("__cached__", None)
        sys.modules["__main__"] = main
        return main


@dataclass(frozen=True, slots=True)
class Words:
    """The part of a command line that Python would get."""

    kind: str  # "-m", "-c", "-" or "" for a script
    target: str
    rest: list[str]

    def name(self) -> str:
        """What a run of it is called."""
        if self.kind == "-m":
            return self.target.rpartition(".")[2]
        return {"-c": "command", "-": "stdin"}.get(self.kind) or Path(self.target).stem


def words_of(words: Sequence[str]) -> Words | None:
    """Understands words as Python does; None if there is no program among them."""
    if not words:
        return None
    first, *rest = words
    if first == "--" and rest:
        return words_of(rest)
    if first in ("-m", "-c"):
        return Words(first, rest[0], rest[1:]) if rest else None
    if first.startswith(("-m", "-c")):
        return Words(first[:2], first[2:], rest)
    return Words("-" if first == "-" else "", first, rest)


#: What Python names for a warning that was raised from above the program's outermost frame.
_ABOVE = ("<sys>", 0) if sys.version_info >= (3, 13) else ("sys", 1)
_DEPTH = 8  # so many levels


def execute(code: CodeType, names: dict[str, Any]) -> None:
    """Run the program's code beneath frames that warnings take for the outside of it, as under plain Python."""
    text = (
        "lambda again, left, run, code, names: again(again, left - 1, run, code, names) if left else run(code, names)"
    )
    made = next(const for const in compile(text, _ABOVE[0], "eval").co_consts if isinstance(const, CodeType))
    outside = FunctionType(made.replace(co_firstlineno=_ABOVE[1]), vars(sys))
    outside(outside, _DEPTH, exec, code, names)


def is_outside(frame: FrameType) -> bool:
    """Whether it is one of these frames."""
    return frame.f_globals is vars(sys)


def find(words: Words) -> Start:
    """What is to run; nothing of it runs yet. A module is found by `find_module`."""
    if words.kind == "-c":
        return Start("-c", "", "<string>", words.target)
    if words.kind == "-":
        names = {"__file__": "<stdin>", "__cached__": None}
        return Start("-", "", "<stdin>", sys.stdin.buffer.read(), names=names)
    path = os.path.join(env.current_folder(), words.target)
    return _script(path, words.target) if pkgutil.get_importer(path) is None else _folder(path, words.target)


def _script(path: str, argv0: str) -> Start:
    names = {"__file__": path, "__cached__": None}
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise RefusedError(f"can't open file {path!r}: [Errno {error.errno}] {error.strerror}", 2) from None
    folder = os.path.dirname(os.path.realpath(path))
    if path.endswith(".pyc"):
        compiled = SourcelessFileLoader("__main__", path)
        code = compiled.get_code("__main__")
        return Start(argv0, folder, path, None, code, {"__loader__": compiled, **names})
    return Start(argv0, folder, path, text, names={"__loader__": SourceFileLoader("__main__", path), **names})


def _folder(path: str, argv0: str) -> Start:
    spec = importlib.machinery.PathFinder.find_spec("__main__", [path])
    if spec is None or spec.loader is None:
        raise RefusedError(f"can't find '__main__' module in {path!r}", 1)
    return _of_spec(spec, argv0, path)


def find_module(name: str) -> Start:
    """The module that `-m` names. The packages around it are imported."""
    try:
        _, spec, _ = runpy._get_module_details(name, runpy._Error)  # type: ignore[attr-defined]
    except runpy._Error as error:  # type: ignore[attr-defined]
        raise RefusedError(str(error), 1) from None
    return _of_spec(spec, spec.origin or "", sys.path[0])


def _of_spec(spec: ModuleSpec, argv0: str, folder: str) -> Start:
    loader: Any = getattr(spec.loader, "plain", spec.loader)  # not the one that instruments
    spec.loader = loader
    text = loader.get_source(spec.name)
    code = loader.get_code(spec.name) if text is None else None
    names = {
        "__loader__": loader, "__package__": spec.parent, "__spec__": spec,
        "__file__": spec.origin, "__cached__": spec.cached,
    }  # fmt: skip
    return Start(argv0, folder, spec.origin or "", text, code, names)

"""Watching a program nobody has changed: code is rewritten as it is loaded, before it runs.

`clew run --watch "train: loss"` installs a finder for imported modules and instruments the script itself. The very same
rewriting is used as for decorated functions; only the way to the code object differs.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib.machinery
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any, Protocol

from clew import recording
from clew.errors import nearest
from clew.probes.libraries import is_library
from clew.recorder.live import LiveCall
from clew.recorder.plan import Plan
from clew.records import Note

from . import compilers, effects, engine, ignore, runtime, source
from .assemble import patched
from .expressions import Form, parse, roots
from .options import Options, options
from .rewrite import rewrite_module

_REQUEST = re.compile(r"\s*([A-Za-z_*?<][\w.*?<>]*(?::[\w.*?<>]+)?)\s*:(?!=)\s*(.+)", re.DOTALL)


@dataclass(frozen=True, eq=False, slots=True)
class Request:
    """One `--watch`: which functions, and what in them."""

    pattern: str
    options: Options
    text: str

    def matches(self, module: str, qualname: str) -> bool:
        names = names_of(module, qualname)
        return any(name == self.pattern or fnmatchcase(name, self.pattern) for name in names)

    def names_module(self, module: str) -> bool:
        """Whether the pattern asks for this very module, standard library or not."""
        return self.pattern.startswith((f"{module}.", f"{module}:"))


def names_of(module: str, qualname: str) -> set[str]:
    """What a function may be called by."""
    plain = qualname.replace(".<locals>", "")
    return {qualname, plain, plain.rpartition(".")[2], f"{module}.{plain}", f"{module}:{plain}"}


class Follows(Protocol):
    """What is known of functions to follow; see probes/calls/program.py."""

    def of(self, module: str, qualname: str) -> engine.Follow | None: ...
    def names_module(self, module: str) -> bool: ...
    def ledger(self) -> list[Note]: ...


def parse_request(text: str, **more: Any) -> Request:
    """Read `function: expression, expression`; without a function, any function that has the names."""
    match = _REQUEST.fullmatch(text)
    pattern, rest = match.groups() if match else ("*", text)
    return Request(pattern, options(tuple(split(rest)), **more), text.strip())


def split(text: str) -> Iterator[str]:
    """Expressions between commas that are not inside brackets or quotes."""
    piece = ""
    for part in text.split(","):
        piece = f"{piece},{part}" if piece else part
        if piece.strip() == "*" or _complete(piece):
            yield piece.strip()
            piece = ""
    if piece.strip():
        parse(piece)  # raises, naming it
        yield piece.strip()


def _complete(text: str) -> bool:
    try:
        ast.parse(text.strip(), mode="eval")
    except SyntaxError:
        return False
    return True


class Program:
    """Everything one `clew run` instruments, and what of its requests found nothing."""

    def __init__(self, requests: Sequence[Request], follows: Follows | None = None) -> None:
        self.requests = list(requests)
        self._follows = follows
        self._matched: set[Request] = set()
        self._known: set[str] = set()
        self._finder = _Finder(self)

    def install(self) -> None:
        sys.meta_path.insert(0, self._finder)

    def concerns(self, module: str, filename: str) -> bool:
        """User code, or a library module that a request names."""
        if any(request.names_module(module) for request in self.requests):
            return True
        if self._follows is not None and self._follows.names_module(module):
            return True
        return not is_library(filename)

    def instrument(self, code: CodeType, module: str) -> CodeType:
        """A module's code with every function that is asked for rewritten."""
        consts = tuple(self._function(c, module) if isinstance(c, CodeType) else c for c in code.co_consts)
        return code.replace(co_consts=consts)

    def _function(self, code: CodeType, module: str) -> CodeType:
        new = code
        if engine.is_function(code):
            self._known.add(code.co_qualname.replace(".<locals>", ""))
            matching = [r for r in self.requests if r.matches(module, code.co_qualname)]
            wanted = [(r, part) for r in matching if (part := narrowed(code, r)) is not None]
            follow = self._to_follow(code, module)
            if wanted or follow is not None:
                new = self._rewritten(code, module, wanted, follow)
            if follow is not None:
                return new  # what is defined in it is followed already
        consts = tuple(self._function(c, module) if isinstance(c, CodeType) else c for c in new.co_consts)
        return new.replace(co_consts=consts)

    def _to_follow(self, code: CodeType, module: str) -> engine.Follow | None:
        if self._follows is None:
            return None
        found = self._follows.of(module, code.co_qualname)
        if found is None and module == "__main__":  # a script may be called by its own name
            found = self._follows.of(os.path.splitext(os.path.basename(code.co_filename))[0], code.co_qualname)
        return found

    def _rewritten(
        self, code: CodeType, module: str, wanted: list[tuple[Request, Options]], follow: engine.Follow | None = None
    ) -> CodeType:
        self._matched.update(request for request, _ in wanted)
        found = source.find(code)
        group = f"`{wanted[0][0].pattern}`" if wanted else None
        requests = [options for _, options in wanted]
        if isinstance(found, source.Unknown):
            made: Any = found
        elif follow is not None and not requests and engine.is_lean(code, follow):
            made = follow.lean(code, found, module, follow)
        else:
            made = engine.rewrite_code(code, found, requests, module, group, follow)
        if isinstance(made, source.Unknown):
            recording.note_later(Note("fallback", code.co_qualname, f"not watched: {made.reason}."))
            return code
        new: CodeType = made[0]
        plan: Plan = made[1]
        plan.owners.add(self)
        compilers.exempt(new)
        return new

    # ---- the script's own level -----------------------------------------------------------------------------------

    def compile_main(self, text: str | bytes, filename: str, module: str = "__main__") -> tuple[CodeType, Plan | None]:
        """The script's code, its functions and, where asked for, its module level instrumented."""
        plain = compile(text, filename, "exec", dont_inherit=True)
        wanted = [r for r in self.requests if r.matches(module, "<module>")]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, filename)
        own = effects.bound_names(tree)
        wanted = [r for r in wanted if _wants(r, own)]
        if not wanted:
            return self.instrument(plain, module), None
        self._matched.update(wanted)
        code, plan = self._module_level(tree, plain, own, wanted, module)
        return self.instrument(code, module), plan

    def _module_level(
        self, tree: ast.Module, plain: CodeType, own: list[str], wanted: list[Request], module: str
    ) -> tuple[CodeType, Plan]:
        lines = source.lines_of(plain.co_filename)
        items, watched, hooks = engine.items_for(own, effects.bound_elsewhere(tree), [r.options for r in wanted])
        rewritten = rewrite_module(tree, items, ignore.ignorer(lines))
        plan = Plan(
            "<module>", module, plain.co_filename, 1, watched, rewritten.lines, rewritten.ignored,
            dedupe=hooks is None, hooks=hooks, group=f"`{wanted[0].pattern}`",
        )  # fmt: skip
        plan.locals = own
        plan.from_star = any(e.form is Form.ALL for r in wanted for e in r.options.expressions)
        plan.owners.add(self)
        flags = plain.co_flags & source.FUTURES
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = compile(rewritten.module, plain.co_filename, "exec", flags=flags, dont_inherit=True)
        enter = partial(runtime.enter_hooked if hooks is not None else runtime.enter, plan)
        return patched(code, plan, engine.objects(enter)), plan

    def ledger(self) -> list[Note]:
        """A line for each request that matched no function at all."""
        notes = self._follows.ledger() if self._follows is not None else []
        for request in self.requests:
            if request not in self._matched:
                hint = nearest(request.pattern.rpartition(".")[2], sorted(self._known)) if self._known else ""
                names = ", ".join(f"`{e.text}`" for e in request.options.expressions)
                what = f"no function matches `{request.pattern}`" if request.pattern != "*" else "no function has"
                text = f"--watch {request.text!r}: {what} {names if request.pattern == '*' else ''}".rstrip()
                notes.append(Note("never-seen", request.text, f"{text}; {hint}" if hint else f"{text}."))
        return notes


def forget_names(namespace: dict[str, Any]) -> None:
    """Take the names that module-level instrumentation used out of the script's globals."""
    for name in [name for name in namespace if name.startswith(".clew_")]:
        call = namespace.pop(name)
        if isinstance(call, LiveCall):
            call.tracked.clear()


def _wants(request: Request, own: list[str]) -> bool:
    """A request for any function concerns the module level only if a name is bound there."""
    return any(e.form is Form.ALL or roots(e) & set(own) for e in request.options.expressions)


def narrowed(code: CodeType, request: Request) -> Options | None:
    """For `*: loss, acc`, the part that concerns names of this function; a function that was named is asked for all."""
    if request.pattern not in ("*", "**"):
        return request.options
    own = {*code.co_varnames, *code.co_cellvars}
    held = tuple(e for e in request.options.expressions if e.form is Form.ALL or roots(e) & own)
    return dataclasses.replace(request.options, expressions=held) if held else None


class _Finder:
    """Finds modules as Python does, and gives those that are concerned a loader that instruments."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target)
        if (
            spec is not None
            and type(spec.loader) is SourceFileLoader
            and spec.origin is not None
            and self._program.concerns(name, spec.origin)
        ):
            spec.loader = _Loader(spec.loader.name, spec.loader.path, self._program)
        return spec

    def invalidate_caches(self) -> None:
        importlib.machinery.PathFinder.invalidate_caches()


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, program: Program) -> None:
        super().__init__(name, path)
        self._program = program

    def get_code(self, fullname: str) -> CodeType | None:
        """Always from the source: what is cached on disk is for plain Python, and must stay so."""
        path = self.get_filename(fullname)
        code: CodeType = compile(self.get_data(path), path, "exec", dont_inherit=True)
        return self._program.instrument(code, fullname)

"""Watching a program nobody has changed: code is rewritten as it is loaded, before it runs.

`clew run --watch "train: loss"` installs a finder for imported modules and instruments the script itself. The very same
rewriting is used as for decorated functions; only the way to the code object differs.
"""

from __future__ import annotations

import ast
import dataclasses
import gc
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from importlib.machinery import ExtensionFileLoader, ModuleSpec, SourceFileLoader
from types import CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any, Protocol, TypeVar

from clew import recording, trouble
from clew.instrument import (
    compilers,
    effects,
    engine,
    events,
    ignored_lines,
    parsing,
    pickling,
    received_functions,
    runtime,
    source,
    syntax_trees,
)
from clew.instrument.assembling import patched
from clew.instrument.expressions import Form, parse, roots
from clew.instrument.library_code import is_library
from clew.instrument.options import Options, options
from clew.instrument.rewrite import rewrite_module
from clew.instrument.silent_compilation import no_warnings
from clew.instrument.watched_items import items_for
from clew.probes.suggestions import functions_hint
from clew.recorder.live_call import LiveCall
from clew.recorder.plan import Plan
from clew.records import Note

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
    """What is known of functions to follow; see probes/follow/unchanged_program.py."""

    def of(self, module: str, qualname: str) -> engine.Follow | None: ...
    def names_module(self, module: str) -> bool: ...
    def ledger(self, loaded_before: Collection[str]) -> list[Note]: ...


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
        parsing.parse(text.strip(), mode="eval")
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
        self._loaded_before: frozenset[str] = frozenset()
        self._at_module_level: list[str] = []
        self._finder = _Finder(self)
        self._boxes: list[SimpleNamespace] = []

    def install(self) -> None:
        self._loaded_before = frozenset(sys.modules)
        sys.meta_path.insert(0, self._finder)
        received_functions.on_arrival(self._instrument_arrived)

    def concerns(self, module: str, filename: str) -> bool:
        """User code, or a library module that a request names."""
        if any(request.names_module(module) for request in self.requests):
            return True
        if self._follows is not None and self._follows.names_module(module):
            return True
        return not is_library(filename)

    def instrument(self, code: CodeType, module: str) -> CodeType:
        """A module's code with every function that is asked for rewritten."""
        return _with_constants(code, lambda inner: self._function(inner, module))

    def instrument_loaded(self, module: ModuleType) -> None:
        """The same for a module that is there already, its functions made."""
        name = "__main__" if module.__name__ == "__mp_main__" else module.__name__
        for function in _functions_of(module):
            new = self._function(function.__code__, name)
            if new is not function.__code__:
                function.__code__ = new

    def _instrument_arrived(self, function: FunctionType) -> None:
        module, code = function.__module__ or "", function.__code__
        if self.concerns(module, code.co_filename):
            function.__code__ = self._function(code, module)

    def _function(self, code: CodeType, module: str) -> CodeType:
        new = code
        if not engine.is_function(code):
            return _with_constants(code, lambda inner: self._function(inner, module))
        self._known.add(code.co_qualname.replace(".<locals>", ""))
        matching = [r for r in self.requests if r.matches(module, code.co_qualname)]
        wanted = [(r, part) for r in matching if (part := narrowed(code, r)) is not None]
        follow = self._to_follow(code, module)
        made = self._made(code, module, wanted, follow) if wanted or follow is not None else None
        asked: list[tuple[Options, str | None]] = []
        if isinstance(made, tuple):
            new, plan = made
            plan.owners.add(self)
            plan.at_module_level = self._at_module_level if module == "__main__" else []
            compilers.exempt(new)
            asked = [(options, _group(wanted)) for _, options in wanted]
            if follow is not None:
                pickling.remember(new, code)
                engine.remember_original(new, code, asked, follow)
                return new  # what is defined in it is followed already
        new = _with_constants(new, lambda inner: self._function(inner, module))
        if new is not code:
            pickling.remember(new, code)
            engine.remember_original(new, code, asked)
        if isinstance(made, source.Unknown):
            self._without_source(new, module, wanted, made.reason)
        return new

    def _to_follow(self, code: CodeType, module: str) -> engine.Follow | None:
        if self._follows is None:
            return None
        found = self._follows.of(module, code.co_qualname)
        if found is None and module == "__main__":  # a script may be called by its own name
            found = self._follows.of(os.path.splitext(os.path.basename(code.co_filename))[0], code.co_qualname)
        return None if found is None else found._replace(root_inside=self._root_of)

    def _root_of(self, code: CodeType, module: str | None) -> Any:
        follow = self._to_follow(code, module or "")
        return None if follow is None else follow.root

    def _made(
        self, code: CodeType, module: str, wanted: list[tuple[Request, Options]], follow: engine.Follow | None
    ) -> tuple[CodeType, Plan] | source.Unknown:
        self._matched.update(request for request, _ in wanted)
        found = source.find(code)
        requests = [options for _, options in wanted]
        if isinstance(found, source.Unknown):
            return found
        if follow is not None and not requests and engine.is_lean(code, follow):
            made: tuple[CodeType, Plan] | source.Unknown = follow.lean(code, found, module, follow)
            return made
        return engine.rewrite_code(code, found, requests, module, _group(wanted), follow)

    def _without_source(self, code: CodeType, module: str, wanted: list[tuple[Request, Options]], reason: str) -> None:
        how = f"its calls are not followed: {reason}."
        if wanted:
            plan = events.attach(code, module, [options for _, options in wanted], _group(wanted))
            plan.owners.add(self)
            how = f"watched by interpreter events: {reason}."
        recording.note_later(Note("fallback", code.co_qualname, how))

    # ---- the script's own level -----------------------------------------------------------------------------------

    def compile_main(self, text: str | bytes, filename: str, module: str = "__main__") -> tuple[CodeType, Plan | None]:
        """The script's code, its functions and, where asked for, its module level instrumented."""
        plain = compile(text, filename, "exec", dont_inherit=True)
        wanted = [r for r in self.requests if r.matches(module, "<module>")]
        with no_warnings():
            tree = parsing.parse(text, filename)
        own = self._at_module_level = effects.bound_names(tree)
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
        items, watched, hooks = items_for(own, effects.bound_elsewhere(tree), [r.options for r in wanted])
        rewritten = rewrite_module(tree, items, ignored_lines.ignorer(lines))
        plan = Plan(
            "<module>", module, plain.co_filename, 1, watched, rewritten.lines, rewritten.ignored,
            dedupe=hooks is None, hooks=hooks, group=f"`{wanted[0].pattern}`",
        )  # fmt: skip
        plan.source = partial("".join, lines)
        plan.locals = own
        plan.from_star = any(e.form is Form.ALL for r in wanted for e in r.options.expressions)
        plan.owners.add(self)
        flags = plain.co_flags & source.FUTURES
        with no_warnings():
            code = compile(_InBox().visit(rewritten.module), plain.co_filename, "exec", flags=flags, dont_inherit=True)
        enter = partial(runtime.enter_hooked if hooks is not None else runtime.enter, plan)
        self._boxes.append(box := SimpleNamespace())
        return patched(code, plan, {**engine.objects(enter, plan), _BOX: box}), plan

    def forget_values(self) -> None:
        """The program is over: let go of what its module level held."""
        for box in self._boxes:
            for value in vars(box).values():
                if isinstance(value, LiveCall):
                    value.tracked.clear()
            vars(box).clear()

    def ledger(self) -> list[Note]:
        """A line for each request that matched no function at all."""
        notes = self._follows.ledger(self._loaded_before) if self._follows is not None else []
        for request in self.requests:
            if request not in self._matched:
                hint = "" if request.pattern == "*" else self._hint(request)
                names = ", ".join(f"`{e.text}`" for e in request.options.expressions)
                what = f"no function matches `{request.pattern}`" if request.pattern != "*" else "no function has"
                text = f"--watch {request.text!r}: {what} {names if request.pattern == '*' else ''}".rstrip()
                notes.append(Note("never-seen", request.text, f"{text}; {hint}" if hint else f"{text}."))
        return notes

    def _hint(self, request: Request) -> str:
        expressions = request.options.expressions
        if expressions and all(roots(e) & set(self._at_module_level) for e in expressions):
            return f"did you mean `<module>: {', '.join(e.text for e in expressions)}`?"
        return functions_hint(request.pattern, self._known, self._loaded_before)


_BOX = "box"


class _InBox(ast.NodeTransformer):
    """clew's own variables as attributes of an object of its own: a module's names are for everybody to see."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if not node.id.startswith(".clew_"):
            return node
        box = ast.copy_location(syntax_trees.marked(_BOX), node)
        return ast.copy_location(ast.Attribute(box, node.id[1:], node.ctx), node)


def _group(wanted: list[tuple[Request, Options]]) -> str | None:
    """What the ledger calls the functions of one request."""
    return f"`{wanted[0][0].pattern}`" if wanted else None


def _with_constants(code: CodeType, instrumented: Callable[[CodeType], CodeType]) -> CodeType:
    """The code with the code inside it instrumented; itself if nothing was."""
    consts = tuple(instrumented(c) if isinstance(c, CodeType) else c for c in code.co_consts)
    unchanged = all(new is old for new, old in zip(consts, code.co_consts, strict=True))
    return code if unchanged else code.replace(co_consts=consts)


def _functions_of(module: ModuleType) -> list[FunctionType]:
    """Every function defined in a module, wherever it is held: each refers to the module's names."""
    namespaces = [vars(module)]
    if module.__name__ == "__mp_main__":  # it holds what runpy has made under other, equal names
        values = list(vars(module).values())
        values += [value for each in values if type(each) is type for value in vars(each).values()]
        made = {id(f.__globals__): f.__globals__ for f in values if type(f) is FunctionType}
        namespaces += [names for names in made.values() if names.get("__name__") == module.__name__]
    return [each for each in gc.get_referrers(*namespaces) if type(each) is FunctionType]


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


_F = TypeVar("_F", bound=Callable[..., Any])


def _as_import_machinery(function: _F) -> _F:
    """Python leaves frames of its own import machinery out of tracebacks and warnings: these are taken for such."""
    assert isinstance(function, FunctionType)
    function.__code__ = function.__code__.replace(co_filename="<frozen importlib._bootstrap_external>")
    return function


class _Finder:
    """Finds modules as Python does, and gives those that are concerned a loader that instruments.

    It stands before all other finders, those of other programs excepted, and asks those behind it: pytest puts its own,
    which rewrites asserts, before all others.
    """

    def __init__(self, program: Program) -> None:
        self._program = program

    @_as_import_machinery
    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        self._step_forward()
        spec = self._found_by_others(name, path, target)
        loader = None if spec is None else spec.loader
        if spec is not None and spec.origin and spec.has_location and self._program.concerns(name, spec.origin):
            if type(loader) is SourceFileLoader:
                spec.loader = _Loader(loader, self._program)
            elif hasattr(loader, "exec_module") and not isinstance(loader, ExtensionFileLoader):
                spec.loader = _LoadedByOthers(loader, self._program)  # type: ignore[assignment]
        return spec

    def _step_forward(self) -> None:
        if sys.meta_path and type(sys.meta_path[0]) is not _Finder and self in sys.meta_path:
            sys.meta_path.remove(self)
            sys.meta_path.insert(0, self)

    @_as_import_machinery
    def _found_by_others(self, name: str, path: Any, target: ModuleType | None) -> ModuleSpec | None:
        finders: list[Any] = list(sys.meta_path)
        for finder in finders[finders.index(self) + 1 :] if self in finders else finders:
            find_spec = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find_spec is None else find_spec(name, path, target)
            if spec is not None or type(finder) is _Finder:
                return spec  # another program's has asked all that stand behind it
        return None

    def invalidate_caches(self) -> None:
        """The other finders are told as well."""


class _Loader(SourceFileLoader):
    """In the place of Python's own loader until the module's code runs: nobody sees it."""

    def __init__(self, plain: SourceFileLoader, program: Program) -> None:
        super().__init__(plain.name, plain.path)
        self.plain = plain
        self._program = program

    @_as_import_machinery
    def get_code(self, fullname: str) -> CodeType | None:
        """Always from the source: what is cached on disk is for plain Python, and must stay so."""
        module = sys.modules.get(fullname)
        if module is None or getattr(module.__spec__, "loader", None) is not self:
            return self.plain.get_code(fullname)  # somebody asks, and does not load it
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        assert module.__spec__ is not None
        module.__loader__ = module.__spec__.loader = self.plain
        program: Program = self._program
        return program.instrument(code, fullname)


class _LoadedByOthers:
    """In the place of a loader that makes code in its own way, until the module is loaded: nobody sees it."""

    def __init__(self, loader: Any, program: Program) -> None:
        self.plain = self._loader = loader
        self._program = program

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    @_as_import_machinery
    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        create = getattr(self._loader, "create_module", None)
        module: ModuleType | None = create(spec) if create is not None else None
        return module

    @_as_import_machinery
    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        try:
            self._remember_text(module)
            self._program.instrument_loaded(module)
        except Exception as error:
            trouble.failed(error, f"instrumenting {module.__name__}")

    def _remember_text(self, module: ModuleType) -> None:
        """What is in a zip file has no file of its own."""
        file = getattr(module, "__file__", None)
        text = None if file is None or os.path.exists(file) else self._loader.get_source(module.__name__)
        if text is not None and file is not None:
            source.remember_text(file, text)

"""From a running code object to the syntax tree it was made of, verified: what is found is what is running.

The tree of one function is compiled alone, inside a wrapper that gives it the free variables and the class it had.
Compiling the *unchanged* tree that way must give the running code again; otherwise the source is not the source
(edited since, rewritten by a test runner, made by exec) and the answer is a reason, never a guess.
"""

from __future__ import annotations
import __future__

import ast
import importlib.util
import inspect
import linecache
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType

from clew.instrument.library_code import is_library

from . import grammar, parsing
from .silent_compilation import no_warnings

FUTURES = 0
for _name in __future__.all_feature_names:
    FUTURES |= getattr(__future__, _name).compiler_flag

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_NO_EVENTS, _HAS_DOCSTRING, _METHOD = 0x2000000, 0x4000000, 0x8000000  # since 3.13, 3.14 and 3.14
# flags that the code around a function decides: nested in a function, made awaitable by types.coroutine(), in a class
OUTER_FLAGS = inspect.CO_NESTED | inspect.CO_ITERABLE_COROUTINE | _METHOD
_KNOWN_FLAGS = 0x3FF | FUTURES | _NO_EVENTS | _HAS_DOCSTRING | _METHOD


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why there is no answer."""

    reason: str
    blind: bool = False  # it is clew that does not understand this Python, whatever the source


@dataclass(frozen=True, slots=True)
class Context:
    """What around a function decides how it is compiled."""

    class_name: str | None  # private names are mangled with it
    imports: tuple[str, ...]  # methods of imported modules are called by other instructions


@dataclass(frozen=True, slots=True)
class Found:
    """A function's tree, and the names of the classes around it (for private names)."""

    node: FunctionNode
    context: Context
    lines: list[str]  # the file's

    def text(self) -> str:
        """Its own lines, decorators included."""
        first = min([self.node.lineno, *(d.lineno for d in getattr(self.node, "decorator_list", ()))])
        return "".join(self.lines[first - 1 : self.node.end_lineno])


class _File:
    """One parsed file: its functions by the line their code starts at."""

    def __init__(self, lines: list[str], transform: Callable[[ast.Module, bytes], object] | None = None) -> None:
        self.lines = lines
        text = "".join(lines)
        with no_warnings():
            tree = parsing.parse(text)
            if transform is not None:
                transform(tree, text.encode())
        imports = tuple(sorted(_module_level_imports(tree)))
        self.functions: dict[int, list[tuple[FunctionNode, Context]]] = {}
        stack: list[tuple[ast.AST, str | None]] = [(tree, None)]
        while stack:
            node, class_name = stack.pop()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
                self.functions.setdefault(first, []).append((node, Context(class_name, imports)))
            inner = node.name if isinstance(node, ast.ClassDef) else class_name
            stack.extend((child, inner) for child in ast.iter_child_nodes(node))


def _module_level_imports(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    stack: list[ast.AST] = list(tree.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            names.update((alias.asname or alias.name).partition(".")[0] for alias in node.names if alias.name != "*")
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            stack.extend(ast.iter_child_nodes(node))
    return names


_files: dict[str, _File] = {}
_test_files: dict[str, tuple[_File, _File | None]] = {}  # as pytest runs them
_lock = threading.Lock()


_texts: dict[str, list[str]] = {}  # of what is in no file


def remember_text(filename: str, text: str | bytes) -> None:
    """The source of code that is in no file of its own: from stdin, a command line or a zip file."""
    if not os.path.exists(filename):
        decoded = text if isinstance(text, str) else importlib.util.decode_source(text)
        _texts[filename] = decoded.splitlines(keepends=True)


def is_remembered(filename: str) -> bool:
    return filename in _texts


def _file(filename: str, module_globals: dict[str, object] | None) -> _File | Unknown:
    linecache.checkcache(filename)
    lines = linecache.getlines(filename, module_globals) or _texts.get(filename, [])
    if not lines:
        return Unknown(f"no source for {filename}")
    with _lock:
        known = _files.get(filename)
        if known is None or known.lines != lines:
            try:
                known = _File(lines)
            except (SyntaxError, ValueError, RecursionError) as error:
                return Unknown(f"{filename} does not parse: {error}")
            _files[filename] = known
        return known


def _as_pytest_runs_it(filename: str, file: _File) -> _File | None:
    """The same file with its asserts as pytest rewrites them, if that is loaded."""
    pytest = sys.modules.get("_pytest.assertion.rewrite")
    if pytest is None or not any("assert" in line for line in file.lines):
        return None
    known = _test_files.get(filename)
    if known is None or known[0] is not file:
        try:
            known = file, _File(file.lines, pytest.rewrite_asserts)
        except Exception:  # another version of pytest: then the source is not found, and that is said
            known = file, None
        _test_files[filename] = known
    return known[1]


def is_written(code: CodeType) -> bool:
    """Whether a function stands in the source. Since Python 3.14 the compiler makes functions that evaluate
    annotations, type aliases and the bounds of type parameters when they are asked for."""
    first = code.co_varnames[0] if code.co_posonlyargcount == 1 else ""
    return not (first == ".format" or (first == "format" and code.co_name == "__annotate__"))


def lines_of(filename: str) -> list[str]:
    """The lines of a file, as the interpreter would show them."""
    return linecache.getlines(filename) or _texts.get(filename, [])


_remembered: dict[int, tuple[CodeType, Found]] = {}


def remember(code: CodeType, found: Found) -> None:
    """Code that clew has compiled from a part of a file: its tree is known, and is no function of that file."""
    _remembered[id(code)] = (code, found)


def unknown_flags(code: CodeType) -> str:
    """What is said of a code object with flags that clew does not know; "" of any other."""
    flags = code.co_flags & ~_KNOWN_FLAGS
    return f"this Python sets a flag of code objects ({flags:#x}) that this version of clew does not know" * bool(flags)


def _blinding(code: CodeType) -> str:
    """Why no function like this one is found on this Python, wherever its source is; "" if nothing is in the way."""
    from . import selftest

    what = unknown_flags(code)
    if what:
        selftest.report(what)
    return what or selftest.failure()


def find(code: CodeType, module_globals: dict[str, object] | None = None) -> Found | Unknown:
    """The tree of the function this code was compiled from."""
    if blind := _blinding(code):
        return Unknown(blind, blind=True)
    made, known = _remembered.get(id(code), (None, None))
    if made is code and known is not None:
        return known
    file = _file(code.co_filename, module_globals)
    if isinstance(file, Unknown):
        return file
    candidates = _candidates(file, code)
    found = _match(code, candidates, file.lines)
    if found is None and candidates and (rewritten := _as_pytest_runs_it(code.co_filename, file)) is not None:
        found = _match(code, _candidates(rewritten, code), file.lines)
    if found is not None and (syntax := grammar.unknown_in(found.node)):
        return Unknown(f"this version of clew does not know the syntax in it ({syntax})", blind=True)
    if found is not None:
        return found
    if candidates:
        return Unknown(f"the source at {code.co_filename}:{code.co_firstlineno} is not what is running")
    return Unknown(f"no function {code.co_name} at {code.co_filename}:{code.co_firstlineno}")


def find_in(lines: list[str], code: CodeType) -> Found | None:
    """The same among these lines, whatever they are part of."""
    return _match(code, _candidates(_File(lines), code), lines)


def _candidates(file: _File, code: CodeType) -> list[tuple[FunctionNode, Context]]:
    return [
        (node, context)
        for node, context in file.functions.get(code.co_firstlineno, [])
        if ("<lambda>" if isinstance(node, ast.Lambda) else node.name) == code.co_name
    ]


def _match(code: CodeType, candidates: list[tuple[FunctionNode, Context]], lines: list[str]) -> Found | None:
    """The candidate that, compiled unchanged, is the running code."""
    for node, context in candidates:
        try:
            unchanged = _bare_lambda(node) if isinstance(node, ast.Lambda) else as_function(node)
            again = compile_alone(unchanged, code, context)
        except (SyntaxError, ValueError, RecursionError):
            continue
        if same_code(again, code):
            return Found(node, context, lines)
    return None


def text_of(code: CodeType) -> str | None:
    """The lines of the function this code was compiled from; None if they cannot be found, or are not what runs.

    None for libraries, too: parsing one of their large files would hold the program up.
    """
    found = Unknown("a library") if is_library(code.co_filename) else find(code)
    return None if isinstance(found, Unknown) else found.text()


def as_function(node: FunctionNode) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """A fresh `def` with the same parameters and body: lambdas too, decorators and annotations aside."""
    if isinstance(node, ast.Lambda):
        body: list[ast.stmt] = [ast.copy_location(ast.Return(node.body), node.body)]
        function: ast.FunctionDef | ast.AsyncFunctionDef = ast.FunctionDef("lambda_", _bare(node.args), body, [])
    else:
        # decorators count only as the place where the function's first line is
        decorators: list[ast.expr] = [ast.copy_location(ast.Constant(None), d) for d in node.decorator_list]
        function = type(node)(node.name, _bare(node.args), list(node.body), decorators)
    ast.copy_location(function, node)
    if "type_params" in function._fields:
        function.type_params = []  # type: ignore[union-attr]
    return function


def _bare_lambda(node: ast.Lambda) -> ast.Lambda:
    return ast.copy_location(ast.Lambda(_bare(node.args), node.body), node)


def _bare(args: ast.arguments) -> ast.arguments:
    """Parameters without annotations and with empty defaults: both are evaluated outside the function."""

    def bare(arg: ast.arg) -> ast.arg:
        return ast.copy_location(ast.arg(arg.arg), arg)

    def nothing(default: ast.expr | None) -> ast.expr | None:
        return default and ast.copy_location(ast.Constant(None), default)

    return ast.arguments(
        posonlyargs=[bare(a) for a in args.posonlyargs],
        args=[bare(a) for a in args.args],
        vararg=args.vararg and bare(args.vararg),
        kwonlyargs=[bare(a) for a in args.kwonlyargs],
        kw_defaults=[nothing(d) for d in args.kw_defaults],
        kwarg=args.kwarg and bare(args.kwarg),
        defaults=[ast.copy_location(ast.Constant(None), d) for d in args.defaults],
    )


_OUTER, _INNER = "clew_outer", "clew_inner"


def compile_alone(function: FunctionNode, original: CodeType, context: Context) -> CodeType:
    """Compile one function so that its free variables, class cell and private names are as in the original."""
    inner: ast.stmt
    if isinstance(function, ast.Lambda):
        inner = ast.copy_location(ast.Expr(function), function)
    else:
        function.name = _INNER  # its own name, used inside, is not a free variable
        inner = function
    outer = ast.FunctionDef(
        _OUTER,
        ast.arguments([], [ast.arg(name) for name in original.co_freevars], None, [], [], None, []),
        [inner],
        [],
    )
    top: ast.stmt = outer
    if context.class_name is not None:
        top = ast.ClassDef(context.class_name, [], [], [outer], [])
    for made in (outer, top):
        ast.copy_location(made, function)
        if "type_params" in made._fields:
            made.type_params = []  # type: ignore[attr-defined]
    imports: list[ast.stmt] = [ast.Import([ast.alias(name)]) for name in context.imports]
    module = ast.fix_missing_locations(ast.Module([*imports, top], []))
    with no_warnings():
        compiled = compile(module, original.co_filename, "exec", flags=original.co_flags & FUTURES, dont_inherit=True)
    for _ in range(3 if context.class_name is not None else 2):
        compiled = _only_code(compiled)
    return renamed(compiled, compiled.co_qualname, original.co_qualname, original.co_name)


def mangled(name: str, class_name: str | None) -> str:
    """The name a private name has inside a class."""
    bare = (class_name or "").lstrip("_")
    return f"_{bare}{name}" if bare and name.startswith("__") and not name.endswith("__") else name


def _only_code(code: CodeType) -> CodeType:
    return next(const for const in code.co_consts if isinstance(const, CodeType))


def renamed(code: CodeType, old: str, new: str, name: str | None = None) -> CodeType:
    """The same code, its qualified name and those of all code inside beginning with `new` instead of `old`."""
    qualname = new + code.co_qualname[len(old) :] if code.co_qualname.startswith(old) else code.co_qualname
    consts = tuple(
        # a class body holds its own qualified name as a constant
        renamed(c, old, new) if isinstance(c, CodeType) else qualname if c == code.co_qualname else c
        for c in code.co_consts
    )
    return code.replace(co_consts=consts, co_qualname=qualname, co_name=name or code.co_name)


def same_code(a: CodeType, b: CodeType) -> bool:
    """Equal in everything that runs and everything a traceback shows."""
    if (
        a.co_code != b.co_code
        or a.co_names != b.co_names
        or a.co_varnames != b.co_varnames
        or a.co_freevars != b.co_freevars
        or a.co_cellvars != b.co_cellvars
        or a.co_exceptiontable != b.co_exceptiontable
        or (a.co_flags ^ b.co_flags) & ~OUTER_FLAGS
        or a.co_argcount != b.co_argcount
        or a.co_posonlyargcount != b.co_posonlyargcount
        or a.co_kwonlyargcount != b.co_kwonlyargcount
        or a.co_name != b.co_name
        or len(a.co_consts) != len(b.co_consts)
    ):
        return False
    if a.co_linetable != b.co_linetable and list(a.co_positions()) != list(b.co_positions()):
        return False
    return all(_same_const(x, y) for x, y in zip(a.co_consts, b.co_consts, strict=True))


def _same_const(x: object, y: object) -> bool:
    if isinstance(x, CodeType):
        return isinstance(y, CodeType) and same_code(x, y)
    if type(x) is not type(y):
        return False
    if isinstance(x, tuple) and isinstance(y, tuple):
        return len(x) == len(y) and all(_same_const(p, q) for p, q in zip(x, y, strict=True))
    return repr(x) == repr(y) if isinstance(x, float | complex) else x == y


def find_block(lines: list[str], line: int) -> ast.With | None:
    """The `with` statement whose header holds a line."""
    try:
        with no_warnings():
            tree = parsing.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError):
        return None
    found = [
        node for node in ast.walk(tree) if isinstance(node, ast.With) and node.lineno <= line < node.body[0].lineno
    ]
    return found[-1] if found else None

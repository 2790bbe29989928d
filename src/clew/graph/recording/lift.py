"""The user's functions, rewritten so that what Python hides from values is seen: calls, f-strings, `is`, `not`, `in`.

A rewritten function is a function of its own; the user's stays as it is.
"""

from __future__ import annotations

import ast
import copy
import dis
from collections.abc import Iterator, Sequence
from enum import Enum
from types import CodeType, FunctionType
from typing import Any

from clew.errors import GraphError
from clew.graph.parts import is_filled
from clew.graph.recording.loops.rewriting import LoopRewriting
from clew.graph.recording.loops.sites import Surroundings
from clew.instrument import source
from clew.instrument.engine import original_code
from clew.instrument.syntax_trees import MARK

from . import outside_changes

_BLIND = ("IS_OP", "MATCH_SEQUENCE", "MATCH_MAPPING")  # what bytecode asks without asking the value; `is None` too
_HOOKS = MARK + "hooks"
_LEFT_ALONE = {"super", "locals", "globals", "vars", "dir", "eval", "exec", "__import__"}  # they look at their frame
#: Python takes what these give for itself, and insists on its type
_PLAIN_ANSWERS = {
    f"__{name}__" for name in ("bool", "bytes", "complex", "float", "format", "hash", "index", "int", "len")
}
_PLAIN_ANSWERS |= {"__repr__", "__str__", "__length_hint__"}
_lifted: dict[int, tuple[CodeType, CodeType | None]] = {}  # by the code of a function
_rewritten: dict[int, tuple[CodeType, CodeType]] = {}  # rewritten code, also of functions inside it; whose it is


def lifted(function: FunctionType, hooks: Any) -> FunctionType | None:
    """A pipeline, seen through; None if its source is not known and values alone see all that it does."""
    made = seen_through(function, hooks)
    if made is None and _is_blind(function, set()):
        what = (
            f"{function.__qualname__} asks `is`, `type()`, `match` or an object about values; its source is not known."
        )
        raise GraphError("graph-no-source", what, "Put it into a file or a notebook's cell.")
    return made


def _is_blind(function: FunctionType, known: set[int]) -> bool:
    """Whether it asks something that a recorded value cannot answer."""
    written = original_code(function)
    known.add(id(written))
    cells = zip(written.co_freevars, function.__closure__ or (), strict=True)
    scope = function.__globals__ | {name: cell.cell_contents for name, cell in cells if is_filled(cell)}
    for code in _inside(written):
        if any(one.opname in _BLIND or one.opname.endswith("_NONE") for one in dis.get_instructions(code)):
            return True
        if any(outside_changes.is_users(type(scope.get(name))) for name in _read_from(code)):
            return True
        for name in {*code.co_names, *written.co_freevars}:
            called = scope.get(name)
            if (name in ("type", "id") and called is None) or _makes_objects(called):
                return True
            if isinstance(called, FunctionType) and id(original_code(called)) not in known and _is_blind(called, known):
                return True
    return False


def _makes_objects(called: Any) -> bool:
    """Whether it is a class of the user's own, whose objects may hold values, and be asked about them."""
    return (
        isinstance(called, type)
        and outside_changes.is_users(called)
        and not issubclass(called, (Enum, BaseException, tuple))
    )


def _read_from(code: CodeType) -> Iterator[str]:
    """The names whose attributes are read, methods aside."""
    before = None
    for one in dis.get_instructions(code):
        if one.opname == "LOAD_ATTR" and before is not None and "self" not in one.argrepr:
            yield str(before.argval)
        before = one if one.opname in ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME") else None


def seen_through(function: FunctionType, hooks: Any) -> FunctionType | None:
    """The function, seen through; None if its source is not known."""
    outside_changes.note(function)
    if is_rewritten(function):  # for as long as anybody records (protocols.py)
        return function
    written = original_code(function)  # it may be watched or followed as well
    known = _lifted.get(id(written))
    if known is None or known[0] is not written:
        known = _lifted[id(written)] = (written, _lift(written, function.__globals__, hooks))
    if known[1] is None:
        return None
    made = FunctionType(known[1], function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def is_rewritten(function: FunctionType) -> bool:
    """Whether a function came out of rewritten code: it is seen through already."""
    return id(function.__code__) in _rewritten


def original(function: FunctionType) -> FunctionType:
    """A function that was made by rewritten code, as it would have been made; itself if that is not known."""
    rewritten, whole = _rewritten.get(id(function.__code__), (None, None))
    found = [] if whole is None else [code for code in _inside(whole) if _stands_for(code, function.__code__)]
    if len(found) > 1:  # lambdas of one line
        found = [code for code in found if _begin_of(code) == _begin_of(function.__code__)]
    if rewritten is not function.__code__ or len(found) != 1:
        return function
    made = FunctionType(found[0], function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _stands_for(code: CodeType, rewritten: CodeType) -> bool:
    at, other = next(iter(code.co_positions())), next(iter(rewritten.co_positions()))
    return (code.co_name, code.co_firstlineno, code.co_freevars, code.co_varnames[: code.co_argcount], at[2]) == (
        rewritten.co_name,
        rewritten.co_firstlineno,
        rewritten.co_freevars,
        rewritten.co_varnames[: rewritten.co_argcount],
        other[2],
    )


def _begin_of(code: CodeType) -> tuple[int, int]:
    """Where the first of what it does stands; a function's first instruction stands nowhere."""
    places = ((line, column) for line, _, column, end in code.co_positions() if line and column is not None and end)
    return min(places, default=(0, 0))


def _inside(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _inside(const)


def _lift(written: CodeType, scope: dict[str, Any], hooks: Any) -> CodeType | None:
    found = source.find(written, scope)
    if isinstance(found, source.Unknown):
        if found.blind:  # what nothing is known of cannot be taken for one step: Python may call it by itself
            what = f"{written.co_qualname} cannot be seen through: {found.reason}."
            raise GraphError("graph-no-source", what, "Record it on another Python; `clew doctor` says which are fit.")
        return None
    node = copy.deepcopy(source.as_function(found.node))
    around = Surroundings(written, found.context, found.lines)
    seen = _Seen(around, plain_answers=written.co_name in _PLAIN_ANSWERS)
    seen.prepare(node)
    node.body = [seen.visit(statement) for statement in node.body]
    ast.fix_missing_locations(node)
    code = source.compile_alone(node, written, found.context)
    return _with_hooks(code, hooks, written)


def _with_hooks(code: CodeType, hooks: Any, whole: CodeType) -> CodeType:
    def real(const: Any) -> Any:
        if isinstance(const, CodeType):
            return _with_hooks(const, hooks, whole)
        return hooks if type(const) is str and const == _HOOKS else const

    made = code.replace(co_consts=tuple(map(real, code.co_consts)))
    _rewritten[id(made)] = (made, whole)
    return made


_QUESTIONS: dict[type[ast.cmpop], str] = {
    ast.Is: "is_",
    ast.IsNot: "is_not",
    ast.In: "within",
    ast.NotIn: "not_within",
}


_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not within", ast.Lt: "lt", ast.LtE: "le",
    ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip


_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Pow: "pow",
    ast.MatMult: "matmul", ast.LShift: "lshift", ast.RShift: "rshift", ast.BitXor: "xor", ast.BitAnd: "and",
    ast.BitOr: "or",
}  # fmt: skip


def _suppresses(manager: ast.expr) -> bool:
    """`with suppress(...)` goes on after what was raised, as `try` does."""
    called = manager.func if isinstance(manager, ast.Call) else manager
    return (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) == "suppress"


class _Seen(LoopRewriting):
    """Each call, loop, f-string, `is`, `in`, `not` and `%` goes through a hook; everything else is as it was."""

    def __init__(self, around: Surroundings, plain_answers: bool = False) -> None:
        super().__init__(around)
        self._plain_answers = plain_answers

    def _hook(self, name: str, args: list[ast.expr], at: ast.expr, keywords: Sequence[ast.keyword] = ()) -> ast.expr:
        hook = ast.Attribute(ast.Constant(_HOOKS), name, ast.Load())
        call = ast.Call(hook, args, list(keywords))
        for node in (hook.value, hook, call):
            ast.copy_location(node, at)
        return call

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if self.consumes(node):
            return self.consumed(node)
        method = node.func
        if isinstance(method, ast.Attribute):  # what it is called on is seen; that it is looked up, the hook knows
            method.value = self.visit(method.value)
            node.func = ast.copy_location(ast.Name("_", ast.Load()), method)
        self.generic_visit(node)
        node.func = method if isinstance(method, ast.Attribute) else node.func
        for one in node.keywords:
            if one.arg is None:
                one.value = self._hook("mapping", [one.value], one.value)
        if isinstance(node.func, ast.Name) and node.func.id in _LEFT_ALONE:
            return node
        if isinstance(node.func, ast.Attribute):
            name = source.mangled(node.func.attr, self._class)
            given = [node.func.value, ast.copy_location(ast.Constant(name), node.func)]
            return self._hook("method", [*given, *node.args], node, node.keywords)
        return self._hook("call", [node.func, *node.args], node, node.keywords)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        return self._joined(node, node)

    def _joined(self, node: ast.JoinedStr, at: ast.expr) -> ast.expr:
        parts: list[ast.expr] = []
        for value in node.values:
            if isinstance(value, ast.FormattedValue):
                conversion = ast.Constant("" if value.conversion < 0 else chr(value.conversion))
                spec: ast.expr = ast.Constant("")
                if isinstance(value.format_spec, ast.JoinedStr):
                    spec = self._joined(value.format_spec, at)
                parts.append(self._hook("text", [self.visit(value.value), conversion, spec], at))
            else:
                parts.append(value)
        return self._hook("joined", parts, at)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) == 1:
            question = _QUESTIONS.get(type(node.ops[0]))
            if question is not None:
                return self._hook(question, [node.left, node.comparators[0]], node)
            name = ast.copy_location(ast.Constant(_COMPARISONS[type(node.ops[0])]), node)
            return self._hook("binary", [name, node.left, node.comparators[0]], node)
        if not any(isinstance(one, (ast.Is, ast.IsNot)) for one in node.ops):
            return node
        links: list[ast.expr] = []
        for one, part in zip(node.ops, node.comparators, strict=True):
            nothing = ast.arguments([], [], None, [], [], None, [])
            links.append(ast.Tuple([ast.Constant(_COMPARISONS[type(one)]), ast.Lambda(nothing, part)], ast.Load()))
        return self._hook("chain", [node.left, *links], node)

    def visit_Set(self, node: ast.Set) -> ast.expr:
        self.generic_visit(node)
        return self._hook("set_", [ast.copy_location(ast.List(node.elts, ast.Load()), node)], node)

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        return self.comprehension(node)

    def visit_SetComp(self, node: ast.SetComp) -> ast.expr:
        return self.comprehension(node, self._set_comprehension)

    def _set_comprehension(self, node: ast.SetComp) -> ast.expr:
        return self._hook("set_", [ast.copy_location(ast.ListComp(node.elt, node.generators), node)], node)

    def visit_Dict(self, node: ast.Dict) -> ast.expr:
        self.generic_visit(node)
        keys = [key for key in node.keys if key is not None]
        if len(keys) < len(node.keys):
            parts: list[ast.expr] = []  # what is spread, and in between pairs of keys and values
            for key, value in self._pairs(node):
                given = [value] if key is None else [key, value]
                parts.append(ast.copy_location(ast.Tuple(given, ast.Load()), value))
            return self._hook("merged", parts, node)
        if all(isinstance(key, ast.Constant) for key in keys):
            return node
        pairs: list[ast.expr] = [ast.Tuple([key, value], ast.Load()) for key, value in self._pairs(node) if key]
        return self._hook("dict_", [ast.copy_location(ast.List(pairs, ast.Load()), node)], node)

    def _pairs(self, node: ast.Dict) -> list[tuple[ast.expr | None, ast.expr]]:
        return list(zip(node.keys, node.values, strict=True))

    def visit_DictComp(self, node: ast.DictComp) -> ast.expr:
        return self.comprehension(node, self._dict_comprehension)

    def _dict_comprehension(self, node: ast.DictComp) -> ast.expr:
        pair = ast.Tuple([node.key, node.value], ast.Load())
        return self._hook("dict_", [ast.copy_location(ast.ListComp(pair, node.generators), node)], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return self._hook("not_", [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.Mod):
            return self._hook("mod", [node.left, node.right], node)
        name = ast.copy_location(ast.Constant(_BINARY[type(node.op)]), node)
        return self._hook("binary", [name, node.left, node.right], node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """What is read of an object that a step has changed is a value; and of `x.__class__`, `x.__module__` a recorded
        value has answers of its own."""
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            node.value = self._hook("owner", [node.value], node.value)
            return node
        hook = "special" if node.attr.startswith("__") and node.attr.endswith("__") else "attribute"
        name = ast.copy_location(ast.Constant(source.mangled(node.attr, self._class)), node)
        return self._hook(hook, [node.value, name], node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            node.value = self._hook("owner", [node.value], node.value)
            return node
        return self._hook("item", [node.value, self._key(node.slice)], node)

    def _key(self, key: ast.expr) -> ast.expr:
        """A slice is no expression of its own outside brackets."""
        if isinstance(key, ast.Slice):
            given = [part or ast.Constant(None) for part in (key.lower, key.upper, key.step)]
            return self._hook("slice", given, key)
        if isinstance(key, ast.Tuple):
            return ast.copy_location(ast.Tuple([self._key(part) for part in key.elts], ast.Load()), key)
        return key

    def visit_If(self, node: ast.If) -> ast.stmt:
        self.generic_visit(node)
        node.test = self._hook("decided", [node.test], node.test)
        return node

    visit_IfExp = visit_If  # type: ignore[assignment]

    def visit_Match(self, node: ast.Match) -> ast.stmt:
        self.generic_visit(node)
        node.subject = self._hook("plain", [node.subject], node.subject)
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.match_case:
        """Patterns are no expressions."""
        node.guard = node.guard and self.visit(node.guard)
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        self.generic_visit(node)
        if self._plain_answers and node.value is not None:
            node.value = self._hook("plain", [node.value], node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Mod) or not isinstance(node.target, ast.Name):
            return node
        loaded = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        return ast.copy_location(ast.Assign([node.target], self._hook("imod", [loaded, node.value], node.value)), node)

    def visit_Try(self, node: ast.Try) -> ast.stmt:
        at: ast.expr = ast.copy_location(ast.Constant(None), node)
        self.generic_visit(node)
        for handler in node.handlers:
            if handler.name is not None:
                error = ast.copy_location(ast.Name(handler.name, ast.Load()), handler.body[0])
                looked = self._hook("caught", [error], error)
                handler.body.insert(0, ast.copy_location(ast.Expr(looked), handler.body[0]))
        if node.handlers:
            node.body = [self._tried(node.body, True)]
        return self.around_block(id(node), at, node)

    visit_TryStar = visit_Try  # type: ignore[assignment]

    def visit_With(self, node: ast.With) -> ast.stmt:
        """A context manager may swallow what is raised."""
        swallows = any(_suppresses(item.context_expr) for item in node.items)
        self.generic_visit(node)
        for item in node.items:
            item.context_expr = self._hook("context", [item.context_expr], item.context_expr)
        node.body = [self._tried(node.body, swallows)]
        return self.around_block(id(node), ast.copy_location(ast.Constant(None), node), node)

    def _tried(self, body: list[ast.stmt], catching: bool) -> ast.stmt:
        at: ast.expr = ast.copy_location(ast.Constant(catching), body[0])
        return ast.copy_location(ast.With([ast.withitem(self._hook("trying", [at], at))], body), body[0])

    # types are no business of ours
    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is not None:
            node.value = self.visit(node.value)
            node.target = self.visit(node.target)
        return node

    def visit_FunctionDef(self, node: Any) -> Any:
        node.args.defaults = [self.visit(default) for default in node.args.defaults]
        node.args.kw_defaults = [default and self.visit(default) for default in node.args.kw_defaults]
        node.decorator_list = [self.visit(decorator) for decorator in node.decorator_list]
        outer = self._plain_answers, self._in_class
        self._plain_answers = node.name in _PLAIN_ANSWERS
        self.enter_scope(node)
        self.prepare(node)
        node.body = [self.visit(statement) for statement in node.body]
        self.leave_scope()
        self._plain_answers, self._in_class = outer
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        outer = self._class, self._in_class
        self._class, self._in_class = node.name, True
        self.generic_visit(node)
        self._class, self._in_class = outer
        return node

"""Puts tests after the statements of a function: the heart of `clew.watch`.

After `x = f(i)`, with `x` watched, the function goes on with

    if type(x) is .clew_type0:            # the type `x` had last time, if that is an immutable one
        .clew_log.append(x)               # value, site: the background thread drops it if it is no change
        .clew_log.append(4711)
    else:
        .clew_type0, .clew_check = .clew_call.note(0, x, 4711)
    if .clew_check is not None:           # some watched name holds a mutable value
        .clew_check(4711)

Names that inner or other code can rebind, and expressions, are *observed*: evaluated, and compared by identity first.
Names with a dot cannot clash with the user's. Objects the code needs (`type`, the plan's `enter`) become constants of
the code object: here they stand as marked strings, which assemble.py replaces.

Trees of the user's file are shared with the source cache: they are never changed, only wrapped or copied.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from . import effects
from .expressions import Expression, Form

LOG, CALL, CHECK, VALUE = ".clew_log", ".clew_call", ".clew_check", ".clew_value"
TRACKED = ".clew_tracked"
MARK = "\0clew:"  # begins the strings that stand for objects
_LISTING = ("locals", "vars", "dir")


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to look for, and how."""

    index: int
    expression: Expression
    local: bool  # a local name: its bindings are seen as statements
    shared: bool  # can change without a statement that binds it: observed after every other statement too
    when: Expression | None = None
    break_when: Expression | None = None
    breaks: bool = False
    first: bool = False  # the step: recorded before the other names of a statement

    @property
    def name(self) -> str:
        return self.expression.text


@dataclass(slots=True)
class Rewritten:
    """The new function, and the lines of its statements by number."""

    function: ast.FunctionDef | ast.AsyncFunctionDef
    lines: list[int]
    ignored: list[bool]


@dataclass(slots=True)
class RewrittenModule:
    """The new module, and the lines of its statements by number."""

    module: ast.Module
    lines: list[int]
    ignored: list[bool]


def rewrite(
    function: ast.FunctionDef | ast.AsyncFunctionDef,
    items: Iterable[Item],
    parameters: tuple[str, ...],
    is_ignored: Callable[[int, int], bool],
    pauses: bool = False,
) -> Rewritten:
    """The function with tests in it. `function` is a fresh `def` around the user's own statements."""
    return _Rewriter(sorted(items, key=lambda item: not item.first), parameters, is_ignored, pauses).function(function)


def rewrite_module(
    module: ast.Module, items: Iterable[Item], is_ignored: Callable[[int, int], bool], start: ast.stmt | None = None
) -> RewrittenModule:
    """A module's own level (or a block of it, beginning at `start`) with tests in it: its names are its globals."""
    return _Rewriter(sorted(items, key=lambda item: not item.first), (), is_ignored).module(module, start)


class _Rewriter:
    def __init__(
        self,
        items: list[Item],
        parameters: tuple[str, ...],
        is_ignored: Callable[[int, int], bool],
        pauses: bool = False,
    ) -> None:
        self.items = items
        self.locals = {item.name: item for item in items if item.local}
        self.observed = [item for item in items if item.shared]
        self.parameters = parameters
        self.is_ignored = is_ignored
        self.pauses = pauses  # a generator or coroutine
        self.lines: list[int] = []
        self.ignored: list[bool] = []
        self.where: ast.AST = ast.Pass()

    # ---- the function as a whole ----------------------------------------------------------------------------------

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Rewritten:
        body = _without_our_names(node.body)
        declared, body = _hoist_declarations(body)
        doc = [body.pop(0)] if _is_docstring(body) else []
        node.body = [*doc, *declared, *self._guarded(node, body)]
        return Rewritten(node, self.lines, self.ignored)

    def module(self, node: ast.Module, at: ast.stmt | None) -> RewrittenModule:
        body = list(node.body)
        count = 0  # the docstring and `from __future__` must stay first
        while count < len(body) and (_is_docstring(body[count : count + 1]) or _is_future(body[count])):
            count += 1
        place = at or (body[count] if count < len(body) else ast.Pass(lineno=1, col_offset=0))
        start = ast.copy_location(ast.Pass(), place)
        # a block finds names that have a value already: that is their first
        there = list(self.locals) if at is not None else []
        new = [*body[:count], *self._guarded(start, body[count:], there)]
        return RewrittenModule(ast.fix_missing_locations(ast.Module(new, [])), self.lines, self.ignored)

    def _guarded(self, at: ast.stmt, body: list[ast.stmt], there: Iterable[str] = ()) -> list[ast.stmt]:
        """The way in, the body with its tests, and the way out, however it is left."""
        self.where = body[0] if body else at  # a debugger stops at the first statement, not before it
        entry = self._new_statement(at.lineno, at.lineno)
        prologue = [
            _assign(LOG, _attribute(CALL, "log")),
            *(_assign(_type(item.index), _none()) for item in self.items),
            *(_assign(_was(item.index), _load(CALL)) for item in self.observed),
            _assign(CHECK, _none()),
        ]
        if self.pauses:
            prologue.append(_assign(TRACKED, _call(_attribute(CALL, "hand_over"))))
        bound = [name for name in self.parameters if name in self.locals]
        start = self._sites(entry, binds=bound, may_bind=there, in_place=True)
        enter = _call(_object("enter"), _tuple(map(_load, self.parameters)))
        way_in = ast.With([ast.withitem(enter, _store(CALL))], [*prologue, *start])
        self._placed([way_in])
        way_in.body += self.block(body)
        return [_on_no_line(way_in)]

    def _new_statement(self, line: int, last_line: int) -> int:
        self.lines.append(line)
        self.ignored.append(self.is_ignored(line, last_line))
        return len(self.lines) - 1

    def _placed(self, nodes: list[ast.stmt]) -> list[ast.stmt]:
        """Give inserted code the place where the statement it belongs to begins."""
        line, column = self.where.lineno, self.where.col_offset  # type: ignore[attr-defined]
        for node in nodes:
            for inner in ast.walk(node):
                if "lineno" in inner._attributes and not hasattr(inner, "lineno"):
                    inner.lineno = inner.end_lineno = line  # type: ignore[attr-defined]
                    inner.col_offset = inner.end_col_offset = column  # type: ignore[attr-defined]
        return nodes

    # ---- statements -----------------------------------------------------------------------------------------------

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        return [new for statement in statements for new in self.statement(statement)]

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        handler = getattr(self, f"_{type(node).__name__}", None)
        if handler is not None:
            result: list[ast.stmt] = handler(node)
            return result
        found = effects.of_simple(node)
        return [node, *self._after(node, node.lineno, node.end_lineno, found)]

    def _after(self, at: ast.AST, line: int, last_line: int | None, found: effects.Effects) -> list[ast.stmt]:
        """The tests that follow a statement (or the header of one) with these effects."""
        if not self._concerned(found):
            return []
        self.where = at
        number = self._new_statement(line, last_line or line)
        return self._sites(number, found.binds, found.may_bind, found.deletes, found.in_place)

    def _concerned(self, found: effects.Effects) -> bool:
        named = {*found.binds, *found.may_bind, *found.deletes}
        return found.in_place or not named.isdisjoint(self.locals) or bool(self.observed and named)

    def _header(self, node: ast.stmt, body: list[ast.stmt], **kinds: object) -> list[ast.stmt]:
        """The tests at the start of a body, for what the line above it did."""
        last = max(node.lineno, body[0].lineno - 1) if body else node.lineno
        return self._after(node, node.lineno, last, effects.Effects(**kinds))  # type: ignore[arg-type]

    def _If(self, node: ast.If | ast.While) -> list[ast.stmt]:
        kinds = {"may_bind": effects.walrus_names([node.test]), "in_place": effects.changes_in_place(node.test)}
        body = [*self._header(node, node.body, **kinds), *self.block(node.body)]
        orelse = [*self._header(node, node.body, **kinds), *self.block(node.orelse)]
        return [ast.copy_location(type(node)(node.test, body, orelse), node)]

    _While = _If

    def _For(self, node: ast.For | ast.AsyncFor) -> list[ast.stmt]:
        walrus = effects.walrus_names([node.iter])
        start = self._header(node, node.body, binds=effects.target_names(node.target), may_bind=walrus, in_place=True)
        end = self._header(node, node.body, may_bind=walrus, in_place=True)
        new = type(node)(
            node.target, node.iter, [*start, *self.block(node.body)], [*end, *self.block(node.orelse)], None
        )
        return [ast.copy_location(new, node)]

    _AsyncFor = _For

    def _With(self, node: ast.With | ast.AsyncWith) -> list[ast.stmt]:
        names = [n for item in node.items if item.optional_vars for n in effects.target_names(item.optional_vars)]
        walrus = effects.walrus_names([item.context_expr for item in node.items])
        start = self._header(node, node.body, binds=names, may_bind=walrus, in_place=True)
        new = type(node)(node.items, [*start, *self.block(node.body)], None)
        return [ast.copy_location(new, node), *self._header(node, node.body, in_place=True)]

    _AsyncWith = _With

    def _Try(self, node: ast.Try) -> list[ast.stmt]:
        partial = _bound_on_the_way(node.body)
        new = type(node)(
            self.block(node.body),
            [self._handler(handler, partial) for handler in node.handlers],
            self.block(node.orelse),
            [*self._final(node), *self.block(node.finalbody)],
        )
        return [ast.copy_location(new, node)]

    _TryStar = _Try

    def _final(self, node: ast.Try) -> list[ast.stmt]:
        if not node.finalbody:
            return []
        first = node.finalbody[0]
        return self._after(first, first.lineno, first.lineno, effects.Effects(in_place=True))

    def _handler(self, handler: ast.ExceptHandler, partial: list[str]) -> ast.ExceptHandler:
        binds = [handler.name] if handler.name else []
        found = effects.Effects(binds, [name for name in partial if name not in binds], in_place=True)
        last = max(handler.lineno, handler.body[0].lineno - 1)
        start = self._after(handler, handler.lineno, last, found)
        body = [*start, *self.block(handler.body)]
        item = self.locals.get(handler.name or "")
        if item is not None:
            # Python deletes the name when the handler is left, however it is left
            self.where = handler
            number = self._new_statement(handler.lineno, last)
            until_left = _call(_attribute(CALL, "until_left"), _constant(item.index), _site(number, item.index))
            body = [_on_no_line(self._placed([ast.With([ast.withitem(until_left)], body)])[0])]
        return ast.copy_location(ast.ExceptHandler(handler.type, handler.name, body), handler)

    def _Match(self, node: ast.Match) -> list[ast.stmt]:
        cases, captured = [], []
        for case in node.cases:
            names = effects.pattern_names(case.pattern)
            walrus = effects.walrus_names([node.subject, case.guard])
            line = case.pattern.lineno
            found = effects.Effects(names, [*walrus, *(n for n in captured if n not in names)], in_place=True)
            captured += names
            start = self._after(case.pattern, line, max(line, case.body[0].lineno - 1), found)
            cases.append(ast.match_case(case.pattern, case.guard, [*start, *self.block(case.body)]))
        at = node.cases[-1].pattern
        if node.cases[-1].guard is not None or not _takes_all(at):
            # a pattern that failed half way has bound the names it came past
            rest = effects.Effects(may_bind=[*captured, *effects.walrus_names([node.subject])], in_place=True)
            otherwise = self._after(at, node.lineno, node.lineno, rest) or [ast.copy_location(ast.Pass(), at)]
            cases.append(ast.match_case(ast.copy_location(ast.MatchAs(), at), None, otherwise))
        return [ast.copy_location(ast.Match(node.subject, cases), node)]

    def _Return(self, node: ast.Return) -> list[ast.stmt]:
        if node.value is None:
            return [node]
        self.where = node
        result = ast.Attribute(_load(CALL), "result", ast.Store())
        keep = self._placed([ast.Assign([result], node.value)])
        after = self._after(node, node.lineno, node.end_lineno, effects.of_simple(node))
        self.where = node
        return [*keep, *after, *self._placed([ast.Return(_attribute(CALL, "result"))])]

    # ---- the tests themselves -------------------------------------------------------------------------------------

    def _sites(
        self,
        number: int,
        binds: Iterable[str] = (),
        may_bind: Iterable[str] = (),
        deletes: Iterable[str] = (),
        in_place: bool = False,
    ) -> list[ast.stmt]:
        new: list[ast.stmt] = []
        certain = [self.locals[name] for name in dict.fromkeys(binds) if name in self.locals]
        perhaps = [self.locals[name] for name in dict.fromkeys(may_bind) if name in self.locals]
        for item in sorted(certain, key=lambda item: not item.first):
            new += self._bound(item, number, item.name)
        for item in perhaps:
            new += self._perhaps_bound(item, number)
        for name in dict.fromkeys(deletes):
            if name in self.locals:
                new += self._deleted(self.locals[name], number)
        done = {item.index for item in (*certain, *perhaps)}
        for item in self.observed:
            if item.index not in done:
                new += self._observed(item, number)
        if in_place:
            new.append(ast.If(_is_not(_load(CHECK), _none()), [_run(_call(_load(CHECK), _site(number, 0)))], []))
        return self._placed([*self._conditions(), *new, *self._breaks()]) if new else []

    def _bound(self, item: Item, number: int, name: str) -> list[ast.stmt]:
        site = _site(number, item.index)
        known = ast.Compare(_call(_object("type"), _load(name)), [ast.Is()], [_load(_type(item.index))])
        note = ast.Assign(
            [ast.Tuple([_store(_type(item.index)), _store(CHECK)], ast.Store())],
            _call(_attribute(CALL, "note"), _constant(item.index), _load(name), site),
        )
        append = [_run(_call(_attribute(LOG, "append"), _load(name))), _run(_call(_attribute(LOG, "append"), site))]
        new: list[ast.stmt] = [ast.If(known, append, [note])]
        if item.shared:
            new.append(_assign(_was(item.index), _load(name)))
        return new

    def _perhaps_bound(self, item: Item, number: int) -> list[ast.stmt]:
        handler = ast.ExceptHandler(_object("NameError"), None, [ast.Pass()])
        read = _assign(VALUE, _load(item.name))
        return [ast.Try([read], [handler], self._bound(item, number, VALUE), [])]

    def _deleted(self, item: Item, number: int) -> list[ast.stmt]:
        gone = _call(_attribute(CALL, "gone"), _constant(item.index), _site(number, item.index))
        new = [_assign(_type(item.index), _none()), _assign(CHECK, gone)]
        if item.shared:
            new.append(_assign(_was(item.index), _load(CALL)))
        return self._placed(new)

    def _observed(self, item: Item, number: int) -> list[ast.stmt]:
        changed = ast.If(
            _is_not(_load(VALUE), _load(_was(item.index))),
            [_assign(_was(item.index), _load(VALUE)), *self._bound_value(item, number)],
            [],
        )
        missing = self._missing(item, number)
        handler = ast.ExceptHandler(_object("Exception"), None, [missing])
        return [ast.Try([_assign(VALUE, _placeless(item.expression))], [handler], [changed], [])]

    def _bound_value(self, item: Item, number: int) -> list[ast.stmt]:
        return self._bound(
            Item(item.index, item.expression, local=False, shared=False), number, VALUE
        )  # `was` is already set

    def _missing(self, item: Item, number: int) -> ast.stmt:
        """It was there and is no more. Of paths that is a change; of other expressions it is silence."""
        forget = [_assign(_was(item.index), _load(CALL)), _assign(_type(item.index), _none())]
        name = "lost" if item.expression.form is Form.ANY else "gone"
        call = _call(_attribute(CALL, name), _constant(item.index), _site(number, item.index))
        return ast.If(_is_not(_load(_was(item.index)), _load(CALL)), [*forget, _assign(CHECK, call)], [])

    def _conditions(self) -> list[ast.stmt]:
        """Evaluate `when=` and `break_when=` texts where the user's names are."""
        new: list[ast.stmt] = []
        for field_name, text in (("when", "when"), ("stop_when", "break_when")):
            expressions = {i.index: e for i in self.items if (e := getattr(i, text)) is not None}
            for index, expression in expressions.items():
                target = ast.Subscript(_attribute(CALL, field_name), _constant(index), ast.Store())
                nothing = ast.Assign([copy.deepcopy(target)], ast.Constant(False))
                handler = ast.ExceptHandler(_object("Exception"), None, [nothing])
                new.append(ast.Try([ast.Assign([target], _placeless(expression))], [handler], [], []))
        return new

    def _breaks(self) -> list[ast.stmt]:
        if not any(item.breaks for item in self.items):
            return []
        return [ast.If(_call(_attribute(CALL, "stops")), [_run(_call(_object("breakpoint")))], [])]


# ---- preparing a body ----------------------------------------------------------------------------------------------


def _takes_all(pattern: ast.pattern | None) -> bool:
    """Whether a pattern cannot fail (Python allows no case after it)."""
    if isinstance(pattern, ast.MatchOr):
        return _takes_all(pattern.patterns[-1])
    return pattern is None or (isinstance(pattern, ast.MatchAs) and _takes_all(pattern.pattern))


def _is_docstring(body: list[ast.stmt]) -> bool:
    first = body[0] if body else None
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _hoist_declarations(body: list[ast.stmt]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """`global` and `nonlocal` must stand before the first use of their names, and our tests use them early."""
    if not any(isinstance(n, ast.Global | ast.Nonlocal) for n in effects.in_scope(body)):
        return [], list(body)
    body = copy.deepcopy(body)
    declared: list[ast.stmt] = []

    class Hoist(ast.NodeTransformer):
        def _take(self, node: ast.Global | ast.Nonlocal) -> ast.stmt:
            declared.append(node)
            return ast.copy_location(ast.Pass(), node)

        visit_Global = visit_Nonlocal = _take

        def _leave_alone(self, node: ast.AST) -> ast.AST:
            return node

        visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _leave_alone

    return declared, [Hoist().visit(statement) for statement in body]


def _without_our_names(body: list[ast.stmt]) -> list[ast.stmt]:
    """`locals()`, `vars()` and `dir()` must not show what clew put there."""

    def lists(node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in _LISTING
            and not (node.args or node.keywords)
        )

    if not any(lists(node) for node in effects.in_scope(body)):
        return list(body)

    class Clean(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.expr:
            self.generic_visit(node)
            if not lists(node):
                return node
            return ast.fix_missing_locations(ast.copy_location(_call(_object("clean"), node), node))

    return [Clean().visit(statement) for statement in copy.deepcopy(body)]


def _bound_on_the_way(body: list[ast.stmt]) -> list[str]:
    """Names a block may have bound inside a statement that then failed."""
    names: list[str] = []
    for node in effects.in_scope(body):
        if isinstance(node, ast.NamedExpr):
            names.append(node.target.id)
        elif isinstance(node, ast.Assign) and (len(node.targets) > 1 or not isinstance(node.targets[0], ast.Name)):
            names += [name for target in node.targets for name in effects.target_names(target)]
        elif isinstance(node, ast.MatchAs | ast.MatchStar | ast.MatchMapping):
            names += effects.pattern_names(node)
    return list(dict.fromkeys(names))


# ---- small trees -----------------------------------------------------------------------------------------------------


def _placeless(expression: Expression) -> ast.expr:
    """The expression's tree without positions, to be given those of the statement it follows."""
    tree = expression.parse()
    for node in ast.walk(tree):
        for attribute in node._attributes:
            node.__dict__.pop(attribute, None)
    return tree


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _store(name: str) -> ast.expr:
    return ast.Name(name, ast.Store())


def _type(index: int) -> str:
    return f".clew_type{index}"


def _was(index: int) -> str:
    return f".clew_was{index}"


def _on_no_line(node: ast.stmt) -> ast.stmt:
    """For a `with` of ours: leaving it must not look, to a debugger, like coming past its first line once more."""
    node.lineno = node.end_lineno = node.col_offset = node.end_col_offset = -1
    return node


def _none() -> ast.expr:
    return ast.Constant(None)


def _constant(value: int) -> ast.expr:
    return ast.Constant(value)


def _object(name: str) -> ast.expr:
    return ast.Constant(MARK + name)


def _site(number: int, index: int) -> ast.expr:
    return ast.Constant(f"{MARK}site:{number}:{index}")


def _attribute(name: str, attribute: str) -> ast.expr:
    return ast.Attribute(_load(name), attribute, ast.Load())


def _tuple(parts: Iterable[ast.expr]) -> ast.expr:
    return ast.Tuple(list(parts), ast.Load())


def _call(function: ast.expr, *args: ast.expr) -> ast.expr:
    return ast.Call(function, list(args), [])


def _run(expression: ast.expr) -> ast.stmt:
    return ast.Expr(expression)


def _assign(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([_store(name)], value)


def _is_not(left: ast.expr, right: ast.expr) -> ast.expr:
    return ast.Compare(left, [ast.IsNot()], [right])

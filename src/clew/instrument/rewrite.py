"""Puts tests after the statements of a function: the heart of `clew.watch`.

After `x = f(i)`, with `x` watched, the function goes on with

    if type(x) is .clew_type0:            # the type `x` had last time (in this call or another), if immutable
        .clew_log.append(x)               # value, site: the background thread drops it if it is no change
        .clew_log.append(4711)
    else:
        .clew_type0, .clew_check = .clew_call.note(0, x, 4711)
    if .clew_check is not None:           # some watched name holds a mutable value
        .clew_check(4711)

Names that inner or other code can rebind, and expressions, are *observed*: evaluated, and compared by identity first.
While an expression is evaluated its thread is quiet (quiet_threads.py): what it calls is not recorded.
Names with a dot cannot clash with the user's. Objects the code needs (`type`, the plan's `enter`) become constants of
the code object: here they stand as marked strings, which assembling.py replaces.

Trees of the user's file are shared with the source cache: they are never changed, only wrapped or copied.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from . import effects
from . import syntax_trees as t
from .body_preparation import (
    bound_on_the_way,
    hoist_declarations,
    is_docstring,
    is_future,
    takes_all,
    telling_of_pauses,
    without_our_names,
)
from .expressions import Expression, Form
from .syntax_trees import CALL, CHECK, LOG, THREAD, TRACKED, VALUE, Site


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

    @property
    def evaluates(self) -> bool:
        """Whether looking at it can run code of the user's."""
        return self.expression.form is not Form.NAME or self.when is not None or self.break_when is not None


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
    says_where: bool = False,
) -> Rewritten:
    """The function with tests in it. `function` is a fresh `def` around the user's own statements."""
    ordered = sorted(items, key=lambda item: not item.first)
    return _Rewriter(ordered, parameters, is_ignored, pauses, says_where).function(function)


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
        says_where: bool = False,
    ) -> None:
        self.items = items
        self.says_where = says_where  # the call is told its line before each statement that can call another
        self.locals: dict[str, list[Item]] = {}  # two for a name that is the step and watched too
        for item in items:
            if item.local:
                self.locals.setdefault(item.name, []).append(item)
        self.observed = [item for item in items if item.shared]
        self.parameters = parameters
        self.is_ignored = is_ignored
        self.pauses = pauses  # a generator or coroutine
        self.evaluates = any(item.evaluates for item in items)
        self.lines: list[int] = []
        self.ignored: list[bool] = []
        self.where: ast.AST = ast.Pass()

    # ---- the function as a whole ----------------------------------------------------------------------------------

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Rewritten:
        body = without_our_names(node.body)
        if self.pauses and self.says_where and isinstance(node, ast.FunctionDef):
            body = telling_of_pauses(body)
        declared, body = hoist_declarations(body)
        doc = [body.pop(0)] if is_docstring(body) else []
        node.body = [*doc, *declared, *self._guarded(node, body)]
        return Rewritten(node, self.lines, self.ignored)

    def module(self, node: ast.Module, at: ast.stmt | None) -> RewrittenModule:
        body = list(node.body)
        count = 0  # the docstring and `from __future__` must stay first
        while count < len(body) and (is_docstring(body[count : count + 1]) or is_future(body[count])):
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
        prologue = (
            []
            if not self.items
            else [
                t.assign(LOG, t.attribute(CALL, "log")),
                t.unpack([t.type_of(index) for index in range(len(self.items))], self._expected_types()),
                *(t.assign(t.was(item.index), t.load(CALL)) for item in self.observed),
                t.assign(CHECK, t.none()),
            ]
        )
        if self.pauses and self.items:
            prologue.append(t.assign(TRACKED, t.call(t.attribute(CALL, "hand_over"))))
        elif self.evaluates:
            prologue.append(t.assign(THREAD, t.call(t.attribute(CALL, "evaluating_thread"))))
        bound = [name for name in self.parameters if name in self.locals]
        start = self._sites(t.at(entry), binds=bound, may_bind=there, in_place=True) if self.items else []
        enter = t.on_no_line(t.call(t.marked("enter"), t.tuple_of(map(t.load, self.parameters))))
        way_in = ast.With([ast.withitem(enter, t.store(CALL))], [*prologue, *start])
        if not (prologue or start or body):
            way_in.body.append(ast.Pass())
        self._placed([way_in])
        way_in.body += self.block(body)
        return [t.on_no_line(way_in)]

    def _expected_types(self) -> ast.expr:
        """Of code that may be followed it depends on the call whether all its changes are judged at once."""
        return t.call(t.marked("expected"), *([t.load(CALL)] if self.says_where else []))

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
        if not self.says_where or not effects.calls_something(node):
            return self._tested(node)
        self.where = node
        at = ast.Attribute(t.load(CALL), "at", ast.Store())
        return [*self._placed([ast.Assign([at], t.constant(node.lineno))]), *self._tested(node)]

    def _tested(self, node: ast.stmt) -> list[ast.stmt]:
        handler = getattr(self, f"_{type(node).__name__}", None)
        if handler is not None:
            result: list[ast.stmt] = handler(node)
            return result
        found = effects.of_simple(node)
        return [node, *self._after(node, node.lineno, node.end_lineno, found)]

    def _after(self, at: ast.AST, line: int, last_line: int | None, found: effects.Effects) -> list[ast.stmt]:
        """The tests that follow a statement (or the header of one) with these effects."""
        if not self.items or not self._concerned(found):
            return []
        self.where = at
        number = self._new_statement(line, last_line or line)
        return self._sites(t.at(number), found.binds, found.may_bind, found.deletes, found.in_place)

    def _after_failure(self, at: ast.AST, partial: list[str]) -> list[ast.stmt]:
        """Where an exception is caught: what the failing statement did before it failed, on that statement's line."""
        if not self.items:
            return []
        self.where = at
        here = t.at(self._new_statement(at.lineno, at.lineno))  # type: ignore[attr-defined]

        def failed(index: int) -> ast.expr:
            return ast.BinOp(t.call(t.attribute(CALL, "failed_at"), here(0)), ast.Add(), t.constant(index))

        return self._sites(failed, may_bind=partial, in_place=True)

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
        partial = bound_on_the_way(node.body)
        final: list[ast.stmt] = []
        if node.finalbody:
            everywhere = bound_on_the_way([*node.body, *node.handlers, *node.orelse])
            final = [*self._after_failure(node.finalbody[0], everywhere), *self.block(node.finalbody)]
        new = type(node)(
            self.block(node.body),
            [self._handler(handler, partial) for handler in node.handlers],
            self.block(node.orelse),
            final,
        )
        return [ast.copy_location(new, node)]

    _TryStar = _Try

    def _handler(self, handler: ast.ExceptHandler, partial: list[str]) -> ast.ExceptHandler:
        binds = [handler.name] if handler.name else []
        last = max(handler.lineno, handler.body[0].lineno - 1)
        failure = self._after_failure(handler, [name for name in partial if name not in binds])
        start = self._after(handler, handler.lineno, last, effects.Effects(binds))
        body = [*failure, *start, *self.block(handler.body)]
        for item in self.locals.get(handler.name or "", ()):
            # Python deletes the name when the handler is left, however it is left
            self.where = handler
            number = self._new_statement(handler.lineno, last)
            until_left = t.call(t.attribute(CALL, "until_left"), t.constant(item.index), t.at(number)(item.index))
            body = [t.on_no_line(self._placed([ast.With([ast.withitem(t.on_no_line(until_left))], body)])[0])]
        return ast.copy_location(ast.ExceptHandler(handler.type, handler.name, body), handler)

    def _Match(self, node: ast.Match) -> list[ast.stmt]:
        cases: list[ast.match_case] = []
        refused: dict[str, ast.pattern] = {}  # names that a case has bound whose guard then said no
        for case in node.cases:
            line, names = case.pattern.lineno, effects.pattern_names(case.pattern)
            by_subject = case.guard is None and effects.changes_in_place(node.subject)
            before = self._before_case(node, case, {n: at for n, at in refused.items() if n not in names}, by_subject)
            found = effects.Effects(names, effects.walrus_names([case.guard]), in_place=not by_subject)
            start = self._after(case.pattern, line, max(line, case.body[0].lineno - 1), found)
            cases.append(ast.match_case(case.pattern, case.guard, [*before, *start, *self.block(case.body)]))
            if case.guard is not None:
                refused.update(dict.fromkeys([*names, *effects.walrus_names([case.guard])], case.pattern))
        last = node.cases[-1]
        if last.guard is not None or not takes_all(last.pattern):
            otherwise = self._before_case(node, last, refused, in_place=True)
            nothing = ast.copy_location(ast.Pass(), last.pattern)
            anything = ast.copy_location(ast.MatchAs(), last.pattern)
            cases.append(ast.match_case(anything, None, otherwise or [nothing]))
        return [ast.copy_location(ast.Match(node.subject, cases), node)]

    def _before_case(
        self, node: ast.Match, case: ast.match_case, refused: dict[str, ast.pattern], in_place: bool
    ) -> list[ast.stmt]:
        """The tests for what `match` itself did, and the cases not taken; placed at the one that was looked at last."""
        subject = effects.Effects(may_bind=effects.walrus_names([node.subject]), in_place=in_place)
        new = self._after(case.pattern, node.lineno, node.lineno, subject)
        for name, pattern in refused.items():
            new += self._after(case.pattern, pattern.lineno, pattern.lineno, effects.Effects(may_bind=[name]))
        return new

    def _Return(self, node: ast.Return) -> list[ast.stmt]:
        if node.value is None:
            return [node]
        self.where = node
        result = ast.Attribute(t.load(CALL), "result", ast.Store())
        keep = self._placed([ast.Assign([result], node.value)])
        after = self._after(node, node.lineno, node.end_lineno, effects.of_simple(node))
        self.where = node
        return [*keep, *after, *self._placed([ast.Return(t.attribute(CALL, "result"))])]

    # ---- the tests themselves -------------------------------------------------------------------------------------

    def _sites(
        self,
        site: Site,
        binds: Iterable[str] = (),
        may_bind: Iterable[str] = (),
        deletes: Iterable[str] = (),
        in_place: bool = False,
    ) -> list[ast.stmt]:
        new: list[ast.stmt] = []
        certain = [item for name in dict.fromkeys(binds) for item in self.locals.get(name, ())]
        perhaps = [item for name in dict.fromkeys(may_bind) for item in self.locals.get(name, ())]
        for item in sorted(certain, key=lambda item: not item.first):
            new += self._bound(item, site, item.name)
        for item in perhaps:
            new += self._perhaps_bound(item, site)
        for name in dict.fromkeys(deletes):
            for item in self.locals.get(name, ()):
                new += self._deleted(item, site)
        done = {item.index for item in (*certain, *perhaps)}
        for item in self.observed:
            if item.index not in done:
                new += self._observed(item, site)
        if in_place:
            new.append(ast.If(t.is_not(t.load(CHECK), t.none()), [t.run(t.call(t.load(CHECK), site(0)))], []))
        return self._placed([*self._conditions(), *new, *self._breaks()]) if new else []

    def _bound(self, item: Item, site: Site, name: str) -> list[ast.stmt]:
        known = ast.Compare(t.call(t.marked("type"), t.load(name)), [ast.Is()], [t.load(t.type_of(item.index))])
        note = ast.Assign(
            [ast.Tuple([t.store(t.type_of(item.index)), t.store(CHECK)], ast.Store())],
            t.call(t.attribute(CALL, "note"), t.constant(item.index), t.load(name), site(item.index)),
        )
        append = [t.run(t.call(t.attribute(LOG, "append"), each)) for each in (t.load(name), site(item.index))]
        new: list[ast.stmt] = [ast.If(known, append, [note])]
        if item.shared:
            new.append(t.assign(t.was(item.index), t.load(name)))
        return new

    def _perhaps_bound(self, item: Item, site: Site) -> list[ast.stmt]:
        handler = t.handler("NameError", ast.Pass())
        read = t.assign(VALUE, t.load(item.name))
        forget = t.assign(VALUE, t.none())  # a second reference would keep the value alive
        return [ast.Try([read], [handler], [*self._bound(item, site, VALUE), forget], [])]

    def _deleted(self, item: Item, site: Site) -> list[ast.stmt]:
        gone = t.call(t.attribute(CALL, "gone"), t.constant(item.index), site(item.index))
        new = [t.assign(t.type_of(item.index), t.none()), t.assign(CHECK, gone)]
        if item.shared:
            new.append(t.assign(t.was(item.index), t.load(CALL)))
        return self._placed(new)

    def _observed(self, item: Item, site: Site) -> list[ast.stmt]:
        changed = ast.If(
            t.is_not(t.load(VALUE), t.load(t.was(item.index))),
            [t.assign(t.was(item.index), t.load(VALUE)), *self._bound_value(item, site)],
            [],
        )
        missing = self._missing(item, site)
        handler = t.handler("Exception", missing)
        forget = t.assign(VALUE, t.none())
        read = t.assign(VALUE, t.placeless(item.expression))
        if item.expression.form is Form.NAME:
            return [ast.Try([read], [handler], [changed, forget], [])]
        return self._evaluating(ast.Try([self._quietly(read)], [handler], [changed, forget], []))

    def _evaluating(self, evaluate: ast.stmt) -> list[ast.stmt]:
        """Evaluate where the call is recorded: in one begun by an expression it would never end."""
        here = [t.assign(THREAD, t.call(t.attribute(CALL, "evaluating_thread")))] if self.pauses else []
        return [*here, ast.If(t.load(THREAD), [evaluate], [])]

    def _quietly(self, evaluate: ast.stmt) -> ast.stmt:
        """Run code of the user's while nothing is recorded in this thread.

        `append` stands inside `try`: an interrupt can come right after it, and never before.
        """
        begin, end = (
            t.run(t.call(ast.Attribute(t.quiet_threads(), name, ast.Load()), t.load(THREAD)))
            for name in ("append", "remove")
        )
        return ast.Try([begin, evaluate], [], [], [end])

    def _bound_value(self, item: Item, site: Site) -> list[ast.stmt]:
        return self._bound(
            Item(item.index, item.expression, local=False, shared=False), site, VALUE
        )  # `was` is already set

    def _missing(self, item: Item, site: Site) -> ast.stmt:
        """It was there and is no more. Of paths that is a change; of other expressions it is silence."""
        forget = [t.assign(t.was(item.index), t.load(CALL)), t.assign(t.type_of(item.index), t.none())]
        name = "lost" if item.expression.form is Form.ANY else "gone"
        call = t.call(t.attribute(CALL, name), t.constant(item.index), site(item.index))
        return ast.If(t.is_not(t.load(t.was(item.index)), t.load(CALL)), [*forget, t.assign(CHECK, call)], [])

    def _conditions(self) -> list[ast.stmt]:
        """Evaluate `when=` and `break_when=` texts where the user's names are."""
        new: list[ast.stmt] = []
        for field_name, text in (("when", "when"), ("stop_when", "break_when")):
            expressions = {i.index: e for i in self.items if (e := getattr(i, text)) is not None}
            for index, expression in expressions.items():
                target = ast.Subscript(t.attribute(CALL, field_name), t.constant(index), ast.Store())
                nothing = ast.Assign([copy.deepcopy(target)], ast.Constant(False))
                handler = t.handler("Exception", nothing)
                evaluate = ast.Assign([target], t.placeless(expression))
                new += self._evaluating(ast.Try([self._quietly(evaluate)], [handler], [], []))
        return new

    def _breaks(self) -> list[ast.stmt]:
        if not any(item.breaks for item in self.items):
            return []
        return [ast.If(t.call(t.attribute(CALL, "stops")), [t.run(t.call(t.marked("breakpoint")))], [])]

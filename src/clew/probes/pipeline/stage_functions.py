"""A spot: a function that is a stage of a pipeline, and what is captured of its calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import CodeType
from typing import Any

from clew.errors import OptionError
from clew.instrument import source
from clew.recorder.fingerprints import original_code
from clew.recorder.plan import Plan, Watched
from clew.values.class_facts import is_exactly

Params = str | int | Iterable[str | int] | Mapping[str, str | int] | None
Result = str | tuple[str, ...] | None

RESULT = "result"
_KINDS = inspect.Parameter
_plans: dict[tuple[Any, ...], Plan] = {}


class Spot:
    """Where items pass: the stage, the names of what goes in and comes out, and who is meant."""

    def __init__(
        self,
        stage: str,
        function: str,
        *,
        module: str = "",
        file: str = "",
        line: int = 0,
        code: CodeType | None = None,  # of the function that is called; says file and line too
        names: Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]],
        result: str | tuple[str, ...] = RESULT,
        kind: str = "stage",  # or dataset, transform, collate, loader, model, loss, optimizer, table
        outermost: bool = False,  # a call of it inside a call of it (or of its kind) is no passage of its own
        ours: bool = False,  # put there by a plug-in, not by the user
    ) -> None:
        self.stage = stage
        self.function = function
        self.module = module
        self.code = code
        self.file = file if code is None else code.co_filename
        self.line = line if code is None else code.co_firstlineno
        self.names = names  # from the arguments of a call to what is captured, by name
        self.result = result
        self.kind = kind
        self.outermost = outermost
        self.ours = ours

    def plan(self, inputs: tuple[str, ...]) -> Plan:
        """What the store is told of calls with these names."""
        outputs = (self.result,) if isinstance(self.result, str) else (*self.result, RESULT)
        key = (self.function, self.module, self.file, self.line, inputs, outputs)
        plan = _plans.get(key)
        if plan is None:
            watched = (
                *(Watched(name, "input") for name in inputs),
                *(Watched(name, "output") for name in outputs),
                Watched("items", "item"),
            )
            plan = Plan(self.function, self.module, self.file, self.line, watched, [self.line], [False], dedupe=False)
            if self.code is not None:
                plan.code, plan.source = self.code, partial(source.text_of, self.code)
            plan.always = False
            plan = _plans.setdefault(key, plan)
        return plan

    def outputs(self, result: Any) -> dict[str, Any]:
        """What came out, by name."""
        if result is None and self.kind == "optimizer":
            return {}
        if isinstance(self.result, str):
            return {self.result: result}
        if is_exactly(result, tuple, list) and len(result) == len(self.result):
            return dict(zip(self.result, result, strict=True))
        return {RESULT: result}


def spot_of(
    function: Callable[..., Any],
    stage: str,
    params: Params,
    result: Result,
    *,
    owner: type | None = None,
    name: str | None = None,
    receiver: bool | None = None,
    kind: str = "stage",
    ours: bool = False,
) -> Spot:
    """The spot of a Python function. `receiver`: its first argument is the object or class it belongs to."""
    qualified = str(name or getattr(function, "__qualname__", type(function).__name__))
    qualified = qualified.rpartition("<locals>.")[2]
    if receiver is None:
        receiver = owner is not None or _is_method(function)
    code = original_code(function)
    names = Names(function, params, receiver)
    named = _result_name(result, names.known)
    return Spot(
        stage,
        f"{owner.__qualname__.rpartition('<locals>.')[2]}.{qualified.rpartition('.')[2]}" if owner else qualified,
        module=getattr(function, "__module__", "") or "",
        code=code,
        names=names,
        result=named,
        kind=kind,
        ours=ours,
    )


def _result_name(result: Any, inputs: Iterable[str]) -> str | tuple[str, ...]:
    taken = set(inputs)
    if result is None:
        return RESULT if RESULT not in taken else "returned"
    named = tuple(result) if isinstance(result, Iterable) and not isinstance(result, str) else (result,)
    for name in named:
        if not name or not isinstance(name, str):
            raise OptionError("bad-option", f"result= names what a stage gives, not {name!r}.", 'result="row"')
        if name in taken:
            what = f"result={name!r} is also the name of something the stage is given."
            raise OptionError("bad-option", what, "Give it a name of its own.")
    return result if isinstance(result, str) else named


def _is_method(function: Any) -> bool:
    """By its looks: defined in a class, and its first argument is called as everybody calls it."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_argcount == 0:
        return False
    inside = getattr(function, "__qualname__", "").rpartition("<locals>.")[2]
    return "." in inside and code.co_varnames[0] in ("self", "cls", "mcs")


class Names:
    """From the arguments of a call to what is captured of them, by name."""

    def __init__(self, function: Callable[..., Any], params: Params, receiver: bool, *, defaults: bool = True) -> None:
        self._receiver = receiver
        self._defaults = defaults  # False: an argument that is what it would be anyhow is not worth showing
        try:
            self._signature: inspect.Signature | None = inspect.signature(function)
        except (TypeError, ValueError):
            self._signature = None  # built in
        parameters = list(self._signature.parameters.values()) if self._signature is not None else []
        self._parameters = parameters[1:] if receiver and parameters else parameters
        self._wanted = self._checked(params, getattr(function, "__qualname__", "the function"))

    @property
    def known(self) -> list[str]:
        """The names that will be captured, as far as that is known before a call."""
        if self._wanted is not None:
            return list(self._wanted)
        return [p.name for p in self._parameters if p.kind not in (_KINDS.VAR_POSITIONAL, _KINDS.VAR_KEYWORD)]

    def _checked(self, params: Any, where: str) -> dict[str, str | int] | None:
        """By captured name: the parameter's name, or its position."""
        if params is None:
            return None
        if isinstance(params, (str, int)):
            params = [params]
        if not isinstance(params, Iterable):
            what = f"params= takes names and positions, not {params!r}."
            raise OptionError("no-such-parameter", what, 'params=["row"]')
        if isinstance(params, Mapping):
            given = {str(name): target for name, target in params.items()}
        else:
            given = {self._name_at(target): target for target in params}
        for target in given.values():
            if isinstance(target, bool) or not isinstance(target, (str, int)):
                raise OptionError(
                    "no-such-parameter", f"params= takes names and positions, not {target!r}.", 'params=["row"]'
                )
            self._check(target, where)
        return given

    def _name_at(self, target: Any) -> str:
        if isinstance(target, int) and 0 <= target < len(self._parameters):
            return self._parameters[target].name
        return str(target)

    def _check(self, target: str | int, where: str) -> None:
        if self._signature is None:
            return
        kinds = {p.kind for p in self._parameters}
        known = ", ".join(p.name for p in self._parameters) or "none"
        if isinstance(target, int):
            fits = -1 < target < len(self._parameters) or (target >= 0 and _KINDS.VAR_POSITIONAL in kinds)
        else:
            fits = any(p.name == target for p in self._parameters) or _KINDS.VAR_KEYWORD in kinds
        if not fits:
            raise OptionError("no-such-parameter", f"{where} has no parameter {target!r}.", f"It has: {known}.")

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if self._receiver:
            args = args[1:]
        everything = self._bound(args, kwargs)
        if self._wanted is None:
            return everything
        found: dict[str, Any] = {}
        for name, target in self._wanted.items():
            if isinstance(target, int):
                if target < len(args):
                    found[name] = args[target]
                    continue
                target = self._name_at(target)
            if target in everything:
                found[name] = everything[target]
        return found

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Every argument by its parameter's name, defaults too; extra ones by their own names or numbers."""
        found: dict[str, Any] = {}
        rest = dict(kwargs)
        position = 0
        for parameter in self._parameters:
            if parameter.kind is _KINDS.VAR_POSITIONAL:
                if args[position:] or not found:
                    found[parameter.name] = args[position:]
                position = len(args)
            elif parameter.kind is _KINDS.VAR_KEYWORD:
                continue
            elif parameter.kind is not _KINDS.KEYWORD_ONLY and position < len(args):
                found[parameter.name] = args[position]
                position += 1
            elif parameter.name in rest:
                found[parameter.name] = rest.pop(parameter.name)
            elif parameter.default is not _KINDS.empty:
                found[parameter.name] = parameter.default
        found.update({f"arg{number}": args[number] for number in range(position, len(args))})
        found.update(rest)
        if not self._defaults:
            usual = {p.name: p.default for p in self._parameters}
            found = {name: value for name, value in found.items() if value is not usual.get(name, _KINDS.empty)}
        return found


_named: dict[tuple[Any, ...], Spot] = {}


def named_spot(stage: str, function: str, *names: str, result: str, kind: str) -> Spot:
    """The spot of something that is called so: the same for the same names."""
    key = (stage, function, names, result, kind)
    if key not in _named:
        _named[key] = Spot(stage, function, names=fixed(*names), result=result, kind=kind, ours=True)
    return _named[key]


def fixed(*names: str, receiver: bool = False) -> Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]:
    """The first arguments under these names, for a plug-in that knows what it looks at."""

    def named(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        given = args[1:] if receiver else args
        return {**dict(zip(names, given, strict=False)), **kwargs}

    return named

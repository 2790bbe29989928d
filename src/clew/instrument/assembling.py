"""From a rewritten tree to the code object that is swapped in."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

from clew.recorder.plan import Plan

from . import source
from .rewrite import Rewritten
from .syntax_trees import MARK


def assemble(
    rewritten: Rewritten, original: CodeType, context: source.Context, plan: Plan, objects: dict[str, Any]
) -> CodeType:
    """Compile, and put the real objects and site numbers where marked strings stand."""

    code = patched(source.compile_alone(rewritten.function, original, context), plan, objects)
    texts = {const: const for const in original.co_consts if type(const) is str}
    return code.replace(
        co_flags=(code.co_flags & ~source.OUTER_FLAGS) | (original.co_flags & source.OUTER_FLAGS),
        # the very objects: a function's docstring is one of its constants, which pickles of it show
        co_consts=tuple(texts.get(const, const) if type(const) is str else const for const in code.co_consts),
    )


def patched(code: CodeType, plan: Plan, objects: dict[str, Any]) -> CodeType:
    """The code with real objects and site numbers as constants."""

    def real(mark: str) -> Any:
        name, _, rest = mark.partition(":")
        if name != "site":
            return objects[name]
        statement, index = rest.split(":")
        return plan.site(int(statement), int(index))

    return _patched(code, real)


def _patched(code: CodeType, real: Callable[[str], Any]) -> CodeType:
    consts = tuple(_patch(const, real) for const in code.co_consts)
    if all(new is old for new, old in zip(consts, code.co_consts, strict=True)):
        return code  # functions of one module share equal constants, which pickles of them show
    return code.replace(co_consts=consts)


def _patch(const: Any, real: Callable[[str], Any]) -> Any:
    if type(const) is str and const.startswith(MARK):
        return real(const[len(MARK) :])
    return _patched(const, real) if isinstance(const, CodeType) else const

"""Which functions a person means by a name or a pattern."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from clew.records import Function


def matcher(pattern: str | None) -> Callable[[Function], bool]:
    """A test for functions: `step`, `Trainer.step`, `pkg.mod.Trainer.step`, `mod:Trainer.step`, `*.forward`."""
    if pattern is None:
        return lambda function: True
    module, colon, name = pattern.rpartition(":")
    if colon:
        inside, outside = matcher(name), module
        return lambda function: _fits(outside, function.module) and inside(function)
    wanted = _without_locals(pattern)
    if any(mark in wanted for mark in "*?["):
        return lambda function: any(fnmatchcase(text, wanted) for text in _spellings(function))
    return lambda function: wanted in _spellings(function)


def _fits(pattern: str, module: str) -> bool:
    tails = [module] + [module[place + 1 :] for place, letter in enumerate(module) if letter == "."]
    return any(fnmatchcase(tail, pattern) for tail in tails)


def _spellings(function: Function) -> list[str]:
    """Every way to say it: the full dotted name and each of its tails."""
    parts = _without_locals(f"{function.module}.{function.name}").split(".")
    return [".".join(parts[place:]) for place in range(len(parts))]


def _without_locals(name: str) -> str:
    return name.replace("<locals>.", "")

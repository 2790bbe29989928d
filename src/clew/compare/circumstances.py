"""Lists how two runs were started differently: arguments, tags, seeds, variables, packages and the like.

None of it is judged: two runs with different arguments may well be equal. It is shown first because it
often is the answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from clew.reading.run import Run

_NUMBER: Final = re.compile(r"-?\.?\d")
_TEXT_ENTRIES: Final = ("python", "host", "platform")  # entries of a run's metadata that are one text


class Circumstance(NamedTuple):
    """One way in which two runs were started differently."""

    kind: str  # script, argument, tag, variable, package, seed, commit, python, host, platform
    name: str  # "" if there is only one of the kind
    a: str | None  # None: absent
    b: str | None

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()

    def __str__(self) -> str:
        label = f"{self.kind} {self.name}".rstrip()
        a, b = ("not there" if value is None else value for value in (self.a, self.b))
        return f"{label}: {a} → {b}"


def differing_circumstances(a: Run, b: Run) -> list[Circumstance]:
    """The circumstances that differ, the likeliest reasons first."""
    differing: list[Circumstance] = []
    for kind, entries_a, entries_b in (
        ("script", _script(a.meta), _script(b.meta)),
        ("argument", _arguments(a.meta), _arguments(b.meta)),
        ("tag", _entries(a.meta, "tags"), _entries(b.meta, "tags")),
        ("seed", _entries(a.meta, "seeds"), _entries(b.meta, "seeds")),
        ("variable", _entries(a.meta, "environment"), _entries(b.meta, "environment")),
        ("commit", _commit(a.meta), _commit(b.meta)),
        ("package", _entries(a.meta, "packages"), _entries(b.meta, "packages")),
        *((key, {"": str(a.meta.get(key))}, {"": str(b.meta.get(key))}) for key in _TEXT_ENTRIES),
    ):
        names = dict.fromkeys([*entries_a, *entries_b])
        if kind == "package":  # libraries may be loaded later, so only different versions count
            names = dict.fromkeys(name for name in entries_a if name in entries_b)
        differing += [
            Circumstance(kind, name, entries_a.get(name), entries_b.get(name))
            for name in names
            if entries_a.get(name) != entries_b.get(name)
        ]
    return differing


def _entries(meta: Mapping[str, Any], key: str) -> dict[str, str]:
    return {str(name): str(entry) for name, entry in (meta.get(key) or {}).items()}


def _command_line(meta: Mapping[str, Any]) -> list[str]:
    return [str(argument) for argument in meta.get("argv") or []]


def _script(meta: Mapping[str, Any]) -> dict[str, str]:
    command_line = _command_line(meta)
    return {"": command_line[0]} if command_line else {}


def _arguments(meta: Mapping[str, Any]) -> dict[str, str]:
    """Options by name, `--lr 0.1` and `--lr=0.1` alike, and positional arguments by number."""
    arguments: dict[str, str] = {}
    positional, rest = 0, _command_line(meta)[1:]
    while rest:
        argument = rest.pop(0)
        if not argument.startswith("-") or _NUMBER.match(argument):
            positional += 1
            arguments[str(positional)] = argument
            continue
        name, equals, value = argument.partition("=")
        if not equals:
            value_follows = bool(rest) and (not rest[0].startswith("-") or bool(_NUMBER.match(rest[0])))
            value = rest.pop(0) if value_follows else "given"
        arguments[name] = f"{arguments[name]} {value}" if name in arguments else value
    return arguments


def _commit(meta: Mapping[str, Any]) -> dict[str, str]:
    git = meta.get("git") or {}
    changed = " with changes" if git.get("dirty") else ""
    return {"": f"{str(git['commit'])[:12]}{changed}"} if git.get("commit") else {}

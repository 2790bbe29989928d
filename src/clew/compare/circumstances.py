"""What is known to differ about two runs before any of their values is compared: how they were started, and with what.

Nothing here is judged: two runs with other arguments may well be equal. It stands first because it often is the answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from clew.history.run import Run

_NUMBER: Final = re.compile(r"-?\.?\d")
_SINGLE: Final = ("python", "host", "platform")  # entries of a run's metadata that are one text


class Circumstance(NamedTuple):
    """Something about how two runs were started that is not the same."""

    kind: str  # script, argument, tag, variable, package, seed, commit, python, host, platform
    name: str  # "" where the kind says it all
    a: str | None  # None: not there
    b: str | None

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()

    def __str__(self) -> str:
        what = f"{self.kind} {self.name}".rstrip()
        one, other = ("not there" if value is None else value for value in (self.a, self.b))
        return f"{what}: {one} → {other}"


def differing_circumstances(a: Run, b: Run) -> list[Circumstance]:
    """What differs, the likeliest reasons first."""
    found: list[Circumstance] = []
    for kind, one, other in (
        ("script", _script(a.meta), _script(b.meta)),
        ("argument", _arguments(a.meta), _arguments(b.meta)),
        ("tag", _entries(a.meta, "tags"), _entries(b.meta, "tags")),
        ("seed", _entries(a.meta, "seeds"), _entries(b.meta, "seeds")),
        ("variable", _entries(a.meta, "environment"), _entries(b.meta, "environment")),
        ("commit", _commit(a.meta), _commit(b.meta)),
        ("package", _entries(a.meta, "packages"), _entries(b.meta, "packages")),
        *((key, {"": str(a.meta.get(key))}, {"": str(b.meta.get(key))}) for key in _SINGLE),
    ):
        names = dict.fromkeys([*one, *other])
        if kind == "package":  # libraries are also loaded late: only other versions tell something
            names = dict.fromkeys(name for name in one if name in other)
        found += [Circumstance(kind, n, one.get(n), other.get(n)) for n in names if one.get(n) != other.get(n)]
    return found


def _entries(meta: Mapping[str, Any], key: str) -> dict[str, str]:
    return {str(name): str(entry) for name, entry in (meta.get(key) or {}).items()}


def _words(meta: Mapping[str, Any]) -> list[str]:
    return [str(word) for word in meta.get("argv") or []]


def _script(meta: Mapping[str, Any]) -> dict[str, str]:
    words = _words(meta)
    return {"": words[0]} if words else {}


def _arguments(meta: Mapping[str, Any]) -> dict[str, str]:
    """Options by name, `--lr 0.1` and `--lr=0.1` alike, and the other arguments by their number."""
    arguments: dict[str, str] = {}
    others, words = 0, _words(meta)[1:]
    while words:
        word = words.pop(0)
        if not word.startswith("-") or _NUMBER.match(word):
            others += 1
            arguments[str(others)] = word
            continue
        name, equals, value = word.partition("=")
        if not equals:
            follows = bool(words) and (not words[0].startswith("-") or bool(_NUMBER.match(words[0])))
            value = words.pop(0) if follows else "given"
        arguments[name] = f"{arguments[name]} {value}" if name in arguments else value
    return arguments


def _commit(meta: Mapping[str, Any]) -> dict[str, str]:
    git = meta.get("git") or {}
    changed = " with changes" if git.get("dirty") else ""
    return {"": f"{str(git['commit'])[:12]}{changed}"} if git.get("commit") else {}

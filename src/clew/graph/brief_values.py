"""A value in a few words, for messages and pictures: nobody's own code is run for it, and it is never long."""

from __future__ import annotations

from itertools import islice
from typing import Any

from clew.values import SCALARS

_MOST = 12  # items of a container that are named
_BRACKETS: dict[type, tuple[str, str]] = {list: ("[", "]"), tuple: ("(", ")"), frozenset: ("frozenset({", "})")}
_ARRAYS = ("numpy.ndarray", "torch.Tensor")


class StandIn:
    """Something that is called as a value of another class would be, where that value is not made."""

    def __init__(self, name: str) -> None:
        self.__name__ = name


class Said:
    """A value that is written as these words."""

    def __init__(self, value: Any) -> None:
        self._words = words(value)

    def __repr__(self) -> str:
        return self._words


def words(value: Any, longest: int = 200) -> str:
    said = _said(value, longest, 3)
    return said if len(said) <= longest else said[: longest - 1] + "…"


def _said(value: Any, longest: int, depth: int) -> str:
    kind = type(value)
    if kind in (str, bytes, bytearray) and len(value) > longest:
        return repr(value[:longest])[:-1] + "…"
    if kind in SCALARS or kind in (bytearray, range):
        return repr(value)
    if kind is StandIn:
        return f"a {value.__name__}"
    if kind is type:
        return type.__repr__(value)
    if kind is slice:
        return _slice(value)
    if depth and kind in (list, tuple, set, frozenset, dict) and value:
        return _container(value, kind, longest, depth - 1)
    if kind in (list, tuple, set, frozenset, dict):
        return "…" if value else repr(value)
    if f"{kind.__module__}.{kind.__qualname__}" in _ARRAYS:
        return " ".join(repr(value).split())
    return f"a {kind.__name__}"


def _slice(value: slice) -> str:
    parts = (value.start, value.stop, value.step)
    if any(type(part) not in (int, type(None)) for part in parts):
        return "…"
    said = ["" if part is None else str(part) for part in parts]
    return ":".join(said[:2] if value.step is None else said)


def _container(value: Any, kind: type, longest: int, depth: int) -> str:
    if kind is dict:
        pairs = islice(value.items(), _MOST)
        said = [f"{_said(key, longest, depth)}: {_said(item, longest, depth)}" for key, item in pairs]
    else:
        said = [_said(item, longest, depth) for item in islice(value, _MOST)]
    if len(value) > _MOST:
        said.append(f"… {len(value)} in all")
    left, right = _BRACKETS.get(kind, ("{", "}"))
    return left + ", ".join(said) + ("," if kind is tuple and len(value) == 1 else "") + right


def visible(text: str) -> str:
    """What somebody else has written, fit to be read: nothing in it can begin a line, move the cursor or hide."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)

"""Reads the interfaces of web/src/types.ts, and holds answers to them: exactly those keys, of those types."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

TYPES = Path(__file__).parents[2] / "web" / "src" / "types.ts"
_TOKEN = re.compile(r'"[^"]*"|[A-Za-z_]\w*|[{}\[\]()|<>,;:?]')


class Reader:
    """A small part of TypeScript: unions, arrays, tuples, records, literals, objects, names."""

    def __init__(self, text: str) -> None:
        self.tokens = _TOKEN.findall(text)
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        token = self.peek()
        assert not wanted or token == wanted, f"{wanted} expected, not {token}, at token {self.at}"
        self.at += 1
        return token

    def union(self) -> Any:
        if self.peek() == "|":
            self.take()
        parts = [self.postfix()]
        while self.peek() == "|":
            self.take()
            parts.append(self.postfix())
        return parts[0] if len(parts) == 1 else ("union", parts)

    def postfix(self) -> Any:
        declaration = self.primary()
        while self.peek() == "[":
            self.take()
            self.take("]")
            declaration = "array", declaration
        return declaration

    def primary(self) -> Any:
        token = self.take()
        if token == "{":
            return self.fields()
        if token in ("(", "["):
            parts = self.listed(")" if token == "(" else "]")
            return parts[0] if token == "(" else ("tuple", parts)
        if token.startswith('"'):
            return "literal", token[1:-1]
        if self.peek() == "<":
            self.take()
            return "record", self.listed(">")[1]
        return "name", token

    def listed(self, end: str) -> list[Any]:
        parts = [self.union()]
        while self.peek() == ",":
            self.take()
            parts.append(self.union())
        self.take(end)
        return parts

    def fields(self) -> Any:
        declaration: dict[str, tuple[bool, Any]] = {}
        while self.peek() != "}":
            name = self.take()
            optional = self.peek() == "?"
            if optional:
                self.take()
            self.take(":")
            declaration[name] = optional, self.union()
            if self.peek() in (";", ","):
                self.take()
        self.take("}")
        return "object", declaration


@cache
def declared() -> dict[str, Any]:
    """name → type, of every interface and alias."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", TYPES.read_text(encoding="utf-8"), flags=re.DOTALL)
    declaration: dict[str, Any] = {}
    for match in re.finditer(r"export (?:interface (\w+) |type (\w+) =)", text):
        declaration[match[1] or match[2]] = Reader(text[match.end() :]).union()
    return declaration


def misfits(value: Any, kind: str) -> list[str]:
    """What is wrong with an answer, by path; nothing if it is as declared."""
    return _misfits(value, declared()[kind], kind)


def _misfits(value: Any, kind: Any, at: str) -> list[str]:
    form, inner = kind
    if form == "union":
        tried = [_misfits(value, item, at) for item in inner]
        return [] if [] in tried else min(tried, key=len)
    if form == "array":
        if not isinstance(value, list):
            return [f"{at} is no list"]
        return [wrong for place, item in enumerate(value) for wrong in _misfits(item, inner, f"{at}[{place}]")]
    if form == "tuple":
        if not isinstance(value, list) or len(value) != len(inner):
            return [f"{at} is no list of {len(inner)}"]
        return [wrong for item, expected in zip(value, inner, strict=True) for wrong in _misfits(item, expected, at)]
    if form == "record":
        if not isinstance(value, dict):
            return [f"{at} is no object"]
        return [wrong for key, item in value.items() for wrong in _misfits(item, inner, f"{at}.{key}")]
    if form == "literal":
        return [] if value == inner else [f"{at} is {value!r}, not {inner!r}"]
    return _of_fields(value, inner, at) if form == "object" else _of_name(value, inner, at)


def _of_fields(value: Any, fields: dict[str, tuple[bool, Any]], at: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{at} is no object"]
    wrong = [f"{at}.{name} is not declared" for name in value if name not in fields]
    for name, (optional, kind) in fields.items():
        if name in value:
            wrong += _misfits(value[name], kind, f"{at}.{name}")
        elif not optional:
            wrong.append(f"{at}.{name} is missing")
    return wrong


def _of_name(value: Any, name: str, at: str) -> list[str]:
    plain = {
        "string": isinstance(value, str),
        "number": isinstance(value, (int, float)) and not isinstance(value, bool),
        "boolean": isinstance(value, bool),
        "null": value is None,
        "unknown": True,
    }
    if name in plain:
        return [] if plain[name] else [f"{at} is {value!r}, no {name}"]
    return _misfits(value, declared()[name], at)

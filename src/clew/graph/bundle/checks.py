"""Checks of the parts of graph.json: each refuses what is not of its kind, and names the place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

# Where a part of a page stands: the parts that it is in, in pairs, because a text for each part would take as long
# to make as it is long, and a forged name may be very long. `in_words` makes a text of it when something is wrong.
Where = str | tuple["Where", str | int]


class Page(Protocol):
    """The page that is looked at."""

    def wrong(self, where: Where, what: str) -> Exception: ...


Check = Callable[[Any, Any, Where], None]  # a page, a part of it, and where that stands
LARGEST_ID = 1 << 53  # beyond, one could choose numbers that all have the same hash
_LONGEST_NAME = 40
_NAMES_IN_WORDS = 12
_DEVICE = re.compile(r"[a-z]+(:\d+)?")


def in_words(where: Where) -> str:
    """`block.events[3].step.args[0]`; of what stands very deep, the last steps."""
    parts: list[str] = []
    while not isinstance(where, str):
        where, name = where
        if len(parts) == _NAMES_IN_WORDS:
            where = "…"
        else:
            parts.append(f"[{name}]" if isinstance(name, int) else f".{name[:_LONGEST_NAME]}")
    return where + "".join(reversed(parts))


def of_type(kind: type, called: str) -> Check:
    def look(page: Page, value: Any, where: Where) -> None:
        if type(value) is not kind:
            raise page.wrong(where, f"is no {called}")

    return look


text, flag, whole = of_type(str, "text"), of_type(bool, "true or false"), of_type(int, "whole number")


def number(page: Page, value: Any, where: Where) -> None:
    if type(value) is not int or value < 0:
        raise page.wrong(where, "is no number from 0 on")


def identity(page: Page, value: Any, where: Where) -> None:
    """The number of an input or a step."""
    number(page, value, where)
    if value > LARGEST_ID:
        raise page.wrong(where, "is too large a number")


def at_least_one(page: Page, value: Any, where: Where) -> None:
    if type(value) is not int or value < 1:
        raise page.wrong(where, "is no number from 1 on")


def path(page: Page, value: Any, where: Where) -> None:
    """A path that is led into the bundle. The empty one would be the beginning of every path."""
    if not isinstance(value, str) or not value:
        raise page.wrong(where, "is no path")


def either(*choices: str) -> Check:
    def look(page: Page, value: Any, where: Where) -> None:
        if value not in choices:
            raise page.wrong(where, f"is none of {', '.join(choices)}")

    return look


def name(page: Page, value: Any, where: Where) -> None:
    """A Python name, or several with dots between them."""
    if not isinstance(value, str) or not all(part.isidentifier() for part in value.split(".")):
        raise page.wrong(where, "is no Python name")


def optional_name(page: Page, value: Any, where: Where) -> None:
    if value != "":
        name(page, value, where)


def float_text(page: Page, value: Any, where: Where) -> None:
    if value not in ("nan", "inf", "-inf"):
        raise page.wrong(where, "is no number")


def device(page: Page, value: Any, where: Where) -> None:
    if not isinstance(value, str) or not _DEVICE.fullmatch(value):
        raise page.wrong(where, "is no device")


def elsewhere(page: Page, value: Any, where: Where) -> None:
    """Looked at elsewhere: files by the layout, the graph when its inputs are known, kinds of arrays by NumPy."""


def list_of(check: Check, count: int | None = None) -> Check:
    def look(page: Page, value: Any, where: Where) -> None:
        if not isinstance(value, list) or (count is not None and len(value) != count):
            raise page.wrong(where, "is no list" if count is None else f"is no list of {count}")
        for place, item in enumerate(value):
            check(page, item, (where, place))

    return look


def pairs(first: Check, second: Check) -> Check:
    def look(page: Page, value: Any, where: Where) -> None:
        if not isinstance(value, list) or len(value) != 2:
            raise page.wrong(where, "is no pair")
        first(page, value[0], (where, 0))
        second(page, value[1], (where, 1))

    return list_of(look)


def table_of(key: Check, item: Check) -> Check:
    def look(page: Page, value: Any, where: Where) -> None:
        if not isinstance(value, dict):
            raise page.wrong(where, "is no table of names")
        for name, one in value.items():
            key(page, name, (where, name))
            item(page, one, (where, name))

    return look


def record(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """What must be there, and what may be."""
    known = {"$": elsewhere, **required, **(optional or {})}

    def look(page: Page, value: Any, where: Where) -> None:
        if not isinstance(value, dict):
            raise page.wrong(where, "is no record")
        for name in required:
            if name not in value:
                raise page.wrong(where, f"has no {name}")
        for name, one in value.items():
            if name not in known:
                raise page.wrong(where, f"has a part {name!r} that does not belong there")
            known[name](page, one, (where, name))

    return look

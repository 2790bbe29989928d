"""How much of a value is kept: the policy a user names once, parsed once, asked at every capture."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from clew import trouble
from clew.errors import OptionError

ARRAY_LIMIT: Final = 32 << 20
TEXT_LIMIT: Final = 1 << 20
ITEM_LIMIT: Final = 100_000
UNLIMITED: Final = 1 << 62

_LAST: Final = re.compile(r"last\s+([1-9][0-9]*)\Z")


@dataclass(frozen=True, slots=True)
class Keep:
    """A keep policy. The limits bound one captured value as a whole, however many arrays and texts it holds."""

    mode: Literal["auto", "full", "summary", "last"] = "auto"
    last: int = 0
    choose: Callable[[Any], object] | None = None
    array_limit: int = ARRAY_LIMIT
    text_limit: int = TEXT_LIMIT
    item_limit: int = ITEM_LIMIT
    light: bool = False  # nothing is computed of what is too large, and objects are not looked into
    stats: bool = False  # but statistics are


AUTO: Final = Keep()
FULL: Final = Keep("full", array_limit=UNLIMITED, text_limit=UNLIMITED, item_limit=UNLIMITED)
SUMMARY: Final = Keep("summary")
LIGHT: Final = Keep(array_limit=64 << 10, text_limit=64 << 10, item_limit=1000, light=True)


def parse_keep(keep: str | int | Callable[[Any], object] | Keep | None) -> Keep:
    """`None` or "auto", "full", "summary", "last N" (or the number N), a callable, or a policy already parsed."""
    if type(keep) is Keep:
        return keep
    if keep is None:
        return AUTO
    if type(keep) is str:
        return _parse_word(keep)
    if type(keep) is int and keep > 0:
        return replace(FULL, mode="last", last=keep)
    if callable(keep):
        return Keep(choose=keep)
    raise _unknown(keep)


def _parse_word(word: str) -> Keep:
    named = {"auto": AUTO, "full": FULL, "summary": SUMMARY}.get(word)
    if named is not None:
        return named
    match = _LAST.match(word)
    if match is None:
        raise _unknown(word)
    return replace(FULL, mode="last", last=int(match.group(1)))


def _unknown(keep: object) -> OptionError:
    shown = repr(keep) if type(keep) in (str, int, float, bool) else f"a {type(keep).__name__}"
    return OptionError(
        "keep",
        f"keep={shown} is not a keep policy.",
        'Give "full", "summary", "last N" with N of at least 1, or a callable that takes the value.',
    )


def settled(keep: Keep, obj: object) -> Keep:
    """The policy for this very value: a callable is asked; one that fails is reported once and counts as auto."""
    choose = keep.choose
    if choose is None:
        return keep
    try:
        answer = choose(obj)
    except Exception as error:
        name = getattr(choose, "__qualname__", type(choose).__name__)
        what = f"the keep callable {name} failed; its values are kept as by default"
        trouble.report(f"keep:{name}", what, cause=error)
        return replace(keep, choose=None)
    if answer is True or (type(answer) is str and answer == "full"):
        return FULL
    if answer is False or (type(answer) is str and answer == "summary"):
        return SUMMARY
    return replace(keep, choose=None)


def keep_by_name(given: Any) -> dict[str, Keep]:
    """Policies by name; one for all names stands under "*"."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {str(name): parse_keep(policy) for name, policy in given.items()}
    return {"*": parse_keep(given)}

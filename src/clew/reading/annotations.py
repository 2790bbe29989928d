"""Checks the annotations that pipeline calls recorded about their items, because a run may come from anyone.

Fields whose type differs from the written one are dropped, and the trace reports them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from clew.text.brief import brief

_LONGEST_ID: Final = 200  # characters of an id's text
_LONGEST_TUPLE: Final = 16
_SHORT: Final = (str, float, bool, bytes, type(None))
_COUNT: Final = 1 << 62
_MODULES_OF_SMALL_VALUES: Final = ("datetime", "uuid", "pandas")  # dates, times and similar values


def check_annotation(annotation: dict[Any, Any]) -> tuple[dict[str, Any], list[str]]:
    """The valid fields, with comparable ids, and the names of the invalid ones."""
    valid_fields, invalid_names = _split_fields(annotation, _FIELDS)
    for field in ("ids", "given"):
        if field in valid_fields:
            valid_fields[field] = list(map(id_name, valid_fields[field]))
    if "called" in valid_fields:
        valid_fields["called"] = id_name(valid_fields["called"])
    if "facts" in valid_fields:
        valid_fields["facts"], invalid_facts = _split_fields(valid_fields["facts"], _FACTS)
        invalid_names += invalid_facts
    return valid_fields, invalid_names


def _split_fields(values: dict[Any, Any], checks: dict[str, Callable[[Any], bool]]) -> tuple[dict[str, Any], list[str]]:
    known_fields = {name: value for name, value in values.items() if type(name) is str and name in checks}
    invalid_names = [name for name, value in known_fields.items() if not checks[name](value)]
    return {name: value for name, value in known_fields.items() if name not in invalid_names}, invalid_names


def id_name(id: Any) -> Any:
    """The id itself if it is cheap to compare and show; else its text."""
    if type(id) is tuple and len(id) <= _LONGEST_TUPLE and not any(type(part) is tuple for part in id):
        return tuple(map(id_name, id))
    if type(id) in _SHORT or (type(id) is int and id.bit_length() <= 256):
        return id
    if type(id).__module__.partition(".")[0] in _MODULES_OF_SMALL_VALUES and _is_hashable(id):
        return id
    return brief(id, _LONGEST_ID)


def _is_hashable(id: Any) -> bool:
    try:
        hash(id)
    except TypeError:
        return False
    return True


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_text_or_none(value: Any) -> bool:
    return value is None or type(value) is str


def _is_texts(value: Any) -> bool:
    return type(value) in (list, tuple) and all(type(item) is str for item in value)


def _is_list(value: Any) -> bool:
    return type(value) in (list, tuple)


def _is_count(value: Any) -> bool:
    return value is None or (type(value) is int and 0 <= value < _COUNT)


def _is_counts(value: Any) -> bool:
    return _is_list(value) and all(type(item) is int and 0 <= item < _COUNT for item in value)


def _is_pair(value: Any) -> bool:
    return _is_list(value) and len(value) == 2 and all(type(item) is float for item in value)


def _is_devices(value: Any) -> bool:
    return type(value) is dict and all(type(key) is type(item) is str for key, item in value.items())


_FIELDS: Final[dict[str, Callable[[Any], bool]]] = {
    "trace": _is_text,
    "facts": lambda value: type(value) is dict,
    "ids": _is_list,
    "source": _is_text,
    "batch": _is_count,
    "by_row": lambda value: type(value) is bool,
    "given": _is_list,
    "lost": _is_text,
    "files": _is_texts,
    "where": _is_text,
    "devices": _is_devices,
    "rows": _is_count,
    "mode": _is_text,
    "convolved": _is_counts,
    "convolved_range": _is_pair,
    "called": lambda value: True,
    "took": _is_count,
}
_FACTS: Final[dict[str, Callable[[Any], bool]]] = {
    "wanted": _is_count,
    "state": _is_text,
    "error": _is_text_or_none,
    "altered": _is_texts,
    "notes": _is_texts,
    "stages": _is_texts,
    "run": _is_text,
}

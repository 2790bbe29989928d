"""Answers the comparison of two runs with the result of `clew.diff`, cached until one of them grows."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from clew.errors import ClewError, OptionError
from clew.page.query_parameters import Query
from clew.reading.run import Run

if TYPE_CHECKING:
    from pathlib import Path

    from clew.page.shelf import Shelf

KEPT = 8  # comparisons in the cache
PAGE, MOST = 200, 2_000  # differences in one answer
NUMBERS = ("rtol", "atol", "ulp", "noise")
PATTERNS = ("only", "ignore")

_lock = threading.Lock()
_comparisons: dict[Any, Any] = {}


def compare(shelf: Shelf, query: Query) -> dict[str, Any]:
    """The comparison of `a` and `b`; with `reference`, relative to its noise."""
    ids = [query.required("a"), query.required("b"), *filter(None, [query.text("reference")])]
    folders = [shelf.folder(id) for id in ids]
    for id in ids:
        shelf.opened(id).check_exists()
    settings = {name: query.number(name) for name in NUMBERS if query.text(name)}
    patterns = {name: _split_patterns(query.text(name)) for name in PATTERNS if query.text(name)}
    options: dict[str, Any] = {**settings, **patterns, **({"common": True} if query.flag("common") else {})}
    if query.text("map"):
        options["map"] = _parse_renames(query.text("map"))
    key = tuple(map(str, folders)), tuple(map(_file_sizes, folders)), repr(sorted(options.items()))
    offset, limit = query.integer("offset", 0), query.integer("limit", PAGE, 1, MOST)
    with _lock:  # one at a time, because two at once would compete for memory
        if key not in _comparisons:
            comparison = _diff(folders, options)
            while len(_comparisons) >= KEPT:
                del _comparisons[next(iter(_comparisons))]
            _comparisons[key] = comparison
        result: dict[str, Any] = _comparisons[key].to_dict(offset=offset, limit=limit)
        return result


def _diff(folders: list[Path], options: dict[str, Any]) -> Any:
    from clew.compare import diff

    a, b, *reference = map(Run, folders)  # separate runs, because the comparison reads in its own thread
    return diff(a, b, reference=reference[0] if reference else None, **options)


def _split_patterns(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _parse_renames(text: str) -> dict[str, str]:
    """`old=new,other=another`."""
    pairs = [part.partition("=") for part in _split_patterns(text)]
    if not all(old.strip() and sign and new.strip() for old, sign, new in pairs):
        raise OptionError("bad-query", f"`map={text[:60]}` is not of the form old=new,other=another.", "")
    return {old.strip(): new.strip() for old, _, new in pairs}


def _file_sizes(folder: Path) -> tuple[int, ...]:
    """The sizes of a run's files, which show whether more was written."""
    try:
        files = sorted(path for path in folder.glob("shards/*/*") if path.is_file())
        return tuple(path.lstat().st_size for path in files)
    except (OSError, ClewError):
        return ()

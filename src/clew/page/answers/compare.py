"""Two runs side by side: what `clew.diff` says, kept until one of them grows."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from clew.errors import ClewError, OptionError
from clew.history.run import Run
from clew.page.query import Query

if TYPE_CHECKING:
    from pathlib import Path

    from clew.page.shelf import Shelf

KEPT = 8  # comparisons
PAGE, MOST = 200, 2_000  # differences in one answer
NUMBERS = ("rtol", "atol", "ulp", "noise")
PATTERNS = ("only", "ignore")

_lock = threading.Lock()
_made: dict[Any, Any] = {}


def compare(shelf: Shelf, query: Query) -> dict[str, Any]:
    """The comparison of `a` and `b`; with `reference` against the noise of that."""
    ids = [query.needed("a"), query.needed("b"), *filter(None, [query.text("reference")])]
    folders = [shelf.folder(id) for id in ids]
    for id in ids:
        shelf.opened(id).check_there()
    settings = {name: query.number(name) for name in NUMBERS if query.text(name)}
    patterns = {name: _patterns(query.text(name)) for name in PATTERNS if query.text(name)}
    given: dict[str, Any] = {**settings, **patterns, **({"common": True} if query.yes("common") else {})}
    if query.text("map"):
        given["map"] = _renames(query.text("map"))
    key = tuple(map(str, folders)), tuple(map(_written, folders)), repr(sorted(given.items()))
    offset, limit = query.whole("offset", 0), query.whole("limit", PAGE, 1, MOST)
    with _lock:  # one at a time: two would only take each other's memory
        if key not in _made:
            found = _diff(folders, given)
            while len(_made) >= KEPT:
                del _made[next(iter(_made))]
            _made[key] = found
        told: dict[str, Any] = _made[key].to_dict(offset=offset, limit=limit)
        return told


def _diff(folders: list[Path], given: dict[str, Any]) -> Any:
    from clew.compare import diff

    a, b, *reference = map(Run, folders)  # runs of its own: it reads in a thread of its own
    return diff(a, b, reference=reference[0] if reference else None, **given)


def _patterns(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _renames(text: str) -> dict[str, str]:
    """`old=new,other=another`."""
    pairs = [part.partition("=") for part in _patterns(text)]
    if not all(old.strip() and sign and new.strip() for old, sign, new in pairs):
        raise OptionError("bad-query", f"`map={text[:60]}` is not of the form old=new,other=another.", "")
    return {old.strip(): new.strip() for old, _, new in pairs}


def _written(folder: Path) -> tuple[int, ...]:
    """What tells whether more was written: sizes of the files of a run."""
    try:
        files = sorted(path for path in folder.glob("shards/*/*") if path.is_file())
        return tuple(path.lstat().st_size for path in files)
    except (OSError, ClewError):
        return ()

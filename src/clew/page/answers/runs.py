"""The list of runs: what there is, and renaming, tagging and deleting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clew.errors import OptionError, PageError
from clew.history import status as how_it_ended
from clew.page.shelf import Shelf, outside, tags_of
from clew.store.folder import read_meta, write_meta
from clew.store.removal import remove_run

NAME = 200  # characters of a name
TAGS, KEY, TAG = 100, 100, 1_000  # tags of a run, and characters of a key and of a value


def runs(shelf: Shelf) -> dict[str, Any]:
    return {"base": str(shelf.base), "runs": shelf.rows()}


def edit(shelf: Shelf, id: str, body: dict[str, Any]) -> dict[str, Any]:
    """Another name, other tags: written into run.json as a whole."""
    name, tags = _checked_name(body.get("name")), _checked_tags(body.get("tags"))
    folder = _ours(shelf, id)
    meta = _ended(folder, "renamed or tagged")
    if name is not None:
        meta["name"] = name
    if tags is not None:
        before, shown = meta.get("tags"), tags_of(meta)
        known = before if isinstance(before, dict) else {}
        # A tag that was not touched stays what it was, a number for instance.
        meta["tags"] = {key: known[key] if shown.get(key) == text else text for key, text in tags.items()}
    write_meta(folder, meta)
    return shelf.row(id)


def delete(shelf: Shelf, id: str, body: dict[str, Any]) -> dict[str, Any]:
    """The folder of a run, with everything in it, once its name was given."""
    folder = _ours(shelf, id)
    _ended(folder, "deleted")
    name = shelf.row(id)["name"]
    if body.get("name") != name:
        raise OptionError("not-confirmed", f"The run is called {name!r}, and is deleted only when that is given.", "")
    remove_run(folder, everything=True)
    shelf.forget(id)
    return {"deleted": True}


def _ours(shelf: Shelf, id: str) -> Path:
    folder = shelf.folder(id)
    shelf.opened(id).check_there()
    if not shelf.is_ours(folder):
        raise outside(folder, shelf.base)
    return folder


def _ended(folder: Path, done: str) -> dict[str, Any]:
    meta = read_meta(folder)
    if how_it_ended.status(meta) == "running":
        what = (
            f"The run {meta.get('name') or folder.name} is still being recorded, and cannot be {done} before it ends."
        )
        raise PageError("run-goes-on", what, "Its own process writes to that folder. Wait for its end, or end it.")
    return meta


def _checked_name(name: Any) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str) or not name.strip() or len(name) > NAME or not name.isprintable():
        raise OptionError("bad-edit", f"A name is 1 to {NAME} printable characters.", "Give another.")
    return name.strip()


def _checked_tags(tags: Any) -> dict[str, str] | None:
    if tags is None:
        return None
    fits = isinstance(tags, dict) and len(tags) <= TAGS
    if not fits or not all(
        isinstance(key, str) and 0 < len(key) <= KEY and isinstance(text, str) and len(text) <= TAG
        for key, text in tags.items()
    ):
        what = f"Tags are at most {TAGS}, with keys of 1 to {KEY} and values of at most {TAG:,} characters."
        raise OptionError("bad-edit", what, "Give others.")
    return dict(tags)

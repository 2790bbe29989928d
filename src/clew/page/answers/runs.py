"""Answers with the list of runs, and renames, tags and deletes runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clew.errors import OptionError, PageError
from clew.page.shelf import Shelf, run_elsewhere_error, tags_of
from clew.reading import status as how_it_ended
from clew.store.folder import read_meta, write_meta
from clew.store.removal import remove_run

NAME = 200  # maximum characters of a name
TAGS, KEY, TAG = 100, 100, 1_000  # maximum number of tags, and characters of a key and a value


def runs(shelf: Shelf) -> dict[str, Any]:
    return {"base": str(shelf.base), "runs": shelf.rows()}


def edit(shelf: Shelf, id: str, body: dict[str, Any]) -> dict[str, Any]:
    """Change the name or the tags, and rewrite run.json."""
    name, tags = _checked_name(body.get("name")), _checked_tags(body.get("tags"))
    folder = _own_folder(shelf, id)
    meta = _meta_of_ended_run(folder, "renamed or tagged")
    if name is not None:
        meta["name"] = name
    if tags is not None:
        old, old_texts = meta.get("tags"), tags_of(meta)
        old_tags = old if isinstance(old, dict) else {}
        # An unchanged tag keeps its type, for instance a number.
        meta["tags"] = {key: old_tags[key] if old_texts.get(key) == text else text for key, text in tags.items()}
    write_meta(folder, meta)
    return shelf.row(id)


def delete(shelf: Shelf, id: str, body: dict[str, Any]) -> dict[str, Any]:
    """Delete the folder of a run, if the request confirms its name."""
    folder = _own_folder(shelf, id)
    _meta_of_ended_run(folder, "deleted")
    name = shelf.row(id)["name"]
    if body.get("name") != name:
        raise OptionError("not-confirmed", f"The run is called {name!r}, and is deleted only when that is given.", "")
    remove_run(folder, everything=True)
    shelf.forget(id)
    return {"deleted": True}


def _own_folder(shelf: Shelf, id: str) -> Path:
    folder = shelf.folder(id)
    shelf.opened(id).check_exists()
    if not shelf.is_ours(folder):
        raise run_elsewhere_error(folder, shelf.base)
    return folder


def _meta_of_ended_run(folder: Path, action: str) -> dict[str, Any]:
    meta = read_meta(folder)
    if how_it_ended.status(meta) == "running":
        message = (
            f"The run {meta.get('name') or folder.name} is still being recorded, and cannot be {action} before it ends."
        )
        raise PageError("run-goes-on", message, "Its own process writes to that folder. Wait for its end, or end it.")
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
        message = f"Tags are at most {TAGS}, with keys of 1 to {KEY} and values of at most {TAG:,} characters."
        raise OptionError("bad-edit", message, "Give others.")
    return dict(tags)

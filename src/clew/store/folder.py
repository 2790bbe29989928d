"""Run folders: where they are made, what they are called, and the page of metadata in each."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import threading
import unicodedata
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from clew.errors import FormatError, NotARunError
from clew.store.format import FORMAT, META_NAME

_LONGEST_SLUG: Final = 80  # bytes; file systems allow 255 for a name
_LARGEST_META: Final = 64 << 20
_DEEPEST_META: Final = 100
_META_TYPES: Final[dict[str, type]] = {  # of what readers compute with; everything but `format` may be null
    **dict.fromkeys(("id", "name", "cwd", "python", "host", "user", "platform", "started", "ended"), str),
    **dict.fromkeys(("how", "clew", "error", "process_started", "boot", "stopped"), str),
    **dict.fromkeys(("pid", "rank", "started_ns", "ended_ns"), int),
    **dict.fromkeys(("packages", "seeds", "environment", "tags", "git"), dict),
    **dict.fromkeys(("argv", "shards"), list),
}
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def new_run_folder(base: Path, name: str | None, when: datetime) -> Path:
    """Make `<base>/<YYYY-MM-DD>/<HHMMSS>-<name>/`, with a number after it if another run has that one already."""
    day = base / when.strftime("%Y-%m-%d")
    day.mkdir(parents=True, exist_ok=True)
    stem = f"{when:%H%M%S}-{slug(name)}"
    for n in range(1, 1_000_000):
        folder = day / (stem if n == 1 else f"{stem}-{n}")
        try:
            folder.mkdir()  # the file system decides who was first, also between machines
        except FileExistsError:
            continue
        return folder
    raise OSError(errno.EEXIST, "no free name for a run", str(day / stem))


def slug(name: str | None) -> str:
    """`name` as a part of a folder's name: letters, digits, `.`, `_` and `-` only, never a way out of the folder."""
    text = unicodedata.normalize("NFKC", name or "")
    text = re.sub(r"[^\w.-]+", "-", text)
    try:
        os.fsencode(text)
    except UnicodeEncodeError:  # a file system for ASCII names
        text = re.sub(r"[^\w.-]+", "-", text, flags=re.ASCII)
    text = text.encode("utf-8")[:_LONGEST_SLUG].decode("utf-8", "ignore")
    return text.strip(".-") or "run"


def host_slug(host: str) -> str:
    """`host` as a part of a shard's name."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", host)[:64].strip(".-") or "host"


def write_meta(folder: Path, meta: dict[str, Any]) -> None:
    """Replace run.json as a whole: a reader sees the old page or the new one, never half of one."""
    text = json.dumps({"format": FORMAT, **meta}, indent=2, ensure_ascii=False, default=_type_name)
    # in JSON text, backslashreplace writes a lone surrogate exactly as JSON's own escape
    data = text.encode("utf-8", "backslashreplace") + b"\n"
    draft = folder / f".{META_NAME}.{os.getpid()}.{threading.get_ident()}"
    try:
        draft.write_bytes(data)
        os.replace(draft, folder / META_NAME)
    finally:
        draft.unlink(missing_ok=True)


def _type_name(something: object) -> str:
    """What JSON cannot say is named by its type: its repr would run the user's code."""
    return f"<{type(something).__qualname__}>"


def read_meta(folder: Path) -> dict[str, Any]:
    """The page of a run; NotARunError if there is none, FormatError if it is newer than we know or damaged."""
    return read_checked_meta(folder)[0]


def read_checked_meta(folder: Path) -> tuple[dict[str, Any], str]:
    """The same, and what is wrong with it. Entries of another type than they are written with are left out."""
    path = folder / META_NAME
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise not_a_run(folder)
        if found.st_size > _LARGEST_META:
            raise _damaged(path, "it is too large")
        meta = _checked(json.loads(path.read_bytes()), path)
    except FileNotFoundError as error:
        raise not_a_run(folder) from error
    except NotADirectoryError as error:
        raise not_a_run(folder) from error
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise _damaged(path, str(error)) from error
    if _nests_deeper(meta, _DEEPEST_META):
        raise _damaged(path, f"it nests more than {_DEEPEST_META} deep")
    wrong = [key for key, entry in meta.items() if key in _META_TYPES and not _is_of(entry, _META_TYPES[key])]
    left = {key: entry for key, entry in meta.items() if key not in wrong}
    return left, f"{META_NAME} says nothing sensible for {', '.join(wrong)}" if wrong else ""


def _is_of(entry: Any, kind: type) -> bool:
    if entry is None:
        return True
    if kind is int:
        return type(entry) is int and abs(entry) < 1 << 62
    return type(entry) is kind


def _nests_deeper(tree: Any, limit: int) -> bool:
    level = [tree]
    for _ in range(limit):
        level = [x for node in level if type(node) in (dict, list) for x in _inside(node)]
        if not level:
            return False
    return True


def _inside(node: Any) -> list[Any]:
    return list(node.values()) if type(node) is dict else node


def _checked(meta: Any, path: Path) -> dict[str, Any]:
    version = meta.get("format") if isinstance(meta, dict) else None
    if type(version) is not int or version < 1:
        raise _damaged(path, "it does not say its format")
    if version > FORMAT:
        raise FormatError(
            "newer-format",
            f"{path.parent} is a run of format {version}; this clew reads up to format {FORMAT}.",
            "Install a newer clew to read it.",
        )
    checked: dict[str, Any] = meta
    return checked


def not_a_run(folder: Path) -> NotARunError:
    """The error for a path that is no run."""
    reason = f"it has no {META_NAME}" if folder.exists() else "there is no such folder"
    remedy = "A run is a folder like clew_runs/2026-01-31/120000-name; `clew runs` lists them."
    return NotARunError("not-a-run", f"{folder} is not a run: {reason}.", remedy)


def _damaged(path: Path, reason: str) -> FormatError:
    return FormatError("damaged-meta", f"{path} is damaged: {reason}.", "The records beside it can still be read.")


def list_runs(base: Path) -> list[Path]:
    """All runs in `base`, oldest first: those in its folders of a day, and those directly in it. Links are left out."""
    found: list[Path] = []
    for folder in _folders(base):
        if (folder / META_NAME).is_file():
            found.append(folder)
        elif _DATE.fullmatch(folder.name):
            found += [run for run in _folders(folder) if (run / META_NAME).is_file()]
    return sorted(found, key=_age)


def _folders(base: Path) -> list[Path]:
    try:
        with os.scandir(base) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _age(run: Path) -> tuple[int, str, str]:
    """When a run began; from its folder's name where its page is damaged."""
    try:
        started = read_meta(run).get("started_ns")
    except (FormatError, NotARunError):
        started = None
    if type(started) is not int:
        started = _started_from_name(run)
    return started, run.parent.name, run.name


def _started_from_name(run: Path) -> int:
    try:
        local = datetime.strptime(f"{run.parent.name} {run.name[:6]}", "%Y-%m-%d %H%M%S")
        return int(local.timestamp()) * 1_000_000_000
    except (ValueError, OverflowError, OSError):
        return 0

"""Run folders: where they are created, their names, and the metadata in each."""

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
_META_TYPES: Final[dict[str, type]] = {  # the entries that readers compute with; all but `format` may be null
    **dict.fromkeys(("id", "name", "cwd", "python", "host", "user", "platform", "started", "ended"), str),
    **dict.fromkeys(("how", "clew", "error", "process_started", "boot", "stopped"), str),
    **dict.fromkeys(("pid", "rank", "started_ns", "ended_ns"), int),
    **dict.fromkeys(("packages", "seeds", "environment", "tags", "git"), dict),
    **dict.fromkeys(("argv", "shards"), list),
}
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def new_run_folder(base: Path, name: str | None, when: datetime) -> Path:
    """Create `<base>/<YYYY-MM-DD>/<HHMMSS>-<name>/`, followed by a number if another run has that name."""
    day = base / when.strftime("%Y-%m-%d")
    day.mkdir(parents=True, exist_ok=True)
    stem = f"{when:%H%M%S}-{slug(name)}"
    for n in range(1, 1_000_000):
        folder = day / (stem if n == 1 else f"{stem}-{n}")
        try:
            folder.mkdir()  # the file system decides who is first, even between machines
        except FileExistsError:
            continue
        return folder
    raise OSError(errno.EEXIST, "no free name for a run", str(day / stem))


def slug(name: str | None) -> str:
    """`name` as a part of a folder's name: only letters, digits, `.`, `_` and `-`, and never a path."""
    text = unicodedata.normalize("NFKC", name or "")
    text = re.sub(r"[^\w.-]+", "-", text)
    try:
        os.fsencode(text)
    except UnicodeEncodeError:  # the file system only takes ASCII names
        text = re.sub(r"[^\w.-]+", "-", text, flags=re.ASCII)
    text = text.encode("utf-8")[:_LONGEST_SLUG].decode("utf-8", "ignore")
    return text.strip(".-") or "run"


def host_slug(host: str) -> str:
    """`host` as a part of a shard's name."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", host)[:64].strip(".-") or "host"


def write_meta(folder: Path, meta: dict[str, Any]) -> None:
    """Replace run.json as a whole: a reader sees the old content or the new one, never half of it."""
    text = json.dumps({"format": FORMAT, **meta}, indent=2, ensure_ascii=False, default=_type_name)
    # backslashreplace writes a lone surrogate exactly as JSON's own escape
    data = text.encode("utf-8", "backslashreplace") + b"\n"
    draft = folder / f".{META_NAME}.{os.getpid()}.{threading.get_ident()}"
    try:
        draft.write_bytes(data)
        os.replace(draft, folder / META_NAME)
    finally:
        draft.unlink(missing_ok=True)


def _type_name(entry: object) -> str:
    """Replaces an object that JSON cannot hold by the name of its type, since its repr would run the user's code."""
    return f"<{type(entry).__qualname__}>"


def read_meta(folder: Path) -> dict[str, Any]:
    """The metadata of a run; NotARunError if there is none, FormatError if it is damaged or too new."""
    return read_checked_meta(folder)[0]


def read_checked_meta(folder: Path) -> tuple[dict[str, Any], str]:
    """The metadata of a run, and its problem, if any. Entries of a wrong type are left out."""
    path = folder / META_NAME
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise not_a_run(folder)
        if status.st_size > _LARGEST_META:
            raise _damaged_meta(path, "it is too large")
        meta = _check_format(json.loads(path.read_bytes()), path)
    except FileNotFoundError as error:
        raise not_a_run(folder) from error
    except NotADirectoryError as error:
        raise not_a_run(folder) from error
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise _damaged_meta(path, str(error)) from error
    if _nests_deeper(meta, _DEEPEST_META):
        raise _damaged_meta(path, f"it nests more than {_DEEPEST_META} deep")
    invalid = [key for key, entry in meta.items() if key in _META_TYPES and not _has_type(entry, _META_TYPES[key])]
    valid_entries = {key: entry for key, entry in meta.items() if key not in invalid}
    return valid_entries, f"{META_NAME} has invalid entries: {', '.join(invalid)}" if invalid else ""


def _has_type(entry: Any, kind: type) -> bool:
    if entry is None:
        return True
    if kind is int:
        return type(entry) is int and abs(entry) < 1 << 62
    return type(entry) is kind


def _nests_deeper(tree: Any, limit: int) -> bool:
    level = [tree]
    for _ in range(limit):
        level = [child for node in level if type(node) in (dict, list) for child in _children(node)]
        if not level:
            return False
    return True


def _children(node: Any) -> list[Any]:
    return list(node.values()) if type(node) is dict else node


def _check_format(meta: Any, path: Path) -> dict[str, Any]:
    version = meta.get("format") if isinstance(meta, dict) else None
    if type(version) is not int or version < 1:
        raise _damaged_meta(path, "it has no format version")
    if version > FORMAT:
        raise FormatError(
            "newer-format",
            f"{path.parent} is a run of format {version}; this clew reads up to format {FORMAT}.",
            "Install a newer clew to read it.",
        )
    checked: dict[str, Any] = meta
    return checked


def not_a_run(folder: Path) -> NotARunError:
    """The error for a path that is not a run."""
    reason = f"it has no {META_NAME}" if folder.exists() else "there is no such folder"
    remedy = "A run is a folder like clew_runs/2026-01-31/120000-name; `clew runs` lists them."
    return NotARunError("not-a-run", f"{folder} is not a run: {reason}.", remedy)


def _damaged_meta(path: Path, reason: str) -> FormatError:
    return FormatError("damaged-meta", f"{path} is damaged: {reason}.", "The records beside it can still be read.")


def list_runs(base: Path) -> list[Path]:
    """All runs in `base`, oldest first: those directly in it, and those in its folders of days. Links are left out."""
    runs: list[Path] = []
    for folder in _subfolders(base):
        if (folder / META_NAME).is_file():
            runs.append(folder)
        elif _DATE.fullmatch(folder.name):
            runs += [run for run in _subfolders(folder) if (run / META_NAME).is_file()]
    return sorted(runs, key=_start_key)


def _subfolders(base: Path) -> list[Path]:
    try:
        with os.scandir(base) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _start_key(run: Path) -> tuple[int, str, str]:
    """Sorts runs by their start, which is taken from the folder's name if the metadata is damaged."""
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

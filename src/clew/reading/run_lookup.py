"""Finds run folders from what the user typed."""

from __future__ import annotations

from pathlib import Path

from clew import env
from clew.errors import NotARunError, nearest
from clew.store.folder import list_runs, slug
from clew.store.format import META_NAME, SHARDS_NAME

_LONGEST = 255  # for longer names, file systems raise errors of their own


def run_folders(base: str | Path | None = None) -> list[Path]:
    """The run folders under `base`, oldest first."""
    folder = env.runs_folder() if base is None else Path(base)
    return list_runs(folder) if folder.is_dir() else []


def run_folder(path: str | Path) -> Path:
    """The run folder for a path, for `latest`, or for a folder name or the end of a path under the runs folder."""
    direct = Path(path)
    if len(direct.name) > _LONGEST:
        raise NotARunError(
            "not-a-run", f"{direct.name[:60]}... is too long for a run's name.", "`clew runs` lists them."
        )
    if (direct / META_NAME).is_file() or (direct / SHARDS_NAME).is_dir() or not isinstance(path, str):
        return direct.absolute()  # the reader reports any problem with it
    folders = run_folders()
    if path == "latest":
        return _latest_folder(folders)
    return _newest_named(path, folders)


def _latest_folder(folders: list[Path]) -> Path:
    if not folders:
        message = f"There is no run in {env.runs_folder()}."
        raise NotARunError("no-runs", message, "Record one, or point CLEW_DIR to where they are.")
    return folders[-1]


def _newest_named(name: str, folders: list[Path]) -> Path:
    """The newest run with this folder name, or with this name after its time of day."""
    name_parts = Path(name).parts
    exact_matches = [folder for folder in folders if name_parts and folder.parts[-len(name_parts) :] == name_parts]
    loose_matches = [folder for folder in folders if folder.name.partition("-")[2] == slug(name)]
    for matches in (exact_matches, loose_matches):
        if matches:
            return matches[-1]
    if Path(name).exists():
        return Path(name)
    message = f"`{name}` is neither a run folder nor the name of a run in {env.runs_folder()};"
    raise NotARunError("not-a-run", message, _remedy(name, folders))


def _remedy(name: str, folders: list[Path]) -> str:
    if not folders:
        return "no run was recorded there."
    short_names = {folder.name.partition("-")[2] or folder.name for folder in folders}
    return nearest(name, [folder.name for folder in reversed(folders)] + sorted(short_names))

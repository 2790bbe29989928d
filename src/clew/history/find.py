"""From what a person typed to a run folder."""

from __future__ import annotations

from pathlib import Path

from clew import env
from clew.errors import NotARunError, nearest
from clew.store.folder import list_runs, slug
from clew.store.format import META_NAME, SHARDS_NAME

_LONGEST = 255  # file systems refuse longer names, with an error of their own


def run_folders(base: str | Path | None = None) -> list[Path]:
    """Run folders, oldest first."""
    folder = env.runs_folder() if base is None else Path(base)
    return list_runs(folder) if folder.is_dir() else []


def run_folder(path: str | Path) -> Path:
    """A path to a run folder; `latest`; or a folder's name, or a part of its path, under the runs folder."""
    direct = Path(path)
    if len(direct.name) > _LONGEST:
        raise NotARunError(
            "not-a-run", f"{direct.name[:60]}... is too long for a run's name.", "`clew runs` lists them."
        )
    if (direct / META_NAME).is_file() or (direct / SHARDS_NAME).is_dir() or not isinstance(path, str):
        return direct.absolute()  # the reader says what is wrong with it, if anything is
    folders = run_folders()
    if path == "latest":
        return _latest(folders)
    return _named(path, folders)


def _latest(folders: list[Path]) -> Path:
    if not folders:
        what = f"There is no run in {env.runs_folder()}."
        raise NotARunError("no-runs", what, "Record one, or point CLEW_DIR to where they are.")
    return folders[-1]


def _named(name: str, folders: list[Path]) -> Path:
    """The newest run with this folder name, or with this name after its time of day."""
    wanted = Path(name).parts
    exact = [folder for folder in folders if wanted and folder.parts[-len(wanted) :] == wanted]
    loose = [folder for folder in folders if folder.name.partition("-")[2] == slug(name)]
    for found in (exact, loose):
        if found:
            return found[-1]
    if Path(name).exists():
        return Path(name)
    what = f"`{name}` is neither a run folder nor the name of a run in {env.runs_folder()};"
    raise NotARunError("not-a-run", what, _remedy(name, folders))


def _remedy(name: str, folders: list[Path]) -> str:
    if not folders:
        return "no run was recorded there."
    short = {folder.name.partition("-")[2] or folder.name for folder in folders}
    return nearest(name, [folder.name for folder in reversed(folders)] + sorted(short))

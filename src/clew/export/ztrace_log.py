"""Writes ztrace's log: `./ztrace_logs/<date>/<time>.json`, one file for each run, rewritten whenever a call ends.

    {"func()": [{"data": {"x": [0, 1, 2], "t": 3, "never": []}, "time": "20210910151123"}]}

A name that changed once has its value alone, not a list of one. Values are what `json.dumps` makes of
them, arrays and tensors as nested lists (see ztrace_values.py). A key is the name of the function;
functions of the same name in several files have their file before it.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.export.ztrace_values import json_value
from clew.records import DELETED

if TYPE_CHECKING:
    from clew.reading.call import Call

FOLDER = "ztrace_logs"

_lock = threading.Lock()
_path: Path | None = None
_calls: dict[tuple[str, str], list[dict[str, Any]]] = {}  # by file and name of a function


def write_call(names: Mapping[str, str], call: Call | None) -> None:
    """Add a call that has ended to this program's log. `names` maps names as written to names as recorded."""
    if call is None:
        return
    values = call.data
    data = {name: _unwrap_single(values.get(recorded, ())) for name, recorded in names.items()}
    write_entry(call.file, call.function.rpartition(".")[2], data)


def write_entry(file: str, function: str, data: dict[str, Any]) -> None:
    """Add one call and its values to this program's log."""
    with _lock:
        path = _log_path()
        _calls.setdefault((file, function), []).append({"data": data, "time": f"{datetime.now():%Y%m%d%H%M%S}"})
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_text(json.dumps(_calls_by_key(), indent=2), encoding="ascii")
        os.replace(draft, path)  # readers never see half a file


def _calls_by_key() -> dict[str, list[dict[str, Any]]]:
    functions = [function for _, function in _calls]
    return {
        f"{function}()" if functions.count(function) == 1 else f"{file.removesuffix('.py')}/{function}()": calls
        for (file, function), calls in _calls.items()
    }


def _unwrap_single(values: Iterable[Any]) -> Any:
    """A single value alone, else a list, without deletions (recorded if `clew.watch` is on the same function)."""
    versions = [json_value(value) for value in values if value is not DELETED]
    return versions[0] if len(versions) == 1 else versions


def _log_path() -> Path:
    """This run's file, which is named after the time of its first call and never belongs to another program."""
    global _path
    if _path is None:
        now = datetime.now()
        folder = Path(FOLDER, f"{now:%Y%m%d}").absolute()
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(1, 10_000):
            name = f"{now:%H%M%S}" if number == 1 else f"{now:%H%M%S}-{number}"
            try:
                folder.joinpath(f"{name}.json").touch(exist_ok=False)
            except FileExistsError:
                continue
            _path = folder / f"{name}.json"
            break
        else:
            raise OSError(f"no free name in {folder}")
    return _path

"""ztrace's log: `./ztrace_logs/<date>/<time>.json`, one file a run, rewritten as a whole when a call has ended.

    {"func()": [{"data": {"x": [0, 1, 2], "t": 3}, "time": "20210910151123"}]}

A name that changed once is given as its value alone, not as a list of one.
"""

from __future__ import annotations

import json
import os
import threading
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.export.plain import plain

if TYPE_CHECKING:
    from clew.history.call import Call

FOLDER = "ztrace_logs"

_lock = threading.Lock()
_path: Path | None = None
_calls: dict[str, list[dict[str, Any]]] = {}


def write_call(call: Call | None) -> None:
    """Add a call that has ended to this program's log."""
    if call is None:
        return
    data = {name: _unwrapped([_readable(value) for value in values]) for name, values in call.data.items()}
    with _lock:
        path = _log_path()
        _calls.setdefault(f"{call.function.rpartition('.')[2]}()", []).append(
            {"data": data, "time": f"{datetime.now():%Y%m%d%H%M%S}"}
        )
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_text(json.dumps(_calls, indent=2, ensure_ascii=False), encoding="utf-8")
        os.replace(draft, path)  # readers see a whole file


def _readable(value: Any) -> Any:
    """Arrays as nested lists, as people write them; the rest as in every JSON export."""
    lists = getattr(value, "tolist", None)
    return plain(lists() if lists is not None else value)


def _unwrapped(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else values


def _log_path() -> Path:
    """This run's file: named by its first call, and never another program's."""
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

"""What children of multiprocessing are told: the run they record into, and what they follow or watch.

The same for `multiprocess`, its copy for dill, which `datasets` and others use.

Every process object gets a copy of its parent's configuration (`_config`) and takes it to the child, whatever the way
the child is started. (The environment does not do: a fork server is started once, with the environment of that moment.)
A parcel in the configuration is filled when the child is started, not when its process object is made. The child finds
a plain dictionary in its place, and clew is imported there only if there is something to follow or to watch.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from clew import trouble
from clew.errors import ClewError

_LIBRARIES: Final = ("multiprocessing", "multiprocess")
_KEY = "clew"  # in the configuration of a process
_RUN = "run"
JOIN = "CLEW_RUN"  # in the environment, for a process whose object was made before there was a parcel

_suppliers: Final[dict[str, Callable[[], Any]]] = {}
_inherited: dict[str, Any] | None = None  # what this process was told, once its own parcel has taken the place
_began: Final[list[Callable[[], None]]] = []


class _Parcel:
    """Packed whenever it is sent."""

    def __reduce__(self) -> tuple[Callable[[dict[str, Any]], Any], tuple[dict[str, Any]]]:
        contents = _contents()
        return (dict if contents.keys() <= {_RUN} else unpack), (contents,)


@trouble.entry_point(dict)
def _contents() -> dict[str, Any]:
    contents = {_RUN: told().get(_RUN)}
    contents.update((name, content) for name, supply in _suppliers.items() if (content := supply()) is not None)
    return contents


_PARCEL: Final = _Parcel()


def tell(module: str, supply: Callable[[], Any]) -> None:
    """In each child that is started, `module.arrive` gets what `supply` gives then, unless that is None."""
    _suppliers[module] = supply
    put_parcel()


def tell_run(supply: Callable[[], Path | None]) -> None:
    """Children record into the run whose folder `supply` gives; if it gives None, into the one this process joined."""
    _suppliers[_RUN] = lambda: str(supply() or "") or None
    _put_parcel_where_loaded()  # a process object may be made before a run opens, and started later


def put_parcel() -> None:
    """Processes that are started from here on are told."""
    global _is_waiting
    importlib.import_module(f"{_LIBRARIES[0]}.process")
    _put_parcel_where_loaded()
    if not _is_waiting:
        from wrapt import register_post_import_hook

        _is_waiting = True
        for library in _LIBRARIES[1:]:
            register_post_import_hook(lambda module: _put_parcel_where_loaded(), f"{library}.process")
            register_post_import_hook(_begin_after_fork, f"{library}.util")


_is_waiting = False


def _put_parcel_where_loaded() -> None:
    global _inherited
    for process in _processes():
        content = process._config.get(_KEY)
        if isinstance(content, dict):
            _inherited = content
        process._config[_KEY] = _PARCEL


def _processes() -> list[Any]:
    """This process, as each library that is loaded knows it."""
    # while one of them is being imported, this process has no name in it yet
    return [module.current_process() for module in _loaded("process") if hasattr(module, "current_process")]


def told() -> dict[str, Any]:
    """What this process was told by the one that started it."""
    contents = (process._config.get(_KEY) for process in _processes())
    return next((content for content in contents if isinstance(content, dict)), _inherited or {})


def is_child() -> bool:
    """Whether multiprocessing has started this process; a pool may end it at any time without a word."""
    return bool(_libraries_that_started_this())


def _libraries_that_started_this() -> list[str]:
    loaded = {library: sys.modules.get(f"{library}.process") for library in _LIBRARIES}
    return [name for name, module in loaded.items() if module is not None and module.parent_process() is not None]


def is_starting() -> bool:
    """Whether this is a child that still imports what the program consists of."""
    return any(getattr(process, "_inheriting", False) for process in _processes())


def run_to_join() -> Path | None:
    """The folder of the run that this process belongs to; None if it has none."""
    starting = is_starting()
    if not starting and any(_KEY in process._config for process in _processes()):
        folder = told().get(_RUN)
        return Path(folder) if folder and Path(folder, "run.json").is_file() else None
    # its object was made too early, or it still imports what the program consists of
    if starting or is_child():
        folder = os.environ.get(JOIN)
        return Path(folder) if folder and is_going_on(Path(folder)) else None
    return None


def is_going_on(folder: Path) -> bool:
    from clew.store.folder import read_meta

    try:
        return read_meta(folder).get("how") == "running"
    except (OSError, ClewError):
        return False


# ---- in a child ------------------------------------------------------------------------------------------------------


def unpack(contents: dict[str, Any]) -> _Parcel:
    """Called while the process object is unpickled: after the program's main module, before what it works on."""
    global _inherited
    _inherited = contents
    for module, content in contents.items():
        if module != _RUN:
            _arrive(module, content)
    return _PARCEL  # for children of its own


@trouble.entry_point()
def _arrive(module: str, content: Any) -> None:
    importlib.import_module(module).arrive(content)


def when_child_begins(act: Callable[[], None]) -> None:
    """Run `act` in children, once everything they need is imported and before they do their work."""
    importlib.import_module(f"{_LIBRARIES[0]}.util")
    if not _began:
        for library in _loaded("util"):
            _begin_after_fork(library)
    if act not in _began:
        _began.append(act)
    if is_starting():
        for library in _loaded("context"):
            _listen_to_spawn(library.SpawnProcess)


def when_this_child_begins(act: Callable[[], None]) -> Callable[[], None]:
    """The same for this process alone, if it is a child that is being started: a decorator."""
    if is_starting():
        when_child_begins(act)
    return act


def _begin_after_fork(util: Any) -> None:
    util.register_after_fork(_PARCEL, _begin)  # a second time changes nothing


def _loaded(name: str) -> list[Any]:
    """The modules of this name, of the libraries that are loaded."""
    modules = (sys.modules.get(f"{library}.{name}") for library in _LIBRARIES)
    return [module for module in modules if module is not None]


def _listen_to_spawn(kind: Any) -> None:
    """A spawned process runs nothing of what is registered for after a fork. This one does, once, while it starts."""
    plain = kind.__dict__.get("_after_fork")
    if plain is None or plain in _spawned:
        return

    def after_fork() -> None:
        kind._after_fork = plain
        _begin(_PARCEL)

    kind._after_fork = staticmethod(after_fork)
    _spawned.append(kind.__dict__["_after_fork"])


_spawned: Final[list[Any]] = []  # what stands in the place of multiprocessing's own


@trouble.entry_point()
def _begin(parcel: _Parcel) -> None:
    for act in _began:
        act()


_ends: Final[set[tuple[int, Callable[[], None]]]] = set()


def at_end_of_child(act: Callable[[], None]) -> None:
    """multiprocessing leaves its children without running atexit; its own finalisers do run."""
    importlib.import_module(f"{_LIBRARIES[0]}.util")
    if (os.getpid(), act) in _ends:
        return
    _ends.add((os.getpid(), act))
    for library in _loaded("util"):
        library.Finalize(None, act, exitpriority=-100)


def before_results(act: Callable[[], object]) -> None:
    """In a worker of a pool: run `act` before each result is sent. The pool may end the worker as soon as it has it."""
    for process in _processes():
        target, args = getattr(process, "_target", None), list(getattr(process, "_args", ()))
        if getattr(target, "__module__", None) in _POOLS and len(args) > 1:
            queue = args[1]
            queue.put = partial(_put, queue.put, act)


_POOLS: Final = tuple(f"{library}.pool" for library in _LIBRARIES)


def _put(put: Callable[[Any], None], act: Callable[[], object], result: Any) -> None:
    act()
    put(result)

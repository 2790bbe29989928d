"""What is instrumented by itself, one small file a library. A plug-in has `install(site)`; see `Site`.

A plug-in is put in when a trace opens and its library is there, or when the library is loaded while one is open. To
add one: a file with `install(site)` and a line in `PLUGINS` (from another package: an entry point `clew.pipelines`).
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterable
from importlib import import_module
from types import FunctionType
from typing import Any

from clew import trouble
from clew.errors import OptionError
from clew.instrument.call_guard import attempt
from clew.instrument.code_swap import Swap
from clew.probes.pipeline.stages import Passer, is_stage

PLUGINS = {  # library → the plug-ins for it
    "torch": ("torchdata", "torchmodel", "transforms"),
    "torchvision": ("transforms",),
    "sklearn": ("sklearn",),
    "pandas": ("pandas",),
    "datasets": ("hfdatasets",),
}
_lock = threading.RLock()
_users: list[Installed] = []
_site: Site | None = None


class Site:
    """Where plug-ins put their shims; what is put in here is taken out again when the last trace ends."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._done: set[Any] = set()

    def swap(self, function: Any, passer: Passer) -> bool:
        """Let the calls of a function pass a spot; False if it is no Python function, or the user's own stage."""
        function = getattr(function, "__func__", function)
        if not isinstance(function, FunctionType) or is_stage(function) or (function, passer.obj) in self._done:
            return isinstance(function, FunctionType)
        self._done.add((function, passer.obj))
        Swap.add(function, passer)
        self._undo.append(lambda: Swap.remove(function, passer))
        return True

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Put something else under a name of a class or module, made of what is there."""
        if (id(owner), name) in self._done:
            return
        self._done.add((id(owner), name))
        own = vars(owner).get(name, _ABSENT)
        made = make(own if own is not _ABSENT else getattr(owner, name))
        setattr(owner, name, made)

        def undo() -> None:
            if vars(owner).get(name) is not made:
                return  # somebody has put a third thing there since
            if own is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, own)

        self._undo.append(undo)

    def on_leaving(self, undo: Callable[[], None]) -> None:
        self._undo.append(undo)

    def remove(self) -> None:
        """Take everything out, the last first; what fails does not keep the rest in."""
        while self._undo:
            undo = self._undo.pop()
            try:
                undo()
            except Exception as error:
                trouble.report("plugin-undo", "a shim of a plug-in was not removed", "", error, internal=True)
        self._done.clear()


_ABSENT = object()


class Installed:
    """The plug-ins one trace wants."""

    def __init__(self, auto: bool | Iterable[str]) -> None:
        global _site
        libraries = _known() if auto is True else [] if auto is False else list(auto)
        for name in libraries:
            if name not in _known():
                known = ", ".join(_known())
                raise OptionError(
                    "bad-option", f"auto= names {name!r}, for which there is no plug-in.", f"There is {known}."
                )
        self.libraries = libraries
        with _lock:
            _users.append(self)
            if _site is None:
                _site = Site()
            try:
                for library in libraries:
                    attempt(functools.partial(_wanted, library))
            except BaseException:  # Ctrl-C
                self.remove()
                raise

    def remove(self) -> None:
        global _site
        with _lock:
            if self in _users:
                _users.remove(self)
            if not _users and _site is not None:
                site, _site = _site, None
                site.remove()


def _plugins(library: str) -> list[tuple[str, Any]]:
    """The plug-ins for a library: our own, and those of other packages, by name and as something that loads them."""
    own = [(name, functools.partial(import_module, f"{__name__}.{name}")) for name in PLUGINS.get(library, ())]
    theirs = [(entry.value, entry.load) for entry in _foreign() if entry.name == library]
    return [*own, *theirs]


@functools.cache
def _foreign() -> tuple[Any, ...]:
    """Entry points `clew.pipelines`: named after a library, each a module with `install(site)`."""
    from importlib.metadata import entry_points

    try:
        return tuple(entry_points(group="clew.pipelines"))
    except Exception as error:  # damaged metadata of any installed package
        trouble.report("plugin:entry-points", "the pipeline plug-ins of other packages cannot be listed", "", error)
        return ()


def _known() -> list[str]:
    return list(dict.fromkeys([*PLUGINS, *(entry.name for entry in _foreign())]))


def _wanted(library: str) -> None:
    if library in sys.modules:
        _install(library)
    else:
        from wrapt import register_post_import_hook

        if library not in _awaited:
            _awaited.add(library)
            register_post_import_hook(lambda module: _loaded(library), library)


_awaited: set[str] = set()


@trouble.entry_point()
def _loaded(library: str) -> None:
    """The program has loaded a library; if a trace is open that wants it, now is the time."""
    with _lock:
        if any(library in user.libraries for user in _users):
            _install(library)


def _install(library: str) -> None:
    assert _site is not None
    for name, load in _plugins(library):
        if name in _site._done:
            continue
        try:
            load().install(_site)
            _site._done.add(name)
        except Exception as error:
            what = f"the pipeline plug-in {name} did not fit this {library}; its stages are not seen"
            trouble.report(f"plugin:{name}", what, "", error, internal=True)


def site() -> Site | None:
    """Where to put what is found out while a trace is open."""
    return _site

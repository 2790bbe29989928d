"""Code of a bundle, run under names of its own: it meets no module of the program that loads it, and none meets it."""

from __future__ import annotations

import builtins
import copy
import importlib
import importlib.abc
import importlib.machinery
import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from . import module_facades
from .file_redirection import found, opening, redirected
from .layout import CODE, Bundle, damaged
from .names import PREFIX

_count = itertools.count(1)
_packages: dict[str, Package] = {}


class Package:
    """The modules of one loaded bundle, as a package whose name nobody else has."""

    def __init__(self, bundle: Bundle, table: Mapping[str, str]) -> None:
        self.name = f"{PREFIX}{bundle.digest[:8]}_{next(_count)}"
        self.bundle = bundle
        self.said: dict[str, dict[str, Any]] = bundle.page["modules"]
        self.values: dict[str, dict[str, Any]] = {}  # of scripts: names and what they were, put in before the code runs
        self.table = table
        self.roots = {name.partition(".")[0] for name in self.said}
        self.builtins = {**vars(builtins), "__import__": self._import, "open": opening(table)}
        self._make_known()

    def _make_known(self) -> None:
        _packages[self.name] = self
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)

    def forget(self) -> None:
        """Nobody holds the graph any more: what its modules hold goes with it. Objects that are left stay."""
        _packages.pop(self.name, None)
        for name in list(sys.modules):
            if name.partition(".")[0] == self.name:
                sys.modules.pop(name, None)

    def module(self, name: str) -> ModuleType:
        if name not in self.said:
            raise damaged(f"{self.bundle.path}: a module {name} is used and is not in it.")
        with redirected(self.table):
            return importlib.import_module(f"{self.name}.{name}")

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """`import` in the bundle's code: its own modules come first."""
        self._make_known()  # a function may outlive its graph
        root = name.partition(".")[0]
        if level or root not in self.roots or name not in self.said:
            found = builtins.__import__(name, globals, locals, fromlist or (), level)
            return module_facades.seen(found, self._renamed)  # type: ignore[no-any-return]
        if fromlist:
            return builtins.__import__(f"{self.name}.{name}", globals, locals, fromlist, 0)
        importlib.import_module(f"{self.name}.{name}")
        return sys.modules[f"{self.name}.{root}"]

    def _renamed(self, name: Any) -> Any:
        """A module of the bundle by the name it has here."""
        return f"{self.name}.{name}" if isinstance(name, str) and name in self.said else name


def led(module: str, path: Any) -> Any:
    """Where a path leads for a module; elsewhere only if the module came out of a bundle."""
    package = _packages.get(module.partition(".")[0])
    return path if package is None else found(package.table, path)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        root, _, name = fullname.partition(".")
        package = _packages.get(root)
        if package is None:
            return None
        if name and name not in package.said:
            return None
        is_package = not name or bool(package.said[name]["package"])
        spec = importlib.machinery.ModuleSpec(fullname, self, origin=_file(package, name), is_package=is_package)
        spec.has_location = bool(name and package.said[name]["file"])
        return spec

    def get_source(self, fullname: str) -> str | None:
        root, _, name = fullname.partition(".")
        package = _packages[root]
        file = package.said[name]["file"] if name else None
        return "" if file is None else package.bundle.text(file)

    def is_package(self, fullname: str) -> bool:
        root, _, name = fullname.partition(".")
        return not name or bool(_packages[root].said[name]["package"])

    def get_data(self, path: str) -> bytes:
        """For `pkgutil.get_data`: a file beside a module."""
        places = (found(package.table, path) for package in list(_packages.values()))
        with open(next((place for place in places if place != path), path), "rb") as file:
            return file.read()

    def get_resource_reader(self, fullname: str) -> Any:
        """For `importlib.resources`: the files beside a module."""
        root, _, name = fullname.partition(".")
        folder = Path(_file(_packages[root], name)).parent
        return SimpleNamespace(files=lambda: folder)

    def exec_module(self, module: ModuleType) -> None:
        root, _, name = module.__name__.partition(".")
        package = _packages[root]
        scope = vars(module)
        scope["__builtins__"] = package.builtins
        given = package.values.get(name, {})
        scope.update(given)
        source = self.get_source(module.__name__) or ""
        if source:
            code = compile(source, _file(package, name), "exec", dont_inherit=True)
            held = {key: copy.copy(value) for key, value in given.items() if type(value) in (list, dict, set)}
            exec(code, scope)
            for key, value in held.items():  # definitions that put themselves into a list are in it already
                refill(given[key], value)


def refill(container: Any, value: Any) -> None:
    """Make a list, dictionary or set hold what another holds."""
    container.clear()
    if isinstance(container, list):
        container.extend(value)
    else:
        container.update(value)


def _file(package: Package, name: str) -> str:
    said = package.said.get(name, {}).get("file") if name else None
    return str(package.bundle.folder / (said or CODE))


_finder = _Finder()

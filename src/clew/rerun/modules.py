"""The module of a recorded function: found without running anything, imported only if its file is the recorded one."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from clew.errors import RerunError
from clew.recorder.fingerprints import file_hash

if TYPE_CHECKING:
    from clew.history.call import Call


def module_of(call: Call, changed: bool) -> ModuleType:
    """The module that defines the function of a call. `changed`: its file may have another content by now."""
    try:
        return _main(call, changed) if call.module == "__main__" else _named(call, changed)
    except RerunError:
        raise
    except (Exception, SystemExit) as error:  # whatever a module does when it is loaded
        what = f"{call.module} ({call.file})" if call.module != "__main__" else call.file
        raise RerunError(
            "rerun-no-module",
            f"{what}, which defines {call.function}, does not load here: {type(error).__name__}: {error}.",
            "Rerun it where the program ran: the same environment, and the program's folder on `sys.path`.",
        ) from error


def is_same_file(path: str | None, other: str) -> bool:
    return path is not None and os.path.realpath(path) == os.path.realpath(other)


# ---- modules that are imported by name


def _named(call: Call, changed: bool) -> ModuleType:
    present = sys.modules.get(call.module)
    if present is not None:  # nothing is run; its function is compared with the recorded one
        _require_recorded_file(call, getattr(present, "__file__", None))
        return present
    root = None
    spec = find_spec_without_importing(call.module)
    if spec is None:
        root = _root(call.module, call.file)
        spec = None if root is None else find_spec_without_importing(call.module, [root])
    if spec is None:
        raise _missing(call)
    _require_recorded_file(call, spec.origin)
    _require_recorded_content(call, str(spec.origin), changed)
    if root is not None:
        # It was found beside the script then. At the end of the path it hides nothing that is found today.
        sys.path.append(root)
        importlib.invalidate_caches()
    return importlib.import_module(call.module)


def find_spec_without_importing(name: str, path: list[str] | None = None) -> ModuleSpec | None:
    """What importing `name` would load. importlib.util.find_spec would import the packages around it to find out."""
    spec: ModuleSpec | None = None
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        full_name = ".".join(parts[:count])
        package = sys.modules.get(full_name)
        if package is not None:
            spec, path = package.__spec__, list(getattr(package, "__path__", []))
            continue
        if count > 1 and not path:
            return None
        try:
            spec = _ask_finders(full_name, path)
        except KeyError:  # a namespace package looks its parent up, which is not imported
            folders = [os.path.join(folder, parts[count - 1]) for folder in path or []]
            spec, path = None, [folder for folder in folders if os.path.isdir(folder)]
            continue
        if spec is None:
            return None
        path = list(spec.submodule_search_locations or [])
    return spec


def _ask_finders(full_name: str, path: list[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = None if find is None else find(full_name, path, None)
        if isinstance(spec, ModuleSpec):
            return spec
    return None


def _root(name: str, file: str) -> str | None:
    """The folder from which importing `name` gives `file`."""
    path = Path(file)
    parts = path.parent.parts if path.stem == "__init__" else path.with_suffix("").parts
    names = tuple(name.split("."))
    if not path.is_absolute() or not path.is_file() or parts[-len(names) :] != names:
        return None
    return str(Path(*parts[: -len(names)]))


# ---- the program's own module


def _main(call: Call, changed: bool) -> ModuleType:
    """The program's own module: the one that runs now, if it is the same, else its file, loaded under another name."""
    present = sys.modules["__main__"]
    if is_same_file(getattr(present, "__file__", None), call.file):
        return present
    path = Path(call.file)
    if path.is_absolute() and path.is_file():
        _require_recorded_content(call, call.file, changed)
        package = _package_name(path)
        return importlib.import_module(package) if package is not None else _loaded(path)
    if hasattr(present, call.function.split(".")[0]):
        return present  # a notebook's cells, or what was typed, have no file
    raise _missing(call)


def _package_name(path: Path) -> str | None:
    """`package.module` for a file that ran as `python -m package.module`, if importing that gives this file."""
    names, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    if len(names) == 1:
        return None
    spec = find_spec_without_importing(".".join(names))
    return ".".join(names) if spec is not None and is_same_file(spec.origin, str(path)) else None


_as_loaded: dict[str, tuple[int, int]] = {}  # private name -> how old and how long its file was


def _loaded(path: Path) -> ModuleType:
    """The script as a module of a private name: its `if __name__ == "__main__"` part does not run."""
    path = path.resolve()
    name = f"_clew_rerun_{path.stem}_{abs(hash(str(path))):x}"
    status = path.stat()
    state = status.st_mtime_ns, status.st_size
    if name in sys.modules and _as_loaded.get(name) == state:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # a script finds its neighbours, also those it imports later
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _as_loaded[name] = state
    return module


# ---- is it what was recorded?


def _missing(call: Call) -> RerunError:
    return RerunError(
        "rerun-no-module",
        f"{call.function} was recorded from {call.file} (module {call.module}), which is not found here.",
        "Bring the file back, or put the program's folder on `sys.path`; for a notebook, define the function again.",
    )


def _require_recorded_file(call: Call, file: str | None) -> None:
    """The same file, or one at another place with the same content: the program on another machine."""
    recorded = call._function.file_hash
    if is_same_file(file, call.file) or (file is not None and recorded is not None and file_hash(file) == recorded):
        return
    raise RerunError(
        "rerun-other-file",
        f"Module {call.module} is {file or 'built in'} here; {call.function} was recorded from {call.file}.",
        "Nothing was imported. Put the recorded file first on `sys.path`, or call the function with `call.args`.",
    )


def _require_recorded_content(call: Call, file: str, changed: bool) -> None:
    recorded = call._function.file_hash
    if changed or (recorded is not None and file_hash(file) == recorded):
        return
    if recorded is None:
        raise unverified(call)
    raise code_changed(call, f"The file {file}")


def unverified(call: Call) -> RerunError:
    """The run does not say enough to recognise the function."""
    return RerunError(
        "rerun-unverified",
        f"The run does not say what the code of {call.function} in {call.file} was, so it cannot be recognised.",
        "It was not called. To run the code as it is now: call.rerun(trusted=True, changed=True).",
    )


def code_changed(call: Call, what: str) -> RerunError:
    """The code that is there is not the recorded one."""
    return RerunError(
        "rerun-changed",
        f"{what} has changed since {call.function} was recorded.",
        "It was not called. To run the code as it is now: call.rerun(trusted=True, changed=True).",
    )

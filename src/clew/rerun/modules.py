"""Finds the module of a recorded function without running anything; imports it if its file is the recorded one."""

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
    from clew.reading.call import Call


def module_of(call: Call, changed: bool) -> ModuleType:
    """The module that defines the function of a call. With `changed`, its file may have changed since."""
    try:
        return _main_module(call, changed) if call.module == "__main__" else _imported_module(call, changed)
    except RerunError:
        raise
    except (Exception, SystemExit) as error:  # whatever a module does when it is loaded
        module = f"{call.module} ({call.file})" if call.module != "__main__" else call.file
        raise RerunError(
            "rerun-no-module",
            f"{module}, which defines {call.function}, does not load here: {type(error).__name__}: {error}.",
            "Rerun it where the program ran: the same environment, and the program's folder on `sys.path`.",
        ) from error


def is_same_file(path: str | None, recorded_path: str) -> bool:
    return path is not None and os.path.realpath(path) == os.path.realpath(recorded_path)


# ---- modules that are imported by name


def _imported_module(call: Call, changed: bool) -> ModuleType:
    loaded_module = sys.modules.get(call.module)
    if loaded_module is not None:  # nothing is run; its function is compared with the recorded one
        _require_recorded_file(call, getattr(loaded_module, "__file__", None))
        return loaded_module
    root = None
    spec = find_spec_without_importing(call.module)
    if spec is None:
        root = _import_root(call.module, call.file)
        spec = None if root is None else find_spec_without_importing(call.module, [root])
    if spec is None:
        raise _module_not_found(call)
    _require_recorded_file(call, spec.origin)
    _require_recorded_content(call, str(spec.origin), changed)
    if root is not None:
        # The module was beside the script when it was recorded. At the end of the path, its folder hides no other.
        sys.path.append(root)
        importlib.invalidate_caches()
    return importlib.import_module(call.module)


def find_spec_without_importing(name: str, path: list[str] | None = None) -> ModuleSpec | None:
    """The spec that importing `name` would load. importlib.util.find_spec would import the packages around it."""
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
        except KeyError:  # a namespace package looks up its parent, which is not imported
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


def _import_root(name: str, file: str) -> str | None:
    """The folder from which importing `name` loads `file`."""
    path = Path(file)
    parts = path.parent.parts if path.stem == "__init__" else path.with_suffix("").parts
    names = tuple(name.split("."))
    if not path.is_absolute() or not path.is_file() or parts[-len(names) :] != names:
        return None
    return str(Path(*parts[: -len(names)]))


# ---- the program's own module


def _main_module(call: Call, changed: bool) -> ModuleType:
    """The program's own module: the running one if it is the same, else its file, loaded under another name."""
    running = sys.modules["__main__"]
    if is_same_file(getattr(running, "__file__", None), call.file):
        return running
    path = Path(call.file)
    if path.is_absolute() and path.is_file():
        _require_recorded_content(call, call.file, changed)
        package = _package_name(path)
        return importlib.import_module(package) if package is not None else _load_script(path)
    if hasattr(running, call.function.split(".")[0]):
        return running  # notebook cells and interactive sessions have no file
    raise _module_not_found(call)


def _package_name(path: Path) -> str | None:
    """`package.module` for a file that ran as `python -m package.module`, if importing that loads this file."""
    names, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    if len(names) == 1:
        return None
    spec = find_spec_without_importing(".".join(names))
    return ".".join(names) if spec is not None and is_same_file(spec.origin, str(path)) else None


_loaded_states: dict[str, tuple[int, int]] = {}  # private name → modification time and size of the file when loaded


def _load_script(path: Path) -> ModuleType:
    """Load the script under a private name, so that its `if __name__ == "__main__"` part does not run."""
    path = path.resolve()
    name = f"_clew_rerun_{path.stem}_{abs(hash(str(path))):x}"
    status = path.stat()
    state = status.st_mtime_ns, status.st_size
    if name in sys.modules and _loaded_states.get(name) == state:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look up their module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # the script may import its neighbours, also later
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _loaded_states[name] = state
    return module


# ---- is it what was recorded?


def _module_not_found(call: Call) -> RerunError:
    return RerunError(
        "rerun-no-module",
        f"{call.function} was recorded from {call.file} (module {call.module}), which is not found here.",
        "Bring the file back, or put the program's folder on `sys.path`; for a notebook, define the function again.",
    )


def _require_recorded_file(call: Call, file: str | None) -> None:
    """Refuse a file that is neither the recorded one nor, as on another machine, one with the same content."""
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
    """The error for a run that holds too little to recognise the function."""
    return RerunError(
        "rerun-unverified",
        f"The run does not record the code of {call.function} in {call.file}, so it cannot be recognised.",
        "It was not called. To run the code as it is now: call.rerun(trusted=True, changed=True).",
    )


def code_changed(call: Call, subject: str) -> RerunError:
    """The error for code that is not the recorded code."""
    return RerunError(
        "rerun-changed",
        f"{subject} has changed since {call.function} was recorded.",
        "It was not called. To run the code as it is now: call.rerun(trusted=True, changed=True).",
    )

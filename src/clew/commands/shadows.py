"""A `queue.py` or `platform.py` beside the program: the program imports it as under plain Python, and clew does not.

Python looks for modules beside the script first. Where that shadows a module that clew, or a library of clew's, imports
when it needs it, all of these are loaded before the program's folder can be looked into. Then the shadowed modules are
taken out of `sys.modules`: whoever imported them keeps them, and the program finds its own.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import pkgutil
import subprocess
import sys
from contextlib import suppress

from clew import env, metadata

#: What is imported while a program is recorded, and when a run closes: all modules of these packages, and these.
_PACKAGES = ("reading", "recorder", "show", "store", "text", "values", "instrument", "probes.follow", "probes.watch")
_LATE = (
    "importlib.metadata", "multiprocessing.context", "multiprocessing.process", "multiprocessing.util", "numpy", "pdb",
    "platform", "pyarrow.ipc", "subprocess", "traceback", "wrapt",
)  # fmt: skip


def step_aside(folder: str) -> None:
    """Make ready for a program that imports from this folder first."""
    shadowed = _names_in(folder or env.current_folder()) & sys.stdlib_module_names
    if not shadowed:
        return
    for name in [*_LATE, *_modules()]:
        with suppress(ImportError):
            importlib.import_module(name)
    metadata.packages()
    loaded_by_python = _loaded_by_python()
    for name in list(sys.modules):
        if name.partition(".")[0] in shadowed and name not in loaded_by_python:
            del sys.modules[name]


def _modules() -> list[str]:
    """clew's own, but for those that belong to a library which the program has not loaded."""
    found = []
    for package in _PACKAGES:
        folder = env.PACKAGE + package.replace(".", os.sep)
        found += [f"clew.{package}.{module.name}" for module in pkgutil.iter_modules([folder])]
    return [name for name in found if not name.startswith(_OF_LIBRARIES)]


_OF_LIBRARIES = (
    *("clew.instrument.eager_torch", "clew.instrument.module_calls"),
    *("clew.values.lone_tensors", "clew.values.owned_tensors", "clew.values.tensor_", "clew.values.torch"),
    *("clew.values.arrow_tables", "clew.values.pandas", "clew.values.pillow", "clew.values.tensorflow"),
)


def _names_in(folder: str) -> set[str]:
    try:
        entries = os.listdir(folder)
    except OSError:  # a zip file, or a folder that may not be read
        return set()
    return {entry.partition(".")[0] for entry in entries if _is_module(os.path.join(folder, entry))}


def _is_module(path: str) -> bool:
    suffixes = tuple(importlib.machinery.all_suffixes())
    return path.endswith(suffixes) or any(
        os.path.isfile(os.path.join(path, "__init__" + suffix)) for suffix in suffixes
    )


def _loaded_by_python() -> set[str]:
    """The modules that are there before a program begins: it cannot put its own in their place."""
    listing = [sys.executable, *subprocess._args_from_interpreter_flags(), "-c", "import sys; print(*sys.modules)"]  # type: ignore[attr-defined]
    try:
        return set(
            subprocess.run(listing, capture_output=True, text=True, timeout=10, check=True, cwd="/").stdout.split()
        )
    except (OSError, subprocess.SubprocessError):
        return set(sys.stdlib_module_names)

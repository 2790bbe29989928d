"""What a bundle was made with, and what of it is other here."""

from __future__ import annotations

import importlib.util
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata
from typing import Any

OWN = str(getattr(sys.modules["clew"], "__version__", ""))
_FIRST = ("python", "torch", "tensorflow", "numpy", "sklearn", "pandas", "scipy")  # what matters most
_DISTRIBUTIONS = {"sklearn": "scikit-learn", "PIL": "pillow", "cv2": "opencv-python", "yaml": "PyYAML"}


def here(packages: Iterable[str]) -> dict[str, str]:
    """Python and these packages, as they are installed."""
    found = {"python": platform.python_version(), "clew": OWN}
    for name in sorted(set(packages)):
        if name in sys.stdlib_module_names or name in ("clew", "__main__", "builtins") or not name:
            continue
        version = _version(name)
        if version is not None:
            found[name] = version
    return found


def distribution_names(package: str) -> list[str]:
    """The names under which pip knows the packages that a module came in."""
    likely = _DISTRIBUTIONS.get(package, package)
    try:
        listed = metadata.distribution(likely).read_text("top_level.txt")
    except (metadata.PackageNotFoundError, ValueError):
        return list(_distributions().get(package, ()))
    if listed is not None and package not in listed.split():  # another one of the same name
        return list(_distributions().get(package, ()))
    return [likely]


def _version(name: str) -> str | None:
    """What is installed under the name of a module: the same whether it was imported or not."""
    found = _installed(_DISTRIBUTIONS.get(name, name))
    if found is None:
        found = next(filter(None, map(_installed, _distributions().get(name, ()))), None)
    if found is None:
        told = getattr(sys.modules.get(name), "__dict__", {}).get("__version__")
        found = told if isinstance(told, str) else None
    return found


def _installed(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except (metadata.PackageNotFoundError, ValueError):
        return None


@cache
def _distributions() -> Mapping[str, list[str]]:
    """The packages that modules came in, where those have other names: `dateutil` is of python-dateutil."""
    return metadata.packages_distributions()


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def differences(recorded: dict[str, Any]) -> list[str]:
    """What is other here than where the bundle was made, the most important first."""
    found = []
    for name, before in recorded.items():
        if name == "clew":
            continue
        now = platform.python_version() if name == "python" else _version(name)
        if now is None and name.isidentifier() and _is_there(name):
            continue  # of which version, it does not say
        if now != before and (name != "python" or _parts(str(now))[:2] != _parts(str(before))[:2]):
            found.append((_weight(name, str(before), now), f"{name} {before} → {now or 'not installed'}"))
    return [text for _, text in sorted(found)]


def _weight(name: str, before: str, now: str | None) -> tuple[int, int, str]:
    rank = _FIRST.index(name) if name in _FIRST else len(_FIRST)
    if now is None:
        return (0, rank, name)
    old, new = _parts(before), _parts(now)
    if name == "python":
        return (1, rank, name)
    return (1 if old[:1] != new[:1] else 2 if old[:2] != new[:2] else 3, rank, name)


def _parts(version: str) -> list[str]:
    return re.split(r"[.+]", version)

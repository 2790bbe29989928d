"""What a bundle needs around it: `requirements.txt` with exact versions, and a virtual environment made from that.

A bundle can have been written by anyone. Only lines that name a package and its version are ever given to pip: no
options, no addresses, no paths.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from clew.errors import GraphError
from clew.graph.brief_values import visible

from . import versions
from .layout import REQUIREMENTS, Bundle

_PIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?==[A-Za-z0-9][A-Za-z0-9.!_-]*")
_SKIPPED = ("__pycache__",)


# ---- requirements.txt


def requirements(packages: Iterable[str], python: str) -> str:
    """The packages that steps import, each by the name that pip knows and with the version that is installed."""
    lines = [f"# Python {python}", f"# run with clew {versions.OWN}, which `clew load --env` installs itself"]
    found = {name: each for package in set(packages) for name, each in _distributions_of(package)}
    for name in sorted(found, key=str.lower):
        lines += _lines(name, found[name])
    return "\n".join(lines) + "\n"


def _distributions_of(package: str) -> Iterator[tuple[str, metadata.Distribution]]:
    if package in sys.stdlib_module_names or package in ("clew", "__main__", "builtins", ""):
        return
    for name in versions.distribution_names(package):
        try:
            found = metadata.distribution(name)
        except (metadata.PackageNotFoundError, ValueError):
            continue
        yield str(found.metadata["Name"]), found


def _lines(name: str, distribution: metadata.Distribution) -> Iterator[str]:
    version, local, build = distribution.version.partition("+")
    pin = f"{name}=={version}"
    if not _PIN.fullmatch(pin):
        yield f"# {visible(name)} {visible(distribution.version)} cannot be installed by its version"
        return
    if local:
        yield f"# {name} was {version}+{build}: a build of its own, which package indexes may not have"
    if distribution.read_text("direct_url.json"):
        yield f"# {name} was not installed from a package index"
    yield pin


def pins(bundle: Bundle) -> list[str]:
    """The lines of a bundle's requirements, if they are nothing but names with versions."""
    if REQUIREMENTS not in bundle.files:
        what = f"{bundle.path} has no {REQUIREMENTS}: it was made by an older clew."
        raise GraphError("bundle-environment", what, "Save it again, or install what `clew inspect` lists.")
    lines = (line.strip() for line in bundle.text(REQUIREMENTS).splitlines())
    found = [line for line in lines if line and not line.startswith("#")]
    for line in found:
        if not _PIN.fullmatch(line):
            what = f"{bundle.path}: {REQUIREMENTS} has the line {line!r}, which is no name with a version."
            raise GraphError("bundle-unsafe", visible(what), "Nothing was installed. clew writes no such bundles.")
    return found


# ---- a virtual environment


def make(bundle: Bundle, folder: Path, *, python: str | None = None, builds: bool = False) -> Path:
    """A virtual environment with what a bundle needs and with clew itself. Its Python.

    builds   packages may be built from their source, which runs code of theirs
    """
    needed = pins(bundle)
    if folder.exists() and any(folder.iterdir()):
        raise GraphError("bundle-environment", f"{folder} is there already.", "Give a folder that is not there yet.")
    _run([python or interpreter_for(bundle), "-m", "venv", str(folder)], "made")
    made = folder / "bin" / "python"
    with tempfile.TemporaryDirectory() as place:
        command = [str(made), "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--quiet"]
        if not builds:
            command.append("--only-binary=:all:")
        _run([*command, str(_own_wheel(Path(place))), *needed], "filled")
    return made


def interpreter_for(bundle: Bundle) -> str:
    """A Python of the version that the bundle was made with, if there is one; else this one."""
    wanted = ".".join(str(bundle.page["versions"].get("python", "")).split(".")[:2])
    if wanted == f"{sys.version_info[0]}.{sys.version_info[1]}" or not re.fullmatch(r"3\.\d+", wanted):
        return sys.executable
    return shutil.which(f"python{wanted}") or sys.executable


def _run(command: list[str], done: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if ended.returncode:
        reason = visible((ended.stderr or ended.stdout).strip()[-2000:])
        what = f"the environment could not be {done}: {reason}."
        remedy = "pip takes its settings from PIP_INDEX_URL, PIP_FIND_LINKS, ...; --allow-builds permits sources."
        raise GraphError("bundle-environment", what, remedy)


def _own_wheel(folder: Path) -> Path:
    """clew itself as a wheel: the very version that made the environment, which no index may have."""
    source = Path(str(sys.modules["clew"].__file__)).parent
    name, version = source.name, versions.OWN
    info = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    record: list[str] = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for file in sorted(source.rglob("*")):
            parts = file.relative_to(source).parts
            if file.is_file() and not set(parts) & set(_SKIPPED):
                _add(wheel, "/".join((name, *parts)), file.read_bytes(), record)
        needs = "".join(f"Requires-Dist: {line}\n" for line in _own_requirements(name))
        _add(wheel, f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}", record)
        _add(wheel, f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n", record)
        script = f"[console_scripts]\n{name} = {name}.commands.main:main\n"
        _add(wheel, f"{info}/entry_points.txt", script, record)
        wheel.writestr(f"{info}/RECORD", "".join(record) + f"{info}/RECORD,,\n")
    return path


def _own_requirements(name: str) -> list[str]:
    try:
        return [line for line in metadata.requires(name) or () if "extra ==" not in line]
    except metadata.PackageNotFoundError:  # run from its sources: whoever does that has installed what they need
        return []


def _add(wheel: zipfile.ZipFile, name: str, content: bytes | str, record: list[str]) -> None:
    data: Any = content.encode() if isinstance(content, str) else content
    wheel.writestr(name, data)
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    record.append(f"{name},sha256={digest},{len(data)}\n")

"""`clew doctor`: what clew finds on this machine, and what to do about what is missing."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew import env
from clew.commands.console import console, print_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

REQUIRED = ("numpy", "pyarrow", "xxhash", "rich", "wrapt", "starlette", "uvicorn")
EXTRAS = {  # library → what it is for, the extra that brings it
    "torch": ("tensors come back as tensors", "torch"),
    "pandas": ("data frames; Series.to_pandas()", "pandas"),
    "h5py": ("clew.HDF5Saver; clew export --to hdf5", "hdf5"),
    "zarr": ("clew export --to zarr", "zarr"),
    "safetensors": ("clew export --to safetensors", "safetensors"),
    "matplotlib": ("Series.plot()", "plot"),
    "tensorboardX": ("clew export --to tensorboard", "tensorboard"),
    "distributed": ("graph.map(engine='dask')", "dask"),
    "tensorflow": ("TensorFlow and Keras models in graphs", "tensorflow"),
    "lightning": ("clew.integrations: a callback", "lightning"),
    "transformers": ("clew.integrations: a callback", "huggingface"),
}
SWITCHES = ("CLEW", "CLEW_DIR", "CLEW_QUIET", "CLEW_STRICT")

EXAMPLES = [
    "clew doctor",
    "clew doctor --json",
]


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser("doctor", help="what clew finds on this machine")
    parser.description = "Versions, engines, switches, the runs folder, and what could be installed."
    parser.add_argument("--json", action="store_true", help="for machines")


def main(args: argparse.Namespace) -> int:
    """1 if something is wrong that keeps clew from recording."""
    findings = list(examine())
    if args.json:
        print_json(
            [dict(zip(("topic", "name", "ok", "found", "remedy"), finding, strict=True)) for finding in findings]
        )
    else:
        _show(findings)
    return 0 if all(ok is not False for _, _, ok, _, _ in findings) else 1


Finding = tuple[str, str, bool | None, str, str]  # topic, name, fine / wrong / merely not there, what, what to do


def examine() -> Iterator[Finding]:
    """Everything worth knowing, one finding after the other."""
    yield "version", "clew", True, _version("clew") or "not installed", ""
    yield "version", "python", *_python()
    yield "version", "system", True, platform.platform(), ""
    for name in REQUIRED:
        found = _version(name)
        yield "version", name, found is not None, found or "missing", "" if found else f"pip install {name}"
    yield "page", "clew view", *_page()
    yield from _engines()
    yield from _switches()
    yield "runs", "folder", *_folder(env.runs_folder())
    for name, (purpose, extra) in EXTRAS.items():
        found = _version(name) if find_spec(name) else None
        remedy = "" if found else f"pip install 'clew[{extra}]'"
        yield "extra", name, True if found else None, f"{found or 'not installed'} ({purpose})", remedy


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _python() -> tuple[bool, str, str]:
    text = f"{platform.python_version()} {platform.python_implementation()} at {sys.executable}"
    if env.threads_run_freely():
        return False, f"{text}, free-threaded", "use the ordinary build, or set PYTHON_GIL=1"
    fine = sys.version_info >= (3, 11) and platform.python_implementation() == "CPython"
    return fine, text, "" if fine else "clew needs CPython 3.11 or newer"


def _page() -> tuple[bool, str, str]:
    from clew.page import BUILT

    built = BUILT.is_file()
    return built, "built" if built else "not built", "" if built else "pip install . (in a checkout: make test-web)"


def _engines() -> Iterator[Finding]:
    yield "engine", "rewriting", *_rewriting()
    if env.HAS_MONITORING:
        yield "engine", "monitoring", True, "for functions without source", ""
    else:
        yield "engine", "monitoring", None, "not there", "comes with Python 3.12"
    tracer = sys.gettrace()
    busy = "" if tracer is None else f"; a debugger or coverage tool is using it ({type(tracer).__name__})"
    yield "engine", "settrace", True, f"where monitoring is not there{busy}", ""


def _rewriting() -> tuple[bool | None, str, str]:
    """What the engine's test of itself says of this Python."""
    if env.threads_run_freely():
        return None, "not tried", ""
    from clew.instrument import selftest

    blind = selftest.failure(loudly=False)
    if blind:
        return False, blind, "use a Python that this version of clew knows (3.11 to 3.15), or a newer clew"
    return True, "for every function whose source is found; it passes its test of itself", ""


def _switches() -> Iterator[Finding]:
    for name in SWITCHES:
        value = os.environ.get(name)
        if name == "CLEW" and not env.enabled():
            yield "switch", name, None, f"{value}: everything is off", "unset CLEW"
        else:
            yield "switch", name, True, "not set" if value is None else value, ""


def _folder(folder: Path) -> tuple[bool, str, str]:
    """Whether a run could be made: tried in the nearest folder that exists, and nothing is left behind."""
    there = next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
    remedy = "point CLEW_DIR to a folder that can be written"
    try:
        with tempfile.NamedTemporaryFile(dir=there, prefix=".clew-doctor-"):
            pass
    except OSError as error:
        return False, f"{folder}: cannot be written ({error.strerror})", remedy
    return True, str(folder) if there == folder else f"{folder} (will be made)", ""


def _show(findings: list[Finding]) -> None:
    from clew.show.table_layout import Column, Columns

    marks = {True: "ok", False: "WRONG", None: "-"}
    table = Columns([Column(), Column(), Column(folds=True)])
    for _topic, name, ok, found, remedy in findings:
        table.add(name, marks[ok], f"{found} → {remedy}" if remedy else found)
    console().print(table)

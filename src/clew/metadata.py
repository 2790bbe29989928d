"""What is known of a program when a run opens and when it closes. Nothing here runs the user's code."""

from __future__ import annotations

import getpass
import os
import platform
import re
import socket
import subprocess
import sys
import threading
import time
import uuid
import weakref
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from clew import env
from clew._version import __version__

_TUNING: Final = re.compile(
    r"(CUDA|CUBLAS|CUDNN|NVIDIA|ROCR|HIP|OMP|OPENBLAS|MKL|KMP|NUMEXPR|TORCH|PYTORCH|NCCL|GLOO|TF|XLA|JAX|KERAS|HF|"
    r"TRANSFORMERS|TOKENIZERS|ACCELERATE|RAY|DASK)_|PYTHON|(WORLD_SIZE|RANK|LOCAL_RANK)$"
)
_SECRET: Final = re.compile("TOKEN(?!IZERS)|KEY|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)
_LONGEST_VARIABLE: Final = 1000


def at_start(name: str | None, tags: dict[str, Any]) -> dict[str, Any]:
    """The page of a run that begins now."""
    now = time.time_ns()
    return {
        "id": uuid.uuid4().hex,
        "name": name or default_name(),
        "argv": list(sys.argv) if hasattr(sys, "argv") else [],
        "cwd": env.current_folder(),
        "git": None,
        "python": platform.python_version(),
        "packages": packages(),
        "host": socket.gethostname(),
        "user": _user(),
        "platform": platform.platform(),
        "pid": os.getpid(),
        "process_started": process_started(os.getpid()),
        "rank": env.rank(),
        "started": iso(now),
        "started_ns": now,
        "ended": None,
        "ended_ns": None,
        "how": "running",
        "error": None,
        "exit": None,
        "seeds": seeds(),
        "environment": environment(),
        "tags": tags,
        "clew": __version__,
    }


def default_name() -> str:
    """A run nobody named is called after its script."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if isinstance(main, str) and main:
        return os.path.splitext(os.path.basename(main))[0]
    return "notebook" if "ipykernel" in sys.modules else "session"


def iso(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9, UTC).isoformat(timespec="milliseconds")


def packages() -> dict[str, str]:
    """Versions of the top-level modules that are loaded, as they say themselves."""
    found = {}
    for name, module in sys.modules.copy().items():
        if "." in name or name.startswith("_") or name in sys.stdlib_module_names:
            continue
        version = getattr(module, "__dict__", {}).get("__version__")
        if isinstance(version, str):
            found[name] = str(version)
    return dict(sorted(found.items()))


def seeds() -> dict[str, Any]:
    """Seeds where a library can tell them."""
    found: dict[str, Any] = {}
    if "PYTHONHASHSEED" in os.environ:
        found["PYTHONHASHSEED"] = os.environ["PYTHONHASHSEED"]
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "initial_seed"):
        found["torch"] = int(torch.initial_seed())
    return found


class GitLookup(threading.Thread):
    """Asks git about a folder while the program goes on.

    Whoever closes the run takes the answer, which ends this thread: at the interpreter's end a daemon thread that still
    runs is stopped by the C library, which aborts the process if no file descriptor is free.
    """

    def __init__(self, folder: str, write: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(name="clew-git", daemon=True)
        self._folder = folder
        self._write = write
        self._state: dict[str, Any] | None = None
        with suppress(RuntimeError):  # no thread can be started: `answer` asks git itself
            self.start()
            _lookups.add(self)

    def run(self) -> None:
        self._state = git(self._folder)
        if self._state is not None:
            self._write(self._state)

    def answer(self) -> dict[str, Any] | None:
        if self.ident is None:
            return git(self._folder)
        self.join()
        return self._state


_lookups: weakref.WeakSet[GitLookup] = weakref.WeakSet()


def wait_for_git() -> None:
    """Before a fork, which wants no other threads. Not for long: git may hang."""
    for lookup in list(_lookups):
        lookup.join(timeout=1)
        _lookups.discard(lookup)


def environment() -> dict[str, str]:
    """The environment variables that libraries of this field compute by, without any that may hold a secret."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if _TUNING.match(name) and not _SECRET.search(name) and len(value) <= _LONGEST_VARIABLE
    }


def git(folder: str) -> dict[str, Any] | None:
    """Commit, branch and whether there are changes; None outside a repository or without git."""

    def ask(*words: str) -> str:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", folder, *words],  # looking must not touch the index
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        return done.stdout.strip()

    try:
        commit = ask("rev-parse", "HEAD")
        return {
            "commit": commit,
            "branch": ask("rev-parse", "--abbrev-ref", "HEAD"),
            "dirty": bool(ask("status", "--porcelain", "--untracked-files=no")),
        }
    except (OSError, RuntimeError, subprocess.SubprocessError):  # RuntimeError: the interpreter ends
        return None


def process_started(pid: int) -> str | None:
    """A mark that tells a process from a later one with the same number; None where there is no /proc."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return None


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return str(os.getuid()) if hasattr(os, "getuid") else "?"

"""What is known of a program when a run opens and when it closes. Nothing here runs the user's code."""

from __future__ import annotations

import getpass
import os
import platform
import socket
import subprocess
import sys
import time
import uuid
from datetime import UTC, datetime
from typing import Any

from clew import env
from clew._version import __version__


def at_start(name: str | None, tags: dict[str, Any]) -> dict[str, Any]:
    """The page of a run that begins now."""
    now = time.time_ns()
    return {
        "id": uuid.uuid4().hex,
        "name": name or default_name(),
        "argv": list(sys.argv) if hasattr(sys, "argv") else [],
        "cwd": os.getcwd(),
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
    except (OSError, subprocess.SubprocessError):
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

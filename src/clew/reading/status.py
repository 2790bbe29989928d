"""Determines how a run ended, or whether it is still running.

The metadata states it, unless the process had no time to write it: if a run claims to be running, its process is looked
up. For a process on another host, the claim stands.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

SLACK_NS = 2_000_000_000  # the kernel gives a process's start in ticks since boot, which is imprecise


def status(meta: dict[str, Any]) -> str:
    """running, finished, incomplete, failed, interrupted, exited or killed."""
    how = str(meta.get("how") or "running")
    if how == "finished" and meta.get("stopped"):  # the program finished, but recording had stopped earlier
        return "incomplete"
    if how != "running":
        return how
    return "running" if may_be_alive(meta) else "killed"


def may_be_alive(meta: dict[str, Any]) -> bool:
    """False only when it is certain that the run's process is gone."""
    pid = meta.get("pid")
    if not isinstance(pid, int) or pid <= 0 or meta.get("host") != socket.gethostname():
        return True
    boot = meta.get("boot")
    if boot and boot_id() and str(boot) != boot_id():
        return False
    return _process_exists(pid) and not _is_reused(pid, meta.get("started_ns"))


def boot_id() -> str:
    """The kernel's id of this boot; empty if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _process_exists(pid: int) -> bool:
    if os.name != "posix":
        return True  # os.kill would end the process
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OverflowError:
        return False
    except OSError:
        pass  # it exists, but belongs to another user
    return True


def _is_reused(pid: int, started_ns: Any) -> bool:
    """Whether the process with this id is a zombie, or began after the run did, so that the id was reused."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        booted = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
        began_ns = int(booted.split()[1]) * 10**9 + int(fields[19]) * 10**9 // os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration):
        return False
    if fields[0] in "ZX":
        return True
    return isinstance(started_ns, int) and began_ns > started_ns + SLACK_NS

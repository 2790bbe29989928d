"""How a run ended, or whether it still goes on.

Its metadata says how, unless it had no time to: a run that claims to be running is asked for its process. On another
host that cannot be asked, and the claim stands.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

SLACK_NS = 2_000_000_000  # the kernel counts a process's start in ticks since boot


def status(meta: dict[str, Any]) -> str:
    """running, finished, incomplete, failed, interrupted, exited or killed."""
    how = str(meta.get("how") or "running")
    if how == "finished" and meta.get("stopped"):  # the program ended well; recording it had stopped before
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
    return _process_exists(pid) and not _is_another(pid, meta.get("started_ns"))


def boot_id() -> str:
    """The kernel's name for this boot, or nothing where there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _process_exists(pid: int) -> bool:
    if os.name != "posix":
        return True  # os.kill would end it
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OverflowError:
        return False
    except OSError:
        pass  # there, and someone else's
    return True


def _is_another(pid: int, started_ns: Any) -> bool:
    """Whether the process of that number is a zombie, or began after the run did: the number was given out again."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        booted = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
        began_ns = int(booted.split()[1]) * 10**9 + int(fields[19]) * 10**9 // os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration):
        return False
    if fields[0] in "ZX":
        return True
    return isinstance(started_ns, int) and began_ns > started_ns + SLACK_NS

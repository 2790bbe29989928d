"""How a run ended, or whether it still goes on."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from typing import Any

import pytest

from clew.reading.status import boot_id, status

HERE = {"how": "running", "host": socket.gethostname(), "started_ns": time.time_ns()}


def gone() -> int:
    """The number of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize("how", ["finished", "failed", "interrupted", "exited"])
def test_a_run_that_that_states_how_it_ended_is_believed(how: str) -> None:
    assert status({**HERE, "how": how, "pid": gone()}) == how


def test_a_run_whose_process_lives_is_running() -> None:
    assert status({**HERE, "pid": os.getpid()}) == "running"


def test_a_run_whose_process_is_gone_was_killed() -> None:
    assert status({**HERE, "pid": gone()}) == "killed"


def test_a_run_from_before_the_last_boot_was_killed() -> None:
    meta = {**HERE, "pid": os.getpid(), "boot": "another"}
    assert status(meta) == ("killed" if boot_id() else "running")
    assert status({**HERE, "pid": os.getpid(), "boot": boot_id()}) == "running"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells when a process began")
def test_a_process_number_given_out_again_is_not_the_run() -> None:
    a_year_ago = time.time_ns() - 365 * 86400 * 10**9
    assert status({**HERE, "pid": os.getpid(), "started_ns": a_year_ago}) == "killed"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of zombies")
def test_a_zombie_is_not_running() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read()
    deadline = time.monotonic() + 10
    while status({**HERE, "pid": process.pid}) == "running" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert status({**HERE, "pid": process.pid}) == "killed"
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("pid", [None, "12", 0, -1])
def test_a_run_that_does_not_name_its_process_is_taken_at_its_word(pid: Any) -> None:
    assert status({**HERE, "pid": pid}) == "running"


def test_a_run_of_another_machine_is_taken_at_its_word() -> None:
    assert status({**HERE, "host": "elsewhere", "pid": gone()}) == "running"


def test_a_number_too_large_for_a_process_is_none() -> None:
    assert status({**HERE, "pid": 2**80}) == "killed"

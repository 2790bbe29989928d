"""A run whose disk filled up never says that it is complete, and the program goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import clew

#: Files may grow to so many bytes; writing more fails, as it does on a full disk.
LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limit = int(sys.argv[1])
import clew
def fill_up():
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
"""

PROGRAMS = {
    "watch": """
        @clew.watch("k")
        def count(n):
            for k in range(n):
                pass
            return k
        fill_up()
        print(count(200_000))
        """,
    "short calls": """
        @clew.watch("k")
        def step(i):
            k = i
            return k
        fill_up()
        print(sum(step(i) for i in range(30_000)))
        """,
    "follow": """
        def inner(i):
            return i
        @clew.follow(show=False)
        def main(n):
            return sum(inner(i) for i in range(n))
        fill_up()
        print(main(30_000))
        """,
    "a named run": """
        @clew.watch("k")
        def count(n):
            for k in range(n):
                pass
            return k
        with clew.run("named"):
            fill_up()
            print(count(200_000))
        """,
    "a long text": """
        @clew.watch("text")
        def write(n):
            for i in range(n):
                text = "x" * 100_000 + str(i)
            return len(text)
        fill_up()
        print(write(50))
        """,
    "items": """
        @clew.stage("load")
        def load(i):
            return i
        fill_up()
        with clew.items(20_000):
            print(sum(load(i) for i in range(20_000)))
        """,
}


def run(program: str, limit: int, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    script = folder / "program.py"
    script.write_text(LIMITED + textwrap.dedent(PROGRAMS[program]))
    environment = {**os.environ, "CLEW_DIR": str(folder / "runs"), "CLEW_STRICT": "0", **environment}
    command = [sys.executable, str(script), str(limit)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


@pytest.mark.parametrize("limit", [0, 600, 40_000])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_full_disk_stops_the_recording_and_not_the_program(program: str, limit: int, tmp_path: Path) -> None:
    plain = run(program, 1 << 40, tmp_path, CLEW="0")
    full = run(program, limit, tmp_path)
    assert (full.returncode, full.stdout) == (0, plain.stdout), full.stderr
    assert full.stderr.count("has stopped") + full.stderr.count("no run can be stored") == 1
    for path in (tmp_path / "runs").glob("*/*/run.json"):
        recorded = clew.open(path.parent)
        assert recorded.status in ("incomplete", "killed")
        assert recorded.problems, "nothing says that something is missing"
        assert "seen and kept" not in str(recorded.ledger)
        assert "incomplete" in {note.kind for note in recorded.ledger}


def test_the_reason_is_known_though_the_disk_has_no_room_for_a_note(tmp_path: Path) -> None:
    run("watch", 40_000, tmp_path)
    (recorded,) = clew.runs(tmp_path / "runs")
    (note,) = [note for note in recorded.ledger if note.kind == "incomplete"]
    assert "File too large" in note.text
    shown = subprocess.run(
        [sys.executable, "-m", "clew", "show", str(recorded.path)], capture_output=True, text=True, check=True
    )
    assert "File too large" in shown.stdout
    assert "seen and kept" not in shown.stdout


def test_the_page_of_a_run_on_a_full_disk_stays_readable(tmp_path: Path) -> None:
    """run.json is written again when a run ends: there is no room for the new one, and the old one stays."""
    run("watch", 600, tmp_path)
    for path in (tmp_path / "runs").glob("*/*/run.json"):
        assert json.loads(path.read_text())["format"]

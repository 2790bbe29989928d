"""A program that records faster than can be written waits: memory stays within the budget, and nothing is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import clew

BUDGET, OWN = 64, 250  # megabytes; the second is what writing needs besides: libraries, a batch and its copies

BEGIN = """
import json, sys, threading
import clew, numpy
from clew.recorder import row_output  # loaded before memory is looked at
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
"""
END = (
    """
before = peak()
with clew.run("memory", memory="%dMB") as run:
    count = main()
    print(json.dumps([peak() - before, count, str(run.path)]))
"""
    % BUDGET
)

PROGRAMS = {
    "long texts in short calls": """
        @clew.watch("value")
        def step(i):
            value = "x" * 20_000 + str(i)
        def main():
            for i in range(8_000):
                step(i)
            return 8_000
        """,
    "long texts in one call": """
        @clew.watch("value")
        def main():
            for i in range(8_000):
                value = "x" * 20_000 + str(i)
            return 8_000
        """,
    "long texts in four threads": """
        @clew.watch("value")
        def step(i):
            value = "x" * 20_000 + str(i)
        def main():
            def work():
                for i in range(2_000):
                    step(i)
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return 8_000
        """,
    "arrays": """
        @clew.watch("value")
        def step(i):
            value = numpy.full(5_000, i)
        def main():
            for i in range(4_000):
                step(i)
            return 4_000
        """,
    "large integers": """
        @clew.watch("value")
        def main():
            value = 1 << 160_000
            for i in range(8_000):
                value += 1
            return 8_001
        """,
    "arguments of followed calls": """
        def inner(value):
            return None
        @clew.follow(show=False)
        def main():
            for i in range(8_000):
                inner("x" * 20_000 + str(i))
            return 8_000
        """,
    "arguments of followed calls by themselves": """
        @clew.follow(show=False)
        def inner(value):
            return None
        def main():
            for i in range(8_000):
                inner("x" * 20_000 + str(i))
            return 8_000
        """,
}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the largest amount of memory")
@pytest.mark.parametrize("program", PROGRAMS)
def test_memory_stays_within_the_budget_and_nothing_is_lost(program: str, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(BEGIN + textwrap.dedent(PROGRAMS[program]) + END)
    environment = {**os.environ, "CLEW_DIR": str(tmp_path / "runs")}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    megabytes, count, path = json.loads(done.stdout)
    run = clew.open(path)
    recorded = len(run["value"]) if "value" in run.names else len(run.calls("inner"))
    assert recorded == count
    assert megabytes < BUDGET + OWN


def test_little_is_left_to_write_when_a_run_closes(tmp_path: Path) -> None:
    """Closing takes long only where much is left: what many short calls recorded is on disk by then."""
    script = tmp_path / "program.py"
    script.write_text(
        textwrap.dedent("""
            import json, time
            from pathlib import Path
            import clew
            @clew.watch("x")
            def step(i):
                x = i
            def size(path):
                return sum(file.stat().st_size for file in Path(path).rglob("*.arrow"))
            with clew.run("closing") as run:
                until = time.monotonic() + 3
                while time.monotonic() < until:
                    step(1)
                before = size(run.path)
            print(json.dumps([before, size(run.path)]))
        """)
    )
    environment = {**os.environ, "CLEW_DIR": str(tmp_path / "runs")}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment, timeout=300)
    before, after = json.loads(done.stdout)
    assert before > 0.6 * after

"""How much `kill -9` takes away: programs that record the time, and a killer that compares.

Each program records `now`, the time of the clock, again and again, and writes the same number into a file that is
mapped into memory and so survives the kill. Lost is the time between the last `now` in the run and the last one there.

    python tests/faults/kills.py 20                 # kills of each program, on an idle and on a busy machine
    python tests/faults/kills.py 20 "model, small"  # of these programs only
"""

from __future__ import annotations

import os
import statistics
import struct
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import clew

_BEGIN = """
import mmap, struct, sys, threading, time
import clew
_file = open(sys.argv[1], "r+b")
_page = mmap.mmap(_file.fileno(), 16)
def clock():
    now = time.time()
    _page[8:] = struct.pack("d", now)
    if _page[:8] == bytes(8):
        _page[:8] = _page[8:]
    return now
"""

PROGRAMS = {
    "watch, short calls": """
        @clew.watch("now")
        def step():
            now = clock()
            return None
        while True:
            step()
        """,
    "watch, one long call": """
        @clew.watch("now")
        def main():
            while True:
                now = clock()
        main()
        """,
    "watch, short calls that hold lists": """
        @clew.watch("now", "items")
        def step():
            items = [1, 2]
            items.append(3)
            now = clock()
        while True:
            step()
        """,
    "watch, four threads": """
        @clew.watch("now")
        def step():
            now = clock()
        def work():
            while True:
                step()
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        work()
        """,
    "watch, a call beside a busy thread": """
        def burn():
            while True:
                sum(range(1000))
        threading.Thread(target=burn, daemon=True).start()
        @clew.watch("now")
        def main():
            while True:
                now = clock()
        main()
        """,
    "follow, short calls": """
        def step():
            return clock()
        @clew.follow("now", show=False)
        def main():
            while True:
                now = step()
        main()
        """,
    "follow, each call by itself": """
        def inner(now):
            return now
        @clew.follow("now", show=False)
        def step():
            now = clock()
            return inner(now)
        while True:
            step()
        """,
    "follow, short calls by themselves": """
        @clew.follow(show=False)
        def load():
            return clock()
        while True:
            load()
        """,
    "pipeline, many items": """
        @clew.stage("load")
        def load(i):
            return clock()
        @clew.stage("clean")
        def clean(now):
            return now
        with clew.items(10**9) as trace:
            for i in range(10**9):
                clean(load(i))
        """,
    "model, small": """
        import torch
        class Net(torch.nn.Module):
            def forward(self, x):
                now = clock()
                return x + 1
        model = Net()
        x = torch.zeros(2)
        with clew.ModelTracer(model, ["forward.now"], store=True):
            while True:
                model(x)
        """,
    "model, large": """
        import torch
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(512, 512)
            def forward(self, x):
                now = clock()
                return self.layer(x)
        model = Net()
        x = torch.zeros(256, 512)
        with clew.ModelTracer(model, ["forward.now", "layer"], store=True):
            while True:
                model(x)
        """,
}
NEEDS_TORCH = {"model, small", "model, large"}

_BURN = "while True: sum(range(1000))"


def seconds_lost(program: str, seconds: float, folder: Path) -> float:
    """Run a program for so long, kill it, and tell how much of what it recorded is not in the run."""
    script, last = folder / "program.py", folder / "last"
    script.write_text(_BEGIN + textwrap.dedent(PROGRAMS[program]))
    last.write_bytes(bytes(16))
    environment = {**os.environ, "CLEW_DIR": str(folder / "runs"), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, str(script), str(last)], env=environment)
    try:
        _wait_for_first(last, process)
        time.sleep(seconds)
    finally:
        process.kill()
        process.wait()
    first, until = struct.unpack("dd", last.read_bytes())
    (run,) = clew.runs(folder / "runs")
    assert run.status == "killed"
    assert "killed" in str(run.ledger)
    return float(until - max(first, _last_recorded(run)))


def _wait_for_first(last: Path, process: subprocess.Popen[bytes]) -> None:
    while last.read_bytes() == bytes(16):
        if process.poll() is not None:
            raise RuntimeError(f"the program ended by itself with {process.returncode}")
        time.sleep(0.01)


def _last_recorded(run: clew.Run) -> float:
    """The last time that was recorded."""
    names = [name for name in run.names if name.rpartition(".")[2] == "now"]
    if names:
        return max(float(run[name].values[-1]) for name in names)
    results = (call.result for call in reversed(run.calls("load")[-100:]))  # elsewhere it is what functions return
    return next((float(result) for result in results if result is not None), 0.0)


def main(kills: int, programs: list[str]) -> None:
    for busy in (0, 4):  # processes that take what processors there are
        burners = [subprocess.Popen([sys.executable, "-c", _BURN]) for _ in range(busy)]
        try:
            for program in programs:
                losses = []
                for number in range(kills):
                    with tempfile.TemporaryDirectory() as folder:
                        losses.append(seconds_lost(program, 0.3 + 2.5 * number / kills, Path(folder)))
                print(
                    f"{program:38} {'busy' if busy else 'idle':5} {kills} kills: "
                    f"median {statistics.median(losses):.2f} s, largest {max(losses):.2f} s",
                    flush=True,
                )
        finally:
            for burner in burners:
                burner.kill()
                burner.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:] or list(PROGRAMS))

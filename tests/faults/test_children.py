"""Children of multiprocessing record into the run that started them, whatever the way they are started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import clew

METHODS = ["fork", "spawn", "forkserver"]

DECORATED = """
import multiprocessing, sys
import clew

@clew.watch("y")
def work(x):
    y = x * 2
    return y

def start_another(x):
    process = multiprocessing.get_context(sys.argv[1]).Process(target=work, args=(x,))
    process.start()
    process.join()

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    def run(target, x):
        process = context.Process(target=target, args=(x,))
        process.start()
        process.join()
    made_early = context.Process(target=work, args=(5,))
    with clew.run("first"):
        run(work, 1)
    with clew.run("second"):
        run(work, 2)
        run(start_another, 3)
    run(work, 4)
    with clew.run("third"):
        made_early.start()
        made_early.join()
"""

POOL = """
import multiprocessing, sys
import clew

@clew.watch("y")
def work(x):
    y = x * 2
    return y

if __name__ == "__main__":
    with clew.run("pool"), multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        print(sum(pool.map(work, range(20))))
"""

PLAIN = """
import multiprocessing, sys
import helpers

def work(x):
    y = x * 2
    return helpers.more(y)

def start_another(x):
    process = multiprocessing.get_context(sys.argv[1]).Process(target=work, args=(x,))
    process.start()
    process.join()

if __name__ == "__main__":
    for target in (work, start_another):
        process = multiprocessing.get_context(sys.argv[1]).Process(target=target, args=(3,))
        process.start()
        process.join()
"""
HELPERS = """
def more(n):
    m = n + 1
    return m
"""

AT_IMPORT = """
import multiprocessing, sys
import clew

@clew.watch("y")
def work(x):
    y = x * 2
    return y

at_import = work(100)

if __name__ == "__main__":
    with clew.run("asked for"):
        process = multiprocessing.get_context(sys.argv[1]).Process(target=work, args=(1,))
        process.start()
        process.join()
"""


def run(folder: Path, program: str, *arguments: str, clew_run: tuple[str, ...] = ()) -> str:
    (folder / "program.py").write_text(program)
    (folder / "helpers.py").write_text(HELPERS)
    before = ["-m", "clew", "run", *clew_run] if clew_run else []
    environment = {**os.environ, "CLEW_DIR": str(folder / "runs")}
    done = subprocess.run(
        [sys.executable, *before, "program.py", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def values(run: Any, name: str = "y") -> list[Any]:
    return sorted(change.value for change in run.changes(name)) if name in run.names else []


@pytest.mark.parametrize("method", METHODS)
def test_children_and_grandchildren_record_into_the_run_that_started_them(tmp_path: Path, method: str) -> None:
    run(tmp_path, DECORATED, method)
    runs = {each.meta["name"]: each for each in clew.runs(tmp_path / "runs")}
    assert {name: values(each) for name, each in runs.items()} == {
        "first": [2],
        "second": [4, 6],
        "program": [8],
        "third": [10],
    }
    assert {each.status for each in runs.values()} == {"finished"}
    assert [list(each.ledger) for each in runs.values()] == [[], [], [], []]


@pytest.mark.parametrize("method", METHODS)
def test_a_pool_that_ends_its_workers_leaves_what_they_recorded(tmp_path: Path, method: str) -> None:
    assert run(tmp_path, POOL, method) == "380\n"
    (only,) = clew.runs(tmp_path / "runs")
    assert len(values(only)) >= 1  # the first call of a worker waits until it is written
    assert not [note for note in only.ledger if note.kind.startswith("never-")]


@pytest.mark.parametrize("method", METHODS)
def test_clew_run_watches_children_however_they_are_started(tmp_path: Path, method: str) -> None:
    run(tmp_path, PLAIN, method, clew_run=("--watch", "work: y", "--watch", "more: m"))
    (only,) = clew.runs(tmp_path / "runs")
    assert values(only) == [6, 6]
    assert values(only, "m") == [7, 7]
    assert list(only.ledger) == []


@pytest.mark.parametrize("method", METHODS)
def test_clew_run_follows_children_however_they_are_started(tmp_path: Path, method: str) -> None:
    run(tmp_path, PLAIN, method, clew_run=("--follow", "program:work", "--no-show"))
    (only,) = clew.runs(tmp_path / "runs")
    assert [call.args["x"] for call in only.calls("work")] == [3, 3]
    assert [call.result for call in only.calls("more")] == [7, 7]
    assert list(only.ledger) == []


@pytest.mark.parametrize("method", METHODS)
def test_a_call_while_a_child_imports_does_not_lead_its_records_elsewhere(tmp_path: Path, method: str) -> None:
    run(tmp_path, AT_IMPORT, method)
    (asked_for,) = [each for each in clew.runs(tmp_path / "runs") if each.meta["name"] == "asked for"]
    assert 2 in values(asked_for)


def test_a_process_object_carries_nothing_that_needs_clew_to_be_unpickled() -> None:
    import pickle

    from clew.recorder import child_processes

    with clew.run() as run:
        parcel = child_processes._PARCEL
        assert pickle.loads(pickle.dumps(parcel)) == {"run": str(run.path)}
    assert pickle.loads(pickle.dumps(parcel)) == {"run": None}

"""`with clew.watch(...)`: in a function, at module level, in a notebook cell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import clew

from .checking import load


def test_a_block_in_a_function_records_its_lines_only(tmp_path: Path) -> None:
    module = load(
        tmp_path,
        """
        import clew
        def f(n):
            x = -1
            with clew.watch("x", "y", "y[0]"):
                for i in range(n):
                    x = i
                    y = [i]
            x = 99
            return x
        """,
    )
    with clew.run() as run:
        assert module.f(2) == 99
        assert module.f(1) == 99
    first, second = run.calls("f")
    assert [(c.name, c.line, c.value) for c in first.changes] == [
        ("x", 4, -1), ("x", 6, 0), ("y", 7, [0]), ("y[0]", 7, 0), ("x", 6, 1), ("y", 7, [1]), ("y[0]", 7, 1),
    ]  # fmt: skip
    assert second.data == {"x": [-1, 0], "y": [[0]], "y[0]": [0]}


def test_leaving_a_block_in_a_function_by_return_break_and_error(tmp_path: Path) -> None:
    module = load(
        tmp_path,
        """
        import clew
        def f(how):
            for x in range(3):
                with clew.watch("y"):
                    y = x
                    if how == "break":
                        break
                    if how == "return":
                        return "returned"
                    if how == "raise":
                        raise ValueError("mine")
            return "end"
        """,
    )
    with clew.run() as run:
        assert module.f("break") == "end"
        assert module.f("return") == "returned"
        with pytest.raises(ValueError, match="mine"):
            module.f("raise")
    assert [call.data for call in run.calls()] == [{"y": [0]}] * 3
    assert [call.error for call in run.calls()] == [None, None, "ValueError: mine"]


def test_blocks_in_blocks_and_recursion_do_not_mix(tmp_path: Path) -> None:
    module = load(
        tmp_path,
        """
        import clew
        def f(n):
            with clew.watch("a"):
                a = n
                if n:
                    f(n - 1)
                with clew.watch("b"):
                    b = a * 10
                a += 1
        """,
    )
    with clew.run() as run:
        module.f(1)
    assert [call.data for call in run.calls()] == [{"a": [1, 2]}, {"a": [0, 1]}, {"b": [0]}, {"b": [10]}]


SCRIPT = """\
import clew, sys, traceback
x = -1
with clew.watch("x", "items"):
    items = []
    for i in range(3):
        x = i
        items.append(
            i,
        )
    def double(v):
        return v * 2
    y = [double(x) for _ in range(2)]
print(x, items, y, double(4), sys.gettrace(), sorted(n for n in globals() if "clew" in n))
for turn in range(3):
    with clew.watch("turn"):
        if turn == 1:
            break
with clew.watch("z"): z = 5
with clew.watch("*"):
    p, q = 1, 2
    del p
try:
    with clew.watch("w"):
        w = 1
        w = 1 / 0
except ZeroDivisionError:
    traceback.print_exc(file=sys.stdout)
with clew.watch("last"):
    last = 1
    raise RuntimeError("the end")
"""


def test_blocks_at_module_level(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    assert lines[0] == "2 [0, 1, 2] [4, 4] 8 None ['clew']"
    assert [line for line in lines[1:] if "File" in line] == [f'  File "{tmp_path}/script.py", line 25, in <module>']
    assert done.stderr.count("File") == 1
    assert 'script.py", line 30, in <module>' in done.stderr
    run = clew.open("latest")
    assert run.calls()[0].data == {
        "x": [-1, 0, 1, 2], "items": [[], [0], [0, 1], [0, 1, 2]],
    }  # fmt: skip
    assert [(c.name, c.line) for c in run.calls()[0].changes][:3] == [("x", 3), ("items", 4), ("x", 6)]
    assert run["z"].values == [5]
    assert run["q"].values == [2]
    assert run["p"].values == [1, clew.DELETED]
    assert run["w"].values == [1]
    assert run["last"].values == [1]
    assert run.status == "failed"


def test_a_block_at_module_level_is_rewritten_not_traced(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import clew, sys\nwith clew.watch('x'):\n    x = 1\n    tracer = sys.gettrace()\n    print(tracer)\n"
    )
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "None\n"
    assert clew.open("latest")["x"].values == [1]


def test_under_a_debugger_the_block_is_left_alone_and_watched_by_events(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import clew, sys\ndef tracer(frame, event, arg): return tracer\nsys.settrace(tracer)\n"
        "with clew.watch('x'):\n    x = 1\n    x = 2\nprint(sys.gettrace() is not None)\n"
    )
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n", done.stderr
    assert clew.open("latest")["x"].values == [1, 2]


def test_blocks_and_decorators_in_notebook_cells() -> None:
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    with clew.run() as run:
        for cell in (
            "import clew",
            "total = 10\nwith clew.watch('total'):\n    for i in range(3):\n        total += i",
            "@clew.watch('v')\ndef cell_function(n):\n    v = n\n    v = v + 1\n    return v",
            "result = cell_function(4)",
        ):
            assert shell.run_cell(cell).success
    assert shell.user_ns["total"] == 13
    assert shell.user_ns["result"] == 5
    assert run["total"].values == [10, 11, 13]
    assert run["v"].values == [4, 5]
    assert [note.kind for note in run.ledger if note.kind != "never-called"] == []  # those are of other tests

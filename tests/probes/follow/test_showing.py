"""What `clew.follow` prints while the program runs."""

from __future__ import annotations

import io
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clew
from probes.follow.tracing import followed, load, names

LOOP = """
def f(i):
    return i

def main(video):
    video = video.astype("float32")
    for i in range(5):
        f(i)
    return video
"""


def printed(folder: Path, source: str, *names: str, args: tuple[Any, ...] = (), **options: Any) -> list[str]:
    out = io.StringIO()
    followed(folder, source, *names, args=args, show=True, file=out, **options)
    return [line.split("  (")[0].rstrip() if line.startswith("main") else line for line in out.getvalue().splitlines()]


def without_times(lines: list[str]) -> list[str]:
    return [line.rsplit("  ", 1)[0] if line.rstrip().endswith(("s", "ns")) else line for line in lines]


def test_the_tree_is_printed_as_it_grows_and_loops_are_folded(tmp_path: Path) -> None:
    lines = printed(tmp_path, LOOP, "video", args=(np.zeros((2, 2), "uint8"),))
    assert lines[0].startswith("main  followed_")
    assert lines[1] == "├─ video: uint8 (2, 2)"
    assert lines[2] == "├─ video@6  uint8 → float32"
    assert lines[3].startswith("├─ f  followed_")
    assert lines[4] == "│  ├─ i: 0"
    assert "4 more like it" in lines[6]
    assert lines[7].startswith("└─ → float32 (2, 2)")


def test_a_message_is_printed_in_its_place(tmp_path: Path) -> None:
    lines = printed(tmp_path, "import clew\n\ndef main():\n    clew.log('here', 3)\n")
    assert lines[1] == "├─ “here 3”"


def test_an_exception_is_printed_where_it_left(tmp_path: Path) -> None:
    source = """
def f():
    raise ValueError("no")

def main():
    try:
        f()
    except ValueError:
        pass
"""
    lines = printed(tmp_path, source)
    assert any(line.startswith("│  └─ raised ValueError: no") for line in lines)


def test_it_goes_to_stderr_by_default(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = load(tmp_path, "def main():\n    print('mine')\n    return 1\n")
    clew.follow(module.main)
    with clew.run(path=tmp_path / "run"):
        module.main()
    out = capsys.readouterr()
    assert out.out == "mine\n"
    assert "main" in out.err
    assert "→ 1" in out.err


def test_a_file_takes_it_instead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEW_QUIET", "1")
    module = load(tmp_path, "def main():\n    return 1\n")
    clew.follow(file=tmp_path / "tree.txt")(module.main)
    with clew.run(path=tmp_path / "run"):
        module.main()
    assert "→ 1" in (tmp_path / "tree.txt").read_text()
    assert capsys.readouterr().err == ""


def test_what_is_out_of_scope_or_too_deep_is_not_printed(tmp_path: Path) -> None:
    source = """
def h():
    return 1

def g():
    return h()

def f():
    return g()

def main():
    return f()
"""
    text = "\n".join(printed(tmp_path, source, skip="f", depth=1))
    assert "f  " not in text
    assert "g  " in text
    assert "h  " not in text


def test_a_closed_stderr_does_not_stop_the_recording(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import clew\n\n@clew.follow\ndef main():\n    return 1\n\nmain()\nmain()\n")
    env = os.environ | {"CLEW_DIR": str(tmp_path / "runs"), "CLEW_STRICT": "0"}
    done = subprocess.run(["sh", "-c", f"{sys.executable} {script} 2>&-"], env=env, check=False)
    assert done.returncode == 0
    (run,) = clew.runs(tmp_path / "runs")
    assert names(run) == ["main", "main"]


def test_a_logger_takes_the_lines_and_a_log_handler_on_it_does_not_put_them_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logger = logging.getLogger("of the tree")
    logger.addHandler(clew.LogHandler())
    try:
        with caplog.at_level(logging.INFO, logger="of the tree"):
            run = followed(tmp_path, "def main():\n    return 1\n", show=True, file=logger)
    finally:
        logger.handlers.clear()
    assert any("→ 1" in record.message for record in caplog.records)
    assert names(run) == ["main"]


def test_generators_that_take_turns_show_what_happens_in_each_of_them(tmp_path: Path) -> None:
    source = """
def numbers(name):
    x = name
    yield x
    x = name * 2
    yield x

def main():
    a, b = numbers("a"), numbers("b")
    first = next(a)
    second = next(b)
    third = next(a)
    a.close()
    return first + second + third
"""
    lines = printed(tmp_path, source, "x", "first", "second", "third")
    assert [re.sub(r"  followed_\w+\.py:\d+|  [0-9.]+ .?s\b", "", line) for line in lines] == [
        "main",
        "├─ numbers",
        "│  ├─ name: 'a'",
        "│  ├─ x@3  'a'",
        "├─ first@10  'a'",
        "├─ second@11  'b'",
        "│  ├─ x@5  'a' → 'aa'  [numbers #1]",
        "├─ third@12  'aa'",
        "│  └─ → None  [numbers #1]",
        "└─ → 'abaa'",
        "├─ numbers  [numbers #2]",
        "│  ├─ name: 'b'",
        "│  ├─ x@3  'b'",
        "│  └─ → None",
    ]


def test_tasks_that_take_turns_are_told_apart(tmp_path: Path) -> None:
    source = """
import asyncio

async def work(name, other):
    x = name
    await asyncio.sleep(0)
    x = name * 2
    await asyncio.sleep(0)
    return x

async def both():
    return await asyncio.gather(work("a", 1), work("b", 2.5))

def main():
    return asyncio.run(both())
"""
    lines = [re.sub(r"  [0-9.]+ .?s\b", "", line) for line in printed(tmp_path, source, "x")]
    assert [line for line in lines if "x@" in line or "→ '" in line] == [
        "│  │  ├─ x@5  'a'",
        "│  │  ├─ x@7  'a' → 'aa'",
        "│  │  └─ → 'aa'",
        "│  │  ├─ x@5  'b'",
        "│  │  ├─ x@7  'b' → 'bb'",
        "│  │  └─ → 'bb'",
    ]

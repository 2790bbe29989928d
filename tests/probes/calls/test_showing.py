"""What `clew.follow` prints while the program runs."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clew
from probes.calls.tracing import followed, load, names

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

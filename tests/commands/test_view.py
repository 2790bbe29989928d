"""`clew view`."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import HTTPCookieProcessor, OpenerDirector, build_opener

import pytest

from clew.commands.main import main
from graph.bundling import python, write
from reading.writing import simple_run

SOURCE = str(Path(__file__).parents[2] / "src")


@contextmanager
def viewing(name: str, runs: Path, cwd: Path) -> Iterator[tuple[str, str, OpenerDirector]]:
    """`clew view` in a process of its own: where it is, the route it begins with, and a browser that was let in."""
    environment = {**os.environ, "CLEW_DIR": str(runs), "PYTHONPATH": SOURCE}
    command = [sys.executable, "-m", "clew", "view", name, "--no-browser", "--port", "0"]
    with subprocess.Popen(command, env=environment, cwd=cwd, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            told = ""
            while "Ctrl-C" not in told:
                line = process.stdout.readline()
                assert line, "it ended"
                told += line
            address = re.search(r"(http://127\.0\.0\.1:\d+)/open/[\w-]+", told)
            assert address is not None
            browser = build_opener(HTTPCookieProcessor())
            with browser.open(address[0], timeout=20) as page:
                assert "open" not in page.url
                yield address[1], page.url.partition("#")[2], browser
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
        finally:
            process.kill()


def test_it_prints_the_address_serves_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    run = simple_run(tmp_path, {"loss": [1.0, 2.0]})
    with viewing(str(run.path), tmp_path, tmp_path) as (address, route, browser):
        with browser.open(f"{address}/api{route}", timeout=20) as answer:
            assert json.load(answer)["names"][0]["name"] == "loss"


def test_a_saved_graph_is_drawn_and_nothing_of_it_runs(tmp_path: Path) -> None:
    write(tmp_path, {"ops.py": "import clew\nopen('ran', 'w').close()\n@clew.op\ndef double(x): return 2 * x\n"})
    program = "import clew\nfrom ops import double\nclew.record(lambda x: double(x) + 1, 2).save('bundle.zip')\n"
    python(program, tmp_path)
    (tmp_path / "ran").unlink()
    with viewing("bundle.zip", tmp_path / "runs", tmp_path) as (address, route, browser):
        assert route.endswith("/graph")
        with browser.open(f"{address}/api{route}", timeout=20) as answer:
            drawn = json.load(answer)
        assert [node["label"] for node in drawn["nodes"]] == ["x", "double", "· + 1", "output"]
    assert not (tmp_path / "ran").exists()


def test_a_run_that_is_not_there_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", "nothing", "--no-browser"]) == 2
    assert "neither a run folder nor the name of a run" in capsys.readouterr().err


def test_another_host_is_not_offered(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["view", "--host", "0.0.0.0"])
    assert end.value.code == 2


def test_a_port_in_use_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:

    monkeypatch.setenv("CLEW_DIR", str(tmp_path))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert main(["view", "--no-browser", "--port", str(taken.getsockname()[1])]) == 2
    assert "in use" in capsys.readouterr().err

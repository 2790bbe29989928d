"""`clew report`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clew.commands.main import main
from clew.page import server
from reading.writing import simple_run

BUILT = "<html><head><title>clew</title><script type=module>1</script></head></html>"


@pytest.fixture(autouse=True)
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page.html").write_text(BUILT)
    monkeypatch.setattr(server, "PAGE", tmp_path / "page.html")
    monkeypatch.chdir(tmp_path)


def test_it_says_what_was_written_and_what_was_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = simple_run(tmp_path, {f"x{i}": [float(i)] * 50 for i in range(20)})
    assert main(["report", str(run.path), "-o", "out.html"]) == 0
    assert capsys.readouterr().out.startswith(f"{tmp_path / 'out.html'} (")
    assert main(["report", str(run.path), "--limit", "20KB", "--without", "points,calls"]) == 0
    assert "left out: series: " in capsys.readouterr().out
    assert (tmp_path / "report.html").stat().st_size <= 20_000


def test_it_tells_machines_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = simple_run(tmp_path, {"x": [1.0]})
    assert main(["report", str(run.path), "--json", "--names", "x, x*"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["path"], told["left_out"]) == (str(tmp_path / "report.html"), [])


def test_a_name_that_is_not_there_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = simple_run(tmp_path, {"loss": [1.0]})
    assert main(["report", str(run.path), "--names", "los"]) == 2
    assert "did you mean `loss`" in capsys.readouterr().err

"""A run can name any file of this machine as the source of a function. No reader opens it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.commands.main import main
from clew.page.report import make_report
from clew.page.server import ANSWERS
from clew.reading.run import Run
from clew.recorder.fingerprints import file_hash
from page.asking import Page, training
from reading.writing import Written

SECRET = "PASSWORD = 'correct horse battery staple'\n"
CALL = "host-r0-100-0:1"

_watched: set[str] = set()
_opened: list[str] = []


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if event == "open" and _watched and str(args[0]) in _watched:
        _opened.append(str(args[0]))


sys.addaudithook(_hook)


@pytest.fixture(params=["secrets.py", "id_rsa", "link.py"])
def secret(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A file of the reader's own, which a run from elsewhere names; nobody may open it."""
    path = tmp_path / "home" / request.param
    path.parent.mkdir()
    path.write_text(SECRET * 30)
    if request.param == "link.py":
        path.rename(path.with_name("target.py"))
        path.symlink_to(path.with_name("target.py"))
    _watched.update([str(path), str(path.resolve())])
    _opened.clear()
    yield path
    _watched.clear()
    assert _opened == []


def forged(base: Path, secret: Path) -> Run:
    """Its author does not know the content; even a right hash opens nothing."""
    _watched.clear()
    known = file_hash(str(secret))
    _watched.update([str(secret), str(secret.resolve())])
    written = Written(base, tags={"file": str(secret)})
    shard = written.shard()
    for name in ("train", "<module>", "f.<locals>.g", "<log>"):
        call = shard.call(name, args={"x": 1}, file=str(secret), line=1, file_hash=known)
        shard.change(call, "loss", 0.5, line=2)
        shard.end(call, error="ValueError: no")
    shard.close()
    return written.open()


def test_a_report_takes_no_file_along(base_of_runs: Path, secret: Path, tmp_path: Path) -> None:
    made = make_report(forged(base_of_runs, secret), tmp_path / "report.html")
    assert b"correct horse" not in made.path.read_bytes()


@pytest.mark.parametrize("what", sorted(ANSWERS))
def test_no_page_opens_a_file_that_a_run_names(base_of_runs: Path, secret: Path, what: str) -> None:
    run = forged(base_of_runs, secret)
    for number in range(1, 5):
        params = {"call": f"host-r0-100-0:{number}", "name": "loss", "index": 0}
        answer = Page(base_of_runs).client.get(f"{Page(base_of_runs).run(run.path)}/{what}".rstrip("/"), params=params)
        assert "correct horse" not in answer.text


@pytest.mark.parametrize("command", ["show", "export", "diff"])
def test_no_command_opens_a_file_that_a_run_names(
    base_of_runs: Path, secret: Path, tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(forged(base_of_runs, secret).path)
    for line in {
        "show": [["show", path], ["show", path, "--tree"]],
        "export": [
            ["export", path, "--to", kind, "-o", str(tmp_path / f"out.{kind}")]
            for kind in ("json", "csv", "parquet", "perfetto")
        ],
        "diff": [["diff", path, path]],
    }[command]:
        main(line)
    assert "correct horse" not in capsys.readouterr().out


def test_no_notebook_view_opens_a_file_that_a_run_names(base_of_runs: Path, secret: Path) -> None:
    run = forged(base_of_runs, secret)
    shown = [run, run.tree(), *(run[name] for name in run.names), *run.calls()]
    assert not any("correct horse" in one._repr_html_() for one in shown if hasattr(one, "_repr_html_"))


def test_source_in_a_run_is_only_text(base_of_runs: Path, tmp_path: Path) -> None:
    """It is shown, never parsed or compiled, whatever it looks like."""
    for number, text in enumerate(
        ["</script><script>alert(1)</script>", "(" * 100_000, "\0\x1b[2J", "def f(:\n" * 3_000]
    ):
        written = training(base_of_runs, f"12000{number}-odd", source=text)
        page = Page(base_of_runs)
        assert page.of(written.folder, "source", call=CALL)["missing"] is None
        assert b"<script>alert(1)" not in make_report(written.folder, tmp_path / "report.html").path.read_bytes()


def test_the_source_of_a_run_is_what_ran_though_its_file_has_changed(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "was_changed.py"
    path.write_text("import clew\n\n@clew.watch('y')\ndef f(x):\n    y = x + 1  # as it ran\n    return y\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import was_changed  # type: ignore[import-not-found]

    path.write_text("# changed before it was called\n" * 20)
    with clew.run() as run:
        was_changed.f(1)
    path.write_text("# changed\n" * 20)
    report = make_report(run, tmp_path / "report.html").path.read_text()
    assert "# as it ran" in report
    assert "# changed" not in report


@pytest.fixture
def base_of_runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"

"""The `clew` command itself: verbs, errors, exit statuses, pipes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.commands import main as command
from clew.commands.main import VERBS, main
from reading.writing import simple_run

SOURCE = str(Path(__file__).parents[2] / "src")


def clew(*words: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    env = {**os.environ, "PYTHONPATH": SOURCE}
    code = "import sys; from clew.commands.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=False)


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert end.value.code == 0
    shown = capsys.readouterr().out
    assert all(verb in shown for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_its_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([verb, "--help"])
    assert end.value.code == 0
    assert f"clew {verb}" in capsys.readouterr().out


def test_no_verb_shows_the_help_and_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "COMMAND" in capsys.readouterr().out


def test_an_unknown_verb_is_a_mistake_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shwo"]) == 2
    assert "did you mean `show`?" in capsys.readouterr().err


def test_an_unknown_option_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["runs", "--jsno"])
    assert end.value.code == 2
    shown = capsys.readouterr().err
    assert shown.startswith("usage: clew runs ")
    assert shown.endswith("clew: unrecognized arguments: --jsno\n")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("clew ")


def test_a_mistake_of_the_users_is_a_sentence_on_stderr_and_status_2(tmp_path: Path) -> None:
    done = clew("show", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("clew: ")
    assert "Traceback" not in done.stderr


def test_a_failure_of_the_system_is_a_sentence_and_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Verb:
        EXAMPLES = ["clew x"]

        @staticmethod
        def add(subparsers: object) -> None:
            subparsers.add_parser("runs")  # type: ignore[attr-defined]

        @staticmethod
        def main(args: object) -> int:
            raise OSError(28, "No space left on device", "/full")

    monkeypatch.setattr(command, "load", lambda verb: Verb)
    assert main(["runs"]) == 1
    assert capsys.readouterr().err == "clew: No space left on device: /full\n"


def test_help_loads_no_library() -> None:
    code = (
        "import sys; from clew.commands.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'pyarrow', 'rich', 'torch', 'pandas', 'clew.store', 'clew.reading'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    env = {**os.environ, "PYTHONPATH": SOURCE}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(os.name != "posix", reason="pipes of a POSIX shell")
def test_a_reader_that_goes_away_is_met_with_silence(runs_folder: Path) -> None:
    simple_run(runs_folder, {"x": list(range(20_000))})
    code = "import sys; from clew.commands.main import main; sys.exit(main(['show', 'latest', 'x', '--all']))"
    env = {**os.environ, "PYTHONPATH": SOURCE}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_a_small_encoding_gets_question_marks_and_no_error(runs_folder: Path) -> None:
    simple_run(runs_folder, {"loss": [1.0, 0.5, float("nan")]})
    env = {**os.environ, "PYTHONPATH": SOURCE, "PYTHONIOENCODING": "ascii"}
    code = "import sys; from clew.commands.main import main; sys.exit(main(['show', 'latest']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=env, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"loss" in done.stdout


def test_with_stdout_closed_it_does_what_was_asked(runs_folder: Path, tmp_path: Path) -> None:
    simple_run(runs_folder, {"loss": [1.0]})
    code = "import sys; from clew.commands.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "export", "latest", "--to", "json", "-o", str(tmp_path / "run.json")]
    env = {**os.environ, "PYTHONPATH": SOURCE}
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *command], env=env, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "run.json").exists()


@pytest.fixture
def deleted_folder(tmp_path: Path) -> Iterator[Path]:
    """The current folder is one that is not there any more."""
    before, folder = os.getcwd(), tmp_path / "deleted"
    folder.mkdir()
    os.chdir(folder)
    folder.rmdir()
    yield tmp_path
    os.chdir(before)


@pytest.mark.parametrize(
    "words", [["runs"], ["show", "latest"], ["view"], ["rm", "latest"], ["prune", "--older-than", "1d"]]
)
def test_in_a_deleted_folder_a_command_says_so(
    words: list[str], deleted_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CLEW_DIR")
    assert main(words) == 1
    assert capsys.readouterr().err.startswith("clew: the current folder was deleted.")


def test_a_program_runs_in_a_deleted_folder_as_under_python(deleted_folder: Path) -> None:
    (deleted_folder / "program.py").write_text("import sys\nprint(sys.argv[0], __file__)\n")
    for words in ([str(deleted_folder / "program.py")], ["-m", "this"], ["program.py"]):
        plain = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=60)
        done = clew("run", *words)
        assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout), done.stderr
        assert "Traceback" not in done.stderr

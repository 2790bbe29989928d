"""`clew run`: the program sees what it would see under plain python, and is watched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import clew
from clew.probes.watch.unchanged_program import parse_request, split

SCRIPT = """\
import sys
import helper

def train(n):
    loss = 1.0
    for i in range(n):
        loss = loss * 0.5
    return loss

class Trainer:
    def step(self, k):
        acc = k * 2
        return acc

if __name__ == "__main__":
    print(sys.argv, __name__, __file__, sys.path[0], __spec__, __package__, __builtins__ is not None)
    total = 0
    for k in range(2):
        total += train(2) + Trainer().step(k) + helper.work(k)
    how = sys.argv[1] if len(sys.argv) > 1 else ""
    if how == "fail":
        raise ValueError("no good")
    if how == "exit":
        sys.exit(7)
    if how == "message":
        sys.exit("sorry")
    if how == "interrupt":
        raise KeyboardInterrupt
"""
HELPER = """\
def work(k):
    v = [k]
    v.append(k)
    return sum(v)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "__main__.py").write_text(
        "import sys\nloss = 5\nprint(sys.argv[1:], __name__, __package__)\n"
    )
    (tmp_path / "package" / "job.py").write_text("def go():\n    loss = 3\ngo()\n")
    return tmp_path


def python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=60)


def clew_run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    start = "import sys; from clew.commands.main import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", start, "run", *words], cwd=folder, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("how", ["", "fail", "exit", "message", "interrupt"])
def test_output_status_and_traceback_are_those_of_plain_python(program: Path, how: str) -> None:
    plain = python(program, "script.py", how, "--lr", "3")
    watched = clew_run(program, "--watch", "*: loss, total, v, acc", "script.py", how, "--lr", "3")
    assert watched.stdout == plain.stdout
    assert watched.stderr == plain.stderr
    assert watched.returncode == plain.returncode


def test_functions_methods_and_imported_modules_are_watched_by_name(program: Path) -> None:
    clew_run(
        program, "--watch", "train: loss", "--watch", "Trainer.step: acc", "--watch", "helper.work: v", "script.py"
    )
    run = clew.open("latest")
    assert run["loss"].values == [1.0, 0.5, 0.25] * 2
    assert run["acc"].values == [0, 2]
    assert run["v"].values == [[0], [0, 0], [1], [1, 1]]
    assert run.status == "finished"


def test_a_star_finds_any_function_that_has_the_name_and_the_scripts_own_level(program: Path) -> None:
    clew_run(program, "--watch", "*: loss, total", "script.py")
    run = clew.open("latest")
    assert {call.function for call in run.calls()} == {"train", "<module>"}
    assert len(run["total"].values) == 3


def test_watch_is_understood_after_the_script_until_a_double_dash(program: Path) -> None:
    done = clew_run(program, "script.py", "--watch", "train: loss", "--", "--watch", "mine: x")
    assert "['script.py', '--', '--watch', 'mine: x']" in done.stdout
    assert clew.open("latest").names == ["loss"]


@pytest.mark.parametrize("before", [["--watch", "train: loss"], ["--items", "1000"], ["--"]])
def test_what_follows_the_script_is_the_scripts_if_something_was_asked_for_before_it(
    program: Path, before: list[str]
) -> None:
    words = ["--watch", "mine: x", "--", "--follow", "a:b", "-m", "-c"]
    done = clew_run(program, *before, "script.py", *words)
    assert str(["script.py", *words]) in done.stdout
    assert clew.open("latest").names == (["loss"] if "train: loss" in before else [])


@pytest.mark.parametrize(("module", "values"), [("package", [5]), ("package.job", [3])])
def test_a_module_runs_as_with_dash_m(program: Path, module: str, values: list[int]) -> None:
    plain = python(program, "-m", module, "a", "-b")
    watched = clew_run(program, "--watch", "loss", "-m", module, "a", "-b")
    assert (watched.stdout, watched.stderr, watched.returncode) == (plain.stdout, plain.stderr, plain.returncode)
    assert clew.open("latest")["loss"].values == values


def test_a_pattern_that_matches_nothing_is_said_with_the_nearest(program: Path) -> None:
    done = clew_run(program, "--watch", "trian: loss", "script.py")
    assert "did you mean `train`" in done.stderr
    assert clew.open("latest").ledger[0].kind == "never-seen"


def test_name_tags_and_policies_of_the_run(program: Path) -> None:
    clew_run(
        program, "--name", "first try", "--tag", "lr=0.1", "--keep", "summary", "--watch", "train: loss", "script.py"
    )
    run = clew.open("latest")
    assert (run.name, run.meta["tags"]) == ("first try", {"lr": "0.1"})
    assert run.meta["argv"] == ["script.py"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no script"),
        (["--watch", "train: x +", "script.py"], "x +"),
        (["--tag", "lr", "script.py"], "lr"),
        (["--disk", "lots", "script.py"], "lots"),
        (["-x", "script.py"], "no option -x"),
        (["--names", "x", "--watch", "train: loss", "script.py"], "--names has no effect without --follow"),
        (["--every", "2", "--follow", "train", "script.py"], "--every has no effect without --watch"),
        (["--id", "key", "--watch", "train: loss", "script.py"], "--id has no effect without --items"),
    ],
)
def test_a_mistake_is_a_sentence_and_status_2(program: Path, words: list[str], message: str) -> None:
    done = clew_run(program, *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_program_that_records_nothing_and_was_not_asked_to_is_told_how(program: Path) -> None:
    done = clew_run(program, "script.py")
    assert done.stdout == python(program, "script.py").stdout
    assert "clew run was not told what to record" in done.stderr


def test_a_program_that_records_by_itself_is_told_nothing(program: Path) -> None:
    (program / "own.py").write_text("import clew\n@clew.watch('x')\ndef f():\n    x = 1\nf()\n")
    assert clew_run(program, "own.py").stderr == ""


def test_a_switch_that_is_neither_on_nor_off_is_named(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW", "banana")
    done = clew_run(program, "--watch", "train: loss", "script.py")
    assert done.stderr.startswith("clew: CLEW=banana is neither on nor off")
    assert clew.open("latest").names == ["loss"]


def test_the_folder_of_runs_may_be_under_the_home_folder(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(program / "home"))
    monkeypatch.setenv("CLEW_DIR", "~/runs")
    clew_run(program, "--watch", "train: loss", "script.py")
    assert len(list((program / "home" / "runs").glob("*/*"))) == 1


def test_a_syntax_error_in_the_script_looks_as_in_plain_python(program: Path) -> None:
    (program / "bad.py").write_text("x = 1\ny = = 2\n")
    plain, watched = python(program, "bad.py"), clew_run(program, "--watch", "x", "bad.py")
    assert (watched.stderr, watched.returncode) == (plain.stderr, plain.returncode)


def test_ctrl_c_ends_the_program_as_in_plain_python_and_the_run_is_whole(program: Path) -> None:
    (program / "long.py").write_text(
        "import time\ndef f():\n    x = 1\n    print('go', flush=True)\n    time.sleep(60)\nf()\n"
    )
    start = "import sys; from clew.commands.main import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", start, "run", "--watch", "f: x", "long.py"],
        cwd=program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "go\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")
    run = clew.open("latest")
    assert (run.status, run["x"].values) == ("interrupted", [1])


def test_with_clew_0_the_program_just_runs(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW", "0")
    assert clew_run(program, "--watch", "train: loss", "script.py").stdout == python(program, "script.py").stdout
    assert not Path(os.environ["CLEW_DIR"]).exists()


def test_expressions_are_split_at_commas_outside_brackets_and_quotes() -> None:
    assert list(split('a, b[1, 2], f(x, y), d["k,l"], *')) == ["a", "b[1, 2]", "f(x, y)", 'd["k,l"]', "*"]


@pytest.mark.parametrize(
    ("text", "pattern", "names"),
    [
        ("train: loss", "train", ["loss"]),
        ("pkg.mod:Trainer.*: loss, x[1:2]", "pkg.mod:Trainer.*", ["loss", "x[1:2]"]),
        ("*: d['a:b']", "*", ["d['a:b']"]),
        ("x[1:2]", "*", ["x[1:2]"]),
        ("<module>: total", "<module>", ["total"]),
    ],
)
def test_a_request_names_functions_and_expressions(text: str, pattern: str, names: list[str]) -> None:
    request = parse_request(text)
    assert (request.pattern, [e.text for e in request.options.expressions]) == (pattern, names)

"""`clew show`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from clew.commands.main import main
from clew.records import Summary, Value
from reading.writing import Written, simple_run

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def run(runs_folder: Path) -> None:
    written = Written(runs_folder, tags={"lr": 0.1})
    shard = written.shard()
    call = shard.call("train", args={"n": 1}, at=0)
    for value in range(100):
        shard.change(call, "loss", 1 / (value + 1), line=12)
    shard.change(call, "w", np.zeros((3, 4)))
    shard.change(call, "name", "x" * 1000)
    shard.end(call, at=200)
    shard.note("never-seen", "los", "`los` was never there in train()")
    shard.close()


@pytest.mark.usefixtures("run")
def test_a_run_shows_head_names_calls_and_ledger(capsys: Captured) -> None:
    assert main(["show", "latest"]) == 0
    shown = capsys.readouterr().out
    for part in ("finished", "train.py --lr 0.1", "loss", "100", "1.0 → 0.01", "train:12", "float64[3, 4]", "mod.py:1"):
        assert part in shown
    assert "never-seen  los: `los` was never there in train()" in shown


@pytest.mark.usefixtures("run")
def test_in_a_pipe_it_is_plain(capsys: Captured) -> None:
    main(["show", "latest"])
    main(["show", "latest", "loss"])
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.usefixtures("run")
def test_names_show_their_changes_bounded(capsys: Captured) -> None:
    assert main(["show", "latest", "loss"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "loss: 100 changes"
    assert len(lines) == 33
    assert any("... 70 more (use --all)" in line for line in lines)


@pytest.mark.usefixtures("run")
def test_all_shows_every_change(capsys: Captured) -> None:
    main(["show", "latest", "loss", "--all"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 102
    assert lines[-1].split() == ["12", "99", "0.100000", "0.01"]


@pytest.mark.usefixtures("run")
def test_a_pattern_means_all_names_that_fit(capsys: Captured) -> None:
    main(["show", "latest", "?oss", "n*"])
    shown = capsys.readouterr().out
    assert "loss: 100 changes" in shown
    assert "name: 1 change" in shown


def test_a_name_with_pattern_characters_is_taken_as_it_is(runs_folder: Path, capsys: Captured) -> None:
    simple_run(runs_folder, {"a[0]": [1], "a0": [2], "x*y": [3]})
    main(["show", "latest", "a[0]", "x*y"])
    shown = capsys.readouterr().out
    assert "a[0]: 1 change" in shown
    assert "a0" not in shown


@pytest.mark.usefixtures("run")
def test_an_unknown_name_is_a_mistake_with_the_nearest(capsys: Captured) -> None:
    assert main(["show", "latest", "los"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "did you mean `loss`?" in captured.err


def test_an_unknown_run_is_a_mistake_with_the_nearest(runs_folder: Path, capsys: Captured) -> None:
    Written(runs_folder, "120000-baseline")
    assert main(["show", "basline"]) == 2
    assert "did you mean `baseline`?" in capsys.readouterr().err


@pytest.mark.usefixtures("run")
def test_json_of_a_run(capsys: Captured) -> None:
    assert main(["show", "latest", "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert (out["name"], out["status"]) == ("test", "finished")
    loss = out["names"][0]
    assert (loss["name"], loss["count"], loss["first"], loss["min"]) == ("loss", 100, 1.0, 0.01)
    assert loss["places"] == [{"function": "train", "file": "mod.py", "line": 12}]
    assert out["functions"][0]["calls"] == 1
    assert out["ledger"][0]["subject"] == "los"
    assert out["problems"] == []


@pytest.mark.usefixtures("run")
def test_json_of_names_has_every_change(capsys: Captured) -> None:
    main(["show", "latest", "loss", "--json"])
    out = json.loads(capsys.readouterr().out)
    assert len(out["loss"]) == 100
    assert out["loss"][1] == {"line": 12, "step": 1, "time": 0.002, "time_error": 0.0, "value": 0.5}


@pytest.mark.usefixtures("run")
def test_the_tree(capsys: Captured) -> None:
    assert main(["show", "latest", "--tree"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["train  mod.py:1  [main]  200 ms", "├─ n: 1", "├─ loss@12  1.0"]
    assert lines[3] == "├─ … 98 more like it"
    assert len(lines) == 7


@pytest.mark.usefixtures("run")
def test_full_shows_the_whole_tree(capsys: Captured) -> None:
    assert main(["show", "latest", "--full"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("loss@12" in line for line in lines) == 100


@pytest.mark.usefixtures("run")
def test_ascii_shows_the_tree_in_ascii(capsys: Captured) -> None:
    assert main(["show", "latest", "--tree", "--ascii"]) == 0
    shown = capsys.readouterr().out
    assert shown.isascii()
    assert "|- n: 1\n" in shown


@pytest.fixture
def calls(runs_folder: Path) -> None:
    written = Written(runs_folder)
    shard = written.shard()
    top = shard.call("train", at=0)
    for name, took, error in (("load", 5, None), ("fit", 50, None), ("save", 1, "OSError: full")):
        call = shard.call(name, parent=top)
        shard.change(call, f"in_{name}", 1, at=10)
        shard.end(call, at=10 + took, error=error)
    shard.end(top, at=100)
    shard.close()


@pytest.mark.usefixtures("calls")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--function", "l*d"], ["load"]),
        (["--name", "in_fit"], ["fit"]),
        (["--errors"], ["save"]),
        (["--slow", "40ms"], ["fit"]),
        (["--tree"], ["load", "fit", "save"]),
    ],
)
def test_a_filter_implies_the_tree(words: list[str], expected: list[str], capsys: Captured) -> None:
    assert main(["show", "latest", *words]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("train  mod.py:1")
    assert [name for name in ("load", "fit", "save") if f"─ {name}  " in shown] == expected


@pytest.mark.usefixtures("calls")
def test_an_unknown_function_is_a_mistake_with_the_nearest(capsys: Captured) -> None:
    assert main(["show", "latest", "--function", "lod"]) == 2
    assert "did you mean `load`?" in capsys.readouterr().err


@pytest.mark.usefixtures("calls")
def test_a_time_that_is_none_is_a_mistake(capsys: Captured) -> None:
    assert main(["show", "latest", "--slow", "soon"]) == 2
    assert "'soon' is not a length of time" in capsys.readouterr().err


def test_many_names_are_cut_and_all_shows_them(runs_folder: Path, capsys: Captured) -> None:
    simple_run(runs_folder, {f"n{i}": [i] for i in range(60)})
    main(["show", "latest"])
    assert "... 10 more names (use --all)" in capsys.readouterr().out
    main(["show", "latest", "--all"])
    assert "n59" in capsys.readouterr().out


def test_a_run_with_nothing_in_it_says_so(runs_folder: Path, capsys: Captured) -> None:
    Written(runs_folder)
    assert main(["show", "latest"]) == 0
    assert "nothing was recorded" in capsys.readouterr().out


def test_damage_is_said(runs_folder: Path, capsys: Captured) -> None:
    run = simple_run(runs_folder, {"x": [1]})
    file = next(run.path.glob("shards/*/records.arrow"))
    file.write_bytes(file.read_bytes()[:-40])
    assert main(["show", "latest"]) == 0
    assert "problem: " in capsys.readouterr().out


def test_escape_sequences_that_were_recorded_do_not_reach_the_terminal(runs_folder: Path, capsys: Captured) -> None:
    evil = "\x1b]0;owned\x07[red]"
    written = Written(runs_folder, argv=[evil], tags={evil: evil})
    shard = written.shard()
    call = shard.call(evil, file=evil, args={evil: evil})
    shard.change(call, evil, evil)
    shard.end(call, error=evil)
    shard.note(evil, evil, evil)
    shard.close()
    for words in (["latest"], ["latest", evil], ["latest", "--tree"]):
        assert main(["show", *words]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "[red]" in shown


def test_tensors_are_shown_without_importing_torch(tmp_path: Path) -> None:
    written = Written(tmp_path, "120000-tensors")
    shard = written.shard()
    call = shard.call("train")
    for number in range(1, 4):
        body = {"$": "torch", "shape": [4], "device": "cpu", "requires_grad": False, "part": 0}
        half = np.full(4, number, np.float16)
        value = Value("torch.Tensor", json.dumps({**body, "dtype": "float16"}), [half.tobytes()])
        value.summary = Summary(shape=(4,), dtype="float16")
        shard.change(call, "w", value)
        brain = Value("torch.Tensor", json.dumps({**body, "dtype": "bfloat16"}), [bytes(8)])
        brain.summary = Summary(shape=(4,), dtype="bfloat16")
        shard.change(call, "b", brain)
    shard.close()
    program = f"import sys; from clew.commands.main import main; main(['show', {str(written.folder)!r}]); "
    program += "sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    w, b = (next(line for line in done.stdout.splitlines() if line.startswith(f"{name}\t")) for name in "wb")
    assert "float16[4]" in w
    assert "norm 2 → 6" in w
    assert "1 … 3" in w
    assert "<bfloat16[4]>" in b

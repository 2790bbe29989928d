"""`clew run --items` and `clew show --trace`: a pipeline looked at without a line changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import clew
from clew.commands.main import main

SCRIPT = """
import clew

@clew.stage("load", result="row")
def load(i):
    return {"name": f"row-{i}", "x": float(i)}

@clew.stage("use")
def use(row):
    return row["x"] * 2

for i in range(1000):
    use(load(i))
print("never")
"""


@pytest.fixture
def recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    assert main(["run", "--items", "2", "--id", "name", str(script)]) == 0
    from clew import recording

    recording.close_all()
    assert "never" not in capsys.readouterr().out
    return clew.open("latest").path


def test_a_script_is_let_through_as_many_items_as_asked_for(recorded: Path) -> None:
    run = clew.open(recorded)
    assert [item.id for item in run.trace.items] == ["row-0", "row-1"]
    assert run.status == "finished"


def test_show_says_that_there_is_a_trace_and_how_to_see_it(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["show", str(recorded)])
    assert "2 items through 2 stages (clew show" in capsys.readouterr().out


def test_show_trace_prints_what_the_trace_prints(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["show", str(recorded), "--trace"])
    assert capsys.readouterr().out.strip() == str(clew.open(recorded).trace).strip()


def test_one_stage_and_one_item_can_be_asked_for(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = clew.open(recorded).trace
    main(["show", str(recorded), "--stage", "use"])
    assert capsys.readouterr().out.strip() == str(trace.use).strip()
    main(["show", str(recorded), "--item", "row-1"])
    assert capsys.readouterr().out.strip() == str(trace.item("row-1")).strip()


def test_check_ends_with_zero_where_there_is_nothing_to_warn_of(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(recorded), "--check"]) == 0
    assert "No warnings" in capsys.readouterr().out


def test_a_machine_gets_the_passages(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["show", str(recorded), "--trace", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert [(one["stage"], one["ids"]) for one in told] == [
        (stage, [item]) for item in ("row-0", "row-1") for stage in ("load", "use")
    ]


def test_a_program_that_was_stopped_is_told_with_how_to_see_its_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    main(["run", "--items", "2", str(script)])
    said = capsys.readouterr().err
    assert "2 items passed 2 stages, and the program was stopped" in said and "clew show latest --trace" in said


def test_no_run_is_begun_for_a_number_of_items_that_cannot_be(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    assert main(["run", "--items", "0", str(script)]) == 2
    assert clew.runs() == []


def said_of(tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, items: int) -> str:
    script = tmp_path / "script.py"
    script.write_text(source)
    assert main(["run", "--items", str(items), str(script)]) == 0
    return capsys.readouterr().err


def test_a_program_without_stages_is_told_that_nothing_was_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--items saw nothing: the program passed no stage" in said_of(tmp_path, capsys, "print('hello')", 3)


def test_a_program_that_ran_to_its_end_is_told_how_many_items_there_were(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = said_of(tmp_path, capsys, SCRIPT.replace("range(1000)", "range(2)"), 3)
    assert "clew: 2 items passed 2 stages, and the program ran to its end; see `clew show latest --trace`" in said

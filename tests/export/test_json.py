"""Runs as JSON."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from clew.export import export
from clew.records import DELETED
from reading.writing import Written, simple_run


def strict(path: Path) -> Any:
    def refuse(text: str) -> Any:
        raise AssertionError(f"{text} is not JSON")

    return json.loads(path.read_text(), parse_constant=refuse)


def test_it_holds_the_run_its_changes_calls_and_ledger(tmp_path: Path) -> None:
    writer = Written(tmp_path / "runs")
    shard = writer.shard(rank=2)
    call = shard.call("train", at=0, args={"n": 1})
    shard.change(call, "x", [1, 2], line=7, at=10)
    shard.end(call, at=20, result="done")
    shard.note("dropped", "y", "why", 2)
    shard.close()
    out = strict(export(writer.open(), "json", tmp_path / "out.json"))
    assert out["run"]["status"] == "finished"
    assert out["names"] == {
        "x": [{"step": 0, "time": 0.01, "line": 7, "function": "train", "rank": 2, "value": [1, 2]}]
    }
    (one,) = out["calls"]
    assert (one["function"], one["args"], one["result"], one["parent"]) == ("train", {"n": 1}, "done", None)
    assert out["ledger"] == [{"kind": "dropped", "subject": "y", "text": "why", "count": 2}]


def test_it_is_strict_json_whatever_was_recorded(tmp_path: Path) -> None:
    values = [math.nan, math.inf, DELETED, "\udc80\x00</script>", {1: {2}}, b"\xff", 2**80]
    run = simple_run(tmp_path / "runs", {'d["ключ"]': values})
    ((name, changes),) = strict(export(run, "json", tmp_path / "out.json"))["names"].items()
    assert name == 'd["ключ"]'
    assert [change["value"] for change in changes] == [
        "NaN",
        "Infinity",
        {"deleted": True},
        "\udc80\x00</script>",
        [[1, [2]]],
        {"base64": "/w=="},
        2**80,
    ]


def test_only_the_requested_names_are_exported(tmp_path: Path) -> None:
    run = simple_run(tmp_path / "runs", {"x": [1], "y": [2]})
    out = strict(export(run, "json", tmp_path / "out.json", names=["y"]))
    assert list(out["names"]) == ["y"]
    assert "calls" not in out


def test_many_changes_are_written_in_blocks(tmp_path: Path, monkeypatch: Any) -> None:
    import clew.export.whole_files as files

    monkeypatch.setattr(files.read_blocks, "__defaults__", (100,))
    run = simple_run(tmp_path / "runs", {"x": list(range(1050)), "y": [1]})
    out = strict(export(run, "json", tmp_path / "out.json"))
    assert [change["value"] for change in out["names"]["x"]] == list(range(1050))
    assert [change["step"] for change in out["names"]["x"]] == list(range(1050))

"""`clew doctor`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from clew.commands import doctor
from clew.commands.main import main

Captured = pytest.CaptureFixture[str]


def findings(capsys: Captured) -> dict[str, dict[str, Any]]:
    main(["doctor", "--json"])
    return {finding["name"]: finding for finding in json.loads(capsys.readouterr().out)}


def test_it_tells_versions_engines_switches_folder_and_extras(capsys: Captured, runs_folder: Path) -> None:
    main(["doctor"])
    shown = capsys.readouterr().out
    for part in ("python", "numpy", "pyarrow", "rewriting", "CLEW_DIR", str(runs_folder), "torch"):
        assert part in shown


def test_a_folder_that_is_still_to_be_made_is_fine_and_is_not_made(capsys: Captured, runs_folder: Path) -> None:
    assert main(["doctor"]) == 0
    assert not runs_folder.exists()


def test_a_folder_under_a_file_is_wrong_and_has_a_remedy(capsys: Captured, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    os.environ["CLEW_DIR"] = str(tmp_path / "file" / "runs")
    assert main(["doctor"]) == 1
    capsys.readouterr()
    folder = findings(capsys)["folder"]
    assert folder["ok"] is False
    assert "CLEW_DIR" in folder["remedy"]


def test_a_missing_extra_is_told_with_how_to_install_it(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    found = findings(capsys)["h5py"]
    assert (found["ok"], found["remedy"]) == (None, "pip install 'clew[hdf5]'")


def test_a_missing_library_that_is_needed_is_wrong(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "pyarrow" else "1")
    assert main(["doctor"]) == 1
    assert "pip install pyarrow" in capsys.readouterr().out


def test_everything_switched_off_is_told(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW", "0")
    assert "everything is off" in findings(capsys)["CLEW"]["found"]

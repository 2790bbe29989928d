"""Which formats there are, and where files go."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import clew.export
from clew.errors import OptionError, UnknownNameError
from clew.export import ending, export, formats, writer
from reading.writing import simple_run


def test_all_formats_exist() -> None:
    assert formats()[:6] == ["json", "csv", "parquet", "hdf5", "zarr", "safetensors"]
    assert formats()[6:8] == ["tensorboard", "perfetto"]
    assert [ending(format) for format in formats()[3:6]] == [".h5", ".zarr", ".safetensors"]
    assert ending("perfetto") == ".perfetto.json"


def test_an_unknown_format_is_an_error_that_suggests_the_nearest() -> None:
    with pytest.raises(OptionError, match="did you mean `parquet`"):
        writer("parket")


def test_another_package_can_add_a_format(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("feather", "os.path:join", "clew.exports")
    monkeypatch.setattr(clew.export, "entry_points", lambda group: [point] if group == "clew.exports" else [])
    assert formats()[-1] == "feather"
    assert ending("feather") == ".feather"
    import os.path

    assert writer("feather") is os.path.join


def test_without_a_target_the_file_is_named_after_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = simple_run(tmp_path / "runs", {"x": [1]})
    assert export(run, "csv") == Path("120000-test.csv")
    assert (tmp_path / "120000-test.csv").is_file()


def test_an_unknown_name_leaves_no_file(tmp_path: Path) -> None:
    run = simple_run(tmp_path / "runs", {"x": [1]})
    with pytest.raises(UnknownNameError):
        export(run, "json", tmp_path / "out.json", names=["y"])
    assert not (tmp_path / "out.json").exists()


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    run = simple_run(tmp_path / "runs", {"x": [1]})
    with pytest.raises(OptionError, match="no folder"):
        export(run, "json", tmp_path / "nowhere" / "out.json")
    with pytest.raises(OptionError, match="is a folder"):
        export(run, "json", tmp_path)


def test_a_failure_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    run = simple_run(tmp_path / "runs", {"x": [1]})
    target = tmp_path / "out.csv"
    target.write_text("old")

    def fail(count: int, total: int) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        export(run, "csv", target, progress=fail)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["out.csv"]


@pytest.mark.parametrize("format", ["json", "csv", "parquet", "hdf5", "zarr", "safetensors"])
def test_progress_ends_with_everything_done(tmp_path: Path, format: str) -> None:
    progress_calls: list[tuple[int, int]] = []
    run = simple_run(tmp_path / "runs", {"x": [1, 2], "y": ["a"]})
    export(run, format, tmp_path / "out", progress=lambda count, total: progress_calls.append((count, total)))
    assert progress_calls == [(2, 3), (3, 3)]


@pytest.mark.parametrize("format", ["json", "csv", "parquet", "hdf5", "zarr", "safetensors"])
def test_an_empty_run_makes_a_file(tmp_path: Path, format: str) -> None:
    run = simple_run(tmp_path / "runs", {})
    assert export(run, format, tmp_path / "out").stat().st_size > 0

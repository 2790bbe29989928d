"""Event files, as TensorBoard's own reader sees them. (It is installed on the primary Python only.)"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew.errors import MissingLibraryError, OptionError
from clew.export import export
from reading.writing import Written, simple_run

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def read(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0, "histograms": 0, "tensors": 0})
    accumulator.Reload()
    return accumulator


def test_numbers_are_scalars_at_their_steps_and_times(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    call = shard.call("train")
    for step, loss in [(10, 0.5), (20, 0.25)]:
        shard.step(call, step)
        shard.change(call, "loss", loss, at=step)
    shard.close()
    found = read(export(writer.open(), "tensorboard", tmp_path / "out")).Scalars("loss")
    assert [(event.step, event.value) for event in found] == [(10, 0.5), (20, 0.25)]
    assert [event.wall_time for event in found] == pytest.approx([1_700_000_000.01, 1_700_000_000.02], abs=1e-4)


def test_without_steps_changes_are_counted(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    call = shard.call("train")
    for loss in (3, 2, 1):
        shard.change(call, "loss", loss)
    shard.close()
    found = read(export(writer.open(), "tensorboard", tmp_path / "out")).Scalars("loss")
    assert [(event.step, event.value) for event in found] == [(0, 3.0), (1, 2.0), (2, 1.0)]


def test_arrays_are_histograms_and_nonfinite_numbers_are_counted(tmp_path: Path) -> None:
    run = simple_run(tmp_path / "runs", {"w": [np.array([1.0, 2.0, np.nan, np.inf])]})
    found = read(export(run, "tensorboard", tmp_path / "out"))
    (histogram,) = found.Histograms("w")
    assert histogram.histogram_value.num == 2
    assert (histogram.histogram_value.min, histogram.histogram_value.max) == (1.0, 2.0)
    assert [event.value for event in found.Scalars("w/not_finite")] == [2.0]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of TensorBoard's reader, for the widest range
@pytest.mark.parametrize(
    "values",
    [
        [-1.7e308, 0.0, 1.7e308],  # a range wider than a float
        [1.0, 1.0 + 2**-52],  # finer than its bins
        [*([1e-9] * 500), 1e12],  # bins as wide as most of the values would be too many
        [3.0, 3.0],
        [5e-324, 1e-323],
    ],
)
def test_histograms_hold_every_value_of_any_range(tmp_path: Path, values: list[float]) -> None:
    run = simple_run(tmp_path / "runs", {"w": [np.array(values)]})
    (event,) = read(export(run, "tensorboard", tmp_path / "out")).Histograms("w")
    assert sum(event.histogram_value.bucket) == event.histogram_value.num == len(values)
    assert (event.histogram_value.min, event.histogram_value.max) == (min(values), max(values))
    assert event.histogram_value.bucket_limit == sorted(event.histogram_value.bucket_limit)


def test_values_that_are_not_finite_are_written_without_a_word_to_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nan = float("nan")
    found = read(
        export(
            simple_run(tmp_path / "runs", {"x": [nan, 1.0], "w": [np.array([nan, nan])]}),
            "tensorboard",
            tmp_path / "out",
        )
    )
    assert [repr(event.value) for event in found.Scalars("x")] == ["nan", "1.0"]
    assert [event.value for event in found.Scalars("w/not_finite")] == [2.0]
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []


def test_lone_surrogates_in_names_and_texts_are_escaped(tmp_path: Path) -> None:
    run = simple_run(tmp_path / "runs", {'d["\udcff"]': ["a \ud800"]})
    found = read(export(run, "tensorboard", tmp_path / "out"))
    assert found.Tensors("d___udcff__/text_summary")[0].tensor_proto.string_val == [b"a \\ud800"]
    assert b'is d["\\udcff"]' in found.Tensors("clew/text_summary")[0].tensor_proto.string_val[0]


def test_texts_are_texts_and_other_values_are_listed_as_left_out(tmp_path: Path) -> None:
    run = simple_run(tmp_path / "runs", {"note": ["hello"], "config": [{"lr": 1}, {"lr": 2}]})
    found = read(export(run, "tensorboard", tmp_path / "out"))
    assert found.Tensors("note/text_summary")[0].tensor_proto.string_val == [b"hello"]
    assert b"- config: 2 values" in found.Tensors("clew/text_summary")[0].tensor_proto.string_val[0]


def test_similar_names_have_different_tags_which_are_listed(tmp_path: Path) -> None:
    run = simple_run(tmp_path / "runs", {'cfg["lr"]': [1.0], "cfg__lr__": [2.0]})
    found = read(export(run, "tensorboard", tmp_path / "out"))
    assert [found.Scalars(tag)[0].value for tag in ("cfg__lr__", "cfg__lr___2")] == [1.0, 2.0]
    assert b'- cfg__lr__ is cfg["lr"]' in found.Tensors("clew/text_summary")[0].tensor_proto.string_val[0]


def test_each_rank_has_a_folder(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    for rank in (0, 1):
        shard = writer.shard(rank)
        shard.change(shard.call("train"), "loss", rank + 0.5)
        shard.close()
    path = export(writer.open(), "tensorboard", tmp_path / "out")
    assert [read(path / f"rank{rank}").Scalars("loss")[0].value for rank in (0, 1)] == [0.5, 1.5]


def test_a_run_that_recorded_nothing_opens_and_is_empty(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    writer.shard().close()
    assert read(export(writer.open(), "tensorboard", tmp_path / "out")).Tags()["scalars"] == []


def test_an_existing_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(OptionError, match="exists"):
        export(simple_run(tmp_path / "runs", {"x": [1]}), "tensorboard", tmp_path / "out")


def test_without_the_library_the_error_tells_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(MissingLibraryError, match="pip install tensorboardX"):
        export(simple_run(tmp_path / "runs", {"x": [1]}), "tensorboard", tmp_path / "out")

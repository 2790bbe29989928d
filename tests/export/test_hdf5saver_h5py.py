"""HDF5Saver with NumPy values, and its file after closing, kills and full disks."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from clew.errors import MissingLibraryError, OptionError
from clew.export.hdf5 import encode_name
from clew.export.hdf5_saver import HDF5Saver, number_column


def save(saver: HDF5Saver, name: str, values: list[Any], first: int = 0) -> list[Any]:
    """One call, with iterations that count on and rank 0; the values left in the list."""
    saver(name, values, list(range(first, first + len(values))), [0] * len(values))
    return values


def program(source: str, *args: Path) -> subprocess.Popen[str]:
    head = "import sys, numpy as np\nfrom clew.export.hdf5_saver import HDF5Saver\n"
    command = [sys.executable, "-c", head + textwrap.dedent(source), *map(str, args)]
    pipe = subprocess.PIPE  # also for stdin: a program that waits for it must not find it at its end
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_values_go_to_the_file_and_the_lists_are_emptied(tmp_path: Path) -> None:
    values, iterations, ranks = [np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)], [4, 5], [0, 1]
    with HDF5Saver(tmp_path / "a.h5") as saver:
        assert saver("encoder.0", values, iterations, ranks) is None
        assert (values, iterations, ranks) == ([], [], [])
        saver("encoder.0", [np.full((2, 3), 7, np.float32)], [6], [0])
    with h5py.File(tmp_path / "a.h5") as file:
        (group,) = file.values()
        assert (group.name, group.attrs["name"]) == ("/encoder.0", "encoder.0")
        assert (group["values"].shape, group["values"].dtype) == ((3, 2, 3), np.float32)
        assert group["values"][:, 0, 0].tolist() == [1, 0, 7]
        assert (group["iterations"][:].tolist(), group["ranks"][:].tolist()) == ([4, 5, 6], [0, 1, 0])
        assert group["values"].maxshape == (None, None, None)


@pytest.mark.parametrize("name", ["a/b", ".", 'd["x"]', "50%", "encoder.layers.0.weight.grad"])
def test_any_name_is_one_group(tmp_path: Path, name: str) -> None:
    with HDF5Saver(tmp_path / "a.h5") as saver:
        save(saver, name, [1.0])
        assert saver.datasets[name][:].tolist() == [1.0]
    with h5py.File(tmp_path / "a.h5") as file:
        assert [(key, file[key].attrs["name"]) for key in file] == [(encode_name(name), name)]


def test_the_datasets_are_a_mapping_while_it_is_open(tmp_path: Path) -> None:
    saver = HDF5Saver(tmp_path / "a.h5")
    assert dict(saver.datasets) == {}
    save(saver, "x", [1.0, 2.0])
    assert list(saver.datasets) == ["x"]
    assert isinstance(saver.datasets["x"], h5py.Dataset)
    with pytest.raises(KeyError):
        saver.datasets["y"]
    saver.close()
    assert len(saver.datasets) == 0


def test_smaller_values_are_padded_and_larger_ones_widen(tmp_path: Path) -> None:
    with HDF5Saver(tmp_path / "a.h5") as saver:
        save(saver, "x", [np.ones((1, 2))])
        save(saver, "x", [np.full((2, 1), 2.0), np.zeros((0, 3))], 1)
        nan = np.nan
        expected = [[[1, 1], [nan, nan]], [[2, nan], [2, nan]], [[nan, nan], [nan, nan]]]
        np.testing.assert_array_equal(saver.datasets["x"][:, :, :2], expected)
        assert saver.datasets["x"].parent["shapes"][:].tolist() == [[1, 2], [2, 1], [0, 3]]
        assert np.isnan(saver.datasets["x"].attrs["fill"])
        save(saver, "n", [np.ones(2, int), np.ones(1, int)])
        assert saver.datasets["n"][:].tolist() == [[1, 1], [1, 0]]
        assert saver.datasets["n"].attrs["fill"] == 0


def test_other_dimensions_and_dtypes_have_datasets_of_their_own(tmp_path: Path) -> None:
    with HDF5Saver(tmp_path / "a.h5") as saver:
        save(
            saver, "x", [np.zeros(2, np.float32), 1.5, np.ones(2, np.float64), np.ones(2, np.float16), np.ones((1, 1))]
        )
        group = saver.datasets["x"].parent
        assert group["iterations"][:].tolist() == [0, 3], "float16 is exact in float32"
        assert group["values_0d"][:].tolist() == [1.5]
        assert group["iterations_0d"][:].tolist() == [1]
        assert group["iterations_1d_float64"][:].tolist() == [2]
        assert group["shapes_2d"][:].tolist() == [[1, 1]]


def test_numbers_are_never_rounded_to_fit(tmp_path: Path) -> None:
    with HDF5Saver(tmp_path / "a.h5") as saver:
        save(saver, "x", [0.5, 1, 2**53 + 1, True, 2**63, 2**70])
        group = saver.datasets["x"].parent
        assert group["values"][:].tolist() == [0.5, 1.0]
        assert group["values_0d_int64"][:].tolist() == [2**53 + 1]
        assert group["values_0d_bool"][:].tolist() == [True]
        assert group["values_0d_uint64"][:].tolist() == [2**63]
        assert json.loads(group["values_json"].asstr()[0]) == 2**70


def test_texts_and_other_things(tmp_path: Path) -> None:
    class Odd:
        def __str__(self) -> str:
            raise LookupError("no text")

    with HDF5Saver(tmp_path / "a.h5") as saver:
        save(saver, "t", ["ключ", "", {"a": [1]}, None, "\udc80", "a\0b", Odd()])
        group = saver.datasets["t"].parent
        assert group["values"].asstr()[:].tolist() == ["ключ", ""]
        told = [json.loads(text) for text in group["values_json"].asstr()[:]]
        assert told[:4] == [{"a": [1]}, None, "\udc80", "a\0b"]
        assert "no text" in told[4]["why"]


def test_dtypes_convert(tmp_path: Path) -> None:
    with HDF5Saver(tmp_path / "a.h5", float_dtype="float16", int_dtype="int32") as saver:
        save(saver, "f", [np.ones(2), np.ones(2, np.float32)])
        save(saver, "i", [np.arange(3), 7])
        save(saver, "b", [np.array([True])])
        save(saver, "c", [np.array([1j])])
        kinds = {name: dataset.dtype.name for name, dataset in saver.datasets.items()}
        assert kinds == {"f": "float16", "i": "int32", "b": "bool", "c": "complex128"}
        assert saver.datasets["f"].attrs["converted_from"] == "float64"


def test_integers_that_do_not_fit_keep_their_dtype(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with HDF5Saver(tmp_path / "a.h5", int_dtype="int8") as saver:
        save(saver, "i", [1, 1000])
        group = saver.datasets["i"].parent
        assert (group["values"][:].tolist(), group["values_0d_int64"][:].tolist()) == ([1], [1000])
    assert "wider int_dtype" in capfd.readouterr().err


def test_floats_too_large_become_infinite_and_are_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with HDF5Saver(tmp_path / "a.h5", float_dtype="float16") as saver:
        save(saver, "f", [1e9, 1e-9])
        assert saver.datasets["f"][:].tolist() == [np.inf, 0]
    assert "wider float_dtype" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("entries", "count", "expected"),
    [
        ([3, 4], 2, [3, 4]),
        ([3, 4, 5], 1, [[3, 4, 5]]),
        ([[1, 2], [3]], 2, [[1, 2], [3, -1]]),
        ([[[1], [2, 3]]], 1, [[1, 2, 3]]),
        ([1, 2, 3], 2, [[1, 2, 3], [1, 2, 3]]),
        ([], 2, [-1, -1]),
        ([None], 1, [-1]),
        ([np.int64(4)], 1, [4]),
        (np.array([1, 2]), 1, [[1, 2]]),
    ],
)
def test_iterations_as_a_column(entries: Any, count: int, expected: Any) -> None:
    assert number_column(entries, count).tolist() == expected


def test_a_stacked_value_keeps_all_its_iterations(tmp_path: Path) -> None:
    with HDF5Saver(tmp_path / "a.h5") as saver:
        saver("x", [np.zeros((1, 2))], [0], [0])
        saver("x", [np.ones((3, 2))], [1, 2, 3], [0, 0, 1])
        saver("x", [np.ones((1, 2))], [4], [0])
        group = saver.datasets["x"].parent
        assert group["iterations"][:].tolist() == [[0, -1, -1], [1, 2, 3], [4, -1, -1]]
        assert group["ranks"][:].tolist() == [[0, -1, -1], [0, 0, 1], [0, -1, -1]]
        assert sorted(group) == ["iterations", "ranks", "shapes", "values"]


@pytest.mark.parametrize(
    "options", [{"compression": "gzip", "compression_opts": 9, "shuffle": True}, {"compression": "lzf"}]
)
def test_compression_is_passed_on(tmp_path: Path, options: dict[str, Any]) -> None:
    with HDF5Saver(tmp_path / "a.h5", **options) as saver:
        save(saver, "x", [np.zeros((100, 100))] * 3)
        save(saver, "t", ["a"])
        dataset = saver.datasets["x"]
        assert {key: getattr(dataset, key) for key in options} == options
        assert dataset.chunks[0] == 1, "a compressed chunk that was written is never moved"
    assert (tmp_path / "a.h5").stat().st_size < 100_000


def test_nothing_is_opened_before_the_first_value(tmp_path: Path) -> None:
    with HDF5Saver(tmp_path / "a.h5") as saver:
        saver("x", [], [], [])
    assert not (tmp_path / "a.h5").exists()


def test_an_existing_file_is_an_error_by_default(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with HDF5Saver(path) as saver:
        save(saver, "x", [1.0])
    with pytest.raises(OptionError, match="exists") as caught:
        HDF5Saver(path)
    assert caught.value.slug == "hdf5-exists"
    with HDF5Saver(path, existing="append") as saver:
        save(saver, "x", [2.0, "text"], 1)
    with h5py.File(path) as file:
        assert file["x/values"][:].tolist() == [1.0, 2.0]
        assert file["x/iterations"][:].tolist() == [0, 1]
    with HDF5Saver(path, existing="append") as saver:
        save(saver, "x", ["more"], 3)
    with h5py.File(path) as file:
        assert file["x/values_text"].asstr()[:].tolist() == ["text", "more"]
    with HDF5Saver(path, existing="replace") as saver:
        save(saver, "x", [3.0])
    with h5py.File(path) as file:
        assert file["x/values"][:].tolist() == [3.0]


def test_a_file_created_meanwhile_is_not_overwritten(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    saver = HDF5Saver(tmp_path / "a.h5")
    (tmp_path / "a.h5").write_text("mine")
    assert save(saver, "x", [1.0]) == [1.0]
    assert (tmp_path / "a.h5").read_text() == "mine"
    assert "could not be written" in capfd.readouterr().err


@pytest.mark.parametrize("existing", ["append", "replace"])
def test_a_file_that_is_open_elsewhere_is_an_error(tmp_path: Path, existing: Any) -> None:
    path = tmp_path / "a.h5"
    other = program(
        """
        saver = HDF5Saver(sys.argv[1])
        saver("x", [1.0], [0], [0])
        print("open", flush=True)
        sys.stdin.read()
        """,
        path,
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(OptionError, match="open elsewhere") as caught:
            HDF5Saver(path, existing=existing)
        assert caught.value.slug == "hdf5-open"
    finally:
        other.kill()
        other.communicate()


@pytest.mark.parametrize("existing", ["append", "replace"])
def test_two_savers_of_one_file_are_an_error(tmp_path: Path, existing: Any) -> None:
    early = HDF5Saver(tmp_path / "a.h5", existing=existing)
    with HDF5Saver(tmp_path / "a.h5") as saver:
        save(saver, "x", [1.0])
        with pytest.raises(OptionError, match="this program has it open"):
            HDF5Saver(tmp_path / "a.h5", existing=existing)
        assert save(early, "x", [2.0]) == [2.0]
        save(saver, "x", [3.0], 1)
        assert saver.datasets["x"][:].tolist() == [1.0, 3.0]


def test_a_file_that_is_not_hdf5_is_not_appended_to(tmp_path: Path) -> None:
    (tmp_path / "a.h5").write_text("text")
    with pytest.raises(OptionError, match="not an HDF5 file"):
        HDF5Saver(tmp_path / "a.h5", existing="append")


@pytest.mark.parametrize(
    "options",
    [
        {"existing": "keep"},
        {"float_dtype": "int8"},
        {"float_dtype": "bfloat16"},
        {"int_dtype": "bool"},
        {"compression": "zip"},
        {"compression": "gzip", "compression_opts": 20},
    ],
)
def test_invalid_options_are_refused_at_once(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(OptionError) as caught:
        HDF5Saver(tmp_path / "a.h5", **options)
    assert caught.value.slug == "hdf5-option"


def test_an_impossible_target_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no folder"):
        HDF5Saver(tmp_path / "nowhere" / "a.h5")
    with pytest.raises(OptionError, match="is a folder"):
        HDF5Saver(tmp_path)


def test_without_h5py_the_error_tells_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingLibraryError, match="pip install h5py"):
        HDF5Saver(tmp_path / "a.h5")


def test_values_after_the_end_open_the_file_again(tmp_path: Path) -> None:
    saver = HDF5Saver(tmp_path / "a.h5")
    for number in range(3):
        save(saver, "x", [float(number)], number)
        saver.close()
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x/values"][:].tolist() == [0, 1, 2]


def test_a_saver_that_is_forgotten_closes_its_file(tmp_path: Path) -> None:
    save(HDF5Saver(tmp_path / "a.h5"), "x", [1.0])
    gc.collect()
    with h5py.File(tmp_path / "a.h5", "r+") as file:  # which it could not be if it were open
        assert file["x/values"][:].tolist() == [1.0]


def test_the_file_is_complete_after_a_normal_exit(tmp_path: Path) -> None:
    child = program("saver = HDF5Saver(sys.argv[1])\nsaver('x', [1.0], [0], [0])", tmp_path / "a.h5")
    assert child.communicate()[1] == ""
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x/values"][:].tolist() == [1.0]


@pytest.mark.parametrize("compression", ["None", "'gzip'"])
def test_after_kill_9_the_file_has_everything_taken_out_of_the_lists(tmp_path: Path, compression: str) -> None:
    source = f"""
        saver = HDF5Saver(sys.argv[1], compression={compression})
        for k in range(60):
            for name in range(10):
                saver(f"n{{name}}", [np.full((3 + k % 4, 50), k + name / 10)], [k], [0])
            saver("loss", [k / 2], [k], [0])
            saver("text", [str(k)], [k], [0])
        print("done", flush=True)
        sys.stdin.read()
        """
    child = program(source, tmp_path / "a.h5")
    assert child.stdout is not None
    assert child.stdout.readline() == "done\n"
    child.send_signal(signal.SIGKILL)
    child.communicate()
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["loss/values"][:].tolist() == [k / 2 for k in range(60)]
        assert file["text/values"].asstr()[:].tolist() == [str(k) for k in range(60)]
        for name in range(10):
            group = file[f"n{name}"]
            assert group["iterations"][:].tolist() == list(range(60))
            assert group["values"][:, 0, 0].tolist() == [k + name / 10 for k in range(60)]
    with HDF5Saver(tmp_path / "a.h5", existing="append") as saver:
        assert save(saver, "loss", [-1.0], 60) == []


def test_after_kill_9_unflushed_values_do_not_harm_flushed_ones(tmp_path: Path) -> None:
    source = """
        saver = HDF5Saver(sys.argv[1])
        big = np.ones((64, 64))
        for k in range(20):
            saver("x", [big * k], [k], [0])
        parts = saver._parts_of("x")
        for k in range(200):
            parts.append([saver._make_item(big, parts.store)], {"iterations": np.array([k]), "ranks": np.array([0])})
        print("done", flush=True)
        sys.stdin.read()
        """
    child = program(source, tmp_path / "a.h5")
    assert child.stdout is not None
    assert child.stdout.readline() == "done\n"
    child.send_signal(signal.SIGKILL)
    child.communicate()
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x/values"][:20, 0, 0].tolist() == list(range(20))
        assert file["x/iterations"][:20].tolist() == list(range(20))


@pytest.mark.parametrize("compression", ["None", "'gzip'"])
def test_a_full_disk_leaves_the_values_in_the_lists_until_there_is_space(tmp_path: Path, compression: str) -> None:
    source = f"""
        import resource
        def limit(size):
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        saver = HDF5Saver(sys.argv[1], compression={compression})
        random = np.random.default_rng(0)
        values, iterations, ranks = [random.random(20000)], [0], [0]
        saver("x", values, iterations, ranks)
        assert not values
        limit(500_000)
        for k in range(1, 9):
            values.append(random.random(20000)); iterations.append(k); ranks.append(0)
            saver("x", values, iterations, ranks)
            saver("y", [1.0], [k], [0])
        assert len(values) == len(iterations) == len(ranks) > 2, len(values)
        limit(resource.RLIM_INFINITY)
        saver("x", values, iterations, ranks)
        assert not values and not iterations and not ranks
        """
    child = program(source, tmp_path / "a.h5")
    said = child.communicate()[1]
    assert child.returncode == 0, said
    assert said.count("could not be written") == 1
    random = np.random.default_rng(0)
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x/iterations"][:].tolist() == list(range(9))
        np.testing.assert_array_equal(file["x/values"][:], [random.random(20000) for _ in range(9)])


def test_a_write_that_fails_halfway_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with HDF5Saver(tmp_path / "a.h5") as saver:
        save(saver, "x", [np.ones(2)])
        with monkeypatch.context() as patch:
            patch.setattr(saver._space, "grow", _failing_from(4))
            left = save(saver, "x", [np.ones(3), np.zeros(1), "text"], 1)
            assert len(left) == 3
        save(saver, "x", left, 1)
        group = saver.datasets["x"].parent
        np.testing.assert_array_equal(group["values"][:, :2], [[1, 1], [1, 1], [0, np.nan]])
        assert group["iterations"][:].tolist() == [0, 1, 2]
        assert group["iterations_text"][:].tolist() == [3]


def test_a_file_that_hdf5_gave_up_is_opened_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with HDF5Saver(tmp_path / "a.h5") as saver:
        save(saver, "x", [1.0])
        with monkeypatch.context() as patch:
            patch.setattr(h5py.File, "flush", _failing_from(0))
            assert save(saver, "x", [2.0], 1) == [2.0]
        assert save(saver, "x", [2.0], 1) == []
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x/values"][:].tolist() == [1.0, 2.0]


def _failing_from(number: int) -> Any:
    calls: list[Any] = []

    def fail(*args: Any) -> None:
        calls.append(args)
        if len(calls) > number:
            raise OSError(28, "No space left on device")

    return fail


def test_a_forked_child_neither_writes_nor_closes_the_file(tmp_path: Path) -> None:
    child = program(
        """
        import os
        saver = HDF5Saver(sys.argv[1])
        saver("x", [1.0], [0], [0])
        if os.fork() == 0:
            values = [5.0]
            saver("x", values, [1], [0])
            assert values == [5.0]
            sys.exit()
        os.wait()
        saver("x", [2.0], [1], [0])
        """,
        tmp_path / "a.h5",
    )
    said = child.communicate()[1]
    assert child.returncode == 0, said
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x/values"][:].tolist() == [1.0, 2.0]


def test_a_closed_file_takes_no_more_room_than_it_needs(tmp_path: Path) -> None:
    with HDF5Saver(tmp_path / "a.h5") as saver:
        save(saver, "x", [1.0])
    assert (tmp_path / "a.h5").stat().st_size < 100_000


def test_the_path_does_not_move_with_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    with HDF5Saver("a.h5") as saver:
        os.chdir("other")
        save(saver, "x", [1.0])
    assert (tmp_path / "a.h5").is_file()

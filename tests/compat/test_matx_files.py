"""Files of constructors under Matx's names: any file on the machine comes along, and stderr names it."""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.compat import matx
from clew.errors import GraphError


class Words:
    """Reads the files that it is given, at any depth of its arguments."""

    def __init__(self, config: Any, name: str = "") -> None:
        self.words = [Path(path).read_text() for path in _paths(config)]
        self.config, self.name = config, name

    def __call__(self, number: int) -> Any:
        return self.words[number]


def _paths(config: Any) -> list[str]:
    if isinstance(config, dict):
        return [path for value in config.values() for path in _paths(value)]
    if isinstance(config, list):
        return [path for value in config for path in _paths(value)]
    return [config] if isinstance(config, str) and config.endswith(".txt") else []


class Holds:
    """Holds paths and opens nothing."""

    def __init__(self, loc: str, other: str) -> None:
        self.loc, self.other = loc, other

    def __call__(self) -> Any:
        return self.loc, self.other


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project to work in, and data beside it."""
    (tmp_path / "project").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "vocab.txt").write_text("outside")
    (tmp_path / "project" / "inside.txt").write_text("inside")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


def saved(operator: Any, folder: Path) -> matx.Module:
    """What is loaded after the data is gone."""
    matx.trace(lambda number: operator(number), 0).save(folder / "saved")
    for file in folder.rglob("*.txt"):
        if "saved" not in file.parts:
            file.unlink()
    return matx.load(folder / "saved", -1)


@pytest.mark.parametrize("path", ["../data/vocab.txt", "{machine}/data/vocab.txt"])
def test_a_file_outside_the_project_comes_along(path: str, machine: Path) -> None:
    operator = matx.script(Words)(path.format(machine=machine))
    assert saved(operator, machine).run({"number": 0}) == "outside"


def test_files_in_lists_and_dictionaries_come_along(machine: Path) -> None:
    config = [1, {"dict_fn": {"default": "../data/vocab.txt"}, "other": 345}, ["inside.txt"], "abc"]
    loaded = saved(matx.script(Words)(config), machine)
    assert [loaded.run({"number": number}) for number in (0, 1)] == ["outside", "inside"]


def test_a_folder_outside_the_project_comes_along(machine: Path) -> None:
    operator = matx.script(Holds)(str(machine / "data"), "bert1225")
    matx.trace(lambda: operator()).save(machine / "saved")
    (machine / "data" / "vocab.txt").unlink()
    folder, name = matx.load(machine / "saved", -1).run({})
    assert (Path(folder) / "vocab.txt").read_text() == "outside"
    assert name == "bert1225"  # no path: it stays what it was


def test_stderr_names_what_was_taken(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    operator = matx.script(Words)("../data/vocab.txt")
    matx.trace(lambda number: operator(number), 0).save("saved")
    assert capsys.readouterr().err == (
        f"clew: {machine / 'project' / 'saved'} takes along {machine / 'data' / 'vocab.txt'}\n"
    )


def test_a_save_without_files_says_nothing(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matx.trace(lambda x: x + 1, 1).save("saved")
    assert capsys.readouterr().err == ""


def test_bundle_args_name_the_arguments_whose_files_are_taken(machine: Path) -> None:
    operator = matx.script(Holds, bundle_args=["loc"])("../data/vocab.txt", "inside.txt")
    matx.trace(lambda: operator()).save("saved")
    loc, other = matx.load("saved", -1).run({})
    assert Path(loc).read_text() == "outside" and loc != "../data/vocab.txt"
    assert other == "inside.txt"


class Opens:
    """Opens the files that it is given, and keeps their words alone."""

    def __init__(self, loc: str, other: str) -> None:
        self.words = [Path(path).read_text() for path in (loc, other)]

    def __call__(self, number: int) -> str:
        return self.words[number]


def test_bundle_args_leave_out_a_file_that_the_constructor_opens(machine: Path) -> None:
    operator = matx.script(Opens, bundle_args=["loc"])("../data/vocab.txt", "inside.txt")
    matx.trace(lambda number: operator(number), 0).save("saved")
    assert [file.name for file in Path("saved/assets").rglob("*.txt")] == ["vocab.txt"]


def test_bundle_args_hold_for_what_this_script_makes(machine: Path) -> None:
    """Another `matx.script` of the class is asked nothing: neither one before nor one after."""
    both, loc = matx.script(Opens), matx.script(Opens, bundle_args=["loc"])
    other = matx.script(Opens, bundle_args=("other",))
    for creator, taken in ((both, ["inside.txt", "vocab.txt"]), (loc, ["vocab.txt"]), (other, ["inside.txt"])):
        operator = creator("../data/vocab.txt", "inside.txt")
        matx.trace(lambda number, operator=operator: operator(number), 0).save("saved")
        assert sorted(file.name for file in Path("saved/assets").rglob("*.txt")) == taken


class OpensWords(Opens):
    """Opens a file that no argument names, and one that a default names."""

    def __init__(self, loc: str, word: str, listed: Any = (), default: str = "inside.txt") -> None:
        super().__init__(loc, "third.txt")
        self.words += [Path(path).read_text() for path in (default, *listed)]


@pytest.mark.parametrize("word", ["", ".", "no file"])
def test_bundle_args_do_not_leave_out_files_that_no_argument_names(word: str, machine: Path) -> None:
    """An empty text is not the working folder."""
    Path("third.txt").write_text("third")
    operator = matx.script(OpensWords, bundle_args=["loc", "default"])("../data/vocab.txt", word)
    matx.trace(lambda number: operator(number), 0).save("saved")
    assert sorted(file.name for file in Path("saved/assets").rglob("*.txt")) == ["inside.txt", "third.txt", "vocab.txt"]


def test_bundle_args_leave_out_files_in_containers_and_in_defaults(machine: Path) -> None:
    for name in ("third.txt", "listed.txt"):
        Path(name).write_text(name)
    operator = matx.script(OpensWords, bundle_args=["loc"])("../data/vocab.txt", "", ["listed.txt"])
    matx.trace(lambda number: operator(number), 0).save("saved")
    assert sorted(file.name for file in Path("saved/assets").rglob("*.txt")) == ["third.txt", "vocab.txt"]


def test_bundle_args_are_a_list_of_names() -> None:
    with pytest.raises(TypeError, match="is no list of names"):
        matx.script(Opens, bundle_args="loc")


def test_a_secret_does_not_come_along_and_can_be_left_out(machine: Path) -> None:
    Path("token.txt").write_text("s3cret")
    operator = matx.script(Holds)("token.txt", "")
    module = matx.trace(lambda: operator())
    with pytest.raises(GraphError) as refused:
        module.save("saved")
    assert refused.value.slug == "bundle-secret"
    module.save("saved", assets=lambda path: "token" not in path)
    assert matx.load("saved", -1).run({}) == ("token.txt", "")


def test_a_loaded_module_is_saved_again_with_its_files(machine: Path) -> None:
    operator = matx.script(Holds)("../data/vocab.txt", "")
    matx.trace(lambda: operator()).save("first")
    matx.load("first", -1).save("second")
    shutil.rmtree("first")
    path, _ = matx.load("second", -1).run({})
    assert Path(path).read_text() == "outside"


@pytest.mark.parametrize("folder", ["./", ".", "", "{machine}/project"])
def test_a_module_is_saved_in_the_working_folder_beside_other_files(folder: str, machine: Path) -> None:
    folder = folder.format(machine=machine) or os.curdir
    matx.trace(lambda x: x + 1, 1).save(folder)
    matx.trace(lambda x: x + 2, 1).save(folder)
    assert matx.load(folder, -1).run({"x": 1}) == 3
    assert Path("inside.txt").read_text() == "inside"
    assert Path.cwd() == machine / "project"


def test_a_module_is_saved_in_an_empty_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    matx.trace(lambda x: x + 1, 1).save("./")
    assert Path.cwd() == tmp_path
    assert matx.load("./", -1).run({"x": 1}) == 2


def test_a_saved_folder_that_is_saved_again_is_the_bundle_itself(tmp_path: Path) -> None:
    for _ in range(2):
        matx.trace(lambda x: x + 1, 1).save(tmp_path / "saved")
    assert clew.load(tmp_path / "saved", trusted=True)(1) == 2


def test_a_warning_about_a_save_shows_the_line_of_the_user(machine: Path) -> None:
    Path("data").mkdir()
    Path("data/file.bin").write_bytes(b"1")
    operator = matx.script(Holds)("data", "")
    module = matx.trace(lambda: operator())
    for save in (lambda: module.save("saved"), lambda: matx.save(module, "saved", force_override=True)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            save()
        assert [one.filename for one in caught] == [__file__]


def test_a_warning_about_a_load_shows_the_line_of_the_user(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from clew.graph.bundle import versions

    matx.trace(lambda x: x + 1, 1).save("saved")
    monkeypatch.setattr(versions, "differences", lambda made_with: ["numpy 0.1"])
    loads: list[Any] = [lambda: matx.load("saved", -1), lambda: matx.pipeline.Load("saved", -1)]
    for load in [*loads, lambda: clew.load("saved", trusted=True)]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            graph = load()
        assert [one.filename for one in caught] == [__file__]
        del graph  # loads share a bundle that somebody holds, and say this once


class Started:
    """Has a number of its own in each process that constructs it."""

    def __init__(self) -> None:
        self.number = os.getpid()

    def __call__(self, x: int) -> int:
        return self.number + x


def test_an_operator_that_differs_when_constructed_again_is_saved_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEW_SELFTEST", "1")
    started = matx.script(Started)()
    module = matx.trace(lambda x: started(x), 1)
    with pytest.warns(UserWarning, match="saved, but example 1: step") as warned:
        module.save(tmp_path / "bundle")
    assert warned[0].filename == __file__
    assert matx.load(tmp_path / "bundle", -1).run({"x": 2}) == os.getpid() + 2

"""Files that constructors use come along; secrets and what lies outside the project do not."""

from __future__ import annotations

import builtins
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import clew
from clew.graph.bundle import assets, files_at_call
from graph.bundling import project, write

__all__ = ["project"]  # the fixture

OPS = """
    import os
    import sqlite3
    import subprocess
    import tempfile
    from pathlib import Path
    import pyarrow.parquet
    import clew

    @clew.op
    class Holding:
        def __init__(self, *given, **named):
            self.given, self.named = given, named
        def __call__(self, x):
            return self.given, self.named

    @clew.op
    class Opening:
        def __init__(self, opener, name):
            self.text = opener(name)
        def __call__(self, x):
            return self.text

    @clew.op
    class Lazy:
        def __init__(self, path):
            self.path = path
        def __call__(self, x):
            return Path(self.path).read_text()

    @clew.op
    class Default:
        def __init__(self, name, path="data/a.txt", *, deep=2, split="two", more=("data/b.txt",), words=(1, None)):
            self.kept = name, deep, path, more
            assert split == "two"  # a word, though there is a folder of that name
        def __call__(self, x):
            name, deep, path, more = self.kept
            return name, deep, Path(path).read_text(), [Path(one).read_text() for one in more]

    def plain(name):
        with open(name) as file:
            return file.read()
    def built(name):
        return (Path("data") / f"{name}.txt").read_text()
    def low(name):
        handle = os.open(name, os.O_RDONLY)
        try:
            return os.read(handle, 100).decode()
        finally:
            os.close(handle)
    def listed(name):
        return ",".join(f"{file}={plain(os.path.join('data', file))}" for file in sorted(os.listdir("data")))
    def looked(name):
        return plain("data/a.txt") if os.path.exists("data/a.txt") else "nothing"
    def beside(name):
        return (Path(__file__).parent / "data" / "a.txt").read_text()
    def absolute(name):
        return plain(os.path.abspath("data/a.txt")) + Path("data/b.txt").resolve().read_text()
    def temporary(name):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "x")
            path.write_text("made here")
            return path.read_text()
    def table(name):
        return str(pyarrow.parquet.read_table("rows/t.parquet")["a"].to_pylist())
    def hidden(name):
        import pyarrow.json as late  # imported only here
        return str(late.read_json(input_file="rows/rows.jsonl")["a"].to_pylist())
    def program(name):
        return subprocess.run(["cat", "data/a.txt"], capture_output=True, text=True).stdout
    def database(name):
        sqlite3.connect("data/db.sqlite").close()
        return ""
    """


@pytest.fixture
def ops(project: Path) -> Any:
    write(project, {"ops.py": OPS, "data/a.txt": "A", "data/b.txt": "B", "one/v.txt": "1", "two/v.txt": "2"})
    write(project, {"rows/rows.jsonl": '{"a": 1}\n{"a": 2}'})
    pq.write_table(pa.table({"a": [1, 2]}), project / "rows/t.parquet")
    return __import__("ops")


def elsewhere(op: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Any:
    """What the operator gives when it was saved and loaded where none of its files are."""
    clew.record(lambda x: op(x), 1).save(tmp_path / "bundle", **options)
    for path in list(Path.cwd().iterdir()):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (tmp_path / "else").mkdir()
    monkeypatch.chdir(tmp_path / "else")
    return clew.load(tmp_path / "bundle", trusted=True)(x=1)


def test_paths_at_any_depth_of_the_arguments(ops: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    op = ops.Holding("one/v.txt", [Path("two/v.txt"), {"data"}], b"data/a.txt", deep={"k": [{"v": "data/b.txt"}]}, n=3)
    (file, (path, words), raw), named = elsewhere(op, tmp_path, monkeypatch)
    assert Path(file).read_text() == "1"
    assert isinstance(path, Path) and path.read_text() == "2"
    assert words == {"data"}  # a word in a set, that nothing was opened by
    assert Path(os.fsdecode(raw)).read_text() == "A"
    assert Path(named["deep"]["k"][0]["v"]).read_text() == "B"
    assert named["n"] == 3


def test_a_folder_comes_along_with_what_is_in_it(ops: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(Path.cwd(), {"data/deep/c.txt": "C", "data/__pycache__/x.pyc": "no"})
    (folder, with_slash), _ = elsewhere(ops.Holding("./data", "data/"), tmp_path, monkeypatch)
    assert sorted(path.name for path in Path(folder).rglob("*.*")) == ["a.txt", "b.txt", "c.txt"]
    assert Path(with_slash + "a.txt").read_text() == "A"


@pytest.mark.parametrize("text", [".", "/", "..", "", "not/there.txt", "a\0b", "two words"])
def test_texts_that_are_no_paths_stay_texts(
    ops: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    assert elsewhere(ops.Holding(text), tmp_path, monkeypatch)[0] == (text,)


def test_an_empty_folder_is_one_to_write_to(ops: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("results/new").mkdir(parents=True)
    assert elsewhere(ops.Holding("results/new"), tmp_path, monkeypatch)[0] == ("results/new",)


@pytest.mark.parametrize("given", ["data", [{"deep": ("data",)}]])
def test_a_bare_word_that_names_a_folder_is_taken_for_it_and_said(ops: Any, tmp_path: Path, given: Any) -> None:
    graph = clew.record(lambda x: op(x), 1) if (op := ops.Holding(given)) else None
    with pytest.warns(UserWarning, match="was given 'data', which is also the name of"):
        graph.save(tmp_path / "bundle")
    assert sorted(path.name for path in (tmp_path / "bundle/assets").rglob("*.txt")) == ["a.txt", "b.txt"]


@pytest.mark.parametrize(
    ("how", "name", "text"),
    [
        ("plain", "data/a.txt", "A"),
        ("built", "a", "A"),
        ("low", "data/b.txt", "B"),
        ("listed", "", "a.txt=A,b.txt=B"),
        ("looked", "", "A"),
        ("beside", "", "A"),
        ("absolute", "", "AB"),
        ("temporary", "", "made here"),
        ("table", "", "[1, 2]"),
    ],
)
def test_what_a_constructor_opens_is_found_again(
    ops: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, name: str, text: str
) -> None:
    assert elsewhere(ops.Opening(getattr(ops, how), name), tmp_path, monkeypatch) == text


def test_a_file_above_the_folder_of_the_code_is_found_by_the_place_of_the_code(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ops = """
        from pathlib import Path
        import clew
        ROOT = Path(__file__).resolve().parents[2]
        @clew.op
        class Reading:
            def __init__(self):
                self.text = (ROOT / "data" / "a.txt").read_text()
            def __call__(self, x):
                return self.text
        """
    write(project, {"src/above/__init__.py": "", "src/above/ops.py": ops, "data/a.txt": "A"})
    monkeypatch.syspath_prepend(str(project / "src"))
    from above.ops import Reading  # type: ignore[import-not-found]

    assert elsewhere(Reading(), tmp_path, monkeypatch) == "A"


def test_a_file_in_the_home_folder_is_found_in_another_home(
    ops: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"home/words.txt": "W", "other/empty": ""})
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    op = ops.Opening(lambda name: ops.plain(os.path.expanduser(name)), "~/words.txt")
    clew.record(lambda x: op(x), 1).save(tmp_path / "bundle", assets="anywhere")
    (tmp_path / "home/words.txt").unlink()
    monkeypatch.setenv("HOME", str(tmp_path / "other"))
    assert clew.load(tmp_path / "bundle", trusted=True)(x=1) == "W"


def test_the_bundles_file_is_taken_though_one_of_its_name_is_there(
    ops: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clew.record(lambda x: op(x), 1).save("bundle") if (op := ops.Opening(ops.built, "a")) else None
    write(Path.cwd(), {"data/a.txt": "changed since"})
    assert clew.load("bundle", trusted=True)(x=1) == "A"
    assert open is __builtins__["open"] if isinstance(__builtins__, dict) else True  # the program's own is in place


def test_a_path_that_is_read_later_is_rewritten(ops: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert elsewhere(ops.Lazy("data/a.txt"), tmp_path, monkeypatch) == "A"


def test_a_path_that_is_the_default_of_an_argument_is_rewritten_too(
    ops: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert elsewhere(ops.Default("first", deep=5), tmp_path, monkeypatch) == ("first", 5, "A", ["B"])


def test_relative_paths_are_those_of_the_folder_the_constructor_ran_in(
    ops: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    op = ops.Lazy("data/a.txt")
    graph = clew.record(lambda x: op(x), 1)
    monkeypatch.chdir("one")
    graph.save(tmp_path / "bundle", assets="anywhere")
    assert clew.load(tmp_path / "bundle", trusted=True)(x=1) == "A"


def test_a_library_that_is_imported_in_a_constructor_is_heard_too(
    ops: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "pyarrow.json", raising=False)
    assert elsewhere(ops.Opening(ops.hidden, ""), tmp_path, monkeypatch) == "[1, 2]"


def test_the_doors_of_libraries_are_as_they_were(ops: Any) -> None:
    doors = (pq.read_table, pq.ParquetFile.__init__, builtins.__import__)
    ops.Opening(ops.table, "")
    assert (pq.read_table, pq.ParquetFile.__init__, builtins.__import__) == doors


@pytest.mark.parametrize(("how", "file"), [("database", "data/db.sqlite"), ("program", "data/a.txt")])
def test_what_cannot_be_led_into_the_bundle_is_an_error(ops: Any, tmp_path: Path, how: str, file: str) -> None:
    op = ops.Opening(getattr(ops, how), "")
    with pytest.raises(clew.ClewError, match=rf"opens {file} in a way .* Give the path to the constructor"):
        clew.record(lambda x: op(x), 1).save(tmp_path / "bundle")


def test_what_a_constructor_only_looks_for_is_told(ops: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat_of_python = os.stat
    op = ops.Opening(lambda name: os.path.exists(name) and Path("two/v.txt").is_file(), "data/a.txt")
    assert os.stat is stat_of_python
    graph = clew.record(lambda x: op(x), 1)
    with pytest.warns(UserWarning, match=r"Opening\(\) looks for two/v.txt and does not open it") as caught:
        graph.save(tmp_path / "bundle")
    assert len(caught) == 1  # the argument comes along by itself
    assert elsewhere(op, tmp_path, monkeypatch, assets=["two/v.txt"]) is True


# ---- what operators open when they are called


CALLED = """
    from pathlib import Path
    import clew
    @clew.op
    def reads(x):
        return Path("data/a.txt").read_text() + x
    @clew.op
    def given(path, other="data/b.txt"):
        with open(path) as file:
            return file.read()
    @clew.op
    class Later:
        def __call__(self, x):
            with open("data/b.txt") as file:
                return file.read()
    """


@pytest.mark.parametrize(
    ("pipeline", "who"),
    [
        (lambda called, x: called.reads(x), r"reads \(.*\) opens data/a.txt"),
        (lambda called, x: called.given("data/a.txt", x), r"given \(.*\) opens data/a.txt"),
        (lambda called, x: called.Later()(x), r"Later.__call__ \(.*\) opens data/b.txt"),
    ],
)
def test_what_an_operator_opens_when_it_is_called_is_told(
    ops: Any, project: Path, tmp_path: Path, pipeline: Any, who: str
) -> None:
    write(project, {"called.py": CALLED})
    called = __import__("called")
    graph = clew.record(lambda x: pipeline(called, x), "x")
    with pytest.warns(UserWarning, match=f"{who} when it is called, which is not in the bundle"):
        graph.save(tmp_path / "bundle")


def test_what_is_opened_now_is_told_however_much_was_opened_before(
    ops: Any, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_at_call, "_MOST", 2)
    write(project, {"called.py": CALLED, **{f"data/{number}.txt": "" for number in range(4)}})
    called = __import__("called")
    for number in range(4):
        clew.record(lambda x, name=f"data/{number}.txt": called.given(name, x), "x")
    graph = clew.record(lambda x: called.reads(x), "x")
    with pytest.warns(UserWarning, match="opens data/a.txt when it is called"):
        graph.save(tmp_path / "bundle")


def test_to_hear_what_is_opened_decides_nothing(ops: Any, project: Path) -> None:
    write(project, {"called.py": CALLED})
    called = __import__("called")

    def pipeline(x: str) -> Any:
        Path("data/a.txt").read_text()
        return called.reads(x)

    called.reads("x")
    clew.record(pipeline, "x")
    assert clew.record(pipeline, "x").guards == []


def test_a_path_that_is_an_input_is_nobodys_asset(ops: Any, project: Path, tmp_path: Path) -> None:
    write(project, {"called.py": CALLED})
    called = __import__("called")
    clew.record(lambda path: called.given(path), "data/a.txt").save(tmp_path / "bundle")
    assert not (tmp_path / "bundle" / "assets").exists()


# ---- what must not come along


def refusal(op: Any, tmp_path: Path, **options: Any) -> clew.ClewError:
    with pytest.raises(clew.ClewError) as caught:
        clew.record(lambda x: op(x), 1).save(tmp_path / "bundle", **options)
    assert not (tmp_path / "bundle").exists()
    return caught.value


@pytest.mark.parametrize(
    "name", [".env", ".env.local", "server.pem", "id_rsa", "tls.key", "credentials.json", ".netrc"]
)
def test_secrets_never_come_along(ops: Any, tmp_path: Path, name: str) -> None:
    write(Path.cwd(), {name: "s3cret", f"data/{name}": "s3cret"})
    for op in (ops.Holding(f"./{name}"), ops.Opening(ops.plain, name), ops.Holding("./data")):
        error = refusal(op, tmp_path, assets="anywhere")
        assert error.slug == "bundle-secret"
        assert name in str(error)


@pytest.mark.parametrize(
    "text",
    ["-----BEGIN OPENSSH PRIVATE KEY-----\n", "PuTTY-User-Key-File-3: ssh", '{"k": "-----BEGIN PRIVATE KEY-----"}'],
)
def test_a_private_key_is_known_by_what_is_in_it(ops: Any, tmp_path: Path, text: str) -> None:
    write(Path.cwd(), {"data/deploy.txt": text})
    assert refusal(ops.Holding("./data"), tmp_path).slug == "bundle-secret"


# ---- what modules read when they are imported


READING = """
    import json
    import os
    from pathlib import Path
    import clew
    HERE = Path(__file__).resolve().parent
    NAME = "b"
    with open("data/a.txt") as file:
        A = file.read()
    B = (HERE / "data" / f"{NAME}.txt").read_text()
    with open(os.path.join(os.path.dirname(__file__), "one/v.txt")) as file:
        C = file.read()
    class Table:
        D = Path("two", "v.txt").read_text() if os.path.exists("two/v.txt") else json.load(open("absent"))
    def later():
        return open("rows/rows.jsonl").read()
    if __name__ == "__main__":
        print(open("rows/rows.jsonl").read())
    @clew.op
    def run(x):
        return A + B + C + Table.D
    """


def test_a_file_that_a_module_reads_when_it_is_imported_comes_along(
    ops: Any, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, {"reads.py": READING})
    from reads import run  # type: ignore[import-not-found]

    assert elsewhere(run, tmp_path, monkeypatch) == "AB12"
    assert len(list((tmp_path / "bundle" / "assets").rglob("*.*"))) == 4
    clew.load(tmp_path / "bundle", trusted=True).save(tmp_path / "again.zip")
    shutil.rmtree(tmp_path / "bundle")
    assert clew.load(tmp_path / "again.zip", trusted=True)(x=1) == "AB12"


def test_a_module_that_opens_nobody_knows_what_is_told(project: Path, tmp_path: Path) -> None:
    text = "import clew\nname = 'words.txt'.lower\nwith open(name()) as file: W = file.read()\n"
    text += "@clew.op\ndef run(x): return W\n"
    write(project, {"unclear.py": text, "words.txt": "W"})
    from unclear import run  # type: ignore[import-not-found]

    graph = clew.record(lambda x: run(x), 1)
    with pytest.warns(UserWarning, match=r"unclear.py:3 opens a file when it is imported, and clew cannot tell which"):
        graph.save(tmp_path / "bundle")
    with pytest.warns(UserWarning, match="cannot tell which"):
        graph.save(tmp_path / "bundle", assets=["words.txt"])
    (project / "words.txt").unlink()
    assert clew.load(tmp_path / "bundle", trusted=True)(x=1) == "W"


@pytest.mark.parametrize("file", [".env", "../outside.txt"])
def test_what_a_module_reads_and_must_not_come_along_is_told(project: Path, tmp_path: Path, file: str) -> None:
    text = f"import clew\nwith open({file!r}) as file: S = file.read()\n@clew.op\ndef run(x): return S\n"
    write(project, {"secretive.py": text, file: "S"})
    from secretive import run  # type: ignore[import-not-found]

    graph = clew.record(lambda x: run(x), 1)
    with pytest.warns(UserWarning, match=r"secretive.py:2 uses .* is not in the bundle, and has to be where"):
        graph.save(tmp_path / "bundle")
    assert not (tmp_path / "bundle" / "assets").exists()
    assert clew.load(tmp_path / "bundle", trusted=True)(x=1) == "S"


# ---- outside the project


def test_files_outside_the_project_need_a_word(ops: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("far")
    (Path.cwd() / "link.txt").symlink_to(outside)
    for op in (ops.Holding(outside), ops.Opening(ops.plain, str(outside)), ops.Holding("link.txt")):
        error = refusal(op, tmp_path)
        assert error.slug == "bundle-file"
        assert "outside the project folder" in str(error) and 'assets="anywhere"' in str(error)
    (path,), _ = elsewhere(ops.Holding(outside), tmp_path, monkeypatch, assets="anywhere")
    assert path.read_text() == "far" and path != outside


@pytest.mark.parametrize("name", ["outside.txt", "folder", "link.txt"])
def test_each_remedy_of_a_refused_file_works_in_that_very_call(ops: Any, tmp_path: Path, name: str) -> None:
    (tmp_path / "outside.txt").write_text("far")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_text("far")
    Path("link.txt").symlink_to(tmp_path / "outside.txt")
    given = Path("link.txt") if name == "link.txt" else tmp_path / name
    op = ops.Holding(given)
    remedies = _remedies(refusal(op, tmp_path))
    assert len(remedies) == 3
    taken = []
    for number, remedy in enumerate(remedies):
        path = clew.record(lambda x: op(x), 1).save(tmp_path / f"bundle{number}", assets=remedy)
        ((found,), _) = clew.load(path, trusted=True)(x=1)
        taken.append(found != given)
    assert taken == [True, True, False]


@pytest.mark.parametrize("name", ["token.txt", "keys/id_rsa"])
def test_the_remedy_of_a_refused_secret_works_in_that_very_call(ops: Any, tmp_path: Path, name: str) -> None:
    Path("keys").mkdir()
    Path(name).write_text("s3cret")
    Path("keys/public.txt").write_text("public")
    op = ops.Holding(Path(name).parent if "/" in name else Path(name))
    (remedy,) = _remedies(refusal(op, tmp_path))
    path = clew.record(lambda x: op(x), 1).save(tmp_path / "bundle", assets=remedy)
    assert not list(path.rglob(Path(name).name))


def test_the_remedy_of_a_project_that_was_given_whole_works_in_that_very_call(ops: Any, tmp_path: Path) -> None:
    op = ops.Holding(Path.cwd())
    (remedy,) = _remedies(refusal(op, tmp_path))
    path = clew.record(lambda x: op(x), 1).save(tmp_path / "bundle", assets=remedy)
    assert not (path / "assets").exists()


def _remedies(error: Any) -> list[Any]:
    """The values for assets= that an error offers."""
    found = re.findall(r"assets=(\[.*?\]|\"anywhere\"|lambda path: path != '[^']*')", str(error))
    return [eval(text) for text in found]


def test_the_root_of_the_machine_is_no_project(ops: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    op = ops.Holding(Path("data/a.txt").resolve())
    monkeypatch.chdir("/")
    assert "outside the project folder (/)" in str(refusal(op, tmp_path))


def test_a_project_among_the_files_of_the_machine_has_files_of_its_own(
    ops: Any, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container, where it stands in /usr/src."""
    monkeypatch.setattr(assets, "_OF_THE_MACHINE", (f"{tmp_path}/", f"{project}/one/"))
    assert elsewhere(ops.Opening(ops.built, "a"), tmp_path, monkeypatch) == "A"


def test_the_whole_project_is_not_swept_in(ops: Any, tmp_path: Path) -> None:
    assert "holds the whole project" in str(refusal(ops.Holding(Path.cwd()), tmp_path))


def test_a_function_narrows(ops: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    op = ops.Holding("one/v.txt", "two/v.txt")
    (one, two), _ = elsewhere(op, tmp_path, monkeypatch, assets=lambda path: "two" not in path)
    assert Path(one).read_text() == "1"
    assert two == "two/v.txt"


def test_a_list_adds(ops: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    op = ops.Lazy("one/v.txt")
    elsewhere(op, tmp_path, monkeypatch, assets=["data", "two/v.txt"])
    names = {path.name for path in (tmp_path / "bundle" / "assets").rglob("*") if path.is_file()}
    assert names == {"v.txt", "a.txt", "b.txt"}


def test_a_pattern_adds_what_it_stands_for(ops: Any, tmp_path: Path) -> None:
    op = ops.Holding(1)
    clew.record(lambda x: op(x), 1).save(tmp_path / "bundle", assets=["data/*.txt", Path("**/v.txt")])
    names = sorted(path.name for path in (tmp_path / "bundle" / "assets").rglob("*.txt"))
    assert names == ["a.txt", "b.txt", "v.txt", "v.txt"]
    assert "*.none" in str(refusal(op, tmp_path / "other", assets=["*.none"]))


@pytest.mark.parametrize("assets", ["everywhere", 5])
def test_an_option_that_makes_no_sense_is_told(ops: Any, tmp_path: Path, assets: Any) -> None:
    with pytest.raises(clew.ClewError, match="is not known") as caught:
        clew.record(lambda x: x + 1, 1).save(tmp_path / "bundle", assets=assets)
    assert caught.value.slug == "bad-option"


def test_a_listed_file_that_is_not_there_is_named(ops: Any, tmp_path: Path) -> None:
    assert "assets= names gone.txt" in str(refusal(ops.Lazy("one/v.txt"), tmp_path, assets=["gone.txt"]))
    assert "is not known" in str(refusal(ops.Lazy("one/v.txt"), tmp_path, assets="everywhere"))


def test_a_constructor_that_changes_its_list_has_it_again_as_it_was(
    ops: Any, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, {"popping.py": """
        import clew
        @clew.op
        class Popping:
            def __init__(self, words):
                self.last = words.pop()
            def __call__(self, x):
                return self.last
        """})  # fmt: skip
    from popping import Popping  # type: ignore[import-not-found]

    assert elsewhere(Popping(["a", "b"]), tmp_path, monkeypatch) == "b"


def test_objects_that_cannot_be_hashed_are_operators_too(project: Path, tmp_path: Path) -> None:
    write(project, {"data_ops.py": """
        from dataclasses import dataclass
        import clew
        @clew.op
        @dataclass
        class Scale:
            by: float
            def __call__(self, x):
                return x * self.by
        @clew.op
        class Slim:
            __slots__ = ("n",)
            def __init__(self, n):
                self.n = n
            def __call__(self, x):
                return x + self.n
        """})  # fmt: skip
    from data_ops import Scale, Slim  # type: ignore[import-not-found]

    scale, slim = Scale(3), Slim(1)
    clew.record(lambda x: slim(scale(x)), 1).save(tmp_path / "bundle")
    assert clew.load(tmp_path / "bundle", trusted=True)(x=2) == 7

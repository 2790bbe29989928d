"""A saved graph runs in another process, in another folder, when its author's code and files are gone."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import time
import warnings
import weakref
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.graph.bundle import staging
from graph.bundling import project, python, reseal, write

__all__ = ["project"]  # the fixture

PROJECT = {
    "a/vocab.txt": "alpha beta gamma",
    "b/vocab.txt": "delta",
    "config.json": '{"lower": true}',
    "models/bert/weights.txt": "heavy",
    "pkg/data/stop.txt": "stop",
    "pkg/__init__.py": "from .util import clean\n",
    "pkg/util.py": """
        import re
        from helper import shout
        def clean(text):
            return re.sub(r"\\s+", " ", shout(text).lower()).strip()
        """,
    "helper.py": "def shout(text): return text.upper()\n",
    "ops.py": """
        import json
        from pathlib import Path
        import numpy as np
        import clew
        from pkg import clean

        CONFIG = "config.json"

        @clew.op
        def tidy(text):
            import helper
            return clean(text)

        @clew.op
        class Vocab:
            def __init__(self, files, model, scale=1.0):
                print("made Vocab")
                self.words = {}
                for file in files["paths"]:
                    for word in open(file).read().split():
                        self.words[word] = len(self.words)
                with open(CONFIG) as file:
                    self.config = json.load(file)
                self.model = Path("models", model, "weights.txt").read_text()
                self.stop = (Path(__file__).parent / "pkg" / "data" / "stop.txt").read_text()
                self.noise = np.random.rand(3)
                self.scale = scale

            def __call__(self, text):
                return [self.words.get(word, -1) for word in text.split()]

            def info(self, ids):
                return len(ids), self.model, self.stop, self.config, (self.noise * self.scale).tolist()
        """,
}
MAIN = """
    import json, math, sys
    from collections import namedtuple
    import numpy as np
    import clew
    from ops import Vocab, tidy

    Point = namedtuple("Point", "x y")
    K = 10
    TABLE = np.arange(5)

    def add(x):
        return x + K

    @clew.op
    def score(ids, weight=2):
        return Point(sum(ids) * weight + add(1), (TABLE[:2] * math.pi).tolist())

    double = clew.op(lambda x: x * 2)

    def make(n):
        @clew.op
        def plus(x, m=n * 2):
            return x + n + m
        return plus

    plus5 = make(5)
    vocab = Vocab({"paths": ["a/vocab.txt", "b/vocab.txt"]}, "bert", scale=2.0)
    vocab.scale = 3.0

    def pipeline(text, top=3):
        tidied = tidy(text)
        ids = vocab(tidied)
        n = double(score(ids).x) if len(tidied) > 2 else 0
        return {"ids": ids, "n": plus5(n), "score": list(score(ids)), "info": vocab.info(ids), "top": top,
                "sorted": sorted(ids, key=lambda id: -id), "doubled": clew.map(double, ids)}

    graph = clew.record(pipeline, "Alpha  beta zz")
    graph.attrs["by"] = "me"
    graph.parallel = 2
    graph.save(sys.argv[1])
    print("result", json.dumps(graph.run({"text": " beta  Alpha DELTA"})))
    """
ELSEWHERE = """
    import json, sys, warnings
    import clew
    graph = clew.load(sys.argv[1], trusted=True)
    print("result", json.dumps(graph.run({"text": " beta  Alpha DELTA"})))
    print("settings", graph.attrs, graph.parallel, graph.input_names)
    again = graph.save("again.zip")
    print("result", json.dumps(clew.load(again, trusted=True).run({"text": " beta  Alpha DELTA"})))
    """


def results(printed: str) -> list[str]:
    return [line for line in printed.splitlines() if line.startswith("result")]


@pytest.mark.parametrize("name", ["bundle", "bundle.zip"])
def test_it_gives_the_same_elsewhere_without_the_source_and_the_files(tmp_path: Path, name: str) -> None:
    project = tmp_path / "project"
    write(project, PROJECT)
    here = python(MAIN, project, str(tmp_path / "out" / name))
    shutil.rmtree(project)
    there = python(ELSEWHERE, tmp_path / "else", str(tmp_path / "out" / name))
    assert results(here)
    assert results(there) == results(here) * 2  # loaded; saved from there, and loaded again
    assert there.count("made Vocab") == 2  # once a load
    assert "settings {'by': 'me'} 2 ['text']" in there


OPS = """
    import clew

    @clew.op(side_effects=True)
    class Counting:
        made = []
        def __init__(self, start):
            self.start = start
            Counting.made.append(self)
        def up(self, x):
            self.start += 1
            return x + self.start
        def down(self, x):
            return x - self.start
    """


def counting(project: Path, name: str = "counting") -> Any:
    write(project, {f"{name}.py": OPS})
    module = __import__(name)
    counter = module.Counting(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the counter has changed
        return clew.record(lambda x: (counter.up(x), counter.down(x)), 1)


def test_an_object_of_two_operators_stays_one(project: Path) -> None:
    graph = counting(project)
    graph.save("bundle")
    loaded = clew.load("bundle", trusted=True)
    assert loaded(x=0) == (5, -5)  # up counts, and down sees it
    assert loaded(x=0) == (6, -6)


def test_loads_have_objects_of_their_own_unless_they_share(project: Path) -> None:
    counting(project).save("bundle")
    one, two = clew.load("bundle", trusted=True), clew.load("bundle", trusted=True)
    assert (one(x=0), two(x=0)) == ((5, -5), (5, -5))
    one, two = clew.load("bundle", trusted=True, share=True), clew.load("bundle", trusted=True, share=True)
    assert (one(x=0), two(x=0)) == ((5, -5), (6, -6))


def test_a_load_that_is_gone_leaves_nothing_in_memory(project: Path) -> None:
    counting(project).save("bundle")
    before = set(sys.modules)
    graph = clew.load("bundle", trusted=True)
    held = [weakref.ref(sys.modules[name]) for name in set(sys.modules) - before]
    assert held
    del graph
    gc.collect()
    assert set(sys.modules) <= before and not any(one() for one in held)


def test_functions_that_outlive_their_graph_go_on(project: Path) -> None:
    ops = """
        import clew
        @clew.op
        def run(x):
            def later():
                from . import other
                import late.other as same
                return x + other.ONE + same.ONE
            return later
        """
    write(project, {"late/__init__.py": "", "late/ops.py": ops, "late/other.py": "ONE = 1\n"})
    from late.ops import run  # type: ignore[import-not-found]

    clew.record(lambda x: run(x), 1).save("bundle")
    assert clew.load("bundle", trusted=True)(x=1)() == 3


def test_the_files_of_a_zip_are_unpacked_once_for_all_its_loads(project: Path) -> None:
    write(project, {"words.txt": "W", "keeping.py": KEEPING})
    from keeping import Keeping  # type: ignore[import-not-found]

    keeping = Keeping("words.txt")
    clew.record(lambda x: keeping(x), 1).save("bundle.zip")
    paths = {clew.load("bundle.zip", trusted=True)(x=1) for _ in range(3)}
    assert len(paths) == 1
    assert Path(paths.pop()).read_text() == "W"


KEEPING = """
    import clew
    @clew.op
    class Keeping:
        def __init__(self, path):
            self.path = path
        def __call__(self, x):
            return self.path
    """


def test_its_modules_do_not_meet_those_of_the_program(project: Path) -> None:
    counting(project).save("bundle")
    sys.modules["counting"].Counting = None  # type: ignore[attr-defined]
    loaded = clew.load("bundle", trusted=True)
    assert loaded(x=0)[0] == 5
    assert sys.modules["counting"].Counting is None  # type: ignore[attr-defined]


def test_an_error_in_loaded_code_shows_its_line(project: Path) -> None:
    write(project, {"failing.py": "import clew\n@clew.op\ndef fail(x):\n    return 1 / x  # here\n"})
    from failing import fail  # type: ignore[import-not-found]

    clew.record(lambda x: fail(x), 1).save("bundle.zip")
    with pytest.raises(ZeroDivisionError) as caught:
        clew.load("bundle.zip", trusted=True)(x=0)
    assert "# here" in str(caught.traceback[-1].statement)


def test_a_second_save_leaves_nothing_of_the_first(project: Path) -> None:
    counting(project, "first").save("bundle")
    counting(project, "second").save("bundle")
    assert not (project / "bundle" / "code" / "first.py").exists()
    assert (project / "bundle" / "code" / "second.py").exists()
    assert sorted(path.name for path in project.iterdir() if "bundle" in path.name) == ["bundle"]


def test_a_folder_that_is_no_bundle_is_not_written_over(project: Path) -> None:
    write(project, {"precious/thesis.txt": "years of work"})
    with pytest.raises(clew.ClewError, match="is no bundle"):
        counting(project).save("precious")
    assert (project / "precious" / "thesis.txt").read_text() == "years of work"


def test_a_save_that_fails_leaves_the_bundle_as_it_was(project: Path) -> None:
    counting(project).save("bundle")
    before = (project / "bundle" / "graph.json").read_bytes()
    graph = counting(project)
    graph.attrs["file"] = open(project / "counting.py")
    with graph.attrs["file"], pytest.raises(clew.ClewError, match=r"graph\.attrs cannot be saved"):
        graph.save("bundle")
    assert (project / "bundle" / "graph.json").read_bytes() == before
    assert [path.name for path in project.iterdir() if path.name.startswith(".")] == []


def test_guards_and_branches_are_as_they_were(project: Path) -> None:
    write(project, {"signs.py": "import clew\n@clew.op\ndef half(x):\n    return x / 2\n"})
    from signs import half  # type: ignore[import-not-found]

    def pipeline(x: Any, limit: Any = 10) -> Any:
        if x > limit:
            return half(x)
        return [x, {"half": half(x)}]

    graph = clew.record(pipeline, [(20, 10), (1, 10)])
    graph.save("bundle")
    loaded = clew.load("bundle", trusted=True)
    for x in (30, 2):
        assert loaded(x, 10) == graph(x, 10) == pipeline(x)
    one = clew.record(pipeline, 20)
    one.save("one")
    with pytest.raises(clew.ClewError) as expected:
        one(x=1)
    with pytest.raises(clew.ClewError) as got:
        clew.load("one", trusted=True)(x=1)
    assert str(got.value) == str(expected.value)


def test_what_was_caught_is_caught_again(project: Path) -> None:
    write(project, {"raising.py": "import clew\n@clew.op\ndef look(d, key):\n    return d[key]\n"})
    from raising import look  # type: ignore[import-not-found]

    def pipeline(d: Any) -> Any:
        try:
            return look(d, "a")
        except KeyError:
            return "none"

    for example in ({"a": 1}, {"b": 2}):
        graph = clew.record(pipeline, example)
        graph.save("bundle")
        loaded = clew.load("bundle", trusted=True)
        assert [done(loaded, d) for d in ({"a": 5}, {})] == [done(graph, d) for d in ({"a": 5}, {})]
        assert done(loaded, example) == pipeline(example)


def done(graph: Any, d: Any) -> Any:
    try:
        return graph(d=d)
    except clew.ClewError as error:
        return str(error)


def test_what_differs_is_said_with_what_matters_first(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from clew.graph.bundle import versions

    now = versions.here(["numpy", "rich"])
    major = f"{int(now['numpy'].split('.')[0]) - 1}.0.0"
    said = versions.differences({**now, "rich": "0.0.1", "numpy": major, "lost-package": "1.0", "python": "3.2.0"})
    assert [text.split()[0] for text in said] == ["lost-package", "python", "numpy", "rich"]
    assert versions.differences(now) == []


def test_a_package_is_known_by_the_modules_that_are_in_it(project: Path) -> None:
    import dateutil

    from clew.graph.bundle import versions

    found = versions.here(["dateutil"])
    assert found["dateutil"] == metadata.version("python-dateutil")
    elsewhere = f"from clew.graph.bundle import versions\nprint(versions.differences({found!r}))\n"
    assert python(elsewhere, project) == "[]\n"  # where it was not imported
    assert dateutil


def test_a_bundle_that_other_versions_cannot_read_says_so(project: Path) -> None:
    counting(project).save("bundle")

    def changed(page: Any) -> None:
        page["versions"].update(python="2.7.0")
        page["inputs"][0]["default"] = {"$": "set", "items": [[]]}

    reseal(project / "bundle", changed)
    why = r"unhashable.* made with other versions \(python 2.7.0 →.*\): install those"
    with pytest.warns(UserWarning, match="other versions"), pytest.raises(clew.ClewError, match=why):
        clew.load("bundle", trusted=True)


def test_other_versions_are_one_warning(project: Path) -> None:
    counting(project).save("bundle")
    reseal(project / "bundle", lambda page: page["versions"].update(numpy="0.1", python="2.7.0"))
    with pytest.warns(UserWarning, match="made with other versions: python 2.7.0 → 3.*, numpy 0.1 →") as caught:
        clew.load("bundle", trusted=True)
    assert len(caught) == 1


# ---- a save that does not come to its end


def test_an_interrupted_save_leaves_the_bundle_that_was_there(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clew.record(lambda x: x + 1, 1).save("bundle")

    def interrupted(*paths: Path) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(staging, "_swapped", interrupted)
    with pytest.raises(KeyboardInterrupt):
        clew.record(lambda x: x + 2, 1).save("bundle")
    assert clew.load("bundle", trusted=True)(x=1) == 2
    assert os.listdir(project) == ["bundle"]


@pytest.mark.parametrize("exchange", [True, False])
def test_a_bundle_is_replaced_with_and_without_an_exchange_in_one_step(
    project: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool
) -> None:
    if not exchange:
        monkeypatch.setattr(staging, "_swapped", lambda one, other: False)
    for number in (1, 2):
        clew.record(lambda x, number=number: x + number, 1).save("bundle")
    assert clew.load("bundle", trusted=True)(x=1) == 3
    assert os.listdir(project) == ["bundle"]


def test_a_bundle_that_another_process_puts_there_meanwhile_is_replaced(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clew.record(lambda x: x + 1, 1).save("other")
    rename = os.rename

    def overtaken(one: Any, other: Any) -> None:
        if os.path.exists("other"):
            rename("other", other)
        rename(one, other)

    monkeypatch.setattr(os, "rename", overtaken)
    clew.record(lambda x: x + 2, 1).save("bundle")
    assert clew.load("bundle", trusted=True)(x=1) == 3


def test_what_killed_saves_have_left_is_removed_by_a_later_one(project: Path) -> None:
    left, fresh = project / ".bundle.abc.clew", project / ".bundle.def.clew"
    for folder, age in ((left, 3600), (fresh, 0)):
        folder.mkdir()
        os.utime(folder, (time.time() - age,) * 2)
    clew.record(lambda x: x + 1, 1).save("bundle")
    assert sorted(os.listdir(project)) == [fresh.name, "bundle"]

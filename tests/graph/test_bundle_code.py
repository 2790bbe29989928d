"""User code in bundles: whole modules, what is used of scripts and notebooks, functions without a name."""

from __future__ import annotations

import linecache
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import clew
from graph.bundling import project, python, write

__all__ = ["project"]  # the fixture


def loaded(graph: Any, tmp_path: Path) -> Any:
    graph.save(tmp_path / "bundle")
    return clew.load(tmp_path / "bundle", trusted=True)


def code_of(tmp_path: Path) -> dict[str, str]:
    folder = tmp_path / "bundle" / "code"
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.py")}


# ---- modules


def test_the_modules_that_are_imported_come_along_and_libraries_do_not(project: Path, tmp_path: Path) -> None:
    write(
        project,
        {
            "pkg/__init__.py": "",
            "pkg/deep/__init__.py": "from .. import near\n",
            "pkg/deep/ops.py": """
                import json
                import numpy
                import clew
                from . import beside
                from ..near import NEAR
                import pkg.far as far
                @clew.op
                def run(x):
                    from late import LATE
                    return x, beside.BESIDE, NEAR, far.FAR, LATE
                """,
            "pkg/deep/beside.py": "BESIDE = 'beside'\n",
            "pkg/near.py": "NEAR = 'near'\n",
            "pkg/far.py": "FAR = 'far'\n",
            "late.py": "LATE = 'late'\n",
            "unused.py": "raise SystemExit\n",
        },
    )
    from pkg.deep.ops import run  # type: ignore[import-not-found]

    graph = loaded(clew.record(lambda x: run(x), 1), tmp_path)
    names = ["late.py", "pkg/__init__.py", "pkg/deep/__init__.py", "pkg/deep/beside.py", "pkg/deep/ops.py"]
    assert sorted(code_of(tmp_path)) == [*names, "pkg/far.py", "pkg/near.py"]
    for name in [name for name in sys.modules if name.partition(".")[0] in ("pkg", "late")]:
        del sys.modules[name]
    for path in project.rglob("*.py"):
        path.unlink()
    assert graph(x=1) == (1, "beside", "near", "far", "late")


def test_modules_that_are_imported_only_later_come_along_too(project: Path, tmp_path: Path) -> None:
    write(
        project,
        {
            "lazy/__init__.py": "",
            "lazy/ops.py": """
                import clew
                @clew.op
                def run(x):
                    if x > 1:
                        from .rare.deep import DEEP
                        from . import other
                        from lazy.rare import third as t
                        return DEEP, other.OTHER, t.THIRD
                    return x
                """,
            "lazy/rare/__init__.py": "",
            "lazy/rare/deep.py": "from ..other import OTHER\nDEEP = 'deep'\n",
            "lazy/rare/third.py": "THIRD = 'third'\n",
            "lazy/other.py": "OTHER = 'other'\n",
            "lazy/unused.py": "",
        },
    )
    from lazy.ops import run  # type: ignore[import-not-found]

    graph = loaded(clew.record(lambda x: run(x), 1), tmp_path)
    assert "lazy/unused.py" not in code_of(tmp_path)
    graph.save(tmp_path / "again.zip")
    clew.load(tmp_path / "again.zip", trusted=True).save(tmp_path / "bundle")
    for name in [name for name in sys.modules if name.partition(".")[0] == "lazy"]:
        del sys.modules[name]
    for path in project.rglob("*.py"):
        path.unlink()
    for again in (graph, clew.load(tmp_path / "bundle", trusted=True)):
        assert again(x=2) == ("deep", "other", "third")


NAMING = """
    import importlib
    import importlib.resources as resources
    import pkgutil
    from importlib import import_module
    import clew
    @clew.op
    class Plugins:
        def __init__(self, *names):
            self.found = [importlib.import_module("naming.plugins." + name).NAME for name in names]
            self.found.append(import_module(".plugins.two", __package__).NAME)
            self.found.append(__import__("naming.plugins.one", fromlist=["NAME"]).NAME)
            self.data = pkgutil.get_data("naming", "data/words.txt")
            self.text = resources.files("naming").joinpath("data/words.txt").read_text()
            self.near = resources.files(__package__).joinpath("data/words.txt").read_text()
            self.known = importlib.import_module("json").__name__, bool(importlib.util.find_spec("naming.plugins"))
        def __call__(self, x):
            return self.found, self.data, self.text, self.near, self.known
    """


def test_modules_and_files_that_are_found_by_a_text(project: Path, tmp_path: Path) -> None:
    write(project, {"naming/__init__.py": "", "naming/ops.py": NAMING, "naming/data/words.txt": "W"})
    write(project, {"naming/plugins/__init__.py": "", "naming/plugins/one.py": "NAME = 1\n"})
    write(project, {"naming/plugins/two.py": "NAME = 2\n", "naming/plugins/unused.py": ""})
    from naming.ops import Plugins  # type: ignore[import-not-found]

    plugins = Plugins("one")
    clew.record(lambda x: plugins(x), 1).save(tmp_path / "bundle")
    assert "naming/plugins/unused.py" not in code_of(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "naming"]:
        del sys.modules[name]
    shutil.rmtree(project / "naming")
    loaded = clew.load(tmp_path / "bundle", trusted=True)
    assert loaded(x=1) == ([1, 2, 1], b"W", "W", "W", ("json", True))
    loaded.save(tmp_path / "again.zip")
    shutil.rmtree(tmp_path / "bundle")
    assert clew.load(tmp_path / "again.zip", trusted=True)(x=1) == ([1, 2, 1], b"W", "W", "W", ("json", True))


def test_a_later_import_of_what_is_no_python_any_more_is_no_hindrance(project: Path, tmp_path: Path) -> None:
    ops = "import clew\n@clew.op\ndef run(x):\n    if x > 1:\n        import old\n    return x\n"
    write(project, {"newer.py": ops, "old.py": "print 'of Python 2'\n"})
    from newer import run  # type: ignore[import-not-found]

    assert loaded(clew.record(lambda x: run(x), 1), tmp_path)(x=1) == 1


def test_packages_without_an_init_file(project: Path, tmp_path: Path) -> None:
    write(project, {"bare/ops.py": "import clew\nfrom bare import other\n@clew.op\ndef run(x): return other.up(x)\n"})
    write(project, {"bare/other.py": "def up(x): return x + 1\n"})
    from bare.ops import run  # type: ignore[import-not-found]

    assert loaded(clew.record(lambda x: run(x), 1), tmp_path)(x=1) == 2


def test_a_module_that_saves_when_it_is_imported_is_not_run_as_a_whole(project: Path, tmp_path: Path) -> None:
    text = """
        import clew
        FACTOR = 3
        @clew.op
        def times(x):
            return x * FACTOR
        graph = clew.record(lambda x: times(x), 1)
        graph.save(PLACE)
        """.replace("PLACE", repr(str(tmp_path / "bundle")))
    write(project, {"saving.py": text})
    __import__("saving")
    assert "save" not in code_of(tmp_path)["saving.py"]
    assert clew.load(tmp_path / "bundle", trusted=True)(x=2) == 6


def test_a_module_that_was_edited_since_is_told(project: Path, tmp_path: Path) -> None:
    write(project, {"edited.py": "import clew\n@clew.op\ndef run(x):\n    return x + 1\n"})
    from edited import run  # type: ignore[import-not-found]

    graph = clew.record(lambda x: run(x), 1)
    write(project, {"edited.py": "import clew\n@clew.op\ndef run(x):\n    return x + 100\n"})
    with pytest.warns(UserWarning, match=r"edited.py has changed since it was imported \(run is not what is running\)"):
        graph.save(tmp_path / "bundle")


# ---- scripts


def test_of_a_script_only_what_is_used_comes_along(tmp_path: Path) -> None:
    program = """
        from __future__ import annotations
        import sys, math
        import json as j
        from functools import lru_cache
        from dataclasses import dataclass
        import clew

        print("the script runs")
        SECRET = open(__file__)     # cannot be saved, and nobody needs it
        BASE = {"a": [1, 2]}

        def register(function):
            REGISTRY.append(function.__name__)
            return function
        REGISTRY = []

        @dataclass
        class Settings:
            factor: int = 2
        settings = Settings(5)

        @lru_cache
        def cached(n): return n + len(BASE["a"])

        @register
        def helper(n: Unknown) -> Unknown:
            return even(n) and cached(n)
        def even(n): return True if n == 0 else odd(n - 1)
        def odd(n): return False if n == 0 else even(n - 1)

        FUNCTIONS = {}
        def named(function):
            FUNCTIONS[function.__name__] = function
            return function
        @named
        def third(x): return x

        @clew.op
        def first(x, SECRET=None):
            known = FUNCTIONS == {"third": third}
            return [helper(x), j.dumps(math.floor(x)), settings.factor, REGISTRY, known]

        @clew.op
        class Second(dict):
            table = BASE
            def __call__(self, x):
                return x, self.table["a"], self._inner(2)
            def _inner(self, n): return cached(n)

        second = Second()
        def pipeline(x): return second(first(x))
        clew.record(pipeline, 2).save(sys.argv[1])
        """
    python(program, tmp_path / "project", str(tmp_path / "bundle"))
    elsewhere = "import clew, sys\nprint(clew.load(sys.argv[1], trusted=True)(x=4))\n"
    printed = python(elsewhere, tmp_path / "else", str(tmp_path / "bundle"))
    assert printed == "([6, '4', 5, ['helper'], True], [1, 2], 4)\n"
    text = code_of(tmp_path)["__main__.py"]
    assert "the script runs" not in text and "pipeline" not in text and "record" not in text


def test_a_global_that_is_made_anew_leaves_no_hole_in_the_page(tmp_path: Path) -> None:
    program = """
        import sys, threading, clew
        lock = threading.Lock()
        @clew.op
        def run(x):
            with lock:
                return x
        clew.record(lambda x: run(x), 2).save(sys.argv[1])
        """
    python(program, tmp_path / "project", str(tmp_path / "bundle"))
    with pytest.raises(clew.ClewError, match="It would run: the code of __main__"):
        clew.load(tmp_path / "bundle")
    assert clew.load(tmp_path / "bundle", trusted=True)(x=1) == 1


def test_cells_of_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook's cells are compiled one by one, and its module has no file."""
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    cells = [
        "import clew\nimport numpy as np\nN = 3\n",
        "from collections import namedtuple\nPoint = namedtuple('Point', 'x')\n",
        "def helper(x):\n    return np.full(2, x * N)\n",
        "@clew.op\ndef run(x):\n    return Point(helper(x))\n",
        "@clew.op\nclass Plus:\n  def __init__(self, n): self.n = n\n  def __call__(self, p): return p.x + self.n\n",
        "plus = Plus(10)\ngraph = clew.record(lambda x: plus(run(x)), 1)\n",
    ]
    vars(main)["In"] = ["", *cells]
    for number, cell in enumerate(cells):
        name = f"/tmp/ipykernel_1/{number}.py"
        linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
        exec(compile(cell, name, "exec"), vars(main))
    assert loaded(vars(main)["graph"], tmp_path)(x=2).tolist() == [16, 16]


def test_a_global_that_cannot_be_saved_is_named(tmp_path: Path, project: Path) -> None:
    program = """
        import sys, threading
        import clew
        lock = threading.Lock()
        rows = iter([1, 2])
        @clew.op
        def run(x):
            with lock:
                return x, next(rows)
        try:
            clew.record(lambda x: run(x), 1).save("bundle")
        except clew.ClewError as error:
            print(error.slug, error)
        """
    printed = python(program, tmp_path / "script")
    assert printed.startswith("bundle-cannot-save")
    assert "the global `rows` that it uses cannot be saved" in printed


# ---- functions without a name


def test_lambdas_and_closures_are_saved_with_what_they_hold(tmp_path: Path) -> None:
    def adding(n: int, table: dict[str, int]) -> Any:
        @clew.op
        def add(x: int, more: int = n * 100) -> int:
            return x + n + table["k"] + more

        return add

    add, double = adding(1, {"k": 20}), clew.op(lambda x, by=2: x * by)
    assert loaded(clew.record(lambda x: double(add(x)), 1), tmp_path)(x=0) == 242


def test_lambdas_of_one_line_are_told_apart(tmp_path: Path) -> None:
    def pipeline(rows: Any) -> Any:
        return sorted(rows, key=lambda row: row[0]), sorted(rows, key=lambda row: row[1]), max(rows, key=lambda row: 0)

    graph = clew.record(pipeline, rows=[(1, 2)])
    rows = [(1, 9), (3, 4), (2, 5)]
    assert loaded(graph, tmp_path)(rows=rows) == pipeline(rows)


def test_classes_inside_functions(tmp_path: Path) -> None:
    offset = 5

    @clew.op
    class Local:
        def __init__(self, n: int) -> None:
            super().__init__()
            self.n = n

        def __call__(self, x: int) -> int:
            return x + self.n + offset

    local = Local(10)
    assert loaded(clew.record(lambda x: local(x), 1), tmp_path)(x=1) == 16


def test_a_function_without_source_is_an_error_that_says_where(tmp_path: Path) -> None:
    scope: dict[str, Any] = {"__name__": __name__}
    exec("def made(x): return x + 1", scope)
    made = clew.op(scope["made"])
    why = r"step 1 \(made\), .*test_bundle_code.py:\d+, cannot be saved: no (source|function)"
    with pytest.raises(clew.ClewError, match=why):
        clew.record(lambda x: made(x), 1).save(tmp_path / "bundle")


def test_two_operators_of_one_name_stay_two(tmp_path: Path) -> None:
    one, two = clew.op(lambda x: x + 1, name="same"), clew.op(lambda x: x * 10, name="same")
    assert loaded(clew.record(lambda x: (one(x), two(x)), 1), tmp_path)(x=3) == (4, 30)


def test_methods_of_every_kind(project: Path, tmp_path: Path) -> None:
    write(project, {"kinds.py": """
        import functools
        import clew
        class Plain:
            def __init__(self, n): self.n = n
            def add(self, x): return x + self.n
            @classmethod
            def of_class(cls, x): return cls.__name__, x
            @staticmethod
            def static(x): return -x
        add = clew.op(Plain(3).add)
        of_class = clew.op(Plain.of_class)
        static = clew.op(Plain.static)
        upper = clew.op(str.upper)
        @clew.op
        @functools.lru_cache
        def cached(x): return x * 7
        partial = clew.op(functools.partial(max, 5))
                """})  # fmt: skip
    import kinds  # type: ignore[import-not-found]

    def pipeline(x: Any, t: Any) -> Any:
        return kinds.add(x), kinds.of_class(x), kinds.static(x), kinds.upper(t), kinds.cached(x), kinds.partial(x)

    assert loaded(clew.record(pipeline, 1, "a"), tmp_path)(x=1, t="b") == (4, ("Plain", 1), -1, "B", 7, 5)

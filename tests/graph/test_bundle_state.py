"""State that modules got after they were imported is part of a bundle."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

import clew

from .bundling import project, python, reseal, write

__all__ = ["project"]

# name of the case → (the module, what main() does with it, the pipeline's argument)
CASES = {
    "a number": ("scale = 1\n@clew.op\ndef f(x):\n    return x * scale", "app.scale = 7"),
    "a number set by a function": (
        "scale = 1\ndef setup():\n    global scale\n    scale = 5\n@clew.op\ndef f(x):\n    return x * scale",
        "app.setup()",
    ),
    "a dictionary changed in place": (
        "config = {'k': 1}\n@clew.op\ndef f(x):\n    return x * config['k']",
        "app.config['k'] = 3",
    ),
    "a dictionary inside another": (
        "config = {'a': {'k': 1}}\n@clew.op\ndef f(x):\n    return x * config['a']['k']",
        "app.config['a']['k'] = 3",
    ),
    "a configuration object": (
        (
            "class Config:\n    def __init__(self):\n        self.k = 1\nconfig = Config()\n"
            "@clew.op\ndef f(x):\n    return x * config.k"
        ),
        "app.config.k = 4",
    ),
    "a class attribute": ("class Config:\n    k = 1\n@clew.op\ndef f(x):\n    return x * Config.k", "app.Config.k = 9"),
    "an attribute of a base class": (
        "class Base:\n    k = 1\nclass Config(Base):\n    pass\n@clew.op\ndef f(x):\n    return x * Config.k",
        "app.Base.k = 9",
    ),
    "a closure": (
        (
            "def make():\n    held = {'k': 1}\n    def inner(x):\n        return x * held['k']\n"
            "    def change():\n        held['k'] = 6\n    return inner, change\n"
            "inner, change = make()\n@clew.op\ndef f(x):\n    return inner(x)"
        ),
        "app.change()",
    ),
    "what a decorator closes over": (
        (
            "import functools\ndef counted(fn):\n    held = {'k': 1}\n    @functools.wraps(fn)\n    def inner(x):\n"
            "        return fn(x) * held['k']\n    inner.held = held\n    return inner\n"
            "@clew.op\n@counted\ndef f(x):\n    return x"
        ),
        "app.f.target.held['k'] = 8",
    ),
    "a default argument": (
        "@clew.op\ndef f(x, held={'k': 1}):\n    return x * held['k']",
        "app.f.target.__defaults__[0]['k'] = 2",
    ),
    "a keyword default": (
        "@clew.op\ndef f(x, *, held={'k': 1}):\n    return x * held['k']",
        "app.f.target.__kwdefaults__['held']['k'] = 2",
    ),
    "a function that replaces another": (
        (
            "def one(x):\n    return x + 1\ndef two(x):\n    return x + 2\nchosen = one\n"
            "@clew.op\ndef f(x):\n    return chosen(x)"
        ),
        "app.chosen = app.two",
    ),
    "a function made after the import": (
        "def make(k):\n    return lambda x: x * k\ninner = None\n@clew.op\ndef f(x):\n    return inner(x)",
        "app.inner = app.make(11)",
    ),
    "an attribute of a function": (
        "def g(x):\n    return x * g.k\ng.k = 1\n@clew.op\ndef f(x):\n    return g(x)",
        "app.g.k = 3",
    ),
    "a name that was not there": ("@clew.op\ndef f(x):\n    return x * late", "app.late = 12"),
    "a registry of functions": (
        "table = {}\ndef one(x):\n    return x + 1\n@clew.op\ndef f(x):\n    return table['one'](x)",
        "app.table['one'] = app.one",
    ),
    "what a class method uses": (
        "scale = 1\n@clew.op\nclass F:\n    def __call__(self, x):\n        return x * scale\nf = F()",
        "app.scale = 7",
    ),
    "an operator object": (
        (
            "@clew.op\nclass F:\n    shared = {'k': 1}\n    def __call__(self, x):\n"
            "        return x * self.shared['k']\n"
            "f = F()"
        ),
        "app.F.shared['k'] = 7",
    ),
    "a method that was replaced": (
        (
            "class C:\n    def one(self, x):\n        return x\ndef two(self, x):\n    return x + 2\n"
            "@clew.op\ndef f(x):\n    return C().one(x)"
        ),
        "app.C.one = app.two",
    ),
    "a decorator that is an object": (
        (
            "import functools\nclass Scaled:\n    def __init__(self, fn):\n        self.fn, self.k = fn, 1\n"
            "        functools.update_wrapper(self, fn)\n    def __call__(self, x):\n"
            "        return self.fn(x) * self.k\n"
            "@Scaled\ndef g(x):\n    return x\n@clew.op\ndef f(x):\n    return g(x)"
        ),
        "app.g.k = 5",
    ),
    "an object made on first use": (
        (
            "class Store:\n    made = None\n    k = 1\n    @classmethod\n    def get(cls):\n"
            "        cls.made = cls.made or cls()\n        return cls.made\n"
            "@clew.op\ndef f(x):\n    return x * Store.get().k"
        ),
        "app.Store.get().k = 5",
    ),
    "what makes a field of a dataclass": (
        (
            "from dataclasses import dataclass, field\nscales = [1]\n@dataclass\nclass Settings:\n"
            "    scales: list = field(default_factory=lambda: list(scales))\n"
            "@clew.op\ndef f(x):\n    return x * Settings().scales[0]"
        ),
        "app.scales[0] = 5",
    ),
    "a list of numbers": (
        "weights = [1, 1]\n@clew.op\ndef f(x):\n    return x * sum(weights)",
        "app.weights[:] = [4, 5]",
    ),
}


def recorded_in(folder: Path, module: str, change: str) -> tuple[Any, Any]:
    """A graph of a module whose state was changed after its import, and the module."""
    write(folder, {"app.py": f"import clew\n{module}\n"})
    app = importlib.import_module("app")
    exec(change, {"app": app})
    return clew.record(lambda x: app.f(x), 3), app


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_a_module_got_after_its_import_is_in_the_bundle(case: str, project: Path, tmp_path: Path) -> None:
    graph, _ = recorded_in(project, *CASES[case])
    expected = [graph(x=x) for x in (3, 5)]
    graph.save(tmp_path / "bundle")
    loaded = clew.load(tmp_path / "bundle", trusted=True)
    assert [loaded(x=x) for x in (3, 5)] == expected
    assert expected != [3, 5]  # the change is seen at all


@pytest.mark.parametrize("case", ["a dictionary changed in place", "a class attribute", "a default argument"])
def test_a_loaded_graph_is_saved_again_with_the_state(case: str, project: Path, tmp_path: Path) -> None:
    graph, _ = recorded_in(project, *CASES[case])
    graph.save(tmp_path / "one")
    clew.load(tmp_path / "one", trusted=True).save(tmp_path / "two")
    assert clew.load(tmp_path / "two", trusted=True)(x=5) == graph(x=5)


@pytest.mark.parametrize("access", ["from lib import config", "import lib", "from pkg.deep import config", "inside"])
def test_state_of_other_modules_is_found_however_they_are_imported(access: str, project: Path, tmp_path: Path) -> None:
    write(project, {"lib.py": "config = {'k': 1}\n", "pkg/__init__.py": "", "pkg/deep.py": "from lib import config\n"})
    inside = "    from lib import config\n" if access == "inside" else ""
    read = "lib.config['k']" if access == "import lib" else "config['k']"
    line = "" if inside else access
    graph, _ = recorded_in(
        project, f"{line}\n@clew.op\ndef f(x):\n{inside}    return x * {read}", "import lib; lib.config['k'] = 3"
    )
    graph.save(tmp_path / "bundle")
    assert clew.load(tmp_path / "bundle", trusted=True)(x=5) == 15


def test_two_modules_that_share_an_object_still_share_it(project: Path, tmp_path: Path) -> None:
    write(project, {"lib.py": "class Box:\n    k = 0\nbox = Box()\ndef add():\n    box.k += 1\n"})
    module = "from lib import box, add\n@clew.op\ndef f(x):\n    add()\n    return x * box.k"
    graph, _ = recorded_in(project, module, "import lib; lib.box.k = 3")
    graph.save(tmp_path / "bundle")
    assert clew.load(tmp_path / "bundle", trusted=True)(x=5) == 5 * 5  # 3, one more when recorded, one more now


def test_a_path_beside_the_code_leads_into_the_bundle(project: Path, tmp_path: Path) -> None:
    (project / "k.txt").write_text("4")
    module = (
        "from pathlib import Path\nHERE = Path(__file__).parent\nPATHS = {'k': HERE / 'k.txt'}\n"
        "class F:\n    def __init__(self):\n        self.k = int(PATHS['k'].read_text())\n"
        "    def __call__(self, x):\n        return x * self.k\nf = clew.op(F)()"
    )
    graph, _ = recorded_in(project, module, "pass")
    graph.save(tmp_path / "bundle")
    (project / "k.txt").unlink()
    program = "import clew, sys\nprint(clew.load(sys.argv[1], trusted=True)(x=5))"
    assert python(program, tmp_path / "elsewhere", str(tmp_path / "bundle")) == "20\n"


def test_state_that_cannot_be_saved_is_refused_by_name(project: Path, tmp_path: Path) -> None:
    graph, _ = recorded_in(
        project, "lines = iter([1, 2, 3, 4])\n@clew.op\ndef f(x):\n    return x * next(lines)", "next(app.lines)"
    )
    with pytest.raises(clew.ClewError, match="the global `lines` of app") as caught:
        graph.save(tmp_path / "bundle")
    assert caught.value.slug == "bundle-cannot-save"
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize("change", ["app.held.set(5)", "app.local.k = 5"])
def test_a_value_of_this_context_or_thread_is_refused(change: str, project: Path, tmp_path: Path) -> None:
    module = (
        "import contextvars, threading\nheld = contextvars.ContextVar('held', default=1)\nlocal = threading.local()\n"
        "@clew.op\ndef f(x):\n    return x * held.get() * getattr(local, 'k', 1)"
    )
    graph, _ = recorded_in(project, module, change)
    with pytest.raises(clew.ClewError, match="context or thread"):
        graph.save(tmp_path / "bundle")


def test_what_no_step_reaches_is_not_saved(project: Path, tmp_path: Path) -> None:
    graph, _ = recorded_in(project, "lines = iter([1])\nsecret = {'a': 1}\n@clew.op\ndef f(x):\n    return x", "pass")
    graph.save(tmp_path / "bundle")
    assert "secret" not in (tmp_path / "bundle" / "graph.json").read_text()


def test_a_lock_in_a_module_is_made_anew(project: Path, tmp_path: Path) -> None:
    module = "import threading\nlock = threading.Lock()\n@clew.op\ndef f(x):\n    with lock:\n        return x"
    graph, _ = recorded_in(project, module, "pass")
    graph.save(tmp_path / "bundle")
    assert clew.load(tmp_path / "bundle", trusted=True)(x=5) == 5


def test_a_mark_is_still_the_same_object(project: Path, tmp_path: Path) -> None:
    module = "missing = object()\n@clew.op\ndef f(x, y=missing):\n    return x if y is missing else 0"
    graph, _ = recorded_in(project, module, "pass")
    graph.save(tmp_path / "bundle")
    assert clew.load(tmp_path / "bundle", trusted=True)(x=5) == 5


def test_threads_and_processes_agree(project: Path) -> None:
    graph, _ = recorded_in(project, *CASES["a dictionary changed in place"])
    by_threads = list(graph.map([2, 3], workers=1))
    assert list(graph.map([2, 3], workers=1, processes=True)) == by_threads == [6, 9]


def test_a_module_whose_text_is_also_a_script_reaches_what_it_imports(tmp_path: Path) -> None:
    write(tmp_path, {"app.py": "config = {'k': 1}\ndef scaled(x):\n    return x * config['k']\n"})
    program = """
        import clew, app
        @clew.op
        def f(x):
            return app.scaled(x) + app.config["k"]
        app.config["k"] = 3
        clew.record(lambda x: f(x), 2).save("bundle")
        app.config["k"] = 100
        print(clew.load("bundle", trusted=True)(x=5))
    """
    assert python(program, tmp_path) == "18\n"


REACHING = {
    "a lambda": "f = clew.op(lambda x: x * app.config['k'])",
    "a loop": (
        "def f(xs):\n    out = []\n    for x in (xs, xs):\n        if x > 2:\n"
        "            out.append(x * app.config['k'])\n    return out[0] if out else 0"
    ),
    "a closure": "def make():\n    n = 1\n    return clew.op(lambda x: n * x * app.config['k'])\nf = make()",
    "a comprehension": "def f(x):\n    return [y * app.config['k'] for y in range(x + 1)][-1]",
    "an import inside": "@clew.op\ndef f(x):\n    import app as inner\n    return x * inner.config['k']",
    "a name imported inside": "@clew.op\ndef f(x):\n    from app import config\n    return x * config['k']",
    "a module as a default": "f = clew.op(lambda x, m=app: x * m.config['k'])",
    "a module that an object holds": (
        "import types\nheld = types.SimpleNamespace(m=app)\nf = clew.op(lambda x: x * held.m.config['k'])"
    ),
    "a module in a dictionary": (
        "modules = {'m': app}\ndef g():\n    return modules['m']\nf = clew.op(lambda x: x * g().config['k'])"
    ),
    "a module in a closure": "def make(m):\n    return clew.op(lambda x: x * m.config['k'])\nf = make(app)",
    "a name as a text": "f = clew.op(lambda x: x * getattr(app, 'config')['k'])",
    "the module's own __getattr__": "f = clew.op(lambda x: x * computing.computed)",
    "what a lambda calls": "def g():\n    import app\n    return app.config['k']\nf = clew.op(lambda x: x * g())",
}


def test_what_a_script_reaches_in_a_module_is_saved_as_it_is_now(tmp_path: Path) -> None:
    computing = "config = {'k': 1}\ndef __getattr__(name):\n    return config['k']\n"
    write(tmp_path, {"app.py": "config = {'k': 1}\n", "computing.py": computing})
    program = f"""
        import app, clew, computing
        app.config["k"] = computing.config["k"] = 3
        for number, text in enumerate({list(REACHING.values())!r}):
            name = f"case{{number}}.py"
            open(name, "w").write(text)
            exec(compile(text, name, "exec"), globals())
            clew.record(lambda x: f(x), 4).save(f"bundle{{number}}", test=False)
        app.config["k"] = computing.config["k"] = 100
        print([clew.load(f"bundle{{number}}", trusted=True)(x=5) for number in range({len(REACHING)})])
    """
    found = json.loads(python(program, tmp_path))
    assert dict(zip(REACHING, found, strict=True)) == dict.fromkeys(REACHING, 15)


def test_a_class_attribute_of_a_script_is_saved_as_it_is_now(tmp_path: Path) -> None:
    program = """
        import clew
        class Config:
            k = 1
        @clew.op
        def f(x):
            return x * Config.k
        Config.k = 3
        clew.record(lambda x: f(x), 2).save("bundle")
        Config.k = 100
        print(clew.load("bundle", trusted=True)(x=5))
    """
    assert python(program, tmp_path) == "15\n"


def test_an_address_that_leads_out_of_the_bundle_is_refused(project: Path, tmp_path: Path) -> None:
    module = "import json\nfrom json import JSONEncoder\nk = 1\n@clew.op\ndef f(x):\n    return x * k"
    graph, _ = recorded_in(project, module, "app.k = 2")
    graph.save(tmp_path / "bundle")
    address = [["name", "JSONEncoder"], ["name", "item_separator"]]
    reseal(tmp_path / "bundle", lambda page: page["modules"]["app"]["state"].append([address, "!"]))
    with pytest.raises(clew.ClewError, match="does not lead to code of the bundle"):
        clew.load(tmp_path / "bundle", trusted=True)
    assert json.JSONEncoder.item_separator == ", "


DEFAULT = "log = []\ndef count(log=log):\n    return len(log)\n"
DEFAULT += "@clew.op\ndef f(x):\n    log.append(x)\n    return count()"
SHARED = {
    "two globals": (
        "log = []\nseen = []\n@clew.op\ndef f(x):\n    log.append(x)\n    return len(seen)",
        "app.seen = app.log",
    ),
    "two dictionaries": (
        "cache = {}\nknown = {}\n@clew.op\ndef f(x):\n    cache[x] = x\n    return len(known)",
        "app.known = app.cache",
    ),
    "two sets": (
        "a = set()\nb = set()\n@clew.op\ndef f(x):\n    a.add(x)\n    return len(b)",
        "app.b = app.a",
    ),
    "a list inside a dictionary": (
        "log = []\nstate = {}\n@clew.op\ndef f(x):\n    log.append(x)\n    return len(state['log'])",
        "app.state['log'] = app.log",
    ),
    "an attribute of an object": (
        "log = []\nclass Box:\n    pass\nbox = Box()\n@clew.op\ndef f(x):\n    log.append(x)\n    return len(box.log)",
        "app.box.log = app.log",
    ),
    "an attribute of a class": (
        "log = []\nclass Box:\n    log = None\n@clew.op\ndef f(x):\n    log.append(x)\n    return len(Box.log)",
        "app.Box.log = app.log",
    ),
    "a default argument": (
        DEFAULT,
        "app.log.append(0)",
    ),
    "a default argument of a list as its text makes it": (
        DEFAULT,
        "pass",
    ),
    "a closure": (
        (
            "def pair():\n    log = []\n    def put(x):\n        log.append(x)\n"
            "    def count():\n        return len(log)\n"
            "    return put, count\nput, count = pair()\n@clew.op\ndef f(x):\n    put(x)\n    return count()"
        ),
        "app.put(7)",
    ),
    "a list that is in itself twice": (
        "row = []\nrows = []\n@clew.op\ndef f(x):\n    rows[0].append(x)\n    return len(rows[1])",
        "app.rows.extend([app.row, app.row])",
    ),
    "an operator's object": (
        (
            "log = []\n@clew.op\nclass Keeper:\n    def __init__(self, log):\n        self.log = log\n"
            "    def __call__(self, x):\n        self.log.append(x)\n        return len(log)\nf = Keeper(log)"
        ),
        "pass",
    ),
    "what an operator's constructor was given": (
        (
            "table = {}\n@clew.op\nclass Op:\n    def __init__(self, table):\n        self.table = table\n"
            "    def __call__(self, x):\n        return len(self.table)\nop = Op(table)\n"
            "@clew.op\ndef f(x):\n    if x > 3:\n        table[x] = x\n    return op(x)"
        ),
        "pass",
    ),
    "a part of what an operator's constructor has made": (
        (
            "class Inner:\n    def __init__(self):\n        self.seen = []\n"
            "@clew.op\nclass Op:\n    def __init__(self):\n        self.held = {'inner': [Inner()]}\n"
            "        self.again = self.__call__\n"
            "    def __call__(self, x):\n        return len(self.held['inner'][0].seen)\n"
            "op = Op()\nalias = op.held['inner'][0]\n"
            "@clew.op\ndef f(x):\n    if x > 3:\n        alias.seen.append(x)\n    return op(x)"
        ),
        "pass",
    ),
}


@pytest.mark.parametrize("case", SHARED)
def test_a_container_that_is_reached_in_two_ways_is_still_one(case: str, project: Path, tmp_path: Path) -> None:
    module, change = SHARED[case]
    graph, _ = recorded_in(project, module, f"import app; {change}")
    graph.save(tmp_path / "bundle")
    loaded = clew.load(tmp_path / "bundle", trusted=True)
    for x in (1, 2, 3, 4, 5):
        assert loaded(x=x) == graph(x=x)
    loaded.save(tmp_path / "again")
    again = clew.load(tmp_path / "again", trusted=True)
    assert again(x=8) == loaded(x=8)


HELD = {
    "a part of a part": ("Inner()", "op.held.deep['k'].append(7)"),
    "a counter": ("collections.Counter()", "op.held['a'] += 3"),
    "a deque": ("collections.deque([1], maxlen=2)", "op.held.extend([2, 3])"),
    "a dictionary of a class of its own": ("Table(a=1)", "op.held['a'] = 2"),
    "an object with slots": ("Slots()", "op.held.k = 2"),
    "one entry among many": ("dict.fromkeys(range(100_001), 0)", "op.held[7] = 1"),
    "an array inside an object": ("Inner()", "op.held.array[0] = 5"),
}


@pytest.mark.parametrize("case", HELD, ids=str)
def test_what_an_operator_s_object_holds_is_saved_as_it_is_now(case: str, project: Path, tmp_path: Path) -> None:
    made, change = HELD[case]
    text = f"""
        import collections
        import clew
        import numpy as np

        class Inner:
            def __init__(self):
                self.deep, self.array = {{"k": [1]}}, np.zeros(2)

        class Slots:
            __slots__ = ("k",)
            def __init__(self):
                self.k = 1

        class Table(dict):
            pass

        @clew.op
        class Op:
            def __init__(self):
                self.held = {made}
            def __call__(self, x):
                held = self.held
                if isinstance(held, Inner):
                    return held.deep, held.array.tolist()
                return held.k if isinstance(held, Slots) else list(held.items() if isinstance(held, dict) else held)[:9]

        op = Op()
        before = repr(op(0))
        """
    write(project, {"app.py": text})
    app = importlib.import_module("app")
    exec(change, {"op": app.op})
    graph = clew.record(lambda x: app.op(x), 1)
    graph.save(tmp_path / "bundle", test=False)
    loaded = clew.load(tmp_path / "bundle", trusted=True)
    assert loaded(1) == app.op(1)
    assert repr(app.op(1)) != app.before


def test_an_operator_s_object_that_its_parts_refer_to_is_saved(project: Path, tmp_path: Path) -> None:
    text = """
        import clew

        class Child:
            def __init__(self, parent):
                self.parent = parent

        @clew.op
        class Op:
            def __init__(self):
                self.factor, self.children = 2, [Child(self)]
            def __call__(self, x):
                return x * self.children[-1].parent.factor * len(self.children)

        op = Op()
        """
    write(project, {"app.py": text})
    app = importlib.import_module("app")
    app.op.children.append(app.Child(app.op))
    clew.record(lambda x: app.op(x), 1).save(tmp_path / "bundle", test=False)
    loaded = clew.load(tmp_path / "bundle", trusted=True)
    assert loaded(3) == app.op(3) == 12

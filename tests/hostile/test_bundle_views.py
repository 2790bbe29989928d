"""Looking at a bundle that anybody may have written: `clew inspect`, `clew view`, and every drawing of its graph.

Its texts are shown as texts, nothing of it is imported or run, and what is shown takes memory as its bytes do.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.commands.view import _drawn
from clew.errors import ClewError
from clew.graph.bundle.layout import Bundle
from clew.graph.bundle.untrusted_view import sketched
from clew.page.plain_json import as_json
from clew.page.query_parameters import Query
from clew.page.report import make_report
from clew.page.server import answer
from clew.page.shelf import Shelf, run_id
from graph.bundling import reseal
from hostile.reading import command
from hostile.test_trusted_names import X, bundle, named, project, step

__all__ = ["bundle", "project"]  # fixtures

MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'];end`--><!--"
TERMINAL = "\x1b]0;owned\x07\x1b[2J\r\nclew: all is well\x9b31m\u202e\u2028"
TESTS = Path(__file__).parents[1]


def say_everywhere(bundle: Path, text: str) -> None:
    """Put a text wherever the schema lets a page say something of its own."""

    def change(page: dict[str, Any]) -> None:
        page["name"] = page["clew"] = page["created"] = text
        page["versions"] = {text: text, "python": text}
        page["operators"] = [{"$": "operator", "name": text, "side_effects": False, "target": named(text)}]
        page["objects"] = [{"$": "reduced", "type": text, "call": named(text), "args": [text]}]
        page["attrs"] = {"$": "dict", "items": [[text, text]]}
        page["inputs"] = [{"id": 0, "name": "x", "default": text}]
        steps = [
            step(1, "operator", 0, X, text, {"$": "object", "number": 0}, **{text: text}),
            step(2, "function", text, {"$": "ref", "id": 1}, {"$": "tuple", "items": [text]}),
            step(3, "method", text, {"$": "ref", "id": 2}, {"$": "path", "text": text}),
            step(4, "attribute", text, {"$": "ref", "id": 3}),
            step(5, "item", text, {"$": "ref", "id": 4}, text),
        ]
        for each in steps:
            each["step"]["where"] = [text, 3]
            each["step"]["type"] = text
        guard = {"kind": "value", "ref": 5, "expected": text, "where": [text, 3], "condition": text}
        decision = {**guard, "ref": 4}
        branches = [[text, {"events": [], "output": text}], [1, {"events": [], "output": X}]]
        page["block"] = {"events": [*steps, {"guard": guard}], "decision": decision, "branches": branches}

    reseal(bundle, change)


def views(bundle: Path, out: Path) -> dict[str, str]:
    """All that shows a bundle to somebody who has not trusted it, as text."""
    graph = sketched(Bundle(str(bundle))).graph
    shown = {name: graph.show(name) for name in ("text", "mermaid", "dot", "svg")}
    shown["inspect"] = command(["inspect", str(bundle)])
    shown["inspect --code"] = command(["inspect", "--code", str(bundle)])
    shown["inspect --json"] = command(["inspect", "--json", str(bundle)])
    with ExitStack() as made:
        folder = _drawn(str(bundle), made)
        shelf = Shelf(folder.parent, [folder])
        for what in ("", "graph", "names", "tree"):
            shown[f"page {what}"] = as_json(answer(shelf, run_id(folder), what, Query({}))).decode()
        make_report(folder, out / "report.html")
        shown["report"] = (out / "report.html").read_text()
        shown["show"] = command(["show", str(folder)])
    return shown


def test_texts_of_a_bundle_are_no_markup(bundle: Path, tmp_path: Path) -> None:
    say_everywhere(bundle, MARKUP)
    shown = views(bundle, tmp_path)
    for name in ("svg", "report"):
        assert "<script>alert" not in shown[name]
        assert "<img" not in shown[name]
    assert [
        text for node in xml.etree.ElementTree.fromstring(shown["svg"]).iter() if "alert" in (text := node.tag)
    ] == []
    for name in ("inspect --json", "page graph"):
        json.loads(shown[name])
    for line in shown["dot"].splitlines():  # no text of it ends the quotes that it stands in
        assert line.replace('\\"', "").count('"') % 2 == 0
    for line in shown["mermaid"].splitlines():
        assert "<script" not in line


def test_texts_of_a_bundle_do_not_act_on_the_terminal(bundle: Path, tmp_path: Path) -> None:
    say_everywhere(bundle, TERMINAL)
    shown = views(bundle, tmp_path)
    for name in ("inspect", "inspect --code", "inspect --json", "text", "mermaid", "dot", "show"):
        assert not set(shown[name]) & set("\x1b\x07\x9b\r\u202e\u2028"), name
        assert "\nclew: all is well" not in shown[name], name


def test_looking_at_a_bundle_imports_and_runs_nothing_of_it(project: Path, tmp_path: Path) -> None:
    (project / "harmful.py").write_text(
        "import pathlib\npathlib.Path('ran').touch()\ndef double(x):\n    return 2 * x\n"
    )
    (project / "ran").unlink(missing_ok=True)
    program = (
        "import clew, harmful\nclew.record(clew.op(harmful.double), 1).save('bundle')\nimport os\nos.remove('ran')\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(project), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", program], cwd=project, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    bundle = project / "bundle"

    def add_names(page: dict[str, Any]) -> None:
        page["block"]["events"].append(step(50, "function", "antigravity:geohash", X))
        page["objects"].append({"$": "reduced", "type": "x", "call": named("this:s"), "args": []})

    reseal(bundle, add_names)
    assert "harmful.py" in views(bundle, tmp_path)["inspect"]
    assert not (project / "ran").exists()
    assert not {"harmful", "antigravity", "this"} & set(sys.modules)


def test_all_code_that_would_run_is_shown_under_its_name(bundle: Path) -> None:
    """A module's text stands in code/, and nothing says another name of it: `inspect --code` shows it."""
    text = b"print('hidden')\n"
    sealed = {"size": len(text), "sha256": hashlib.sha256(text).hexdigest()}
    for file, listed in (("assets/0/notes.txt", sealed), ("code/m.py", {**sealed, "name": "assets/0/notes.txt"})):
        folder = shutil.copytree(bundle, bundle.with_name(file.replace("/", "-")))
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(text)

        def add(page: dict[str, Any], file: str = file, listed: dict[str, Any] = listed) -> None:
            page["modules"] = {"m": {"file": file, "package": False}}
            page["files"][file] = listed

        reseal(folder, add)
        with pytest.raises(ClewError):
            command(["inspect", "--code", str(folder)])
        with pytest.raises(ClewError):
            clew.load(folder, trusted=True)


def test_code_that_is_no_text_is_damage(bundle: Path) -> None:
    (bundle / "code").mkdir(exist_ok=True)
    (bundle / "code/m.py").write_bytes(b"\xff")

    def add(page: dict[str, Any]) -> None:
        page["modules"] = {"m": {"file": "code/m.py", "package": False}}
        page["files"]["code/m.py"] = {"size": 1, "sha256": hashlib.sha256(b"\xff").hexdigest()}

    reseal(bundle, add)
    with pytest.raises(ClewError):
        command(["inspect", "--code", str(bundle)])


# ---- sizes


def _deep(depth: int) -> Any:
    inner: Any = 1
    for _ in range(depth):
        inner = {"$": "tuple", "items": [inner]}
    return inner


def _branched(depth: int) -> dict[str, Any]:
    block: dict[str, Any] = {"events": [], "output": X}
    guard = {"kind": "truth", "ref": 0, "expected": True, "where": ["x.py", 1], "condition": "x"}
    for _ in range(depth):
        other = {"events": [], "output": X}
        block = {"events": [], "decision": guard, "branches": [[True, block], [False, other]]}
    return block


def _one(given: Any) -> dict[str, Any]:
    return {"events": [step(1, "python", "made", given)], "output": {"$": "ref", "id": 1}}


PAGES: dict[str, Any] = {
    "a range without end": _one({"$": "range", "parts": [0, 10**18, 1]}),
    "an array of a huge shape": _one({"$": "numpy", "array": 0, "dtype": "<f8", "shape": [10**6] * 4}),
    "objects of a huge shape": _one({"$": "numpy objects", "items": [], "shape": [0, 10**18]}),
    "a text of ten megabytes": _one("x" * 10_000_000),
    "a list of 200,000": _one([0] * 200_000),
    "containers that are nested 300 deep": _one(_deep(300)),
    "two hundred decisions in each other": _branched(200),
    "a step with 20,000 arguments": {"events": [step(1, "python", "made", *[X] * 20_000)], "output": X},
    "1,000 steps that each need thirty": {
        "events": [
            step(n, "python", "add", *({"$": "ref", "id": m} for m in range(max(0, n - 30), n))) for n in range(1, 1000)
        ],
        "output": X,
    },
    "a number of 4,000 digits": _one(10**4000),
    "numbers of one hash": _one({"$": "set", "items": [n * sys.hash_info.modulus for n in range(30_000)]}),
    "steps whose numbers have one hash": {
        "events": [step(n * sys.hash_info.modulus, "python", "neg", X) for n in range(1, 20_000)],
        "output": X,
    },
    "an argument with a long name for a long list": {
        "events": [step(1, "python", "made", **{"x" * 4_000_000: [[0]] * 50_000})],
        "output": X,
    },
    "a step with 3,000 named arguments": {
        "events": [
            *(step(n, "python", "neg", X) for n in range(1, 3_000)),
            step(3_000, "python", "made", **{f"a{n}": {"$": "ref", "id": n} for n in range(1, 3_000)}),
        ],
        "output": X,
    },
    "a long name for 2,000 edges": {
        "events": [
            *(step(n, "python", "neg", X) for n in range(1, 2_000)),
            step(2_000, "python", "made", **{"x" * 1_000_000: [{"$": "ref", "id": n} for n in range(1, 2_000)]}),
        ],
        "output": X,
    },
    "a long file for 1,000 ways": {
        "events": [],
        "decision": {"kind": "value", "ref": 0, "expected": 0, "where": ["x" * 1_000_000, 1], "condition": "x"},
        "branches": [[n, {"events": [], "output": X}] for n in range(1_000)],
    },
}
_FIRST = {"$": "object", "number": 0}
_OPERATOR = {"$": "operator", "name": "x", "side_effects": False, "target": _FIRST}
#: Other parts of a page.
PARTS: dict[str, dict[str, Any]] = {
    "the versions of 100,000 packages": {"versions": {f"p{n}": "1" for n in range(100_000)}},
    "operators that share a long chain": {
        "objects": [
            *({"$": "method", "self": {"$": "object", "number": n}, "name": "x" * 2_000} for n in range(1, 300)),
            1,
        ],
        "operators": [_OPERATOR] * 2_000,
    },
    "objects that lead to objects": {
        "objects": [
            *({"$": "object", "number": n} for n in range(1, 10_000)),
            1,
            *(
                {"$": "reduced", "type": "x", "call": {"$": "object", "number": n}, "args": [], "state": 1}
                for n in range(10_000)
            ),
        ],
    },
    "an operator that leads to itself": {"objects": [_FIRST], "operators": [_OPERATOR]},
    "types that are nested 200 deep": {
        "output": functools.reduce(
            lambda inner, _: [{"kind": "sequence", "type": "list", "items": inner}], range(200), []
        ),
    },
    "texts that are no Unicode": {"name": "\ud800", "created": "\ud800", "versions": {"\ud800": "\ud800"}},
}
#: Too deep for `json.dumps`; in the place of this text in the page.
TOO_DEEP = "[" * 50_000 + "]" * 50_000
BOUNDED = """
import json, resource, sys
from pathlib import Path
import numpy, pyarrow
from clew.errors import ClewError
from hostile.test_bundle_views import views
taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + (1 << 30), taken + (1 << 30)))
resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
surprises = []
for bundle in Path(sys.argv[1]).iterdir():
    try:
        views(bundle, Path(sys.argv[2]))
    except ClewError:
        continue
    except Exception as error:
        surprises.append(f"{bundle.name}: {error!r:.300}")
print(json.dumps(surprises))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is bounded as Linux does it")
def test_a_bundle_that_asks_for_more_than_its_bytes_is_shown_or_refused(bundle: Path, tmp_path: Path) -> None:
    forged = tmp_path / "forged"
    for name, block in PAGES.items():
        folder = shutil.copytree(bundle, forged / name)
        reseal(folder, partial(dict.update, inputs=[{"id": 0, "name": "x"}], block=block))
    for name, parts in PARTS.items():
        reseal(shutil.copytree(bundle, forged / name), partial(dict.update, **parts))
    deep = shutil.copytree(bundle, forged / "lists that are nested 50,000 deep")
    page = json.loads((deep / "graph.json").read_text())
    text = json.dumps({**page, "block": _one("HERE")}).replace('"HERE"', TOO_DEEP).encode()
    (deep / "graph.json").write_bytes(text)
    (deep / "graph.sha256").write_text(f"{hashlib.sha256(text).hexdigest()}  graph.json\n")
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "CLEW_QUIET": "1"}
    command = [sys.executable, "-c", BOUNDED, str(forged), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == []

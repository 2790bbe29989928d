"""`clew inspect`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import clew
from clew.commands.main import main
from graph.bundling import project, reseal, write

__all__ = ["project"]  # the fixture

Captured = pytest.CaptureFixture[str]
OPS = """
    import os
    import clew
    from helping import up
    if os.path.exists("armed"):
        raise SystemExit("the code has run")

    @clew.op
    class Reader:
        def __init__(self, path, scale=2.0):
            with open(path) as file:
                self.size = len(file.read())
        def __call__(self, x):
            return up(x) + self.size
    """


@pytest.fixture
def bundle(project: Path) -> Path:
    write(project, {"ops.py": OPS, "helping.py": "def up(x): return x + 1\n", "data.txt": "abc"})
    from ops import Reader  # type: ignore[import-not-found]

    reader = Reader("data.txt", scale=3.0)

    def pipeline(x: int, top: int = 3) -> object:
        if x > 0:
            return {"read": reader(x), "top": max(x, top)}
        return None

    clew.record(pipeline, 1, 5).save("bundle")
    (project / "armed").touch()
    return project / "bundle"


def test_it_tells_what_is_inside_and_runs_nothing(bundle: Path, capsys: Captured) -> None:
    assert main(["inspect", str(bundle)]) == 0
    shown = capsys.readouterr().out
    for part in (
        "pipeline(x, top (optional)) → dict of read, top",
        "Reader  ← 1 ",
        "max  ← 1, 2 ",
        "output  ← ",
        "Reader.__call__: __call__ of ops:Reader(assets/0/data.txt, scale=3.0)",
        "`if x > 0:` (truth: True)",
        "code/helping.py",
        "assets/0/data.txt",
        f"{hashlib.sha256(b'abc').hexdigest()[:12]}        3 B",
        "python 3.",
        "builtins:max",
        f"sha256 {hashlib.sha256((bundle / 'graph.json').read_bytes()).hexdigest()}",
        "to load it is to run the code of ops, helping; the constructors of Reader",
    ):
        assert part in shown


def test_for_machines_it_is_json(bundle: Path, capsys: Captured) -> None:
    assert main(["inspect", str(bundle), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found["assets"]] == ["assets/0/data.txt"]
    assert found["inputs"] == [{"name": "x", "optional": False}, {"name": "top", "optional": True}]
    assert found["guards"][0]["expected"] == ["True"]
    assert found["size"] == sum(one["size"] for one in found["files"])
    assert found["differences"] == []


def test_it_shows_the_code_when_asked(bundle: Path, capsys: Captured) -> None:
    main(["inspect", str(bundle), "--code"])
    assert "def up(x): return x + 1" in capsys.readouterr().out


def test_what_a_bundle_says_of_itself_is_no_line_of_ours(bundle: Path, capsys: Captured) -> None:
    forged = "f\x1b[2J\nfunctions of libraries\n  none"
    reseal(bundle, lambda page: (page.update(name=forged), page["operators"][0].update(name=forged)))
    text = "x = 1 # \x1b[8mhidden\n\ty = 2\n"
    (bundle / "code" / "helping.py").write_text(text)
    said = {"size": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    reseal(bundle, lambda page: page["files"].update({"code/helping.py": said}))
    assert main(["inspect", str(bundle), "--code"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and "\n  none" not in shown
    assert "\nx = 1 # \\x1b[8mhidden\n" in shown and "  y = 2" in shown.expandtabs()


def test_a_damaged_bundle_is_told_in_a_sentence(bundle: Path, capsys: Captured) -> None:
    (bundle / "assets" / "0" / "data.txt").write_text("abd")
    assert main(["inspect", str(bundle)]) == 2
    assert "data.txt is not what it was when the bundle was made" in capsys.readouterr().err


def test_what_is_no_bundle_is_told_in_a_sentence(project: Path, capsys: Captured) -> None:
    assert main(["inspect", "nowhere"]) == 2
    assert "nowhere is not there" in capsys.readouterr().err

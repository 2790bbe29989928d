"""What Python has learned since 3.14: each piece runs as before, and what it changes is recorded."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

since_314 = pytest.mark.skipif(sys.version_info < (3, 14), reason="syntax of Python 3.14")
since_315 = pytest.mark.skipif(sys.version_info < (3, 15), reason="syntax of Python 3.15")

PRINT = """
print(*(f"{name}={run.reader()[name].values}" for name in run.reader().names), sep="\\n")
print("ledger", *(note.text for note in run.reader().ledger))
"""
Runs = Callable[..., list[str]]


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    """The lines that a program prints, among them what was recorded of it."""

    def run(program: str, *options: str) -> list[str]:
        (tmp_path / "program.py").write_text(program)
        command = ["-m", "clew", "run", *options] if options else ["-W", "error"]
        done = subprocess.run(
            [sys.executable, *command, "program.py"], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


@since_314
def test_a_template_string_is_evaluated_in_order_and_its_walrus_is_seen(runs: Runs) -> None:
    lines = runs(
        "import clew\n"
        "with clew.run() as run:\n"
        "    @clew.watch('name', 'parts')\n"
        "    def greet(name):\n"
        "        template = t'hi {name!r:>{4}} {(name := name + \"!\")}'\n"
        "        parts = [part.value for part in template.interpolations]\n"
        "        return parts\n"
        "    print(greet('bo'))\n" + PRINT
    )
    assert lines[0] == "['bo', 'bo!']"
    assert "name=['bo', 'bo!']" in lines


@since_314
def test_except_without_parentheses_catches_and_is_recorded(runs: Runs) -> None:
    lines = runs(
        "import clew\n"
        "with clew.run() as run:\n"
        "    @clew.watch('x')\n"
        "    def f(text):\n"
        "        try:\n"
        "            x = int(text)\n"
        "        except ValueError, TypeError:\n"
        "            x = -1\n"
        "        try:\n"
        "            x = x / 0\n"
        "        except* OSError, ZeroDivisionError:\n"
        "            x = -2\n"
        "        return x\n"
        "    print(f('q'), f(None))\n" + PRINT
    )
    assert lines[:2] == ["-2 -2", "x=[-1, -2, -1, -2]"]


@since_314
def test_annotations_are_not_evaluated_and_the_ledger_is_silent_about_them(runs: Runs) -> None:
    lines = runs(
        "import clew\n"
        "limit: NotThere = 2\n"
        "class Point:\n"
        "    x: Later = 0\n"
        "    def move(self, by: Later) -> Later:\n"
        "        moved: NotThere = self.x + by\n"
        "        return moved\n"
        "def helper(n: Later) -> Later:\n"
        "    class Inner:\n"
        "        y: Later = n\n"
        "        def get(self) -> Later: return self.y\n"
        "    return Inner().get() + Point().move(limit)\n"
        "with clew.run() as run:\n"
        "    print(clew.follow('moved', show=False)(helper)(3))\n"
        "Later = int\n"
        "print(Point.move.__annotations__, Point.__annotations__)\n" + PRINT
    )
    assert lines[:2] == ["5", f"{ {'by': int, 'return': int} } { {'x': int} }"]
    assert lines[-1] == "ledger"


@since_314
def test_of_a_watched_class_the_annotations_are_no_method(runs: Runs) -> None:
    lines = runs(
        "import clew\n"
        "with clew.run() as run:\n"
        "    @clew.watch('*')\n"
        "    class Point:\n"
        "        x: Later = 0\n"
        "        def move(self, by: Later):\n"
        "            moved = self.x + by\n"
        "            return moved\n"
        "    print(Point().move(1))\n" + PRINT
    )
    assert "moved=[1]" in lines and lines[-1] == "ledger"


@since_314
def test_an_annotated_program_is_watched_everywhere_without_a_word_in_the_ledger(runs: Runs) -> None:
    lines = runs(
        "import clew\n"
        "def f(n: int) -> int:\n"
        "    total: int = n\n"
        "    return total\n"
        "print(f(3))\n"
        "run = clew.current()\n" + PRINT,
        "--watch",
        "*: total",
    )
    assert lines == ["3", "total=[3]", "ledger"]


LAZY = """
import sys
lazy import wave
lazy from colorsys import rgb_to_hsv
count = 1
print("wave" in sys.modules, "colorsys" in sys.modules)
print(rgb_to_hsv(0, 0, 0), "colorsys" in sys.modules, "wave" in sys.modules)
"""


@since_315
@pytest.mark.parametrize("request_", ["<module>: *", "*: *"])
def test_watching_a_module_does_not_carry_out_its_lazy_imports(runs: Runs, request_: str) -> None:
    plain = runs(LAZY)
    assert plain[0] == "False False"
    assert runs(LAZY, "--watch", request_) == plain


@since_315
def test_a_function_that_uses_a_lazy_import_is_rewritten(runs: Runs) -> None:
    lines = runs(
        "import clew\n"
        "lazy import colorsys\n"
        "with clew.run() as run:\n"
        "    @clew.watch('hue')\n"
        "    def f(red):\n"
        "        hue = colorsys.rgb_to_hsv(red, 0, 0)[0]\n"
        "        hue = [*part for part in [[hue], [1]]]\n"
        "        return hue\n"
        "    print(f(1))\n" + PRINT
    )
    assert lines[0] == "[0.0, 1]" and lines[-1] == "ledger"
    assert "hue=[0.0, [0.0, 1]]" in lines

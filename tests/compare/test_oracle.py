"""Random programs are recorded twice with one number changed: the first difference is where it was changed.

The expected difference comes from the same program with a plain list instead of clew: the first entry that differs.
"""

from __future__ import annotations

import importlib.util
import random
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import clew

PROBES = {"watch": '@clew.watch("p", "q", "r")', "follow": "@clew.follow(show=False)"}


class Program:
    """Functions that call each other; after each statement a mark that says which name of which function it binds."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.constants = 0  # numbers in it, of which one is changed
        self.count = self.random.randint(2, 4)
        self.recursive = [place > 0 and self.random.random() < 0.3 for place in range(self.count)]
        self.source = "\n".join(self._function(place) for place in range(self.count))
        self.source += f"\ndef main():\n    for start in range({self.random.randint(1, 3)}):\n        f0(start + 1.0)\n"

    def _function(self, place: int) -> str:
        names = ["x"]
        lines = [f"def f{place}(x{', depth' if self.recursive[place] else ''}):", f"    #ARG {place} x"]
        lines += self._body(place, "    ", names, 0)
        if self.recursive[place]:
            lines += ["    if depth:", f"        q = f{place}({names[-1]} * 0.5, depth - 1)", f"        #SET {place} q"]
        return "\n".join([*lines, f"    #RETURN {place} {names[-1]}"])

    def _body(self, place: int, indent: str, names: list[str], depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self.random.randint(2, 4)):
            chance, name = self.random.random(), self.random.choice("pqr")
            if chance < 0.2 and depth < 2:
                lines.append(f"{indent}for _ in range({self.random.randint(1, 3)}):")
                lines += self._body(place, f"{indent}    ", list(names), depth + 1)
                continue
            bound = self._call(place, names) if chance < 0.6 and place + 1 < self.count else self._number(names)
            lines += [f"{indent}{name} = {bound}", f"{indent}#SET {place} {name}"]
            names += [name] if name not in names else []
        return lines

    def _call(self, place: int, names: list[str]) -> str:
        callee = self.random.randint(place + 1, self.count - 1)
        more = ", 2" if self.recursive[callee] else ""
        return f"f{callee}({self.random.choice(names)}{more})"

    def _number(self, names: list[str]) -> str:
        self.constants += 1
        one, callee = self.random.choice(names), self.random.choice(names)
        return f"{one} * 0.5 + {callee} + {self.random.randint(1, 9)} + MORE[{self.constants - 1}]"

    def plain(self, planted: int) -> list[tuple[str, str, float]]:
        """What happens, in order, as plain entries of a list."""
        text = re.sub(r"#ARG (\d) x", r"LOG.append(('f\1', 'x', x))", self.source)
        text = re.sub(r"#SET (\d) (\w)", r"LOG.append(('f\1', '\2', \2))", text)
        text = re.sub(r"( *)#RETURN (\d) (\w)", r"\1LOG.append(('f\2', 'return', \3))\n\1return \3", text)
        space: dict[str, Any] = {"LOG": [], "MORE": self.more(planted)}
        exec(text, space)
        space["main"]()
        log: list[tuple[str, str, float]] = space["LOG"]
        return log

    def more(self, planted: int) -> list[float]:
        return [0.25 if place == planted else 0.0 for place in range(self.constants)]

    def recorded(self, path: Path, probe: str, planted: int) -> Any:
        text = re.sub(r" *#(ARG|SET).*\n", "", self.source)
        text = re.sub(r"#RETURN \d (\w)", r"return \1", text)
        pattern = r"^def f0" if probe == "follow" else r"^def f"
        text = re.sub(pattern, lambda match: f"{PROBES[probe]}\n{match[0]}", text, flags=re.MULTILINE)
        path.write_text(f"import clew\nMORE = {self.more(planted)}\n{text}")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with clew.run(path.stem) as run:
            module.main()
        return run


@pytest.mark.parametrize("probe", ["watch", "follow"])
@pytest.mark.parametrize("seed", range(8))
def test_the_first_difference_is_where_a_plain_list_first_differs(
    tmp_path: Path, runs_folder: Path, seed: int, probe: str
) -> None:
    program = Program(seed)
    planted = program.random.randrange(program.constants)
    seen = ("p", "q", "r") if probe == "watch" else ("x", "return")
    pairs = zip(program.plain(-1), program.plain(planted), strict=True)
    expected = next(((*a, b[2]) for a, b in pairs if a != b and a[1] in seen), None)
    runs = [program.recorded(tmp_path / f"{probe}{seed}_{item}.py", probe, item) for item in (-1, planted)]
    difference = clew.diff(*runs, rtol=0, ignore=["(arguments)", "(result)"]).first
    assert (
        None if difference is None else (difference.function, difference.name, difference.a, difference.b)
    ) == expected

"""How long `import clew` takes, in a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.harness import ROOT, Contender, compare, duration, table, timed

TITLE = "`import clew`"


def python(program: str) -> Contender:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", program]
    return lambda: lambda: timed(lambda: subprocess.run(command, check=True, env=environment))


CONTENDERS = {
    "python -c pass": python("pass"),
    "import clew": python("import clew"),
    "import clew, a function watched": python("import clew, bisect\nclew.watch('lo')(lambda lo: lo)"),
    "import numpy, to compare": python("import numpy"),
}


def report(repeats: int, pythons: list[str]) -> str:
    result = compare(__name__, CONTENDERS, repeats=3 * repeats)
    base = result.median("python -c pass")
    rows = [
        (name, duration(result.median(name)), duration(result.median(name) - base) if number else "", "≤ 50 ms" if number == 1 else "")
        for number, name in enumerate(CONTENDERS)
    ]
    return table(["", "whole process", "more than nothing", "to reach"], rows)

"""How long `import clew` takes, in a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig

from benchmarks.harness import ROOT, Contender, compare, duration, table, timed

TITLE = "`import clew`"


def python(program: str) -> Contender:
    """Without the `.pth` files of installed packages (`-S`): some import half the standard library at every start."""
    packages = sysconfig.get_paths()["purelib"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{packages}"}
    command = [sys.executable, "-S", "-c", program]
    return lambda: lambda: timed(lambda: subprocess.run(command, check=True, env=environment))


CONTENDERS = {
    "python -c pass": python("pass"),
    "import clew": python("import clew"),
    "import clew, a function watched": python("import clew, bisect\nclew.watch('lo')(lambda lo: lo)"),
    "import numpy, to compare": python("import numpy"),
}
NOTES = {"import clew": "≤ 50 ms"}


def report(repeats: int, pythons: list[str]) -> str:
    result = compare(__name__, CONTENDERS, repeats=3 * repeats)
    base = result.median("python -c pass")
    rows = [
        (name, duration(result.median(name)), duration(max(0.0, result.median(name) - base)), NOTES.get(name, ""))
        for name in CONTENDERS
    ]
    return table(["", "whole process", "more than nothing", "to reach"], rows)

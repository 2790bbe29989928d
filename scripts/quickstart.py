"""Runs the quick start of the README as a newcomer would: in an empty folder, with the clew that is installed.

The section's Python is written to a file and run; what it prints must be the text block that follows it.
Then the section's `clew ...` lines are run. Nothing of the source tree is on the path.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def section(readme: str, title: str = "## Quick start") -> list[tuple[str, str]]:
    """The fenced blocks of a section as (language, text)."""
    body = readme.split(title + "\n", 1)[1].split("\n## ", 1)[0]
    return BLOCK.findall(body)


def normal(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def run_script(source: str, expected: str | None, folder: Path, environment: dict[str, str]) -> None:
    script = folder / "quickstart.py"
    script.write_text(source, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script.name], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"the quick start failed:\n{done.stdout}{done.stderr}")
    if expected is not None and normal(done.stdout) != normal(expected):
        sys.exit(f"the quick start printed\n{done.stdout}\ninstead of\n{expected}\n{done.stderr}")


def run_command(line: str, folder: Path, environment: dict[str, str]) -> None:
    print(f"$ {line}", flush=True)
    subprocess.run(shlex.split(line), cwd=folder, env=environment, check=True)


def main(readme: Path) -> None:
    blocks = section(readme.read_text(encoding="utf-8"))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("CLEW", "PYTHONPATH"))}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment.get('PATH', '')}"
    with tempfile.TemporaryDirectory(prefix="clew-quickstart-") as name:
        folder = Path(name)
        for number, (language, text) in enumerate(blocks):
            following = blocks[number + 1] if number + 1 < len(blocks) else ("", "")
            if language == "python":
                run_script(text, following[1] if following[0] == "text" else None, folder, environment)
            elif language == "sh":
                for line in text.splitlines():
                    if line.startswith("clew "):
                        run_command(line.split("  #")[0], folder, environment)
    print("the README's quick start works from the installed wheel")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Runs the Python of a documentation page as one program, in a folder of its own. Used by test_docs*.py."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def program(page: Path) -> str:
    """The page's ```python blocks with everything else blank, so that line numbers are the page's own."""
    text = page.read_text(encoding="utf-8")
    source, end = "", 0
    for match in BLOCK.finditer(text):
        source += "\n" * text.count("\n", end, match.start(1)) + match[1]
        end = match.end(1)
    return source


def run_page(page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs the page where its runs and logs do no harm, as a user would: no test switch but strictness."""
    script = folder / f"page_{page.stem.replace('-', '_')}.py"
    script.write_text(program(page), encoding="utf-8")
    environment = os.environ | {
        "CLEW_DIR": str(folder / "clew_runs"),
        "PYTHONPATH": str(ROOT / "src"),
        "CLEW_STRICT": "1",
    }
    return subprocess.run(
        [sys.executable, script.name],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

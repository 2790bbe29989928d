"""Takes the README's pictures: the demo, and what `clew show` prints of its run, as SVG.

.venv/bin/python scripts/pictures.py
"""

from __future__ import annotations

import io
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from clew.commands import console as speaking
from clew.commands.main import main

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"


def take(name: str, folder: str, *words: str, width: int = 130) -> None:
    """Run a command of clew's on a terminal that remembers what it showed."""
    terminal = Console(
        width=width, record=True, file=io.StringIO(), force_terminal=True, markup=False, highlight=False, emoji=False
    )
    terminal.print(f"$ clew {' '.join(words)}")
    speaking.console = lambda: terminal
    main(list(words))
    picture = terminal.export_svg(title="clew")
    machine = f"{socket.gethostname()} {platform.platform()}".replace(" ", "&#160;")
    picture = picture.replace(folder, "~/spirals").replace(machine, "laptop")
    picture = re.sub(r' textLength="[\d.]+"', "", picture)  # what was replaced is shorter than it was
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / f"{name}.svg").write_text(picture)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(ROOT / "examples" / "train.py", folder)
        os.chdir(folder)
        subprocess.run([sys.executable, "train.py"], check=True)
        take("show", folder, "show", "latest")

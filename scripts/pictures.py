"""Takes the pictures of the page that the README and the docs show, from runs of the examples: `make pictures`.

They are taken anew when the page has changed; the tests do not compare them, for fonts differ between machines.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from clew.page.serving import Served
from clew.page.shelf import Shelf

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
EXAMPLES = (["train.py"], ["train.py", "0.3"], ["pipeline.py"], ["items.py"], ["nan.py"])


def record(folder: Path) -> None:
    for words in EXAMPLES:
        environment, where = {**os.environ, "CLEW_DIR": str(folder)}, ROOT / "examples"
        subprocess.run([sys.executable, *words], cwd=where, env=environment, check=True, capture_output=True)


def terminal(folder: Path) -> None:
    """What `clew show latest` prints after the demo, as it stands in the README; whose machine it was is left out."""
    place = folder / "spirals"
    place.mkdir()
    shutil.copy(ROOT / "examples" / "train.py", place)
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": "130"}
    environment.pop("CLEW_DIR", None)
    subprocess.check_output([sys.executable, "train.py"], cwd=place, env=environment)
    show = [sys.executable, "-m", "clew", "show", "latest"]
    shown = subprocess.check_output(show, cwd=place, env=environment, text=True)
    shown = re.sub(r"\w+ (Linux|macOS)-\S+", "laptop", shown.replace(str(folder), "~"))
    console = Console(record=True, width=130, file=io.StringIO())
    console.print("$ clew show latest")
    console.print(Text.from_ansi("\n".join(line.rstrip() for line in shown.splitlines())))
    drawn = console.export_svg(title="clew")
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)  # they would be fetched from elsewhere
    (PICTURES / "show.svg").write_text(drawn, encoding="utf-8")


def take(page: Any, address: str, ids: dict[str, str]) -> None:
    """Each picture: where to go, what to wait for, what to do."""

    def go(route: str) -> None:
        page.goto("about:blank")
        page.goto(f"{address}#{route}")

    def save(name: str) -> None:
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(500)
        page.screenshot(path=PICTURES / f"{name}.png")

    go(f"/run/{ids['train.py']}/series?names=accuracy&runs={ids['train.py 0.3']}")
    page.locator(".u-over").first.wait_for()
    save("series")

    go(f"/run/{ids['pipeline.py']}/tree")
    page.get_by_role("treeitem").filter(has_text="Dataset.get").first.click()
    page.keyboard.press("ArrowRight")
    page.get_by_role("treeitem").filter(has_text="normalise").first.click()
    page.keyboard.press("ArrowRight")
    save("tree")

    go(f"/run/{ids['items.py']}/pipeline")
    page.get_by_role("table").first.wait_for()
    save("pipeline")

    go(f"/compare?a={ids['train.py']}&b={ids['train.py 0.3']}")
    page.get_by_text("First difference").first.wait_for()
    save("compare")


def main() -> None:
    from playwright.sync_api import sync_playwright

    chromium = subprocess.run(["scripts/browser"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory() as made:
        terminal(Path(made))
        record(Path(made) / "runs")
        served = Served(Shelf(Path(made) / "runs"), port=0)
        ids = {" ".join(map(str, row_argv(Path(row["path"])))): row["id"] for row in served.shelf.rows()}
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport={"width": 1280, "height": 720})
            take(page, served.address.partition("#")[0], ids)
            browser.close()
        served.close()
    print(*sorted(path.name for path in PICTURES.iterdir()))


def row_argv(folder: Path) -> list[str]:
    """How a run was called: that tells two runs of one example apart."""
    from clew.store.folder import read_meta

    program, *words = read_meta(folder)["argv"]
    return [Path(program).name, *words]


if __name__ == "__main__":
    main()

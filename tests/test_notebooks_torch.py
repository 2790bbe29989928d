"""What teaches how to follow items does what it says: the notebook, the page, the example."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from documents import ROOT, run_page

NOTEBOOK = ROOT / "docs" / "notebooks" / "following-items.ipynb"


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The notebook as it is once every cell was run; a cell that raises fails."""
    folder = tmp_path_factory.mktemp("notebook")
    environment = os.environ | {"CLEW_DIR": str(folder / "runs"), "PYTHONPATH": str(ROOT / "src"), "CLEW_STRICT": "1"}
    executed = nbformat.read(NOTEBOOK, as_version=4)
    where = {"metadata": {"path": str(folder)}}
    NotebookClient(executed, timeout=120, kernel_name="python3", resources=where).execute(env=environment)
    return executed


def shown(notebook: Any, code: str) -> list[dict[str, str]]:
    """What the cells that end with this code have shown."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.rstrip().endswith(code)]
    return [cell.outputs[-1]["data"] for cell in cells]


def test_the_notebook_finds_the_planted_mistakes_and_none_when_they_are_mended(notebook: Any) -> None:
    before, after = (data["text/plain"] for data in shown(notebook, "trace.check()"))
    assert "nan-in-data" in before
    assert "bytes-into-model" in before
    assert "ranges-differ" in before
    assert after.startswith("No warnings.")


def test_the_notebook_leads_from_a_row_to_the_broken_file(notebook: Any) -> None:
    assert shown(notebook, "Path(found.file).name")[0]["text/plain"] == "(3, 'Shapes#2', '0303.npy')"
    assert "nan 384" in shown(notebook, "trace.item(3)")[0]["text/plain"]


def test_the_notebook_shows_pictures_where_print_has_words(notebook: Any) -> None:
    display = shown(notebook, "\ntrace")[0]
    assert "<img" in display["text/html"]
    assert "stopped: the items had passed the last stage" in display["text/plain"]


def test_mending_the_data_mends_the_training(notebook: Any) -> None:
    guessing, trained = (float(data["text/plain"].strip("'").split()[-1]) for data in shown(notebook, "validation)"))
    assert guessing < 0.4
    assert trained > 0.7


def test_the_notebook_is_stored_without_results() -> None:
    cells = [cell for cell in nbformat.read(NOTEBOOK, as_version=4).cells if cell.cell_type == "code"]
    assert cells
    assert [cell.outputs for cell in cells if cell.outputs or cell.execution_count] == []


def test_the_page_about_items_does_what_it_says(tmp_path: Path) -> None:
    done = run_page(ROOT / "docs" / "pipeline.md", tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("example", ["items", "graph"])
def test_the_example_prints_what_its_page_shows(runs_folder: Path, example: str) -> None:
    environment = os.environ | {"CLEW_DIR": str(runs_folder), "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, f"examples/{example}.py"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    output = done.stdout.replace(f"{ROOT}/", "")
    assert f"```text\n{output}```" in (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")

"""The pages and the example that need torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import clew
from documents import ROOT, run_page


def test_every_example_of_ztraces_page_runs_with_its_import_line_changed(tmp_path: Path) -> None:
    done = run_page(ROOT / "docs" / "coming-from-ztrace.md", tmp_path)
    assert done.returncode == 0, done.stderr


def test_every_example_of_tensor_trackers_page_runs_with_its_import_line_changed(tmp_path: Path) -> None:
    done = run_page(ROOT / "docs" / "coming-from-tensor-tracker.md", tmp_path)
    assert done.returncode == 0, done.stderr


def test_every_example_of_tensortracers_page_runs_with_its_import_line_changed(tmp_path: Path) -> None:
    done = run_page(ROOT / "docs" / "coming-from-tensortracer.md", tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_page_about_models_does_what_it_says(tmp_path: Path) -> None:
    done = run_page(ROOT / "docs" / "model.md", tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_recipes_do_what_they_say(tmp_path: Path) -> None:
    done = run_page(ROOT / "docs" / "recipes.md", tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_nan_example_prints_what_its_page_shows(runs_folder: Path) -> None:
    environment = os.environ | {"CLEW_DIR": str(runs_folder), "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "examples/nan.py"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    output = (done.stderr + done.stdout).replace(f"{ROOT}{os.sep}", "")
    assert f"```text\n{output}```" in (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    assert clew.runs()[-1]["attention"].steps == [33, 34, 35, 36, 37]


def run_example(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"CLEW_DIR": str(folder), "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, str(ROOT / "examples" / "train.py"), *arguments]
    return subprocess.run(command, cwd=folder.parent, env=environment, capture_output=True, text=True, check=False)


def test_the_training_example_records_how_the_learning_rate_undid_it(runs_folder: Path) -> None:
    """The story its docstring tells: solved on the way, lost when the learning rate went past its limit."""
    done = run_example(runs_folder)
    assert done.returncode == 0, done.stderr
    run = clew.runs()[-1]
    accuracy = run["accuracy"].to_numpy()
    assert accuracy.max() > 0.9
    assert accuracy[-1] < 0.7
    norm = run["grad_norm"].to_numpy()
    assert norm[800:1800].mean() > 5 * norm[:300].mean()
    assert run["loss"].steps[-1] == 1999
    assert max(run['optimizer.param_groups[0]["lr"]'].values) == 2.0


SHORTER = """
import hashlib, sys
import torch
import train

accuracy_of = train.accuracy_of

def also_told(model, points, labels):
    print(hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest())
    return accuracy_of(model, points, labels)

train.STEPS, train.accuracy_of, sys.argv[1:] = 300, also_told, ["0.3"]
train.main()
"""


def test_recording_does_not_change_the_training(runs_folder: Path) -> None:
    """Bit for bit: all parameters every fifty steps, and the accuracy at the end, with and without clew."""
    paths = os.pathsep.join(str(ROOT / name) for name in ("src", "examples"))
    environment = os.environ | {"CLEW_DIR": str(runs_folder), "PYTHONPATH": paths}
    watched, plain = (
        subprocess.run(
            [sys.executable, "-c", SHORTER], env=environment | switch, capture_output=True, text=True, check=True
        ).stdout.split("(")[0]
        for switch in ({}, {"CLEW": "0"})
    )
    assert watched == plain
    assert len(plain.splitlines()) == 7
    assert "accuracy after 300 steps" in plain
    assert [len(run["loss"].steps) for run in clew.runs()] == [300]

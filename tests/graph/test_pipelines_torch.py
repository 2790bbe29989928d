"""Twelve small projects written as people write them: recorded, saved, moved, run without the project, compared.

They are in tests/samples/pipelines; each says what of it was changed for clew. An input gives what it gave in the
project, or is refused; it never gives anything else.
"""

from __future__ import annotations

import json
import pickle
import random
import shutil
import textwrap
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import ClewError
from clew.graph.bundle import fingerprints
from graph.bundling import opened, python

SAMPLES = Path(__file__).parents[1] / "samples" / "pipelines"
NAMES = sorted(path.name for path in SAMPLES.iterdir() if (path / "main.py").exists())
BRANCHING = ("audio", "ensemble")  # their examples do not go every way through their branches

RUN = """
    import json, pickle, sys, warnings
    from pathlib import Path
    import clew
    from graph.test_pipelines_torch import outcome
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1])
    found = {}
    for path in sorted(folder.glob("*.inputs")):
        graph = clew.load(folder / path.stem, trusted=True)
        found[path.stem] = [outcome(graph, given) for given in pickle.loads(path.read_bytes())]
    (folder / "found.json").write_text(json.dumps(found))
    """


def outcome(function: Callable[..., Any], given: dict[str, Any]) -> Any:
    """What comes out, in a form that can be compared with that of another process."""
    try:
        return fingerprints.fingerprint(function(**given))
    except ClewError as error:
        return ["refused", str(error)]
    except Exception as error:
        return ["raised", type(error).__name__, str(error)]


def save(name: str, folder: Path, count: int) -> list[Any]:
    """Record and save a project's pipeline; what it gives for random inputs, which are written beside the bundle."""
    project = shutil.copytree(SAMPLES / name, folder / "projects" / name)
    with opened(project, "main") as main, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline, examples = main.prepare()
        clew.record(pipeline, examples).save(folder / name)
        source = random.Random(7)
        inputs = pickle.dumps([main.random_input(source) for _ in range(count)])
        (folder / f"{name}.inputs").write_bytes(inputs)
        expected = [outcome(pipeline, given) for given in pickle.loads(inputs)]
    shutil.rmtree(project)
    return expected


Compared = dict[str, tuple[list[Any], list[Any]]]


def compared(folder: Path, names: list[str], count: int) -> Compared:
    """By project, what it gave and what its bundle gives in a process that has nothing else of it."""
    expected = {name: save(name, folder, count) for name in names}
    moved = folder.rename(folder.with_name("moved"))
    python(
        f"import sys; sys.path.insert(0, {str(SAMPLES.parents[1])!r})\n{textwrap.dedent(RUN)}",
        moved / "run",
        str(moved),
    )
    found = json.loads((moved / "found.json").read_text())
    return {name: (json.loads(json.dumps(expected[name])), found[name]) for name in names}


def tally(expected: list[Any], found: list[Any]) -> Counter[str]:
    return Counter(
        "refused" if b[0] == "refused" else "equal" if a == b else "wrong" for a, b in zip(expected, found, strict=True)
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    return compared(tmp_path_factory.mktemp("pipelines") / "here", NAMES, 12)


@pytest.mark.parametrize("name", NAMES)
def test_a_bundle_of_a_project_gives_what_the_project_gave(name: str, results: Compared) -> None:
    counts = tally(*results[name])
    assert not counts["wrong"], results[name]
    assert counts["equal"] >= 10 and (name in BRANCHING or not counts["refused"]), results[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_tested_bundle_of_a_project_gives_what_the_project_gave_for_two_hundred_inputs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEW_SELFTEST", "1")
    (tmp_path / "here").mkdir()
    counts = tally(*compared(tmp_path / "here", [name], 200)[name])
    assert not counts["wrong"] and counts["equal"] >= 190, counts

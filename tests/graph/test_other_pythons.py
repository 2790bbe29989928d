"""A bundle that one Python has made gives the same on the others: those whose environments are beside the sources."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import clew
from graph.bundling import SOURCE, opened, project, write

__all__ = ["project"]  # the fixture

ENVIRONMENTS = {"3.11": ".venv", **{f"3.{minor}": f".venv-3.{minor}" for minor in range(12, 16)}}
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"

TEXT = """
    import re
    from collections import Counter
    from dataclasses import dataclass, field
    from pathlib import Path

    import clew

    @dataclass
    class Settings:
        lowest: int = 1
        ignored: list = field(default_factory=list)  # its constructor differs from one Python to the next

    SETTINGS = Settings()

    @clew.op
    class Vocabulary:
        def __init__(self, path):
            self.ids = {word: number for number, word in enumerate(Path(path).read_text().split())}
        def __call__(self, words):
            return [self.ids.get(word, -1) for word in words]

    @clew.op
    def words_in(text):
        counts = Counter(re.findall(r"[a-z]+", text.lower()))
        return [word for word, count in counts.items() if count >= SETTINGS.lowest and word not in Settings().ignored]

    vocabulary = Vocabulary("words.txt")
    secret = 3
    shifted = clew.op(lambda numbers, by=secret: [number + by for number in numbers])

    def text(text, least=0):
        words = words_in(text)
        if len(words) > 2:
            words = words[:2]
        return {"ids": shifted(vocabulary(words)), "first": f"<{words[0]:>5}>", "least": least}
    """

NUMBERS = """
    import heapq
    import json

    import numpy as np

    import clew

    class Scaler:
        def __init__(self):
            self.mean, self.std = np.arange(3.0), np.array([1.0, 2.0, 4.0], dtype=np.float32)
        def transform(self, rows):
            return (np.asarray(rows) - self.mean) / self.std

    scaler = clew.op(Scaler().transform)

    def numbers(rows):
        scaled = scaler(rows)
        return {"scaled": scaled.tolist(), "norm": float(np.linalg.norm(scaled)), "top": int(scaled.argmax())}

    def record(record):
        total = record["price"] * record["count"]
        return json.dumps({"total": total, "tags": sorted(record["tags"])}), divmod(total, 7)

    def loop(words):
        places, best = {word: number for number, word in enumerate(words)}, None
        for word in words:
            if best is None or len(word) > len(best):
                best = word
        first = heapq.nsmallest(2, words, key=lambda word: (len(word), -places[word]))
        return {"best": best, "first": first, "total": sum(len(word) for word in words if word != best)}
    """

EXAMPLES: dict[str, list[Any]] = {
    "text": ["The cat", "The cat sat on the mat"],
    "numbers": [[[1.0, 2.0, 3.0]], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]],
    "record": [{"price": 3, "count": 4, "tags": ["b", "a"]}],
    "loop": [{"words": ["a", "bb"]}],
}
INPUTS: dict[str, list[Any]] = {
    "text": ["Cat cat mat", "a dog", "the the the mat on sat"],
    "numbers": [[[0.1, 0.2, 0.3]], [[9.0, 8.0, 7.0], [1e-9, 0.0, -1.0], [2.0, 2.0, 2.0]]],
    "record": [{"price": 5, "count": 0, "tags": []}, {"price": -3, "count": 9, "tags": ["z", "é"]}],
    "loop": [["x"], ["to", "be", "or", "not"], ["ccc", "a", "bb", "a"]],
}
RUN = """
    import json, sys, warnings
    import clew
    warnings.simplefilter("ignore")  # other versions of libraries are told
    found = {}
    for name, inputs in json.loads(sys.argv[2]).items():
        graph = clew.load(f"{sys.argv[1]}/{name}", trusted=True)
        found[name] = [graph(value) for value in inputs]
    print(json.dumps(found))
    """

ESTIMATOR = """
    import numpy as np
    import pandas as pd
    from sklearn.linear_model import LinearRegression

    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [1.0, 0.0, 1.0, 0.0]})
    model = LinearRegression().fit(frame, frame["a"] * 2 + frame["b"])

    def predict(rows):
        table = pd.DataFrame(rows, columns=["a", "b"])
        return [round(value, 9) for value in model.predict(table).tolist()]
    """


def interpreter(version: str) -> Path:
    path = SOURCE.parent / ENVIRONMENTS[version] / "bin" / "python"
    if not path.exists():
        pytest.skip(f"there is no {ENVIRONMENTS[version]}")
    return path


def elsewhere(python: Path, folder: Path, *command: str) -> str:
    """What a command prints that another Python runs, in a folder without the project."""
    folder.mkdir(exist_ok=True)
    write(folder, {"run.py": RUN})
    settings = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [str(python), *command], cwd=folder, env=settings, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


others = pytest.mark.parametrize("version", [version for version in ENVIRONMENTS if version != HERE])


Saved = tuple[Path, dict[str, list[Any]]]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """A folder of bundles, and what their pipelines give for the inputs."""
    folder = tmp_path_factory.mktemp("bundles")
    files = {"texts.py": TEXT, "numbers_and_records.py": NUMBERS, "words.txt": "the cat sat on mat"}
    write(folder / "project", files)
    expected: dict[str, list[Any]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLEW_SELFTEST", "1")
        for name in EXAMPLES:
            module = "texts" if name == "text" else "numbers_and_records"
            with opened(folder / "project", module) as app:
                pipeline = getattr(app, name)
                clew.record(pipeline, EXAMPLES[name]).save(folder / name, test=60 if name == "text" else False)
                expected[name] = json.loads(json.dumps([pipeline(value) for value in INPUTS[name]]))
    (folder / "project" / "words.txt").unlink()
    return folder, expected


@others
def test_it_gives_the_same_on_another_python(version: str, saved: Saved, tmp_path: Path) -> None:
    bundles, expected = saved
    found = elsewhere(interpreter(version), tmp_path / "elsewhere", "run.py", str(bundles), json.dumps(INPUTS))
    assert json.loads(found) == expected


@others
def test_it_can_be_tested_again_on_another_python(version: str, saved: Saved, tmp_path: Path) -> None:
    command = ("-m", "clew", "inspect", "--test", str(saved[0] / "text"), "--trusted")
    assert "what it gave when saved" in elsewhere(interpreter(version), tmp_path / "elsewhere", *command)


@others
def test_estimators_and_frames_give_the_same_on_another_python(version: str, project: Path, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    python = interpreter(version)
    write(project, {"estimator.py": ESTIMATOR})
    predict = clew.op(__import__("estimator").predict)
    clew.record(lambda rows: predict(rows), rows=[[1.0, 2.0]]).save(tmp_path / "bundle")
    inputs = [[[1.5, 2.5]], [[0.0, 0.0], [3.0, -1.0]]]
    given = json.dumps({"bundle": inputs})
    found = elsewhere(python, tmp_path / "elsewhere", "run.py", str(tmp_path), given)
    assert json.loads(found) == {"bundle": [predict(rows) for rows in inputs]}

"""What a bundle says about what it needs: requirements.txt, README.md, and the environment made from them."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clew
from clew.commands.main import main
from clew.errors import GraphError
from clew.graph.bundle import environment, versions
from clew.graph.bundle.layout import Bundle
from graph.bundling import project, reseal, write

__all__ = ["project"]  # the fixture


@clew.op
def mean(values: Any) -> Any:
    return np.mean(values)


def average(values: Any, scale: float = 2.0) -> Any:
    return mean(values) * scale


@pytest.fixture
def bundle(project: Path) -> Path:
    clew.record(average, [np.ones(3), np.ones(5)], params=True).save("bundle")
    return project / "bundle"


def rewrite(bundle: Path, name: str, text: str) -> None:
    """Change a file of a bundle and seal it again, as somebody would who wants to do harm."""
    (bundle / name).write_text(text)
    said = {"size": len(text.encode()), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    reseal(bundle, lambda page: page["files"].update({name: said}))


# ---- requirements.txt


def test_the_packages_that_steps_import_are_listed_with_their_versions(bundle: Path) -> None:
    lines = (bundle / "requirements.txt").read_text().splitlines()
    assert lines[0] == f"# Python {platform.python_version()}"
    assert f"numpy=={metadata.version('numpy')}" in lines
    assert not any(line.startswith("clew") for line in lines)  # of that name, indexes have another package


def test_packages_are_called_as_pip_calls_them(project: Path) -> None:
    pytest.importorskip("dateutil")
    write(project, {"dates.py": "from dateutil import parser\ndef year(text):\n    return parser.parse(text).year\n"})
    year = clew.op(__import__("dates").year)
    clew.record(lambda text: year(text), "2020-01-01").save("bundle")
    text = (project / "bundle" / "requirements.txt").read_text()
    assert f"python-dateutil=={metadata.version('python-dateutil')}\n" in text


def test_the_library_of_an_input_is_listed_though_only_its_methods_are_steps(project: Path) -> None:
    pandas = pytest.importorskip("pandas")
    clew.record(lambda frame: frame["a"].sum(), pandas.DataFrame({"a": [1]})).save("bundle", test=False)
    assert f"pandas=={metadata.version('pandas')}" in (project / "bundle" / "requirements.txt").read_text()


def test_neither_the_standard_library_nor_the_users_own_modules_are_listed(project: Path) -> None:
    write(project, {"mine.py": "import json\ndef text(x):\n    return json.dumps(x)\n"})
    text = clew.op(__import__("mine").text)
    clew.record(lambda x: text(x), 1).save("bundle")
    lines = (project / "bundle" / "requirements.txt").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == []


def test_a_build_of_its_own_is_listed_by_the_version_that_indexes_have(monkeypatch: pytest.MonkeyPatch) -> None:
    class Built:
        version, metadata = "2.1.0+cpu", {"Name": "torch"}

        def read_text(self, name: str) -> None:
            return None

    monkeypatch.setattr(versions, "distribution_names", lambda package: ["torch"])
    monkeypatch.setattr(metadata, "distribution", lambda name: Built())
    assert environment.requirements(["torch"], "3.11.7").splitlines()[2:] == [
        "# torch was 2.1.0+cpu: a build of its own, which package indexes may not have",
        "torch==2.1.0",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://example.org",
        "-r other.txt",
        "evil @ https://example.org/evil.whl",
        "./folder",
        "numpy",
        "numpy>=1",
        "numpy==1.0 --hash=sha256:00",
        "numpy==1.0 ; python_version > '3'",
        "\x1b[2Jnumpy==1",
    ],
)
def test_a_line_that_is_more_than_a_name_with_a_version_is_never_given_to_pip(
    bundle: Path, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rewrite(bundle, "requirements.txt", f"# Python 3\n{line}\n")
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: pytest.fail("it ran"))
    assert main(["load", "bundle", "--env", "env"]) == 2
    told = capsys.readouterr().err
    assert "is no name with a version" in told and "\x1b" not in told
    assert not Path("env").exists()


# ---- an environment


def test_an_environment_is_made_with_the_packages_and_clew_itself(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a network: what the bundle and clew need is left out, the rest is what it always is."""
    monkeypatch.setattr(environment, "_own_requirements", lambda name: [])
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    rewrite(bundle, "requirements.txt", "# Python 3\n")
    assert main(["load", "bundle", "--env", "env", "--json"]) == 0
    python = json.loads(capsys.readouterr().out)["python"]
    program = "import clew, importlib.metadata as m; print(clew.__file__, m.version('clew'))"
    command = [python, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"})
    file, version = done.stdout.split()
    assert Path(file).is_relative_to(Path("env").resolve()) and version == clew.__version__
    assert (Path("env") / "bin" / "clew").exists()


def test_what_pip_is_told_to_install(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **kwargs: Any) -> Any:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    assert main(["load", "bundle", "--env", "env"]) == 0
    assert commands[0] == [sys.executable, "-m", "venv", "env"]
    assert "--only-binary=:all:" in commands[1]
    names = [word for word in commands[1] if "==" in word]
    assert f"numpy=={metadata.version('numpy')}" in names
    assert commands[1][-1 - len(names)].endswith(".whl")


def test_a_failure_of_pip_is_told_with_its_reason(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "ERROR: no matching distribution\x1b[0m")
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: failed)
    assert main(["load", "bundle", "--env", "env"]) == 2
    told = capsys.readouterr().err
    assert "no matching distribution" in told and "\x1b" not in told


def test_a_folder_that_is_there_is_left_alone(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("env"), {"mine.txt": "x"})
    assert main(["load", "bundle", "--env", "env"]) == 2
    assert "env is there already" in capsys.readouterr().err


def test_a_bundle_of_before_has_none(bundle: Path) -> None:
    for name in ("requirements.txt", "README.md"):
        (bundle / name).unlink()
        reseal(bundle, lambda page, name=name: page["files"].pop(name))
    assert clew.load(bundle, trusted=True)(np.ones(2)) == 2.0
    with pytest.raises(GraphError) as caught:
        environment.pins(Bundle(bundle))
    assert caught.value.slug == "bundle-environment"


# ---- README.md


def test_the_readme_says_what_goes_in_what_comes_out_and_how_to_run_it(bundle: Path) -> None:
    text = (bundle / "README.md").read_text()
    assert "- `values`: `ndarray float64[*]`\n" in text
    assert "- `scale`: `float`, optional: `2.0` if it is not given\n" in text
    assert "## What comes out\n\n`float64`\n" in text
    assert 'graph = clew.load("bundle", trusted=True)' in text and "result = graph(values=...)" in text
    for line in ("clew load bundle --env env", "clew run-graph bundle --input", "clew inspect bundle\n"):
        assert line in text
    assert f"`numpy {metadata.version('numpy')}`" in text


def test_the_readme_lists_the_decisions_it_holds_for(project: Path) -> None:
    def pipeline(x: Any) -> Any:
        if x > 1:
            return mean([x])
        return x

    clew.record(pipeline, 2).save("bundle")
    assert "- `if x > 1:`\n" in (project / "bundle" / "README.md").read_text()


def test_names_cannot_break_out_of_the_readme(project: Path) -> None:
    graph = clew.record(lambda **more: mean(list(more.values())), **{"a-b": 1})
    graph.name = "x`\n\n# Trust me <script>\x1b[2J"
    graph.save("bundle")
    text = (project / "bundle" / "README.md").read_text()
    assert "\n# Trust me" not in text and "\x1b" not in text
    assert text.startswith("# `x'\\n\\n# Trust me <script>\\x1b[2J`\n")
    assert 'result = graph.run({"a-b": ...})' in text


def test_reading_it_runs_nothing(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite(bundle, "README.md", "\x1b[2J# forged\n")
    assert main(["inspect", str(bundle)]) == 0
    assert "\x1b" not in capsys.readouterr().out

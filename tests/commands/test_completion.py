"""`clew completion`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clew.commands.main import VERBS, main
from reading.writing import Written

SOURCE = str(Path(__file__).parents[2] / "src")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_knows_every_verb_and_its_options(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(verb in script for verb in VERBS)
    assert "watch" in script
    assert "parquet" in script


def test_an_unknown_shell_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["completion", "tcsh"])
    assert end.value.code == 2


def completed(tmp_path: Path, *words: str) -> list[str]:
    """What bash would offer for the last of these words."""
    command = tmp_path / "clew"
    code = "import sys; from clew.commands.main import main; sys.exit(main())"
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{SOURCE}" exec "{sys.executable}" -c "{code}" "$@"\n')
    command.chmod(0o755)
    line = " ".join(f"'{word}'" for word in ("clew", *words))
    script = (
        f'eval "$(clew completion bash)"; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _clew; echo "${{COMPREPLY[@]}}"'
    )
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=env, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash on this machine")
def test_bash_completes_verbs_options_formats_and_runs(tmp_path: Path, runs_folder: Path) -> None:
    Written(runs_folder, "120000-mine")
    assert completed(tmp_path, "ex") == ["export"]
    assert completed(tmp_path, "show", "latest", "--al") == ["--all"]
    assert completed(tmp_path, "export", "latest", "--to", "pa") == ["parquet"]
    assert completed(tmp_path, "show", "12") == ["120000-mine"]
    assert completed(tmp_path, "completion", "z") == ["zsh"]

"""The programs of docs/training-frameworks.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from documents import ROOT, run_page


def test_the_programs_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSFORMERS_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    done = run_page(ROOT / "docs" / "training-frameworks.md", tmp_path)
    assert done.returncode == 0, done.stderr

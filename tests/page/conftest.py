"""A training run and the page over it, for all tests of the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from page.asking import Page, training


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def folder(base: Path) -> Path:
    return training(base).folder


@pytest.fixture
def page(base: Path, folder: Path) -> Page:
    return Page(base)

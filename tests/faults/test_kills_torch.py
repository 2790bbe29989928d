"""The same as test_kills.py, for models."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.kills import NEEDS_TORCH, seconds_lost


@pytest.mark.parametrize("program", sorted(NEEDS_TORCH))
def test_what_a_tracer_caught_more_than_a_second_ago_is_on_disk(program: str, tmp_path: Path) -> None:
    assert seconds_lost(program, 1.5, tmp_path) < 2.0

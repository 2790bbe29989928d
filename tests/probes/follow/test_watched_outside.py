"""Functions that are watched, known to `clew.follow`, and called outside any followed call."""

from __future__ import annotations

from pathlib import Path

import pytest

import clew
from clew.recorder.recorder import Recorder


def test_a_flush_at_the_very_beginning_of_a_call_finds_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @clew.watch("doubled")
    def watched(n: int) -> int:
        doubled = 2 * n
        return doubled

    @clew.follow(show=False)
    def followed(n: int) -> int:
        return watched(n)

    arguments_at_begin = []
    begin = Recorder.begin

    def begin_and_read(recorder: Recorder, call: object) -> None:
        begin(recorder, call)  # type: ignore[arg-type]
        arguments_at_begin.extend(dict(each.args) for each in run.calls("*watched"))

    with clew.run(path=tmp_path / "run") as run:
        followed(1)
        monkeypatch.setattr(Recorder, "begin", begin_and_read)
        watched(2)
    assert arguments_at_begin == [{"n": 1}, {"n": 2}]

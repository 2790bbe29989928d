"""A run that is read while it is written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.page import opened as opened_module
from clew.page.opened import step_text
from clew.page.shelf import run_id
from history.writing import Written
from page.asking import Page


@pytest.fixture
def growing(base: Path) -> Iterator[Any]:
    written = Written(base, how="running", ended_ns=None, pid=1)
    shard = written.shard()
    call = shard.call()
    shard.change(call, "x", 1.0)
    shard.flush()
    yield written, shard, call
    shard.close()


def test_what_was_written_since_is_seen_and_the_version_grows(growing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    written, shard, call = growing
    page = Page(written.folder.parents[1])
    monkeypatch.setattr(opened_module, "SECONDS", 0.0)
    monkeypatch.setattr(opened_module, "PATIENCE", 0.0)
    before = page.of(written.folder)
    assert page.of(written.folder, "series", name="x")["total"] == 1
    shard.change(call, "x", 2.0)
    shard.flush()
    assert page.of(written.folder, "version")["version"] > before["version"]
    assert page.of(written.folder, "series", name="x")["y"] == [1.0, 2.0]


def test_a_run_is_not_read_again_at_once(growing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    written, shard, call = growing
    page = Page(written.folder.parents[1])
    monkeypatch.setattr(opened_module, "SECONDS", 1000.0)
    monkeypatch.setattr(opened_module, "LONGEST", 1000.0)
    page.of(written.folder, "series", name="x")
    shard.change(call, "x", 2.0)
    shard.flush()
    assert page.of(written.folder, "series", name="x")["total"] == 1


def test_the_version_is_told_while_an_answer_is_being_made(growing: Any) -> None:
    written, _, _ = growing
    page = Page(written.folder.parents[1])
    page.of(written.folder)
    opened = page.shelf.opened(run_id(written.folder))
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with opened:
            held.set()
            done.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(20)
    try:
        assert page.of(written.folder, "version")["version"] == opened.version
    finally:
        done.set()
        thread.join()


def test_many_questions_at_once_are_all_answered(page: Page, folder: Path) -> None:
    found: list[int] = []

    def ask() -> None:
        found.append(page.of(folder, "series", name="loss")["total"])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [12] * 8


@pytest.mark.parametrize(("step", "text"), [(None, None), (3, "3"), (3.0, "3"), (0.5, "0.5"), ("warm up", "warm up")])
def test_a_step_is_told_as_people_write_it(step: Any, text: str | None) -> None:
    assert step_text(step) == text


def test_a_long_run_is_prepared_while_nobody_asks(page: Page, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened_module, "LONG", 1)
    made: list[str] = []
    monkeypatch.setattr("clew.page.curves.curve_of", lambda opened, name, axis: made.append(name))
    page.of(folder)
    page.of(folder)
    assert made == ["loss", "weight"]


def test_a_long_run_has_the_curve_it_begins_with_made_first_while_nobody_asks(
    growing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, shard, call = growing
    for name in (*"abcdefg", "val_loss"):
        shard.change(call, name, 1.0)
    shard.flush()
    opened = Page(written.folder.parents[1]).shelf.opened(run_id(written.folder))
    made: list[str] = []
    monkeypatch.setattr("clew.page.curves.curve_of", lambda opened, name, axis: made.append(name))
    opened.warm()
    assert made == []  # it is short
    monkeypatch.setattr(opened_module, "LONG", 1)
    opened.warm()
    opened.warm()
    assert made == ["val_loss", "x", "a", "b", "c", "d"]

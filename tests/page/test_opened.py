"""A run that is read while it is written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.page import open_run as opened_module
from clew.page.open_run import step_text
from clew.page.shelf import run_id
from page.asking import Page
from reading.writing import Written


@pytest.fixture
def growing(base: Path) -> Iterator[Any]:
    writer = Written(base, how="running", ended_ns=None, pid=1)
    shard = writer.shard()
    call = shard.call()
    shard.change(call, "x", 1.0)
    shard.flush()
    yield writer, shard, call
    shard.close()


def test_what_was_written_since_is_seen_and_the_version_grows(growing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, shard, call = growing
    page = Page(writer.folder.parents[1])
    monkeypatch.setattr(opened_module, "SECONDS", 0.0)
    monkeypatch.setattr(opened_module, "PATIENCE", 0.0)
    before = page.of(writer.folder)
    assert page.of(writer.folder, "series", name="x")["total"] == 1
    shard.change(call, "x", 2.0)
    shard.flush()
    assert page.of(writer.folder, "version")["version"] > before["version"]
    assert page.of(writer.folder, "series", name="x")["y"] == [1.0, 2.0]


def test_a_run_is_not_read_again_at_once(growing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, shard, call = growing
    page = Page(writer.folder.parents[1])
    monkeypatch.setattr(opened_module, "SECONDS", 1000.0)
    monkeypatch.setattr(opened_module, "LONGEST", 1000.0)
    page.of(writer.folder, "series", name="x")
    shard.change(call, "x", 2.0)
    shard.flush()
    assert page.of(writer.folder, "series", name="x")["total"] == 1


def test_the_version_is_reported_while_an_answer_is_being_made(growing: Any) -> None:
    writer, _, _ = growing
    page = Page(writer.folder.parents[1])
    page.of(writer.folder)
    opened = page.shelf.opened(run_id(writer.folder))
    holder, finished_event = threading.Event(), threading.Event()

    def hold() -> None:
        with opened:
            holder.set()
            finished_event.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    holder.wait(20)
    try:
        assert page.of(writer.folder, "version")["version"] == opened.version
    finally:
        finished_event.set()
        thread.join()


def test_many_questions_at_once_are_all_answered(page: Page, folder: Path) -> None:
    answers: list[int] = []

    def ask() -> None:
        answers.append(page.of(folder, "series", name="loss")["total"])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [12] * 8


@pytest.mark.parametrize(("step", "text"), [(None, None), (3, "3"), (3.0, "3"), (0.5, "0.5"), ("warm up", "warm up")])
def test_a_step_is_reported_as_people_write_it(step: Any, text: str | None) -> None:
    assert step_text(step) == text


def test_a_long_run_is_prepared_between_requests(page: Page, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened_module, "LONG", 1)
    computed: list[str] = []
    monkeypatch.setattr("clew.page.curves.curve_of", lambda opened, name, axis: computed.append(name))
    page.of(folder)
    page.of(folder)
    assert computed == ["loss", "weight"]


def test_a_long_run_has_the_curve_it_begins_with_made_first_between_requests(
    growing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, shard, call = growing
    for name in (*"abcdefg", "val_loss"):
        shard.change(call, name, 1.0)
    shard.flush()
    opened = Page(writer.folder.parents[1]).shelf.opened(run_id(writer.folder))
    computed: list[str] = []
    monkeypatch.setattr("clew.page.curves.curve_of", lambda opened, name, axis: computed.append(name))
    opened.warm()
    assert computed == []  # it is short
    monkeypatch.setattr(opened_module, "LONG", 1)
    opened.warm()
    opened.warm()
    assert computed == ["val_loss", "x", "a", "b", "c", "d"]

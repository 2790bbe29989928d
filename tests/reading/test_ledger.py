"""What was asked for and not seen, from all processes."""

from __future__ import annotations

from pathlib import Path

from clew.reading.ledger import Ledger
from clew.records import Note
from reading.writing import Written


def test_equal_notes_of_several_processes_are_one_and_counted(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    for rank in (0, 1):
        shard = writer.shard(rank)
        shard.note("dropped", "w", "over budget", count=3)
        shard.close()
    (note,) = writer.open().ledger
    assert (note.kind, note.subject, note.count) == ("dropped", "w", 6)


def test_what_one_process_missed_and_another_saw_is_not_missing(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    main, worker = writer.shard(0), writer.shard(1)
    main.change(main.call("train", at=0), "loss", 1.0)
    worker.note("never-called", "train()", "train() was watched and never called.")
    worker.note("never-seen", "loss", "never came into being")
    worker.note("never-seen", "los", "never came into being")
    main.close()
    worker.close()
    assert [note.subject for note in writer.open().ledger] == ["los"]


def test_a_note_that_names_a_function_and_an_expression_is_judged_by_both(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    main, worker = writer.shard(0), writer.shard(1)
    main.change(main.call("train", at=0), "loss", 1.0)
    worker.note("never-seen", "train: loss", "never came into being")
    worker.note("never-seen", "test: loss", "never came into being")
    main.close()
    worker.close()
    assert [note.subject for note in writer.open().ledger] == ["test: loss"]


def test_a_single_process_is_taken_at_its_word(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    shard.change(shard.call("f"), "loss", 1.0)
    shard.note("never-seen", "loss", "in g it never came into being")
    shard.close()
    assert len(writer.open().ledger) == 1


def test_it_prints_a_line_a_note() -> None:
    ledger = Ledger([Note("never-seen", "los", "never came into being"), Note("dropped", "", "3 batches", 3)])
    assert str(ledger).splitlines() == ["never-seen  los: never came into being", "dropped  3 batches (×3)"]
    assert str(Ledger([])) == "everything asked for was seen and kept"
    assert ledger[:1] == [ledger[0]]


def test_a_name_that_another_function_had_is_still_missing_where_it_was_not(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    main, worker = writer.shard(0), writer.shard(1)
    main.change(main.call("train", at=0), "loss", 1.0)
    main.note("never-seen", "loss", "`loss` was never there in evaluate(), a.py:3.")
    worker.note("never-seen", "loss", "`loss` was never there in train(), a.py:1.")
    main.close()
    worker.close()
    (note,) = writer.open().ledger
    assert "evaluate()" in note.text

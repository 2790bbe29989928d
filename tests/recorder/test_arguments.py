"""What a call was given and gave back, and the thread it ran in."""

from __future__ import annotations

import threading

import clew
from clew.records import Kept, NotKept
from clew.values import type_name


class Cfg:
    def __init__(self) -> None:
        self.secret = 1


@clew.watch("x")
def given(n: int, cfg: Cfg) -> Cfg:
    x = n
    return cfg


def test_arguments_read_back_as_scalars_or_as_the_type_that_was_noted() -> None:
    with clew.run() as run:
        given(3, Cfg())
    (call,) = run.calls("given")
    assert list(call.args) == ["n", "cfg"]
    assert call.args["n"] == 3
    cfg = call.args["cfg"]
    assert type(cfg) is NotKept
    assert (cfg.type, cfg.kept, cfg.why) == (type_name(Cfg), Kept.OPAQUE, "only its type was noted")


def test_a_result_reads_back_as_the_type_that_was_noted() -> None:
    with clew.run() as run:
        given(3, Cfg())
    (call,) = run.calls("given")
    assert type(call.result) is NotKept
    assert (call.result.type, call.result.kept) == (type_name(Cfg), Kept.OPAQUE)


def test_a_thread_that_ended_before_the_drain_keeps_its_name() -> None:
    with clew.run() as run:
        thread = threading.Thread(target=given, args=(1, None), name="loader-7")
        thread.start()
        thread.join()
    (call,) = run.calls("given")
    assert call.thread == "loader-7"


def test_a_thread_that_changes_its_name_keeps_the_one_it_had_at_the_call() -> None:
    def work() -> None:
        given(1, Cfg())
        threading.current_thread().name = "later"

    with clew.run() as run:
        thread = threading.Thread(target=work, name="before")
        thread.start()
        thread.join()
    (call,) = run.calls("given")
    assert call.thread == "before"

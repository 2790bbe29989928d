"""`clew.items` and `clew.traceable`: how many are let through, how the program ends, whose each call is."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clew
from clew.errors import OptionError, TargetError
from clew.instrument.code_swap import Swap
from clew.probes.pipeline import stages, trace_recording


@pytest.fixture(autouse=True)
def nothing_stays_behind() -> Iterator[None]:
    start = threading.Thread.start
    yield
    assert not Swap._all
    assert not trace_recording.open_traces()
    assert stages._live == 0
    assert threading.Thread.start is start


def pipeline() -> tuple[Any, Any, Any]:
    """Three stages that hand an array on."""

    @clew.stage("load", result="row")
    def load(i: int) -> Any:
        return np.full(2, float(i))

    @clew.stage("clean")
    def clean(row: Any) -> Any:
        return row + 1

    @clew.stage("score")
    def score(row: Any) -> float:
        return float(row.sum())

    return load, clean, score


def counts(trace: clew.Trace) -> dict[str, int]:
    return {stage.name: len(stage) for stage in trace}


def test_a_loop_ends_when_the_items_have_passed_every_stage() -> None:
    load, clean, score = pipeline()
    done = []
    with clew.items(3) as trace:
        for i in range(1000):
            done.append(score(clean(load(i))))
    assert done == [2.0, 4.0, 6.0]
    assert counts(trace) == {"load": 3, "clean": 3, "score": 3}
    assert trace.facts.state == "stopped"
    assert [item.id for item in trace.items] == [0, 1, 2]


def test_stages_worked_through_one_after_the_other_are_all_reached() -> None:
    load, clean, score = pipeline()
    with clew.items(2) as trace:
        rows = [load(i) for i in range(10)]
        rows = [clean(row) for row in rows]
        scores = [score(row) for row in rows]
    assert len(scores) == 10
    assert counts(trace) == {"load": 2, "clean": 2, "score": 2}
    assert [call.ids for call in trace.score] == [(0,), (1,)]


def test_a_program_with_one_stage_ends_after_the_items(monkeypatch: pytest.MonkeyPatch) -> None:
    @clew.stage("only")
    def only(i: int) -> int:
        return i

    monkeypatch.setattr(stages, "_registered", [r for r in stages._registered if r.function is only])
    monkeypatch.setattr(stages, "_around", [])
    seen = []
    with clew.items(2) as trace:
        for i in range(100):
            seen.append(only(i))
    assert seen == [0, 1]
    assert len(trace.only) == 2


def test_numbers_are_followed_by_where_they_are_used() -> None:
    @clew.stage("a")
    def a(i: int) -> int:
        return i + 1

    @clew.stage("b")
    def b(i: int) -> int:
        return i * 2

    with clew.items(3) as trace:
        for i in range(10):
            b(a(i))
    assert [(call.stage, call.ids) for call in trace.calls] == [
        (stage, (item,)) for item in range(3) for stage in ("a", "b")
    ]


def test_what_all_items_have_in_common_tells_nothing_of_whose_they_are() -> None:
    shared = {"mean": np.zeros(2)}

    @clew.stage("load")
    def load(i: int) -> dict[str, Any]:
        return {"x": np.full(2, i), "options": shared}

    @clew.stage("clean")
    def clean(sample: dict[str, Any]) -> Any:
        return sample["x"]

    with clew.items(3) as trace:
        samples = [load(i) for i in range(3)]
        for sample in reversed(samples):
            clean(sample)
    assert [call.ids for call in trace.clean] == [(2,), (1,), (0,)]


def test_a_buffer_that_is_used_again_is_the_item_s_that_was_put_into_it_last() -> None:
    buffer = np.zeros(2)

    @clew.stage("load")
    def load(i: int) -> Any:
        buffer[:] = i
        return buffer

    @clew.stage("clean")
    def clean(row: Any) -> Any:
        return row * 2

    with clew.items(3) as trace:
        for i in range(9):
            clean(load(i))
    assert [(call.ids, call.result.tolist()) for call in trace.clean] == [((i,), [2 * i] * 2) for i in range(3)]


def test_fewer_items_than_were_asked_for_are_all_there_and_it_says_so() -> None:
    load, clean, _ = pipeline()
    with clew.items(10) as trace:
        for i in range(4):
            clean(load(i))
    assert len(trace.load) == 4
    assert trace.facts.state == "finished"
    assert trace.notes == ["load had 4 items; 10 were asked for"]


def test_where_nothing_was_reached_it_says_what_to_do() -> None:
    with clew.items(3) as trace:
        pass
    assert len(trace) == 0
    assert trace.notes == ["no stage was reached: put @clew.stage on the functions the items pass"]


def test_generators_end_as_if_there_were_no_more_and_what_waits_is_still_given() -> None:
    @clew.stage("read")
    def read() -> Iterator[int]:
        yield from range(1000)

    @clew.stage("batch", result="batch")
    def batch(rows: Any, size: int) -> Iterator[Any]:
        waiting = []
        for row in rows:
            waiting.append(row)
            if len(waiting) == size:
                yield np.array(waiting)
                waiting = []
        if waiting:
            yield np.array(waiting)

    @clew.stage("model")
    def model(batch: Any) -> Any:
        return batch * 2

    with clew.items(5) as trace:
        for _ in range(3):  # epochs
            for group in batch(read(), 2):
                model(group)
    assert [call.ids for call in trace.model] == [(0, 1), (2, 3), (4,)]
    assert [call.batch_number for call in trace.model] == [0, 1, 2]
    assert trace.item(3).row == 1
    assert trace.lineage(batch=1, row=0).id == 2
    assert [step.outputs for step in trace.item(3)["model"]] == [{"result": 6}]


def test_a_generator_that_leaves_items_out_says_where_identity_was_lost() -> None:
    @clew.stage("read")
    def read() -> Iterator[int]:
        yield from range(100)

    @clew.stage("even")
    def even(rows: Any) -> Iterator[list[int]]:
        for row in rows:
            if row % 2:
                yield [row * 1000]

    with clew.items(4) as trace:
        list(even(read()))
    assert [call.ids for call in trace.even] == [(0, 1), (2, 3)]
    assert "which of them it is made of is not known" in trace.even[0].lost


def test_what_is_called_inside_a_stage_is_about_the_same_item() -> None:
    @clew.stage("decode")
    def decode(text: str) -> int:
        return int(text)

    @clew.stage("load")
    def load(i: int) -> int:
        return decode("5") + decode("6")

    with clew.items(2) as trace:
        for i in range(2):
            load(i)
    assert [call.ids for call in trace.decode] == [(0,), (0,), (1,), (1,)]
    assert [call.passage.parent for call in trace.decode] == [call.passage.key for call in trace.load for _ in range(2)]


def test_items_may_be_called_what_the_user_likes() -> None:
    @clew.stage("load")
    def load(i: int) -> dict[str, Any]:
        return {"name": f"file-{i}", "x": np.zeros(1)}

    @clew.stage("use")
    def use(sample: dict[str, Any]) -> None: ...

    with clew.items(2, id="name") as trace:
        for i in range(9):
            use(load(i))
    assert [item.id for item in trace.items] == ["file-0", "file-1"]
    assert trace.item("file-1").stages == ["load", "use"]


def test_an_id_that_fails_is_told_and_the_number_is_used() -> None:
    load, clean, _ = pipeline()
    with clew.items(1, id=lambda row: row["nothing"]) as trace:
        for i in range(9):
            clean(load(i))
    assert [item.id for item in trace.items] == [0]
    assert any("id= gave no name" in note for note in trace.notes)


def test_the_files_an_item_was_read_from_are_known(tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / f"{i}.txt").write_text(str(i))

    @clew.stage("load")
    def load(i: int) -> str:
        return (tmp_path / f"{i}.txt").read_text()

    @clew.stage("use")
    def use(text: str) -> None: ...

    with clew.items(2) as trace:
        for i in range(3):
            use(load(i))
    assert [item.files for item in trace.items] == [(str(tmp_path / "0.txt"),), (str(tmp_path / "1.txt"),)]


def test_an_archive_in_which_modules_are_looked_for_is_no_file_of_an_item(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "modules.zip"
    archive.write_bytes(b"")
    monkeypatch.syspath_prepend(str(archive))

    @clew.stage("load")
    def load(i: int) -> bytes:
        return archive.read_bytes()

    with clew.items(1) as trace:
        load(0)
    assert trace.items[0].files == ()


# ---- ends


def test_an_error_leaves_the_block_and_the_trace_up_to_there() -> None:
    load, clean, _ = pipeline()
    with pytest.raises(ZeroDivisionError), clew.items(5) as trace:
        clean(load(0))
        1 / 0
    assert counts(trace) == {"load": 1, "clean": 1}
    assert (trace.facts.state, trace.error) == ("failed", "ZeroDivisionError: division by zero")


def test_ctrl_c_leaves_nothing_behind() -> None:
    load, _, _ = pipeline()
    with pytest.raises(KeyboardInterrupt), clew.items(5) as trace:
        load(0)
        raise KeyboardInterrupt
    assert len(trace.load) == 1


def test_the_end_passes_handlers_of_exceptions_but_is_not_an_error_of_the_block() -> None:
    load, clean, _ = pipeline()
    caught = []
    with clew.items(1) as trace:
        for i in range(5):
            try:
                clean(load(i))
            except Exception as error:
                caught.append(error)
    assert not caught
    assert counts(trace) == {"load": 1, "clean": 1}


def test_a_framework_that_makes_another_exception_of_the_end_does_not_fail() -> None:
    load, clean, _ = pipeline()
    with clew.items(1) as trace:
        try:
            for i in range(5):
                clean(load(i))
        except BaseException as error:
            raise RuntimeError("the trainer failed") from error
    assert trace.facts.state == "stopped"


def test_a_trace_is_read_from_the_run_afterwards() -> None:
    load, clean, _ = pipeline()
    with clew.run("kept") as run:
        with clew.items(2) as first:
            for i in range(9):
                clean(load(i))
        with clew.items(1):
            clean(load(5))
    again = clew.open(run.path)
    assert [counts(trace) for trace in again.traces] == [{"load": 2, "clean": 2}, {"load": 1, "clean": 1}]
    assert again.trace["load"][0].row.tolist() == [5.0, 5.0]
    assert str(again.traces[0]) == str(first)
    assert again.traces[0].facts == first.facts


def test_a_trace_can_be_read_while_it_is_open() -> None:
    load, clean, _ = pipeline()
    with clew.items(3) as trace:
        clean(load(0))
        assert counts(trace) == {"load": 1, "clean": 1}
        clean(load(1))
        assert counts(trace) == {"load": 2, "clean": 2}


def test_a_run_without_a_trace_says_how_one_is_made() -> None:
    with clew.run("plain") as run:
        pass
    with pytest.raises(KeyError, match=r"A trace is made by `with clew\.items"):
        _ = clew.open(run.path).trace


def test_where_nothing_can_be_stored_the_trace_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CLEW_DIR", str(tmp_path / "file" / "below"))
    load, clean, _ = pipeline()
    with clew.items(2) as trace:
        for i in range(9):
            clean(load(i))
    assert counts(trace) == {"load": 2, "clean": 2}
    assert trace.clean[1].result.tolist() == [2.0, 2.0]
    assert trace.path == ""


def test_switched_off_nothing_is_traced_and_nothing_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    load, clean, _ = pipeline()
    monkeypatch.setenv("CLEW", "0")
    with clew.items(2) as trace:
        assert len([clean(load(i)) for i in range(5)]) == 5
    assert len(trace) == 0
    assert trace.notes == ["clew is switched off: nothing is traced"]


# ---- several at once


def test_a_trace_inside_a_trace_takes_what_is_its_own() -> None:
    load, clean, _ = pipeline()
    with clew.items(5) as outer:
        clean(load(0))
        with clew.items(2) as inner:
            for i in range(10, 20):
                clean(load(i))
        clean(load(1))
    assert [call.i for call in outer.load] == [0, 1]
    assert [call.i for call in inner.load] == [10, 11]


def test_traces_of_two_threads_do_not_mix() -> None:
    load, clean, _ = pipeline()
    found: dict[int, Any] = {}
    both = threading.Barrier(2)

    def work(first: int) -> None:
        with clew.items(20) as trace:
            both.wait(10)
            for i in range(first, first + 100):
                clean(load(i))
        found[first] = trace

    threads = [threading.Thread(target=work, args=(first,)) for first in (0, 1000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for first, trace in found.items():
        assert [call.i for call in trace.load] == list(range(first, first + 20))
        assert [call.ids for call in trace.clean] == [(number,) for number in range(20)]


def test_a_thread_started_inside_belongs_to_the_trace_and_another_one_does_not() -> None:
    load, clean, _ = pipeline()
    go, done = threading.Event(), threading.Event()

    def other() -> None:
        go.wait(10)
        clean(load(99))
        done.set()

    stranger = threading.Thread(target=other)
    stranger.start()
    with clew.items(5) as trace:
        inside = threading.Thread(target=lambda: clean(load(1)), name="helper")
        inside.start()
        inside.join()
        go.set()
        done.wait(10)
    stranger.join()
    assert [(call.i, call.passage.where) for call in trace.load] == [(1, "thread helper")]


# ---- keep="last batch"


def test_the_last_batch_is_written_when_the_program_fails() -> None:
    load, clean, score = pipeline()
    with pytest.raises(ValueError, match="bad row"), clew.items(keep="last batch") as trace:
        for i in range(500):
            row = clean(load(i))
            if i == 321:
                raise ValueError("bad row")
            score(row)
    assert [call.i for call in trace.load][-1] == 321
    assert len(trace.load) <= 2
    assert clew.open(trace.path).trace.clean[-1].result.tolist() == [322.0, 322.0]


def test_a_stage_that_fails_is_what_the_ring_shows() -> None:
    load, clean, _ = pipeline()

    @clew.stage("fit")
    def fit(row: Any) -> None:
        if row[0] == 42:
            raise RuntimeError("diverged")

    with pytest.raises(RuntimeError), clew.items(keep="last batch") as trace:
        for i in range(500):
            fit(clean(load(i)))
    assert [(call.stage, call.ids) for call in trace.calls] == [("load", (41,)), ("clean", (41,)), ("fit", (41,))]
    assert trace.fit[0].error == "RuntimeError: diverged"


def test_a_program_that_does_not_fail_leaves_no_passages() -> None:
    load, clean, _ = pipeline()
    with clew.items(keep="last batch") as trace:
        for i in range(50):
            clean(load(i))
    assert len(trace) == 0
    assert trace.facts.state == "finished"


# ---- clew.traceable


def test_a_verb_without_trace_is_what_it_was() -> None:
    load, clean, _ = pipeline()

    @clew.traceable
    def verb(n: int, scale: float = 1.0) -> list[Any]:
        return [clean(load(i)) * scale for i in range(n)]

    for nothing in ({}, {"trace": 0}, {"trace": None}, {"trace": False}):
        assert len(verb(5, **nothing)) == 5  # type: ignore[arg-type]
    assert clew.current() is None
    assert list(inspect.signature(verb).parameters) == ["n", "scale", "trace"]


def test_a_verb_with_trace_gives_the_trace() -> None:
    load, clean, _ = pipeline()

    class Trainer:
        @clew.traceable
        def train(self, n: int) -> str:
            for i in range(n):
                clean(load(i))
            return "trained"

    trace: Any = Trainer().train(100, trace=3)  # type: ignore[call-arg]
    assert counts(trace) == {"load": 3, "clean": 3}
    assert counts(Trainer().train(100, trace=True)) == {"load": 1, "clean": 1}  # type: ignore[arg-type,call-arg]


def test_an_async_verb_waits_and_gives_the_trace() -> None:
    import asyncio

    load, clean, _ = pipeline()

    @clew.traceable
    async def verb() -> str:
        for i in range(9):
            clean(load(i))
        return "done"

    assert asyncio.run(verb()) == "done"
    assert counts(asyncio.run(verb(trace=2))) == {"load": 2, "clean": 2}  # type: ignore[call-arg,arg-type]


def test_a_verb_that_has_a_parameter_trace_or_is_no_function_is_refused() -> None:
    with pytest.raises(OptionError, match="has a parameter `trace` of its own"):

        @clew.traceable
        def verb(trace: int) -> None: ...

    with pytest.raises(TargetError, match="is no function"):
        clew.traceable(3)  # type: ignore[type-var]


@pytest.mark.parametrize("wrong", ["x", -1, 2.5])
def test_a_verb_takes_a_number_of_items(wrong: Any) -> None:
    @clew.traceable
    def verb() -> None: ...

    with pytest.raises(OptionError, match="takes a number of items"):
        verb(trace=wrong)  # type: ignore[call-arg]


# ---- bad input


@pytest.mark.parametrize("wrong", [0, -3, "3", 2.5, True])
def test_a_number_of_items_is_one_or_more(wrong: Any) -> None:
    with pytest.raises(OptionError, match="a number of 1 or more"):
        clew.items(wrong)


def test_options_that_make_no_sense_say_what_they_take() -> None:
    with pytest.raises(OptionError, match="was not told how many items"):
        clew.items()
    with pytest.raises(OptionError, match=r"There is keep='last batch'"):
        clew.items(3, keep="everything")
    with pytest.raises(OptionError, match="id= is a function or a name"):
        clew.items(3, id=5)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="no plug-in"), clew.items(3, auto=["tensorflow"]):
        pass


def test_one_block_is_entered_once() -> None:
    block = clew.items(3)
    with pytest.raises(OptionError, match="already open"), block, block:
        pass


# ---- against an oracle


def filtering(keep: list[bool], size: int) -> tuple[Any, Any, Any, Any]:
    """A pipeline of generators that leaves rows out and puts the others into batches."""

    @clew.stage("read", result="row")
    def read() -> Iterator[Any]:
        for number in range(len(keep)):
            yield np.array([float(number)])

    @clew.stage("filter", result="row")
    def chosen(rows: Any) -> Iterator[Any]:
        for row in rows:
            if keep[int(row[0])]:
                yield row

    @clew.stage("batch", result="batch")
    def batched(rows: Any) -> Iterator[Any]:
        waiting: list[Any] = []
        for row in rows:
            waiting.append(row)
            if len(waiting) == size:
                yield waiting
                waiting = []
        if waiting:
            yield waiting

    @clew.stage("stack")
    def stack(rows: Any) -> Any:
        return np.stack(rows)

    return read, chosen, batched, stack


@settings(max_examples=settings().max_examples * 2 // 5)
@given(
    st.lists(st.booleans(), max_size=12),
    st.integers(1, 8),
    st.integers(1, 4),
)
def test_whatever_is_filtered_and_batched_items_keep_their_names(keep: list[bool], wanted: int, size: int) -> None:
    """Rows carry their own number as their value, so that the trace can be held against it."""

    read, chosen, batched, stack = filtering(keep, size)
    with clew.items(wanted) as trace:
        for group in batched(chosen(read())):
            stack(group)
    seen = range(min(wanted, len(keep)))
    expected = [number for number in seen if keep[number]]
    assert [item.id for item in trace.items] == list(seen)
    assert [call.ids for call in trace.stages.get("filter", [])] == [(number,) for number in expected]
    stacked = trace.stages.get("stack", [])
    assert [call.ids for call in stacked] == [tuple(expected[at : at + size]) for at in range(0, len(expected), size)]
    for call in stacked:
        assert call.result[:, 0].tolist() == [float(id) for id in call.ids]

"""The call tree while the program runs."""

from __future__ import annotations

import gc
import io
import os
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew import trouble
from clew.records import DELETED
from clew.show import live_printer
from clew.show.live_printer import LivePrinter
from show.fakes import FakeNode


class Stream(io.StringIO):
    """Remembers each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return super().write(text)

    @property
    def lines(self) -> list[str]:
        return self.getvalue().splitlines()


@pytest.fixture
def stream() -> Stream:
    return Stream()


@pytest.fixture
def printer(stream: Stream) -> LivePrinter:
    return LivePrinter(stream)


def called(printer: LivePrinter, node: FakeNode, result: Any = None, **how: Any) -> None:
    printer.begin(node)
    printer.end(node.ended(result, **how))


# ---- as it happens


def test_everything_is_printed_as_it_happens(printer: LivePrinter, stream: Stream) -> None:
    root = FakeNode("train", [("x", np.zeros(3))], callers=[("/x/a.py", 283, "f"), ("b.py", 57, "g")])
    printer.begin(root)
    assert stream.lines == ["train  mod.py:1  (a.py:283 <- b.py:57)", "├─ x: float64 (3,)"]
    inner = FakeNode("scale", [("n", 2)], root, line=9)
    printer.begin(inner)
    printer.change(inner, "y", 12, 0.5, 0.25)
    printer.message(inner, "n is 2")
    assert stream.lines[2:] == ["├─ scale  mod.py:9", "│  ├─ n: 2", "│  ├─ y@12  0.5 → 0.25", "│  ├─ “n is 2”"]
    printer.end(inner.ended(2.5))
    printer.end(root.ended(error="ValueError: no", duration=1.5))
    assert stream.lines[6:] == ["│  └─ → 2.5  1.2 ms", "└─ raised ValueError: no  1.5 s"]


def test_lines_are_whole_and_written_at_once(printer: LivePrinter, stream: Stream) -> None:
    called(printer, FakeNode("f", [("a", 1), ("b", 2)]), 3)
    assert stream.writes == ["f  mod.py:1\n├─ a: 1\n├─ b: 2\n", "└─ → 3  1.2 ms\n"]


def test_values_are_not_kept(printer: LivePrinter) -> None:
    class Value:
        pass

    value = Value()
    gone = weakref.ref(value)
    node = FakeNode("f", [("x", value)])
    printer.begin(node)
    printer.change(node, "x", 3, value, [value])
    printer.end(node.ended(value))
    del node, value
    gc.collect()
    assert gone() is None


def test_statistics_come_when_asked_for(stream: Stream) -> None:
    called(LivePrinter(stream, stats=True), FakeNode("f", [("x", np.array([1.0, 3.0]))]))
    assert "float64 (2,) min 1.0 max 3.0 mean 2.0" in stream.lines[1]


def test_a_call_that_was_never_begun_does_no_harm(printer: LivePrinter, stream: Stream) -> None:
    node = FakeNode()
    printer.change(node, "x", 1, DELETED, 1)
    printer.message(None, "outside")
    printer.end(node.ended())
    assert stream.lines == ["x@1  1", "“outside”"]


# ---- folding


def loop(printer: LivePrinter, count: int, root: FakeNode, odd: int = -1, **differs: Any) -> None:
    for i in range(count):
        step = FakeNode("step", [("i", i)], root, line=7)
        printer.begin(step)
        called(printer, FakeNode("inner", [("z", np.zeros(4 if i == odd else 3))], step), i)
        printer.end(step.ended(i, duration=(i + 1) / 1000))


def test_equal_calls_are_counted(printer: LivePrinter, stream: Stream) -> None:
    root = FakeNode("train")
    printer.begin(root)
    loop(printer, 99, root)
    assert len(stream.lines) == 7
    called(printer, FakeNode("after", parent=root))
    printer.end(root.ended())
    assert stream.lines[7:] == [
        "├─ … 98 more like it, 2 ms to 99 ms, last → 98",
        "├─ after  mod.py:1",
        "│  └─ → None  1.2 ms",
        "└─ → None  1.2 ms",
    ]


def test_a_call_that_differs_inside_is_shown_in_full(printer: LivePrinter, stream: Stream) -> None:
    root = FakeNode("train")
    printer.begin(root)
    loop(printer, 20, root, odd=10)
    printer.end(root.ended())
    text = stream.getvalue()
    assert text.count("z: float64 (3,)") == text.count("z: float64 (4,)") == 1
    assert "├─ … 9 more like it, 2 ms to 10 ms, last → 9\n├─ step" in text
    assert "… 9 more like step above" in text


def test_an_exception_is_always_shown(printer: LivePrinter, stream: Stream) -> None:
    root = FakeNode("train")
    printer.begin(root)
    for i in range(9):
        called(printer, FakeNode("step", parent=root), error="ValueError: no" if i in (3, 4) else None)
    printer.end(root.ended())
    assert stream.getvalue().count("raised ValueError: no") == 2


def test_a_loop_of_several_things_is_counted_by_kind(printer: LivePrinter, stream: Stream) -> None:
    root = FakeNode("train")
    printer.begin(root)
    for i in range(50):
        called(printer, FakeNode("f", parent=root), 1)
        printer.change(root, "loss", 13, i - 1.0, float(i))
        called(printer, FakeNode("g", parent=root), 2)
    printer.end(root.ended())
    assert stream.lines[6:-1] == [
        "├─ … 49 more like f above, 1.2 ms, last → 1",
        "├─ … 49 more like loss@13 above, last 48.0 → 49.0",
        "├─ … 49 more like g above, 1.2 ms, last → 2",
    ]


def test_roots_fold_and_closing_says_how_many(printer: LivePrinter, stream: Stream) -> None:
    for i in range(5):
        called(printer, FakeNode("f"), i)
    printer.close()
    assert stream.lines == ["f  mod.py:1", "└─ → 0  1.2 ms", "… 4 more like it, 1.2 ms, last → 4"]


def test_a_long_call_is_shown_as_it_goes_on(
    printer: LivePrinter, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_printer, "HELD_LINES", 10)
    called(printer, FakeNode("f"))
    second_text = FakeNode("f")
    printer.begin(second_text)
    assert len(stream.lines) == 2
    for i in range(10):
        printer.change(second_text, f"x{i}", i, DELETED, i)
    assert stream.lines[2:4] == ["f  mod.py:1", "├─ x0@0  0"]
    printer.end(second_text.ended())
    assert stream.lines[-1] == "└─ → None  1.2 ms"


def test_a_slow_call_is_shown_as_it_goes_on(
    printer: LivePrinter, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    called(printer, FakeNode("f"))
    second_text = FakeNode("f")
    monkeypatch.setattr(live_printer, "HELD_SECONDS", -1)
    printer.begin(second_text)
    assert len(stream.lines) == 3


def test_a_count_is_reported_in_time(printer: LivePrinter, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_printer, "COUNTED_SECONDS", -1)
    for i in range(3):
        called(printer, FakeNode("f"), i)
    assert stream.lines[2:] == ["… 1 more like it, 1.2 ms, last → 1", "… 1 more like it, 1.2 ms, last → 2"]


def test_calls_held_back_inside_each_other_may_be_deeper_than_pythons_limit(
    printer: LivePrinter, stream: Stream
) -> None:
    """`def f(n): f(0); f(n - 1)`: the second call is held back at every level."""

    class Deep(FakeNode):
        depth = 0

    nodes = [Deep("f")]
    printer.begin(nodes[0])
    for depth in range(1, 3_000):
        for second in (False, True):
            node = Deep("f", parent=nodes[-1])
            node.depth = depth
            printer.begin(node)
            if not second:
                printer.end(node.ended(0))
        nodes.append(node)
    for node in reversed(nodes):
        printer.end(node.ended(1))
    printer.close()
    assert stream.lines[-1] == "└─ → 1  1.2 ms"
    assert len(stream.lines) == 11_997  # two of each call, and one for the innermost, which is like the one before


# ---- threads


def test_each_thread_has_its_own_place_and_is_named_on_lines_below_another_call(
    printer: LivePrinter, stream: Stream
) -> None:
    root = FakeNode("main")
    printer.begin(root)
    line_of_thread, two = (FakeNode(f"work{i}", parent=root, thread=f"pool-{i}") for i in (1, 2))
    printer.begin(line_of_thread)
    printer.begin(two)
    printer.change(line_of_thread, "x", 3, DELETED, 1)
    printer.change(line_of_thread, "y", 4, DELETED, 1)
    printer.end(two.ended())
    assert stream.lines[1:] == [
        "├─ work1  mod.py:1  [pool-1]",
        "├─ work2  mod.py:1  [pool-2]",
        "│  ├─ x@3  1  [pool-1]",
        "│  ├─ y@4  1  [pool-1]",
        "│  └─ → None  1.2 ms  [pool-2]",
    ]


def test_calls_that_take_turns_are_numbered_and_named_on_lines_that_stand_below_another(
    printer: LivePrinter, stream: Stream
) -> None:
    root = FakeNode("main")
    printer.begin(root)
    line_of_thread, two = (FakeNode("fetch", inputs=[("n", n)], parent=root, pauses=True) for n in (1, 2))
    printer.begin(line_of_thread)
    printer.change(line_of_thread, "x", 3, DELETED, "one")
    printer.begin(two)
    printer.change(two, "x", 3, DELETED, [1])
    printer.change(line_of_thread, "y", 4, DELETED, 1.5)  # the second is held back, and has not been shown yet
    printer.end(two.ended())
    printer.end(line_of_thread.ended())
    assert stream.lines == [
        "main  mod.py:1",
        "├─ fetch  mod.py:1",
        "│  ├─ n: 1",
        "│  ├─ x@3  'one'",
        "│  ├─ y@4  1.5",
        "├─ fetch  mod.py:1  [fetch #2]",
        "│  ├─ n: 2",
        "│  ├─ x@3  list[1] [1]",
        "│  └─ → None  1.2 ms",
        "│  └─ → None  1.2 ms  [fetch #1]",
    ]


def test_a_call_inside_one_that_takes_turns_says_in_which(printer: LivePrinter, stream: Stream) -> None:
    line_of_thread, two = (FakeNode(name, pauses=True) for name in ("a", "b"))
    printer.begin(line_of_thread)
    printer.begin(two)
    inner = FakeNode("parse", parent=line_of_thread)
    printer.begin(inner)
    printer.change(inner, "x", 3, DELETED, 1)
    printer.end(inner.ended())
    printer.change(two, "x", 3, DELETED, 1)
    assert stream.lines == [
        "a  mod.py:1",
        "b  mod.py:1",
        "├─ parse  mod.py:1  [a #1]",
        "│  ├─ x@3  1",
        "│  └─ → None  1.2 ms",
        "├─ x@3  1  [b #1]",
    ]


def test_many_threads_lose_no_line_and_break_none(printer: LivePrinter, stream: Stream) -> None:
    def work(number: int) -> None:
        for i in range(200):
            called(printer, FakeNode(f"f{number}_{i}", thread=f"t{number}"), i)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    printer.close()
    assert len([line for line in stream.lines if line.startswith("f")]) == 1600
    assert len([line for line in stream.lines if line.startswith("└─ → ")]) == 1600
    assert all(text.endswith("\n") for text in stream.writes)


def test_no_thread_waits_for_a_slow_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    entered, go_on = threading.Event(), threading.Event()

    class Slow(Stream):
        def write(self, text: str) -> int:
            entered.set()
            assert go_on.wait(10)
            return super().write(text)

    monkeypatch.setattr(live_printer, "WAITING", 50)
    stream = Slow()
    printer = LivePrinter(stream)
    stuck = threading.Thread(target=called, args=(printer, FakeNode("first")))
    stuck.start()
    assert entered.wait(10)
    for i in range(100):
        printer.message(None, str(i))  # returns, though the stream does not
    go_on.set()
    stuck.join()
    assert "“49”" in stream.getvalue()
    assert "… 50 lines not shown" in stream.getvalue()


def test_a_call_from_inside_the_writing_is_printed_later(stream: Stream) -> None:
    class Calling(Stream):
        inside = False

        def write(self, text: str) -> int:
            if not self.inside:
                self.inside = True
                called(printer, FakeNode("from_inside"))
            return super().write(text)

    stream = Calling()
    printer = LivePrinter(stream)
    called(printer, FakeNode("f"))
    assert any("from_inside" in line for line in stream.lines)


# ---- where it goes


def test_it_goes_to_stderr_and_never_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    called(LivePrinter(), FakeNode())
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "f  mod.py:1\n└─ → None  1.2 ms\n"


def test_a_file_gets_plain_text_and_keeps_what_it_had(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    file = tmp_path / "tree.txt"
    file.write_text("before\n")
    called(LivePrinter(file=file), FakeNode())
    assert file.read_text(encoding="utf-8") == "before\nf  mod.py:1\n└─ → None  1.2 ms\n"
    assert capsys.readouterr().err == ""


def test_a_text_stream_may_be_the_file(stream: Stream) -> None:
    called(LivePrinter(file=stream), FakeNode())
    assert len(stream.lines) == 2


def test_ascii_marks_on_demand(stream: Stream) -> None:
    called(LivePrinter(stream, ascii=True), FakeNode("f", [("x", 1)]), 2)
    assert stream.lines == ["f  mod.py:1", "|- x: 1", "`- -> 2  1.2 ms"]


class Failing(Stream):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error
        self.tries = 0

    def write(self, text: str) -> int:
        self.tries += 1
        raise self.error


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError("full"), ValueError("closed"), InterruptedError()])
def test_a_stream_that_fails_is_left_alone_for_good(error: Exception) -> None:
    stream = Failing(error)
    printer = LivePrinter(stream)
    for _ in range(3):
        called(printer, FakeNode())
    assert stream.tries == 1


def test_a_file_goes_on_when_the_terminal_is_gone(stream: Stream) -> None:
    called(LivePrinter(Failing(BrokenPipeError()), file=stream), FakeNode())
    assert len(stream.lines) == 2


def test_a_closed_or_missing_stderr_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    called(LivePrinter(closed), FakeNode())
    monkeypatch.setattr(sys, "stderr", None)
    called(LivePrinter(), FakeNode())


def test_a_file_that_cannot_be_opened_is_reported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    called(LivePrinter(file=tmp_path / "no" / "such" / "folder"), FakeNode())
    assert "the live tree cannot be written to" in capsys.readouterr().err


def test_a_failure_of_its_own_is_not_the_programs(
    stream: Stream, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLEW_STRICT", "0")
    trouble.forget()
    printer = LivePrinter(stream)
    printer.begin(object())
    printer.begin(FakeNode())
    assert stream.lines == []
    assert "the live tree failed; the recording goes on" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_prints_though_a_thread_of_its_parent_was_writing(tmp_path: Path) -> None:
    file = tmp_path / "tree.txt"
    printer = LivePrinter(file=file)
    printer._lock.acquire()
    child = os.fork()
    if child == 0:
        called(printer, FakeNode("in_child"))
        os._exit(0)
    os.waitpid(child, 0)
    printer._lock.release()
    assert file.read_text(encoding="utf-8").splitlines() == ["in_child  mod.py:1", "└─ → None  1.2 ms"]


def test_a_terminal_gets_colours_and_lines_cut_to_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "30")
    stream = Stream()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    called(LivePrinter(stream), FakeNode("f", [("text", "word " * 50)]))
    from rich.text import Text

    assert "\x1b[" in stream.getvalue()
    lines = Text.from_ansi(stream.getvalue()).plain.splitlines()
    assert max(map(len, lines)) == 30
    assert len(lines) == 3

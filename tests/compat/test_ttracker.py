"""Every example of Tensor Tracker's document that needs no torch, its import line changed."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clew
from clew.compat.ttracker import (
    _log_change,
    auto_diff,
    check_run_count,
    debug_trace,
    fstack,
    h4logger,
    log2file,
    logger,
    var_tracker,
)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """With the handlers a program has: pytest adds some of its own, in whose place stderr would be silent."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_QUIET", "1")
    own = [handler for handler in logger.handlers if type(handler).__module__ == "clew.compat.ttracker"]
    monkeypatch.setattr(logger, "propagate", True)  # pytest then puts its handler on the root
    monkeypatch.setattr(logger, "handlers", own.copy())
    yield
    for handler in logger.handlers:
        if handler not in own:
            handler.close()


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Callable[[], list[str]]:
    """What was said on stderr since it was last asked."""
    return lambda: capsys.readouterr().err.splitlines()


def at(function: Any, line: int) -> int:
    """A line of a function by its distance from the first (its decorator's, if it has one)."""
    return int(function.__code__.co_firstlineno) + line


def decode(path: str) -> Any:
    video = np.zeros((7, 64, 96, 3), dtype="uint8")
    video = video.transpose(0, 3, 1, 2)
    return video


class Dataset:
    def fetch(self, index: int) -> Any:
        return self.get_merge_data([1, 2, 3, 4], index)

    @auto_diff
    def get_merge_data(self, examples: list[int], index: int) -> Any:
        sample = dict.fromkeys(range(10))
        sample["video"] = decode("a.mp4")
        frame_indice = list(range(73))
        return sample["video"]


def test_auto_diff_logs_inputs_own_variables_callees_and_outputs_as_a_tree(lines: Callable[[], list[str]]) -> None:
    Dataset().fetch(113)
    called = sys._getframe().f_lineno - 1
    whole, around = Dataset.get_merge_data, Dataset.fetch
    chain = f"test_ttracker.py:{at(around, 1)} <- test_ttracker.py:{called}"
    called_from = f"called from get_merge_data:{at(whole, 3)} (test_ttracker.py:{at(whole, 3)} <- {chain})"
    head, *rest = lines()
    assert head.startswith(
        f"┌── [test_ttracker.py:{at(whole, 0)}] function [Dataset.get_merge_data] "
        f"called from fetch:{at(around, 1)} ({chain} <- python.py:"
    )
    assert rest == [
        "├─ input [Var] examples@0 len(value): 4",
        "├─ input [Var] index@0 value: 113",
        f"│   ├─ [Var] sample@{at(whole, 2)} len(value): 10",
        f"│   ┌── [test_ttracker.py:{at(decode, 0)}] function [decode] {called_from}",
        "│   ├─ input [Var] path@0 value: 'a.mp4'",
        "│   │   └─ output shape=(7, 3, 64, 96)",
        f"│   ├─ [Var] sample@{at(whole, 3)} len(value): 11",
        f"│   ├─ [Var] frame_indice@{at(whole, 4)} len(value): 73",
        "│   └─ output shape=(7, 3, 64, 96)",
    ]


def test_auto_diff_on_a_function(lines: Callable[[], list[str]]) -> None:
    @auto_diff
    def process_data(inputs):
        outputs = inputs * 2
        return outputs

    assert process_data(np.ones(3)).tolist() == [2.0, 2.0, 2.0]
    assert lines()[1:] == [
        "├─ input [Tensor] inputs@0 → shape=(3,) | dtype=float64",
        f"│   ├─ [Tensor] outputs@{at(process_data, 2)} → shape=(3,) | dtype=float64",
        "│   └─ output shape=(3,)",
    ]


def test_var_tracker_follows_a_variable_into_the_functions_called(lines: Callable[[], list[str]]) -> None:
    @var_tracker("video")
    def transform_video(path):
        result = decode(path)
        return result.mean()

    transform_video("a.mp4")
    assert [line for line in lines() if "video@" in line] == [
        f"│   │   ├─ [Tensor] video@{at(decode, 1)} → shape=(7, 64, 96, 3) | dtype=uint8",
        f"│   │   ├─ [Tensor] video@{at(decode, 2)} → shape=(7, 3, 64, 96) | dtype=uint8",
    ]


def test_var_tracker_takes_several_names(lines: Callable[[], list[str]]) -> None:
    def halves(n):
        low = n // 2
        high = n - low
        other = 0
        return low, high

    @var_tracker("low", "high")
    def split(n):
        return halves(n)

    split(5)
    assert [line.strip("│├─ ") for line in lines() if "@" in line and "input" not in line] == [
        f"[Var] low@{at(halves, 1)} value: 2",
        f"[Var] high@{at(halves, 2)} value: 3",
    ]


def test_var_tracker_without_a_name_says_what_it_needs() -> None:
    with pytest.raises(clew.ClewError, match="needs names"):
        var_tracker()


def test_a_parameter_that_is_bound_again_is_shown_once_as_input_and_once_as_change(
    lines: Callable[[], list[str]],
) -> None:
    @auto_diff
    def shift(index):
        index = index + 1
        return index

    shift(1)
    assert lines()[1:] == [
        "├─ input [Var] index@0 value: 1",
        f"│   ├─ [Var] index@{at(shift, 2)} value: 2",
        "│   └─ output value: 2",
    ]


def test_an_exception_is_shown_and_goes_on(lines: Callable[[], list[str]]) -> None:
    @auto_diff
    def fail(n):
        raise ValueError(f"no {n}")

    with pytest.raises(ValueError, match="no 3"):
        fail(3)
    assert lines()[-1] == "│   └─ raised ValueError: no 3"


def test_a_logger_with_h4logger_writes_the_tree_into_a_file_and_no_longer_to_stderr(
    lines: Callable[[], list[str]],
) -> None:
    @auto_diff
    def double(x):
        return x * 2

    logger.addHandler(h4logger())
    double(2)
    (path,) = Path("ttracker_logs").glob("????????_??????.log")
    assert path.read_text(encoding="utf-8").splitlines()[1:] == [
        "├─ input [Var] x@0 value: 2",
        "│   └─ output value: 4",
    ]
    assert lines() == []


def test_log2file_writes_to_its_place_in_the_file_only(tmp_path: Path) -> None:
    seen: list[str] = []

    class Other(logging.Handler):
        def emit(self, record):
            seen.append(record.getMessage())

    @auto_diff
    def f(xxx):
        log2file(f"xx is {xxx}")

    logger.addHandler(h4logger(tmp_path / "logs" / "one.log"))
    logger.addHandler(Other())
    f(3)
    log2file("outside")
    written = (tmp_path / "logs" / "one.log").read_text(encoding="utf-8").splitlines()
    assert written[2:] == ["│   ├─ xx is 3", "│   └─ output value: None", "├─ outside"]
    assert [line for line in seen if "xx is" in line or "outside" in line] == []
    assert seen[-1] == "│   └─ output value: None"


def test_a_handler_of_the_users_that_is_followed_itself_is_not_told_of() -> None:
    seen: list[str] = []

    def keep(text):
        seen.append(text)

    class Mine(logging.Handler):
        def emit(self, record):
            keep(record.getMessage())

    @auto_diff
    def f(n):
        return n

    logger.addHandler(Mine())
    f(1)
    assert len(seen) == 3


def test_a_clew_log_line_stands_in_the_tree(lines: Callable[[], list[str]]) -> None:
    @auto_diff
    def f():
        clew.log("half way")

    f()
    assert lines()[1] == "│   ├─ half way"


def test_a_clew_handler_on_the_logger_is_not_told_of_its_own_lines() -> None:
    @auto_diff
    def f():
        logger.info("mine")

    logger.addHandler(clew.LogHandler())
    with clew.run("circle") as run:
        f()
    assert [call.message for call in run.calls("<log>")].count("mine") == 1


def test_everything_is_in_the_run_too() -> None:
    @var_tracker("video")
    def transform(path):
        log2file("on the way")
        return decode(path).shape

    with clew.run("tracked") as run:
        transform("a.mp4")
    call = run.calls("*transform")[0]
    assert call.args == {"path": "a.mp4"}
    assert [child.function for child in call.children] == ["<log>", "decode"]
    assert call.children[0].message == "on the way"
    assert [value.shape for value in run["video"]] == [(7, 64, 96, 3), (7, 3, 64, 96)]


def test_a_closed_stderr_leaves_the_program_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    @auto_diff
    def f(n):
        return n + 1

    closed = (tmp_path / "err").open("w")
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    assert f(1) == 2


def shrink(video: Any) -> Any:
    video = video[:2]
    audio = video.sum()
    return video


@var_tracker("video")
def tracked_inside(data: Any) -> Any:
    return shrink(data)


@auto_diff
def calls_a_tracked_one() -> None:
    tracked_inside(np.zeros(3))
    shrink(np.zeros(3))


@var_tracker("audio")
def tracks_another_name() -> None:
    tracked_inside(np.zeros(3))


def test_a_var_tracker_function_keeps_its_variable_inside_an_auto_diff_function(
    lines: Callable[[], list[str]],
) -> None:
    calls_a_tracked_one()
    changes = [line.partition("] ")[2] for line in lines() if "─ [" in line]
    assert [change for change in changes if "@" in change and not change.startswith("function")] == [
        f"video@{at(shrink, 1)} → shape=(2,) | dtype=float64"
    ]


def test_a_var_tracker_function_inside_another_one_has_the_variables_of_both(
    lines: Callable[[], list[str]],
) -> None:
    tracks_another_name()
    tracked = [line.partition("] ")[2].partition("@")[0] for line in lines() if f"@{at(shrink, 1)}" in line]
    assert tracked == ["video"]
    current = clew.current()
    assert current is not None
    changed = [change.name for change in current.calls("shrink")[-1].changes]
    assert changed == ["video", "audio"]


def test_a_list_of_arrays_that_is_given_back_has_a_line_for_each(lines: Callable[[], list[str]]) -> None:
    @auto_diff
    def halves(x):
        return x[:2], 7, x[2:]

    halves(np.zeros(5))
    assert lines()[-3:] == [
        "│   └─ output len(value): 3",
        "│   └─ output [Tensor] 0@0 → shape=(2,) | dtype=float64",
        "│   └─ output [Tensor] 2@0 → shape=(3,) | dtype=float64",
    ]


def test_debug_trace_shows_the_variables_of_every_function_called(lines: Callable[[], list[str]]) -> None:
    @debug_trace
    def outer():
        return decode("a.mp4")

    outer()
    assert f"│   │   ├─ [Tensor] video@{at(decode, 1)} → shape=(7, 64, 96, 3) | dtype=uint8" in lines()


def test_fstack_shows_who_called_the_outermost_first(lines: Callable[[], list[str]]) -> None:
    @fstack
    def target(x):
        return x + 1

    def middle():
        return target(1)

    assert middle() == 2
    assert target.__name__ == "target"
    head, *callers = lines()
    assert head == "call stack for target"
    assert callers[-1] == f"-> middle() at {__file__}:{at(middle, 1)}"
    assert callers[-2].startswith(f"-> {sys._getframe().f_code.co_name}() at {__file__}:")
    assert len(callers) > 10  # all of them


def test_fstack_stands_in_the_tree_of_a_tracked_function(lines: Callable[[], list[str]]) -> None:
    @fstack
    def target():
        return 1

    @auto_diff
    def outer():
        return target()

    outer()
    assert "│   call stack for target" in lines()


def test_check_run_count_ends_the_program_after_so_many_runs(lines: Callable[[], list[str]]) -> None:
    for _ in range(2):
        check_run_count("here", 2)
        check_run_count("there", 5)
    with pytest.raises(SystemExit) as ended:
        check_run_count("here", 2)
    assert ended.value.code == 1
    check_run_count("here", 2)  # forgotten when the program ended
    assert next(line for line in lines() if line.startswith("[here]")) == "[here] run 1 of 2"


def test_log_change_takes_the_names_and_marks_of_the_original(lines: Callable[[], list[str]]) -> None:
    _log_change(prestr="Linear", name="x", value=np.zeros(3), indent="  ", lineno=7)
    _log_change("└─", "n", 5, "│   ", 8)
    assert lines() == ["  ├─ [Linear] [Tensor] x@7 → shape=(3,) | dtype=float64", "│   └─ [Var] n@8 value: 5"]


def test_log2file_goes_where_the_tree_goes_as_long_as_there_is_no_file(lines: Callable[[], list[str]]) -> None:
    log2file("xx is 3")
    assert lines() == ["├─ xx is 3"]


def test_with_ltag_set_each_thread_has_a_file_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LTAG", "exp")
    logger.addHandler(h4logger())
    log2file("from the main thread")
    other = threading.Thread(target=log2file, args=("from the other",))
    other.start()
    other.join()
    texts = [
        path.read_text(encoding="utf-8") for path in Path("logs", "exp").glob(f"process_{os.getpid()}_thread_*.log")
    ]
    assert sorted(text.partition(" - INFO - ")[2] for text in texts) == [
        "├─ from the main thread\n",
        "├─ from the other\n",
    ]


def test_a_tracked_function_inside_one_that_clew_follows_is_logged(lines: Callable[[], list[str]]) -> None:
    @auto_diff
    def inner(x):
        return x * 2

    @clew.follow(show=False)
    def outer():
        return inner(4)

    outer()
    called = at(outer, 2)
    assert f"called from outer:{called}" in lines()[0]

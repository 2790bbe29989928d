"""`clew.follow`: which calls are recorded, with what, and under which."""

from __future__ import annotations

import functools
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clew
from clew.errors import OptionError, TargetError
from clew.probes import follow
from probes.follow.tracing import followed, load, names, tree

CALLS = """
def double(x):
    return x * 2

def add(a, b=1, *rest, c, **more):
    return double(a) + b

def main(n):
    total = 0
    for i in range(n):
        total += add(i, 5, 6, c=7, d=8)
    return total
"""


def test_calls_have_their_arguments_by_name_and_their_results(tmp_path: Path) -> None:
    run = followed(tmp_path, CALLS, args=(1,))
    given = {"a": 0, "b": 5, "c": 7, "rest": (6,), "more": {"d": 8}}
    assert tree(run) == [("main", {"n": 1}, 5, [("add", given, 5, [("double", {"x": 0}, 0, [])])])]


def test_each_call_is_under_the_one_that_made_it(tmp_path: Path) -> None:
    assert names(followed(tmp_path, CALLS, args=(2,))) == [["main", ["add", "double"], ["add", "double"]]]


def test_a_call_knows_where_it_was_called_from(tmp_path: Path) -> None:
    (call,) = followed(tmp_path, CALLS, args=(1,)).calls("double")
    inner, outer, *around = call.callers
    assert (inner.line, inner.function, outer.line, outer.function) == (6, "add", 11, "main")
    assert around[0].function == "followed"


def test_two_calls_in_one_statement_are_both_at_its_line(tmp_path: Path) -> None:
    run = followed(tmp_path, "def f(x):\n    y = abs(x)\n    return y\n\ndef main():\n    return f(f(1))\n")
    assert [call.callers[0].line for call in run.calls("f")] == [6, 6]


def test_an_exception_goes_on_unchanged_and_is_where_it_left(tmp_path: Path) -> None:
    source = """
def inner():
    raise ValueError("no", 3)

def middle():
    inner()

def main():
    try:
        middle()
    except ValueError:
        return 1
"""
    run = followed(tmp_path, source)
    error = "ValueError: 'no', 3"
    assert tree(run) == [("main", {}, 1, [("middle", {}, error, [("inner", {}, error, [])])])]


def test_the_traceback_is_the_same_as_without(tmp_path: Path) -> None:
    source = "def inner(x):\n    return 1 / x\n\ndef main(x):\n    y = 1\n    return inner(x)\n"
    found = []
    for is_followed in (False, True):
        module = load(tmp_path, source, "same_traceback")
        if is_followed:
            clew.follow(show=False)(module.main)
        with pytest.raises(ZeroDivisionError) as error, clew.run(path=tmp_path / f"r{is_followed}"):
            module.main(0)
        lines = []
        traceback = error.value.__traceback__
        while traceback is not None:
            lines.append((traceback.tb_frame.f_code.co_name, traceback.tb_lineno))
            traceback = traceback.tb_next
        found.append(lines[1:])
    assert found[0] == found[1] == [("main", 6), ("inner", 2)]


def test_an_exception_caught_by_a_library_leaves_the_tree_right(tmp_path: Path) -> None:
    source = """
def item(i):
    if i == 2:
        raise IndexError
    return i

class Items:
    def __getitem__(self, i):
        return item(i)

def after():
    return "after"

def main():
    return list(Items()), after()
"""
    got = names(followed(tmp_path, source))
    inner = ["Items.__getitem__", "item"]
    assert got == [["main", inner, inner, inner, "after"]]


def test_functions_of_other_modules_are_followed_too(tmp_path: Path) -> None:
    other = load(tmp_path, "def far(x):\n    return x + 1\n")
    run = followed(tmp_path, f"import {other.__name__} as other\n\ndef main():\n    return other.far(1)\n")
    assert names(run) == [["main", "far"]]


def test_a_module_imported_inside_is_followed_from_the_next_call_on(tmp_path: Path) -> None:
    (tmp_path / "late_module_of_follow.py").write_text("def far():\n    return 1\n")
    source = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})

def main():
    import late_module_of_follow
    return late_module_of_follow.far()
"""
    module = load(tmp_path, source)
    clew.follow(show=False)(module.main)
    with clew.run(path=tmp_path / "run") as run:
        module.main()
        module.main()
    assert names(clew.open(run.path)) == ["main", ["main", "far"]]


def test_methods_properties_closures_and_callbacks_are_followed(tmp_path: Path) -> None:
    source = """
import functools

def plain(x, y):
    return x

class Thing:
    def __init__(self):
        self.k = 2
    @property
    def size(self):
        return self.k
    @staticmethod
    def still(x):
        return x
    @classmethod
    def made(cls):
        return cls()
    def __add__(self, other):
        return 3

def outer(n):
    def inner(x):
        return x + n
    return inner

def main():
    thing = Thing.made()
    thing.size
    thing.still(1)
    thing + thing
    outer(1)(2)
    sorted([1], key=lambda v: -v)
    list(map(functools.partial(plain, 1), [5]))
"""
    assert names(followed(tmp_path, source)) == [
        [
            "main",
            ["Thing.made", "Thing.__init__"],
            "Thing.size",
            "Thing.still",
            "Thing.__add__",
            "outer",
            "outer.<locals>.inner",
            "main.<locals>.<lambda>",
            "plain",
        ]
    ]


def test_libraries_are_followed_when_they_are_named(tmp_path: Path) -> None:
    source = (
        "import textwrap\n\ndef mine():\n    return 1\n\ndef main():\n    mine()\n    return textwrap.dedent('x')\n"
    )
    assert names(followed(tmp_path, source)) == [["main", "mine"]]
    assert names(followed(tmp_path, source, only="textwrap")) == [["main", "dedent"]]


@pytest.mark.parametrize("pattern", ["f", "Thing.f", "*.f", "*:Thing.f"])
def test_skip_leaves_functions_out_and_keeps_what_they_call(tmp_path: Path, pattern: str) -> None:
    source = """
def g():
    return 1

class Thing:
    def f(self):
        return g()

def main():
    return Thing().f()
"""
    assert names(followed(tmp_path, source, skip=pattern)) == [["main", "g"]]


def test_only_a_file(tmp_path: Path) -> None:
    other = load(tmp_path, "def far():\n    return near()\n\ndef near():\n    return 1\n")
    source = f"import {other.__name__} as o\n\ndef mine():\n    return 1\n\ndef main():\n    mine()\n    o.far()\n"
    assert names(followed(tmp_path, source, only=f"{other.__name__}.py")) == [["main", ["far", "near"]]]


@pytest.mark.parametrize(
    ("depth", "expected"), [(0, ["main"]), (1, [["main", "add"]]), (2, [["main", ["add", "double"]]])]
)
def test_depth_counts_the_levels_beneath(tmp_path: Path, depth: int, expected: Any) -> None:
    assert names(followed(tmp_path, CALLS, args=(1,), depth=depth)) == expected


def test_outside_a_followed_call_nothing_is_recorded(tmp_path: Path) -> None:
    module = load(tmp_path, CALLS)
    clew.follow(show=False)(module.main)
    with clew.run(path=tmp_path / "run") as run:
        module.main(1)
        assert module.add(1, c=2) == 3
    assert names(clew.open(run.path)) == [["main", ["add", "double"]]]


def test_named_variables_are_told_in_callees_at_their_lines(tmp_path: Path) -> None:
    source = """
import numpy as np

def resize(video):
    video = video[:, :2]
    return other(video)

def other(x):
    return x

def main(video):
    video = video.astype("float32")
    return resize(video)
"""
    run = followed(tmp_path, source, "video", args=(np.zeros((4, 4), "uint8"),))
    told = [(c.call.function, c.line, c.value.shape, str(c.value.dtype)) for c in run.changes("video")]
    assert told == [("main", 12, (4, 4), "float32"), ("resize", 5, (4, 2), "float32")]
    first = run.changes("video")[0]
    assert first.call is not None
    assert first.call.before(first).dtype == "uint8"
    assert names(run) == [["main", ["resize", "other"]]]


def test_changes_and_calls_are_in_the_order_they_happened(tmp_path: Path) -> None:
    source = """
def f(i):
    return i

def main():
    x = 0
    f(1)
    x = 5
    f(2)
    f(3)
    x = 6
"""
    (call,) = followed(tmp_path, source, "x").tree().roots
    order = [e.value if isinstance(e, clew.Change) else f"f{e.args['i']}" for e in call.events]
    assert order == [0, "f1", 5, "f2", "f3", 6]


def test_mutable_arguments_are_what_they_were_when_it_was_called(tmp_path: Path) -> None:
    source = "def f(items):\n    items.append(4)\n    return items\n\ndef main():\n    return len(f([1, 2]))\n"
    (call,) = followed(tmp_path, source).calls("f")
    assert (call.args, call.result) == ({"items": [1, 2]}, [1, 2, 4])


def test_large_arrays_are_an_outline_and_small_ones_whole(tmp_path: Path) -> None:
    source = "def f(small, large):\n    return large\n\ndef main(a, b):\n    f(a, b)\n"
    small, large = np.arange(4), np.zeros((1000, 1000))
    (call,) = followed(tmp_path, source, args=(small, large)).calls("f")
    assert call.args["small"].tolist() == [0, 1, 2, 3]
    assert isinstance(call.args["large"], clew.NotKept)
    assert call.args["large"].summary.shape == call.result.summary.shape == (1000, 1000)
    (call,) = followed(tmp_path, source, args=(small, large), keep="full").calls("f")
    assert call.result.shape == (1000, 1000)


def test_a_generator_is_one_call_with_what_it_called(tmp_path: Path) -> None:
    source = """
def g(i):
    return i

def numbers(n):
    for i in range(n):
        got = yield g(i)

def use(x):
    return x

def main():
    for x in numbers(2):
        use(x)
"""
    assert names(followed(tmp_path, source)) == [["main", ["numbers", "g", "g"], "use", "use"]]


def test_a_generator_left_half_way_harms_nothing(tmp_path: Path) -> None:
    source = """
def numbers():
    try:
        yield 1
        yield 2
    finally:
        last()

def last():
    return 1

def after():
    return 2

def main():
    g = numbers()
    next(g)
    del g
    after()
"""
    got = names(followed(tmp_path, source))
    assert got[0][0] == "main"
    assert got[0][-1] == "after"
    assert any("numbers" in each for each in got[0][1:])


def test_tasks_are_kept_apart(tmp_path: Path) -> None:
    source = """
import asyncio

def step(name, i):
    return i

async def job(name):
    for i in range(2):
        step(name, i)
        await asyncio.sleep(0)
    return name

async def both():
    return await asyncio.gather(job("a"), job("b"))

def main():
    return asyncio.run(both())
"""
    run = followed(tmp_path, source)
    for name, call in zip("ab", run.calls("job"), strict=True):
        assert [child.args for child in call.children] == [{"name": name, "i": 0}, {"name": name, "i": 1}]
        assert call.parent is not None
        assert call.parent.function == "both"
        assert call.result == name


def test_threads_of_a_pool_belong_to_the_followed_call(tmp_path: Path) -> None:
    source = """
from concurrent.futures import ThreadPoolExecutor

def inner(x):
    return x

def work(x):
    return inner(x) * 2

def main():
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(work, range(4)))
"""
    run = followed(tmp_path, source)
    calls = run.calls("work")
    assert sorted(call.args["x"] for call in calls) == [0, 1, 2, 3]
    assert {call.parent.function for call in calls if call.parent} == {"main"}
    assert all([child.function for child in call.children] == ["inner"] for call in calls)
    assert all("ThreadPool" in call.thread for call in calls)


def test_a_forked_child_goes_on_in_a_shard_of_its_own(tmp_path: Path) -> None:
    source = """
import os

def work(x):
    return x

def main():
    pid = os.fork()
    if pid == 0:
        try:
            work("child")
        finally:
            import clew
            clew.recording.close_all() if hasattr(clew, "recording") else None
            os._exit(0)
    os.waitpid(pid, 0)
    work("parent")
"""
    import clew.recording  # noqa: F401

    run = followed(tmp_path, source)
    assert sorted(call.args["x"] for call in run.calls("work")) == ["child", "parent"]
    assert len({call.shard for call in run.calls("work")}) == 2


def test_recursion_ends_with_the_same_error_at_about_the_same_depth(tmp_path: Path, no_garbage: None) -> None:
    source = "deepest = 0\n\ndef main(n=0):\n    global deepest\n    deepest = n\n    return main(n + 1)\n"
    found = []
    for is_followed in (False, True):
        module = load(tmp_path, source)
        if is_followed:
            clew.follow(show=False)(module.main)
        with pytest.raises(RecursionError), clew.run(path=tmp_path / f"r{is_followed}"):
            module.main()
        found.append(module.deepest)
    assert abs(found[0] - found[1]) < 30


def test_a_class_as_a_whole(tmp_path: Path) -> None:
    module = load(
        tmp_path, "class Thing:\n    def a(self):\n        return self.b()\n    def b(self):\n        return 1\n"
    )
    clew.follow(show=False)(module.Thing)
    with clew.run(path=tmp_path / "run") as run:
        module.Thing().a()
    assert names(clew.open(run.path)) == [["Thing.a", "Thing.b"]]


def test_a_with_block(tmp_path: Path) -> None:
    module = load(tmp_path, CALLS)
    with clew.run(path=tmp_path / "run") as run:
        with clew.follow(show=False):
            module.double(2)
            module.add(1, c=2)
        module.double(3)
    assert names(clew.open(run.path)) == ["double", ["add", "double"]]


def test_a_with_block_tells_named_variables_of_the_block(tmp_path: Path) -> None:
    source = """
import clew

def f(v):
    return v

def main():
    with clew.follow("v", show=False):
        v = 1
        v = f(2)
    v = 3
"""
    module = load(tmp_path, source)
    with clew.run(path=tmp_path / "run") as run:
        module.main()
    opened = clew.open(run.path)
    assert [c.value for c in opened.changes("v") if c.call is not None and c.call.function != "f"] == [1, 2]
    assert [call.args for call in opened.calls("f")] == [{"v": 2}]


def test_log_puts_a_line_in_its_place(tmp_path: Path) -> None:
    source = "import clew\n\ndef f():\n    return 1\n\ndef main(x):\n    f()\n    clew.log('x is', x)\n    f()\n"
    (call,) = followed(tmp_path, source, args=(np.zeros((2, 3)),)).tree().roots
    first, line, last = call.events
    assert (first.function, line.message, last.function) == ("f", "x is float64 (2, 3)", "f")


def test_log_outside_any_followed_call_is_a_line_of_its_own(tmp_path: Path) -> None:
    with clew.run(path=tmp_path / "run") as run:
        clew.log("hello", 3)
    (call,) = clew.open(run.path).tree().roots
    assert call.message == "hello 3"


def test_logging_records_are_placed_too(tmp_path: Path) -> None:
    source = """
import logging
log = logging.getLogger("of the program")

def f():
    log.warning("careful: %d", 3)

def main():
    f()
"""
    import logging

    handler = clew.LogHandler()
    logging.getLogger("of the program").addHandler(handler)
    try:
        run = followed(tmp_path, source)
    finally:
        logging.getLogger("of the program").removeHandler(handler)
    (call,) = run.calls("f")
    assert [child.message for child in call.children] == ["careful: 3"]


def test_a_function_watched_and_followed_is_both(tmp_path: Path) -> None:
    module = load(
        tmp_path, "def g(i):\n    return i\n\ndef main():\n    for i in range(3):\n        x = g(i)\n    return x\n"
    )
    clew.watch("x")(module.main)
    clew.follow(show=False)(module.main)
    with clew.run(path=tmp_path / "run") as run:
        module.main()
    opened = clew.open(run.path)
    assert opened["x"].values == [0, 1, 2]
    assert names(opened) == [["main", "g", "g", "g"]]


def test_a_watched_function_inside_a_followed_one_is_in_its_place(tmp_path: Path) -> None:
    module = load(
        tmp_path, "def w():\n    x = 1\n    return x\n\ndef f():\n    return w()\n\ndef main():\n    return f()\n"
    )
    clew.watch("x")(module.w)
    clew.follow(show=False)(module.main)
    with clew.run(path=tmp_path / "run") as run:
        module.main()
        module.w()
    assert names(clew.open(run.path)) == [["main", ["f", "w"]], "w"]


def test_off_takes_the_code_out(tmp_path: Path) -> None:
    module = load(tmp_path, CALLS)
    before = module.add.__code__
    clew.follow(show=False)(module.main)
    with clew.run(path=tmp_path / "run") as run:
        clew.off()
        module.main(1)
        clew.on()
    assert names(clew.open(run.path)) == []
    assert module.add.__code__ is before


def test_disabled_it_leaves_everything_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW", "0")

    def f() -> int:
        return 1

    before = f.__code__
    assert clew.follow(f) is f
    with clew.follow("x"):
        pass
    assert f.__code__ is before


@pytest.mark.parametrize("target", [len, print, 3, functools.partial(len)])
def test_what_has_no_python_code_is_refused(target: Any) -> None:
    with pytest.raises(TargetError, match="cannot follow") as error:
        clew.follow(target)
    assert error.value.slug == "not-followable"


@pytest.mark.parametrize("options", [{"depth": -1}, {"depth": "2"}, {"only": 3}, {"skip": [1]}])
def test_bad_options_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        clew.follow("x", **options)


def test_a_bad_name_is_refused_where_it_is_given() -> None:
    with pytest.raises(clew.ClewError, match="x ="):
        clew.follow("x =")


def test_a_million_calls_of_one_thread_do_not_wait_for_another(tmp_path: Path) -> None:
    """Logs are taken while they grow."""
    source = "def f(i):\n    return i\n\ndef main(n):\n    for i in range(n):\n        f(i)\n"
    module = load(tmp_path, source)
    clew.follow(show=False)(module.main)
    with clew.run(path=tmp_path / "run") as run:
        threads = [threading.Thread(target=module.main, args=(3000,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            run.flush()
        for thread in threads:
            thread.join()
    opened = clew.open(run.path)
    assert len(opened.calls("f")) == 9000
    for call in opened.calls("main"):
        assert [child.args["i"] for child in call.children[::100]] == list(range(0, 3000, 100))


def test_following_a_library_that_clew_itself_uses_shows_the_programs_calls_only(tmp_path: Path) -> None:
    source = "import json\n\ndef main(x):\n    return json.dumps([x])\n"
    module = load(tmp_path, source)
    with open(tmp_path / "tree.txt", "w") as file:
        clew.follow(only=[module.__name__, "json"], file=file)(module.main)
        with clew.run(path=tmp_path / "run") as run:
            module.main(1)
            run.flush()
            module.main([2])
    follow.unfollow(module.main)
    roots = clew.open(run.path).tree().roots
    assert [call.function for call in roots] == ["main", "main"]
    assert [child.function for child in roots[0].children] == ["dumps"]


def test_a_name_that_another_request_asked_for_is_not_told(tmp_path: Path) -> None:
    module = load(
        tmp_path, "def f():\n    a = 1\n    b = 2\n    return a + b\n\ndef one():\n    f()\n\ndef two():\n    f()\n"
    )
    clew.follow("a", show=False)(module.one)
    clew.follow("b", show=False)(module.two)
    with clew.run(path=tmp_path / "run") as run:
        module.one()
        module.two()
        module.one()
    first, second, third = (call.children[0].data for call in clew.open(run.path).tree().roots)
    assert (first, second, third) == ({"a": [1]}, {"b": [2]}, {"a": [1]})


def test_a_block_with_many_calls_has_them_all_as_roots(tmp_path: Path) -> None:
    module = load(tmp_path, "def g(i):\n    return i\n\ndef f(i):\n    return g(i)\n")
    with clew.run(path=tmp_path / "run") as run, clew.follow(show=False):
        for i in range(200):
            module.f(i)
    roots = clew.open(run.path).tree().roots
    assert [call.args["i"] for call in roots] == list(range(200))
    assert all(len(call.children) == 1 for call in roots)


def test_what_is_left_out_in_the_middle_of_many_calls_harms_nothing(tmp_path: Path) -> None:
    source = """
def leaf(i):
    return i

def hidden(i):
    return leaf(i)

def shown(i):
    return hidden(i) + leaf(i)

def main(n):
    for i in range(n):
        shown(i)
"""
    run = followed(tmp_path, source, args=(100,), skip="hidden")
    (root,) = run.tree().roots
    assert [[child.function for child in call.children] for call in root.children] == [["leaf", "leaf"]] * 100


def test_stats_of_large_arrays_are_taken_when_asked_for(tmp_path: Path) -> None:
    source = "def f(x):\n    return x\n\ndef main(x):\n    return f(x)\n"
    array = np.arange(100_000, dtype="float32")
    array[7] = np.nan
    (call,) = followed(tmp_path, source, args=(array,), stats=True).calls("f")
    summary = call.args["x"].summary
    assert (summary.nan, summary.min, summary.max) == (1, 0.0, 99_999.0)
    (call,) = followed(tmp_path, source, args=(array,)).calls("f")
    assert call.args["x"].summary.nan is None


def test_a_call_that_ends_when_the_recorder_is_late_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clew.probes.follow import runtime
    from clew.recorder import backlog

    monkeypatch.setattr(backlog, "INTERVAL", 3600.0)
    lengths = []
    source = """
def f(i):
    return look(i)

def main(n):
    for i in range(n):
        f(i)
"""
    module = load(tmp_path, source)

    def look(i: int) -> int:
        trace = runtime.here.get(None)
        lengths.append(len(trace))
        if i == 100:
            trace.due = 0
        return i

    module.look = look
    clew.follow(show=False, skip="look")(module.main)
    with clew.run(path=tmp_path / "run") as run:
        module.main(200)
    assert lengths[100] > 500
    assert lengths[101] < 20
    assert len(clew.open(run.path).calls("f")) == 200


DECORATED_INSIDE = """
import clew

def main(k):
    @clew.follow(show=False)
    def followed(i):
        return i + k

    @clew.watch("y")
    def watched(i):
        y = i * k
        return y

    return followed(1) + watched(2)
"""


def test_a_function_made_inside_a_followed_one_may_be_followed_or_watched_itself(tmp_path: Path) -> None:
    run = followed(tmp_path, DECORATED_INSIDE, args=(3,))
    assert names(run) == [["main", "main.<locals>.followed", "main.<locals>.watched"]]
    assert run.calls("main")[0].result == 10
    assert list(run["y"].values) == [6]
    assert not any("events" in note.text for note in run.ledger)

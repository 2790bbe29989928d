"""Watched and followed functions survive cloudpickle and dill as the functions they are."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import cloudpickle
import pytest

import clew
from clew.instrument import pickling

FUNCTIONS = """
import functools, hashlib, sys
RATE, OTHER = 5, 6
{decorator}
def fact(n, *, more: int = 1) -> int:
    "Of n."
    r = 1 if n < 2 else n * fact(n - 1)
    return r * more
def make(k):
    {decorator}
    def again(n):
        v = 0 if n == 0 else k + again(n - 1)
        return v
    return again
{decorator}
class Part:
    def __init__(self, a):
        self.a = a
    def __call__(self, x):
        t = self.a * x
        return t
    @staticmethod
    def static(x):
        q = x + RATE
        return q
{decorator}
def pause(n):
    for i in range(n):
        yield i * RATE
def wrapped(function):
    @functools.wraps(function)
    def around(*args):
        found = function(*args)
        return found
    return around
doubled = {around}(lambda x: x * 2 + RATE)
THINGS = {{
    "function": fact, "closure": make(3), "object": Part(4), "bound": Part(4).__call__, "lambda": doubled,
    "partial": functools.partial(fact, 4), "generator": pause, "decorated": wrapped(fact), "list": [fact, fact],
}}
"""
HASHES = """
import {library}
for name, thing in THINGS.items():
    if "{library}" == "cloudpickle" and name in ("object", "bound"):
        continue  # cloudpickle gives each class a number of its own
    data = {library}.dumps(thing)
    print(name, hashlib.sha256(data).hexdigest())
"""
LOADED = """
import {library}
for name in ("function", "closure", "object", "bound", "lambda", "decorated"):
    print(name, {library}.loads({library}.dumps(THINGS[name]))(3))
print(list({library}.loads({library}.dumps(pause))(3)))
"""
HASHER = """
from datasets.fingerprint import Hasher
for name, thing in THINGS.items():
    if name != "closure":  # `datasets` cannot hash a closure that calls itself
        print(name, Hasher.hash(thing))
"""
TOKENS = """
from dask.base import tokenize
for name in ("function", "closure", "lambda", "partial", "generator"):
    print(name, tokenize(THINGS[name]))
"""
EXTENDED = """
import pickle
import {first}
import {second}
import joblib
for name in ("function", "bound", "partial", "generator", "list"):
    print(name, joblib.hash(THINGS[name]), hashlib.sha256(pickle._dumps(THINGS[name])).hexdigest())
print(hashlib.sha256(pickle._dumps(doubled)).hexdigest())
"""
SEND = """
import cloudpickle
fact(3)
open(sys.argv[1], "wb").write(cloudpickle.dumps([fact, make(3), Part(4), doubled]))
"""
RECEIVE = """
import pickle, sys
fact, again, part, doubled = pickle.load(open(sys.argv[1], "rb"))
print(fact(4), again(3), part(3), part.static(1), doubled(3), sorted(m for m in sys.modules if m.startswith("clew")))
"""
WATCH = "import clew\n", '@clew.watch("*", "OTHER")', 'clew.watch("x")'
FOLLOW = "import clew\n", "@clew.follow(show=False)", "clew.follow(show=False)"
OP = "import clew\n", "@clew.op", "clew.op"
NOTHING = "", "", ""


def run(folder: Path, program: str, *arguments: str, before: tuple[str, ...] = (), **environment: str) -> str:
    (folder / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, *before, "program.py", *arguments], cwd=folder, capture_output=True, text=True, timeout=60,
        env={**os.environ, "CLEW_DIR": str(folder / "runs"), "PYTHONHASHSEED": "0", "CLEW_QUIET": "1", **environment},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def program(rest: str, means: tuple[str, str, str] = NOTHING, **names: str) -> str:
    start, decorator, around = means
    return start + FUNCTIONS.format(decorator=decorator, around=around) + rest.format(**names)


CLEW_RUN = [
    ("-m", "clew", "run", "--watch", "*: *", "--watch", "fact: OTHER"),
    ("-m", "clew", "run", "--follow", "*", "--no-show"),
    ("-m", "clew", "run", "--follow", "fact", "--names", "v, r", "--no-show"),
]


@pytest.mark.parametrize("library", ["cloudpickle", "dill"])
@pytest.mark.parametrize("before", CLEW_RUN, ids=["watch", "follow", "names"])
def test_what_clew_run_instruments_is_pickled_to_the_same_bytes(
    library: str, before: tuple[str, ...], tmp_path: Path
) -> None:
    text = program(HASHES, library=library)
    assert run(tmp_path, text, before=before) == run(tmp_path, text)


@pytest.mark.parametrize("library", ["cloudpickle", "dill"])
@pytest.mark.parametrize("means", [WATCH, FOLLOW], ids=["watch", "follow"])
def test_decorated_functions_are_pickled_to_the_same_bytes(
    library: str, means: tuple[str, str, str], tmp_path: Path
) -> None:
    text = program(HASHES, means, library=library)
    assert run(tmp_path, text) == run(tmp_path, text, CLEW="0")


@pytest.mark.parametrize("library", ["cloudpickle", "dill"])
@pytest.mark.parametrize("means", [WATCH, FOLLOW], ids=["watch", "follow"])
def test_decorated_functions_are_what_they_were_when_they_come_back(
    library: str, means: tuple[str, str, str], tmp_path: Path
) -> None:
    assert run(tmp_path, program(LOADED, means, library=library)) == run(tmp_path, program(LOADED, library=library))


@pytest.mark.parametrize("rest", [HASHER, TOKENS], ids=["datasets", "dask"])
def test_caches_find_functions_under_the_same_hash(rest: str, tmp_path: Path) -> None:
    pytest.importorskip("datasets" if rest is HASHER else "dask")
    text = program(rest)
    assert run(tmp_path, text, before=CLEW_RUN[0]) == run(tmp_path, text)


@pytest.mark.parametrize(("first", "second"), [("dill", "joblib"), ("joblib", "dill")], ids=["before", "after"])
@pytest.mark.parametrize("before", CLEW_RUN[:2], ids=["watch", "follow"])
def test_picklers_that_dill_has_extended_make_the_same_bytes(
    before: tuple[str, ...], first: str, second: str, tmp_path: Path
) -> None:
    pytest.importorskip("joblib")
    text = program(EXTENDED, first=first, second=second)
    assert run(tmp_path, text, before=before) == run(tmp_path, text)


@pytest.mark.parametrize("means", [WATCH, FOLLOW], ids=["watch", "follow"])
def test_picklers_that_dill_extended_before_clew_came_make_the_same_bytes(
    means: tuple[str, str, str], tmp_path: Path
) -> None:
    pytest.importorskip("joblib")
    text = "import dill, joblib\n" + program(EXTENDED, means, first="dill", second="joblib")
    assert run(tmp_path, text) == run(tmp_path, text, CLEW="0")


@pytest.mark.parametrize("means", [WATCH, FOLLOW, OP], ids=["watch", "follow", "op"])
def test_functions_sent_by_value_need_no_clew_where_they_arrive(means: tuple[str, str, str], tmp_path: Path) -> None:
    run(tmp_path, program(SEND, means), "sent")
    assert run(tmp_path, RECEIVE, "sent") == "24 9 12 6 11 []\n"


def test_functions_of_modules_are_pickled_by_name() -> None:
    watched = clew.watch("tree")(subject)
    assert pickle.loads(pickle.dumps(watched)) is watched
    assert cloudpickle.loads(cloudpickle.dumps(watched)) is watched


def subject(x: int) -> int:
    tree = x + 1
    return tree


def test_a_twin_has_everything_of_its_function() -> None:
    def counted(x: int, /, *, by: int = 2) -> int:
        """Counts."""
        y = x + by
        return y

    counted.note = ["kept"]  # type: ignore[attr-defined]
    plain = counted.__code__
    clew.watch("y")(counted)
    twin = pickling._twin(counted)
    assert twin.__code__ is plain is not counted.__code__
    for name in ("__name__", "__qualname__", "__module__", "__doc__", "__kwdefaults__", "__annotations__"):
        assert getattr(twin, name) == getattr(counted, name)
    assert vars(twin) == {"note": ["kept"]}  # not what clew tells torch's compiler of the watched function


def test_a_function_that_comes_back_is_watched_under_clew_run(tmp_path: Path) -> None:
    text = program("import cloudpickle\nprint(cloudpickle.loads(cloudpickle.dumps(doubled))(4))")
    assert run(tmp_path, text, before=("-m", "clew", "run", "--watch", "<lambda>: x")) == "13\n"
    (folder,) = (tmp_path / "runs").glob("*/*")
    assert clew.open(folder)["x"].values == [4]

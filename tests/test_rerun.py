"""`call.rerun()` calls the same function with the same arguments again."""

from __future__ import annotations

import asyncio
import inspect
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import clew
from clew.errors import RerunError
from clew.reading.call import Call
from reading.writing import Written

# Most runs here are written by hand, without hashes of the code: tests/hostile/test_rerun.py is about those.
TRUSTED: Any = {"trusted": True, "changed": True}

MODULE = """\
import contextlib, functools

def add(x, y=10):
    return x + y

def spread(first, /, second, *rest, flag=False, **more):
    return first, second, rest, flag, more

def grow(items):
    items.append(len(items))
    return items

def zero(array):
    before = float(array.sum())
    array[:] = 0
    return before

def twice(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return f(*args, **kwargs) * 2
    return wrapper

@twice
def decorated(x):
    return x

def count(n):
    yield from range(n)

async def later(x):
    return x + 1

def nothing():
    return "nothing"

def call_it(callback):
    return callback()

def outer():
    def inner(x):
        return x
    return inner

double = lambda x: x * 2

number = 3

class Trainer:
    rate = 2

    def __init__(self, rate):
        self.rate = rate

    def step(self, x):
        return x * self.rate

    def __secret(self, x):
        return x

    @classmethod
    def make(cls, x):
        return cls.__name__, x

    @staticmethod
    def plain(x):
        return x + 1

    @property
    def half(self):
        return self.rate / 2

    @half.setter
    def half(self, value):
        self.rate = value * 2

    @functools.cached_property
    def once(self):
        return self.rate * 3

class Special(Trainer):
    pass
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module `rerunnable`, that can be imported."""
    path = tmp_path / "rerunnable.py"
    path.write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("rerunnable", None)
    yield path
    sys.modules.pop("rerunnable", None)


def recorded(
    folder: Path,
    function: str,
    args: dict[str, Any] | None,
    *,
    module: str = "rerunnable",
    file: str = "",
    line: int = 1,
) -> Call:
    """One call, as it reads from a run on disk."""
    written = Written(folder / "runs")
    shard = written.shard()
    file = file or next(f"{entry}/rerunnable.py" for entry in sys.path if Path(entry, "rerunnable.py").is_file())
    shard.end(shard.call(function, args=args, module=module, file=file, line=line))
    shard.close()
    (call,) = written.open().calls()
    return call


def line_of(text: str) -> int:
    return MODULE[: MODULE.index(text)].count("\n") + 1


def refused(slug: str, call: Call, **replace: Any) -> str:
    with pytest.raises(RerunError) as caught:
        call.rerun(**TRUSTED, **replace)
    assert caught.value.slug == slug, caught.value
    return str(caught.value)


# ---- arguments


def test_the_function_is_called_with_its_recorded_arguments(tmp_path: Path, code: Path) -> None:
    assert recorded(tmp_path, "add", {"x": 1, "y": 2}).rerun(**TRUSTED) == 3


def test_arguments_recorded_as_input_rows_serve_as_well(tmp_path: Path, code: Path) -> None:
    written = Written(tmp_path / "runs")
    shard = written.shard()
    call = shard.call("grow", module="rerunnable", file=str(code))
    shard.change(call, "items", [7], role="input")
    shard.close()
    assert written.open().calls()[0].rerun(**TRUSTED) == [7, 1]


def test_positional_keyword_and_starred_parameters_are_passed_correctly(tmp_path: Path, code: Path) -> None:
    args = {"first": 1, "second": 2, "rest": (3, 4), "flag": True, "more": {"first": 5, "z": 6}}
    assert recorded(tmp_path, "spread", args).rerun(**TRUSTED) == (1, 2, (3, 4), True, {"first": 5, "z": 6})


def test_a_function_that_changes_its_arguments_finds_them_as_they_were_each_time(tmp_path: Path, code: Path) -> None:
    call = recorded(tmp_path, "grow", {"items": [7]})
    assert call.rerun(**TRUSTED) == [7, 1]
    assert call.rerun(**TRUSTED) == [7, 1]
    assert call.args == {"items": [7]}


def test_a_large_array_that_is_written_to_is_whole_the_next_time(tmp_path: Path, code: Path) -> None:
    """It is read from a map of the run's file; the function gets a copy."""
    call = recorded(tmp_path, "zero", {"array": np.ones(200_000)})
    assert call.rerun(**TRUSTED) == 200_000
    assert call.rerun(**TRUSTED) == 200_000


def test_arguments_can_be_replaced_by_name(tmp_path: Path, code: Path) -> None:
    assert recorded(tmp_path, "add", {"x": 1, "y": 2}).rerun(**TRUSTED, y=5) == 6


def test_a_name_that_is_no_parameter_goes_where_a_call_would_put_it(tmp_path: Path, code: Path) -> None:
    args = {"first": 1, "second": 2, "rest": (), "flag": False, "more": {"z": 6}}
    assert recorded(tmp_path, "spread", args).rerun(**TRUSTED, new=7) == (1, 2, (), False, {"z": 6, "new": 7})


def test_an_argument_the_function_does_not_take_is_refused(tmp_path: Path, code: Path) -> None:
    text = refused("rerun-unknown-argument", recorded(tmp_path, "grow", {"items": []}), item=[])
    assert "no parameter `item`" in text and "did you mean `items`?" in text


def test_a_parameter_added_since_has_its_default(tmp_path: Path, code: Path) -> None:
    assert recorded(tmp_path, "add", {"x": 1}).rerun(**TRUSTED) == 11


def test_a_parameter_without_a_recorded_value_is_named(tmp_path: Path, code: Path) -> None:
    call = recorded(tmp_path, "add", {"y": 1})
    assert "add() needs `x`" in refused("rerun-no-argument", call)
    assert call.rerun(**TRUSTED, x=2) == 3


def test_a_call_recorded_without_arguments_is_not_made_up_of_defaults(tmp_path: Path, code: Path) -> None:
    assert "needs `y`" in refused("rerun-no-argument", recorded(tmp_path, "add", None), x=1)


def test_a_function_without_parameters_needs_none(tmp_path: Path, code: Path) -> None:
    assert recorded(tmp_path, "nothing", None).rerun(**TRUSTED) == "nothing"


def test_a_parameter_that_is_gone_is_named(tmp_path: Path, code: Path) -> None:
    text = refused("rerun-parameters", recorded(tmp_path, "add", {"x": 1, "scale": 3}))
    assert "`scale`" in text and "it takes `x`, `y`" in text


def test_an_argument_that_was_not_kept_is_named(tmp_path: Path, code: Path) -> None:
    call = recorded(tmp_path, "call_it", {"callback": len})
    text = refused("rerun-not-kept", call)
    assert "argument `callback` of call_it() was not kept in full" in text
    assert "call.rerun(callback=" in text and "keep=" not in text
    assert call.rerun(**TRUSTED, callback=lambda: 5) == 5


def test_a_part_that_was_not_kept_is_named_with_the_way_to_it(tmp_path: Path, code: Path) -> None:
    for value, place in [
        ([1, {"f": (2, len)}], "`items[1]['f'][1]`"),
        (SimpleNamespace(f=len), "`items.f`"),
        (np.array([1, len], dtype=object), "`items.flat[1]`"),
    ]:
        call = recorded(tmp_path / place.strip("`"), "grow", {"items": value}, file=str(code))
        assert place in refused("rerun-not-kept", call)


def test_a_list_that_was_cut_is_not_taken_for_the_whole(tmp_path: Path, code: Path) -> None:
    call = recorded(tmp_path, "grow", {"items": list(range(200_000))})
    text = refused("rerun-not-kept", call)
    assert "not kept in full: list of 200000" in text and 'keep="full"' in text


class Config:
    def __init__(self) -> None:
        self.rate = 3


def test_a_recorded_instance_must_be_given_by_name(tmp_path: Path, code: Path) -> None:
    import rerunnable  # type: ignore[import-not-found]

    call = recorded(tmp_path, "Trainer.step", {"self": rerunnable.Trainer(3), "x": 2})
    text = refused("rerun-object", call)
    assert "argument `self` of Trainer.step() was an instance of rerunnable.Trainer" in text
    assert "call.rerun(self=trainer)" in text
    assert call.rerun(**TRUSTED, self=rerunnable.Trainer(5)) == 10


def test_an_instance_inside_an_argument_is_named_with_the_way_to_it(tmp_path: Path, code: Path) -> None:
    assert "in `items[0]`" in refused("rerun-object", recorded(tmp_path, "grow", {"items": [Config()]}))


def test_an_argument_may_contain_itself(tmp_path: Path, code: Path) -> None:
    items: list[Any] = [1]
    items.append(items)
    again = recorded(tmp_path, "grow", {"items": items}).rerun(**TRUSTED)
    assert again[1] is again and again[2] == 2


# ---- kinds of functions


def test_a_decorated_function_is_called_as_it_was_recorded_inside(tmp_path: Path, code: Path) -> None:
    assert recorded(tmp_path, "decorated", {"x": 4}).rerun(**TRUSTED) == 4


def test_generators_and_coroutines_are_given_as_calling_gives_them(tmp_path: Path, code: Path) -> None:
    assert list(recorded(tmp_path, "count", {"n": 3}).rerun(**TRUSTED)) == [0, 1, 2]
    assert asyncio.run(recorded(tmp_path / "b", "later", {"x": 3}).rerun(**TRUSTED)) == 4


def test_static_methods_and_private_ones(tmp_path: Path, code: Path) -> None:
    assert recorded(tmp_path, "Trainer.plain", {"x": 3}).rerun(**TRUSTED) == 4
    assert recorded(tmp_path / "b", "Trainer.__secret", {"self": None, "x": 3}).rerun(**TRUSTED) == 3


def test_a_classmethod_gets_the_class_it_was_called_on(tmp_path: Path, code: Path) -> None:
    import rerunnable

    for number, cls in enumerate([rerunnable.Trainer, rerunnable.Special]):
        call = recorded(tmp_path / str(number), "Trainer.make", {"cls": cls, "x": 3})
        assert call.rerun(**TRUSTED) == (cls.__name__, 3)


def test_a_classmethod_of_a_class_that_is_gone_asks_for_one(tmp_path: Path, code: Path) -> None:
    assert "`cls`" in refused("rerun-not-kept", recorded(tmp_path, "Trainer.make", {"cls": Config, "x": 3}))


def test_a_property_is_its_getter_or_the_part_that_was_recorded(tmp_path: Path, code: Path) -> None:
    import rerunnable

    trainer = rerunnable.Trainer(3)
    assert recorded(tmp_path, "Trainer.half", {"self": 0}).rerun(**TRUSTED, self=trainer) == 1.5
    setter = recorded(tmp_path / "b", "Trainer.half", {"self": 0, "value": 4}, line=line_of("@half.setter"))
    assert setter.rerun(**TRUSTED, self=trainer) is None
    assert trainer.rate == 8
    assert recorded(tmp_path / "c", "Trainer.once", {"self": 0}).rerun(**TRUSTED, self=trainer) == 24


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("outer.<locals>.inner", "inside another function"),
        ("<lambda>", "is a lambda"),
        ("<module>", "is not a function"),
    ],
)
def test_a_function_without_a_name_is_refused(tmp_path: Path, code: Path, name: str, why: str) -> None:
    assert why in refused("rerun-no-name", recorded(tmp_path, name, {"x": 1}))


def test_a_missing_function_is_named_with_its_recorded_location(tmp_path: Path, code: Path) -> None:
    text = refused("rerun-no-function", recorded(tmp_path, "Trainer.leap", {}, line=12))
    assert "no Trainer.leap any more" in text and "rerunnable.py:12" in text
    assert "is a int now" in refused("rerun-no-function", recorded(tmp_path / "b", "number", {}))


# ---- modules


def test_a_missing_module_is_named(tmp_path: Path) -> None:
    call = recorded(tmp_path, "f", {}, module="no_such_module_at_all", file="/nowhere/no_such_module_at_all.py")
    assert "no_such_module_at_all" in refused("rerun-no-module", call)


def test_a_module_that_fails_to_load_says_how(tmp_path: Path, code: Path) -> None:
    code.write_text("1 / 0\n")
    assert "ZeroDivisionError: division by zero" in refused("rerun-no-module", recorded(tmp_path, "add", {"x": 1}))


def test_a_module_beside_the_recorded_script_is_found_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "besides").mkdir()
    (tmp_path / "besides" / "__init__.py").touch()
    path = tmp_path / "besides" / "the_script.py"
    path.write_text("def f(x): return x + 1\n")
    assert recorded(tmp_path, "f", {"x": 1}, module="besides.the_script", file=str(path)).rerun(**TRUSTED) == 2


SCRIPT = """\
import dataclasses, neighbour_of_script
@dataclasses.dataclass
class Point:
    x: "int"
def f(x):
    return x, __name__, neighbour_of_script.where
loaded = [1]
def count():
    loaded.append(1)
    return len(loaded)
if __name__ == "__main__":
    raise SystemExit("ran as the program")
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "neighbour_of_script.py").write_text("where = 'beside'\n")
    path = tmp_path / "the_script.py"
    path.write_text(SCRIPT)
    return path


def test_a_script_is_loaded_without_the_part_that_runs_it(tmp_path: Path, script: Path) -> None:
    x, name, where = recorded(tmp_path, "f", {"x": 4}, module="__main__", file=str(script)).rerun(**TRUSTED)
    assert (x, where) == (4, "beside")
    assert name != "__main__"


def test_a_script_is_loaded_once_until_it_changes(tmp_path: Path, script: Path) -> None:
    call = recorded(tmp_path, "count", None, module="__main__", file=str(script))
    assert [call.rerun(**TRUSTED), call.rerun(**TRUSTED)] == [2, 3]
    script.write_text(SCRIPT.replace("[1]", "[1, 1, 1, 1]"))
    assert call.rerun(**TRUSTED) == 5


def test_the_program_that_runs_is_not_loaded_again(
    tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__file__", str(script), raising=False)
    names: dict[str, Any] = {}
    exec(compile("def f(x): return 'present', x", str(script), "exec"), names)
    monkeypatch.setattr(main, "f", names["f"], raising=False)
    assert recorded(tmp_path, "f", {"x": 4}, module="__main__", file=str(script)).rerun(**TRUSTED) == ("present", 4)


def test_a_function_of_a_notebook_is_the_one_of_this_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = recorded(tmp_path, "of_a_cell", {"x": 4}, module="__main__", file="<ipython-input-3-abc>")
    assert "define the function again" in refused("rerun-no-module", call)
    monkeypatch.setattr(sys.modules["__main__"], "of_a_cell", None, raising=False)
    exec(compile("def of_a_cell(x): return x + 1", "<ipython-input-4-def>", "exec"), vars(sys.modules["__main__"]))
    assert call.rerun(**TRUSTED) == 5


def test_a_script_that_fails_to_load_says_how(tmp_path: Path, script: Path) -> None:
    script.write_text("raise SystemExit(3)\n")
    call = recorded(tmp_path, "f", {"x": 4}, module="__main__", file=str(script))
    assert "SystemExit: 3" in refused("rerun-no-module", call)


# ---- the debugger


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Types these lines into the debugger that opens."""
    monkeypatch.delenv("PYTHONBREAKPOINT", raising=False)
    monkeypatch.setattr(sys, "breakpointhook", sys.__breakpointhook__)
    return lambda *lines: monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


def test_the_debugger_stops_at_the_first_line(
    tmp_path: Path, code: Path, typed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    typed("p ('x is', x)", "x = 30", "continue")
    tracer = sys.gettrace()
    assert recorded(tmp_path, "add", {"x": 1, "y": 2}).rerun(**TRUSTED, debug=True) == 32
    out = capsys.readouterr().out
    assert "('x is', 1)" in out
    assert f"({line_of('return x + y')})add()" in out
    assert sys.gettrace() is tracer


def test_leaving_the_debugger_leaves_the_function(tmp_path: Path, code: Path, typed: Any) -> None:
    typed("quit")
    assert recorded(tmp_path, "add", {"x": 1, "y": 2}).rerun(**TRUSTED, debug=True) is None


def test_a_watched_function_stops_in_its_own_code_and_records(
    tmp_path: Path, code: Path, typed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    import rerunnable

    clew.watch("items")(rerunnable.grow)
    typed("p ('items are', items)", "continue")
    with clew.run() as run:
        assert recorded(tmp_path, "grow", {"items": [1]}).rerun(**TRUSTED, debug=True) == [1, 1]
    out = capsys.readouterr().out
    assert "('items are', [1])" in out
    assert "grow()" in out.split("(Pdb)")[0]
    assert run["items"].values == [[1], [1, 1]]


def test_generators_and_coroutines_stop_when_they_run(
    tmp_path: Path, code: Path, typed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    typed("p ('n is', n)", "!n = 2", "continue")
    generator = recorded(tmp_path, "count", {"n": 3}).rerun(**TRUSTED, debug=True)
    assert inspect.isgenerator(generator)
    assert list(generator) == [0, 1]
    typed("p ('x is', x)", "continue")
    coroutine = recorded(tmp_path / "b", "later", {"x": 3}).rerun(**TRUSTED, debug=True)
    assert inspect.iscoroutine(coroutine)
    assert asyncio.run(coroutine) == 4
    out = capsys.readouterr().out
    assert "('n is', 3)" in out and "('x is', 3)" in out


def test_an_exception_passes_through_the_debugger(tmp_path: Path, code: Path, typed: Any) -> None:
    typed("continue")
    with pytest.raises(TypeError, match="unsupported operand"):
        recorded(tmp_path, "add", {"x": 1, "y": "2"}).rerun(**TRUSTED, debug=True)


def test_a_debugger_of_ones_own_opens_before_the_call(
    tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Any]] = []

    def hook() -> None:
        frame = inspect.currentframe()
        assert frame is not None and frame.f_back is not None
        seen.append(frame.f_back.f_locals)

    monkeypatch.setattr(sys, "breakpointhook", hook)
    assert recorded(tmp_path, "add", {"x": 1, "y": 2}).rerun(**TRUSTED, debug=True) == 3
    assert [frame["args"] for frame in seen] == [[1, 2]]


def test_a_debugger_that_is_switched_off_stays_off(tmp_path: Path, code: Path, typed: Any, monkeypatch: Any) -> None:
    typed("quit")
    monkeypatch.setenv("PYTHONBREAKPOINT", "0")
    assert recorded(tmp_path, "add", {"x": 1, "y": 2}).rerun(**TRUSTED, debug=True) == 3


# ---- recorded by clew itself


@clew.watch("y")
def watched(x: int) -> int:
    y = x + 1
    return y


def test_a_call_that_clew_recorded_is_made_again() -> None:
    with clew.run() as run:
        watched(3)
    with clew.run() as again:
        assert run.calls("watched")[0].rerun() == 4
    assert again["y"].values == [4]

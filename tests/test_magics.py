"""`%%clew`: a notebook cell recorded in a run of its own, in a real IPython."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import CapturedIO, capture_output

import clew
from clew.reading import Run


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    shell: InteractiveShell = InteractiveShell.instance()
    before = set(shell.user_ns)
    shell.run_line_magic("load_ext", "clew")
    yield shell
    shell.run_line_magic("unload_ext", "clew")
    for name in set(shell.user_ns) - before:
        del shell.user_ns[name]


class Done:
    """What a cell did."""

    def __init__(self, shell: InteractiveShell, *cells: str) -> None:
        with capture_output() as shown:
            for cell in cells:
                self.result: Any = shell.run_cell(cell)
        self.captured: CapturedIO = shown
        self.text = shown.stdout + shown.stderr

    @property
    def html(self) -> list[str]:
        return [output.data["text/html"] for output in self.captured.outputs if "text/html" in output.data]


def good(shell: InteractiveShell, *cells: str) -> Done:
    done = Done(shell, *cells)
    assert done.result.success, done.text
    return done


def latest() -> Run:
    return clew.open("latest")


# ---- --watch


def test_assignments_of_the_cell_are_recorded_line_by_line(shell: InteractiveShell) -> None:
    good(shell, '%%clew --watch "x, y"\nx = 1\nfor i in range(2):\n    x += i\ny = [x]\ny.append(5)')
    run = latest()
    assert [(c.name, c.line, c.value) for c in run.changes()] == [
        ("x", 2, 1), ("x", 4, 2), ("y", 5, [2]), ("y", 6, [2, 5]),
    ]  # fmt: skip
    assert shell.user_ns["y"] == [2, 5]


def test_a_name_that_has_a_value_starts_with_it(shell: InteractiveShell) -> None:
    good(shell, "total = 10", "%%clew --watch total\ntotal += 1")
    assert latest()["total"].values == [10, 11]


def test_a_value_the_cell_changes_only_inside_is_recorded(shell: InteractiveShell) -> None:
    good(shell, "def grow(xs): xs.append(1)\nthings = []", "%%clew --watch things\ngrow(things)\ngrow(things)")
    assert latest()["things"].values == [[], [1], [1, 1]]


def test_functions_of_the_cell_are_watched(shell: InteractiveShell) -> None:
    good(
        shell,
        '%%clew --watch "f: loss"\ndef f(n):\n    for i in range(n):\n        loss = i\n'
        "def g():\n    loss = 9\nf(2)\ng()",
    )
    assert [(c.call.function, c.value) for c in latest().changes("loss")] == [("f", 0), ("f", 1)]


def test_a_name_is_watched_in_any_function_of_the_cell(shell: InteractiveShell) -> None:
    good(
        shell,
        "%%clew --watch v\nclass A:\n    def m(self):\n        v = 1\nif True:\n    def f():\n        v = 2\n"
        "A().m()\nf()\nv = 3",
    )
    assert [(c.call.function.split(":")[0], c.value) for c in latest().changes("v")] == [
        ("A.m", 1), ("f", 2), ("<cell line", 3),
    ]  # fmt: skip


def test_a_function_of_an_earlier_cell_is_watched_while_the_cell_runs(shell: InteractiveShell) -> None:
    good(shell, "def train():\n    loss = 1\n    loss = 2", '%%clew --watch "train: loss"\ntrain()')
    assert latest()["loss"].values == [1, 2]
    path = latest().path
    good(shell, "train()")
    assert latest().path == path


def test_functions_are_as_they_were_when_the_cell_is_done(shell: InteractiveShell) -> None:
    good(shell, "def old():\n    a = 1")
    before = shell.user_ns["old"].__code__
    good(shell, '%%clew --watch "old: a" --watch b\ndef new():\n    b = 2\nduring = old.__code__, new.__code__\nnew()')
    assert shell.user_ns["old"].__code__ is before
    watched_old, watched_new = shell.user_ns["during"]
    assert watched_old is not before
    assert shell.user_ns["new"].__code__ is not watched_new
    assert not any(".clew" in str(name) for name in shell.user_ns)


def test_a_function_that_is_watched_anyway_stays_so(shell: InteractiveShell) -> None:
    good(shell, "import clew\n@clew.watch('a')\ndef f():\n    a = 1\n    b = 2", '%%clew --watch "f: b"\nf()')
    assert latest().names == ["a", "b"]
    with clew.run() as run:
        good(shell, "f()")
    assert run.names == ["a"]


def test_expressions_options_of_the_run_and_quotes(shell: InteractiveShell) -> None:
    good(shell, """%%clew --watch 'cfg["lr"], {1: n}[1]' --name warm --tag lr=0.1\ncfg = {"lr": 1}\nn = 3""")
    run = latest()
    assert (run.name, run.meta["tags"]) == ("warm", {"lr": "0.1"})
    assert run['cfg["lr"]'].values == [1]


def test_show_prints_changes_as_they_happen(shell: InteractiveShell) -> None:
    assert "x = 1" in good(shell, "%%clew --watch x --show\nx = 1").text


# ---- what the notebook shows


def test_the_run_is_shown_and_the_last_expression_as_well(shell: InteractiveShell) -> None:
    done = good(shell, "%%clew --watch x\nx = 20\nx + 1")
    assert done.result.result == 21
    (html,) = done.html
    assert "<td" in html and ">x<" in html
    assert "21" in done.captured.stdout


def test_a_semicolon_keeps_the_result_back(shell: InteractiveShell) -> None:
    assert good(shell, "%%clew --watch x\nx = 20\nx + 1;").result.result is None


def test_an_expression_at_the_end_is_watched_for_what_it_changes(shell: InteractiveShell) -> None:
    good(shell, "%%clew --watch xs\nxs = []\nxs.append(1)")
    assert latest()["xs"].values == [[], [1]]


def test_an_exception_goes_on_and_the_run_is_shown(shell: InteractiveShell) -> None:
    done = Done(shell, "%%clew --watch x\nx = 1\n\nx = 1 / 0\nx = 3")
    assert isinstance(done.result.error_in_exec, ZeroDivisionError)
    assert "x = 1 / 0" in done.text and "magics.py" not in done.text
    assert len(done.html) == 1
    run = latest()
    assert run["x"].values == [1]
    assert (run.status, run.calls()[0].error) == ("failed", "ZeroDivisionError: division by zero")
    traceback = done.result.error_in_exec.__traceback__
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    assert traceback.tb_lineno == 4


def test_magics_inside_the_cell_work(shell: InteractiveShell) -> None:
    good(shell, "%%clew --watch x\nx = 1\n%config InteractiveShell.ast_node_interactivity\nx = 2")
    assert latest()["x"].values == [1, 2]


def test_a_block_in_a_cell_and_a_star_import(shell: InteractiveShell) -> None:
    good(shell, "%%clew --watch pi\nimport clew\nfrom math import *\nwith clew.watch('z'):\n    z = 1\n    z = 2\n")
    run = latest()
    assert run["z"].values == [1, 2]
    assert len(run["pi"].values) == 1


def test_switched_off_the_cell_just_runs(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW", "0")
    done = good(shell, "%%clew --watch x\nx = 1\nx")
    assert (done.result.result, done.html) == (1, [])
    assert list(clew.runs()) == []


# ---- what is refused


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "say what to record"),
        ("--wach x", "the options are --watch, --follow"),
        ("--watch", "expected one argument"),
        ("--watch 'x", "no closing quotation"),
        ("--watch 'x +'", "x +"),
        ("--watch x --tag lr", "--tag lr=0.1"),
        ("--watch 'x, valeu'", "no `valeu` in this cell or before it; did you mean `value`?"),
        ("--watch 'trian: x'", "no function `trian`; did you mean `train`?"),
        ("--follow trian", "no `trian` in this cell or before it; did you mean `train`?"),
        ("--follow len", "len"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_before_anything_runs(shell: InteractiveShell, line: str, words: str) -> None:
    done = Done(shell, f"%%clew {line}\nx = value = 1\ndef train(): pass")
    assert not done.result.success
    said = done.text.strip().splitlines()
    assert len(said) == 1 and words in said[0], done.text
    assert "UsageError: %%clew: " in said[0]
    assert "value" not in shell.user_ns
    assert list(clew.runs()) == []


def test_a_cell_that_awaits_is_refused(shell: InteractiveShell) -> None:
    done = Done(shell, "%%clew --watch x\nimport asyncio\nx = await asyncio.sleep(0)")
    assert "awaits at its own level" in done.text


def test_a_syntax_error_is_pythons_own(shell: InteractiveShell) -> None:
    done = Done(shell, "%%clew --watch x\nx = = 1")
    assert "SyntaxError" in done.text


# ---- --follow


def functions_called(run: Run) -> list[str]:
    return [call.function for call in run.calls() if not call.function.startswith("<")]


def test_a_function_of_an_earlier_cell_is_followed(shell: InteractiveShell) -> None:
    done = good(
        shell,
        "def inner(a):\n    return a + 1\ndef outer(a):\n    return inner(a) * 2",
        "%%clew --follow outer\noutcome = outer(3)\noutcome",
    )
    assert done.result.result == 8
    run = latest()
    assert functions_called(run) == ["outer", "inner"]
    assert run.calls("inner")[0].args == {"a": 3}
    assert len(done.html) == 1 and "outer" in done.html[0]


def test_a_function_that_the_cell_defines_is_followed(shell: InteractiveShell) -> None:
    good(
        shell,
        "%%clew --follow 'f, C.m'\ndef f(a):\n    return a\n"
        "class C:\n    def m(self):\n        return f(2)\nf(1)\nC().m()",
    )
    assert functions_called(latest()) == ["f", "C.m", "f"]


def test_following_ends_with_the_cell(shell: InteractiveShell) -> None:
    good(shell, "def f(a):\n    return a")
    before = shell.user_ns["f"].__code__
    good(shell, "%%clew --follow f\nf(1)")
    assert shell.user_ns["f"].__code__ is before


def test_watching_and_following_the_same_function(shell: InteractiveShell) -> None:
    done = good(shell, "%%clew --watch x --follow f\ndef f(a):\n    x = a + 1\n    return x\nx = f(1)")
    run = latest()
    assert [(c.call.function.split(":")[0], c.value) for c in run.changes("x")] == [("f", 2), ("<cell line", 2)]
    (call,) = run.calls("f")
    assert (call.args, call.result) == ({"a": 1}, 2)
    assert len(done.html) == 2


def test_a_function_that_is_never_defined_is_in_the_ledger(shell: InteractiveShell) -> None:
    good(shell, "%%clew --follow f\nif False:\n    def f(): pass")
    assert [note.text for note in latest().ledger if note.subject == "f"] == ["--follow f: it was never defined."]


# ---- the extension


def test_the_extension_is_no_part_of_the_public_names() -> None:
    assert callable(clew.load_ipython_extension)
    assert "load_ipython_extension" not in dir(clew)


def test_after_unloading_there_is_no_such_magic(shell: InteractiveShell) -> None:
    shell.run_line_magic("unload_ext", "clew")
    assert shell.find_cell_magic("clew") is None
    shell.run_line_magic("load_ext", "clew")
    assert "Record what happens" in (shell.find_cell_magic("clew").__doc__ or "")


def test_loading_the_module_does_not_need_ipython() -> None:
    assert "IPython" not in vars(sys.modules["clew.magics"])


# ---- what fails in clew


@pytest.mark.parametrize(
    "place",
    ["magics._options", "magics._cell", "magics._display", "magics.follow", "recording.start",
     "probes.watch.notebook_cell.Cell._compiled", "probes.watch.notebook_cell.Cell._watch_defined",
     "probes.watch.notebook_cell.Cell.__exit__",
     "recording.Recording._close", "probes.watch.with_block.rewrite_block"],
)  # fmt: skip
def test_a_cell_runs_once_and_gives_its_value_whatever_fails_in_clew(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("CLEW_STRICT", "0")
    monkeypatch.setattr(f"clew.{place}", lambda *args, **kwargs: 1 / 0)
    shell.user_ns["ran"] = []
    done = good(shell, '%%clew --watch "a" --follow f\ndef f():\n    return 5\nran.append(1)\na = f()\na + 1')
    assert done.result.result == 6
    assert shell.user_ns["ran"] == [1]


def test_the_error_of_a_cell_is_its_own_also_when_clew_fails(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEW_STRICT", "0")
    monkeypatch.setattr("clew.magics._display", lambda *args, **kwargs: 1 / 0)
    done = Done(shell, '%%clew --watch "a"\na = 1\nraise LookupError("mine")')
    assert type(done.result.error_in_exec) is LookupError

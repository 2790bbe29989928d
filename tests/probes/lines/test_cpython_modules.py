"""House rule 1, by CPython's own judgement: its test modules end the same with every function watched with "*".

The functions of the test module and of the module under test are watched, and those they make while they run. By
default a good two dozen modules (the first dozen and a half on other Pythons than the primary one);
CLEW_CPYTHON_ALL=1 adds those that take minutes.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RUNNER = Path(__file__).with_name("cpython_runner.py")

QUICK = [
    "test_scope", "test_generators", "test_coroutines", "test_asyncgen", "test_super", "test_grammar", "test_with",
    "test_exceptions", "test_named_expressions", "test_patma", "test_yield_from", "test_decorators", "test_raise",
    "test_except_star", "test_types types", "test_copy copy", "test_fstring", "test_bisect bisect", "test_property",
    "test_positional_only_arg", "test_funcattrs", "test_augassign", "test_keywordonlyarg", "test_string string",
    "test_json json json.decoder json.encoder json.scanner", "test_textwrap textwrap", "test_reprlib reprlib",
    "test_abc abc", "test_list", "test_string_literals", "test_syntax", "test_global",
]  # fmt: skip

LONG = [
    "test_collections collections", "test_contextlib contextlib", "test_contextlib_async contextlib",
    "test_dataclasses dataclasses", "test_descr", "test_exception_group", "test_inspect inspect", "test_iter",
    "test_itertools", "test_pprint pprint", "test_shlex shlex", "test_statistics statistics", "test_typing typing",
    "test_weakref weakref", "test_fractions fractions", "test_functools functools", "test_enum enum",
    "test_argparse argparse", "test_heapq heapq", "test_dict", "test_queue queue",
]  # fmt: skip

#: Tests that look at what must differ.
LEFT_OUT = {
    "test_patma": ["test.test_patma.TestTracing"],  # counts the line events of settrace inside `match`
    "test_context": ["test.test_context.ContextTest"],  # counts the context's variables, of which clew's is one
    "test_grammar": ["test.test_grammar.GrammarTests.test_funcdef"],  # compares `__code__.co_varnames`
    "test_exceptions": ["test.test_exceptions.ExceptionTests.test_recursion_in_except_handler"],  # counts frames
}


def outcome(folder: Path, modules: list[str], *, watch: bool) -> dict[str, Any]:
    out = folder / ("watched.json" if watch else "plain.json")
    left_out = [word for name in LEFT_OUT.get(modules[0], []) for word in ("--without", name)]
    words = [*(["--watch"] if watch else []), *left_out, f"test.{modules[0]}", *modules[1:]]
    done = subprocess.run(
        [sys.executable, str(RUNNER), str(out), *words],
        capture_output=True,
        text=True,
        timeout=1200,
        env={**os.environ, "PYTHONHASHSEED": "0", "TMPDIR": str(folder), "CLEW_QUIET": "1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result: dict[str, Any] = json.loads(out.read_text())
    return result


def chosen() -> list[str]:
    if os.environ.get("CLEW_CPYTHON_ALL") == "1":
        return [*QUICK, *LONG]
    return QUICK if sys.version_info[:2] == (3, 11) else QUICK[:18]


@pytest.mark.parametrize("words", chosen())
def test_a_module_of_cpythons_ends_the_same_when_everything_in_it_is_watched(words: str, tmp_path: Path) -> None:
    modules = words.split()
    assert importlib.util.find_spec(f"test.{modules[0]}"), "this Python comes without its tests"
    plain = outcome(tmp_path, modules, watch=False)
    watched = outcome(tmp_path, modules, watch=True)
    differing = {
        name: (plain["ended"].get(name), watched["ended"].get(name), watched["details"].get(name, "")[-1500:])
        for name in {**plain["ended"], **watched["ended"]}
        if plain["ended"].get(name) != watched["ended"].get(name)
    }
    assert differing == {}
    assert watched["unknown"] == []  # every source was found, and is what runs
    assert watched["functions"] + watched["nested"] > 0

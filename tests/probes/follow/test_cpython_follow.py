"""House rule 1 for `clew.follow`: CPython's test modules end the same with all calls of their functions followed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from probes.cpython import ALL, differing, is_here, outcome

#: The first on every Python, the others shared out among them.
MODULES = ["test_scope", "test_exceptions", "test_generators", "test_with", "test_except_star"]
SHARED = {
    (3, 11): ["test_scope", "test_exceptions", "test_generators"],
    (3, 12): ["test_scope", "test_with"],
    (3, 13): ["test_scope", "test_except_star"],
    (3, 14): ["test_scope", "test_tstring"],
    (3, 15): ["test_scope", "test_lazy_import"],
}
LONG = [
    "test_raise", "test_textwrap textwrap",
    "test_coroutines", "test_super", "test_decorators", "test_patma", "test_context",
    "test_asyncgen", "test_yield_from", "test_named_expressions", "test_property", "test_funcattrs", "test_augassign",
    "test_copy copy", "test_types types", "test_fractions fractions", "test_string string", "test_grammar",
    "test_positional_only_arg", "test_keywordonlyarg", "test_contextlib contextlib", "test_dataclasses", "test_descr",
    "test_functools functools", "test_iter", "test_json json json.decoder json.encoder", "test_weakref weakref",
]  # fmt: skip

#: Tests that end differently, and must: by id, with the reason.
DIFFERENT = {
    "test.test_context.ContextTest.test_context_getset_1": "counts the variables of a context; clew's log is one there",
    "test.test_grammar.GrammarTests.test_funcdef": "compares co_varnames, where clew's own variables stand",
    "test.test_patma.TestTracing.test_default_capture": "counts settrace's line events inside `match`",
    "test.test_patma.TestTracing.test_only_default_capture": "counts settrace's line events inside `match`",
    "test.test_descr.ClassPropertiesAndMethods.test_slots": "counts all objects the collector knows",
    "test.test_patma.TestTracing.test_no_default": "counts settrace's line events inside `match`",
    "test.test_patma.TestSourceLocations.test_jump_threading": "wants a line for every jump; clew's way out has none",
    "test.test_patma.TestTracing.test_unreachable_code": "wants no line event where a function ends by itself",
}


SOME = SHARED.get(sys.version_info[:2], MODULES)
CHOSEN = [words for words in ([*MODULES, *LONG] if ALL else SOME) if is_here(words)]


@pytest.mark.parametrize("words", CHOSEN)
def test_a_module_of_cpythons_ends_the_same_when_everything_in_it_is_followed(words: str, tmp_path: Path) -> None:
    modules = words.split()
    plain = outcome(tmp_path, modules)
    followed = outcome(tmp_path, modules, "--follow")
    assert differing(plain, followed, DIFFERENT) == {}
    assert followed["unknown"] == []
    assert followed["functions"] > 0

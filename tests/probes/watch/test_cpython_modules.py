"""House rule 1, by CPython's own judgement: its test modules end the same with every function watched with "*".

The functions of the test module and of the module under test are watched, and those they make while they run. By
default some sixteen modules, shared out among the Pythons; CLEW_CPYTHON_ALL=1 runs all of them, and those that take
longer.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from probes.cpython import ALL, differing, is_here, outcome

#: A test module, and the modules watched along with it: those that take longer.
LONG = [
    "test_decorators", "test_raise", "test_types types", "test_copy copy", "test_property", "test_positional_only_arg",
    "test_keywordonlyarg", "test_funcattrs", "test_augassign", "test_string string",
    "test_annotationlib annotationlib",
    "test_abc abc", "test_bisect bisect", "test_collections", "test_contextlib contextlib",
    "test_contextlib_async contextlib", "test_dataclasses", "test_descr", "test_dict", "test_dictcomps",
    "test_exception_group", "test_extcall", "test_fstring", "test_functools", "test_generator_stop", "test_genexps",
    "test_global", "test_iter", "test_json json json.decoder json.encoder json.scanner", "test_list", "test_listcomps",
    "test_reprlib reprlib", "test_shlex shlex", "test_string_literals", "test_syntax", "test_unpack_ex",
    "test_weakref weakref",
]  # fmt: skip

#: Tests that end differently, and must: by id (or its beginning), with the reason.
_LIVES_ON = "what a callee takes out of a container that its caller watches lives until the caller's statement is done"
DIFFERENT = {
    "test.test_grammar.GrammarTests.test_funcdef": "compares co_varnames, where clew's own variables stand",
    "test.test_patma.TestTracing.test_default_capture": "counts settrace's line events inside `match`",
    "test.test_patma.TestTracing.test_no_default": "counts settrace's line events inside `match`",
    "test.test_patma.TestSourceLocations.test_jump_threading": "wants a line for every jump; clew's way in and out "
    "has none, so that debuggers do not stop there",
    "test.test_descr.ClassPropertiesAndMethods.test_slots": "counts all objects the collector knows",
    "test.test_weakref.MappingTestCase.test_weak_keys_destroy_while_iterating": _LIVES_ON,
    "test.test_weakref.MappingTestCase.test_weak_values_destroy_while_iterating": _LIVES_ON,
    "test.test_dict.DictTest.test_oob_indexing_dictiter_iternextitem": _LIVES_ON,
}

#: Tests that are not run, with the reason.
_WHOLE = 'what is done thousands of times to one container costs its whole length each time under "*"'
_LEN = "puts another function in the place of the built-in len(), which clew uses as well"
NOT_RUN = {
    "test.test_contextlib.TestExitStack.test_excessive_nesting": _WHOLE,
    "test.test_contextlib_async.TestAsyncExitStack.test_excessive_nesting": _WHOLE,
    "test.test_descr.ClassPropertiesAndMethods.test_cycle_through_dict": _WHOLE,
    "test.test_descr.ClassPropertiesAndMethods.test_python_dicts": _WHOLE,
    "test.test_descr.ClassPropertiesAndMethods.test_slots_trash": _WHOLE,
    "test.test_dict.DictTest.test_copy_fuzz": _WHOLE,
    "test.test_exception_group.DeepRecursionInSplitAndSubgroup": _WHOLE,
    "test.test_iter.TestCase.test_iter_big_range": _WHOLE,
    "test.test_exceptions.TestInvalidExceptionMatcher.test_given_exception_matches_deeply_nested_tuple": _WHOLE,
    "test.test_functools.TestLRUC.test_lru_reentrancy_with_len": _LEN,
    "test.test_functools.TestLRUPy.test_lru_reentrancy_with_len": _LEN,
    "test.test_weakref.MappingTestCase.test_threaded_weak_key_dict_copy": _WHOLE,
    "test.test_weakref.MappingTestCase.test_threaded_weak_key_dict_deepcopy": _WHOLE,
    "test.test_weakref.MappingTestCase.test_threaded_weak_value_dict_copy": _WHOLE,
    "test.test_weakref.MappingTestCase.test_threaded_weak_value_dict_deepcopy": _WHOLE,
    "test.test_weakref.MappingTestCase.test_threaded_weak_valued_consistency": _WHOLE,
    "test.test_weakref.MappingTestCase.test_threaded_weak_valued_pop": _WHOLE,
    "test.test_weakref.MappingTestCase.test_threaded_weak_valued_setdefault": _WHOLE,
}


def test_this_python_comes_with_its_tests() -> None:
    assert is_here("test_scope")


#: On every Python, because what differs between versions shows in these.
EVERYWHERE = ["test_scope", "test_generators"]

#: The rest is shared out: each is run on one of the Pythons at least, those that their version is about on it.
SHARED = {
    (3, 11): [
        "test_exceptions", "test_except_star", "test_coroutines", "test_asyncgen", "test_grammar", "test_with",
        "test_context", "test_named_expressions",
    ],
    (3, 12): ["test_coroutines", "test_patma", "test_yield_from", "test_type_params"],
    (3, 13): [
        "test_asyncgen", "test_super", "test_grammar", "test_textwrap textwrap", "test_fractions fractions",
        "test_type_aliases",
    ],
    (3, 14): ["test_tstring", "test_type_annotations"],
    (3, 15): ["test_grammar", "test_type_params", "test_type_annotations"],
}  # fmt: skip
QUICK = list(dict.fromkeys(words for share in (EVERYWHERE, *SHARED.values()) for words in share))

CHOSEN = [*QUICK, *LONG] if ALL else [*EVERYWHERE, *SHARED.get(sys.version_info[:2], QUICK)]
MODULES = [words for words in CHOSEN if is_here(words)]


@pytest.mark.parametrize("words", MODULES)
def test_a_module_of_cpythons_ends_the_same_when_everything_in_it_is_watched(words: str, tmp_path: Path) -> None:
    modules = words.split()
    plain = outcome(tmp_path, modules, left_out=tuple(NOT_RUN))
    watched = outcome(tmp_path, modules, "--watch", tuple(NOT_RUN))
    assert differing(plain, watched, DIFFERENT) == {}
    assert watched["unknown"] == []  # every source was found, and is what runs
    assert watched["functions"] + watched["nested"] > 0

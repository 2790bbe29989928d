"""Every way of binding counts: one small program each, on every engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew import DELETED

from .checking import check_trace

pytestmark = pytest.mark.usefixtures("engine")


def test_plain_assignment(tmp_path: Path) -> None:
    check_trace(tmp_path, "def f():\n    x = 1\n    x = 2\n", [("x", 2, 1), ("x", 3, 2)])


def test_binding_an_equal_value_is_no_change(tmp_path: Path) -> None:
    check_trace(tmp_path, "def f():\n    x = 1000.5\n    x = 1000.5 * 1\n    x = [1]\n    x = [1]\n",
                [("x", 2, 1000.5), ("x", 4, [1])])  # fmt: skip


def test_one_and_true_and_one_point_zero_differ(tmp_path: Path) -> None:
    check_trace(tmp_path, "def f():\n    x = 1\n    x = True\n    x = 1.0\n",
                [("x", 2, 1), ("x", 3, True), ("x", 4, 1.0)])  # fmt: skip


def test_minus_zero_differs_from_zero_and_nan_equals_nan(tmp_path: Path) -> None:
    from .checking import recorded

    source = "def f():\n    x = 0.0\n    x = -0.0\n    x = float('nan')\n    x = float('nan')\n    x = 1.0\n"
    values = recorded(tmp_path, source, "x")["x"].values
    assert [repr(value) for value in values] == ["0.0", "-0.0", "nan", "1.0"]


def test_tuple_starred_and_chained(tmp_path: Path) -> None:
    check_trace(
        tmp_path,
        "def f():\n    a, (b, *c) = 1, (2, 3, 4)\n    d = e = 5\n",
        [("a", 2, 1), ("b", 2, 2), ("c", 2, [3, 4]), ("d", 3, 5), ("e", 3, 5)],
    )


def test_annotated_and_augmented(tmp_path: Path) -> None:
    check_trace(tmp_path, "def f():\n    x: int = 1\n    y: int\n    x += 2\n", [("x", 2, 1), ("x", 4, 3)])


def test_walrus_also_when_it_is_not_reached(tmp_path: Path) -> None:
    check_trace(
        tmp_path,
        """
        def f():
            if False and (x := 1):
                pass
            if (x := 2) and [y := n for n in (7, 8)]:
                pass
        """,
        [("x", 4, 2), ("y", 4, 8)],
    )


def test_for_while_and_their_else(tmp_path: Path) -> None:
    check_trace(
        tmp_path,
        """
        def f():
            for i in range(2):
                j = i
            else:
                k = 9
            while j > -1:
                j -= 1
        """,
        [("i", 2, 0), ("j", 3, 0), ("i", 2, 1), ("j", 3, 1), ("k", 5, 9), ("j", 7, 0), ("j", 7, -1)],
    )


def test_with_as(tmp_path: Path) -> None:
    check_trace(
        tmp_path,
        """
        import contextlib
        def f():
            with contextlib.nullcontext(1) as a, contextlib.nullcontext((2, 3)) as (b, c):
                d = a
        """,
        [("a", 3, 1), ("b", 3, 2), ("c", 3, 3), ("d", 4, 1)],
    )


def test_the_name_of_an_exception_goes_when_its_handler_ends(tmp_path: Path) -> None:
    from .checking import recorded

    source = """
    def f():
        try:
            1 / 0
        except ZeroDivisionError as error:
            x = 1
        y = 2
    """
    changes = recorded(tmp_path, source, "error", "y").calls("f")[0].changes
    assert [(c.name, c.value is DELETED) for c in changes] == [("error", False), ("error", True), ("y", False)]


def test_match_captures(tmp_path: Path) -> None:
    check_trace(
        tmp_path,
        """
        def f():
            match {"k": [1, 2, 3], "other": 4}:
                case {"k": [first, *rest], **more}:
                    pass
        """,
        [("first", 3, 1), ("rest", 3, [2, 3]), ("more", 3, {"other": 4})],
    )


def test_import_def_and_class_bind_names(tmp_path: Path) -> None:
    from .checking import recorded

    source = """
    def f():
        import os.path
        from json import dumps as d
        def inner(): pass
        class Inner: pass
    """
    changes = recorded(tmp_path, source, "*").calls("f")[0].changes
    assert [(c.name, c.line) for c in changes] == [("os", 2), ("d", 3), ("inner", 4), ("Inner", 5)]


def test_del_is_a_change(tmp_path: Path) -> None:
    check_trace(tmp_path, "def f():\n    x = 1\n    del x\n    x = 1\n",
                [("x", 2, 1), ("x", 3, DELETED), ("x", 4, 1)])  # fmt: skip


def test_arguments_are_the_first_values(tmp_path: Path) -> None:
    check_trace(
        tmp_path,
        "def f(a, b=2, *args, c, **rest):\n    a = 5\n",
        [("a", 1, 1), ("b", 1, 2), ("c", 1, 4), ("args", 1, (3,)), ("rest", 1, {"d": 5}), ("a", 2, 5)],
        "a", "b", "args", "c", "rest",
        args=(1, 2, 3), kwargs={"c": 4, "d": 5},
    )  # fmt: skip


def test_nonlocal_and_global_changes_made_elsewhere(tmp_path: Path) -> None:
    check_trace(
        tmp_path,
        """
        count = 0
        def bump():
            global count
            count += 1
        def f():
            x = 1
            def inner():
                nonlocal x
                x = 2
            inner()
            bump()
        """,
        [("count", 5, 0), ("x", 6, 1), ("x", 10, 2), ("count", 11, 1)],
        "x", "count",
    )  # fmt: skip


def test_changes_in_place_through_an_alias_and_in_a_callee(tmp_path: Path) -> None:
    check_trace(
        tmp_path,
        """
        def grow(things):
            things.append(2)
        def f():
            x = [1]
            alias = x
            alias.append(9)
            grow(alias)
            del alias[0]
        """,
        [("x", 4, [1]), ("x", 6, [1, 9]), ("x", 7, [1, 9, 2]), ("x", 8, [9, 2])],
        "x",
    )


def test_looking_up_a_missing_key_changes_a_defaultdict(tmp_path: Path) -> None:
    from .checking import recorded

    source = "import collections\ndef f():\n    d = collections.defaultdict(int)\n    y = d['k']\n"
    assert [dict(value) for value in recorded(tmp_path, source, "d")["d"].values] == [{}, {"k": 0}]


def test_a_statement_over_several_lines_belongs_to_its_first(tmp_path: Path) -> None:
    check_trace(tmp_path, "def f():\n    x = [\n        1,\n        2,\n    ]\n    x.append(\n        3\n    )\n",
                [("x", 2, [1, 2]), ("x", 6, [1, 2, 3])])  # fmt: skip


def test_paths_into_values(tmp_path: Path) -> None:
    check_trace(
        tmp_path,
        """
        class C: pass
        def f():
            obj = {"a": {"b": 1}}
            c = C()
            c.x = 1
            obj["a"]["b"] = 2
            c.x = 2
            del obj["a"]
        """,
        [('obj["a"]["b"]', 3, 1), ("c.x", 5, 1), ('obj["a"]["b"]', 6, 2), ("c.x", 7, 2), ('obj["a"]["b"]', 8, DELETED)],
        'obj["a"]["b"]', "c.x",
    )  # fmt: skip


def test_any_expression_is_silent_while_it_cannot_be_evaluated(tmp_path: Path) -> None:
    check_trace(tmp_path, "def f():\n    y = 0\n    q = [1]\n    q.append(2)\n    q = None\n    q = [1, 2, 3]\n",
                [("len(q)", 3, 1), ("len(q)", 4, 2), ("len(q)", 6, 3)], "len(q)")  # fmt: skip

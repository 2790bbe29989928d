"""Containers: what they hold, in which order, shared, cyclic, deep and large."""

from __future__ import annotations

import array
import threading
import types
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

import pytest

from clew.records import Kept, NotKept, Object
from clew.values import Keep, capture, decode, parse_keep
from values.exact import same

CONTAINERS: list[Any] = [
    [], (), {}, set(), frozenset(), [[]], [()], [{}],
    [1, "a", None, 2.5, True], (1,), (1, (2, (3,))), {"a": 1, "b": [1, {"c": ()}]},
    {1: "a", "1": "b", 1.5: "c", None: "d", (1, 2): "e", b"k": "f"}, {"$": 1}, {"$ref": 1, "a": 2}, {"\ud800": 1},
    {1, 2, 3}, {(1, "a"), None}, frozenset([frozenset([1])]), [float("nan"), -0.0], {"x": float("inf")},
    OrderedDict(b=1, a=2), Counter("abca"), deque([1, 2], maxlen=2), deque(), [b"x" * 2000], {"t": "x" * 5000},
    bytearray(b"abc"), array.array("d", [1.5, 2.5]), slice(1, None, 2), [1, 2**3000, "\ud800"],
    types.SimpleNamespace(a=1, b=[2]), [None] * 5, {True: 1}, [[1, 2], [3.5], ["x"]], {"a": {}, "b": []},
]  # fmt: skip


@pytest.mark.parametrize("value", CONTAINERS, ids=[f"{n}-{type(v).__name__}" for n, v in enumerate(CONTAINERS)])
def test_a_container_reads_back_as_it_was(value: Any) -> None:
    found = capture(value)
    assert found.value.kept is Kept.FULL
    assert same(decode(found.value), value)
    assert found.unchanged(value)


def test_containers_that_differ_have_different_digests() -> None:
    assert len({capture(v).digest for v in CONTAINERS}) == len(CONTAINERS)


def test_a_defaultdict_keeps_its_factory_when_it_is_a_builtin() -> None:
    back = decode(capture(defaultdict(list, a=[1])).value)
    assert type(back) is defaultdict and back.default_factory is list and back["new"] == []


def test_a_defaultdict_with_a_users_factory_says_that_it_is_not_kept() -> None:
    found = capture(defaultdict(lambda: 5, a=1))
    assert found.value.kept is Kept.PART
    assert decode(found.value).part == {"a": 1}


def test_a_mappingproxy_and_a_memoryview_read_back() -> None:
    back = decode(capture(types.MappingProxyType({"a": [1]})).value)
    assert type(back) is types.MappingProxyType and back == {"a": [1]}
    view = memoryview(array.array("i", [1, 2, 3]))
    assert decode(capture(view).value).tolist() == [1, 2, 3]


def test_the_order_of_a_set_does_not_matter_and_that_of_a_dict_does() -> None:
    one, two = {1, 9, 17, 25}, {25, 17, 9, 1}
    assert capture(one).digest == capture(two).digest
    assert capture({"a": 1, "b": 2}).digest != capture({"b": 2, "a": 1}).digest


def test_move_to_end_is_a_change() -> None:
    value = OrderedDict(a=1, b=2)
    found = capture(value)
    value.move_to_end("a")
    assert not found.unchanged(value)
    assert list(decode(capture(value).value)) == ["b", "a"]


def test_sharing_is_kept_and_does_not_count_as_a_difference() -> None:
    part = [1]
    back = decode(capture([part, part, (part,)]).value)
    assert back[0] is back[1] and back[2][0] is back[0]
    assert capture([part, part]).digest == capture([[1], [1]]).digest


def test_much_sharing_does_not_multiply_the_work() -> None:
    value: Any = [1]
    for _ in range(150):
        value = [value, value]
    found = capture(value)
    assert found.unchanged(value)


def test_cycles_read_back_as_cycles() -> None:
    loop: list[Any] = [1]
    loop.append({"self": loop, "pair": (loop, 2)})
    found = capture(loop)
    back = decode(found.value)
    assert back[1]["self"] is back and back[1]["pair"][0] is back
    assert found.unchanged(loop)


def test_a_tuple_in_a_cycle_reads_back() -> None:
    inner: list[Any] = []
    loop = (inner, (inner,))
    inner.append(loop)
    back = decode(capture(loop).value)
    assert back[0][0] is back


def test_cyclic_values_with_different_content_differ() -> None:
    def ring(*values: int) -> list[Any]:
        out: list[Any] = [values[0]]
        last = out
        for v in values[1:]:
            last.append([v])
            last = last[-1]
        last.append(out)
        return out

    assert capture(ring(1, 2, 3)).digest == capture(ring(1, 2, 3)).digest
    assert len({capture(ring(*r)).digest for r in [(1,), (1, 1), (1, 2), (2, 1), (1, 2, 3)]}) == 5


def test_a_back_reference_to_another_place_is_another_value() -> None:
    def twice(other: bool) -> list[Any]:
        a: list[Any] = [1]
        b: list[Any] = [2, a]
        a.append(b)
        c: list[Any] = [2]
        c.append(c if other else a)
        return [a, c]

    assert capture(twice(True)).digest != capture(twice(False)).digest


def test_very_deep_values_are_hashed_to_the_bottom_and_kept_to_the_limit() -> None:
    def nest(bottom: int) -> list[Any]:
        out: list[Any] = [bottom]
        for _ in range(50_000):
            out = [out]
        return out

    one, two = nest(1), nest(2)
    found = capture(one)
    assert found.value.kept is Kept.PART and "deeper than 200" in found.value.why
    assert found.digest != capture(two).digest
    assert isinstance(decode(found.value), NotKept)
    assert found.unchanged(one)
    for value in (one, two):  # taken apart by hand: freeing it at once would be deep too
        while value and isinstance(value[0], list):
            value[:] = value[0]


def test_a_container_over_the_item_limit_keeps_head_and_tail() -> None:
    value = list(range(5000))
    found = capture(value, Keep(item_limit=2000))
    back = decode(found.value)
    assert found.value.kept is Kept.PART and "2,000 items" in found.value.why
    assert back.part[0] == 0 and back.part[-1] == 4999 and len(back.part) == 1000
    assert back.summary.length == 5000
    value[2500] = -1
    assert not found.unchanged(value)
    assert capture(value, Keep(item_limit=2000)).digest != found.digest


def test_nested_content_beyond_the_limit_is_cut_everywhere_and_still_hashed() -> None:
    value = [{"rows": [[i, [j]] for j in range(30)]} for i in range(100)]
    keep = Keep(item_limit=200)
    found = capture(value, keep)
    assert found.value.body is not None and len(found.value.body) < 20_000
    assert isinstance(decode(found.value), NotKept)
    value[50]["rows"][3][1][0] = "new"
    assert capture(value, keep).digest != found.digest


def test_a_dict_over_the_limit_keeps_its_first_and_last_items() -> None:
    back = decode(capture({i: str(i) for i in range(3000)}, Keep(item_limit=1000)).value)
    assert back.part[0] == "0" and back.part[2999] == "2999"


def test_bytes_over_the_budget_are_cut() -> None:
    found = capture([b"x" * 5000, b"y" * 5000], Keep(array_limit=6000))
    assert found.value.kept is Kept.PART
    first, second = decode(found.value).part
    assert first == b"x" * 5000
    assert isinstance(second, NotKept) and second.summary.length == 5000


def test_many_texts_together_are_under_the_budget_too() -> None:
    found = capture(["x" * 1000] * 100, Keep(array_limit=10_000))
    assert found.value.kept is Kept.PART
    assert found.value.body is not None and len(found.value.body) < 150_000


def test_keep_summary_keeps_no_body_but_the_length() -> None:
    found = capture([1, [2, 3]], parse_keep("summary"))
    assert found.value.body is None and found.value.kept is Kept.SUMMARY and found.value.summary.length == 2
    assert isinstance(decode(found.value), NotKept)


def test_objects_can_be_keys_again() -> None:
    class Key:
        def __init__(self, name: str) -> None:
            self.name = name

    back = decode(capture({Key("a"): 1, (Key("b"), 2): 3}).value)
    first, second = back
    assert isinstance(first, Object) and first.name == "a" and back[first] == 1
    assert second[0].name == "b"


def test_opaque_things_can_be_keys_and_say_what_they_were() -> None:
    found = capture({int: 1, len: 2})
    assert found.value.kept is Kept.PART
    back = decode(found.value)
    assert isinstance(back, NotKept)
    assert sorted(key.part for key in back.part) == ["int", "len"]


def test_a_list_of_ten_thousand_mixed_items_is_exact_in_the_middle() -> None:
    value: list[Any] = [i if i % 2 else [i] for i in range(10_000)]
    found = capture(value)
    value[5000][0] = 5000.0
    assert not found.unchanged(value)
    assert capture(value).digest != found.digest


def test_a_dict_changed_by_another_thread_all_the_time_never_raises() -> None:
    value: dict[Any, Any] = {i: [i] for i in range(200)}
    stop = threading.Event()

    def change() -> None:
        n = 0
        while not stop.is_set():
            value[f"k{n % 50}"] = n
            value.pop(f"k{(n + 25) % 50}", None)
            n += 1

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(200):
            found = capture(value)
            found.unchanged(value)
            decode(found.value)
    finally:
        stop.set()
        thread.join()


def test_a_damaged_body_reads_as_not_kept_and_says_why() -> None:
    value = capture([1, (2, 3)]).value
    value.body = '[1,{"$":"tuple","itms":[2,3]}]'
    back = decode(value)
    assert isinstance(back, NotKept) and "damaged" in back.why
    value.body = "[1,"
    assert "damaged" in decode(value).why


def test_a_list_longer_than_one_piece_may_have_all_its_integers_in_the_other_piece() -> None:
    value = [1, *["x"] * (1 << 17)]
    found = capture(value, Keep(item_limit=1 << 20))
    assert decode(found.value) == value


def test_containers_met_twice_are_one_when_read_back() -> None:
    inside = (1, [2])
    back = decode(capture({"a": inside, "b": [inside]}).value)
    assert back == {"a": inside, "b": [inside]} and back["a"][1] is back["b"][0][1]


def test_a_dollar_key_inside_a_nested_dict_reads_back() -> None:
    value = {"a": {"$": "tuple", "items": [1]}, "b": [{"$x": float("nan")}], "c": "$"}
    back = decode(capture(value).value)
    assert back["a"] == value["a"] and list(back["b"][0]) == ["$x"] and back["c"] == "$"

"""Found by hypothesis: for any value, what was captured is what is read back, and the digest tells values apart."""

from __future__ import annotations

from collections import deque
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from clew.records import Kept
from clew.values import Keep, capture, decode, parse_keep, same_scalar
from values.exact import same

SETTINGS = settings(max_examples=settings().max_examples * 3 // 2)

texts = st.text(st.characters(), max_size=8) | st.text(st.characters(categories=["Cs"]), max_size=3)
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | texts | st.binary(max_size=8) | st.complex_numbers()
) | st.sampled_from([0, 0.0, -0.0, 1, 1.0, True, "1", b"1", "", "$", 10**700])
hashables = st.recursive(
    scalars | st.dates() | st.timedeltas() | st.decimals(allow_nan=False) | st.uuids(),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=4,
)
values = st.recursive(
    hashables,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.tuples(inner)
        | st.dictionaries(texts, inner, max_size=4)
        | st.dictionaries(hashables, inner, max_size=3)
        | st.sets(hashables, max_size=4)
        | st.lists(inner, max_size=3).map(deque)
    ),
    max_leaves=12,
)


@SETTINGS
@given(values)
def test_a_value_reads_back_as_it_was(value: Any) -> None:
    found = capture(value)
    assert found.value.kept is Kept.FULL
    assert same(decode(found.value), value)
    assert found.unchanged(value)


@SETTINGS
@given(values, values)
def test_digests_are_equal_exactly_when_values_are(one: Any, two: Any) -> None:
    assert (capture(one).digest == capture(two).digest) == same(one, two)


@SETTINGS
@given(values)
def test_what_was_read_back_has_the_same_digest(value: Any) -> None:
    found = capture(value)
    assert capture(decode(found.value)).digest == found.digest


@SETTINGS
@given(values)
def test_the_digest_is_the_same_whatever_is_kept(value: Any) -> None:
    whole = capture(value, parse_keep("full")).digest
    for keep in (parse_keep("summary"), Keep(item_limit=2, text_limit=2, array_limit=2)):
        assert capture(value, keep).digest == whole


@SETTINGS
@given(values)
def test_a_body_cut_to_nothing_still_reads_back(value: Any) -> None:
    found = capture(value, Keep(item_limit=3, text_limit=4, array_limit=5))
    back = decode(found.value)
    assert found.value.kept is not Kept.FULL or same(back, value)
    assert "damaged" not in getattr(back, "why", "")


@SETTINGS
@given(scalars, scalars)
def test_same_scalar_agrees_with_the_oracle(one: Any, two: Any) -> None:
    assert same_scalar(one, two) == same(one, two)


def _mutables(value: Any, out: list[Any]) -> list[Any]:
    if isinstance(value, list | deque):
        out.append(value)
        for inner in value:
            _mutables(inner, out)
    elif isinstance(value, tuple):
        for inner in value:
            _mutables(inner, out)
    elif isinstance(value, dict):
        out.append(value)
        for inner in value.values():
            _mutables(inner, out)
    elif isinstance(value, set):
        out.append(value)
    return out


@SETTINGS
@given(values, scalars, st.data())
def test_unchanged_is_false_after_any_change_of_the_digest(value: Any, new: Any, data: Any) -> None:
    value = [value]
    found = capture(value)
    target = data.draw(st.sampled_from(_mutables(value, [])))
    change = data.draw(st.sampled_from(["add", "remove", "replace"]))
    if isinstance(target, dict):
        target[next(iter(target), "k")] = new
    elif isinstance(target, set):
        target.add(new) if change == "add" else target and target.pop()
    elif change == "add" or not target:
        target.append(new)
    elif change == "remove":
        target.pop()
    else:
        target[0] = new
    if capture(value).digest != found.digest:
        assert not found.unchanged(value)

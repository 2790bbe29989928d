"""One row of a batch: in arrays, in columns, in samples; what has no rows stays whole."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.reading.rows import contents_of, is_by_row, row_of, shape_of
from clew.records import Kept, NotKept, Object, Summary


def test_the_row_of_an_array_is_its_row() -> None:
    assert row_of(np.arange(6).reshape(3, 2), 1, 3).tolist() == [2, 3]


def test_an_array_with_another_number_of_rows_stays_whole() -> None:
    array = np.zeros((4, 2))
    assert row_of(array, 1, 3) is array


def test_a_dict_of_columns_gives_a_dict_of_its_row() -> None:
    batch = OrderedDict(x=np.arange(3), name=["a", "b", "c"], rate=16000)
    assert row_of(batch, 2, 3) == {"x": 2, "name": "c", "rate": 16000}


def test_columns_of_images_and_labels_give_an_image_and_a_label() -> None:
    image, label = row_of([np.arange(24).reshape(2, 3, 4), np.array([7, 8])], 1, 2)
    assert image.shape == (3, 4) and label == 8


def test_three_images_of_three_channels_are_three_rows() -> None:
    samples = [np.full((3, 8, 8), place) for place in range(3)]
    assert row_of(samples, 2, 3) is samples[2]


def test_three_columns_of_tokens_are_columns() -> None:
    columns = [np.arange(12).reshape(3, 4) + place for place in range(3)]
    assert [row.tolist() for row in row_of(columns, 1, 3)] == [[4, 5, 6, 7], [5, 6, 7, 8], [6, 7, 8, 9]]


def test_sequences_of_different_lengths_are_rows() -> None:
    samples = [[1, 2, 3], [4], [5, 6]]
    assert row_of(samples, 0, 3) == [1, 2, 3]
    arrays = [np.zeros((3, 5)), np.zeros((7, 5)), np.zeros((2, 5))]
    assert row_of(arrays, 1, 3) is arrays[1]


def test_samples_that_are_tuples_are_rows() -> None:
    samples = [(np.zeros((2, 4)), 0), (np.ones((2, 4)), 1)]
    assert row_of(samples, 1, 2) is samples[1]


def test_a_tuple_of_texts_is_by_row_and_a_size_is_not() -> None:
    assert row_of((("cat", "dog"), (32, 64)), 1, 2) == ("dog", (32, 64))


def test_the_columns_that_zip_makes_are_columns_also_of_two_items() -> None:
    images, targets = (
        [np.zeros((3, 8, 8)), np.ones((3, 9, 9))],
        [{"boxes": np.zeros((5, 4))}, {"boxes": np.ones((1, 4))}],
    )
    image, target = row_of((tuple(images), tuple(targets)), 1, 2)
    assert image is images[1] and target is targets[1]


def test_an_object_that_was_read_back_keeps_its_type() -> None:
    row = row_of(Object("Batch", {"x": np.arange(3), "n": 3}), 1, 3)
    assert row == Object("Batch", {"x": 1, "n": 3})


def test_a_dict_of_a_users_class_is_looked_into() -> None:
    assert row_of(Object("BatchEncoding", {"data": {"ids": np.arange(3)}}), 1, 3) == {"ids": 1}


def test_what_was_not_kept_stays_as_it_is() -> None:
    value = NotKept("numpy.ndarray", Kept.SUMMARY, "large", Summary((3, 5), "float32"))
    assert row_of(value, 0, 3) is value
    assert shape_of(value) == (3, 5) and is_by_row(value, 3)


def test_a_list_that_holds_itself_ends() -> None:
    endless: list[Any] = [1, 2]
    endless.append(endless)
    assert type(row_of({"a": endless, "b": endless}, 0, 2)) is dict


@pytest.mark.parametrize("value", [3, "abc", None, {1, 2}, b"xy", object()])
def test_what_holds_no_rows_is_itself(value: Any) -> None:
    assert row_of(value, 0, 3) is value
    assert shape_of(value) is None and contents_of(value) is None


def test_the_code_of_a_subclass_does_not_run() -> None:
    class Loud(np.ndarray):
        def __getitem__(self, key: Any) -> Any:
            raise AssertionError("asked")

    value = np.zeros((3, 2)).view(Loud)
    assert row_of(value, 1, 3) is value


names = st.text("abc", min_size=1, max_size=3)
fields = st.dictionaries(
    names, st.sampled_from(["number", "vector", "image", "text", "nested"]), min_size=1, max_size=4
)


def sample_of(kinds: dict[str, str], place: int) -> dict[str, Any]:
    makers: dict[str, Any] = {
        "number": lambda: np.float64(place),
        "vector": lambda: np.full(5, place),
        "image": lambda: np.full((3, 4, 4), place),
        "text": lambda: f"text {place}",
        "nested": lambda: {"inner": np.full(2, place), "word": f"word {place}"},
    }
    return {name: makers[kind]() for name, kind in kinds.items()}


def collated(samples: list[Any]) -> Any:
    first = samples[0]
    if type(first) is dict:
        return {name: collated([sample[name] for sample in samples]) for name in first}
    return list(samples) if type(first) is str else np.stack(samples)


def same(one: Any, other: Any) -> bool:
    if type(one) is dict:
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    return bool(np.all(one == other)) and np.shape(one) == np.shape(other)


@settings(deadline=None, database=None)
@given(fields, st.integers(1, 6), st.data())
def test_the_rows_of_collated_samples_are_the_samples(kinds: dict[str, str], count: int, data: Any) -> None:
    samples = [sample_of(kinds, place) for place in range(count)]
    row = data.draw(st.integers(0, count - 1))
    assert same(row_of(collated(samples), row, count), samples[row])


@settings(deadline=None, database=None)
@given(fields, st.integers(1, 6), st.data())
def test_the_rows_of_a_list_of_samples_are_the_samples(kinds: dict[str, str], count: int, data: Any) -> None:
    samples = [sample_of(kinds, place) for place in range(count)]
    row = data.draw(st.integers(0, count - 1))
    assert row_of(samples, row, count) is samples[row]

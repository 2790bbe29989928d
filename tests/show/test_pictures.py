"""Small pictures: what looks like an image, a mask or a sound is drawn, what does not is not, and nothing raises."""

from __future__ import annotations

import base64
import io
import re
from typing import Any

import numpy as np
import pytest
from PIL import Image

from clew.show.pictures import BATCH, SIDE, SIDE_OF_MANY, picture, png

GRADIENT = np.stack(np.meshgrid(np.arange(40), np.arange(24)), axis=2).astype(np.uint8) * 6
COLOURS = np.concatenate([GRADIENT, GRADIENT[..., :1] // 2], axis=2)  # 24 rows, 40 columns, 3 channels


def drawn(value: Any, name: str = "") -> list[Any]:
    """The images inside the page, as arrays of rows, columns and colours."""
    markup = picture(value, name)
    assert markup is not None
    data = re.findall(r'src="data:image/png;base64,([^"]+)"', markup)
    return [np.array(Image.open(io.BytesIO(base64.b64decode(first)))) for first in data]


def title(value: Any) -> str:
    markup = re.search(r'title="([^"]*)"', picture(value) or "")
    assert markup is not None
    return markup[1]


touched: list[str] = []


class Users:
    """A user's class, which notes whatever is asked of its instances."""

    def __getattribute__(self, name: str) -> Any:
        touched.append(name)
        return object.__getattribute__(self, name)


class UsersArray(np.ndarray):
    def __getattribute__(self, name: str) -> Any:
        touched.append(name)
        return super().__getattribute__(name)


class UsersImage(Image.Image):
    def __getattribute__(self, name: str) -> Any:
        touched.append(name)
        return super().__getattribute__(name)


# ---- images


def test_bytes_are_drawn_as_they_are() -> None:
    np.testing.assert_array_equal(drawn(COLOURS)[0], COLOURS)


def test_channels_first_are_drawn_like_channels_last() -> None:
    np.testing.assert_array_equal(drawn(COLOURS.transpose(2, 0, 1))[0], COLOURS)


def test_an_alpha_channel_is_kept() -> None:
    value = np.concatenate([COLOURS, COLOURS[..., :1]], axis=2)
    np.testing.assert_array_equal(drawn(value)[0], value)


@pytest.mark.parametrize("shape", [(24, 40), (24, 40, 1), (1, 24, 40)], ids=str)
def test_one_channel_is_drawn_in_grey(shape: tuple[int, ...]) -> None:
    grey = np.arange(24 * 40).reshape(24, 40).astype(np.uint8)
    expected = np.repeat(grey[:, :, None], 3, axis=2)
    np.testing.assert_array_equal(drawn(grey.reshape(shape))[0], expected)


@pytest.mark.parametrize("scale", [1, 255], ids=["0 to 1", "0 to 255"])
def test_floats_are_drawn_by_their_range(scale: int) -> None:
    value = COLOURS.astype(np.float32) / 255 * scale
    assert np.abs(drawn(value)[0].astype(int) - COLOURS).max() <= 1
    assert "stretched" not in title(value)


def test_normalised_floats_are_stretched_and_the_title_says_so() -> None:
    value = np.linspace(-2.5, 1.5, 24 * 40 * 3).reshape(24, 40, 3)
    assert (drawn(value)[0].min(), drawn(value)[0].max()) == (0, 255)
    assert title(value) == "stretched from -2.5…1.5"


def test_nan_is_magenta() -> None:
    value = np.full((8, 8), 0.5)
    value[2, 3] = np.nan
    markup = drawn(value)[0]
    assert markup[2, 3].tolist() == [255, 0, 255]
    assert markup[0, 0].tolist() == [128, 128, 128]
    assert "NaN in magenta" in title(value)


def test_infinities_are_black_and_white() -> None:
    value = np.linspace(0, 1, 64).reshape(8, 8)
    value[0, 0], value[0, 1] = np.inf, -np.inf
    markup = drawn(value)[0]
    assert markup[0, 0].tolist() == [255] * 3 and markup[0, 1].tolist() == [0] * 3


@pytest.mark.parametrize("value", [np.full((8, 8), np.nan), np.full((8, 8), np.inf), np.full((8, 8), 7.5)], ids=str)
def test_an_image_without_a_range_is_drawn_too(value: Any) -> None:
    assert drawn(value)[0].shape == (8, 8, 3)


def test_sixteen_bits_are_stretched() -> None:
    value = (np.arange(24 * 40).reshape(24, 40) * 60).astype(np.uint16)
    assert drawn(value)[0].max() == 255


def test_a_large_image_is_drawn_from_some_of_its_pixels() -> None:
    value = np.zeros((1000, 500, 3), np.uint8)
    assert max(drawn(value)[0].shape) <= SIDE
    assert title(value) == "as it is, every 8th pixel"


def test_however_large_the_array_little_of_it_is_read() -> None:
    value = np.broadcast_to(np.uint8(7), (10**6, 10**6, 3))  # three terabytes, had they to be read
    assert max(drawn(value)[0].shape) <= SIDE


def test_a_small_image_is_enlarged_by_whole_pixels() -> None:
    markup = picture(np.zeros((8, 16, 3), np.uint8)) or ""
    assert "width:128px;height:64px;image-rendering:pixelated" in markup


@pytest.mark.parametrize("first", [True, False], ids=["NCHW", "NHWC"])
def test_a_batch_is_drawn_side_by_side(first: bool) -> None:
    batch = np.stack([COLOURS, 255 - COLOURS])
    markup = drawn(batch.transpose(0, 3, 1, 2) if first else batch)
    np.testing.assert_array_equal(markup, batch)


def test_of_a_large_batch_the_first_are_drawn_and_the_rest_counted() -> None:
    batch = np.zeros((30, 3, 200, 100), np.uint8)
    assert len(drawn(batch)) == BATCH
    assert all(max(first.shape) <= SIDE_OF_MANY for first in drawn(batch))
    assert ">+22</text>" in (picture(batch) or "")
    assert title(batch) == "row 0 of 30: as it is, every 3rd pixel"


# ---- masks


def test_a_mask_is_drawn_with_a_colour_for_each_class() -> None:
    mask = np.zeros((20, 20), np.int64)
    mask[5:10, 5:10], mask[12:, 12:] = 1, 2
    markup = drawn(mask)[0]
    assert len({tuple(markup[place]) for place in ((0, 0), (6, 6), (15, 15))}) == 3
    assert markup[0, 0].max() < 60, "the background is dark"
    assert title(mask) == "a colour for each of 3 values: 0, 1, 2"


def test_a_class_has_the_same_colour_in_every_mask() -> None:
    first, second = np.full((9, 9), 3), np.arange(81).reshape(9, 9) % 5
    np.testing.assert_array_equal(drawn(first)[0][0, 0], drawn(second)[0][0, 3])


def test_true_and_false_are_a_mask() -> None:
    value = np.arange(64).reshape(8, 8) % 3 == 0
    assert len(np.unique(drawn(value)[0].reshape(-1, 3), axis=0)) == 2


def test_many_masks_are_drawn_side_by_side() -> None:
    assert len(drawn(np.arange(3 * 64).reshape(3, 8, 8) % 4)) == 3


def test_integers_of_many_values_beyond_a_byte_are_not_a_picture() -> None:
    assert picture(np.arange(8 * 128).reshape(8, 128) * 17) is None


# ---- sound and lines


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (np.sin(np.arange(16000) / 50), 1),
        (np.zeros((2, 16000), np.int16), 2),
        (np.zeros((16000, 2), np.float32), 2),
    ],
    ids=["mono", "stereo", "stereo by sample"],
)
def test_sound_is_drawn_as_a_wave_of_each_channel(value: Any, count: int) -> None:
    markup = picture(value) or ""
    assert markup.count("<svg") == count and markup.count("16,000 samples") == count


def test_a_long_sound_is_drawn_from_some_of_its_samples() -> None:
    assert "every 20th sample" in (picture(np.broadcast_to(np.float32(0), (20_000_000,))) or "")


@pytest.mark.parametrize("length", [2, 400])
def test_a_short_row_of_numbers_is_a_sparkline(length: int) -> None:
    assert (picture(np.arange(length)) or "").startswith("<svg")


def test_many_integers_in_a_row_are_not_sound() -> None:
    assert picture(np.arange(10_000)) is None


# ---- Pillow


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "CMYK", "I", "F"])
def test_an_image_of_pillow_is_drawn_whatever_its_mode(mode: str) -> None:
    image = Image.fromarray(COLOURS).convert(mode)
    markup = drawn(image)[0]
    assert markup.shape[:2] == (24, 40)
    if mode in ("RGB", "RGBA"):
        np.testing.assert_array_equal(markup[..., :3], COLOURS)


def test_an_image_of_pillow_that_was_not_read_stays_unread(tmp_path: Any) -> None:
    Image.fromarray(COLOURS).save(tmp_path / "one.png")
    with Image.open(tmp_path / "one.png") as image:
        assert picture(image) is None
        assert vars(image)["tile"]


def test_a_large_image_of_pillow_is_made_small() -> None:
    assert max(drawn(Image.new("RGB", (3000, 1000)))[0].shape) <= SIDE


# ---- the rest


@pytest.mark.parametrize(
    "value",
    [
        None,
        3,
        "text",
        [[1, 2], [3, 4]],
        np.float32(2),
        np.array(2.0),
        np.zeros((0, 3, 3)),
        np.zeros((3, 3)),
        np.zeros((8, 512)),
        np.zeros((2, 2, 2, 2, 2)),
        np.zeros((8, 8), complex),
        np.array([[None] * 8] * 8),
        np.array(["2020-01-01"], "datetime64[D]"),
        np.zeros((8, 8), [("a", "f4")]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_does_not_look_like_a_picture_has_none(value: Any) -> None:
    assert picture(value) is None


@pytest.mark.parametrize("make", [Users, lambda: np.zeros((8, 8)).view(UsersArray), UsersImage])
def test_code_of_a_users_class_does_not_run(make: Any) -> None:
    value = make()
    touched.clear()
    assert picture(value) is None
    assert touched == []


def test_the_name_is_escaped() -> None:
    markup = picture(COLOURS, '"><script>') or ""
    assert "<script>" not in markup and "&quot;&gt;&lt;script&gt;: as it is" in markup


def test_nothing_is_fetched() -> None:
    for value in (COLOURS, np.arange(50), np.zeros(1000)):
        assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", picture(value) or "") == []


def test_drawing_leaves_the_value_as_it_was() -> None:
    value = np.linspace(-1, 1, 300).reshape(10, 10, 3)
    before = value.copy()
    picture(value)
    np.testing.assert_array_equal(value, before)


def test_a_png_is_read_by_others_as_it_was_written() -> None:
    assert np.array_equal(np.array(Image.open(io.BytesIO(png(COLOURS)))), COLOURS)

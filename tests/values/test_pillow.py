"""Pillow images: kept as their pixels, judged exactly, and never touched."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from clew.records import Kept, NotKept, Object
from clew.values import Keep, adapters, capture, decode, pillow

PIXELS = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)
PICTURE = Image.fromarray(PIXELS)
MODES = ["1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "LA", "PA", "I;16"]


def picture(mode: str) -> Any:
    """One of 7 by 5 pixels, which fill no whole byte in mode 1."""
    if mode in ("LAB", "I;16"):
        return Image.frombytes(mode, (7, 5), bytes(range(7 * 5 * (3 if mode == "LAB" else 2))))
    return PICTURE.convert("P").convert("PA") if mode == "PA" else PICTURE.convert(mode)


def written(folder: Path, name: str = "picture.png") -> str:
    PICTURE.save(folder / name)
    return str(folder / name)


class Marked(Image.Image):
    """A user's image, whose own code must not run."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"user code ran: {name}")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("user code ran: eq")

    __hash__ = None  # type: ignore[assignment]


def marked() -> Any:
    image = Marked()
    object.__getattribute__(image, "__dict__").update(vars(PICTURE.copy()), score=0.5)
    return image


# ---- reading back


@pytest.mark.parametrize("mode", MODES)
def test_an_image_reads_back(mode: str) -> None:
    image = picture(mode)
    found = capture(image)
    back = decode(found.value)
    assert found.value.kept is Kept.FULL
    assert type(back) is Image.Image and back == image
    assert found.unchanged(image)


@pytest.mark.parametrize("mode", MODES)
def test_an_image_reads_back_as_an_array_where_pillow_is_not_installed(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = picture(mode)
    found = capture([image, "after"])
    monkeypatch.setattr(pillow, "optional", lambda library: None)
    array, after = decode(found.value)
    assert after == "after"
    if mode == "LAB":  # NumPy is given no typestr for it by Pillow
        assert array.tobytes() == image.tobytes()
    else:
        np.testing.assert_array_equal(array, np.array(image))


def test_an_image_without_pixels_reads_back() -> None:
    image = Image.new("RGB", (0, 4))
    assert decode(capture(image).value).size == (0, 4)


def test_what_an_image_says_of_itself_is_kept() -> None:
    image = PICTURE.copy()
    image.info["dpi"] = (72, 72)
    assert decode(capture(image).value).info == {"dpi": (72, 72)}


def test_a_palette_is_kept_also_before_pillow_has_taken_it_over() -> None:
    image: Any = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.palette.dirty = 1
    assert decode(capture(image).value).getpalette()[:6] == [10, 20, 30, 40, 50, 60]
    assert image.palette.dirty == 1


def test_an_image_inside_itself_reads_back() -> None:
    image = PICTURE.copy()
    image.info["me"] = image
    back = decode(capture(image).value)
    assert back.info["me"] is back


def test_an_image_over_the_limit_leaves_its_outline() -> None:
    back = decode(capture(PICTURE, Keep(array_limit=10)).value)
    assert isinstance(back, NotKept) and "over 10 bytes" in back.why
    assert back.summary.shape == (5, 7, 3) and back.summary.dtype == "uint8"
    assert back.part["mode"] == "RGB" and back.part["size"] == (7, 5)


def test_what_follows_an_image_that_was_not_kept_reads_back() -> None:
    shared = [1]
    image = PICTURE.copy()
    image.info["of"] = "someone"
    found = decode(capture([shared, image, shared], Keep(array_limit=10)).value)
    assert found.part[0] is found.part[2]


# ---- files


def test_an_image_that_was_read_from_its_file_knows_the_file(tmp_path: Path) -> None:
    with Image.open(written(tmp_path)) as image:
        image.load()
        found = capture(image)
    back = decode(found.value)
    assert np.array_equal(np.array(back), PIXELS)
    assert back.filename == str(tmp_path / "picture.png")


def test_an_image_whose_file_was_not_read_is_left_alone(tmp_path: Path) -> None:
    with Image.open(written(tmp_path)) as image:
        file: Any = image.fp
        before = dict(vars(image), at=file.tell())
        found = capture(image)
        assert dict(vars(image), at=file.tell()) == before
        assert found.unchanged(image)
    back = decode(found.value)
    assert isinstance(back, NotKept) and back.why == "not read from its file yet"
    assert back.part == {"mode": "RGB", "size": (7, 5), "filename": str(tmp_path / "picture.png")}


def test_two_images_that_were_not_read_are_not_held_to_be_the_same(tmp_path: Path) -> None:
    with Image.open(written(tmp_path)) as one, Image.open(written(tmp_path, "other.png")) as other:
        assert capture(one).digest != capture(other).digest


def test_an_image_that_is_read_later_is_looked_at_again(tmp_path: Path) -> None:
    with Image.open(written(tmp_path)) as image:
        found = capture(image)
        image.load()
        assert not found.unchanged(image)
        assert capture(image).digest != found.digest


def test_another_frame_is_a_change_before_it_is_read(tmp_path: Path) -> None:
    frames = [Image.new("L", (4, 4), shade) for shade in (10, 200)]
    frames[0].save(tmp_path / "two.tiff", save_all=True, append_images=frames[1:])
    with Image.open(tmp_path / "two.tiff") as image:
        found = capture(image)
        assert found.unchanged(image)
        image.seek(1)
        assert not found.unchanged(image)
        assert capture(image).digest != found.digest


def test_a_closed_image_says_so(tmp_path: Path) -> None:
    image = Image.open(written(tmp_path))
    image.close()
    os.remove(tmp_path / "picture.png")
    assert capture(image).value.why == "it is closed"


# ---- changes


def change_pixel(image: Any) -> None:
    image.putpixel((6, 4), 0)


def change_line(image: Any) -> None:
    ImageDraw.Draw(image).line((0, 0, 6, 4), fill=1)


def change_palette(image: Any) -> None:
    image.putpalette([9, 9, 9] * 256)


def change_palette_in_python(image: Any) -> None:
    image.palette.palette = bytes(len(image.palette.palette))
    image.palette.dirty = 1


def change_info(image: Any) -> None:
    image.info["title"] = "new"


def change_info_as_a_whole(image: Any) -> None:
    image.info = {"title": "new"}


CHANGES = [change_pixel, change_line, change_palette, change_palette_in_python, change_info, change_info_as_a_whole]


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a list"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_is_seen(change: Any, inside: bool) -> None:
    image = PICTURE.convert("P")
    value = [image] if inside else image
    found = capture(value)
    assert found.unchanged(value)
    change(image)
    assert not found.unchanged(value)
    assert capture(value).digest != found.digest


def test_equal_images_have_equal_digests() -> None:
    assert capture(PICTURE).digest == capture(PICTURE.copy()).digest


def test_the_same_bytes_in_another_shape_are_another_image() -> None:
    raw = bytes(range(12))
    digests = {capture(Image.frombytes("L", size, raw)).digest for size in ((3, 4), (4, 3), (12, 1))}
    assert len(digests) == 3


def test_reading_an_image_is_no_change() -> None:
    image = PICTURE.convert("P")
    found = capture(image)
    image.tobytes()
    image.getpixel((0, 0))
    assert capture(image).digest == found.digest


def test_looking_changes_nothing_in_the_image() -> None:
    image = PICTURE.convert("P")
    before = dict(vars(image))
    capture(image)
    assert vars(image) == before


# ---- classes


def test_an_image_of_a_users_class_is_its_pixels_and_its_attributes() -> None:
    back = decode(capture(marked()).value)
    assert isinstance(back, Object) and back.type.endswith("Marked")
    assert np.array_equal(np.array(back.attributes["value"]), PIXELS)
    assert back.attributes["score"] == 0.5


def test_a_change_in_an_image_of_a_users_class_is_seen() -> None:
    image = marked()
    found = capture(image)
    assert found.unchanged(image)
    object.__getattribute__(image, "__dict__")["score"] = 0.75
    assert not found.unchanged(image)
    assert capture(image).digest != found.digest


def test_a_class_that_is_no_image_is_not_claimed() -> None:
    assert adapters.LIBRARIES["PIL"] == "clew.values.pillow"
    assert pillow.claim(ImageDraw.ImageDraw) is None

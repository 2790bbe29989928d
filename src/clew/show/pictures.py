"""Draws values that look like images, masks or sound as small pictures: PNG and SVG inside the page.

What a value looks like is guessed from its shape and dtype, and the title of each picture says how the values were
converted. Only a bounded number of pixels or samples is read. Only the libraries' own types are examined.
"""

from __future__ import annotations

import base64
import struct
import sys
import zlib
from dataclasses import dataclass
from typing import Any

from clew.show.notebook import safe
from clew.show.sparkline import svg
from clew.text.array_facts import array_over_memory
from clew.text.brief import is_genuine_class, module_and_name, number
from clew.text.values import library_of_class

SIDE = 128  # pixels of the longer side of a picture
SIDE_OF_MANY = 96  # likewise, for pictures side by side
SMALLEST = 4  # pixels: anything smaller is not an image
BATCH = 8  # pictures side by side
CLASSES = 32  # a mask has at most so many distinct values
SOUND = 400  # samples: anything longer may be sound, anything shorter is a curve of numbers
SAMPLES = 1 << 20  # samples of a wave that are read
_CHANNELS = (1, 3, 4)
_LONGEST = 8  # the largest ratio of sides of an image
_LONGEST_OF_MANY = 2  # likewise for a stack of float matrices, which may be sequences of vectors
_BRIGHT = 8.0  # floats with a maximum between this and 255 have the range of bytes
_MAGENTA = (255, 0, 255)
_DARK = (30, 33, 41)
_GREY = 128
_STYLE = "image-rendering:pixelated;outline:1px solid rgba(128,128,128,.35)"


def picture(value: Any, name: str = "") -> str | None:
    """`<img>` or `<svg>` that shows the value; None if it does not look like a picture or a sound."""
    try:
        if is_pillow(value):
            return _pillow(value, name)
        source = _source(value)
        if source is None or 0 in source.shape:
            return None
        drawn = _wave(source, name)
        return _images(source, name) if drawn is None else drawn
    except Exception:  # a picture is optional: whatever is odd about a value, its line of text is enough
        return None


# ---- what there is to draw


@dataclass(frozen=True, slots=True)
class _Source:
    """The memory of an array or tensor, without a copy."""

    array: Any
    kind: str  # the kind of dtype: b, i, u, f
    width: int  # bytes per element
    halved: bool = False  # bfloat16: the upper half of a float32

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    def transposed(self, *axes: int) -> _Source:
        return _Source(self.array.transpose(axes), self.kind, self.width, self.halved)

    def copy_of(self, *index: Any) -> Any:
        """A copy of a part, with a dtype that NumPy has."""
        import numpy as np

        part = np.array(self.array[index])
        return (part.astype(np.uint32) << 16).view(np.float32) if self.halved else part


def _source(value: Any) -> _Source | None:
    library = library_of_class(type(value))
    if library == "numpy":
        dtype = value.dtype
        return _Source(value, dtype.kind, dtype.itemsize) if dtype.kind in "biuf" else None
    return _source_of_tensor(value) if library == "torch" else None


def _source_of_tensor(value: Any) -> _Source | None:
    import numpy as np

    torch: Any = sys.modules["torch"]
    with torch._C.DisableTorchFunction():  # a user's torch function mode would even see `value.shape`
        if not value.is_cpu or value.layout is not torch.strided or not value.numel() or value.is_neg():
            return None
        name = str(value.dtype).removeprefix("torch.")
        if name == "bfloat16":
            return _Source(array_over_memory(value, np.dtype(np.uint16)), "f", 2, halved=True)
        dtype = np.dtype(name)
        return _Source(array_over_memory(value, dtype), dtype.kind, dtype.itemsize) if dtype.kind in "biuf" else None


# ---- sound, and lines of numbers


def _wave(source: _Source, name: str) -> str | None:
    shape = source.shape
    if len(shape) == 1 and 2 <= shape[0] <= SOUND:
        return _titled(svg(source.copy_of(slice(None)).astype(float)), f"{shape[0]} numbers", name)
    if source.kind != "f" and (source.kind, source.width) != ("i", 2):
        return None
    channels = _channels(source)
    if channels is None or channels.shape[1] <= SOUND:
        return None
    count, length = channels.shape
    step = -(-length // SAMPLES)
    description = f"{length:,} samples" + _sampling_note(step, "sample")
    parts = [channels.copy_of(row, slice(None, None, step)).astype(float) for row in range(count)]
    labels = [description if count == 1 else f"channel {row}, {description}" for row in range(count)]
    return "".join(_titled(svg(part, 320, 40), label, name) for part, label in zip(parts, labels, strict=True))


def _channels(source: _Source) -> _Source | None:
    """One or two channels of sound, one per row; None for other shapes."""
    shape = source.shape
    if len(shape) == 1:
        return _Source(source.array.reshape(1, -1), source.kind, source.width, source.halved)
    if len(shape) != 2:
        return None
    if shape[0] <= 2:
        return source
    return source.transposed(1, 0) if shape[1] <= 2 else None


def _titled(markup: str, description: str, name: str) -> str:
    title = safe(f"{name}: {description}" if name else description)
    return markup.replace(">", f"><title>{title}</title>", 1)


def _sampling_note(step: int, noun: str) -> str:
    """`, every 4th pixel`."""
    if step == 1:
        return ""
    ending = "th" if 10 <= step % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(step % 10, "th")
    return f", every {step}{ending} {noun}"


# ---- images and masks


def _images(source: _Source, name: str) -> str | None:
    """Draw images after bringing them into one layout: pictures, rows, columns, channels."""
    pictures = _in_picture_layout(source)
    if pictures is None:
        return None
    total, rows, columns = pictures.shape[:3]
    step = -(-max(rows, columns) // (SIDE if total == 1 else SIDE_OF_MANY))
    part = pictures.copy_of(slice(0, BATCH), slice(None, None, step), slice(None, None, step))
    coloured = _coloured(part, source)
    if coloured is None:
        return None
    colours, description = coloured
    description += _sampling_note(step, "pixel")
    return _side_by_side(colours, total, description, name)


def _in_picture_layout(source: _Source) -> _Source | None:
    shape = source.shape
    array = source.array
    if len(shape) == 2:
        array = array[None, :, :, None]
    elif len(shape) == 3:
        array = _layout_of_three_axes(source)
    elif len(shape) == 4:
        array = _layout_of_four_axes(source, array)
    else:
        return None
    if array is None:
        return None
    rows, columns = array.shape[1:3]
    many = source.kind == "f" and len(shape) == 3 and array.shape[0] > 1
    if min(rows, columns) < SMALLEST or max(rows, columns) > (_LONGEST_OF_MANY if many else _LONGEST) * min(
        rows, columns
    ):
        return None
    return _Source(array, source.kind, source.width, source.halved)


def _layout_of_three_axes(source: _Source) -> Any:
    """Channels last, channels first, or many pictures of one channel."""
    array, shape = source.array, source.shape
    first, last = shape[0] in _CHANNELS, shape[2] in _CHANNELS
    if source.kind != "f" and source.width != 1 and not last:
        return array[..., None]  # masks: images are bytes or floats
    if first and last:
        first = source.kind == "f"
    if first:
        return array.transpose(1, 2, 0)[None] if source.kind != "b" else array[..., None]
    return array[None] if last else array[..., None]


def _layout_of_four_axes(source: _Source, array: Any) -> Any:
    first, last = source.shape[1] in _CHANNELS, source.shape[3] in _CHANNELS
    if first and last:
        first = source.kind == "f"
    if first:
        return array.transpose(0, 2, 3, 1)
    return array if last else None


def _coloured(part: Any, source: _Source) -> tuple[Any, str] | None:
    """Bytes of red, green, blue (and alpha), and a description of the conversion."""
    import numpy as np

    if part.shape[3] == 1 and source.kind in "biu":
        classes = np.unique(part)
        if source.kind == "b" or (len(classes) <= CLASSES and 4 * len(classes) <= part.size):
            return _as_mask(part[..., 0], classes)
    if source.kind == "b":
        return np.repeat(part[..., :3].astype(np.uint8) * 255, 1 if part.shape[3] > 1 else 3, axis=3), "true is bright"
    if (source.kind, source.width) == ("u", 1):
        return (np.repeat(part, 3, axis=3) if part.shape[3] == 1 else part), "as it is"
    return _stretched(part, source)


def _as_mask(part: Any, classes: Any) -> tuple[Any, str]:
    import numpy as np

    palette = np.array([_colour(int(class_number)) for class_number in classes], np.uint8)
    named = ", ".join(str(int(class_number)) for class_number in classes[:8]) + (", …" if len(classes) > 8 else "")
    return palette[np.searchsorted(classes, part)], f"a colour for each of {len(classes)} values: {named}"


def _colour(class_number: int) -> tuple[int, int, int]:
    """A fixed colour per class, with distinct neighbours. 0 is dark, and void classes (255, -1) are grey."""
    if class_number == 0:
        return _DARK
    if class_number in (255, -1):
        return _GREY, _GREY, _GREY
    import colorsys

    hue = (0.08 + (class_number - 1) * 0.618034) % 1.0
    red, green, blue = colorsys.hsv_to_rgb(hue, 0.62, 0.95 - 0.2 * (abs(class_number) // 8 % 3))
    return round(red * 255), round(green * 255), round(blue * 255)


def _stretched(part: Any, source: _Source) -> tuple[Any, str] | None:
    """Map numbers of any range to bytes; NaN in magenta."""
    import numpy as np

    more = ", 3 of its 4 channels" if part.shape[3] == 4 else ""
    part = part[..., :3] if more else part
    numbers = part.astype(np.float64)
    finite = np.isfinite(numbers)
    broken = np.isnan(numbers).any(axis=3)
    low, high = (float(numbers[finite].min()), float(numbers[finite].max())) if finite.any() else (0.0, 0.0)
    if source.kind in "iu" and source.width > 2 and not 0 <= low <= high <= 255:
        return None  # indices of words or rows rather than brightness
    bottom, top, description = _brightness_range(low, high)
    span = top - bottom
    with np.errstate(all="ignore"):
        shares = np.where(np.isnan(numbers), 0.0, (numbers - bottom) / span if span > 0 else 0.5)
    pixels = (np.clip(shares, 0.0, 1.0) * 255).round().astype(np.uint8)
    colours = np.repeat(pixels, 3, axis=3) if pixels.shape[3] == 1 else pixels
    colours[broken] = _MAGENTA
    return colours, description + (", NaN in magenta" if broken.any() else "") + more


def _brightness_range(low: float, high: float) -> tuple[float, float, str]:
    """The numbers shown as black and as white, and a description."""
    if low >= 0 and high <= 1:
        return 0.0, 1.0, "0…1 shown as black…white"
    if low >= 0 and _BRIGHT < high <= 255:
        return 0.0, 255.0, "0…255 shown as black…white"
    return low, high, f"stretched from {number(low)}…{number(high)}"


# ---- Pillow


def is_pillow(value: Any) -> bool:
    """Whether it is an image of one of Pillow's own classes rather than of a user's subclass."""
    module, name = module_and_name(type(value))
    base = getattr(sys.modules.get("PIL.Image"), "Image", None)
    return (
        base is not None
        and module.startswith("PIL.")
        and is_genuine_class(type(value), module, name)
        and _has_base(value, base)
    )


def _has_base(value: Any, base: type) -> bool:
    return any(cls is base for cls in type.__dict__["__mro__"].__get__(type(value)))


def is_read(image: Any) -> bool:
    """Whether its pixels are in memory; otherwise they are not read from its file here."""
    attributes = vars(image)
    return type(attributes.get("_im", attributes.get("im"))).__name__ == "ImagingCore" and not attributes.get("tile")


def _pillow(image: Any, name: str) -> str | None:
    import numpy as np

    if not is_read(image) or 0 in image.size:
        return None
    step = -(-max(image.size) // SIDE)
    small = image.resize((-(-image.width // step), -(-image.height // step)), 0) if step > 1 else image  # 0: nearest
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        coloured = _stretched(np.array(small)[None, :, :, None], _Source(None, "f", 4))
        assert coloured is not None  # only integers can be refused
        colours, description = coloured
    else:
        has_alpha = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
        colours, description = np.array(small.convert("RGBA" if has_alpha else "RGB"))[None], f"mode {image.mode}"
    return _side_by_side(colours, 1, description + _sampling_note(step, "pixel"), name)


# ---- PNG


def _side_by_side(pictures: Any, total: int, description: str, name: str) -> str:
    images = [
        _img(picture, _title(index, total, description, name), total > 1) for index, picture in enumerate(pictures)
    ]
    hidden_count = total - len(images)
    return "".join(images) + (
        note(f"+{hidden_count:,}", f"{hidden_count:,} more are not drawn") if hidden_count else ""
    )


def _title(index: int, total: int, description: str, name: str) -> str:
    return ": ".join(filter(None, [name, f"row {index} of {total:,}" if total > 1 else "", description]))


def _img(colours: Any, title: str, many: bool) -> str:
    rows, columns = colours.shape[:2]
    side = SIDE_OF_MANY if many else SIDE
    factor = max(1, side // max(rows, columns))  # small pictures are enlarged by a whole factor
    style = f"width:{columns * factor}px;height:{rows * factor}px;{_STYLE}"
    data = base64.b64encode(png(colours)).decode("ascii")
    return f'<img alt="" title="{safe(title)}" style="{style}" src="data:image/png;base64,{data}">'


def note(text: str, title: str) -> str:
    """A short text as a picture, in place of one that is not drawn."""
    text_element = f'<text x="2" y="16" font-size="12" fill="currentColor" opacity="0.6">{safe(text)}</text>'
    size = f'width="{8 + 8 * len(text)}" height="24"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><title>{safe(title)}</title>{text_element}</svg>'


def png(colours: Any) -> bytes:
    """A PNG of bytes in rows, columns and three or four channels."""
    rows, columns, channels = colours.shape
    lines = b"".join(b"\0" + colours[row].tobytes() for row in range(rows))  # each row without a filter
    head = struct.pack(">IIBBBBB", columns, rows, 8, 6 if channels == 4 else 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

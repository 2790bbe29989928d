"""Pillow images, kept as their pixels. Loaded when the user's program has loaded Pillow, or when one is read back.

Two images are the same if mode, size, palette, pixels and `info` are. An image that was opened and whose file was not
read yet is left so: reading it would move its file and change the object. Of such a one only mode, size and file name
are kept, and it is judged by identity until it is read.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from xxhash import xxh3_128_digest

from clew.records import Kept, NotKept, Summary
from clew.values.adapters import MAPPING, SEQUENCE, Handler, Looking, Node, optional, register
from clew.values.class_facts import Layout, inherits, instance_dict_of, module_of, type_name
from clew.values.json_text import plain

_UNREAD: Final = "not read from its file yet"
_CLOSED: Final = "it is closed"
_BYTES: Final = {"1": 1, "L": 1, "P": 1, "LA": 2, "La": 2, "PA": 2, "RGB": 3, "YCbCr": 3, "LAB": 3, "HSV": 3}
_BANDS: Final = {"LA": 2, "La": 2, "PA": 2, "RGB": 3, "YCbCr": 3, "LAB": 3, "HSV": 3}
_BANDS_OF_FOUR: Final = ("RGBA", "RGBa", "RGBX", "CMYK")
_DTYPES: Final = {"1": "|b1", "I": "<i4", "F": "<f4", "I;16": "<u2", "I;16L": "<u2", "I;16B": ">u2"}
_LONGEST_EMPTY_SIDE: Final = 65_536  # of an image without pixels, which takes memory by the row all the same
_PALETTED: Final = ("P", "PA")
# What Pillow itself keeps in an instance; anything else in an instance of a user's class is the user's.
_OF_PILLOW: Final = frozenset((
    "_im", "im", "_mode", "mode", "_size", "size", "palette", "info", "_readonly", "readonly", "_exif", "pyaccess",
    "tile", "fp", "_fp", "filename", "decoderconfig", "decodermaxblock", "_exclusive_fp", "custom_mimetype",
    "_min_frame", "_category", "is_animated", "n_frames",
))  # fmt: skip


def claim(cls: type) -> Handler | None:
    base = _image_class()
    if base is None or not inherits(cls, base):
        return None
    return Handler(None, look_image if module_of(cls).partition(".")[0] == "PIL" else _look_subclass)


def _image_class() -> Any:
    """`PIL.Image.Image`, if the program has it: nobody else can have made an image."""
    return getattr(sys.modules.get("PIL.Image"), "Image", None)


# ---- looking


def look_image(obj: Any, walk: Looking) -> Node:
    inside = instance_dict_of(obj)
    core = _core(inside)
    if core is None:
        return _look_unread(obj, walk, inside)
    info = inside.get("info")
    node = Node(type_name(type(obj)), "PIL", SEQUENCE, [info])
    node.note = {"mode": core.mode, "size": list(core.size), "palette": _palette(inside, core)}
    size = core.size[0] * core.size[1] * _BYTES.get(core.mode, 4)
    node.summary = Summary(_shape(core.mode, core.size), _dtype(core.mode), "cpu", core.size[1], size)
    node.why = walk.room_for(size)
    if node.why:
        node.kept = Kept.SUMMARY
        node.aside = {"why": node.why, **_file_name(inside)}
        if walk.light:
            return node
        node.content = xxh3_128_digest(_pixels(core))
    else:
        raw = _pixels(core)
        node.content = xxh3_128_digest(raw)
        node.aside = {"part": walk.add_part(raw, node.content), **_file_name(inside)}
    walk.guard(_same_image, obj, (type(obj), info, node.note, node.content))
    return node


def _core(inside: dict[str, Any]) -> Any:
    """Where Pillow holds the pixels; None if they are not there yet, or no more."""
    core = inside.get("_im", inside.get("im"))
    tiles = inside.get("tile")
    # A file that is not read yet is one with tiles left to read; a core may be there from the frame before.
    is_read = tiles is None or (type(tiles) is list and not tiles)
    return core if is_read and type(core).__name__ == "ImagingCore" else None


def _pixels(core: Any) -> bytes:
    """The decoded pixels, by an image of our own around the same core: the user's is not touched, nor its class."""
    bare: Any = _image_class()()
    bare.im, bare._mode, bare._size = core, core.mode, core.size
    raw: bytes = bare.tobytes()
    return raw


def _palette(inside: dict[str, Any], core: Any) -> list[str] | None:
    """Mode and colours as they are used: Pillow writes a new palette into the core only when the image is next read."""
    if core.mode not in _PALETTED:
        return None
    given = inside.get("palette")
    known = getattr(sys.modules.get("PIL.ImagePalette"), "ImagePalette", None)
    if given is not None and type(given) is known and given.dirty:
        mode, colours = given.getdata()
        core = sys.modules["PIL.Image"].core.new(core.mode, (1, 1))
        core.putpalette(given.mode, mode, colours)
    mode = core.getpalettemode()
    return [mode, core.getpalette(mode, mode).hex()]


def _file_name(inside: dict[str, Any]) -> dict[str, Any]:
    name = inside.get("filename")
    return {"filename": plain(name)} if type(name) is str and name else {}


def _look_unread(obj: Any, walk: Looking, inside: dict[str, Any]) -> Node:
    mode, size = inside.get("_mode", inside.get("mode")), inside.get("_size", inside.get("size"))
    known: dict[str, Any] = {"mode": mode if type(mode) is str else "", "size": _sides(size)}
    node = Node(type_name(type(obj)), "PIL", note=known)
    closed = type(inside.get("_im", inside.get("im"))).__name__ == "DeferredError"
    node.kept, node.why = Kept.SUMMARY, _CLOSED if closed else _UNREAD
    node.aside = {"why": node.why, **_file_name(inside)}
    node.content = _unread(obj)
    node.summary = Summary(_shape(known["mode"], known["size"]), _dtype(known["mode"]))
    walk.guard(_same_unread, obj, node.content)
    return node


def _unread(obj: Any) -> bytes:
    """Which object it is, and which parts of its file are still to be read: another frame is at another place."""
    inside = instance_dict_of(obj)
    tiles = inside.get("tile")
    places = [one[2] for one in tiles if isinstance(one, tuple) and len(one) > 2] if type(tiles) is list else []
    state = [type(inside.get("_im", inside.get("im"))).__name__, *(place for place in places if type(place) is int)]
    return f"{id(obj):x} {state}".encode()


def _same_unread(obj: Any, kept: bytes) -> bool:
    return _core(instance_dict_of(obj)) is None and _unread(obj) == kept


def _sides(size: Any) -> list[int]:
    return list(size) if type(size) is tuple and len(size) == 2 and all(type(side) is int for side in size) else [0, 0]


def _same_image(obj: Any, kept: tuple[type, Any, dict[str, Any], bytes]) -> bool:
    cls, info, note, content = kept
    inside = instance_dict_of(obj)
    core = _core(inside)
    if type(obj) is not cls or core is None or inside.get("info") is not info:
        return False
    if [core.mode, list(core.size), _palette(inside, core)] != [note["mode"], note["size"], note["palette"]]:
        return False
    return xxh3_128_digest(_pixels(core)) == content


# ---- an image of a user's class: the image, and what else the instance holds


class _Bare:
    """The image in an instance of a user's class."""

    __slots__ = ("image",)

    def __init__(self, image: Any) -> None:
        self.image = image


def _look_bare(obj: _Bare, walk: Looking) -> Node:
    node = look_image(obj.image, walk)
    node.type = "PIL.Image.Image"
    return node


def _look_subclass(obj: Any, walk: Looking) -> Node:
    attributes = _own_attributes(obj)
    name = type_name(type(obj))
    node = Node(name, "object", MAPPING, [_Bare(obj), *attributes.values()], ["value", *attributes], {"type": name})
    walk.guard(_same_attributes, obj, (type(obj), attributes))
    return node


def _own_attributes(obj: Any) -> dict[str, Any]:
    found = {name: value for name, value in instance_dict_of(obj).items() if name not in _OF_PILLOW}
    for name, get in Layout(type(obj)).slots(type(obj)):
        try:
            found[name] = get(obj)
        except AttributeError:  # a slot that was never set
            continue
    return found


def _same_attributes(obj: Any, kept: tuple[type, dict[str, Any]]) -> bool:
    cls, attributes = kept
    if type(obj) is not cls:
        return False
    now = _own_attributes(obj)
    return list(now) == list(attributes) and all(now[name] is value for name, value in attributes.items())


register(_Bare, look=_look_bare)


# ---- what is known of a mode


def _shape(mode: str, size: Any) -> tuple[int, ...]:
    """As the array NumPy makes of it: rows first."""
    bands = 4 if mode in _BANDS_OF_FOUR else _BANDS.get(mode, 1)
    return (size[1], size[0]) if bands == 1 else (size[1], size[0], bands)


def _dtype(mode: str) -> str:
    return {"1": "bool", "I": "int32", "F": "float32"}.get(mode, "uint16" if mode.startswith("I;16") else "uint8")


# ---- reading back


def _read(tree: dict[str, Any], reader: Any) -> Any:
    if "part" not in tree:
        for item in tree.get("items", ()):
            reader.read(item)  # what follows counts on it
        return _not_kept(tree, reader)
    pillow = optional("PIL.Image")
    raw = bytes(reader.part(tree))
    _require_pixels(tree, len(raw))
    if pillow is None:
        array = reader.begin(_as_array(tree, raw))
        reader.read(tree["items"][0])
        return array
    image = reader.begin(_as_image(pillow, tree, raw))
    info = reader.read(tree["items"][0])
    image.info = info if type(info) is dict else {}
    if "filename" in tree:
        image.filename = _read_name(tree, reader)
    return image


def _require_pixels(tree: dict[str, Any], size: int) -> None:
    """ValueError if the bytes are not exactly the pixels: Pillow takes the memory before it looks at them."""
    mode, (width, height) = tree["mode"], _sides_in(tree)
    if mode == "1":  # eight pixels in a byte, each row by itself
        expected = (width + 7) // 8 * height
    elif mode in _BYTES or mode in _DTYPES or mode in _BANDS_OF_FOUR:
        expected = width * height * (2 if mode.startswith("I;16") else _BYTES.get(mode, 4))
    else:
        raise ValueError(f"an image of mode {mode!r:.20}")
    if expected != size or (not size and max(width, height) > _LONGEST_EMPTY_SIDE):
        raise ValueError(f"{size:,} bytes are not an image of {width} times {height} pixels")


def _sides_in(tree: dict[str, Any]) -> tuple[int, int]:
    width, height = tree["size"]
    if type(width) is not int or type(height) is not int or min(width, height) < 0:
        raise ValueError("the size of an image is two counts")
    return width, height


def _read_name(tree: dict[str, Any], reader: Any) -> str:
    name = reader.read(tree["filename"])
    if type(name) is not str:
        raise TypeError("a file name is written as text")
    return name


def _not_kept(tree: dict[str, Any], reader: Any) -> NotKept:
    mode, size, why = tree["mode"], _sides_in(tree), tree.get("why", "")
    if type(mode) is not str or type(why) is not str:
        raise TypeError("an image has a mode and a size")
    known: dict[str, Any] = {"mode": mode, "size": size}
    if "filename" in tree:
        known["filename"] = _read_name(tree, reader)
    return NotKept("PIL.Image.Image", Kept.SUMMARY, why, Summary(_shape(mode, size), _dtype(mode)), known)


def _as_image(pillow: Any, tree: dict[str, Any], raw: bytes) -> Any:
    mode, size = tree["mode"], tuple(tree["size"])
    image = pillow.frombytes(mode, size, raw) if raw else pillow.new(mode, size)
    if tree["palette"] is not None:
        palette_mode, colours = tree["palette"]
        image.putpalette(bytes.fromhex(colours), palette_mode)
    return image


def _as_array(tree: dict[str, Any], raw: bytes) -> Any:
    """Where Pillow is not installed: the array that NumPy would have made of the image."""
    import numpy as np

    mode, shape = tree["mode"], _shape(tree["mode"], tree["size"])
    if mode == "1":  # eight pixels in a byte, each row by itself
        rows = np.frombuffer(raw, np.uint8).reshape(shape[0], -1)
        return np.unpackbits(rows, axis=1)[:, : shape[1]].astype(bool)
    return np.frombuffer(raw, _DTYPES.get(mode, "|u1")).reshape(shape).copy()


READERS: Final[dict[str, Any]] = {"PIL": _read}

"""What goes into a model and should not: bytes as floats, integer images, channels in the wrong place, doubles."""

from __future__ import annotations

import re
from collections.abc import Iterator

from clew.history.checks.finding import Finding, Level
from clew.history.checks.leaf import Leaf, channels_axis
from clew.history.checks.seen import Seen, found, is_collate, key_of, name_of, principal
from clew.records import Passage

_CHANNELS_ERROR = re.compile(r"to have (\d+) channels, but got (\d+) channels")
_LABELS = ("label", "target")
_DARKEST = 16  # the largest byte of a picture so dark that it could be something else


def into_models(seen: Seen) -> Iterator[Finding]:
    models = seen.models()
    if not models:
        yield from _out_of_loaders(seen)
    for place, passage in enumerate(models):
        prepared = any(_is_prepared(seen, passage, later) for later in models[place + 1 :])
        for leaf in seen.inputs(passage):
            if not leaf.is_array or not leaf.shape or any(word in leaf.path.lower() for word in _LABELS):
                continue
            if not prepared:
                yield from _bytes(passage, leaf)
                yield from _channels(passage, leaf)
            yield from _doubles(seen, passage, leaf)


def _is_prepared(seen: Seen, passage: Passage, later: Passage) -> bool:
    """Whether it is a module that makes images ready (`v2.ToDtype`) for another one, which gets them as they should."""
    if later.function == passage.function or later.source != passage.source:
        return False
    if [*map(key_of, later.ids)] != [*map(key_of, passage.ids)]:
        return False
    leaf = principal(seen.inputs(later))
    if leaf is None or not leaf.is_float or not leaf.is_image:
        return False
    return channels_axis(leaf.shape) != len(leaf.shape or ()) - 1 and not has_range_of_bytes(leaf)


def _out_of_loaders(seen: Seen) -> Iterator[Finding]:
    """Where no model is seen, what a loader gives is meant for one."""
    last = seen.stages[-1:]
    for passage in seen.passages:
        if passage.stage not in last or not (passage.stage == "loader" or is_collate(passage)):
            continue
        for leaf in seen.outputs(passage):
            if leaf.is_array and leaf.is_float and not leaf.is_aside and has_range_of_bytes(leaf):
                told = f"{name_of(leaf, 'the batch')} is {leaf.told()} with values {leaf.range_told()}"
                text = f"{told}: floats in the range of bytes."
                yield found("bytes-as-floats", passage, text, "Divide by 255 before they go into a model.")


def _bytes(passage: Passage, leaf: Leaf) -> Iterator[Finding]:
    if leaf.is_aside:
        return
    told = f"{name_of(leaf)} is {leaf.told()} with values {leaf.range_told()}"
    scaled = passage.convolved_range and max(passage.convolved_range) <= _DARKEST
    if leaf.is_float and has_range_of_bytes(leaf) and not scaled:
        text = f"{told}: floats in the range of bytes go into the model."
        yield found("bytes-into-model", passage, text, "Divide by 255, and normalise as the model was trained.")
    elif leaf.is_integer and leaf.is_image and _reaches(leaf, _DARKEST, 255):
        text = f"{told}: an image of integers goes into the model."
        remedy = "Convert it to floats (and divide by 255) before."
        # Where a convolution was given floats, the model has converted them itself.
        level: Level = "note" if scaled and passage.error is None else "warning"
        yield found("integers-into-model", passage, text, remedy, level=level)


def _reaches(leaf: Leaf, least: float, most: float) -> bool:
    low, high = leaf.summary.min, leaf.summary.max
    return low is not None and high is not None and low >= 0 and least < high <= most


def has_range_of_bytes(leaf: Leaf) -> bool:
    """Whether these floats were bytes once: of an image by their range, of anything else only if all are whole."""
    if leaf.is_image and _reaches(leaf, 127, 255) and (leaf.summary.mean or 0.0) >= 20:
        return True
    if leaf.is_image:
        return _reaches(leaf, _DARKEST, 255) and _is_whole(leaf)
    shape = leaf.shape or ()
    wide = len(shape) in (2, 3) and leaf.size // max(shape[0], 1) >= 64
    return wide and leaf.summary.min == 0 and _reaches(leaf, 199, 255) and _is_whole(leaf)


def _is_whole(leaf: Leaf) -> bool:
    array = leaf.array()
    return array is not None and bool((array == array.round()).all())


def _channels(passage: Passage, leaf: Leaf) -> Iterator[Finding]:
    """By its shape, for torch alone: other libraries have the channels last on purpose."""
    shape = leaf.shape or ()
    last = len(shape) - 1
    if leaf.library != "torch" or leaf.is_aside or not (leaf.is_float or leaf.dtype == "uint8"):
        return
    raised = _raised_for(passage, shape)
    if not raised and (channels_axis(shape) != last or min(shape[last - 2 : last]) < 16):
        return
    if not raised and passage.convolved and passage.convolved != shape:
        return  # the model puts them where they belong
    text = f"{name_of(leaf)} is {leaf.told()}: the last axis looks like {shape[last]} channels, and a convolution"
    text = f"{text} reads axis 1, of length {shape[1]}, as channels."
    if raised:
        text = f"{text} It raised {passage.error}"
    order = "0, 3, 1, 2" if last == 3 else "0, 4, 1, 2, 3"
    yield found("channels-last", passage, text, f"Put the channels first: `.permute({order})`.")


def _raised_for(passage: Passage, shape: tuple[int, ...]) -> bool:
    """Whether a convolution missed as many channels as the last axis has, and found as many as there are rows."""
    match = _CHANNELS_ERROR.search(passage.error or "")
    return match is not None and len(shape) in (4, 5) and (int(match[1]), int(match[2])) == (shape[-1], shape[1])


def _doubles(seen: Seen, passage: Passage, leaf: Leaf) -> Iterator[Finding]:
    """A model that computes in float64 gives float64: then it was meant."""
    if leaf.library != "torch" or leaf.dtype != "float64" or len(leaf.shape or ()) < 2:
        return
    given = [one for one in seen.outputs(passage) if one.is_array and one.is_float]
    if not any(one.dtype == "float64" for one in given):
        text = f"{name_of(leaf)} is {leaf.told()}: doubles go into the model."
        yield found("float64-into-model", passage, text, "Convert with `.float()`; NumPy makes float64 by itself.")

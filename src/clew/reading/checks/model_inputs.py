"""Finds unsuitable model inputs: floats in the range of bytes, integer images, misplaced channels, float64."""

from __future__ import annotations

import re
from collections.abc import Iterator

from clew.reading.checks.evidence import Evidence, is_collate, key_of, make_finding, name_of, principal
from clew.reading.checks.finding import Finding, Level
from clew.reading.checks.leaves import Leaf, channels_axis
from clew.records import Passage

_CHANNELS_ERROR = re.compile(r"to have (\d+) channels, but got (\d+) channels")
_LABELS = ("label", "target")
_DARKEST = 16  # a largest byte up to this may belong to something other than a picture


def unsuitable_model_inputs(evidence: Evidence) -> Iterator[Finding]:
    models = evidence.models()
    if not models:
        yield from _check_loader_outputs(evidence)
    for place, passage in enumerate(models):
        prepared = any(_is_prepared(evidence, passage, later) for later in models[place + 1 :])
        for leaf in evidence.inputs(passage):
            if not leaf.is_array or not leaf.shape or any(name_part in leaf.path.lower() for name_part in _LABELS):
                continue
            if not prepared:
                yield from _check_bytes(passage, leaf)
                yield from _check_channels(passage, leaf)
            yield from _check_doubles(evidence, passage, leaf)


def _is_prepared(evidence: Evidence, passage: Passage, later: Passage) -> bool:
    """Whether the passage only prepares images (`v2.ToDtype`) for a later model, which receives suitable ones."""
    if later.function == passage.function or later.source != passage.source:
        return False
    if [*map(key_of, later.ids)] != [*map(key_of, passage.ids)]:
        return False
    leaf = principal(evidence.inputs(later))
    if leaf is None or not leaf.is_float or not leaf.is_image:
        return False
    return channels_axis(leaf.shape) != len(leaf.shape or ()) - 1 and not has_range_of_bytes(leaf)


def _check_loader_outputs(evidence: Evidence) -> Iterator[Finding]:
    """Without a model in the trace, check what the loader gives: it is meant for one."""
    last = evidence.stages[-1:]
    for passage in evidence.passages:
        if passage.stage not in last or not (passage.stage == "loader" or is_collate(passage)):
            continue
        for leaf in evidence.outputs(passage):
            if leaf.is_array and leaf.is_float and not leaf.is_aside and has_range_of_bytes(leaf):
                description = f"{name_of(leaf, 'the batch')} is {leaf.type_text()} with values {leaf.range_text()}"
                text = f"{description}: floats in the range of bytes."
                yield make_finding("bytes-as-floats", passage, text, "Divide by 255 before they go into a model.")


def _check_bytes(passage: Passage, leaf: Leaf) -> Iterator[Finding]:
    if leaf.is_aside:
        return
    description = f"{name_of(leaf)} is {leaf.type_text()} with values {leaf.range_text()}"
    scaled = passage.convolved_range and max(passage.convolved_range) <= _DARKEST
    if leaf.is_float and has_range_of_bytes(leaf) and not scaled:
        text = f"{description}: floats in the range of bytes go into the model."
        yield make_finding("bytes-into-model", passage, text, "Divide by 255, and normalise as the model was trained.")
    elif leaf.is_integer and leaf.is_image and _reaches(leaf, _DARKEST, 255):
        text = f"{description}: an image of integers goes into the model."
        remedy = "Convert it to floats (and divide by 255) before."
        # If a convolution received floats, the model converted them itself.
        level: Level = "note" if scaled and passage.error is None else "warning"
        yield make_finding("integers-into-model", passage, text, remedy, level=level)


def _reaches(leaf: Leaf, least: float, most: float) -> bool:
    low, high = leaf.summary.min, leaf.summary.max
    return low is not None and high is not None and low >= 0 and least < high <= most


def has_range_of_bytes(leaf: Leaf) -> bool:
    """Whether these floats were bytes: for images judged by range, for other data only if all are whole."""
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


def _check_channels(passage: Passage, leaf: Leaf) -> Iterator[Finding]:
    """Report channels-last images by shape, for torch only: other libraries put channels last on purpose."""
    shape = leaf.shape or ()
    last = len(shape) - 1
    if leaf.library != "torch" or leaf.is_aside or not (leaf.is_float or leaf.dtype == "uint8"):
        return
    is_reason_of_error = _is_reason_of_error(passage, shape)
    if not is_reason_of_error and (channels_axis(shape) != last or min(shape[last - 2 : last]) < 16):
        return
    if not is_reason_of_error and passage.convolved and passage.convolved != shape:
        return  # the model moves them itself
    text = f"{name_of(leaf)} is {leaf.type_text()}: the last axis looks like {shape[last]} channels, and a convolution"
    text = f"{text} reads axis 1, of length {shape[1]}, as channels."
    if is_reason_of_error:
        text = f"{text} It raised {passage.error}"
    order = "0, 3, 1, 2" if last == 3 else "0, 4, 1, 2, 3"
    yield make_finding("channels-last", passage, text, f"Put the channels first: `.permute({order})`.")


def _is_reason_of_error(passage: Passage, shape: tuple[int, ...]) -> bool:
    """Whether the error is a convolution that expected the last axis as its channels, but found axis 1 there."""
    match = _CHANNELS_ERROR.search(passage.error or "")
    return match is not None and len(shape) in (4, 5) and (int(match[1]), int(match[2])) == (shape[-1], shape[1])


def _check_doubles(evidence: Evidence, passage: Passage, leaf: Leaf) -> Iterator[Finding]:
    """A model that also gives float64 computes in float64 on purpose."""
    if leaf.library != "torch" or leaf.dtype != "float64" or len(leaf.shape or ()) < 2:
        return
    outputs = evidence.outputs(passage)
    if not any(output.is_array and output.dtype == "float64" for output in outputs):
        text = f"{name_of(leaf)} is {leaf.type_text()}: doubles go into the model."
        yield make_finding(
            "float64-into-model", passage, text, "Convert with `.float()`; NumPy makes float64 by itself."
        )

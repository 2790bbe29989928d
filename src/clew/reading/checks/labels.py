"""Finds labels that do not suit the loss: out of range or of the wrong type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from clew.reading.checks.evidence import Evidence, is_loss, is_model, make_finding, name_of
from clew.reading.checks.finding import Finding, item_names
from clew.reading.checks.leaves import Leaf, range_text
from clew.records import Passage

_BOUNDS_ERROR: Final = re.compile(r"[Tt]arget (-?\d+) is out of bounds")
_CLASSES: Final = re.compile(r"cross_?entropy|nll|multi_?margin|focal", re.IGNORECASE)
_BINARY: Final = re.compile(r"binary|bce", re.IGNORECASE)
# Losses that take integers beside numbers that are not class scores.
_NOT_CLASS_LOSSES: Final = re.compile(
    r"cosine|adaptive|ctc|triplet|contrast|supcon|arc|center|proxy|metric|embed|poisson|gauss|rank", re.IGNORECASE
)
_IGNORED: Final = -100  # the default of torch
_OFTEN_IGNORED: Final = ((-1,), (255,))


def unsuitable_labels(evidence: Evidence) -> Iterator[Finding]:
    for passage in evidence.passages:
        if is_loss(passage):
            yield from _check_loss(evidence, passage)
        elif is_model(passage) and passage.error:
            yield from _bounds_error(passage)


def _check_loss(evidence: Evidence, passage: Passage) -> Iterator[Finding]:
    arrays = [
        leaf for leaf in evidence.inputs(passage) if leaf.shape is not None and leaf.library in ("torch", "numpy")
    ]
    pair = _scores_and_labels(arrays)
    findings: list[Finding] = []
    if pair is not None and not _NOT_CLASS_LOSSES.search(f"{passage.function} {pair[0].path}"):
        findings = list(_check_labels(passage, *pair))
    yield from findings or _bounds_error(passage)
    if _BINARY.search(passage.function):
        yield from _check_binary_labels(passage, arrays)


def _scores_and_labels(leaves: list[Leaf]) -> tuple[Leaf, Leaf] | None:
    """The leaves shaped (N, C) and (N,), or (N, C, H, W) and (N, H, W); one sample has (C,) and a single label."""
    leaves = [leaf for leaf in leaves if "weight" not in leaf.path]
    for scores in leaves:
        shape = scores.shape or ()
        label_shape = shape[:1] + shape[2:] if len(shape) > 1 else ()
        if not scores.is_float or not shape or _class_count(shape) < 2:
            continue
        fitting = [leaf for leaf in leaves if leaf is not scores and leaf.shape == label_shape]
        if fitting:
            return scores, next((leaf for leaf in fitting if leaf.is_integer), fitting[0])
    return None


def _class_count(shape: tuple[int, ...]) -> int:
    return shape[1] if len(shape) > 1 else shape[0]


def _check_labels(passage: Passage, scores: Leaf, target: Leaf) -> Iterator[Finding]:
    classes = _class_count(scores.shape or (1,))
    is_class_loss = bool(_CLASSES.search(passage.function)) and not _BINARY.search(passage.function)
    if target.is_integer:
        yield from _check_label_range(passage, target, classes)
    elif target.is_float and is_class_loss:
        target_text = f"{name_of(target)} is {target.type_text()}"
        text = f"{target_text}, beside scores of {classes} classes: class labels are integers."
        yield make_finding("labels-as-floats", passage, text, "Convert the labels with `.long()`.")


def _check_label_range(passage: Passage, target: Leaf, classes: int) -> Iterator[Finding]:
    low, high = target.summary.min, target.summary.max
    if low is None or high is None or (low >= 0 and high < classes):
        return
    bad_labels, rows = _labels_out_of_range(passage, target, classes)
    if bad_labels is not None and not bad_labels:
        return
    text = f"{name_of(target)} has labels {range_text(low, high)}, and there are {classes} classes (0…{classes - 1})"
    ids = [passage.ids[row] for row in rows if row < len(passage.ids)] if passage.by_row else []
    location = f", in {item_names(ids)}" if ids else ""
    if bad_labels is not None:
        listing = ", ".join(map(str, bad_labels[:5])) + (" …" if len(bad_labels) > 5 else "")
        text = f"{text}: {listing} {'is' if len(bad_labels) == 1 else 'are'} out of range{location}"
    if passage.error is None and bad_labels is not None and tuple(bad_labels) in _OFTEN_IGNORED:
        # It did not raise: a single such value is usually the `ignore_index` of the loss.
        yield make_finding("labels-out-of-range", passage, f"{text}. Is that `ignore_index`?", level="note", items=ids)
        return
    raised = f" It raised {passage.error}" if passage.error else ""
    remedy = "Count the labels from 0, and give the model as many outputs as there are classes."
    yield make_finding("labels-out-of-range", passage, f"{text}.{raised}", remedy, items=ids)


def _labels_out_of_range(passage: Passage, target: Leaf, classes: int) -> tuple[list[int] | None, list[int]]:
    """The labels out of range (None if the labels were not kept), and their rows."""
    array = target.array()
    if array is None:
        return None, []
    import numpy as np

    is_bad = ((array < 0) | (array >= classes)) & ~np.isin(array, _ignored_labels(passage))
    rows = np.flatnonzero(is_bad.reshape(len(is_bad), -1).any(axis=1)).tolist() if is_bad.ndim and is_bad.size else []
    return np.unique(array[is_bad]).tolist(), rows


def _ignored_labels(passage: Passage) -> list[int]:
    ignore_index: Any = passage.inputs.get("ignore_index")
    return [_IGNORED, ignore_index] if type(ignore_index) is int else [_IGNORED]


def _bounds_error(passage: Passage) -> Iterator[Finding]:
    match = _BOUNDS_ERROR.search(passage.error or "")
    if match:
        text = f"It raised {passage.error}: the label {match[1]} is not one of the classes of the scores."
        remedy = "Count the labels from 0, and give the model as many outputs as there are classes."
        yield make_finding("labels-out-of-range", passage, text, remedy)


def _check_binary_labels(passage: Passage, arrays: list[Leaf]) -> Iterator[Finding]:
    target = next((leaf for leaf in arrays if any(name_part in leaf.path for name_part in ("target", "label"))), None)
    target = target or (arrays[1] if len(arrays) > 1 else None)
    if target is None or target.summary.min is None or target.summary.max is None:
        return
    if target.summary.min < 0 or target.summary.max > 1:
        text = f"{name_of(target)} has values {target.range_text()}; a binary loss takes labels in 0…1."
        yield make_finding(
            "labels-out-of-range", passage, text, "Divide a mask of 0 and 255 by 255; make -1 and 1 0 and 1."
        )

"""Labels a loss cannot mean: out of range, of the wrong type, probabilities where scores are read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from clew.history.checks.finding import Finding, item_names
from clew.history.checks.leaf import Leaf, range_told
from clew.history.checks.seen import Seen, found, is_loss, is_model, name_of
from clew.records import Passage

_BOUNDS_ERROR: Final = re.compile(r"[Tt]arget (-?\d+) is out of bounds")
_CLASSES: Final = re.compile(r"cross_?entropy|nll|multi_?margin|focal", re.IGNORECASE)
_BINARY: Final = re.compile(r"binary|bce", re.IGNORECASE)
# What takes integers beside numbers that are no scores of classes.
_OTHERS: Final = re.compile(
    r"cosine|adaptive|ctc|triplet|contrast|supcon|arc|center|proxy|metric|embed|poisson|gauss|rank", re.IGNORECASE
)
_IGNORED: Final = -100  # torch's own
_OFTEN_IGNORED: Final = ((-1,), (255,))


def labels(seen: Seen) -> Iterator[Finding]:
    for passage in seen.passages:
        if is_loss(passage):
            yield from _in_loss(seen, passage)
        elif is_model(passage) and passage.error:
            yield from _raised(passage)


def _in_loss(seen: Seen, passage: Passage) -> Iterator[Finding]:
    given = [leaf for leaf in seen.inputs(passage) if leaf.shape is not None and leaf.library in ("torch", "numpy")]
    pair = _scores_and_labels(given)
    told = False
    if pair is not None and not _OTHERS.search(f"{passage.function} {pair[0].path}"):
        for one in _pair(passage, *pair):
            told = True
            yield one
    if not told:
        yield from _raised(passage)
    if _BINARY.search(passage.function):
        yield from _binary(passage, given)


def _scores_and_labels(given: list[Leaf]) -> tuple[Leaf, Leaf] | None:
    """(N, C) and (N,), or (N, C, H, W) and (N, H, W); one sample has (C,) and a single label."""
    given = [leaf for leaf in given if "weight" not in leaf.path]
    for scores in given:
        shape = scores.shape or ()
        wanted = shape[:1] + shape[2:] if len(shape) > 1 else ()
        if not scores.is_float or not shape or classes_of(shape) < 2:
            continue
        fitting = [leaf for leaf in given if leaf is not scores and leaf.shape == wanted]
        if fitting:
            return scores, next((leaf for leaf in fitting if leaf.is_integer), fitting[0])
    return None


def classes_of(shape: tuple[int, ...]) -> int:
    return shape[1] if len(shape) > 1 else shape[0]


def _pair(passage: Passage, scores: Leaf, target: Leaf) -> Iterator[Finding]:
    classes = classes_of(scores.shape or (1,))
    is_class_loss = bool(_CLASSES.search(passage.function)) and not _BINARY.search(passage.function)
    if target.is_integer:
        yield from _range(passage, target, classes)
    elif target.is_float and is_class_loss:
        text = (
            f"{name_of(target)} is {target.told()}, beside scores of {classes} classes: labels of classes are integers."
        )
        yield found("labels-as-floats", passage, text, "Convert the labels with `.long()`.")


def _range(passage: Passage, target: Leaf, classes: int) -> Iterator[Finding]:
    low, high = target.summary.min, target.summary.max
    if low is None or high is None or (low >= 0 and high < classes):
        return
    outside, rows = _outside(passage, target, classes)
    if outside is not None and not outside:
        return
    text = f"{name_of(target)} has labels {range_told(low, high)}, and there are {classes} classes (0…{classes - 1})"
    ids = [passage.ids[row] for row in rows if row < len(passage.ids)] if passage.by_row else []
    where = f", in {item_names(ids)}" if ids else ""
    if outside is not None:
        some = ", ".join(map(str, outside[:5])) + (" …" if len(outside) > 5 else "")
        text = f"{text}: {some} {'is' if len(outside) == 1 else 'are'} out of range{where}"
    if passage.error is None and outside is not None and tuple(outside) in _OFTEN_IGNORED:
        # It did not raise: a single such value is most often the one that the loss was told to leave out.
        yield found("labels-out-of-range", passage, f"{text}. Is that `ignore_index`?", level="note", items=ids)
        return
    raised = f" It raised {passage.error}" if passage.error else ""
    remedy = "Count the labels from 0, and give the model as many outputs as there are classes."
    yield found("labels-out-of-range", passage, f"{text}.{raised}", remedy, items=ids)


def _outside(passage: Passage, target: Leaf, classes: int) -> tuple[list[int] | None, list[int]]:
    """The labels out of range, and the rows they are in; None if the labels were not kept."""
    array = target.array()
    if array is None:
        return None, []
    import numpy as np

    bad = ((array < 0) | (array >= classes)) & ~np.isin(array, _left_out(passage))
    rows = np.flatnonzero(bad.reshape(len(bad), -1).any(axis=1)).tolist() if bad.ndim and bad.size else []
    return np.unique(array[bad]).tolist(), rows


def _left_out(passage: Passage) -> list[int]:
    said: Any = passage.inputs.get("ignore_index")
    return [_IGNORED, said] if type(said) is int else [_IGNORED]


def _raised(passage: Passage) -> Iterator[Finding]:
    match = _BOUNDS_ERROR.search(passage.error or "")
    if match:
        text = f"It raised {passage.error}: the label {match[1]} is not one of the classes of the scores."
        remedy = "Count the labels from 0, and give the model as many outputs as there are classes."
        yield found("labels-out-of-range", passage, text, remedy)


def _binary(passage: Passage, given: list[Leaf]) -> Iterator[Finding]:
    target = next((leaf for leaf in given if any(word in leaf.path for word in ("target", "label"))), None)
    target = target or (given[1] if len(given) > 1 else None)
    if target is None or target.summary.min is None or target.summary.max is None:
        return
    if target.summary.min < 0 or target.summary.max > 1:
        text = f"{name_of(target)} has values {target.range_told()}; a binary loss takes labels in 0…1."
        yield found("labels-out-of-range", passage, text, "Divide a mask of 0 and 255 by 255; make -1 and 1 0 and 1.")

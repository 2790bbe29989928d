"""Explains why a collate function raised: which samples do not match, and in what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from clew.reading.checks.evidence import Evidence, is_collate, make_finding, samples_of
from clew.reading.checks.finding import Finding, item_names, listed
from clew.reading.checks.leaves import Leaf, step_text
from clew.reading.rows import MAPPINGS, contents_of, library_of, unwrapped
from clew.records import Object, Passage
from clew.text.brief import shorten
from clew.text.values import type_name

_DEEPEST: Final = 8
_MOST: Final = 8  # differing places that are reported
_REMEDY: Final = "Make the samples alike in the dataset or a transform, or pad them in a `collate_fn` of your own."


def collate_clashes(evidence: Evidence) -> Iterator[Finding]:
    for passage in evidence.passages:
        if is_collate(passage) and passage.error:
            yield from _clashes_of(passage)


def _clashes_of(passage: Passage) -> Iterator[Finding]:
    samples = samples_of(passage)
    if samples is None or len(samples) < 2:
        yield _failed(passage, "")
        return
    names = list(passage.ids) if len(passage.ids) == len(samples) else list(range(len(samples)))
    differences = list(islice(_differing_places(list(samples), "", 0), _MOST))
    for path, outlines in differences:
        yield _clash(passage, path, outlines, names)
    if not differences:
        yield _failed(passage, ", and its samples are alike in types and shapes")


def _failed(passage: Passage, addition: str) -> Finding:
    text = f"It raised {shorten(passage.error or '', 200)}{addition}."
    return make_finding("collate-failed", passage, text, "See whether it can hold what the samples hold.")


def _differing_places(samples: list[Any], path: str, depth: int) -> Iterator[tuple[str, list[str]]]:
    """The outermost places at which samples differ, each with the outline of every sample there."""
    samples = [unwrapped(sample) for sample in samples]
    outlines = [_outline(sample) for sample in samples]
    if len(set(outlines)) == 1 and len({library_of(sample) for sample in samples}) > 1:
        # A tensor does not collate with an array, even if their shapes match.
        outlines = [f"{type_name(sample)} {outline}" for sample, outline in zip(samples, outlines, strict=True)]
    if len(set(outlines)) > 1:
        yield path, outlines
        return
    if depth >= _DEEPEST or contents_of(samples[0]) is None:
        return
    contents = [dict(_contents(sample)) for sample in samples]
    for step in contents[0]:
        if all(step in items for items in contents):
            yield from _differing_places([items[step] for items in contents], path + step, depth + 1)


def _contents(sample: Any) -> Iterator[tuple[str, Any]]:
    for step, item in contents_of(sample) or ():
        yield step_text(step), item


def _outline(sample: Any) -> str:
    """What must be equal in all samples for default_collate to accept them."""
    if sample is None:
        return "None"
    if library_of(sample):
        return Leaf("", sample).type_text()
    if type(sample) in (list, tuple):
        return f"a {type(sample).__name__} of {len(sample)}"
    if type(sample) in MAPPINGS:
        # Sorted, because the order of keys does not matter.
        return f"a {type(sample).__name__} with {listed(sorted(step_text(('[', key)) for key in sample)) or 'no keys'}"
    if type(sample) is Object:
        return f"a {type_name(sample).rpartition('.')[2]} with {', '.join(sample.attributes) or 'nothing in it'}"
    return type_name(sample)


def _clash(passage: Passage, path: str, outlines: Sequence[str], names: Sequence[Any]) -> Finding:
    usual = Counter(outlines).most_common(1)[0][0]
    odd = [place for place, outline in enumerate(outlines) if outline != usual]
    where = path or "the sample"
    if usual == "None":  # None is the odd value, even if it is the most common
        odd = [place for place, outline in enumerate(outlines) if outline == "None"]
        usual = next(outline for outline in outlines if outline != "None")
    key_differences = _key_differences([outlines[place] for place in odd], usual)
    if len(odd) == 1 and not key_differences:
        text = f"{_name_items([names[odd[0]]], passage)}: {where} is {_outline_beside(outlines[odd[0]], usual)}"
    elif key_differences:
        text = f"{_name_items([names[place] for place in odd], passage)}: {where} {key_differences}"
    else:
        groups: dict[str, list[Any]] = {}
        for place in odd:
            groups.setdefault(outlines[place], []).append(names[place])
        parts = [
            f"{_outline_beside(outline, usual)} in {_name_items(ids, passage)}"
            for outline, ids in list(groups.items())[:4]
        ]
        text = f"{where} is {'; '.join(parts)}"
    if not key_differences:
        rest = "the other" if len(outlines) - len(odd) == 1 else "the others"
        text = f"{text}, {rest} {_outline_beside(usual, outlines[odd[0]])}"
    none = all(outlines[place] == "None" for place in odd)
    remedy = "Leave such items out in the dataset, or in a `collate_fn` of your own." if none else _REMEDY
    return make_finding("collate-clash", passage, f"{text}.", remedy, items=[names[place] for place in odd])


def _name_items(items: Sequence[Any], passage: Passage) -> str:
    return item_names(items) if passage.ids else item_names(items).replace("item", "sample", 1)


def _outline_beside(outline: str, compared_with: str) -> str:
    """The outline, or only its shape if both have the same dtype."""
    (dtype, _, shape), (compared_dtype, _, _) = outline.partition(" ("), compared_with.partition(" (")
    return f"({shape}" if shape and dtype == compared_dtype and dtype[:2] != "a " else outline


def _key_differences(odd: Sequence[str], usual: str) -> str:
    """`lacks ["mask"]`, if all odd samples are dicts with the same keys, which differ from the usual ones."""
    kind, _, keys = usual.partition(" with ")
    if not keys or "dict" not in kind.lower() or len(set(odd)) > 1 or not odd[0].startswith(f"{kind} with "):
        return ""
    usual_keys, odd_keys = (_split_keys(text.partition(" with ")[2]) for text in (usual, odd[0]))
    parts = [f"lacks {listed(sorted(usual_keys - odd_keys))}"] if usual_keys - odd_keys else []
    parts += [f"has {listed(sorted(odd_keys - usual_keys))}, which the others lack"] if odd_keys - usual_keys else []
    return " and ".join(parts)


def _split_keys(keys: str) -> set[str]:
    return {part for part in keys.replace(" and ", ", ").split(", ") if part != "no keys"}

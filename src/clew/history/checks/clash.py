"""When collate fails: which items do not go together, and in what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from clew.history.checks.finding import Finding, item_names, listed
from clew.history.checks.leaf import Leaf, step_text
from clew.history.checks.seen import Seen, found, is_collate, samples_of
from clew.history.rows import MAPPINGS, contents_of, library_of, unwrapped
from clew.records import Object, Passage
from clew.show.text import shorten
from clew.show.values import type_name

_DEEPEST: Final = 8
_MOST: Final = 8  # places that are told
_REMEDY: Final = "Make the samples alike in the dataset or a transform, or pad them in a `collate_fn` of your own."


def clashes(seen: Seen) -> Iterator[Finding]:
    for passage in seen.passages:
        if is_collate(passage) and passage.error:
            yield from _clashes_of(passage)


def _clashes_of(passage: Passage) -> Iterator[Finding]:
    samples = samples_of(passage)
    if samples is None or len(samples) < 2:
        yield _failed(passage, "")
        return
    names = list(passage.ids) if len(passage.ids) == len(samples) else list(range(len(samples)))
    told = 0
    for path, outlines in _compared(list(samples), "", 0):
        if told < _MOST:
            told += 1
            yield _clash(passage, path, outlines, names)
    if not told:
        yield _failed(passage, ", and its samples are alike in types and shapes")


def _failed(passage: Passage, known: str) -> Finding:
    text = f"It raised {shorten(passage.error or '', 200)}{known}."
    return found("collate-failed", passage, text, "See whether it can hold what the samples hold.")


def _compared(samples: list[Any], path: str, depth: int) -> Iterator[tuple[str, list[str]]]:
    """The places at which they differ, with what each of them is there; further inside only where they are alike."""
    samples = [unwrapped(sample) for sample in samples]
    outlines = [_outline(sample) for sample in samples]
    if len(set(outlines)) == 1 and len({library_of(sample) for sample in samples}) > 1:
        # A tensor and an array of one shape do not go together either.
        outlines = [f"{type_name(sample)} {outline}" for sample, outline in zip(samples, outlines, strict=True)]
    if len(set(outlines)) > 1:
        yield path, outlines
        return
    if depth >= _DEEPEST or contents_of(samples[0]) is None:
        return
    inside = [dict(_contents(sample)) for sample in samples]
    for step in inside[0]:
        if all(step in other for other in inside):
            yield from _compared([other[step] for other in inside], path + step, depth + 1)


def _contents(sample: Any) -> Iterator[tuple[str, Any]]:
    for step, item in contents_of(sample) or ():
        yield step_text(step), item


def _outline(sample: Any) -> str:
    """What default_collate needs to be the same."""
    if sample is None:
        return "None"
    if library_of(sample):
        return Leaf("", sample).told()
    if type(sample) in (list, tuple):
        return f"a {type(sample).__name__} of {len(sample)}"
    if type(sample) in MAPPINGS:
        # Sorted, because the order of the keys is no matter.
        return f"a {type(sample).__name__} with {listed(sorted(step_text(('[', key)) for key in sample)) or 'no keys'}"
    if type(sample) is Object:
        return f"a {type_name(sample).rpartition('.')[2]} with {', '.join(sample.attributes) or 'nothing in it'}"
    return type_name(sample)


def _clash(passage: Passage, path: str, outlines: Sequence[str], names: Sequence[Any]) -> Finding:
    usual = Counter(outlines).most_common(1)[0][0]
    odd = [place for place, outline in enumerate(outlines) if outline != usual]
    where = path or "the sample"
    if usual == "None":  # nobody means None, however many there are
        odd = [place for place, outline in enumerate(outlines) if outline == "None"]
        usual = next(outline for outline in outlines if outline != "None")
    missing = _keys_told([outlines[place] for place in odd], usual)
    if len(odd) == 1 and not missing:
        text = f"{_named([names[odd[0]]], passage)}: {where} is {_short(outlines[odd[0]], usual)}"
    elif missing:
        text = f"{_named([names[place] for place in odd], passage)}: {where} {missing}"
    else:
        groups: dict[str, list[Any]] = {}
        for place in odd:
            groups.setdefault(outlines[place], []).append(names[place])
        parts = [f"{_short(outline, usual)} in {_named(ids, passage)}" for outline, ids in list(groups.items())[:4]]
        text = f"{where} is {'; '.join(parts)}"
    if not missing:
        others = "the other" if len(outlines) - len(odd) == 1 else "the others"
        text = f"{text}, {others} {_short(usual, outlines[odd[0]])}"
    none = all(outlines[place] == "None" for place in odd)
    remedy = "Leave such items out in the dataset, or in a `collate_fn` of your own." if none else _REMEDY
    return found("collate-clash", passage, f"{text}.", remedy, items=[names[place] for place in odd])


def _named(items: Sequence[Any], passage: Passage) -> str:
    return item_names(items) if passage.ids else item_names(items).replace("item", "sample", 1)


def _short(outline: str, other: str) -> str:
    """Only the shapes, if the types are the same."""
    (dtype, _, shape), (other_dtype, _, _) = outline.partition(" ("), other.partition(" (")
    return f"({shape}" if shape and dtype == other_dtype and dtype[:2] != "a " else outline


def _keys_told(odd: Sequence[str], usual: str) -> str:
    """`lacks ["mask"]`, if all the odd ones are dicts with other keys than the usual one."""
    kind, _, keys = usual.partition(" with ")
    if not keys or "dict" not in kind.lower() or len(set(odd)) > 1 or not odd[0].startswith(f"{kind} with "):
        return ""
    wanted, given = (_split(text.partition(" with ")[2]) for text in (usual, odd[0]))
    parts = [f"lacks {listed(sorted(wanted - given))}"] if wanted - given else []
    parts += [f"has {listed(sorted(given - wanted))}, which the others have not"] if given - wanted else []
    return " and ".join(parts)


def _split(keys: str) -> set[str]:
    return {part for part in keys.replace(" and ", ", ").split(", ") if part != "no keys"}

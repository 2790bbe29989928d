"""What the series of a run are called: `loss`, and where two functions, modes or ranks have a `loss`, which one it is.

    loss                     only one function of one process, or of several of one rank, has it
    train.loss               in the function `train`; `valid.loss` is another series
    fc@mode=eval             seen while the model was in eval mode; `fc@mode=train` is another series
    train.loss@rank=1        by rank 1

A function is said by as much of its full name as tells it from the others: `Trainer.step.loss`, `pkg.train.loss`.
What begins with `self` is the object's: the methods of a class have one series `self.x`, and two classes have
`Box.self.x` and `Tree.self.x`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from clew.errors import AmbiguousNameError, UnknownNameError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from clew.records import Function, Site
    from clew.store.shard import ShardReader

_MARKS = re.compile(r"(?:@mode=(?P<mode>\w+))?(?:@rank=(?P<rank>-?\d+))?\Z")
_OF_AN_OBJECT = re.compile(r"(self|cls)\b")
_SPAWNED = "__mp_main__"  # what the main module is called in children of multiprocessing


class Origin(NamedTuple):
    """What makes a series: the name as the probe was given it, and where its changes come from."""

    name: str
    function: str  # the full name: module and qualified name; of what is an object's, that of the class
    mode: str  # "train" or "eval" inside a model; "" elsewhere
    rank: int


class Naming:
    """The names of all series of a run, in the order in which their places were first written."""

    def __init__(self, shards: Sequence[ShardReader]) -> None:
        self._origin_of_site = [
            {id: _origin(shard, site) for id, site in shard.sites.items() if site.role == "value"} for shard in shards
        ]
        origins = dict.fromkeys(origin for sites in self._origin_of_site for origin in sites.values())
        self.origins: dict[str, Origin] = dict(zip(_labels(list(origins)), origins, strict=True))
        self._labels = {origin: label for label, origin in self.origins.items()}

    def label(self, shard: int, site: int) -> str:
        """The series that a site belongs to."""
        return self._labels[self._origin_of_site[shard][site]]

    def matching(self, text: str) -> list[str]:
        """The series that a person may mean by this: `loss`, `train.loss`, `pkg.train.loss`, `loss@rank=1`."""
        if text in self.origins:
            return [text]
        if not text:
            return []
        marks = _MARKS.search(text)
        assert marks is not None  # it matches the empty end of any text
        name = text[: marks.start()]
        return [
            label
            for label, origin in self.origins.items()
            if marks["mode"] in (None, origin.mode)
            and marks["rank"] in (None, str(origin.rank))
            and _says(name, origin)
        ]

    def sites(self, shard: int, text: str) -> list[int]:
        """The sites of a shard that belong to what a person may mean by this."""
        labels = set(self.matching(text))
        return [site for site, origin in self._origin_of_site[shard].items() if self._labels[origin] in labels]

    def named(self, name: str) -> list[str]:
        """The series of this bare name, whatever function, mode and rank."""
        return [label for label, origin in self.origins.items() if origin.name == name]


def one_of(labels: Iterable[str], text: str, place: str, known: Iterable[str]) -> str:
    """The only one of these series, which are those that `text` may mean."""
    matches = list(labels)
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise UnknownNameError("unknown-name", f"No `{text}` was recorded in {place};", nearest(text, known))
    what = f"{len(matches)} series of {place} are called `{text}`:"
    raise AmbiguousNameError(
        "ambiguous-name", what, ", ".join(f"`{label}`" for label in matches) + ". Name one of them."
    )


def fitting(labels: Iterable[str], pattern: str) -> list[str]:
    return [label for label in labels if fnmatchcase(label, pattern)]


def _origin(shard: ShardReader, site: Site) -> Origin:
    function = shard.functions[site.function]
    place = _full_name(function)
    if _OF_AN_OBJECT.match(site.name) and "." in function.name.replace("<locals>.", ""):
        place = place.rpartition(".")[0]  # the class
    return Origin(site.name, place, site.mode or "", shard.rank)


def _full_name(function: Function) -> str:
    module = "__main__" if function.module == _SPAWNED else function.module
    return f"{module}.{function.name}".replace("<locals>.", "")


def _says(text: str, origin: Origin) -> bool:
    """Whether this is the name, or the name after a function's or its tail's."""
    if text == origin.name:
        return True
    function = text.removesuffix(f".{origin.name}")
    return function != text and (origin.function == function or origin.function.endswith(f".{function}"))


def _labels(origins: list[Origin]) -> list[str]:
    """A name for each of these: the bare one, with as much before and behind it as tells it from the others."""
    groups: dict[str, list[Origin]] = defaultdict(list)
    for origin in origins:
        groups[origin.name].append(origin)
    shown: dict[Origin, str] = {}
    for name, group in groups.items():
        if len(group) == 1:
            shown[group[0]] = name
            continue
        modes: dict[str, set[str]] = defaultdict(set)
        ranks: dict[str, set[int]] = defaultdict(set)
        for origin in group:
            modes[origin.function].add(origin.mode)
            ranks[origin.function].add(origin.rank)
        prefixes = _tails(set(modes), name, groups) if len(modes) > 1 else dict.fromkeys(modes, "")
        for origin in group:
            mode = f"@mode={origin.mode}" if origin.mode and len(modes[origin.function]) > 1 else ""
            rank = f"@rank={origin.rank}" if len(ranks[origin.function]) > 1 else ""
            shown[origin] = f"{prefixes[origin.function]}{name}{mode}{rank}"
    return [shown[origin] for origin in origins]


def _tails(functions: set[str], name: str, taken: Iterable[str]) -> dict[str, str]:
    """For each function the shortest end of its full name that no other one has, with a dot behind it.

    `train.loss` may itself be what a probe was asked for: then more of the function's name is said.
    """
    counts: dict[str, int] = defaultdict(int)
    for function in functions:
        for tail in _ends(function):
            counts[tail] += 1
    known = set(taken)
    return {
        function: next(
            (f"{tail}." for tail in _ends(function) if counts[tail] == 1 and f"{tail}.{name}" not in known),
            f"{function}.",
        )
        for function in functions
    }


def _ends(function: str) -> list[str]:
    parts = function.split(".")
    return [".".join(parts[place:]) for place in range(len(parts) - 1, -1, -1)]

"""Labels the series of a run: `loss`, and more if several functions, modes or ranks have a `loss`.

    loss                     only one function has it, in one process or in several of one rank
    train.loss               in the function `train`; `valid.loss` is another series
    fc@mode=eval             recorded while the model was in eval mode; `fc@mode=train` is another series
    train.loss@rank=1        recorded by rank 1

A label holds as much of the function's full name as makes it unique: `Trainer.step.loss`, `pkg.train.loss`. Names that
begin with `self` belong to the object: the methods of a class share one series `self.x`, and two classes have
`Box.self.x` and `Tree.self.x`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from clew.errors import AmbiguousNameError, UnknownNameError, nearest

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from clew.records import Function, Site
    from clew.store.shard import ShardReader

_MARKS = re.compile(r"(?:@mode=(?P<mode>\w+))?(?:@rank=(?P<rank>-?\d+))?\Z")
_SELF_NAME = re.compile(r"(self|cls)\b")
_SPAWNED_MAIN = "__mp_main__"  # the name of the main module in children of multiprocessing


class Origin(NamedTuple):
    """What distinguishes a series: its name as passed to the probe, and where its changes come from."""

    name: str
    function: str  # module and qualified name; for names of an object, those of its class
    mode: str  # "train" or "eval" inside a model; "" elsewhere
    rank: int


class Naming:
    """The labels of all series of a run, in the order in which their sites were first written."""

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
        """The series that a text may mean: `loss`, `train.loss`, `pkg.train.loss`, `loss@rank=1`."""
        if text in self.origins:
            return [text]
        if not text:
            return []
        marks = _MARKS.search(text)
        assert marks is not None  # it matches at least the empty end of any text
        name = text[: marks.start()]
        return [
            label
            for label, origin in self.origins.items()
            if marks["mode"] in (None, origin.mode)
            and marks["rank"] in (None, str(origin.rank))
            and _denotes(name, origin)
        ]

    def sites(self, shard: int, text: str) -> list[int]:
        """The sites of a shard whose series the text may mean."""
        labels = set(self.matching(text))
        return [site for site, origin in self._origin_of_site[shard].items() if self._labels[origin] in labels]

    def named(self, name: str) -> list[str]:
        """The series with this bare name, of any function, mode and rank."""
        return [label for label, origin in self.origins.items() if origin.name == name]


def single_label(labels: Iterable[str], text: str, run_name: str, all_labels: Iterable[str]) -> str:
    """The only one of `labels`, which are the series that `text` may mean; an error if there is not exactly one."""
    matches = list(labels)
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise UnknownNameError("unknown-name", f"No `{text}` was recorded in {run_name};", nearest(text, all_labels))
    message = f"{len(matches)} series of {run_name} are called `{text}`:"
    raise AmbiguousNameError(
        "ambiguous-name", message, ", ".join(f"`{label}`" for label in matches) + ". Name one of them."
    )


def labels_matching(labels: Iterable[str], pattern: str) -> list[str]:
    return [label for label in labels if fnmatchcase(label, pattern)]


def _origin(shard: ShardReader, site: Site) -> Origin:
    function = shard.functions[site.function]
    place = _full_name(function)
    if _SELF_NAME.match(site.name) and "." in function.name.replace("<locals>.", ""):
        place = place.rpartition(".")[0]  # the class
    return Origin(site.name, place, site.mode or "", shard.rank)


def _full_name(function: Function) -> str:
    module = "__main__" if function.module == _SPAWNED_MAIN else function.module
    return f"{module}.{function.name}".replace("<locals>.", "")


def _denotes(text: str, origin: Origin) -> bool:
    """Whether the text is the bare name, or the name behind the function's name or a tail of it."""
    if text == origin.name:
        return True
    function = text.removesuffix(f".{origin.name}")
    return function != text and (origin.function == function or origin.function.endswith(f".{function}"))


def _labels(origins: list[Origin]) -> list[str]:
    """A label for each origin: the bare name, with just enough before and after it to be unique."""
    groups: dict[str, list[Origin]] = defaultdict(list)
    for origin in origins:
        groups[origin.name].append(origin)
    label_by_origin: dict[Origin, str] = {}
    for name, group in groups.items():
        if len(group) == 1:
            label_by_origin[group[0]] = name
            continue
        modes: dict[str, set[str]] = defaultdict(set)
        ranks: dict[str, set[int]] = defaultdict(set)
        for origin in group:
            modes[origin.function].add(origin.mode)
            ranks[origin.function].add(origin.rank)
        prefixes = _unique_prefixes(set(modes), name, groups) if len(modes) > 1 else dict.fromkeys(modes, "")
        for origin in group:
            mode = f"@mode={origin.mode}" if origin.mode and len(modes[origin.function]) > 1 else ""
            rank = f"@rank={origin.rank}" if len(ranks[origin.function]) > 1 else ""
            label_by_origin[origin] = f"{prefixes[origin.function]}{name}{mode}{rank}"
    return [label_by_origin[origin] for origin in origins]


def _unique_prefixes(functions: set[str], name: str, bare_names: Container[str]) -> dict[str, str]:
    """For each function the shortest unique end of its full name, followed by a dot.

    A name passed to a probe may itself be `train.loss`; then a longer end is used.
    """
    counts: dict[str, int] = defaultdict(int)
    for function in functions:
        for tail in _dotted_tails(function):
            counts[tail] += 1
    return {
        function: next(
            (
                f"{tail}."
                for tail in _dotted_tails(function)
                if counts[tail] == 1 and f"{tail}.{name}" not in bare_names
            ),
            f"{function}.",
        )
        for function in functions
    }


def _dotted_tails(function: str) -> list[str]:
    parts = function.split(".")
    return [".".join(parts[place:]) for place in range(len(parts) - 1, -1, -1)]

"""Hugging Face `datasets`: the functions of `map` and `filter`, each a stage under its own name.

A map over a million examples is made over the first ones: a `Dataset` is cut before, a stream ends after them. What
comes out of it is short as well, so it is neither taken from the cache nor put there.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

import datasets  # type: ignore[import-untyped,unused-ignore]
from datasets import iterable_dataset

from clew import trouble
from clew.probes.pipeline.stage_functions import Spot, fixed
from clew.probes.pipeline.stages import Passer
from clew.probes.pipeline.trace_recording import Source, Tracing, current

from .examples import Examples, Given, seen
from .streams import Streaming

if TYPE_CHECKING:
    from clew.probes.pipeline.plugins import Site

_KEEPING_ROWS = (
    "add_column", "cast", "cast_column", "flatten", "remove_columns", "rename_column", "rename_columns",
    "select_columns", "with_format", "with_transform",
)  # fmt: skip
_inside: ContextVar[bool] = ContextVar("clew_datasets", default=False)


def install(site: Site) -> None:
    for method in ("map", "filter"):
        site.swap(getattr(datasets.Dataset, method), _Mapping(method))
    for method in _KEEPING_ROWS:
        site.swap(getattr(datasets.Dataset, method, None), _Keeping())
    site.swap(iterable_dataset.MappedExamplesIterable._iter, Streaming())


# ---- which examples are in a dataset


@dataclass(slots=True)
class _Known:
    held: Callable[[], Any]
    examples: Examples


_known: WeakKeyDictionary[Tracing, dict[int, _Known]] = WeakKeyDictionary()


def examples_of(tracing: Tracing, dataset: Any) -> Examples | None:
    """Which examples a dataset holds, row by row, if a `map` of this trace has made it."""
    known = _known.get(tracing, {}).get(id(dataset))
    return known.examples if known is not None and known.held() is dataset else None


def _remember(tracing: Tracing, dataset: Any, examples: Examples) -> None:
    _known.setdefault(tracing, {})[id(dataset)] = _Known(ref(dataset), examples)


def _first_of(tracing: Tracing, dataset: Any, count: int) -> Examples:
    split = getattr(dataset, "split", None)
    name = f"Dataset[{split}]" if split is not None else "Dataset"
    names = {known.name for known in tracing.sources.values()}
    number = 2
    while name in names:
        name = f"{name.partition('#')[0]}#{number}"
        number += 1
    tracing.sources[id(dataset), name] = Source(name, made=count)
    return Examples(tuple(range(count)), name)


class _Keeping(Passer):
    """At methods that give another dataset of the same rows."""

    def __init__(self) -> None:
        super().__init__(Spot("dataset", "dataset", names=fixed()))

    def __call__(self, twin: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        made = twin(*args, **kwargs)
        tracing = current()
        examples = examples_of(tracing, args[0]) if tracing is not None and args else None
        if tracing is not None and examples is not None and isinstance(made, datasets.Dataset):
            _remember(tracing, made, examples)
        return made


# ---- map and filter


class _Mapping(Passer):
    """At `Dataset.map` and `Dataset.filter`."""

    def __init__(self, method: str) -> None:
        super().__init__(Spot(method, f"Dataset.{method}", names=fixed()))
        self._method = method
        self._signature = inspect.signature(getattr(datasets.Dataset, method))

    def __call__(self, twin: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tracing = current()
        if tracing is None or tracing.wanted is None or _inside.get():
            return twin(*args, **kwargs)
        try:
            prepared = self._prepared(tracing, args, kwargs)
        except TypeError:  # a call that cannot be made: the program's own error comes next
            prepared = None
        except Exception as error:
            what = f"a call of Dataset.{self._method} was not recorded"
            trouble.report(f"stage:Dataset.{self._method}", what, "", error, internal=True)
            prepared = None
        if prepared is None:
            return twin(*args, **kwargs)
        dataset, arguments, given = prepared
        token = _inside.set(True)
        try:
            made = twin(dataset, **arguments)
        finally:
            _inside.reset(token)
        _remember(tracing, made, given.after(len(made)))
        return made

    def _prepared(
        self, tracing: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, dict[str, Any], Given] | None:
        """The call that is made instead."""
        arguments = dict(self._signature.bind(*args, **kwargs).arguments)
        dataset, function = arguments.pop("self"), arguments.get("function")
        if len(dataset) == 0 or _is_of_datasets(function):
            return None
        dataset, examples = self._cut(tracing, dataset)
        given = Given(
            examples,
            is_filter=self._method == "filter",
            batched=bool(arguments.get("batched")),
            with_indices=bool(arguments.get("with_indices")),
            with_rank=bool(arguments.get("with_rank")),
        )
        if function is not None:
            arguments["function"] = seen(tracing, function, given, self._method)
            arguments["with_indices"] = True
        self._uncached(tracing, arguments)
        return dataset, arguments, given

    def _cut(self, tracing: Tracing, dataset: Any) -> tuple[Any, Examples]:
        assert tracing.wanted is not None
        total = len(dataset)
        count = min(tracing.wanted, total)
        examples = examples_of(tracing, dataset)
        if examples is None:
            examples = _first_of(tracing, dataset, count)
            _remember(tracing, dataset, examples)
        if count < total:
            dataset = dataset.select(range(count))
            tracing.altered(f"datasets.{self._method}: the first {count:,} of {total:,} examples")
        return dataset, examples.first(count)

    def _uncached(self, tracing: Tracing, arguments: dict[str, Any]) -> None:
        """A short result is no one else's, and a long one from the cache would show nothing."""
        arguments.update(keep_in_memory=True, load_from_cache_file=False, new_fingerprint=uuid.uuid4().hex)
        arguments.pop("cache_file_name", None)
        tracing.altered(f"datasets.{self._method}: made anew in memory, nothing read from the cache or written to it")
        processes = arguments.pop("num_proc", None)
        if processes is not None and processes > 1:
            tracing.altered(f"datasets.{self._method}: in this process instead of num_proc={processes}")


def _is_of_datasets(function: Any) -> bool:
    """Whether the library calls itself: `cast` is a map."""
    function = getattr(function, "func", function)
    return (getattr(function, "__module__", None) or "").partition(".")[0] == "datasets"

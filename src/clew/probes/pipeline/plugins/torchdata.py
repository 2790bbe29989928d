"""torch's data loading. Here: datasets. torchloader.py: loaders and samplers; torchfetch.py: what workers do."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader, Dataset
from torch.utils.data import dataloader as loading
from torch.utils.data._utils import fetch as fetching
from torch.utils.data._utils import pin_memory as pinning

from clew.probes.pipeline.stage_functions import Spot, fixed
from clew.probes.pipeline.stages import Passer
from clew.recorder.fingerprints import original_code
from clew.values.class_facts import is_exactly

from . import torchfetch, torchloader, transforms

if TYPE_CHECKING:
    from clew.probes.pipeline.plugins import Site

_PIN = Spot("pin_memory", "pin_memory", names=fixed("batch"), result="pinned", kind="pin", outermost=True, ours=True)


def install(site: Site) -> None:
    for cls in _all_subclasses(Dataset):
        instrument_dataset_class(site, cls)
    for cls in _all_subclasses(DataLoader):
        torchloader.instrument_loader_class(site, cls)
    torchloader.instrument_those_ahead(site)
    site.replace(DataLoader, "__iter__", lambda original: torchloader.iterating(original, site, prepare))
    site.replace(DataLoader, "__len__", torchloader.length)
    site.replace(DataLoader, "_index_sampler", torchloader.index_sampler)
    site.replace(loading._BaseDataLoaderIter, "__next__", torchloader.giving)
    for fetcher in (fetching._MapDatasetFetcher, fetching._IterableDatasetFetcher):
        site.replace(fetcher, "fetch", torchfetch.fetching_of)
    site.swap(pinning.pin_memory, Passer(_PIN))


def _all_subclasses(cls: type) -> list[type]:
    found: dict[type, None] = {}
    subclasses: list[type] = type.__subclasses__(cls)
    for sub in subclasses:
        found[sub] = None
        found.update(dict.fromkeys(_all_subclasses(sub)))
    return list(found)


def instrument_dataset_class(site: Site, cls: type) -> None:
    """What a dataset gives for an index, or one after the other, passes the stage "dataset"."""
    for name, kind, params in (
        ("__getitem__", "dataset", ("index",)),
        ("__getitems__", "batch of dataset", ("indices",)),
        ("__iter__", "generator", ()),
    ):
        function = vars(cls).get(name)
        if not isinstance(function, FunctionType) or (cls.__module__.startswith("torch.") and name == "__iter__"):
            continue
        if name == "__iter__" and not inspect.isgeneratorfunction(function):
            continue
        code = original_code(function)
        spot = Spot(
            "dataset",
            f"{cls.__qualname__.rpartition('<locals>.')[2]}.{name}",
            module=cls.__module__,
            code=code,
            names=fixed(*params, receiver=True),
            result="item" if name != "__getitems__" else "items",
            kind=kind,
            ours=True,
        )
        site.swap(function, Passer(spot))


def prepare(site: Site, dataset: Any, seen: set[int] | None = None) -> None:
    """Instrument a dataset, those it is made of, and their transforms, whatever their classes are."""
    seen = set() if seen is None else seen
    if id(dataset) in seen or len(seen) > 100:
        return
    seen.add(id(dataset))
    for cls in type(dataset).__mro__[:-1]:
        if cls.__module__ != "builtins":
            instrument_dataset_class(site, cls)
    for value in list(getattr(dataset, "__dict__", {}).values()):
        inside = value if is_exactly(value, list, tuple) and len(value) < 100 else [value]
        for part in inside:
            if isinstance(part, Dataset):
                prepare(site, part, seen)
    transforms.prepare(site, dataset)

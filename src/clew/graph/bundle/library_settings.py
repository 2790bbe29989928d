"""Settings of libraries that hold for a whole process: a program may have set them, and no bundle carries them.

The self-test compares those of the program with those of the process in which the bundle is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_LISTED = 6  # settings that a notice names


def here() -> dict[str, str]:
    """The settings of the libraries that this process has loaded: `decimal.getcontext().prec` → `28`."""
    found: dict[str, str] = {}
    for library, read in _READERS.items():
        module = sys.modules.get(library)
        try:
            for name, value in () if module is None else read(module):
                found[f"{library}.{name}"] = repr(value)
        except Exception:  # a library that is half imported, or of a version that has no such settings
            continue
    return found


def notice(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str | None:
    """What to tell of settings that differ; those of a library that only one process has loaded say nothing."""
    differing = [name for name in ours if theirs.get(name, ours[name]) != ours[name]]
    if not differing:
        return None
    listed = [f"{name} is {ours[name]} here and {theirs[name]} there" for name in differing[:_LISTED]]
    more = f"; {len(differing) - _LISTED} more differ" if len(differing) > _LISTED else ""
    return (
        f"Settings of libraries are not in the bundle, and this program has changed some: {', '.join(listed)}{more}. "
        "The examples give the same without them; other inputs may not. Set them in a module of the pipeline, where "
        "it is imported, or in the program that loads the bundle."
    )


def _decimal(module: Any) -> Iterator[tuple[str, Any]]:
    context = module.getcontext()
    for name in ("prec", "rounding", "Emin", "Emax", "capitals", "clamp"):
        yield f"getcontext().{name}", getattr(context, name)


def _locale(module: Any) -> Iterator[tuple[str, Any]]:
    for name in ("LC_NUMERIC", "LC_TIME", "LC_COLLATE", "LC_MONETARY"):
        yield f"setlocale({name})", module.setlocale(getattr(module, name))


def _numpy(module: Any) -> Iterator[tuple[str, Any]]:
    for name, value in module.geterr().items():
        yield f"geterr()[{name!r}]", "raise" if value == "raise" else "no error"


def _pandas(module: Any) -> Iterator[tuple[str, Any]]:
    """Not how frames are shown: many programs set that for those who look, and no result goes by it."""
    for group in ("mode", "future", "compute"):
        for name, value in vars(getattr(module.options, group))["d"].items():
            yield f"options.{group}.{name}", value


def _sklearn(module: Any) -> Iterator[tuple[str, Any]]:
    config = module.get_config()
    for name in ("transform_output", "assume_finite", "array_api_dispatch", "enable_metadata_routing"):
        yield f"get_config()[{name!r}]", config.get(name)


def _torch(module: Any) -> Iterator[tuple[str, Any]]:
    yield "get_default_dtype()", module.get_default_dtype()
    yield "get_default_device()", module.get_default_device()
    yield "get_float32_matmul_precision()", module.get_float32_matmul_precision()


def _keras(module: Any) -> Iterator[tuple[str, Any]]:
    yield "config.floatx()", module.config.floatx()
    yield "config.image_data_format()", module.config.image_data_format()


_READERS: dict[str, Callable[[Any], Iterator[tuple[str, Any]]]] = {
    "decimal": _decimal,
    "locale": _locale,
    "numpy": _numpy,
    "pandas": _pandas,
    "sklearn": _sklearn,
    "torch": _torch,
    "keras": _keras,
}

"""Two runs side by side: `clew.diff`.

    Side (a run as columns) ──► pair_calls ──► pair_rows ──► Judge ──► Diff
                                structure      names, steps   values    first, differences, tree

Calls are aligned as trees, the values in them by name and step, all of it as columns; only values whose hashes differ
are read. This module itself is light; numpy loads with the first comparison.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clew.compare.result import Diff
    from clew.history.run import Run

__all__ = ["diff"]


def diff(
    a: Any,
    b: Any,
    *,
    reference: Any = None,
    rtol: float | None = None,
    atol: float | None = None,
    ulp: float | None = None,
    ignore: str | Iterable[str] = (),
    only: str | Iterable[str] = (),
    map: Mapping[str, str] | None = None,
    noise: float = 3.0,
    common: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Diff:
    """Compare two runs: runs, their folders, their names, or `"latest"`. `a` is what `b` is measured against.

    `reference`: a second run of what `a` was; it shows how much each place varies by itself, and values may differ by
    `noise` times as much. Else `rtol`, `atol`, `ulp`, or without any of them defaults by dtype. `ignore` and `only`
    are patterns of names (`loss`), functions (`train`) or both (`train.loss`); `map` says what `b` calls what has
    another name in `a`. With `common` only what both runs have is judged.
    """
    from clew.compare.result import Diff
    from clew.compare.settings import Settings

    settings = Settings.of(
        rtol=rtol,
        atol=atol,
        ulp=ulp,
        ignore=ignore,
        only=only,
        map=map,
        factor=noise,
        reference=reference is not None,
        common=common,
    )
    return Diff(_run(a), _run(b), settings, None if reference is None else _run(reference), progress)


def _run(given: Any) -> Run:
    """As `clew.open` takes it; or a run that is open already, or being recorded."""
    from clew.errors import OptionError
    from clew.history import open_run
    from clew.history.run import Run

    if isinstance(given, Run):
        return given
    if isinstance(given, (str, os.PathLike)):
        return open_run(given)  # type: ignore[arg-type]
    reader = getattr(type(given), "reader", None)
    if callable(reader):
        found = given.reader()
        if isinstance(found, Run):
            return found
    what = f"a {type(given).__name__} is no run."
    raise OptionError("bad-option", what, "Give a run, its folder, its name, or `latest`.")

"""Compares two runs: `clew.diff`.

    Side (a run as columns) ──► pair_calls ──► pair_rows ──► Judge ──► Diff
                                structure      names, steps   values    first, differences, tree

Calls are aligned as trees, and the values in them by name and step, all of it in columns; only values
whose hashes differ are read. This module itself is light: numpy is loaded by the first comparison.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clew.compare.diff_result import Diff
    from clew.reading.run import Run

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
    """Compare two runs, each given as a run, a folder, a name, or `"latest"`; `b` is measured against `a`.

    `reference` is a second run of the same program as `a`. It shows how much each place varies by itself, and values
    may differ by `noise` times as much. Without it, `rtol`, `atol` and `ulp` apply, or defaults by dtype if none of
    them is given. `ignore` and `only` are patterns of names (`loss`), functions (`train`) or both (`train.loss`);
    `map` gives the names that `b` uses for names of `a`. With `common`, only what both runs have is judged.
    """
    from clew.compare.diff_result import Diff
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
    return Diff(_open_run(a), _open_run(b), settings, None if reference is None else _open_run(reference), progress)


def _open_run(source: Any) -> Run:
    """Open what `clew.open` takes; `source` may also be an open run, or a run that is being recorded."""
    from clew.errors import OptionError
    from clew.reading import open_run
    from clew.reading.run import Run

    if isinstance(source, Run):
        return source
    if isinstance(source, (str, os.PathLike)):
        return open_run(source)  # type: ignore[arg-type]
    if callable(getattr(type(source), "reader", None)):
        run = source.reader()
        if isinstance(run, Run):
            return run
    message = f"expected a run, got {type(source).__name__}."
    raise OptionError("bad-option", message, "Give a run, its folder, its name, or `latest`.")

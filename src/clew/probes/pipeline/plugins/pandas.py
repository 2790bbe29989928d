"""pandas: the functions of `.pipe` chains, each a stage under its own name."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

import pandas

from clew import trouble
from clew.probes.pipeline.stage_functions import Names, Spot, fixed
from clew.probes.pipeline.stages import Passer, is_stage
from clew.probes.pipeline.trace_recording import Tracing, current
from clew.recorder.fingerprints import original_code

from .cutting import count_of, cut
from .naming import function_of, name_of
from .tables import Rows, follow, passing, settled, shown, tables

if TYPE_CHECKING:
    from clew.probes.pipeline.plugins import Site

_FRAME, _RESULT = "df", "result"
_LARGEST = 100_000  # cells of another table that is an argument and captured whole


def install(site: Site) -> None:
    for cls in (pandas.DataFrame, pandas.Series):
        site.swap(cls.pipe, _Piping())


class _Piping(Passer):
    """At `DataFrame.pipe` and `Series.pipe`."""

    def __init__(self) -> None:
        super().__init__(Spot("pipe", "pipe", names=fixed()))

    def __call__(self, twin: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tracing = current()
        if tracing is None or len(args) < 2 or is_stage(function_of(args[1])):
            return twin(*args, **kwargs)
        try:
            rows = _rows(tracing, args[0])
            known = None if rows is None else (rows, *_named(args, kwargs, rows))
        except Exception as error:
            trouble.report("stage:pipe", "a call of pandas' pipe was not recorded", "", error, internal=True)
            known = None
        if known is None:
            return twin(*args, **kwargs)
        rows, spot, named = known
        return passing(tracing, spot, named, rows, lambda: twin(*args, **kwargs), _given(tracing, args[0], rows))


def _rows(tracing: Tracing, table: Any) -> Rows | None:
    return tables(tracing).arrive(tracing, table, type(table).__name__)


def _named(args: tuple[Any, ...], kwargs: dict[str, Any], rows: Rows) -> tuple[Spot, dict[str, Any]]:
    """The stage, and what goes in: the table as `df`, the other arguments by their own names."""
    table, given = args[:2]
    function = function_of(given)
    name = name_of(function)
    others = _others(given, table, args[2:], kwargs)
    named = {_FRAME: cut(table, rows.places)}
    for key, value in others.items():
        named[key if key not in (_FRAME, _RESULT) else f"{key}_"] = _small(value, rows)
    code = original_code(function)
    spot = Spot(
        name.rpartition(".")[2],
        name,
        module=getattr(function, "__module__", "") or "",
        code=code,
        names=fixed(_FRAME),
        result=_RESULT,
        kind="table",
        ours=True,
    )
    return _same(spot), named


_spots: dict[tuple[str, ...], Spot] = {}


def _same(spot: Spot) -> Spot:
    """One and the same spot for all calls of a function."""
    return _spots.setdefault((spot.stage, spot.function, spot.module, spot.file, str(spot.line)), spot)


def _others(given: Any, table: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    function, target = given if type(given) is tuple and len(given) == 2 else (given, None)
    if target is not None:
        bound = Names(function, None, receiver=False, defaults=False)(args, {**kwargs, target: table})
    else:
        bound = Names(function, None, receiver=False, defaults=False)((table, *args), kwargs)
    return {name: value for name, value in bound.items() if value is not table}


def _small(value: Any, rows: Rows) -> Any:
    """Another argument: of a table that goes along row by row the same rows, of a large one what it is."""
    count = count_of(value)
    if count is None or not hasattr(value, "shape"):
        return value
    if count == rows.count:
        return shown(value, rows)
    cells = count * (value.shape[1] if len(value.shape) > 1 else 1)
    if cells <= _LARGEST:
        return value
    return f"{type(value).__name__} of {count:,} rows, not captured"


def _given(tracing: Tracing, table: Any, rows: Rows) -> Callable[[Any], tuple[Rows, dict[str, Any]]]:
    def given(result: Any) -> tuple[Rows, dict[str, Any]]:
        if count_of(result) is None or not hasattr(result, "shape"):
            return rows, {_RESULT: result}
        after = follow(rows, table, result)
        tables(tracing).remember(result, settled(after))
        return after, {_RESULT: cut(result, after.places)}

    return given

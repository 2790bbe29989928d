"""HDF5: one group a name, with `values`, `steps`, `times`, `lines`.

Numbers, and arrays of one shape and dtype, are one dataset; other arrays a dataset each, `values/0`, `values/1`, ...;
anything else is JSON text. A slash in a name would make a group: names are percent-encoded, and stand in the attribute
`name` as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from clew.errors import MissingLibraryError
from clew.export.files import chosen, total, whole_file
from clew.export.json import text
from clew.history.series import as_array
from clew.records import DELETED, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

    from clew.export import Progress
    from clew.history.run import Run
    from clew.history.series import Series

BLOCK = 1_000
_READABLE = " []()'\"=,+*<>!@:;&|^~"


def write(run: Run, target: Path, *, names: list[str] | None, progress: Progress) -> Path:
    """Groups under `/changes`; the run's metadata as JSON in the attribute `run`. Deletions are left out."""
    try:
        import h5py
    except ImportError as error:
        raise MissingLibraryError("missing-library", "Export to HDF5 needs h5py.", "pip install h5py") from error
    count, done = total(run, names), 0
    with whole_file(target) as draft, h5py.File(draft, "w") as file:
        file.attrs["run"] = text({**run.meta, "status": run.status})
        changes = file.create_group("changes")
        for name in chosen(run, names):
            series = run[name]
            _write_series(changes.create_group(group_name(name)), series, h5py.string_dtype())
            done += len(series)
            progress(done, count)
    return target


def group_name(name: str) -> str:
    """A name as one step of an HDF5 path."""
    return quote(name, safe=_READABLE, errors="backslashreplace") if name.strip(".") else name.replace(".", "%2E")


def _write_series(group: Any, series: Series, string: Any) -> None:
    group.attrs["name"] = series.name.encode("utf-8", "backslashreplace").decode("utf-8")
    kept = series.without_deletions()
    group["times"] = kept.times
    group["lines"] = np.array(kept.lines, dtype=np.int64)
    group["steps"] = _steps(kept.steps, string)
    kinds = set(kept.kinds())
    if kinds <= {Kind.FLOAT, Kind.INT, Kind.BOOL}:
        group["values"] = kept.to_numpy()
    else:
        _write_values(group, kept, string)


def _steps(steps: list[Any], string: Any) -> Any:
    if all(type(step) in (int, float) for step in steps):
        return np.array(steps)
    return np.array([text(step) for step in steps], dtype=string)


def _write_values(group: Any, series: Series, string: Any) -> None:
    """Reads twice, a block at a time: once for what the values are, once to write them."""
    form = _common_form(series)
    if form is None:
        _write_each(group, series, string)
        return
    shape, dtype = form
    out = group.create_dataset("values", shape=(len(series), *shape), dtype=dtype)
    for begin, arrays in _blocks(series):
        out[begin : begin + len(arrays)] = np.stack([array for array in arrays if array is not None])


def _common_form(series: Series) -> tuple[tuple[int, ...], Any] | None:
    forms = {None if a is None else (a.shape, a.dtype) for _, arrays in _blocks(series) for a in arrays}
    form = forms.pop() if len(forms) == 1 else None
    return None if form is None or not _has_type(form[1]) else form


def _has_type(dtype: Any) -> bool:
    """Whether HDF5 has a type for it: numbers, booleans, complex numbers, records of these."""
    return dtype.kind in "fiubc" or (dtype.fields is not None and all(_has_type(d[0]) for d in dtype.fields.values()))


def _write_each(group: Any, series: Series, string: Any) -> None:
    """Texts and mixtures: JSON in one dataset if there is no array among them, else one dataset a value."""
    if not any(array is not None and array.ndim for _, arrays in _blocks(series) for array in arrays):
        group["values"] = np.array([text(value) for value in series], dtype=string)
        return
    values = group.create_group("values")
    for place, value in enumerate(series):
        array = as_array(value)
        values[str(place)] = array if array is not None and _has_type(array.dtype) else text(value)


def _blocks(series: Series) -> Iterator[tuple[int, list[npt.NDArray[Any] | None]]]:
    for begin in range(0, len(series), BLOCK):
        values = series[begin : begin + BLOCK].values
        yield begin, [None if value is DELETED else as_array(value) for value in values]

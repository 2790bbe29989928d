"""Exports to safetensors: each tensor exactly, as `<name>/<ordinal>`; plain numbers as one tensor `<name>`.

The ordinal counts the changes that gave the name a value. The file's metadata has `clew.run` and
`clew.names`, both JSON. For each name the latter has

    {"kind": "numbers" or "tensors", "steps": [...], "times": [...], "lines": [...], "ranks": [...],
     "others": {"2": ...},              values that are not tensors, as plain data
     "missing": {"3": "over 32 MiB"},   values that were not kept, and why
     "stored_as": {"4": ["complex64", "F32, real and imaginary parts in the last axis"]}}   values of other types

bfloat16 and the float8 types of the format are kept bit for bit; other float8 types become float32.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from clew.errors import MissingLibraryError, OptionError
from clew.export.hdf5 import array_of
from clew.export.json import to_json
from clew.export.plain_data import to_plain
from clew.export.whole_files import count_changes, escape_surrogates, names_to_export, read_blocks, whole_file
from clew.records import Kind, NotKept

if TYPE_CHECKING:
    from pathlib import Path

    from clew.export import Progress
    from clew.reading.run import Run

_LONGEST_HEADER = 100_000_000  # the library refuses longer ones
_WIDTHS = (8, 4, 2, 1)
_BITS = {"bfloat16": ("BF16", "int16"), "float8_e4m3fn": ("F8_E4M3", "uint8"), "float8_e5m2": ("F8_E5M2", "uint8")}
_LETTERS = {"f": "F", "i": "I", "u": "U"}


class Tensor(NamedTuple):
    """A value as the format stores it."""

    code: str  # F32, I64, BF16, ...
    shape: tuple[int, ...]
    data: Any  # a NumPy array of the same bytes, little-endian
    note: list[str] | None = None  # the original type, and how it is stored


class TensorFile:
    """Collects tensors and writes the file. Each must begin at a multiple of its width, so the widest come first."""

    def __init__(self, files: dict[int, IO[bytes]]) -> None:
        self._files = files
        self._tensors: dict[int, list[tuple[str, Tensor, int]]] = {width: [] for width in files}
        self._keys: set[str] = set()

    def add(self, key: str, tensor: Tensor) -> None:
        if key in self._keys:  # "x/0" may also be a name
            remedy = "Export the names to separate files."
            raise OptionError("export-same-name", f"Two tensors would be called {key}.", remedy)
        self._keys.add(key)
        data = np.ascontiguousarray(tensor.data)
        width = data.dtype.itemsize
        self._files[width].write(data.data.cast("B") if data.size else b"")
        self._tensors[width].append((key, tensor, data.nbytes))

    def write(self, out: IO[bytes], metadata: dict[str, str]) -> None:
        header: dict[str, Any] = {"__metadata__": metadata}
        begin = 0
        for width in self._files:
            for key, tensor, size in self._tensors[width]:
                offsets = [begin, begin + size]
                header[key] = {"dtype": tensor.code, "shape": list(tensor.shape), "data_offsets": offsets}
                begin += size
        header_text = json.dumps(header, separators=(",", ":")).encode("ascii")
        header_text += b" " * (-len(header_text) % 8)
        if len(header_text) > _LONGEST_HEADER:
            size = len(header_text)
            message = f"The steps, times and texts of these names take {size:,} bytes; safetensors allows 100 MB."
            raise OptionError("export-too-large", message, "Export fewer names at a time, or to HDF5.")
        out.write(len(header_text).to_bytes(8, "little") + header_text)
        for file in self._files.values():
            file.seek(0)
            shutil.copyfileobj(file, out, 1 << 20)


def write(run: Run, target: Path, *, names: list[str] | None, progress: Progress) -> Path:
    """Write all values without deletions. The library opens the file once before it gets its name."""
    try:
        from safetensors import safe_open
    except ImportError as error:
        remedy = "pip install safetensors"
        raise MissingLibraryError("missing-library", "Export to safetensors needs safetensors.", remedy) from error
    total, count = count_changes(run, names), 0
    series_by_name: dict[str, Any] = {}
    with whole_file(target) as draft, ExitStack() as stack:
        folder = target.absolute().parent
        body = TensorFile({width: stack.enter_context(tempfile.TemporaryFile(dir=folder)) for width in _WIDTHS})
        for name in names_to_export(run, names):
            series_by_name[escape_surrogates(name)] = _add_series(body, run, name)
            count += len(run[name])
            progress(count, total)
        metadata = {"clew.run": to_json({**run.meta, "status": run.status}), "clew.names": to_json(series_by_name)}
        with draft.open("wb") as out:
            body.write(out, metadata)
        with safe_open(draft, framework="numpy"):
            pass
    return target


def _add_series(body: TensorFile, run: Run, name: str) -> dict[str, Any]:
    recorded, table = run[name].without_deletions(), run.tables.table
    numbers = recorded.to_numpy() if set(recorded.kinds()) <= {Kind.FLOAT, Kind.INT, Kind.BOOL} else None
    series: dict[str, Any] = {"kind": "tensors" if numbers is None else "numbers"}
    series |= {"steps": [], "times": [], "lines": [], "ranks": [], "others": {}, "missing": {}, "stored_as": {}}
    ordinal = 0
    for block in read_blocks(run, name, 1_000):
        has_value = np.flatnonzero(table.gather("kind", block.rows) != Kind.DELETED).tolist()
        series["times"] += block.times[has_value].tolist()
        for key in ("steps", "lines", "ranks"):
            series[key] += [to_plain(getattr(block, key)[place]) for place in has_value]
        for value in table.values(block.rows[has_value]) if numbers is None else []:
            _add_value(body, series, escape_surrogates(name), ordinal, value)
            ordinal += 1
    if numbers is not None:
        body.add(escape_surrogates(name), _from_array(numbers))
    return {key: item for key, item in series.items() if item or key not in ("others", "missing", "stored_as")}


def _add_value(body: TensorFile, series: dict[str, Any], name: str, ordinal: int, value: Any) -> None:
    if isinstance(value, NotKept):
        series["missing"][str(ordinal)] = value.why or value.kept.name.lower()
        series["others"][str(ordinal)] = to_plain(value)
        return
    tensor = tensor_of(value)
    if tensor is None:
        series["others"][str(ordinal)] = to_plain(value)
        return
    body.add(f"{name}/{ordinal}", tensor)
    if tensor.note is not None:
        series["stored_as"][str(ordinal)] = tensor.note


def tensor_of(value: Any) -> Tensor | None:
    """A value as a tensor; None if it is not one, or of a type that would lose its meaning: dates, records, objects."""
    dtype = str(getattr(value, "dtype", "")).removeprefix("torch.")
    if dtype in _BITS and (tensor := _reinterpret_bits(value, *_BITS[dtype])) is not None:
        return tensor
    array = array_of(value)
    if array is None or array.dtype.kind not in "fiubc":
        return None
    tensor = _from_array(array)
    if tensor.note is None and dtype not in ("", array.dtype.name):
        return tensor._replace(note=[dtype, tensor.code])
    return tensor


def _reinterpret_bits(value: Any, code: str, as_type: str) -> Tensor | None:
    """A tensor of a type that NumPy does not have, by its bytes."""
    import sys

    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return None
    bits = value.detach().cpu().contiguous().view(getattr(torch, as_type)).numpy()
    return Tensor(code, tuple(value.shape), bits)


def _from_array(array: Any) -> Tensor:
    note, kind = None, array.dtype.kind
    original, shape = array.dtype.name, array.shape
    if kind == "c":
        real = np.float32 if array.dtype.itemsize == 8 else np.float64
        array = np.stack([array.real, array.imag], axis=-1).astype(real)
        shape = array.shape
        note = [original, f"F{array.dtype.itemsize * 8}, real and imaginary parts in the last axis"]
    elif kind == "f" and array.dtype.itemsize > 8:
        with np.errstate(over="ignore"):
            array, note = array.astype(np.float64), [original, "F64"]
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    code = "BOOL" if kind == "b" else f"{_LETTERS[array.dtype.kind]}{array.dtype.itemsize * 8}"
    return Tensor(code, shape, array, note)

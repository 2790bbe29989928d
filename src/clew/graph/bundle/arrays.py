"""Arrays and tensors in one safetensors file: eight bytes of length, a header in JSON, and the bytes one after another.

Written and read here, so that a bundle needs no library for it. What safetensors has no name for (text, dates,
records, complex numbers) is kept as bytes, with NumPy's own description of its kind.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

from clew.values.dtypes import checked_shape, read_dtype, read_shape
from clew.values.numpy import from_bytes

from .layout import damaged

_NUMPY = {
    "BOOL": "|b1", "U8": "|u1", "I8": "|i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8",
    "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip
_NAMES = {kind: name for name, kind in _NUMPY.items()}
_TORCH = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "F16": "float16",
    "BF16": "bfloat16", "F32": "float32", "F64": "float64", "U16": "uint16", "U32": "uint32", "U64": "uint64",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
}  # fmt: skip
_TORCH_NAMES = {kind: name for name, kind in _TORCH.items()}


class Writer:
    """Arrays as they come, under numbers."""

    def __init__(self) -> None:
        self._kept: list[tuple[dict[str, Any], bytes | memoryview]] = []
        self._length = 0

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, kind: str, shape: tuple[int, ...], data: bytes | memoryview) -> int:
        begin, self._length = self._length, self._length + len(data)
        self._kept.append(({"dtype": kind, "shape": list(shape), "data_offsets": [begin, self._length]}, data))
        return len(self._kept) - 1

    def forget(self, count: int) -> None:
        """Keep only the first so many: the others are not needed after all."""
        del self._kept[count:]
        self._length = self._kept[-1][0]["data_offsets"][1] if self._kept else 0

    def numpy(self, array: Any) -> dict[str, Any]:
        """An array of numbers, texts, dates or records; objects are none of ours."""
        import numpy

        said: dict[str, Any] = {}
        if array.flags.f_contiguous and not array.flags.c_contiguous:
            said["order"] = "F"
        if not array.flags.writeable:
            said["frozen"] = True
        flat = numpy.ascontiguousarray(array).reshape(-1)
        data = flat.view(numpy.uint8).data if flat.nbytes else b""  # not copied until it is written
        kind = _NAMES.get(array.dtype.str)
        if kind is not None:
            return {"array": self.add(kind, array.shape, data), **said}
        described = {"dtype": _described(array.dtype), "shape": list(array.shape)}
        return {"array": self.add("U8", (len(data),), data), **described, **said}

    def torch(self, tensor: Any) -> dict[str, Any]:
        import torch

        kind = str(tensor.dtype).removeprefix("torch.")
        plain = tensor.detach().cpu().contiguous()
        said: dict[str, Any] = {}
        if kind in ("complex64", "complex128"):
            said["complex"], plain = True, torch.view_as_real(plain.resolve_conj()).contiguous()
            kind = str(plain.dtype).removeprefix("torch.")
        if kind not in _TORCH_NAMES:
            raise TypeError(f"a tensor of {tensor.dtype}")
        data = plain.reshape(-1).view(torch.uint8).numpy().data if plain.numel() else b""
        return {"array": self.add(_TORCH_NAMES[kind], tuple(plain.shape), data), **said}

    def parts(self) -> Iterator[bytes | memoryview]:
        """The file, piece by piece."""
        header = json.dumps({str(number): said for number, (said, _) in enumerate(self._kept)}).encode()
        header += b" " * (-len(header) % 8)
        yield struct.pack("<Q", len(header)) + header
        for _, data in self._kept:
            yield data


def _described(dtype: Any) -> Any:
    """A kind of array that safetensors does not know, in words of NumPy's."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return {"of": _described(base), "shape": list(shape)}
    if dtype.names is None:
        return dtype.str
    fields = [dtype.fields[name] for name in dtype.names]
    formats, offsets = [_described(field[0]) for field in fields], [int(field[1]) for field in fields]
    return {
        "names": list(dtype.names),
        "formats": formats,
        "offsets": offsets,
        "itemsize": dtype.itemsize,
        "aligned": dtype.isalignedstruct,
    }


def _dtype(said: Any) -> Any:
    """The kind of array that was described: of plain elements only, since it is laid over bytes."""
    if isinstance(said, str):
        return read_dtype(said)
    import numpy

    if not isinstance(said, dict):
        raise TypeError("the kind of its elements is missing")
    if "of" in said:
        return numpy.dtype((_dtype(said["of"]), read_shape(said["shape"])))
    records: Any = {**said, "formats": [_dtype(one) for one in said["formats"]]}
    return numpy.dtype(records)


class Reader:
    def __init__(self, view: memoryview, name: str) -> None:
        self._name = name
        try:
            (length,) = struct.unpack("<Q", view[:8])
            header = json.loads(bytes(view[8 : 8 + length]))
            self._data = view[8 + length :]
            self._said = {key: self._described(said) for key, said in header.items() if key != "__metadata__"}
        except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise damaged(f"{name} is no safetensors file: {error}.") from None

    def _described(self, said: dict[str, Any]) -> tuple[str, tuple[int, ...], memoryview]:
        begin, end = said["data_offsets"]
        if not 0 <= begin <= end <= len(self._data):
            raise ValueError("an array lies outside the file")
        return said["dtype"], tuple(said["shape"]), self._data[begin:end]

    def _of(self, number: int) -> tuple[str, tuple[int, ...], memoryview]:
        found = self._said.get(str(number))
        if found is None:
            raise damaged(f"{self._name} has no array {number}.")
        return found

    def numpy(self, said: dict[str, Any]) -> Any:
        import numpy

        kind, shape, data = self._of(said["array"])
        try:
            dtype = numpy.dtype(_NUMPY[kind])
            if "dtype" in said:
                dtype, shape = _dtype(said["dtype"]), tuple(said["shape"])
            array = from_bytes(bytearray(data), dtype, list(shape))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise damaged(f"{self._name}: array {said['array']} is not what its page says: {error}.") from None
        if said.get("order") == "F":
            array = numpy.asfortranarray(array)
        if said.get("frozen"):
            array.flags.writeable = False
        return array

    def torch(self, said: dict[str, Any]) -> Any:
        import torch

        kind, shape, data = self._of(said["array"])
        try:
            dtype = getattr(torch, _TORCH[kind])
            shape = checked_shape(list(shape), dtype.itemsize, len(data))
        except (ValueError, TypeError, KeyError) as error:
            raise damaged(f"{self._name}: array {said['array']} is not what its page says: {error}.") from None
        held = torch.empty(len(data), dtype=torch.uint8)  # aligned as torch likes it, which a bytearray is not
        if len(data):
            held.numpy().data[:] = data
        tensor = held.view(dtype).reshape(shape)
        return torch.view_as_complex(tensor) if said.get("complex") else tensor

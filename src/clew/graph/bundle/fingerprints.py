"""What a value is, as JSON that is the same in every process: for comparing what a bundle gives with what it gave.

Numbers and small arrays stand in it in full, what is large as its SHA-256. The names of classes are those inside their
modules, because a bundle runs modules under other names. What cannot be looked into (an iterator, a lock) is only its
type.
"""

from __future__ import annotations

import base64
import copyreg
import hashlib
import json
import math
import re
import sys
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

_IN_FULL = 4096  # bytes of an array, or of text
_LARGEST = 65_536  # characters of one fingerprint; beyond, it is its hash
_LARGEST_ITEM = 4096  # likewise, of an item of a set
_DEPTH = 60
_CONTAINERS = ("list", "tuple", "dict", "set", "frozenset", "object")
_OPAQUE = (FunctionType, BuiltinFunctionType, MethodType, ModuleType, type)

_ADDRESS = re.compile(r"(?<= at )0x[0-9a-f]{6,16}\b")  # `<_io.BytesIO object at 0x7f091c3f3970>`
_ASSET = re.compile(r"b?'.*/assets/\d+/(.+)'\Z")

# How far floating-point numbers may differ once a torch or TensorFlow tensor has come up, relative to the largest.
_TOLERANCES = {"float64": 1e-9, "complex128": 1e-9, "float16": 1e-2, "bfloat16": 1e-2}
_TOLERANCE = 1e-4


def fingerprint(value: Any) -> Any:
    """What a value is, as JSON."""
    return _shortened(value, _Maker().look(value, 0), _LARGEST)


def _shortened(value: Any, made: Any, longest: int) -> Any:
    text = json.dumps(made)
    if len(text) <= longest:
        return made
    return ["hash", type(value).__qualname__, _hash(text.encode()), _has_tensor(made)]


class _Maker:
    def __init__(self, alone: dict[tuple[int, int], tuple[Any, Any]] | None = None) -> None:
        self._seen: dict[int, tuple[int, Any]] = {}  # what is looked at is held, so that its identity stays its own
        self._alone = {} if alone is None else alone  # by identity and depth: items of sets, and what they are

    def look(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int):
            return ["plain", repr(value)]
        if kind is float:
            return ["number", kind.__name__, value.hex()]
        if kind in (str, bytes, bytearray):
            return self._text(value, kind)
        if id(value) in self._seen:
            return ["again", self._seen[id(value)][0]]
        if depth > _DEPTH or isinstance(value, _OPAQUE):
            name = str(getattr(value, "__qualname__", kind.__qualname__))
            return ["type", name.rpartition("<locals>.")[2]]  # where a function stands is another place in a bundle
        self._seen[id(value)] = (len(self._seen), value)
        if isinstance(value, PurePath):
            return ["path", value.name]  # where a bundle is differs
        return self._of_libraries(value, depth) or self._parts(value, kind, depth)

    def _text(self, value: Any, kind: type) -> Any:
        data = value.encode("utf-8", "surrogatepass") if kind is str else bytes(value)
        return ["plain", repr(value)] if len(data) <= _IN_FULL else ["hash", kind.__name__, _hash(data), False]

    def _parts(self, value: Any, kind: type, depth: int) -> Any:
        if kind in (list, tuple):
            return [kind.__name__, [self.look(item, depth + 1) for item in value]]
        if kind is dict:
            return ["dict", [[self.look(key, depth + 1), self.look(item, depth + 1)] for key, item in value.items()]]
        if kind in (set, frozenset):
            return [kind.__name__, sorted((self._look_alone(item, depth + 1) for item in value), key=json.dumps)]
        return self._object(value, kind, depth)

    def _look_alone(self, item: Any, depth: int) -> Any:
        """An item of a set: numbers of what was seen before would depend on the order, which is another each time.

        Looked at once, and of bounded length, because sets in sets may hold the same set in many places.
        """
        known = self._alone.get((id(item), depth))
        if known is None:
            made = _shortened(item, _Maker(self._alone).look(item, depth), _LARGEST_ITEM)
            known = self._alone[id(item), depth] = (made, item)
        return known[0]

    def _object(self, value: Any, kind: type, depth: int) -> Any:
        """Any other object: what Python would make a copy of it from."""
        if hasattr(value, "__next__"):
            return ["type", kind.__qualname__]
        try:
            known = copyreg.dispatch_table.get(kind)
            parts: Any = known(value) if known is not None else value.__reduce_ex__(4)
        except Exception:  # it cannot be copied: it is not compared further
            return ["type", kind.__qualname__]
        if isinstance(parts, str):
            return ["type", f"{kind.__qualname__} {parts}"]
        inner = [list(part) if hasattr(part, "__next__") else part for part in parts[1:]]
        return ["object", kind.__qualname__, [self.look(part, depth + 1) for part in inner]]

    def _of_libraries(self, value: Any, depth: int) -> Any:
        numpy, torch, pandas = (sys.modules.get(name) for name in ("numpy", "torch", "pandas"))
        if torch is not None and hasattr(torch, "Tensor") and isinstance(value, torch.Tensor):
            return _tensor(value, torch)
        if type(value).__name__ in ("EagerTensor", "ResourceVariable") and hasattr(value, "numpy"):
            return ["tensor", *_array(value.numpy())[1:]]
        if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
            if value.dtype.hasobject:
                return ["objects", list(value.shape), [self.look(item, depth + 1) for item in value.reshape(-1)]]
            return _array(numpy.asarray(value))
        if pandas is not None and hasattr(pandas, "DataFrame"):
            return self._frame(value, pandas, depth)
        return None

    def _frame(self, value: Any, pandas: Any, depth: int) -> Any:
        if isinstance(value, pandas.DataFrame):
            columns = [self.look(value.iloc[:, at].to_numpy(), depth + 1) for at in range(value.shape[1])]
            kinds = [str(kind) for kind in value.dtypes]
            axes = [self.look(axis, depth + 1) for axis in (value.columns, value.index)]
            return ["frame", axes, kinds, columns]
        if isinstance(value, pandas.Series | pandas.Index):
            axes = [self.look(value.index, depth + 1)] if isinstance(value, pandas.Series) else []
            return ["series", str(value.dtype), repr(value.name), axes, self.look(value.to_numpy(), depth + 1)]
        return None


def _tensor(value: Any, torch: Any) -> Any:
    try:
        plain = value.detach().resolve_conj().resolve_neg().cpu()
        plain = plain.to_dense() if plain.layout is not torch.strided else plain
        kind = str(plain.dtype).removeprefix("torch.")
        if plain.dtype is torch.bfloat16:
            plain = plain.float()  # exact, and NumPy knows it
        return ["tensor", kind, *_array(plain.numpy())[2:]]
    except (RuntimeError, TypeError, NotImplementedError):  # quantised, nested, or of a kind that NumPy does not know
        return ["type", f"{type(value).__qualname__} {value.dtype} {tuple(value.shape)}"]


def _array(array: Any) -> list[Any]:
    """Kind, shape, hash, and if they are numbers with a point those themselves: all of a small one, some of a large."""
    import numpy

    flat = numpy.ascontiguousarray(array).reshape(-1)
    made = ["array", str(array.dtype), list(array.shape), _hash(flat.tobytes())]
    if array.dtype.kind not in "fc":
        return made
    step = max(1, math.ceil(flat.nbytes / _IN_FULL))
    wide = flat[::step].astype(numpy.complex128 if array.dtype.kind == "c" else numpy.float64)
    return [*made, base64.b64encode(wide.tobytes()).decode()]


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# ---- comparing -------------------------------------------------------------------------------------------------------


def _has_tensor(tree: Any) -> bool:
    stack = [tree]
    while stack:
        one = stack.pop()
        if isinstance(one, list):
            if one and one[0] == "tensor":
                return True
            stack.extend(one)
    return False


def has_tensor(tree: Any) -> bool:
    """Whether a value is or holds a tensor of torch or TensorFlow."""
    return bool(tree[3]) if tree[0] == "hash" else _has_tensor(tree)


def equal(a: Any, b: Any, tolerant: bool) -> bool:
    """Whether two fingerprints are of the same value: bit for bit, or with tolerance in floating-point numbers.

    `b` is what a bundle gave: the path of a file that came along is another in it.
    """
    if a == b:
        return True
    if not isinstance(a, list) or not isinstance(b, list) or len(a) != len(b):
        return False
    if a[:1] == b[:1] and a[0] in ("plain", "error") and _ADDRESS.sub("", a[1]) == _ADDRESS.sub("", b[1]):
        return True
    if a[:1] == b[:1] == ["plain"]:
        asset = _ASSET.match(b[1])
        return asset is not None and a[1].removeprefix("b").strip("'").rstrip("/").endswith(asset[1].rstrip("/"))
    if tolerant and a and a[0] in ("tensor", "array") and len(a) == 5:
        return a[:3] == b[:3] and _near(_numbers(a), _numbers(b), _TOLERANCES.get(a[1], _TOLERANCE))
    if tolerant and a[:1] == b[:1] == ["number"]:
        return _near([float.fromhex(a[2])], [float.fromhex(b[2])], _TOLERANCE)
    if a[:1] == b[:1] == ["dict"]:
        a, b = _aligned(a[1], b[1])
    return len(a) == len(b) and all(equal(x, y, tolerant) for x, y in zip(a, b, strict=True))


def _aligned(a: list[Any], b: list[Any]) -> tuple[list[Any], list[Any]]:
    """The entries of two dictionaries, in one order if they have the same keys in another.

    Python calls those equal, and the order of `{word: 1 for word in set(words)}` is another in each process.
    """
    if [key for key, _ in a] == [key for key, _ in b]:
        return a, b
    return sorted(a, key=json.dumps), sorted(b, key=json.dumps)


def is_reordered(a: Any, b: Any) -> bool:
    """Whether two different lists or tuples have the same items."""
    if a[:1] != b[:1] or a[0] not in ("list", "tuple"):
        return False
    return sorted(map(json.dumps, a[1])) == sorted(map(json.dumps, b[1]))


def narrowed(a: Any, b: Any, tolerant: bool) -> tuple[Any, Any]:
    """The first part in which two values differ that are of the same kind and size."""
    while a[0] == b[0] and a[0] in _CONTAINERS and len(a[-1]) == len(b[-1]) and not is_reordered(a, b):
        entries = _aligned(a[-1], b[-1]) if a[0] == "dict" else (a[-1], b[-1])
        pairs = [(x, y) for x, y in zip(*entries, strict=True) if not equal(x, y, tolerant)]
        if not pairs:
            break
        a, b = pairs[0]
        if a and isinstance(a[0], list):  # key and value of a dictionary
            a, b = (a[1], b[1]) if equal(a[0], b[0], tolerant) else (a[0], b[0])
    return a, b


def _numbers(made: list[Any]) -> Any:
    import numpy

    kind = numpy.complex128 if str(made[1]).startswith("complex") else numpy.float64
    return numpy.frombuffer(base64.b64decode(made[4]), kind)


def _near(a: Any, b: Any, tolerance: float) -> bool:
    import numpy

    largest = numpy.abs(numpy.nan_to_num(b, posinf=0, neginf=0)).max(initial=0.0)
    return bool(numpy.allclose(a, b, rtol=0, atol=tolerance * max(largest, 1e-3), equal_nan=True))


def shown(made: Any) -> str:
    """A value in a few words, for a message."""
    if made[0] == "plain":
        text = made[1]
    elif made[0] == "number":
        text = repr(float.fromhex(made[2]))
    elif made[0] in ("tensor", "array"):
        numbers = [f"{number:.6g}" for number in _numbers(made)[:4]] if len(made) == 5 else []
        text = f"{made[0]} {made[1]}{tuple(made[2])} {', '.join(numbers)}{', …' if len(numbers) == 4 else ''}"
    elif made[0] in ("type", "object", "hash", "error"):
        text = f"{made[0]} {made[1]}"
    else:
        text = f"a {made[0]}: {json.dumps(made[1])}"
    return text if len(text) <= 120 else f"{text[:120]}…"

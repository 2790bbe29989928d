"""Renders any value as one short line of text.

Only exact known types are opened; for others the type is named. So no user code runs, whether the value was read back
from a run or is alive in the user's program.
"""

from __future__ import annotations

import math
import sys
from datetime import timezone
from itertools import islice
from typing import TYPE_CHECKING, Any

from clew.records import DELETED, Kept, NotKept, Object

if TYPE_CHECKING:
    from clew.reading.series import Series

_DEEPEST = 4
_PLAIN = frozenset([bool, type(None), complex])
_LONGEST_INTEGER = 256  # bits
_BRACKETS: dict[type, str] = {list: "[]", tuple: "()", set: "{}", frozenset: "{}"}
_BUILTIN_IDS = frozenset(map(id, [*_PLAIN, *_BRACKETS, int, float, str, bytes, bytearray, dict]))
_STANDARD = ["builtins", "collections", "datetime", "decimal", "fractions", "pathlib", "types", "uuid"]
_LIBRARIES = frozenset([*_STANDARD, "numpy", "torch", "pandas"])
_SAFE_REPR = frozenset(["datetime", "date", "time", "timedelta", "timezone", "Decimal", "UUID"])
_PATHS = frozenset(["PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath"])
_MAX_ITEMS = 64  # examined per container; the width usually ends it earlier


def brief(value: Any, width: int = 60) -> str:
    """`value` in at most `width` characters."""
    try:
        return shorten(_text(value, width, 0), width)
    except RuntimeError:  # another thread changes a container while it is walked
        return shorten(f"<{type(value).__name__}, changing>", width)


def shorten(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def printable(text: object) -> str:
    """Text safe for a terminal: control and formatting characters are escaped, so recorded text has no effect."""
    text = str(text)
    return text if text.isprintable() else "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii") if ord(char) != 0xA0 else " "


def _text(value: Any, width: int, depth: int) -> str:
    cls = type(value)
    if id(cls) not in _BUILTIN_IDS and value is not DELETED:
        return _object_text(value, cls, width, depth)  # `in` and `is` tests on a user's class could call its metaclass
    if cls is float:
        return number(value)
    if cls is int:
        return integer(value)
    if cls in _PLAIN:
        return repr(value)
    if cls is str:
        return printable(repr(value[: width + 1]))
    if cls in (bytes, bytearray):
        return repr(bytes(value[: width + 1]))
    if value is DELETED:
        return "deleted"
    if cls in _BRACKETS:
        return _sequence_text(value, _BRACKETS[cls], width, depth)
    if cls is dict:
        return _mapping_text(value.items(), "{}", width, depth)
    return _object_text(value, cls, width, depth)


def _object_text(value: Any, cls: type, width: int, depth: int) -> str:
    if cls is Object:
        name = printable(value.type.rpartition(".")[2])
        attributes = _mapping_text(value.attributes.items(), "()", width, depth, sign="=", quoted=False)
        return name + attributes
    if cls is NotKept:
        return not_kept(value, width, depth)
    module, name = module_and_name(cls)
    library = module.partition(".")[0]
    if library in _LIBRARIES and is_genuine_class(cls, module, name):
        if library in ("numpy", "torch", "pandas"):
            return _array_text(value, cls, library, width)
        return _standard_library_text(value, name, width, depth)
    return f"<{printable(name)}>" if library == "builtins" else f"<{printable(module)}.{printable(name)}>"


def module_and_name(cls: type) -> tuple[str, str]:
    """Module and qualified name, read without calling a metaclass."""
    module = type.__getattribute__(cls, "__module__")
    name = type.__getattribute__(cls, "__qualname__")
    return module if type(module) is str else "?", name


def is_genuine_class(cls: type, module: str, name: str) -> bool:
    """Whether the class really belongs to that module: a user's class may claim any module."""
    actual_module = sys.modules.get(module)
    return actual_module is not None and vars(actual_module).get(name) is cls


def _standard_library_text(value: Any, name: str, width: int, depth: int) -> str:
    """Types of the standard library: containers by their contents, others by their own `repr` if it is safe."""
    if name in ("OrderedDict", "defaultdict", "Counter"):
        return name + "(" + _mapping_text(value.items(), "{}", width, depth) + ")"
    if name == "SimpleNamespace":
        return "namespace" + _mapping_text(vars(value).items(), "()", width, depth, sign="=", quoted=False)
    if name == "deque":
        return name + "(" + _sequence_text(value, "[]", width, depth) + ")"
    if name in ("datetime", "time") and type(value.tzinfo) not in (timezone, type(None)):
        return f"<{name}>"  # `repr` would call a user's time zone
    if name == "Fraction":
        return f"Fraction({integer(value.numerator)}, {integer(value.denominator)})"
    if name == "range":
        bounds = (value.start, value.stop) if value.step == 1 else (value.start, value.stop, value.step)
        return f"range({', '.join(map(integer, bounds))})"
    return printable(repr(value)) if name in _SAFE_REPR | _PATHS else f"<{name}>"


def integer(value: int) -> str:
    """The digits, or only the length of a very long integer: Python needs quadratic time for the digits, or refuses."""
    return repr(value) if value.bit_length() <= _LONGEST_INTEGER else f"<int of {value.bit_length():,} bits>"


def number(value: float) -> str:
    """At most six digits, or `repr` if that is short."""
    if not math.isfinite(value):
        return repr(value)
    exact = repr(value)
    return exact if len(exact) <= 9 else f"{value:.6g}"


def _sequence_text(items: Any, brackets: str, width: int, depth: int) -> str:
    if depth >= _DEEPEST:
        return f"{brackets[0]}…{brackets[1]}" if len(items) else brackets
    parts: list[str] = []
    length = 0
    for item in islice(iter(items), _MAX_ITEMS):
        parts.append(_text(item, width, depth + 1))
        length += len(parts[-1]) + 2
        if length > width:
            break
    hidden_count = len(items) - len(parts)
    if hidden_count:
        parts.append(f"… {hidden_count:,} more")
    comma = "," if brackets == "()" and len(items) == 1 else ""
    return brackets[0] + ", ".join(parts) + comma + brackets[1]


def _mapping_text(pairs: Any, brackets: str, width: int, depth: int, *, sign: str = ": ", quoted: bool = True) -> str:
    if depth >= _DEEPEST:
        return f"{brackets[0]}…{brackets[1]}" if len(pairs) else brackets
    parts: list[str] = []
    length = 0
    for key, item in islice(iter(pairs), _MAX_ITEMS):
        name = _text(key, width, depth + 1) if quoted or type(key) is not str else printable(key)
        parts.append(f"{name}{sign}{_text(item, width, depth + 1)}")
        length += len(parts[-1]) + 2
        if length > width:
            break
    hidden_count = len(pairs) - len(parts)
    if hidden_count:
        parts.append(f"… {hidden_count:,} more")
    return brackets[0] + ", ".join(parts) + brackets[1]


def not_kept(value: NotKept, width: int, depth: int = 0) -> str:
    """What was kept of a value, and that it is incomplete."""
    summary = value.summary
    name = printable(value.type.rpartition(".")[2])
    description = name
    if summary.shape is not None:
        description = f"{printable(summary.dtype or name)}{list(summary.shape)}"
        if summary.min is not None and summary.max is not None:
            description += f" {number(summary.min)}…{number(summary.max)}"
    elif value.part is not None:
        return f"{_text(value.part, width, depth)} (a part)"
    elif summary.length is not None:
        description += f" of {summary.length:,}"
    state = {Kept.PART: "a part kept", Kept.SUMMARY: "summary only", Kept.OPAQUE: ""}.get(value.kept, "")
    return f"<{description}{', ' + state if state else ''}>"


def _array_text(value: Any, cls: type, library: str, width: int) -> str:
    """dtype, shape, and the numbers if there are few. Only for the libraries' own types, not for user subclasses."""
    try:
        if library == "pandas":
            return f"{cls.__name__}[{' × '.join(map(str, value.shape))}]"
        if library == "numpy" and cls.__name__ not in ("ndarray", "memmap"):
            return printable(value.item()) if hasattr(value, "item") and value.ndim == 0 else f"<{cls.__name__}>"
        shape, dtype = tuple(value.shape), str(value.dtype).removeprefix("torch.")
        if library == "torch" and (value.device.type != "cpu" or str(value.layout) != "torch.strided"):
            return f"{dtype}{list(shape)} on {value.device}"  # reading it would synchronise with the device
        head = f"{dtype}{list(shape)}"
        if not shape:
            return f"{_text(value.detach().item() if library == 'torch' else value.item(), width, 1)} ({dtype})"
        if math.prod(shape) <= 8:
            numbers = value.detach().tolist() if library == "torch" else value.tolist()
            return f"{head} {_text(numbers, width, 0)}"
        return head
    except (AttributeError, RuntimeError, TypeError, ValueError, NotImplementedError):
        return f"<{library}.{cls.__name__}>"


def time_text(seconds: float, error: float) -> str:
    """A time with as many digits as are known, at most microseconds."""
    if not error > 0:  # exact, or unknown
        return f"{seconds:.6f}" if error == 0 else f"{seconds:.3f}"
    return f"{seconds:.{min(max(math.floor(-math.log10(error)), 0), 6)}f}"


def duration(seconds: float | None) -> str:
    """1.2 ms, 3.4 s, 2 min 5 s, 3 h 4 min."""
    if seconds is None:
        return "…"
    for limit, scale, unit in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (1.0, 1e3, "ms"), (60.0, 1.0, "s")):
        if abs(seconds) < limit:
            return f"{seconds * scale:.3g} {unit}"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def ending(seconds: float | None, error: str | None) -> str:
    """How a call ended, in a few words."""
    if seconds is None:
        return "not ended"
    return f"raised {shorten(printable(error), 60)} after {duration(seconds)}" if error else duration(seconds)


def series_line(series: Series) -> str:
    """`<Series loss: 1,000 changes, 0.9 → 0.1>`."""
    count = len(series)
    name = printable(series.name)
    if not count:
        return f"<Series {name}: empty>"
    return f"<Series {name}: {changes(count)}, {brief(series[0], 24)} → {brief(series[-1], 24)}>"


def changes(count: int) -> str:
    return "1 change" if count == 1 else f"{count:,} changes"


def byte_size(count: float) -> str:
    """`512 B`, `1.5 MB`."""
    units = ["B", "kB", "MB", "GB"]
    while count >= 1000 and len(units) > 1:
        count /= 1000
        units.pop(0)
    return f"{count:.0f} B" if units[0] == "B" else f"{count:.1f} {units[0]}"

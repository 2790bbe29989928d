"""Any value as one short line of text.

Only exact known types are looked into; of anything else the type is named. So no user code runs, whether the value was
read back from a run or is alive in the user's program.
"""

from __future__ import annotations

import math
import sys
import unicodedata
from datetime import timezone
from itertools import islice
from typing import TYPE_CHECKING, Any

from clew.records import DELETED, Kept, NotKept, Object

if TYPE_CHECKING:
    from clew.history.series import Series

_DEEPEST = 4
_PLAIN = frozenset([bool, type(None), complex])
_LONGEST_INTEGER = 256  # bits
_BRACKETS: dict[type, str] = {list: "[]", tuple: "()", set: "{}", frozenset: "{}"}
_BUILTIN_IDS = frozenset(map(id, [*_PLAIN, *_BRACKETS, int, float, str, bytes, bytearray, dict]))
_LIBRARIES = frozenset(
    [
        "numpy",
        "torch",
        "pandas",
        "datetime",
        "decimal",
        "fractions",
        "uuid",
        "pathlib",
        "collections",
        "builtins",
        "types",
    ]
)
_SPEAKING = frozenset(["datetime", "date", "time", "timedelta", "timezone", "Decimal", "UUID"])
_PATHS = frozenset(["PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath"])
_ITEMS = 64  # looked at per container; the width cuts long before


def brief(value: Any, width: int = 60) -> str:
    """`value` in at most `width` characters."""
    try:
        return shorten(_text(value, width, 0), width)
    except RuntimeError:  # another thread changes a container while it is walked
        return shorten(f"<{type(value).__name__}, changing>", width)


def shorten(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def printable(text: object) -> str:
    """Text fit for a terminal: control and formatting characters are spelled out, so that nothing recorded can act."""
    return "".join(
        char if char == " " or unicodedata.category(char)[0] not in "CZ" else _spelled(char) for char in str(text)
    )


def _spelled(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii") if ord(char) != 0xA0 else " "


def _text(value: Any, width: int, depth: int) -> str:
    kind = type(value)
    if id(kind) not in _BUILTIN_IDS and value is not DELETED:
        return _other(value, kind, width, depth)  # a user's class: whether it is one of ours, its metaclass would say
    if kind is float:
        return number(value)
    if kind is int:
        return integer(value)
    if kind in _PLAIN:
        return repr(value)
    if kind is str:
        return printable(repr(value[: width + 1]))
    if kind in (bytes, bytearray):
        return repr(bytes(value[: width + 1]))
    if value is DELETED:
        return "deleted"
    if kind in _BRACKETS:
        return _items(value, _BRACKETS[kind], width, depth)
    if kind is dict:
        return _mapping(value.items(), "{}", width, depth)
    return _other(value, kind, width, depth)


def _other(value: Any, kind: type, width: int, depth: int) -> str:
    if kind is Object:
        name = printable(value.type.rpartition(".")[2])
        inside = _mapping(value.attributes.items(), "()", width, depth, sign="=", quoted=False)
        return name + inside
    if kind is NotKept:
        return not_kept(value, width, depth)
    module, name = _name_of(kind)
    home = module.partition(".")[0]
    if home in _LIBRARIES and _genuine(kind, module, name):
        if home in ("numpy", "torch", "pandas"):
            return _array(value, kind, home, width)
        return _standard(value, name, width, depth)
    return f"<{printable(name)}>" if home == "builtins" else f"<{printable(module)}.{printable(name)}>"


def _name_of(kind: type) -> tuple[str, str]:
    """Module and qualified name, past a metaclass that would answer for itself."""
    module = type.__getattribute__(kind, "__module__")
    name = type.__getattribute__(kind, "__qualname__")
    return module if type(module) is str else "?", name


def _genuine(kind: type, module: str, name: str) -> bool:
    """Whether it is that library's own type: a user's class may claim any module."""
    home = sys.modules.get(module)
    return home is not None and vars(home).get(name) is kind


def _standard(value: Any, name: str, width: int, depth: int) -> str:
    """Types of the standard library whose text is their own; containers among them through their contents."""
    if name in ("OrderedDict", "defaultdict", "Counter"):
        return name + "(" + _mapping(value.items(), "{}", width, depth) + ")"
    if name == "SimpleNamespace":
        return "namespace" + _mapping(vars(value).items(), "()", width, depth, sign="=", quoted=False)
    if name == "deque":
        return name + "(" + _items(value, "[]", width, depth) + ")"
    if name in ("datetime", "time") and type(value.tzinfo) not in (timezone, type(None)):
        return f"<{name}>"  # a user's time zone would be asked for its name
    if name == "Fraction":
        return f"Fraction({integer(value.numerator)}, {integer(value.denominator)})"
    if name == "range":
        bounds = (value.start, value.stop) if value.step == 1 else (value.start, value.stop, value.step)
        return f"range({', '.join(map(integer, bounds))})"
    return printable(repr(value)) if name in _SPEAKING | _PATHS else f"<{name}>"


def integer(value: int) -> str:
    """The digits; of a very long one only how long it is: Python takes quadratic time for them, or refuses."""
    return repr(value) if value.bit_length() <= _LONGEST_INTEGER else f"<int of {value.bit_length():,} bits>"


def number(value: float) -> str:
    """Six digits are enough to look at; `repr` where they are not fewer."""
    if not math.isfinite(value):
        return repr(value)
    exact = repr(value)
    return exact if len(exact) <= 9 else f"{value:.6g}"


def _items(items: Any, brackets: str, width: int, depth: int) -> str:
    if depth >= _DEEPEST:
        return f"{brackets[0]}…{brackets[1]}" if len(items) else brackets
    parts: list[str] = []
    used = 0
    for item in islice(iter(items), _ITEMS):
        parts.append(_text(item, width, depth + 1))
        used += len(parts[-1]) + 2
        if used > width:
            break
    left = len(items) - len(parts)
    if left:
        parts.append(f"… {left:,} more")
    comma = "," if brackets == "()" and len(items) == 1 else ""
    return brackets[0] + ", ".join(parts) + comma + brackets[1]


def _mapping(pairs: Any, brackets: str, width: int, depth: int, *, sign: str = ": ", quoted: bool = True) -> str:
    if depth >= _DEEPEST:
        return f"{brackets[0]}…{brackets[1]}" if len(pairs) else brackets
    parts: list[str] = []
    used = 0
    for key, item in islice(iter(pairs), _ITEMS):
        name = _text(key, width, depth + 1) if quoted or type(key) is not str else printable(key)
        parts.append(f"{name}{sign}{_text(item, width, depth + 1)}")
        used += len(parts[-1]) + 2
        if used > width:
            break
    left = len(pairs) - len(parts)
    if left:
        parts.append(f"… {left:,} more")
    return brackets[0] + ", ".join(parts) + brackets[1]


def not_kept(value: NotKept, width: int, depth: int = 0) -> str:
    """What is known of it, and that it is not all."""
    summary = value.summary
    name = printable(value.type.rpartition(".")[2])
    known = name
    if summary.shape is not None:
        known = f"{printable(summary.dtype or name)}{list(summary.shape)}"
        if summary.min is not None and summary.max is not None:
            known += f" {number(summary.min)}…{number(summary.max)}"
    elif value.part is not None:
        return f"{_text(value.part, width, depth)} (a part)"
    elif summary.length is not None:
        known += f" of {summary.length:,}"
    state = {Kept.PART: "a part kept", Kept.SUMMARY: "summary only", Kept.OPAQUE: ""}.get(value.kept, "")
    return f"<{known}{', ' + state if state else ''}>"


def _array(value: Any, kind: type, home: str, width: int) -> str:
    """dtype, shape, and the numbers when there are few. Only the libraries' own types, not a subclass of the user's."""
    try:
        if home == "pandas":
            return f"{kind.__name__}[{' × '.join(map(str, value.shape))}]"
        if home == "numpy" and kind.__name__ not in ("ndarray", "memmap"):
            return printable(value.item()) if hasattr(value, "item") and value.ndim == 0 else f"<{kind.__name__}>"
        shape, dtype = tuple(value.shape), str(value.dtype).removeprefix("torch.")
        if home == "torch" and (value.device.type != "cpu" or str(value.layout) != "torch.strided"):
            return f"{dtype}{list(shape)} on {value.device}"  # reading it would wait for the device
        head = f"{dtype}{list(shape)}"
        if not shape:
            return f"{_text(value.detach().item() if home == 'torch' else value.item(), width, 1)} ({dtype})"
        if math.prod(shape) <= 8:
            numbers = value.detach().tolist() if home == "torch" else value.tolist()
            return f"{head} {_text(numbers, width, 0)}"
        return head
    except (AttributeError, RuntimeError, TypeError, ValueError, NotImplementedError):
        return f"<{home}.{kind.__name__}>"


def time_text(seconds: float, error: float) -> str:
    """A time with the digits that are known, microseconds at most."""
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

"""Renders any value as one line, and the difference of two: `uint8 (73, 3, 720, 720)`, `uint8 → float32`.

Only exact known types are opened, as in `text`, so no user code runs. CPU tensors are read directly from memory, so
autograd, dispatch modes and profilers notice nothing; tensors on other devices are read only for statistics.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from clew.records import DELETED, Kept, NotKept, Object
from clew.text.brief import brief, number, printable, shorten

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

WIDTH = 100
SCANNED = 16 << 20  # bytes of one value searched for NaN and Inf
_OUTLINE = 64  # likewise, if only outlines are compared: enough for a single number
_SHORT = 32  # characters of a text shown in full
_WORDS = 60  # characters shown of a long text
_INSIDE = 24  # width of a plain item inside a container
_LOOKED_AT = 8  # items of a container that count for its shape
_ITEMS = 32
_TROUBLE = (AttributeError, RuntimeError, TypeError, ValueError, NotImplementedError, KeyError, MemoryError)
# compared by identity, because `==` could call a user's metaclass
_TEXT_IDS = frozenset(map(id, (str, bytes, bytearray)))
_NUMBER_IDS = frozenset(map(id, (int, float, bool, complex, type(None))))
_CONTAINER_IDS = frozenset(map(id, (list, tuple, set, frozenset, dict)))
_UNKNOWN_DEVICE = ""


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """The facts that a line shows about an array or tensor."""

    library: str
    dtype: str
    shape: tuple[int, ...]
    device: str = "cpu"
    nan: int | None = None
    inf: int | None = None
    low: float | None = None
    high: float | None = None
    mean: float | None = None
    item: str = ""  # the number in an array without dimensions

    @property
    def head(self) -> str:
        """`float32 (3, 4) on cuda:0`."""
        elsewhere = f" on {self.device}" if self.device not in ("cpu", _UNKNOWN_DEVICE) else ""
        return f"{self.dtype} {self.shape}{elsewhere}"

    @property
    def counts(self) -> str:
        """` nan 3 inf 1`, if there are any."""
        return "".join(f" {name} {count:,}" for name, count in (("nan", self.nan), ("inf", self.inf)) if count)

    @property
    def statistics(self) -> str:
        """` min 0.0 max 1.0 mean 0.5`, if they were computed."""
        figures = (("min", self.low), ("max", self.high), ("mean", self.mean))
        return "".join(f" {name} {_number(figure)}" for name, figure in figures if figure is not None)

    @property
    def line(self) -> str:
        item = f" {self.item}" if self.item else ""
        return self.head + item + self.counts + self.statistics


def _number(value: float) -> str:
    return str(value) if type(value) is int else number(float(value))


def load() -> None:
    """Load now what the line of the first array would have to wait for."""
    if "numpy" in sys.modules:
        from clew.text import array_facts  # noqa: F401


class Look:
    """Examines one value; its line and its shape share the same facts, computed once."""

    def __init__(self, value: Any, *, stats: bool = False, device: str | None = None, room: int = SCANNED) -> None:
        self.value = value
        self._stats = stats
        self._device = device  # the original device, if known; the value itself may have been moved
        self._room = room  # bytes that may still be searched
        self._facts: dict[int, ArrayFacts | None] = {}

    def array(self, value: Any) -> ArrayFacts | None:
        """The facts about an array or tensor; None for other values."""
        key = id(value)
        if key not in self._facts:
            self._facts[key] = self._compute_facts(value)
        return self._facts[key]

    @property
    def facts(self) -> ArrayFacts | None:
        """The facts about the value itself."""
        facts = self.array(self.value)
        return facts if facts is None or self._device is None else replace(facts, device=self._device)

    def _compute_facts(self, value: Any) -> ArrayFacts | None:
        try:
            if type(value) is NotKept:
                return _facts_of_summary(value, self._stats)
            library = library_of_class(type(value))
            if library is None:
                return None
            facts = _numpy_facts(value) if library == "numpy" else _torch_facts(value)
            return self._with_numbers(value, facts)
        except _TROUBLE:
            return None

    def _with_numbers(self, value: Any, facts: ArrayFacts) -> ArrayFacts:
        """Add NaN and Inf counts and statistics, if they are cheap or requested."""
        from clew.text import array_facts

        try:
            size = array_facts.size_of(value, facts.library)
            if size > self._room and not self._stats:
                return facts
            self._room -= size
            return replace(facts, **array_facts.numbers(value, facts.library, stats=self._stats))
        except _TROUBLE:
            return facts  # its data cannot be read here, but dtype and shape are known

    # ---- as a line

    def line(self, width: int = WIDTH) -> str:
        """The value in at most `width` characters."""
        try:
            return shorten(self._line(width), width)
        except RuntimeError:  # another thread changes a container while it is walked
            return shorten(f"<{type(self.value).__name__}, changing>", width)

    def _line(self, width: int) -> str:
        facts = self.facts
        if facts is not None:
            return facts.line
        value = _kept_part(self.value)
        head = short_head(self.value)
        if id(type(value)) in _TEXT_IDS and head:
            room = min(max(width - len(head) - 4, 8), _WORDS)
            return f"{head} {_first_words(value, room, _length(self.value, value) > room)}"
        contents = _contents(value)
        if contents is None:
            return head or brief(self.value, width)
        brackets, items = contents
        missing = value is not self.value and type(value) is not Object and _length(self.value, value) > len(value)
        return head + brackets[0] + self._items_text(items, width - len(head) - 3, missing) + brackets[1]

    def _items_text(self, items: Iterable[tuple[str, Any]], width: int, has_more: bool) -> str:
        parts: list[str] = []
        length = 0
        for key, item in items:
            text = f"{key}{self._item_text(item)}"
            length += len(text) + 2
            if parts and (length > width or len(parts) >= _ITEMS):
                has_more = True
                break
            parts.append(text)
        return ", ".join([*parts, "…"] if has_more else parts)

    def _item_text(self, item: Any) -> str:
        facts = self.array(item)
        if facts is not None:
            return facts.head + facts.counts
        return short_head(item) or brief(item, _INSIDE)

    # ---- against the value before

    def since(self, before: Any, *, width: int = WIDTH, device: str | None = None) -> str:
        """The difference from the value before (on `device`); without one (`clew.DELETED`), the line."""
        if before is DELETED or self.value is DELETED:
            return self.line(width)
        old, new = Look(before, device=device, room=_OUTLINE).facts, self.facts
        if old is not None and new is not None:
            return shorten(_array_change(old, new), width)
        try:
            return shorten(_plain_change(before, self.value, self, width), width)
        except RuntimeError:
            return self.line(width)

    # ---- as a shape

    def shape(self) -> Hashable:
        """What values of different content share: types, shapes, dtypes, and whether all numbers are finite."""
        try:
            return self._shape_of(self.value, 0)
        except RuntimeError:
            return type(self.value).__name__

    def _shape_of(self, value: Any, depth: int) -> Hashable:
        facts = self.facts if depth == 0 else self.array(value)
        if facts is not None:
            return facts.library, facts.dtype, facts.shape, facts.device, bool(facts.nan), bool(facts.inf)
        if type(value) is float:
            return "float", value != value, value in (float("inf"), float("-inf"))
        name = type_name(value)
        contents = _contents(_kept_part(value)) if depth < 3 else None
        if contents is None:
            return name
        # Without the length: a list that grows in every round would never fold.
        item_shapes = (key + str(self._shape_of(item, depth + 1)) for key, item in islice(contents[1], _LOOKED_AT))
        return name, tuple(dict.fromkeys(item_shapes))


def value_line(value: Any, *, stats: bool = False, width: int = WIDTH, device: str | None = None) -> str:
    """One line for any value, live or read back.

    `device` is the original device of a tensor, if known: a tensor read back is on the CPU.
    """
    return Look(value, stats=stats, device=device).line(width)


def change_line(
    before: Any,
    after: Any,
    *,
    stats: bool = False,
    width: int = WIDTH,
    devices: tuple[str | None, str | None] = (None, None),
) -> str:
    """The difference between two values of one name; without a value before (`clew.DELETED`), just the value.

    `devices` are the original devices of both, if known; an empty text means unknown, and not compared.
    """
    return Look(after, stats=stats, device=devices[1]).since(before, width=width, device=devices[0])


def _array_change(old: ArrayFacts, new: ArrayFacts) -> str:
    parts = [f"{old.library} → {new.library}"] if old.library != new.library else []
    parts += [f"shape {old.shape} → {new.shape}"] if old.shape != new.shape else []
    parts += [f"{old.dtype} → {new.dtype}"] if old.dtype != new.dtype else []
    if old.device != new.device and _UNKNOWN_DEVICE not in (old.device, new.device):
        parts.append(f"{old.device} → {new.device}")
    if not parts and old.item and new.item and old.item != new.item:
        return f"{new.head} {old.item} → {new.item}"
    return ", ".join(parts or [new.head, "values changed"]) + new.counts + new.statistics


def _plain_change(before: Any, after: Any, look: Look, width: int) -> str:
    if id(type(before)) in _NUMBER_IDS and id(type(after)) in _NUMBER_IDS:
        return f"{brief(before, 24)} → {brief(after, 24)}"
    old, new = short_head(before), short_head(after)
    if type_name(before) == type_name(after) and new and old == new:  # the same outline, but different content
        remark = ", values changed" if _contents(_kept_part(after)) is not None else ", text changed"
        return look.line(width - len(remark)) + remark
    if type_name(before) == type_name(after) and _contents(_kept_part(after)) is not None:
        return f"{old} → {new}"
    before_text = _outline(before)
    now_text = look.line(max(width - len(before_text) - 3, 8))
    if before_text == now_text:  # of one type, and no more is known about either
        return f"{now_text}, changed"
    return f"{before_text} → {now_text}"


def _outline(value: Any) -> str:
    """A short description of a value."""
    facts = Look(value, room=0).facts
    return facts.head if facts is not None else short_head(value) or brief(value, 24)


def short_head(value: Any) -> str:
    """`dict[10]`, `str[88]`, `Config`; empty for values short enough to be shown in full."""
    inner = _kept_part(value)
    if id(type(inner)) in _TEXT_IDS:
        length = _length(value, inner)
        return f"{type(inner).__name__}[{length:,}]" if length > _SHORT else ""
    if type(inner) is Object:
        return printable(inner.type.rpartition(".")[2])
    if _is_container(inner):
        return f"{type(inner).__name__}[{_length(value, inner):,}]"
    return ""


def type_name(value: Any) -> str:
    """The qualified type name of a value, live or read back."""
    if type(value) is NotKept or type(value) is Object:
        return str(value.type)
    cls = type(value)
    module = type.__getattribute__(cls, "__module__")
    name = type.__getattribute__(cls, "__qualname__")
    return str(name) if module == "builtins" or type(module) is not str else f"{module}.{name}"


def _length(value: Any, inner: Any) -> int:
    """The original length, even if only a part was kept."""
    length = value.summary.length if type(value) is NotKept else None
    return len(inner) if length is None else int(length)


def _kept_part(value: Any) -> Any:
    """The kept part of a container of which only a part was kept; other values unchanged."""
    if type(value) is NotKept and value.part is not None and value.kept is Kept.PART:
        return value.part
    return value


def _is_container(value: Any) -> bool:
    cls = type(value)
    if id(cls) in _CONTAINER_IDS:
        return True
    collections = vars(sys.modules.get("collections", sys))
    return any(cls is collections.get(name) for name in ("OrderedDict", "defaultdict", "Counter", "deque"))


def _contents(value: Any) -> tuple[tuple[str, str], Iterable[tuple[str, Any]]] | None:
    """Brackets and items (with keys as text) of a container or read-back object; None for other values."""
    if type(value) is Object:
        return ("(", ")"), ((f"{printable(key)}=", item) for key, item in value.attributes.items())
    if not _is_container(value):
        return None
    if not len(value):
        return ("", ""), ()
    if isinstance(value, dict):
        return (" {", "}"), ((f"{_key(key)}: ", item) for key, item in value.items())
    begin, end = "()" if type(value) is tuple else "{}" if type(value) in (set, frozenset) else "[]"
    return (f" {begin}", end), (("", item) for item in value)


def _first_words(text: Any, width: int, is_cut: bool) -> str:
    """`'first words…'`."""
    shown = brief(text[:width], 4 * width)
    return f"{shown[:-1]}…{shown[-1]}" if is_cut else shown


def _key(key: Any) -> str:
    return shorten(printable(key), _INSIDE) if type(key) is str else brief(key, _INSIDE)


# ---- arrays


def library_of_class(cls: type) -> str | None:
    """numpy or torch for these libraries' own types; not for subclasses, which may run user code."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and any(cls is vars(numpy).get(name) for name in ("ndarray", "memmap")):
        return "numpy"
    if torch is not None:
        nn = vars(vars(torch).get("nn", sys))
        if any(cls is own_class for own_class in (vars(torch).get("Tensor"), nn.get("Parameter"), nn.get("Buffer"))):
            return "torch"
    return None


def _numpy_facts(value: Any) -> ArrayFacts:
    item = brief(value.item(), _INSIDE) if not value.shape and not value.dtype.hasobject else ""
    return ArrayFacts("numpy", shorten(printable(value.dtype), 40), tuple(map(int, value.shape)), item=item)


def _torch_facts(value: Any) -> ArrayFacts:
    torch: Any = sys.modules["torch"]
    with torch._C.DisableTorchFunction():  # a user's torch function mode would even see `value.shape`
        layout = "" if value.layout is torch.strided else f" {str(value.layout).removeprefix('torch.')}"
        dtype = str(value.dtype).removeprefix("torch.") + layout
        return ArrayFacts("torch", dtype, tuple(value.shape), "cpu" if value.is_cpu else str(value.device))


def _facts_of_summary(value: NotKept, stats: bool) -> ArrayFacts | None:
    summary = value.summary
    if summary.shape is None or summary.dtype is None:
        return None
    library, dtype = value.type.partition(".")[0], printable(summary.dtype)
    device = printable(summary.device or "cpu")
    facts = ArrayFacts(library, dtype, tuple(summary.shape), device, summary.nan, summary.inf)
    return replace(facts, low=summary.min, high=summary.max, mean=summary.mean) if stats else facts

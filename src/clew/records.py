"""The nouns of clew: what probes write and everything else reads.

A leaf: imports nothing of the project. Two zones meet here. The recording side builds `Value`, the *written* form
of something seen; the reading side gives people `Change`, `Call` and `NotKept`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, Literal, Protocol


class _Deleted:
    """What a name holds after `del`: a change like any other."""

    __slots__ = ()
    _only: _Deleted | None = None

    def __new__(cls) -> _Deleted:
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        return "clew.DELETED"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "DELETED"


DELETED: Final = _Deleted()


# what a change at a site is: one that people see; the step; an argument; the result; which items of a pipeline a call
# was about. "clock" says when the next change was, and is never written.
Role = Literal["value", "step", "input", "output", "item", "clock"]


class Kind(IntEnum):
    """How the value of a change is kept: in the change's own row, or as a row of the value table."""

    VALUE = 0  # see the value table
    FLOAT = 1  # the row's number
    INT = 2  # the row's number, exact because |n| <= 2**53
    BOOL = 3  # the row's number, 0 or 1
    NONE = 4
    DELETED = 5


class Kept(IntEnum):
    """How much of a value was kept."""

    FULL = 0  # everything: it reads back as what it was
    PART = 1  # a container or text with some of its content left out
    SUMMARY = 2  # an array's summary and hash, without its bytes
    OPAQUE = 3  # something clew does not look into: its type, no content


@dataclass(slots=True)
class Summary:
    """What is known of a value whether or not its bytes were kept."""

    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    device: str | None = None
    length: int | None = None  # items of a container, characters of a text
    size: int | None = None  # bytes
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    std: float | None = None
    nan: int | None = None
    inf: int | None = None
    norm: float | None = None  # L2, of the finite numbers, as mean and std
    zeros: float | None = None  # the fraction of all elements


@dataclass(slots=True)
class Value:
    """The written form of a value: JSON text that describes it, and the raw bytes the text points into.

    `body` is plain JSON; whatever JSON cannot say is an object with the key `"$"` (see values/codec.py).
    `parts` holds the buffers of arrays by position; the store puts small ones inline and large ones in the blob file.
    """

    type: str  # the type's name as people write it: "list", "numpy.ndarray", "mypkg.Config"
    body: str | None
    parts: list[Any] = field(default_factory=list)  # bytes-like
    kept: Kept = Kept.FULL
    why: str = ""  # why not in full, for people: "over 32 MiB", "keep='summary'"
    summary: Summary = field(default_factory=Summary)
    digest: bytes = b""  # xxh3-128 of type and content: equal digests, equal values
    part_digests: list[bytes] = field(default_factory=list, compare=False, repr=False)  # xxh3-128; b"": not yet made


@dataclass(slots=True)
class NotKept:
    """Read in place of a value of which only a part, a summary or the type was kept. It says so."""

    type: str
    kept: Kept
    why: str
    summary: Summary
    part: Any = None  # what was kept of it, if anything

    def __repr__(self) -> str:
        shape = "" if self.summary.shape is None else f" {self.summary.dtype} {self.summary.shape}"
        length = "" if self.summary.length is None else f" of {self.summary.length}"
        return f"<not kept in full: {self.type}{length}{shape}; {self.why or self.kept.name.lower()}>"


class Object:
    """An instance of a user's class, read back without running the user's code: its type's name and its attributes."""

    __slots__ = ("attributes", "type")

    def __init__(self, type: str, attributes: dict[str, Any]) -> None:
        self.type = type
        self.attributes = attributes

    def __getattr__(self, name: str) -> Any:
        try:
            return self.attributes[name]
        except KeyError:
            known = ", ".join(map(str, self.attributes)) or "none"
            raise AttributeError(f"{self.type} was recorded without {name!r}; it has: {known}") from None

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, int):
            return list(self.attributes.values())[key]
        return self.attributes[key]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Object) and (self.type, self.attributes) == (other.type, other.attributes)

    __hash__ = None  # type: ignore[assignment]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *map(str, self.attributes)]

    def __repr__(self) -> str:
        inside = ", ".join(f"{k}={v!r}" for k, v in self.attributes.items())
        return f"{self.type}({inside})"


@dataclass(frozen=True, slots=True)
class Function:
    """A function that was called, or the module level of a script (`<module>`)."""

    id: int
    name: str  # the qualified name: "Trainer.step"
    module: str
    file: str
    line: int
    code_hash: str | None = None  # "cpython-311-O0:" + SHA-256; None if an older version wrote it
    file_hash: str | None = None  # SHA-256
    source: str | None = None  # its text, from `line` on


@dataclass(frozen=True, slots=True)
class Site:
    """A place where a name can change: one name (or expression) at one line of one function."""

    id: int
    function: int
    name: str
    line: int
    role: Role = "value"
    mode: str | None = None  # "train" or "eval", inside a model: in which of them the name got its value


@dataclass(frozen=True, slots=True)
class Origin:
    """The call of another process inside which the process of this call was started.

    Without a start of its own in this shard, this call is the other one, which was open when its process forked.
    """

    call: int
    shard: str
    parent: int


@dataclass(slots=True)
class Passage:
    """Items that pass a stage of a pipeline: one call of its function, as a trace holds it."""

    stage: str
    function: str  # the qualified name: "Images.__getitem__"
    inputs: dict[str, Any]  # by the names they were captured under
    outputs: dict[str, Any] = field(default_factory=dict)  # likewise; empty if it raised, or goes on
    ids: tuple[Any, ...] = ()  # the items it was about, in the order of the rows if `by_row`
    source: str = ""  # what the ids count in: the name of a dataset, of a loader, of the first stage
    batch: int | None = None  # the number of the batch they came in, counted over the whole trace
    by_row: bool = False  # it was given or gave a batch: row i is that of ids[i]
    given: tuple[Any, ...] = ()  # the order of what it was given, if that is another than the order of what it gave
    lost: str = ""  # why it is not known which items these are
    files: tuple[str, ...] = ()  # opened while it ran
    where: str = ""  # "worker 1", or the name of a thread other than the one that traces
    devices: dict[str, str] = field(default_factory=dict)  # of tensors elsewhere than in CPU memory: "x[0]" → "cuda:0"
    rows: int | None = None  # captured was only a part: of so many rows
    mode: str = ""  # "train" or "eval", for a model
    convolved: tuple[int, ...] = ()  # the shape of what the first convolution in a model was given
    convolved_range: tuple[float, ...] = ()  # its smallest and its largest number
    called: Any = None  # one item: what `id=` calls it
    started: int = 0  # ns
    duration: int | None = None  # ns; None while it runs
    error: str | None = None
    file: str = ""
    line: int = 0
    key: tuple[str, int] = ("", 0)  # shard and number of the call
    parent: tuple[str, int] | None = None  # the passage inside which it was called


def passage_from(noted: dict[str, Any], **known: Any) -> Passage:
    """A passage, of what its call was and of what was noted about its items."""
    return Passage(
        ids=tuple(noted.get("ids", ())),
        source=noted.get("source", ""),
        batch=noted.get("batch"),
        by_row=bool(noted.get("by_row")),
        given=tuple(noted.get("given", ())),
        lost=noted.get("lost", ""),
        files=tuple(noted.get("files", ())),
        where=noted.get("where", ""),
        devices=dict(noted.get("devices", {})),
        rows=noted.get("rows"),
        mode=noted.get("mode", ""),
        convolved=tuple(noted.get("convolved", ())),
        convolved_range=tuple(noted.get("convolved_range", ())),
        called=noted.get("called"),
        **known,
    )


@dataclass(slots=True)
class TraceFacts:
    """What a trace knows beside its passages."""

    wanted: int | None = None  # items asked for; None: all, of which the last batch is kept
    state: str = "running"  # then "finished", "stopped" (the items were through, the program was not), "failed"
    error: str | None = None
    altered: list[str] = field(default_factory=list)  # what was changed in the program so that it ends soon
    notes: list[str] = field(default_factory=list)  # what else a reader should know
    stages: list[str] = field(default_factory=list)  # in the order they were first reached
    run: str = ""  # the folder it is stored in


@dataclass(frozen=True, slots=True)
class Note:
    """A line of the ledger: something asked for and not seen, dropped or not kept, and why."""

    kind: str  # "never-seen", "never-called", "not-kept", "dropped", "trouble", "fallback", ...
    subject: str  # what it is about: an expression, a function, a name
    text: str  # a sentence for people
    count: int = 1


class ChangeSource(Protocol):
    """What knows of some changes: those of a stored run, or the one that a hook is called with."""

    def name(self, index: int) -> str: ...
    def value(self, index: int) -> Any: ...
    def before(self, index: int) -> Any: ...
    def line(self, index: int) -> int: ...
    def step(self, index: int) -> Any: ...
    def time(self, index: int) -> float: ...
    def time_error(self, index: int) -> float: ...
    def call(self, index: int) -> Any: ...
    def function(self, index: int) -> str: ...
    def file(self, index: int) -> str: ...
    def text(self, index: int) -> str: ...
    def key(self, index: int) -> Any: ...


_UNREAD: Final[Any] = object()


class Change:
    """A name got a value. Everything is looked up when asked for; `value` is read back once."""

    __slots__ = ("_index", "_source", "_value")

    def __init__(self, source: ChangeSource, index: int = 0) -> None:
        self._source = source
        self._index = index
        self._value = _UNREAD

    @property
    def name(self) -> str:
        """The name or expression, as it was given to the probe."""
        return self._source.name(self._index)

    @property
    def value(self) -> Any:
        """What it held: `clew.DELETED` after `del`, a `NotKept` where it was not kept in full. In a hook the object."""
        if self._value is _UNREAD:
            self._value = self._source.value(self._index)
        return self._value

    @property
    def before(self) -> Any:
        """What the name held in this call before; `clew.DELETED` if nothing. In a hook None if it was no scalar."""
        return self._source.before(self._index)

    @property
    def line(self) -> int:
        return self._source.line(self._index)

    @property
    def step(self) -> Any:
        """The step it belongs to; None before the first step of its function. In functions without steps how many
        changes of this name came before, which a hook does not know: None."""
        return self._source.step(self._index)

    @property
    def time(self) -> float:
        """Seconds since the run began."""
        return self._source.time(self._index)

    @property
    def time_error(self) -> float:
        """By how many seconds `time` may be wrong at most."""
        return self._source.time_error(self._index)

    @property
    def call(self) -> Any:
        """The `clew.Call` it happened in; None if the start of that call was lost, or its run is not stored."""
        return self._source.call(self._index)

    @property
    def function(self) -> str:
        """The qualified name of the function whose line it was."""
        return self._source.function(self._index)

    @property
    def file(self) -> str:
        """The file of that function."""
        return self._source.file(self._index)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Change):
            return NotImplemented
        return bool(self._source.key(self._index) == other._source.key(other._index))

    def __hash__(self) -> int:
        return hash(self._source.key(self._index))

    def __repr__(self) -> str:
        return f"<Change {self.name} = {self._source.text(self._index)} at line {self.line}>"

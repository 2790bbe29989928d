"""What an adapter gives the walker, and the registry that finds the adapter of a type.

To add a kind of value: one file with `claim(cls) -> Handler | None` and a table `READERS`, and one line in `LIBRARIES`
(other packages: an entry point in the group "clew.values", named like the library). An adapter is loaded only when
its library is already loaded by the user's program.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol

from clew import trouble
from clew.records import Kept, Summary
from clew.values.json_text import SCALARS, token_of_scalar

# Shapes of a node: how its children stand in it.
LEAF: Final = 0
SEQUENCE: Final = 1
MAPPING: Final = 2
BAG: Final = 3  # a set: its digest does not depend on the order

Check = Callable[[Any, Any], bool]


class Node:
    """One value on the way: a container with a shallow copy of its references, an array, an object, something opaque.

    The defaults stand in the class and not in `__init__`: many nodes are made, and few fields differ.
    """

    aside: dict[str, Any] | None = None  # JSON that is only written: where the bytes are
    content = b""  # what the digest is made of, beside type, note and children
    head = b""  # JSON of type, tag and note, where the adapter has it ready
    kept = Kept.FULL
    why = ""
    summary: Summary | None = None
    far = False  # an object: what it holds is one object farther from the root
    # the walker's own marks
    digest: bytes | None = None
    types: frozenset[int] | set[int] = frozenset()  # ids of the types of the items
    key_types: frozenset[int] | set[int] = frozenset()
    text: str | None = None  # JSON: the items', when that is all there is to say; a leaf's, where it is ready
    tree: Any = None
    parent: Node | None = None
    placed = False
    lit = False
    edge = -1  # items written at each end if not all are; -1: all
    number = -1
    order = 0
    depth = 0
    objects = 0

    def __init__(
        self,
        type: str,
        tag: str = "",
        form: int = LEAF,
        items: list[Any] | None = None,
        keys: list[Any] | None = None,
        note: dict[str, Any] | None = None,
    ) -> None:
        self.type = type
        self.tag = tag  # "" for a plain list or dict, which need no words in JSON
        self.form = form
        self.items: list[Any] = [] if items is None else items
        self.keys = keys
        self.note = note  # JSON that belongs to the value: hashed and written


class Looking(Protocol):
    """What an adapter may ask of the walker."""

    lit: bool  # False: only the digest is wanted
    light: bool  # True: nothing may be computed of what is not kept
    stats: bool  # True: but statistics may
    describing: bool  # statistics are wanted where the bytes are not kept
    objects: int  # how many plain objects lie between the root and this value

    def room_for(self, size: int) -> str:
        """ "" if `size` more bytes may be kept (and takes them off the budget), else why not."""

    def add_part(self, buffer: Any, digest: bytes = b"") -> int:
        """Puts a buffer, which nobody else may change, beside the body; gives its place. `digest`: xxh3-128 of it."""

    def guard(self, check: Check, obj: Any, kept: Any) -> None:
        """`check(obj, kept)` will say whether `obj` is still what it was."""

    def watch(self, obj: Any, test: Callable[[Any], bool]) -> None:
        """The same for a leaf that is judged by its content: as the root of the walk it is then not kept alive."""


class Unwatched:
    """The walk, for an adapter that builds on another one and leaves the test itself."""

    def __init__(self, walk: Looking) -> None:
        self.lit, self.objects, self.describing = walk.lit, walk.objects, walk.describing
        self.room_for, self.add_part, self.guard = walk.room_for, walk.add_part, walk.guard
        self.light, self.stats = walk.light, walk.stats
        self.tests: list[Any] = []

    def watch(self, obj: Any, test: Callable[[Any], bool]) -> None:
        self.tests.append(test)


Look = Callable[[Any, Looking], Node]


class Handler(NamedTuple):
    """How values of one type are looked at: as an atom (immutable, one piece of JSON), or as a node."""

    atom: Callable[[Any], Any] | None
    look: Look | None
    alone: Callable[[Any, Any], Any] | None = None  # a quicker way for a value by itself; may give None


LIBRARIES: Final[dict[str, str]] = {
    "numpy": "clew.values.numpy",
    "torch": "clew.values.torch",
    "pandas": "clew.values.pandas",
    "jax": "clew.values.other_arrays",
    "tensorflow": "clew.values.tensorflow",
    "keras": "clew.values.tensorflow",
    "cupy": "clew.values.other_arrays",
    "PIL": "clew.values.pillow",
}

_atoms: Final[dict[int, Callable[[Any], Any]]] = {id(cls): token_of_scalar for cls in SCALARS}
_looks: Final[dict[int, Look]] = {}
_alone: Final[dict[int, Callable[[Any, Any], Any]]] = {}
_alive: Final[dict[int, Any]] = {}  # weak references to the types behind the ids
_loaded: Final[dict[str, Any]] = {}
_entry_points: dict[str, Any] | None = None

atom_of = _atoms.get  # by id(type(x))
alone_of = _alone.get  # likewise; only of types that were looked at before


def register(cls: type, *, atom: Callable[[Any], Any] | None = None, look: Look | None = None) -> None:
    """The handler of exactly this type. Types are kept by id, since hashing one may run a user's metaclass."""
    key = id(cls)
    _alive[key] = weakref.ref(cls, lambda _: _drop(key))
    if atom is not None:
        _atoms[key] = atom
    elif look is not None:
        _looks[key] = look


def _drop(key: int) -> None:
    _atoms.pop(key, None)
    _looks.pop(key, None)
    _alone.pop(key, None)
    _alive.pop(key, None)


def look_of(cls: type) -> Look | None:
    """The look of a type, found and remembered at its first value; None if it turns out to be an atom."""
    key = id(cls)
    look = _looks.get(key)
    if look is not None:
        return look
    if key not in _atoms:
        handler = _find(cls)
        register(cls, atom=handler.atom, look=handler.look)
        if handler.alone is not None:
            _alone[key] = handler.alone
    return _looks.get(key)


def _find(cls: type) -> Handler:
    for library in [*LIBRARIES, *_foreign()]:
        if library in sys.modules:
            handler = _claim(library, cls)
            if handler is not None:
                return handler
    from clew.values import objects

    return objects.claim(cls)


def _claim(library: str, cls: type) -> Handler | None:
    adapter = adapter_for(library)
    if adapter is None:
        return None
    try:
        handler: Handler | None = adapter.claim(cls)
    except Exception as error:  # a half-imported library, a broken foreign adapter
        what = f"the value adapter for {library} failed; its values are plain objects"
        trouble.report(f"values:claim:{library}", what, cause=error)
        return None
    return handler


def adapter_for(library: str) -> Any | None:
    """The adapter module of a library, imported once; None if it cannot be, which is said once."""
    if library not in _loaded:
        try:
            target = LIBRARIES.get(library)
            _loaded[library] = import_module(target) if target else _foreign()[library].load()
        except Exception as error:
            _loaded[library] = None
            what = f"the value adapter for {library} does not load; its values are plain objects"
            trouble.report(f"values:load:{library}", what, cause=error)
    return _loaded[library]


def load() -> None:
    """Load now what the first value of each kind would have to wait for, as far as the program has its library."""
    for library in [*LIBRARIES, *_foreign()]:
        adapter = adapter_for(library) if library in sys.modules else None
        load_more = getattr(adapter, "load", None)
        if load_more is not None:
            load_more()
    import_module("clew.values.objects")


def _foreign() -> dict[str, Any]:
    """Adapters of other packages, by the name of the library they are for."""
    global _entry_points
    if _entry_points is None:
        _entry_points = {}  # already: the import below may run into watched code, and so come back here
        try:
            from importlib.metadata import entry_points

            _entry_points = {e.name: e for e in entry_points(group="clew.values") if e.name not in LIBRARIES}
        except Exception as error:  # damaged metadata of any installed package
            trouble.report("values:entry-points", "the value adapters of other packages cannot be listed", cause=error)
    return _entry_points


def read_without(library: str) -> None:
    """From here on this process reads values as if the library were not installed, unless it is loaded already.

    For commands that only show values: importing torch takes longer than all the rest.
    """
    if library not in sys.modules:
        _not_imported.add(library)


def is_left_out(library: str) -> bool:
    """Whether values are read without it though it may be installed."""
    return library in _not_imported


_not_imported: set[str] = set()


def optional(library: str) -> Any:
    """The library, or None where a run is read without it."""
    if library in _not_imported:
        return None
    try:
        return import_module(library)
    except ImportError:
        return None


def reader_of(tag: str) -> Callable[..., Any] | None:
    """The function that reads a tag back: the part before the first dot names the library."""
    library = tag.partition(".")[0]
    if library not in LIBRARIES and library not in _foreign():
        return None
    adapter = adapter_for(library)
    return None if adapter is None else adapter.READERS.get(tag)

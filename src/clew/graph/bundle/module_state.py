"""What the user's modules hold beyond their text: state that they got after they were imported.

A bundle runs a module's text again. What the steps reach and the text alone does not make again is written beside it:
globals, class attributes, what functions close over, and their defaults. Each has an address, which begins at a global
of the module: `[["name", "predict"], ["cell", "net"]]` is the variable `net` that `predict` closes over.
"""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar, copy_context
from enum import EnumType
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

from clew.errors import GraphError
from clew.graph.operators import Operator
from clew.instrument import source
from clew.instrument.engine import original_code
from clew.instrument.library_code import is_library

from .bindings import Bindings
from .containers import KINDS
from .modules import is_user_module, is_whole
from .names import CannotSaveError, public_name

Address = tuple[tuple[str, str], ...]

_ALL_NAMES = frozenset({"globals", "eval", "exec"})  # who calls one of these may reach any global
_READS = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
# Of these a new one does: locks, variables of types and of contexts. What else cannot be saved may hold something.
MADE_ANEW = frozenset({"_thread", "threading", "typing", "types", "_contextvars", "contextvars"})


class ModuleState:
    """Collects what functions and classes reach, and encodes it when everything is known."""

    def __init__(
        self,
        encode: Callable[[Any], Any],
        refer: Callable[[Any], Any],
        name_container: Callable[[Any, ModuleType, str], None],
    ) -> None:
        self._encode = encode
        self._refer = refer
        self._name_container = name_container
        self._walked: dict[int, Any] = {}
        self._globals: set[tuple[str, str]] = set()
        self._bindings: dict[str, Bindings] = {}
        self._pending: list[tuple[ModuleType, Address, Any, str]] = []
        self._addresses: set[tuple[str, Address]] = set()
        self._held: dict[str, ModuleType] = {}  # modules that are values: whoever gets one may take anything from it
        self._names: set[str] = set()  # in all functions that were walked
        self._known_sizes = (0, 0)

    # ---- functions and classes

    def reach(self, thing: Any, module: ModuleType, path: str) -> None:
        """A function or class that a module has under a path of names."""
        self._walk(thing, module, tuple(("name", part) for part in path.split(".")))

    def reach_part(self, thing: Any, module: ModuleType) -> None:
        """A function or class that has a text of its own, which brings what it closes over along."""
        if isinstance(thing, FunctionType):
            self._walk(thing, module, None)
        else:
            self._class(thing, module, None)

    def reach_module(self, module: ModuleType, names: set[str]) -> None:
        """Those of these names that a module has: somebody takes them from it as attributes."""
        for name in sorted(names & set(vars(module))):
            self._global(module, name, names)
        computing = vars(module).get("__getattr__")
        if isinstance(computing, FunctionType) and not names <= set(vars(module)):
            self._walk(computing, module, None)

    def hold(self, module: ModuleType) -> None:
        """A module of the user's is a value somewhere: a default, in a dictionary, an attribute of an object."""
        self._held[module.__name__] = module

    def _reach_held(self) -> None:
        while self._known_sizes != (sizes := (len(self._held), len(self._names))):
            self._known_sizes = sizes
            for module in list(self._held.values()):
                self.reach_module(module, set(self._names))

    def _walk(self, thing: Any, module: ModuleType, address: Address | None) -> None:
        """`address` is None where what belongs to the thing itself cannot be put back; what it reaches still can."""
        thing = thing.target if isinstance(thing, Operator) else thing
        if id(thing) in self._walked:
            return
        self._walked[id(thing)] = thing
        if isinstance(thing, type):
            self._class(thing, module, address)
        elif isinstance(thing, FunctionType):
            self._function(thing, module, address)
        elif is_user_module(sys.modules.get(type(thing).__module__, sys)):  # a decorator that is a class
            self._definition(type(thing), module, None)
            for name, value in list(getattr(thing, "__dict__", {}).items()):
                if address is not None and not name.startswith("__"):
                    self._value(module, (*address, ("name", name)), value, f"`{address[-1][1]}.{name}`")
        elif (inner := getattr(thing, "__wrapped__", None)) is not None:  # lru_cache, and what libraries make of it
            self._walk(inner, module, None)

    def _function(self, function: FunctionType, module: ModuleType, address: Address | None) -> None:
        if not is_user_module(sys.modules.get(str(function.__module__), sys)):
            address = None
        home = sys.modules.get(str(function.__globals__.get("__name__")))
        is_own = home is not None and is_user_module(home)
        code = original_code(function)
        if is_own and home is not None:  # of a script, only what its modules hold: its own names are in its excerpt
            reads, names = _names_in(code)
            self._names |= names
            for name in sorted(set(vars(home)) if reads & _ALL_NAMES else reads & set(vars(home))):
                self._global(home, name, names)
            for imported in _imports_in(code, home):
                self.reach_module(imported, names)
        self._cells(function, code, module, address if is_own else None)
        if address is None:
            return
        if is_own:
            for kind in ("defaults", "kwdefaults"):
                if getattr(function, f"__{kind}__"):
                    what = f"a default of {function.__qualname__}"
                    self._put(module, (*address, (kind, "")), getattr(function, f"__{kind}__"), what)
        for name, value in vars(function).items():
            if not name.startswith("__"):
                self._value(module, (*address, ("name", name)), value, f"`{function.__qualname__}.{name}`")

    def _cells(self, function: FunctionType, code: CodeType, module: ModuleType, address: Address | None) -> None:
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
            if name == "__class__" or _is_empty(cell):
                continue
            value = cell.cell_contents
            inner = value.target if isinstance(value, Operator) else value
            if isinstance(inner, FunctionType | type):
                self._definition(inner, module, None if address is None else (*address, ("cell", name)))
            elif address is not None:
                what = f"`{name}` that {function.__qualname__} closes over"
                self._put(module, (*address, ("cell", name)), value, what)
            elif hasattr(inner, "__wrapped__"):
                self._walk(inner, module, None)

    def _class(self, cls: type, module: ModuleType, address: Address | None) -> None:
        for base in cls.__mro__[1:]:
            self._definition(base, module, None)
        for name, value in list(vars(cls).items()):
            inner = None if address is None else (*address, ("name", name))
            if isinstance(value, property):
                for function in filter(None, (value.fget, value.fset)):
                    self._walk(function, module, None)
            elif isinstance(value, FunctionType) and not source.is_written(value.__code__):
                continue  # evaluates annotations (3.14): the class of the bundle has one of its own
            elif isinstance(value, FunctionType) and _is_made_by_dataclass(cls, value):
                self._walk(value, module, None)  # another Python makes it otherwise; what fields are made by counts
            elif inner is not None and isinstance(value, FunctionType) and _is_put_there(cls, name, value):
                self._put(module, inner, value, f"`{cls.__qualname__}.{name}`")
            elif isinstance(value, classmethod | staticmethod | FunctionType | Operator):
                self._walk(getattr(value, "__func__", value), module, inner)
            elif not _is_made_by_class(cls, name, value) and inner is not None:
                self._value(module, inner, value, f"`{cls.__qualname__}.{name}`")

    def _value(self, module: ModuleType, address: Address, value: Any, what: str) -> None:
        if isinstance(value, FunctionType | type):
            self._definition(value, module, address)
        elif not isinstance(value, ModuleType):
            self._put(module, address, value, what)

    def _definition(self, thing: Any, module: ModuleType, address: Address | None) -> None:
        """A function or class that is held somewhere: by its own name if it has one, else by where it is held."""
        home = sys.modules.get(str(getattr(thing, "__module__", None)))
        if home is None or not is_user_module(home):
            return
        path = thing.__qualname__
        if "<" not in path and _at(home, path) is thing:
            if is_whole(home):
                self._refer(thing)
            self.reach(thing, home, path)
        else:
            self._walk(thing, module, address)

    # ---- globals

    def _global(self, module: ModuleType, name: str, names: set[str]) -> None:
        value = vars(module)[name]
        if isinstance(value, ModuleType):
            if is_user_module(value) and (value.__name__, f"{module.__name__}:{sorted(names)}") not in self._globals:
                self._globals.add((value.__name__, f"{module.__name__}:{sorted(names)}"))
                self.reach_module(value, names)
            return
        if (module.__name__, name) in self._globals or name.startswith("__") or not is_whole(module):
            return
        self._globals.add((module.__name__, name))
        known = self._bindings.setdefault(module.__name__, Bindings(module))
        target = value.target if isinstance(value, Operator) else value
        if known.defines(name, target):
            self._walk(target, module, (("name", name),))
            return
        source = known.imported_from(name, value)
        if source is not None and (not is_user_module(source) or isinstance(target, FunctionType | type)):
            self._definition(target, module, None)
        elif not known.says(name, value):
            self._put(module, (("name", name),), value, f"the global `{name}` of {public_name(module.__name__)}")
        elif type(value) in KINDS:
            self._name_container(value, module, name)

    # ---- values

    def _put(self, module: ModuleType, address: Address, value: Any, what: str) -> None:
        key = (module.__name__, address)
        if key not in self._addresses:
            self._addresses.add(key)
            self._pending.append((module, address, value, what))

    @property
    def is_pending(self) -> bool:
        self._reach_held()
        return bool(self._pending)

    def encoded(self) -> Iterator[tuple[ModuleType, list[Any]]]:
        """(module, [address, value]) of what was reached since the last time; encoding it may reach more."""
        while self._pending:
            module, address, value, what = self._pending.pop(0)
            if _is_set_here(value):
                raise CannotSaveError(f"{what}, which a step uses, has a value only in this context or thread")
            try:
                yield module, [[list(part) for part in address], self._encode(value)]
            except CannotSaveError as reason:
                if type(value).__module__ not in MADE_ANEW:
                    raise CannotSaveError(f"{what}, which a step uses, is not in the code and {reason}") from None


def _names_in(code: CodeType) -> tuple[set[str], set[str]]:
    """The globals that a function reads, and every name in it: of attributes, and texts that may be such a name."""
    reads: set[str] = set()
    names: set[str] = set()
    stack = [code]
    while stack:
        one = stack.pop()
        names.update(one.co_names)
        reads.update(step.argval for step in dis.get_instructions(one) if step.opname in _READS)
        names.update(const for const in one.co_consts if type(const) is str and const.isidentifier())
        stack.extend(const for const in one.co_consts if isinstance(const, CodeType))
    return reads, names


def _imports_in(code: CodeType, home: ModuleType) -> Iterator[ModuleType]:
    """The user's modules that a function imports when it is called."""
    package = str(vars(home).get("__package__") or "")
    above = package.split(".")
    roots = ["", *(".".join(above[: n + 1]) + "." for n in range(len(above)) if package)]
    stack = [code]
    while stack:
        one = stack.pop()
        for step in dis.get_instructions(one):
            if step.opname == "IMPORT_NAME":
                candidates = (sys.modules.get(f"{root}{step.argval}".rstrip(".")) for root in roots)
                yield from (module for module in candidates if module is not None and is_user_module(module))
        stack.extend(const for const in one.co_consts if isinstance(const, CodeType))


def _is_empty(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False


def _is_set_here(value: Any) -> bool:
    """Whether something that would be made anew holds a value of this context or thread."""
    if isinstance(value, ContextVar):
        return value in copy_context()
    return isinstance(value, threading.local) and bool(vars(value))


def _is_made_by_dataclass(cls: type, function: FunctionType) -> bool:
    return function.__code__.co_filename == "<string>" and "__dataclass_fields__" in vars(cls)


def _is_put_there(cls: type, name: str, function: FunctionType) -> bool:
    """Whether somebody has given a class a function of the user's that its text does not define under this name."""
    is_own = function.__qualname__ == f"{cls.__qualname__}.{name}"
    return not is_own and "__clew_op__" not in vars(function) and not is_library(function.__code__.co_filename)


def _is_made_by_class(cls: type, name: str, value: Any) -> bool:
    """Whether Python or the metaclass has put an attribute there: it comes with the class."""
    return isinstance(cls, EnumType) or name.startswith("__") or name == "_abc_impl" or hasattr(type(value), "__get__")


def unwrapped(value: Any) -> Any:
    """What was there before clew.op was put on it."""
    if isinstance(value, Operator):
        return value.target
    if isinstance(value, FunctionType) and value.__dict__.get("__clew_op__"):
        return value.__dict__["__wrapped__"]
    return value


def _bare(value: Any) -> Any:
    return unwrapped(value.__func__ if isinstance(value, classmethod | staticmethod) else value)


def _at(module: ModuleType, path: str) -> Any:
    found: Any = module
    for part in path.split("."):
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
    return _bare(found)


# ---- loading ---------------------------------------------------------------------------------------------------------


def put(
    module: ModuleType,
    address: list[list[str]],
    said: Any,
    decode: Callable[[Any], Any],
    fill: Callable[[Any, str, Any], None],
) -> None:
    """Put a value where it was, as the page says it. Only what the bundle's own code has made is reached into."""
    holder: Any = module
    root = module.__name__.partition(".")[0]
    for kind, name in address[:-1]:
        holder = _bare(_cell(holder, name).cell_contents if kind == "cell" else vars(holder)[name])
        owner = holder if isinstance(holder, FunctionType | type) else type(holder)
        if str(owner.__module__).partition(".")[0] != root:
            said = f"{module.__name__}: {'.'.join(part[1] for part in address)} does not lead to code of the bundle."
            raise GraphError("bundle-damaged", said, "Get the bundle again from where it was made.")
    kind, name = address[-1]
    if kind == "cell":
        cell = _cell(holder, name)
        scope = {} if _is_empty(cell) else {name: cell.cell_contents}
        fill(scope, name, said)
        cell.cell_contents = scope[name]
    elif kind in ("defaults", "kwdefaults"):
        setattr(holder, f"__{kind}__", decode(said))
    elif isinstance(holder, type):
        scope = dict(vars(holder))
        fill(scope, name, said)
        if scope[name] is not vars(holder).get(name):
            type.__setattr__(holder, name, scope[name])
    else:
        fill(vars(holder), name, said)


def _cell(function: Any, name: str) -> CellType:
    cells: dict[str, CellType] = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    return cells[name]

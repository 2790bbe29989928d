"""What rewritten code asks for: each call, each f-string, each `is`. Without a recording it is what Python does."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import local
from types import BuiltinMethodType, ModuleType
from typing import Any

from clew.graph import operations
from clew.graph.operators import is_operator
from clew.graph.parts import CHANGING, COLLECTIONS, PLAIN, handed, hides, holds_traced
from clew.graph.recording.loops.given import noted
from clew.graph.recording.loops.rewriting import SITES
from clew.graph.templates import settled

from . import caller_frames
from .called_code import called, changeable, is_generator_of_chance, own_calls, text_of
from .library_calls import CONTEXTS
from .loops import steps as loop_steps
from .outside_changes import is_users
from .protocols import see_through
from .session import Session, current
from .traced_values import is_traced, raw

_TEXTS = (str, bytes, int, float, complex)  # whose methods only compute
_LOOKING = frozenset({"get", "index", "count", "isdisjoint", "issubset", "issuperset", "__contains__", "__getitem__"})


_here = local()  # between a loop's question and what follows from the answer


class Hooks:
    """The names that rewritten code uses."""

    # ---- loops

    def loop(self, number: int, variables: Any, items: Any = loop_steps.NOT_A_STEP) -> bool:
        """Whether a loop was a step, and is done."""
        session = loop_steps.recording()
        result = loop_steps.NOT_A_STEP
        if session is not None:
            result = loop_steps.loop(session, SITES[number], variables, items)  # type: ignore[arg-type]
        is_done = result is not loop_steps.NOT_A_STEP
        _here.held = result if is_done else items
        return is_done

    def loop_items(self) -> Any:
        """What a loop goes through that is no step."""
        items, _here.held = _here.held, None
        return loop_steps.unrolled(items)

    def loop_result(self) -> Any:
        """What the function returns whose rest was a step."""
        result, _here.held = _here.held, None
        return result

    def comprehension(self, number: int, variables: Any, fallback: Callable[[Any], Any], items: Any) -> Any:
        session = loop_steps.recording()
        if session is None:
            return fallback(items)
        return loop_steps.comprehension(session, SITES[number], variables, fallback, items)  # type: ignore[arg-type]

    def lazy(self, number: int, variables: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        def call() -> Any:
            return self.call(function, *_all_unrolled(args), **_all_unrolled(kwargs))

        session = loop_steps.recording()
        if session is None:
            return call()
        return loop_steps.lazy_call(session, SITES[number], variables, function, args, kwargs, call)  # type: ignore[arg-type]

    def lazy_method(self, number: int, variables: Any, owner: Any, name: str, /, *args: Any, **kwargs: Any) -> Any:
        def call() -> Any:
            return self.method(owner, name, *_all_unrolled(args), **_all_unrolled(kwargs))

        session = loop_steps.recording()
        if session is None or is_traced(owner):
            return call()
        function = getattr(type(owner), name, None) if is_users(type(owner)) else getattr(owner, name, None)
        return loop_steps.lazy_call(session, SITES[number], variables, function, args, kwargs, call)  # type: ignore[arg-type]

    def consumed(self, number: int, variables: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        def call() -> Any:
            return self.call(function, *_all_unrolled(args), **_all_unrolled(kwargs))

        session = loop_steps.recording()
        if session is None:
            return call()
        site: Any = SITES[number]
        return loop_steps.consumed(session, site, variables, function, [], args, kwargs, call)

    def consumed_method(self, number: int, variables: Any, owner: Any, name: str, /, *args: Any, **kwargs: Any) -> Any:
        def call() -> Any:
            return self.method(owner, name, *_all_unrolled(args), **_all_unrolled(kwargs))

        session = loop_steps.recording()
        if session is None:
            return call()
        site: Any = SITES[number]
        function = getattr(raw(owner), name, None) if isinstance(raw(owner), (str, bytes, ModuleType)) else None
        return loop_steps.consumed(session, site, variables, function, [owner], args, kwargs, call)

    # ---- calls and values

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None or is_traced(function):
            if session is not None:
                kwargs = caller_frames.with_names(raw(function), args, kwargs)
            return function(*args, **kwargs)
        for one in (function, *args):
            see_through(_class_of(one), self)
        if function is getattr and len(args) == 2 and not holds_traced(args):
            return self.attribute(*args)
        if isinstance(function, BuiltinMethodType) and type(function.__self__) in (*PLAIN, *COLLECTIONS):
            return self.method(function.__self__, function.__name__, *args, **kwargs)  # push = out.append
        return noted(session, called(session, function, args, kwargs, self))

    def method(self, owner: Any, name: str, /, *args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None:
            return getattr(owner, name)(*args, **kwargs)
        if caller_frames.looks_for_names(raw(owner), name):
            kwargs = caller_frames.with_names(getattr(raw(owner), name), args, kwargs)
        if is_traced(owner):
            return session.step("method", name, (owner, *args), kwargs)
        function = getattr(self.owner(owner), name)
        if isinstance(owner, (ModuleType, type)) or is_operator(function):
            return noted(session, called(session, function, args, kwargs, self))
        if isinstance(owner, _TEXTS):
            args = settled(args)
            told = holds_traced(args) or holds_traced(kwargs)
            return session.step("method", name, (owner, *args), kwargs) if told else function(*args, **kwargs)
        if type(owner) in PLAIN or type(owner) in COLLECTIONS:
            return _own_method(session, owner, name, args, kwargs, self)
        if is_generator_of_chance(owner):
            return session.step("method", name, (owner, *args), kwargs)
        changed = session.objects.value_of(owner)
        if changed is not None and not is_users(type(owner)):
            return session.step("method", name, (changed, *args), kwargs, changes=changed)
        return noted(session, called(session, function, args, kwargs, self))

    def owner(self, value: Any) -> Any:
        """Whose attribute is asked for or set: its class may have functions that Python calls by itself."""
        if current() is not None:
            see_through(_class_of(value), self)
        return value

    def attribute(self, owner: Any, name: str) -> Any:
        session = current()
        if session is None or is_traced(owner):
            return getattr(owner, name)
        found = getattr(self.owner(owner), name)
        changed = None if callable(found) else session.objects.value_of(owner)
        return found if changed is None else session.step("attribute", name, (changed,))

    def text(self, value: Any, conversion: str, spec: Any) -> Any:
        session = current()
        if conversion != "r" and spec == "" and text_of(value) is not value:
            value, conversion = text_of(value), "s"
        if session is None or not (holds_traced(value) or is_traced(spec)):
            return operations.PYTHON["text"](value, conversion, spec)
        return session.step("python", "text", (value, conversion, spec))

    def joined(self, *parts: Any) -> Any:
        session = current()
        if session is None or not any(map(is_traced, parts)):
            return "".join(parts)
        return session.step("python", "join", parts)

    def is_(self, a: Any, b: Any) -> Any:
        return _asked("is", a, b)

    def is_not(self, a: Any, b: Any) -> Any:
        return _asked("is not", a, b)

    def chain(self, first: Any, *links: tuple[str, Callable[[], Any]]) -> Any:
        """`a < b is c`: each part evaluated once, and no further than it is true."""
        result: Any = True
        for name, part in links:
            second = part()
            result = _asked(name, first, second)
            if not result:
                return result
            first = second
        return result

    def within(self, item: Any, container: Any) -> Any:
        return _asked("contains", container, item)

    def not_within(self, item: Any, container: Any) -> Any:
        return _asked("not in", container, item)

    def not_(self, value: Any) -> Any:
        session = current()
        return not value if session is None or not is_traced(value) else session.step("python", "not", (value,))

    def binary(self, name: str, a: Any, b: Any) -> Any:
        """`a * b`: an object of a library would look into a recorded value on its right by itself."""
        if is_traced(b) and not is_traced(a) and _is_of_library(a):
            session = current()
            if session is not None:
                return session.step("python", name, (a, b))
        return operations.PYTHON[name](a, b)

    def mod(self, a: Any, b: Any) -> Any:
        return _asked("mod", a, b) if isinstance(raw(a), (str, bytes)) else a % b

    def imod(self, a: Any, b: Any) -> Any:
        if isinstance(raw(a), (str, bytes)):
            return self.mod(a, b)
        a %= b
        return a

    def item(self, owner: Any, key: Any) -> Any:
        session = current()
        if session is None:
            return owner[key]
        if not (is_traced(owner) or holds_traced(key)):
            changed = None if is_users(type(owner)) else session.objects.value_of(owner)
            return owner[key] if changed is None else changed[key]
        if (type(owner) in PLAIN or type(owner) in COLLECTIONS) and not _is_settled(owner):
            return owner[session.plain(key) if is_traced(key) else _plain_slice(session, key)]
        return owner[key] if _goes_by_values(owner) else session.step("item", "", (owner, key))

    def special(self, owner: Any, name: str) -> Any:
        session = current()
        if session is None or not is_traced(owner):
            return self.attribute(owner, name)
        return session.step("attribute", name, (owner,))

    def slice(self, start: Any, stop: Any, step: Any) -> Any:
        return slice(start, stop, step)

    def set_(self, items: list[Any]) -> Any:
        session = current()
        if session is None or not holds_traced(items):
            return set(items)
        return session.step("function", "builtins:set", (items,))

    def dict_(self, items: list[tuple[Any, Any]]) -> Any:
        session = current()
        if session is None or not any(holds_traced(key) for key, _ in items):
            return dict(items)
        if any(changeable(item) for _, item in items):
            return {session.plain(key) if is_traced(key) else handed(key): item for key, item in items}
        return session.step("function", "builtins:dict", (items,))

    def merged(self, *parts: tuple[Any, ...]) -> Any:
        """`{**a, key: value}`: whatever keys a recorded `a` has, if nothing in it is the pipeline's own to change."""
        session = current()
        spread = [part[0] for part in parts if len(part) == 1]
        held = [item for part in spread if type(part) is dict for item in part.values()]
        held += [part[-1] for part in parts if len(part) == 2 or type(part[0]) is not dict]
        if session is None or not any(map(is_traced, spread)) or any(map(changeable, held)):
            made: dict[Any, Any] = {}
            for key, *value in parts:
                made |= {key: value[0]} if value else {**self.mapping(key)}
            return made
        merged: Any = None
        for part in parts:
            entries = session.step("python", "spread", part) if len(part) == 1 else self.dict_([part])
            merged = entries if merged is None else session.step("python", "or", (merged, entries))
        return merged

    def decided(self, value: Any) -> Any:
        """What `if`, `while` and `for` go by."""
        session = current()
        if session is not None and session.keeps_scope and not is_traced(value):
            session.chosen(value)
        return value

    def mapping(self, value: Any) -> Any:
        session = current()
        return session.mapping(value) if session is not None and is_traced(value) else value

    def plain(self, value: Any) -> Any:
        """What `match` looks at."""
        session = current()
        if session is None or not holds_traced(value):
            return value
        if is_traced(value):
            return session.plain(value)
        return session.plain(session.noted("python", "made", (session.template(value),), handed(value)))

    @contextmanager
    def trying(self, catching: bool) -> Iterator[None]:
        """What is done in here may fail, and then it goes on elsewhere."""
        session = current()
        if session is None:
            yield
            return
        session.trying += 1
        session.catching += catching
        try:
            yield
        finally:
            session.trying -= 1
            session.catching -= catching

    def context(self, manager: Any) -> Any:
        """What `with` enters: that of a library changes what its functions do, and is entered by the graph too."""
        session = current()
        root = type(raw(manager)).__module__.partition(".")[0]
        if session is None or not (root in CONTEXTS or (is_traced(manager) and _is_of_library(raw(manager)))):
            return manager
        return _inside(session, session.within(manager))

    def caught(self, error: BaseException) -> None:
        session = current()
        if session is not None:
            session.caught(error)


def _all_unrolled(given: Any) -> Any:
    if isinstance(given, dict):
        return {name: loop_steps.unrolled(value) for name, value in given.items()}
    return tuple(map(loop_steps.unrolled, given))


def _class_of(value: Any) -> type:
    """A class itself; of anything else its class, without asking the value."""
    return value if issubclass(type(value), type) else type(value)


@contextmanager
def _inside(session: Session, manager: Any) -> Iterator[Any]:
    entered = session.effect("enter", manager)
    try:
        yield entered
    except BaseException as error:
        if not operations.left(raw(manager), error):
            raise
    else:
        session.effect("leave", manager)


def _is_of_library(value: Any) -> bool:
    """Whether an object is a library's that knows nothing of recorded values; NumPy and torch ask them."""
    kind = type(value)
    if kind in PLAIN or kind in COLLECTIONS or isinstance(value, _TEXTS) or kind.__module__ == "builtins":
        return False
    return kind.__name__ not in ("ndarray", "Tensor", "EagerTensor", "ResourceVariable") and not is_users(kind)


def _asked(name: str, a: Any, b: Any) -> Any:
    session = current()
    if session is None or not (holds_traced(a) or holds_traced(b)):
        return operations.PYTHON[name](a, b)
    if name in ("is", "is not") and (type(a) in CHANGING or type(b) in CHANGING):
        return operations.PYTHON[name](a, b)  # one of the pipeline's own is never another thing
    if name in ("contains", "not in") and _goes_by_values(a):
        return operations.PYTHON[name](a, b)
    return session.step("python", name, (a, b))


def _own_method(session: Session, owner: Any, name: str, args: Any, kwargs: Any, hooks: Any) -> Any:
    """Of a container of the pipeline's own, which may hold recorded values, and is asked by one."""
    if name in _LOOKING and holds_traced(args):
        looked = name in ("get", "__getitem__")
        if not (looked and any(changeable(item) for item in _items(owner))) and not any(map(changeable, args[1:])):
            return session.step("method", name, (owner, *args), kwargs)
    if name == "sort" and type(owner) is list and (holds_traced(owner) or kwargs):
        owner[:] = list(called(session, sorted, (list(owner),), kwargs, hooks))
        return None
    if name == "get" and args and is_traced(args[0]):
        args = (session.plain(args[0]), *args[1:])
    return getattr(owner, name)(*args, **own_calls(kwargs, hooks))


def _goes_by_values(owner: Any) -> bool:
    """Whether it is an object of the pipeline's own with recorded values in it: it is seen through when it is asked."""
    return not is_traced(owner) and type(owner) not in PLAIN and type(owner) not in COLLECTIONS and hides(owner)


def _items(owner: Any) -> Any:
    return owner.values() if isinstance(owner, dict) else owner


def _is_settled(owner: Any) -> bool:
    """Whether what is found in a container may go on as a value: not if the container's own parts can be changed."""
    if isinstance(owner, defaultdict):  # what is not found is made, and is the container's own
        return False
    return not isinstance(owner, (list, tuple, dict, deque)) or not any(changeable(item) for item in _items(owner))


def _plain_slice(session: Session, key: Any) -> Any:
    if type(key) is slice:
        parts = (session.plain(one) if is_traced(one) else one for one in (key.start, key.stop, key.step))
        return slice(*parts)
    return handed(tuple(session.plain(one) if is_traced(one) else one for one in key))


HOOKS = Hooks()

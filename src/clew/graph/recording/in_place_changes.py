"""What a step changes in place: seen by comparing, and what follows from it for the pipeline's own containers."""

from __future__ import annotations

import copy
import re
import sys
from pathlib import PurePath
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from clew.errors import GraphError
from clew.graph import tensorflow
from clew.graph.nodes import Step, Where
from clew.graph.parts import (
    CHANGING,
    Pairs,
    alike,
    copied,
    found_in,
    is_filled,
    shallow,
    things_in,
    traced_in,
    untouched,
)
from clew.values import SCALARS, capture

from .purity import known_type, method_reads, only_reads
from .traced_values import Traced, is_traced, raw

if TYPE_CHECKING:
    from .session import Session

_Value = TypeVar("_Value")
UNCHANGING = (*SCALARS, frozenset, type, range, re.Pattern, PurePath)


def can_change(value: Any, seen: set[int] | None = None) -> bool:
    """Whether anybody could change a value; with tuples it depends on what is in them."""
    if type(value) is not tuple:
        return not isinstance(value, UNCHANGING) and not tensorflow.is_constant(value)
    seen = set() if seen is None else seen  # tuples, each of which is looked into once
    if id(value) in seen:
        return False
    seen.add(id(value))
    return any(can_change(item, seen) for item in value)


def deep_copied(value: _Value) -> _Value:
    """As `copy.deepcopy`, which by itself looks into a tuple that cannot change as often as it stands somewhere."""
    return copy.deepcopy(
        value, {id(thing): thing for thing in things_in(value) if type(thing) is tuple and not can_change(thing)}
    )


class Before:
    """What a call is given, as it was before it, to tell what the call has changed."""

    def __init__(self, step: Step, args: Any, kwargs: Any, pairs: Pairs) -> None:
        self.values = [(one._self_id, raw(one)) for one in traced_in((args, kwargs)) if can_change(raw(one))]
        looked = step.kind == "operator" or (step.kind == "function" and not step.target.startswith("builtins:"))
        self._digests = [capture(held).digest for _, held in self.values] if looked else []
        self.pairs = [(own, given, shallow(given)) for own, given in pairs]
        functions = [one for one in (*args, *kwargs.values()) if type(one) is FunctionType]
        cells = [cell for one in functions for cell in one.__closure__ or () if is_filled(cell)]
        self._cells = [(cell, cell.cell_contents) for cell in cells]
        self._closed = [(held, shallow(held)) for _, held in self._cells if type(held) in CHANGING]

    def changed(self) -> list[int]:
        """The recorded values that are not as they were."""
        found = zip(self.values, self._digests, strict=False)
        return [id for (id, held), digest in found if capture(held).digest != digest]

    def closures_changed(self) -> bool:
        """Whether a function it was given has changed what it sees of the pipeline."""
        if any(cell.cell_contents is not held for cell, held in self._cells):
            return True
        return not all(untouched(held, was) for held, was in self._closed)

    def touched(self, is_safe: bool) -> list[tuple[Any, Any]]:
        """The pipeline's own containers whose stand-ins are not as they were, or may not be another time."""
        return [(own, given) for own, given, was in self.pairs if not (is_safe and untouched(given, was))]


def leaves_arguments(step: Step, args: Any, result: Any) -> bool:
    """Whether a step never changes what it is given."""
    if step.kind in ("operator", "function"):
        return result is not None and only_reads(step)
    if step.kind == "method":
        return known_type(raw(args[0]))
    return step.kind != "python" or step.target != "call"


def may_change(step: Step, args: Any, result: Any, before: Before, changes: Any) -> list[int]:
    """The recorded values that a step has changed, or may change another time."""
    found = before.changed()
    for id, held in before.values:
        if hasattr(type(held), "__next__") or result is held or _is_view(result, held):
            found.append(id)  # used up; given back; looked at from another side
        elif not leaves_arguments(step, args, result):
            found.append(id)
    if changes is not None and can_change(raw(changes)):
        found.append(changes._self_id)
    reads = step.kind != "method" or (result is not None and method_reads(step, raw(args[0])))
    if not reads and is_traced(args[0]) and can_change(raw(args[0])):
        found.append(args[0]._self_id)
    return found


def _is_view(result: Any, held: Any) -> bool:
    if type(result).__name__ != "ndarray" or type(held).__name__ != "ndarray":
        return False
    import numpy as np

    return bool(np.may_share_memory(result, held))


def kept(step: Step, plain: list[Any], result: Any, pairs: Pairs) -> list[tuple[Any, Any]]:
    """The pipeline's own containers that a step has kept: in what it gave, or in what it belongs to."""
    if not pairs:
        return []
    given = [one for _, one in pairs]
    places = [result]
    if step.kind == "method" or step.target in ("setitem", "setattr", "iadd", "ior"):
        given = [one for one in given if one is not plain[0]]
        places.append(plain[0])
    elif step.kind == "operator":
        places += [held for held in plain if not any(held is one for one in given)]
    found = {id(one) for place in places for one in found_in(given, place)}
    return [(own, one) for own, one in pairs if id(one) in found]


def _references() -> int:
    """How many references to a container are counted where `Changes.check` alone knows it."""
    shared: list[tuple[list[Any], str]] = [([], "")]
    own, _ = shared[0]
    return sys.getrefcount(own)


_ALONE = _references()


class Changes:
    """What becomes of the pipeline's own containers once steps have had them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._shared: list[tuple[Any, Any, Any, Any, Where]] = []

    def share(self, own: Any, given: Any, where: Where) -> None:
        """A step has kept a container: from now on it must stay as it is, there and here."""
        self._shared.append((own, copied(own), given, copied(given), where))

    def check(self) -> None:
        for number in reversed(range(len(self._shared))):
            own, was, given, then, where = self._shared[number]
            if not (alike(own, was) and alike(given, then)):
                what = f"{where}: a {type(own).__name__} of the pipeline was kept by this step, and changed afterwards."
                raise GraphError("graph-shared", what, "Give the step a copy of it, or change it before.")
            # Once the pipeline has let go of it, it is the step's alone, and may be changed.
            if sys.getrefcount(own) <= _ALONE + self._session.holds_constant(own):
                del self._shared[number]

    def refill(self, own: Any, made: Traced) -> None:
        """The pipeline goes on with what a step has made of its container."""
        session = self._session
        if type(own) is list:
            own[:] = list(session.unpacked(made))
        elif type(own) is dict:
            items = session.mapping(made)
            own.clear()
            own.update(items)
        else:
            content = session.plain(made)
            own.clear()
            own.update(content)

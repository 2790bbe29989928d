"""Children that multiprocessing starts inside a followed call: what they do is followed, and stands under that call.

A child of `fork` is a copy of its parent, and goes on by itself; it only has to know in which call it was made. One
that is started afresh (`spawn`, `forkserver`) knows nothing. Processes that are started while a followed call runs take
along how to follow and the call they were started in; before it begins its work, the child makes every function in
scope the root of a tree. All write into the same run.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from clew.instrument import received_functions
from clew.recorder import child_processes
from clew.recorder.call_log import Trace, here

from .scope import Scope

roots: list[Trace] = []  # logs of outermost calls that are open
_are_children_told = False  # once for all: a forked child has the parcel of its parent
origin: tuple[str, int] | None = None  # the shard and call in which this process was started, where that is known
_forked_in: tuple[str, int] | None = None


def remember_origin() -> None:
    """Before a fork: the child will know this, and the parent forgets it."""
    global _forked_in, origin
    _forked_in = origin
    origin = _here()


def forget_origin() -> None:
    """In the parent, after a fork."""
    global origin
    origin = _forked_in


def _here() -> tuple[str, int] | None:
    trace = here.get(None)
    return trace.recorder.innermost(trace) if isinstance(trace, Trace) else None


def tell_children() -> None:
    """From here on children follow as the call does in which they are started."""
    global _are_children_told
    if not _are_children_told:
        _are_children_told = True
        child_processes.tell(__name__, _how_to_follow)


def _how_to_follow() -> dict[str, Any] | None:
    if not roots:
        return None
    following, trace = roots[-1].following, here.get(None)
    requests = trace.requests if isinstance(trace, Trace) else (following,)
    names = [e.text for request in requests if request.names is not None for e in request.names.expressions]
    scope = following.scope
    return {"names": names, "depth": following.depth, "only": scope.only, "skip": scope.skip, "origin": _here()}


def arrive(how: dict[str, Any]) -> None:
    """In a child: follow as it was told, once everything the child needs is imported."""
    child_processes.when_child_begins(partial(_follow, how))


def _follow(how: dict[str, Any]) -> None:
    from .following import Following

    global origin
    origin = how["origin"]
    scope = Scope(list(how["only"]), list(how["skip"]))
    following = Following(tuple(how["names"]), depth=how["depth"], scope=scope)
    following.prepare(as_roots=True)
    received_functions.on_arrival(partial(following.follow_if_in_scope, as_root=True))

"""Children that multiprocessing starts inside a followed call: what they do is followed, and stands under that call.

A child of `fork` is a copy of its parent, and goes on by itself; it only has to know in which call it was made. One
that is started afresh (`spawn`, `forkserver`) knows nothing. While a followed call runs, processes that are started
take along how to follow and the call they were started in; a child that imports clew finds that, and before it begins
its work makes every function in scope the root of a tree. All write into the same run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from clew.recorder.trace import Trace, here

from .scope import Scope

_KEY = "clew_follow"  # in the configuration that a process object carries to its child
_following: Any = None  # how calls are followed at the moment
_start: Callable[[Any], None] | None = None  # multiprocessing's own, while ours stands in its place
_asked = False
origin: tuple[str, int] | None = None  # the shard and call in which this process was started, where that is known


def remember_origin() -> None:
    """Before a fork: the child will know this, and the parent forgets it."""
    global _forked_in, origin
    _forked_in = origin
    origin = _here()


_forked_in: tuple[str, int] | None = None


def forget_origin() -> None:
    """In the parent, after a fork."""
    global origin
    origin = _forked_in


def _here() -> tuple[str, int] | None:
    trace = here.get(None)
    return trace.recorder.innermost(trace) if isinstance(trace, Trace) else None


def tell_children(following: Any) -> None:
    """From here on children follow likewise."""
    global _following, _start
    process = sys.modules.get("multiprocessing.process")
    if process is None:
        return
    _following = following
    if _start is None:
        _start = process.BaseProcess.start
        process.BaseProcess.start = _start_and_tell


def tell_children_no_more() -> None:
    global _start, _following
    if _start is not None:
        process = sys.modules["multiprocessing.process"]
        process.BaseProcess.start = _start
        _start = _following = None


def _start_and_tell(self: Any) -> None:
    start, following = _start, _following
    self._config.pop(_KEY, None)
    if following is not None:
        names = [expression.text for expression in following.names.expressions] if following.names else []
        scope = following.scope
        told = {"names": names, "depth": following.depth, "only": scope.only, "skip": scope.skip, "origin": _here()}
        self._config[_KEY] = told
    (start or type(self).start)(self)


def take_over() -> None:
    """In a child: follow as it was told, once everything the child needs is imported."""
    global _asked
    process = sys.modules.get("multiprocessing.process")
    if _asked or process is None or not getattr(process.current_process(), "_inheriting", False):
        return  # `_inheriting` while a child imports what its parent's program is made of
    _asked = True
    run = process.BaseProcess.run

    def follow_and_run(self: Any) -> Any:
        process.BaseProcess.run = run
        told = self._config.get(_KEY)
        if told:
            _follow(told)
        return run(self)

    process.BaseProcess.run = follow_and_run


def _follow(told: dict[str, Any]) -> None:
    from .following import Following

    global origin
    origin = told["origin"]
    how = Following(tuple(told["names"]), depth=told["depth"], scope=Scope(list(told["only"]), list(told["skip"])))
    how.prepare(as_roots=True)

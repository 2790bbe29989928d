"""Children that multiprocessing starts afresh (spawn, forkserver) inside a followed call: what they do is followed too.

A child knows nothing of its parent's calls. While a followed call runs, the environment says how to follow; a child
that imports clew finds that, and before it begins its work makes every function in scope the root of a tree. It writes
into the same run. (A child of `fork` is a copy of its parent, and goes on by itself.)
"""

from __future__ import annotations

import json
import os
import sys
import weakref
from typing import Any

from .scope import Scope

_VARIABLE = "CLEW_FOLLOW"
_words: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()  # made once for each way of following
_asked = False


def tell_children(following: Any) -> None:
    """From here on children follow likewise."""
    if "multiprocessing" not in sys.modules:
        return
    words = _words.get(following)
    if words is None:
        names = [expression.text for expression in following.names.expressions] if following.names else []
        told = {"names": names, "depth": following.depth, "only": following.scope.only, "skip": following.scope.skip}
        words = _words[following] = json.dumps(told)
    os.environ[_VARIABLE] = words


def tell_children_no_more() -> None:
    os.environ.pop(_VARIABLE, None)


def take_over() -> None:
    """In a child: follow as the environment says, once everything the child needs is imported."""
    global _asked
    process = sys.modules.get("multiprocessing.process")
    if _asked or process is None or not getattr(process.current_process(), "_inheriting", False):
        return  # `_inheriting` while a child imports what its parent's program is made of
    _asked = True
    try:
        told = json.loads(os.environ.pop(_VARIABLE, ""))
    except ValueError:
        return
    run = process.BaseProcess.run

    def follow_and_run(self: Any) -> Any:
        process.BaseProcess.run = run
        from .following import Following

        how = Following(tuple(told["names"]), depth=told["depth"], scope=Scope(list(told["only"]), list(told["skip"])))
        how.prepare(as_roots=True)
        return run(self)

    process.BaseProcess.run = follow_and_run

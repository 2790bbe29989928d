"""Functions that arrive by value, from another process or from a file, are instrumented like those that were loaded.

cloudpickle and dill make such a function of its code when they load it. It stands in no module, so what looks through
modules does not find it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final

from clew import trouble

_MAKERS: Final = {  # the function of each library that makes functions
    "cloudpickle.cloudpickle": "_make_function",
    "joblib.externals.cloudpickle.cloudpickle": "_make_function",
    "ray.cloudpickle.cloudpickle": "_make_function",
    "pyspark.cloudpickle.cloudpickle": "_make_function",
    "dill._dill": "_create_function",
}
_acts: Final[list[Callable[[FunctionType], None]]] = []


def on_arrival(act: Callable[[FunctionType], None]) -> None:
    """Call `act` with each function that arrives from here on."""
    _watch_makers()
    _acts.append(act)


@functools.cache
def _watch_makers() -> None:
    from wrapt import register_post_import_hook

    for library, maker in _MAKERS.items():
        register_post_import_hook(functools.partial(_stand_in, maker), library)  # at once, if it is loaded already


def _stand_in(name: str, module: Any) -> None:
    plain = getattr(module, name, None)
    if plain is None:
        return

    @functools.wraps(plain)
    def make(*args: Any, **kwargs: Any) -> Any:
        function = plain(*args, **kwargs)
        _arrived(function)
        return function

    del make.__wrapped__  # else it would be pickled as what it stands in for
    setattr(module, name, make)


@trouble.entry_point()
def _arrived(function: Any) -> None:
    if type(function) is FunctionType:
        for act in _acts:
            act(function)

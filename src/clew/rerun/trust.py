"""Checks, before anything is imported, that the function can be found by its name and that the caller trusts it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from clew.errors import RerunError
from clew.recorder import own_shards
from clew.text.brief import printable
from clew.text.values import value_line

if TYPE_CHECKING:
    from clew.reading.call import Call

_SHOWN = 12  # arguments that the error message shows
_WIDTH = 60  # characters of each argument


def require_named(call: Call) -> None:
    """Refuse functions that no name leads to: a step of a graph, a lambda, a function inside a function."""
    if call.module.startswith("clew.graph."):
        message = f"{printable(call.function)} is a step of a graph, which a run does not hold."
        remedy = "Run the graph again (clew.load, graph.run), or call the operator itself with `call.args`."
        raise RerunError("rerun-graph", message, remedy)
    unnamed = next((part for part in call.function.split(".") if part.startswith("<")), None)
    if unnamed is not None:
        raise RerunError(
            "rerun-no-name",
            f"{printable(call.function)} at {_location(call)} {_why_unnamed(unnamed)}, "
            "so it cannot be found by its name.",
            "Rerun the recorded function that called it, or call it yourself with `call.args`.",
        )


def _why_unnamed(part: str) -> str:
    if part == "<locals>":
        return "was defined inside another function"
    return "is a lambda" if part == "<lambda>" else "is not a function"


def require_trust(call: Call, trusted: bool, replace: Mapping[str, Any]) -> None:
    """Refuse unless the caller trusts the run, or this process recorded the call."""
    if trusted is True or own_shards.wrote(call.shard_folder, call._function):
        return
    function, module = printable(call.function), printable(call.module)
    raise RerunError(
        "rerun-trust",
        f"This run was not recorded by this process, and its code has not been trusted. It would run "
        f"{function}({_show_arguments({**call.args, **replace})}), which is {function} of module {module}, "
        f"at {_location(call)}.",
        "Nothing was imported or run. If you trust the run and this code: call.rerun(trusted=True).",
    )


def _location(call: Call) -> str:
    return f"{printable(call.file)}:{call.line}"


def _show_arguments(args: Mapping[str, Any]) -> str:
    shown = [f"{printable(name)}={value_line(value, width=_WIDTH)}" for name, value in islice(args.items(), _SHOWN)]
    return ", ".join([*shown, *(["..."] if len(args) > _SHOWN else [])])

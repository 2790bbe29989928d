"""The options of `clew.ModelTracer`, checked once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, get_args

from clew.errors import OptionError
from clew.probes.model.option_words import Compiled, Gather, Mode, Nonfinite, Repeats
from clew.values import Keep, parse_keep

Callback = Callable[[str, list[Any], list[int], list[int]], object]

_LAST_STEPS: Final = re.compile(r"last\s+([1-9][0-9]*)\s+(?:steps?|iterations?)\Z")


@dataclass(frozen=True, slots=True)
class Options:
    """How to trace."""

    store: bool
    keep: Keep
    ring: int  # iterations that are held in memory until something happens; 0: none
    mode: Mode
    every: int
    steps: frozenset[int] | None
    when: Callable[[int], object] | None
    pre_save: tuple[Callback, ...]
    pre_gather: tuple[Callback, ...]
    post_gather: tuple[Callback, ...]
    post_trace: tuple[Callback, ...]
    gathering_interval: int
    gathers: bool  # asked for: an interval was given
    gather: Gather
    timeout: float
    nonfinite: Nonfinite | None
    spike: float | None
    signal: int | None
    compiled: Compiled
    repeats: Repeats

    @property
    def in_memory(self) -> bool:
        """Whether values are gathered in lists, because they are not stored or somebody wants to change them there."""
        return not self.store or self.has_callbacks

    @property
    def has_callbacks(self) -> bool:
        return bool(self.pre_gather or self.post_gather or self.post_trace)


def checked(
    *,
    store: Any,
    keep: Any,
    mode: Any,
    every: Any,
    steps: Any,
    when: Any,
    pre_save: Any,
    pre_gather: Any,
    post_gather: Any,
    post_trace: Any,
    gathering_interval: Any,
    gather: Any,
    timeout: Any,
    nonfinite: Any,
    spike: Any,
    signal: Any,
    compiled: Any,
    repeats: Any,
) -> Options:
    """The options, or an error that names what is wrong."""
    for name, value, allowed in (
        ("mode", mode, get_args(Mode)),
        ("gather", gather, get_args(Gather)),
        ("compiled", compiled, get_args(Compiled)),
        ("repeats", repeats, get_args(Repeats)),
        ("nonfinite", nonfinite, (*get_args(Nonfinite), None)),
    ):
        if value not in allowed:
            raise OptionError("bad-option", f"{name}={value!r}: one of {', '.join(map(repr, allowed))} is needed.")
    interval = 1 if gathering_interval is None else gathering_interval
    for name, value in (("every", every), ("gathering_interval", interval)):
        if type(value) is not int or value < 1:
            raise OptionError("bad-option", f"{name}={value!r}: a whole number from 1 is needed.")
    for name, value in (("timeout", timeout), ("spike", spike)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0):
            raise OptionError("bad-option", f"{name}={value!r}: a number over 0 is needed.")
    if when is not None and not callable(when):
        raise OptionError("bad-option", f"when={when!r}: a function of the iteration is needed.")
    ring, kept = _keep(keep)
    return Options(
        store=bool(store),
        keep=kept,
        ring=ring,
        mode=mode,
        every=every,
        steps=None if steps is None else _steps(steps),
        when=when,
        pre_save=_callbacks("pre_save", pre_save),
        pre_gather=_callbacks("pre_gather", pre_gather),
        post_gather=_callbacks("post_gather", post_gather),
        post_trace=_callbacks("post_trace", post_trace),
        gathering_interval=interval,
        gathers=gathering_interval is not None,
        gather=gather,
        timeout=float(timeout),
        nonfinite=nonfinite,
        spike=spike,
        signal=signal,
        compiled=compiled,
        repeats=repeats,
    )


def _keep(given: Any) -> tuple[int, Keep]:
    match = _LAST_STEPS.match(given) if isinstance(given, str) else None
    if match is not None:
        return int(match[1]), parse_keep("full")
    keep = parse_keep(given)
    if keep.mode == "last":
        raise OptionError("keep", f"keep={given!r}: a tracer keeps iterations.", f'Say keep="last {keep.last} steps".')
    return 0, replace(keep, choose=None) if keep.choose is None else keep


def _steps(given: Any) -> frozenset[int]:
    steps = frozenset(given) if isinstance(given, Iterable) and not isinstance(given, str) else None
    if steps is None or not all(type(step) is int and step >= 0 for step in steps):
        raise OptionError("bad-option", f"steps={given!r}: iterations are needed, such as [0, 1, 5].")
    return steps


def _callbacks(option: str, given: Any) -> tuple[Callback, ...]:
    if given is None:
        return ()
    callbacks = (given,) if callable(given) else tuple(given) if isinstance(given, (list, tuple)) else None
    if callbacks is None or not all(map(callable, callbacks)):
        raise OptionError(
            "bad-option",
            f"{option}={given!r}: a function (name, values, iterations, ranks), or a list of them, is needed.",
        )
    return callbacks

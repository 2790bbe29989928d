"""The options of `clew.watch`, checked once, frozen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from clew.errors import OptionError
from clew.recorder.plan import Thinning
from clew.records import Change
from clew.values import Keep, keep_by_name

from .change_hooks import Hooks
from .expressions import Expression, Form, parse

Condition = str | Callable[[Change], object]


@dataclass(frozen=True, eq=False, slots=True)
class Options:
    """What one `clew.watch(...)` asks for."""

    expressions: tuple[Expression, ...]
    hooks: Hooks
    when: Expression | None
    break_when: Expression | None
    thinning: Thinning | None
    step: Expression | None
    keep: Mapping[str, Keep]  # by expression; "*" for the rest
    tags: Mapping[str, Any]
    on_return: Callable[[Any], object] | None = None
    deletions: bool = True  # whether `del` is a change; if not, the value of before goes on

    def key(self) -> tuple[object, ...]:
        """Equal keys, equal instrumented code."""
        keep = tuple(sorted(self.keep.items(), key=lambda item: item[0]))
        return (
            self.expressions, self.hooks, self.when, self.break_when, self.thinning, self.step, keep, self.on_return,
            self.deletions,
        )  # fmt: skip

    def keep_of(self, name: str) -> Keep | None:
        return self.keep.get(name) or self.keep.get("*")


def options(
    expressions: tuple[object, ...],
    *,
    when: Condition | None = None,
    every: int = 1,
    first: int | None = None,
    last: int | None = None,
    on_change: Callable[[Change], object] | None = None,
    break_when: Condition | None = None,
    step: str | None = None,
    keep: Any = None,
    show: bool = False,
    tags: Mapping[str, Any] | None = None,
    on_return: Callable[[Any], object] | None = None,
) -> Options:
    """Check everything the user gave; an error names what is wrong."""
    if not expressions:
        raise OptionError(
            "nothing-to-watch", "clew.watch() was given nothing.", 'Name something: clew.watch("loss"), or "*".'
        )
    for name, value in (("every", every), ("first", first), ("last", last)):
        if value is not None and (type(value) is not int or value < 1):
            raise OptionError("bad-option", f"{name}={value!r}: a whole number from 1 is needed.")
    if on_change is not None and not callable(on_change):
        raise OptionError("bad-option", f"on_change={on_change!r}: a function of one change is needed.")
    if on_return is not None and not callable(on_return):
        raise OptionError("bad-option", f"on_return={on_return!r}: a function of one call is needed.")
    when_text, when_call = _condition("when", when)
    break_text, break_call = _condition("break_when", break_when)
    hooks = Hooks(when_call, when_text is not None, on_change, break_call, break_text is not None, bool(show))
    thinned = every != 1 or first is not None or last is not None
    return Options(
        expressions=tuple(dict.fromkeys(parse(text) for text in expressions)),
        hooks=hooks,
        when=when_text,
        break_when=break_text,
        thinning=Thinning(every, first, last) if thinned else None,
        step=_step(step),
        keep=keep_by_name(keep),
        tags=dict(tags or {}),
        on_return=on_return,
    )


def _condition(option: str, given: Condition | None) -> tuple[Expression | None, Callable[[Change], object] | None]:
    if given is None:
        return None, None
    if isinstance(given, str):
        return parse(given), None
    if callable(given):
        return None, given
    raise OptionError(
        "bad-option", f"{option}={given!r}: an expression as text, or a function of one change, is needed."
    )


def _step(text: str | None) -> Expression | None:
    if text is None:
        return None
    expression = parse(text)
    if expression.form is Form.ALL:
        raise OptionError("bad-option", "step='*': one expression is needed.", 'For example step="epoch".')
    return expression

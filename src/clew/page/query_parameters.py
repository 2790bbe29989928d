"""Reads the parameters of a request; an invalid value raises an error that names the parameter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from clew.errors import OptionError


class Query(Mapping[str, str]):
    """The parameters of one request."""

    def __init__(self, parameters: Mapping[str, object] | None = None) -> None:
        self._parameters = {name: str(value) for name, value in (parameters or {}).items() if value is not None}

    def __getitem__(self, name: str) -> str:
        return self._parameters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def text(self, name: str, default: str = "") -> str:
        return self._parameters.get(name) or default

    def required(self, name: str) -> str:
        if not self._parameters.get(name):
            raise OptionError("bad-query", f"The question lacks `{name}=`.", "Open the page again from its address.")
        return self._parameters[name]

    def integer(self, name: str, default: int, low: int = 0, high: int = 1 << 53) -> int:
        """A whole number, clamped between `low` and `high`."""
        text = self._parameters.get(name)
        if not text:
            return default
        try:
            return min(max(int(text), low), high)
        except ValueError:
            raise self._error(name, text, "a whole number") from None

    def number(self, name: str) -> float | None:
        text = self._parameters.get(name)
        if not text:
            return None
        try:
            number = float(text)
        except ValueError:
            raise self._error(name, text, "a number") from None
        if math.isnan(number):
            raise self._error(name, text, "a number")
        return number

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of `choices`; the first one by default."""
        text = self._parameters.get(name) or choices[0]
        if text not in choices:
            raise self._error(name, text, " or ".join(choices))
        return text

    def flag(self, name: str, default: bool = False) -> bool:
        text = self._parameters.get(name, "")
        return default if not text else text not in ("0", "false", "no")

    @staticmethod
    def _error(name: str, text: str, expected: str) -> OptionError:
        return OptionError("bad-query", f"`{name}={text[:60]}` is not {expected}.", "Open the page again.")

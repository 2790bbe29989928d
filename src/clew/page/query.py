"""What was asked, one parameter after the other; nonsense is an error that names the parameter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from clew.errors import OptionError


class Query(Mapping[str, str]):
    """The parameters of one question."""

    def __init__(self, given: Mapping[str, object] | None = None) -> None:
        self._given = {name: str(value) for name, value in (given or {}).items() if value is not None}

    def __getitem__(self, name: str) -> str:
        return self._given[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def text(self, name: str, default: str = "") -> str:
        return self._given.get(name) or default

    def needed(self, name: str) -> str:
        if not self._given.get(name):
            raise OptionError("bad-query", f"The question lacks `{name}=`.", "Open the page again from its address.")
        return self._given[name]

    def whole(self, name: str, default: int, low: int = 0, high: int = 1 << 53) -> int:
        """A whole number, held between `low` and `high`."""
        given = self._given.get(name)
        if not given:
            return default
        try:
            return min(max(int(given), low), high)
        except ValueError:
            raise self._wrong(name, given, "a whole number") from None

    def number(self, name: str) -> float | None:
        given = self._given.get(name)
        if not given:
            return None
        try:
            found = float(given)
        except ValueError:
            raise self._wrong(name, given, "a number") from None
        if math.isnan(found):
            raise self._wrong(name, given, "a number")
        return found

    def one_of(self, name: str, known: tuple[str, ...]) -> str:
        """One of some words; the first if none is given."""
        given = self._given.get(name) or known[0]
        if given not in known:
            raise self._wrong(name, given, " or ".join(known))
        return given

    def yes(self, name: str, default: bool = False) -> bool:
        given = self._given.get(name, "")
        return default if not given else given not in ("0", "false", "no")

    @staticmethod
    def _wrong(name: str, given: str, wanted: str) -> OptionError:
        return OptionError("bad-query", f"`{name}={given[:60]}` is not {wanted}.", "Open the page again.")

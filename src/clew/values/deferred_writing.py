"""Values whose written form is made by the thread that writes, not by the program's."""

from __future__ import annotations

from clew.records import Value


class Later:
    """Something clew alone holds, on its way to the store."""

    __slots__ = ()

    @property
    def size(self) -> int:
        """Bytes it holds meanwhile."""
        raise NotImplementedError

    def value(self) -> Value:
        """Its written form."""
        raise NotImplementedError

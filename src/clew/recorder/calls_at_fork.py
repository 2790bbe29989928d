"""Calls that were open when their process forked, as the child sees them.

They are the parent's: most children run something else and end. One that goes on in the child, because something
changes in it or it ends there, is written into the child's shard too. For all others it is enough to know that the
calls the child makes belong to them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from clew.records import Origin

from .live_call import MOMENT

if TYPE_CHECKING:
    from .live_call import LiveCall


class InheritedCalls:
    def __init__(self, calls: Iterable[LiveCall] = (), shard: str = "") -> None:
        self.calls = {call.id: call for call in calls}
        # the same number stands for the call in both shards
        self._origins = [Origin(number, shard, number) for number in self.calls] if shard else []

    def take_active(self) -> list[LiveCall]:
        """The calls in which something has changed here. They are this process's from now on."""
        active = [call for call in self.calls.values() if any(site != MOMENT for site in call.log[1::2])]
        return [self.calls.pop(call.id) for call in active]

    def take_ended(self, ended: Iterable[LiveCall]) -> list[LiveCall]:
        """Those of the calls that have ended here."""
        return [self.calls.pop(call.id) for call in ended if call.id in self.calls]

    def take_origins(self) -> list[Origin]:
        """What the shard must hold for readers to find them in the parent's; once."""
        origins, self._origins = self._origins, []
        return origins

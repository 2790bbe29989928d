"""How much the reference differs from itself, place by place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from clew.compare.judge import Floats, places_of

if TYPE_CHECKING:
    from clew.compare.judge import Verdict
    from clew.compare.side import Ints


@dataclass(slots=True)
class _Place:
    rows: Ints  # where the reference's two runs were apart, ascending
    largest: Floats  # the largest distance up to there


class Noise:
    """The noise of a place at a moment: the largest distance of the two reference runs there, up to that moment.

    What repeats exactly has the noise 0; of what was not compared there is none. What differs between the reference's
    own runs and is no number, has endless noise: it says nothing.
    """

    def __init__(self, verdict: Verdict, functions: Ints, factor: float) -> None:
        self.factor = factor
        self._known = {place for place, one in verdict.places.items() if one.compared}
        self._places: dict[int, _Place] = {}
        self.repeats = sum(1 for one in verdict.places.values() if one.compared and not one.differ)
        self.varies = sum(1 for one in verdict.places.values() if one.differ)
        self._fill(verdict, functions)

    def _fill(self, verdict: Verdict, functions: Ints) -> None:
        places = places_of(functions[verdict.pair], verdict.token)
        order = np.lexsort((verdict.at, places))
        places, rows, sizes = places[order], verdict.at[order], verdict.magnitude[order]
        cuts = np.flatnonzero(np.diff(places)) + 1
        for some in np.split(np.arange(len(places)), cuts):
            if len(some):
                self._places[int(places[some[0]])] = _Place(rows[some], np.maximum.accumulate(sizes[some]))

    def at(self, places: Ints, rows: Ints) -> Floats:
        """The noise itself; NaN where it is not known."""
        out = np.full(len(places), np.nan)
        for place in np.unique(places).tolist():
            mask = places == place
            if place not in self._known:
                continue
            found = self._places.get(place)
            if found is None:
                out[mask] = 0.0
                continue
            at = np.searchsorted(found.rows, rows[mask], side="right") - 1
            out[mask] = np.where(at >= 0, found.largest[np.maximum(at, 0)], 0.0)
        return out

    def allowed(self, places: Ints, rows: Ints) -> Floats:
        """How far apart values may be before they count as different."""
        noise = self.at(places, rows)
        with np.errstate(all="ignore"):
            return np.where(np.isinf(noise), np.inf, noise * self.factor)

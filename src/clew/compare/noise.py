"""Measures how much the reference differs from itself, place by place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from clew.compare.judge import Floats, places_of

if TYPE_CHECKING:
    from clew.compare.judge import Verdict
    from clew.compare.side import Ints


@dataclass(slots=True)
class _PlaceNoise:
    rows: Ints  # where the two reference runs differ, ascending
    largest: Floats  # the largest distance up to that row


class Noise:
    """The noise of a place at a moment: the largest distance of the two reference runs there, up to that moment.

    A place that repeats exactly has the noise 0; one that was not compared has none. A value that differs between the
    reference runs and is not a number has infinite noise: any difference is allowed there.
    """

    def __init__(self, verdict: Verdict, functions: Ints, factor: float) -> None:
        self.factor = factor
        self._compared = {place for place, agreement in verdict.places.items() if agreement.compared}
        self.repeats = sum(1 for agreement in verdict.places.values() if agreement.compared and not agreement.differ)
        self.varies = sum(1 for agreement in verdict.places.values() if agreement.differ)
        self._noise_by_place: dict[int, _PlaceNoise] = {}
        places = places_of(functions[verdict.pair], verdict.token)
        order = np.lexsort((verdict.at, places))
        places, rows, sizes = places[order], verdict.at[order], verdict.magnitude[order]
        cuts = np.flatnonzero(np.diff(places)) + 1
        for group in np.split(np.arange(len(places)), cuts):
            if len(group):
                noise = _PlaceNoise(rows[group], np.maximum.accumulate(sizes[group]))
                self._noise_by_place[int(places[group[0]])] = noise

    def at(self, places: Ints, rows: Ints) -> Floats:
        """The noise at these rows; NaN where it is unknown."""
        out = np.full(len(places), np.nan)
        for place in np.unique(places).tolist():
            mask = places == place
            if place not in self._compared:
                continue
            noise = self._noise_by_place.get(place)
            if noise is None:
                out[mask] = 0.0
                continue
            at = np.searchsorted(noise.rows, rows[mask], side="right") - 1
            out[mask] = np.where(at >= 0, noise.largest[np.maximum(at, 0)], 0.0)
        return out

    def allowed(self, places: Ints, rows: Ints) -> Floats:
        """How far apart values may be without counting as different."""
        noise = self.at(places, rows)
        with np.errstate(all="ignore"):
            return np.where(np.isinf(noise), np.inf, noise * self.factor)

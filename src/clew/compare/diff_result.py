"""`Diff`, the result of `clew.diff`."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from clew.compare.agreement import Node, by_place, by_step
from clew.compare.circumstances import Circumstance, differing_circumstances
from clew.compare.comparison import Comparison, json_step, json_value
from clew.compare.difference import Difference, Differences
from clew.compare.judge import split_place
from clew.compare.only_in_one import OnlyIn, only_in

if TYPE_CHECKING:
    from clew.compare.judge import Progress
    from clew.compare.settings import Settings
    from clew.reading.run import Run

PAGE = 100
_STATUS_NOTES = {
    "running": "is still running: only what it has recorded so far is compared",
    "incomplete": "could not be recorded to its end: only what it had written by then is compared",
    "killed": "was killed: only what it had written by then is compared",
    "interrupted": "was interrupted: only what it did before is compared",
    "failed": "ended with an exception: only what it did before is compared",
}


class NotCompared:
    """Values of one place that could not be compared, because too little of them was kept."""

    __slots__ = ("count", "function", "name", "why")

    def __init__(self, name: str, function: str, count: int, why: str) -> None:
        self.name = name
        self.function = function
        self.count = count
        self.why = why

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "function": self.function, "count": self.count, "why": self.why}

    def __repr__(self) -> str:
        return f"<{self.count:,} of {self.name} in {self.function} not compared: {self.why}>"


class Diff:
    """Two compared runs. True if there is a difference, as a list of differences would be: `if clew.diff(a, b): ...`.

    `equal` is stricter than "no value differs": it also requires that neither run has anything the other lacks, and
    that there was anything to compare at all.
    """

    def __init__(
        self, a: Run, b: Run, settings: Settings, reference: Run | None = None, progress: Progress | None = None
    ) -> None:
        self.a = a
        self.b = b
        self.reference = reference
        self.settings = settings
        self._comparison = Comparison(a, b, reference, settings, progress)

    # ---- what differs

    @property
    def first(self) -> Difference | None:
        """The first value that differs, in the order of time of the first run; None if none does."""
        return self.differences[0] if len(self._comparison) else None

    @property
    def differences(self) -> Differences:
        """Every value that differs, in the order of time of the first run. Lazy: slice it to page through it."""
        return Differences(self._comparison, range(len(self._comparison)))

    @cached_property
    def only_in_a(self) -> OnlyIn:
        """Calls and values that only the first run has."""
        return only_in(self._comparison, 0)

    @cached_property
    def only_in_b(self) -> OnlyIn:
        """Calls and values that only the second run has."""
        return only_in(self._comparison, 1)

    @cached_property
    def not_compared(self) -> list[NotCompared]:
        """Values that both runs have, but of which too little was kept to compare them."""
        comparison = self._comparison
        entries = []
        for (place, why), (count, _) in comparison.verdict.not_compared.items():
            function, token = split_place(place)
            name = comparison.token_name(token)[1]
            entries.append(NotCompared(name, str(comparison.a.vocabularies.functions.name(function)), count, why))
        return entries

    @property
    def renamed(self) -> dict[str, str]:
        """Functions of the first run that were taken for functions of another name in the second."""
        return dict(self._comparison.calls.renamed)

    @property
    def compared(self) -> int:
        """How many values were compared."""
        return self._comparison.verdict.compared

    @property
    def equal(self) -> bool:
        """Whether nothing differs. With `common=True` only what both runs have is judged."""
        if len(self._comparison) or not self.compared:
            return False
        return self.settings.common or not (len(self.only_in_a) or len(self.only_in_b))

    def __bool__(self) -> bool:
        return not self.equal

    # ---- the tree

    def tree(self, *, full: bool = False) -> str:
        """Where the runs agree and where not, by function and module path, and by step; folded unless `full`."""
        from clew.show.diff import tree_text

        return tree_text(self.places.to_dict(), self.steps.to_dict(), full=full)

    @cached_property
    def places(self) -> Node:
        """The tree of agreement by function, module path and name."""
        return by_place(self._comparison)

    @cached_property
    def steps(self) -> Node:
        """The agreement by step; without children if no steps were recorded."""
        return by_step(self._comparison)

    # ---- the report

    @cached_property
    def circumstances(self) -> list[Circumstance]:
        """Arguments, tags, seeds, variables, commits and packages in which the two runs were started differently."""
        return differing_circumstances(self.a, self.b)

    @cached_property
    def notes(self) -> list[str]:
        """What else a reader should know: runs that are still running, that are damaged, or that are the same."""
        notes = []
        if self.a.path == self.b.path:
            notes.append("both are the same run")
        runs = [("A", self.a), ("B", self.b), *([("the reference", self.reference)] if self.reference else [])]
        for name, run in runs:
            if run.status in _STATUS_NOTES:
                notes.append(f"{name} {_STATUS_NOTES[run.status]}")
            notes += [f"{name} is incomplete or damaged: {problem}" for problem in run.problems]
        for name, side in (("A", self._comparison.a), ("B", self._comparison.b)):
            lost_values = int(np.count_nonzero((side.call < 0) & (side.token >= 0)))
            if lost_values:
                notes.append(f"{name} has {lost_values:,} values whose call was lost; they were left out")
        notes += [f"nothing in either run is called `{pattern}`" for pattern in self._comparison.unmatched_patterns]
        for (dtype_a, dtype_b), count in self._comparison.verdict.dtypes.most_common():
            values = "1 array is" if count == 1 else f"{count:,} arrays are"
            notes.append(f"{values} {dtype_a} in A and {dtype_b} in B; their numbers were compared after widening")
        return notes + self._notes_if_nothing_was_compared() + self._notes_on_noise()

    def _notes_if_nothing_was_compared(self) -> list[str]:
        if self.compared:
            return []
        counts = [len(side.table) for side in (self._comparison.a, self._comparison.b)]
        if not all(counts):
            empty = " and ".join(name for name, count in zip("AB", counts, strict=True) if not count)
            return [f"nothing was compared: {empty} recorded nothing. `clew show` lists what a run holds"]
        remedy = "map= gives the names that the second run uses for functions and names of the first"
        return [f"nothing was compared: the runs have no call and name in common; {remedy}"]

    def _notes_on_noise(self) -> list[str]:
        noise = self._comparison.noise
        if noise is None:
            return []
        vary = "1 place varies" if noise.varies == 1 else f"{noise.varies:,} places vary"
        notes = [f"{vary} between A and the reference; differences are reported as multiples of that"]
        if noise.repeats:
            repeat = "1 place repeats" if noise.repeats == 1 else f"{noise.repeats:,} places repeat"
            beyond = " beyond the given tolerance" if self.settings.explicit_tolerance is not None else ""
            notes.append(f"{repeat} exactly there: the noise is zero, and any difference{beyond} counts")
        return notes + self._notes_on_reference()

    def _notes_on_reference(self) -> list[str]:
        same = [
            name for name, run in (("A", self.a), ("B", self.b)) if self.reference and run.path == self.reference.path
        ]
        remedy = "give another run of the same program as A, or its noise remains unknown"
        return [f"the reference is {' and '.join(same)} itself: {remedy}"] if same else []

    def summary(self) -> dict[str, Any]:
        """The figures, as in `to_dict`."""
        verdict = self._comparison.verdict
        return {
            "equal": self.equal,
            "compared": verdict.compared,
            "identical": verdict.identical,
            "within": verdict.within,
            "within_worst": json_value(verdict.within_worst),
            "within_first": self._within_first(),
            "differ": len(self._comparison),
            "by_hash": verdict.by_hash,
            "by_summary": verdict.by_summary,
            "not_compared": sum(entry.count for entry in self.not_compared),
            "only_in_a": {"calls": self.only_in_a.calls, "values": self.only_in_a.values},
            "only_in_b": {"calls": self.only_in_b.calls, "values": self.only_in_b.values},
            "calls": len(self._comparison.calls.a) - 1,
        }

    def _within_first(self) -> dict[str, Any] | None:
        """The earliest value that is within the tolerance but not identical: where small differences begin."""
        first = self._comparison.verdict.within_first
        if first is None:
            return None
        side, row = self._comparison.a, first[0]
        token = int(side.token_of(np.array([row]))[0])
        call = side.call_object(int(side.call_of(np.array([row]))[0]))
        function = "" if call is None else call.function
        step = json_step(side.step_of(first[3]))
        return {"name": self._comparison.token_name(token)[1], "function": function, "step": step}

    def to_dict(self, *, offset: int = 0, limit: int = PAGE) -> dict[str, Any]:
        """Everything as plain data that JSON can hold; of the differences, `limit` from `offset` on.

        - `runs`: `a`, `b`, `reference` (or null), each with `path`, `name`, `status`, `problems`
        - `settings`: `rtol`, `atol`, `ulp` (null: not given), `defaults` (by dtype; null where they do not hold),
          `noise` (the allowed multiple; null without a reference), `ignore`, `only`, `map`, `common`
        - `summary`: `equal`, and how many values were `compared`; were `identical`, bit for bit; were not identical but
          `within` the tolerance (`within_worst`: the largest absolute difference among them; `within_first`: null, or
          `name`, `function` and `step` of the earliest of them); `differ`; were compared `by_hash`
          or `by_summary` because their bytes were not kept; were `not_compared`. `only_in_a`, `only_in_b`: `calls`,
          `values`. `calls`: pairs of calls
        - `first`: null, or a difference
        - `differences`: `total`, `offset`, `limit`, and `items`, each a difference:
            `index` (in the order of time of the first run), `name`, `what` (change, argument, result, exception),
            `function`, `step` (or null), `ordinal` (which of how many calls of that function), `time` (seconds),
            `held` ("a" or "b" if that run had no change there and held the value from before, else ""),
            `a` and `b`: `name`, `value` (short text), `file`, `line`, `call` (null, or `function`, `module`, `file`,
            `line`, `shard`, `id`, `rank`, `thread`, `stage`, `step`, `start`, `path`: the functions around it),
            `inputs`: a list of `name`, `a`, `b` (short texts), `equal` (null: unknown, or in one run only),
            `measure`: those that can be measured of `max_abs`, `max_rel`, `max_ulp`, `cosine`, `count` (elements beyond
            the tolerance), `inexact` (elements that are not equal), `total`, `first_index`, `first_values`,
            `worst_index`, `nan`, `inf` (how many in each), `nonfinite_index`, `shapes`, `dtypes` (if they are not
            the same), `path` (inside a container), `note`,
            `noise`, `multiple` (null without a reference), `role` (producer, propagator, unknown), `reason`
        - `only_in_a`, `only_in_b`: lists of `what` (call, change, argument, result, exception), `name`, `function`,
          `calls`, `values`, `step`, `file`, `line`
        - `not_compared`: a list of `name`, `function`, `count`, `why`
        - `renamed`: functions of the first run → what they are taken to be in the second
        - `tree`: `places` and `steps`, each a node: `label`, `path`, `kind` (run, function, module, value, steps,
          step), `compared`, `differ`, `worst` (the largest absolute difference), `children`
        - `circumstances`: a list of `kind` (script, argument, tag, seed, variable, commit, package, python, host,
          platform), `name`, `a`, `b` (null: absent)
        - `notes`: sentences

        NaN and infinities are the texts "NaN", "Infinity", "-Infinity".
        """
        first = self.first
        page = self.differences[offset : offset + limit]
        values = {
            "runs": {
                "a": _run_values(self.a),
                "b": _run_values(self.b),
                "reference": None if self.reference is None else _run_values(self.reference),
            },
            "settings": self.settings.to_dict(),
            "summary": self.summary(),
            "first": None if first is None else first.to_dict(),
            "differences": {
                "total": len(self.differences),
                "offset": offset,
                "limit": limit,
                "items": [difference.to_dict() for difference in page],
            },
            "only_in_a": [missing.to_dict() for missing in self.only_in_a],
            "only_in_b": [missing.to_dict() for missing in self.only_in_b],
            "not_compared": [entry.to_dict() for entry in self.not_compared],
            "renamed": self.renamed,
            "tree": {"places": self.places.to_dict(), "steps": self.steps.to_dict()},
            "circumstances": [circumstance.to_dict() for circumstance in self.circumstances],
            "notes": self.notes,
        }
        data: dict[str, Any] = json_value(values)
        return data

    def to_json(self, *, offset: int = 0, limit: int = PAGE) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(offset=offset, limit=limit), allow_nan=False, indent=2)

    def text(self, *, differences: int = 10, full: bool = False) -> str:
        """A report for people: the figures, the first difference, some that follow, the tree, and the notes."""
        from clew.show.diff import diff_lines

        lines = diff_lines(self.to_dict(limit=differences + 1), full=full)
        return "\n".join(text for text, _ in lines)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        state = "equal" if self.equal else f"{len(self._comparison):,} differences"
        return f"<Diff of {self.a.name} and {self.b.name}: {self.compared:,} values compared, {state}>"

    def _repr_html_(self) -> str:
        from clew.show.diff import diff_html

        return diff_html(self.to_dict(limit=10))


def _run_values(run: Run) -> dict[str, Any]:
    return {"path": str(run.path), "name": run.name, "status": run.status, "problems": run.problems}

"""`trace.check()`: what changed between the stages, with a warning for each of the usual mistakes.

The rules are in `checks`, one file for each family. A rule that fails says so in the findings, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from clew import trouble
from clew.history.checks.changes import changes
from clew.history.checks.clash import clashes
from clew.history.checks.finding import Finding, Findings
from clew.history.checks.groups import groups
from clew.history.checks.loss import labels
from clew.history.checks.missing import missing
from clew.history.checks.model import into_models
from clew.history.checks.same import same
from clew.history.checks.seen import Seen, merged
from clew.history.checks.twins import twins
from clew.history.checks.ways import ways

if TYPE_CHECKING:
    from clew.history.trace import Trace

Rule = Callable[[Seen], Iterator[Finding]]

#: In the order in which their findings are read: what made the program fail comes first.
RULES: Final[tuple[Rule, ...]] = (
    clashes,
    ways,
    twins,
    missing,
    lambda seen: merged(into_models(seen)),
    lambda seen: merged(labels(seen)),
    same,
    groups,
    changes,
)


def check(trace: Trace) -> Findings:
    """Everything that was found; true if there is a warning."""
    seen = Seen(trace)
    return Findings(finding for rule in RULES for finding in _guarded(rule, seen))


def _guarded(rule: Rule, seen: Seen) -> list[Finding]:
    found: list[Finding] = []
    try:
        found.extend(rule(seen))
    except Exception as cause:
        trouble.report("check", "a rule of trace.check() failed", "Please tell us.", cause, internal=True)
        text = f"A rule could not be applied ({type(cause).__name__}): what it looks for is not known."
        found.append(Finding("check-failed", "note", "", "", (), text))
    return found


__all__ = ["Finding", "Findings", "check"]

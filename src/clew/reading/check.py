"""`trace.check()`: what changed between the stages, with a warning for each of the usual mistakes.

The rules are in `checks`, one file per family. A rule that fails adds a finding that says so, and the others still run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from clew import trouble
from clew.reading.checks.changes import changes
from clew.reading.checks.collate_clashes import collate_clashes
from clew.reading.checks.dropped_items import dropped_or_repeated_items
from clew.reading.checks.equal_items import equal_items
from clew.reading.checks.evidence import Evidence, merged
from clew.reading.checks.finding import Finding, Findings
from clew.reading.checks.labels import unsuitable_labels
from clew.reading.checks.model_inputs import unsuitable_model_inputs
from clew.reading.checks.nonfinite import missing_values
from clew.reading.checks.ranges import differing_ranges
from clew.reading.checks.uniform_batches import uniform_batches

if TYPE_CHECKING:
    from clew.reading.trace import Trace

Rule = Callable[[Evidence], Iterator[Finding]]

#: In the order in which findings are shown: what made the program fail comes first.
RULES: Final[tuple[Rule, ...]] = (
    collate_clashes,
    dropped_or_repeated_items,
    equal_items,
    missing_values,
    lambda evidence: merged(unsuitable_model_inputs(evidence)),
    lambda evidence: merged(unsuitable_labels(evidence)),
    uniform_batches,
    differing_ranges,
    changes,
)


def check(trace: Trace) -> Findings:
    """Run every rule on the trace; the result is true if it holds a warning."""
    evidence = Evidence(trace)
    return Findings(finding for rule in RULES for finding in _apply_rule(rule, evidence))


def _apply_rule(rule: Rule, evidence: Evidence) -> list[Finding]:
    findings: list[Finding] = []
    try:
        findings.extend(rule(evidence))
    except Exception as cause:
        trouble.report("check", "a rule of trace.check() failed", "Please tell us.", cause, internal=True)
        text = f"A rule could not be applied ({type(cause).__name__}): what it looks for is not known."
        findings.append(Finding("check-failed", "note", "", "", (), text))
    return findings


__all__ = ["Finding", "Findings", "check"]

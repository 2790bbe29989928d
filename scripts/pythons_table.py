"""What `make test` ran on which Python: a table of the logs that scripts/test-on keeps in build/tests.

    python scripts/pythons_table.py build/tests 3.11 3.12 ...

A version without a log has a line with the reason, from the `.missing` file beside them.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

COUNTS = ("passed", "failed", "errors", "skipped", "deselected")
_CLOSING = re.compile(r"^=* ?((?:\d+ [a-z]+(?:, )?)+) in [0-9.]+s")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_SKIPPED = re.compile(r"^SKIPPED \[(\d+)\] \S+?: (.*)")


def row(log: str) -> dict[str, str]:
    """What one log says."""
    lines = log.splitlines()
    heading = re.match(r"== Python (\S+), (\w+) tests", log)
    version, chosen = heading.groups() if heading else ("?", "?")
    closing = next((match[1] for line in reversed(lines) if (match := _CLOSING.match(line))), None)
    counts = {} if closing is None else dict.fromkeys(COUNTS, "0")
    for count, word in re.findall(r"(\d+) ([a-z]+)", closing or ""):
        counts["errors" if word == "error" else word] = count
    reasons: Counter[str] = Counter()
    for line in lines:
        if skipped := _SKIPPED.match(line):
            reasons[skipped[2]] += int(skipped[1])
    left_out = next((line.partition(", without ")[2] for line in lines if line.startswith("clew: ")), "")
    why = [f"{reason} ({count})" for reason, count in reasons.most_common()]
    if left_out:
        why.insert(0, f"the files that need {left_out}")
    return {"python": version, "tests": chosen, **dict.fromkeys(COUNTS, "?"), **counts, "why": "; ".join(why)}


def table(folder: Path, versions: list[str]) -> str:
    """The logs of these versions, a line each, and below it why tests were skipped."""
    lines = [f"{'Python':<10} {'tests':<7}" + "".join(f"{count:>11}" for count in COUNTS)]
    notes: list[str] = []
    retries: list[str] = []
    for version in versions:
        log, missing = folder / f"{version}.log", folder / f"{version}.missing"
        if log.exists():
            found = row(log.read_text(errors="replace"))
            lines.append(f"{found['python']:<10} {found['tests']:<7}" + "".join(f"{found[c]:>11}" for c in COUNTS))
            if found["why"]:
                notes.append(f"  {found['python']}: {found['why']}")
            if (folder / f"{version}.retry.log").exists():
                failures = _FAILED.findall(log.read_text(errors="replace"))
                retries.append(f"  {found['python']}: {', '.join(failures)}")
        else:
            reason = missing.read_text(errors="replace").strip() if missing.exists() else ""
            reason = reason or "the run ended before it, or it is not on this machine"
            lines.append(f"{version:<10} not tested: {reason}")
    if notes:
        lines += ["left out or skipped:", *notes]
    if retries:
        lines += ["failed beside other tests and ran once more, alone:", *retries]
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(Path(sys.argv[1]), sys.argv[2:]))

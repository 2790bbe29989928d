"""Holds what `trace.check()` found and renders it: warnings first, then the changes from stage to stage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

from clew.show.notebook import safe
from clew.text.brief import brief, printable

Level = Literal["warning", "note"]
CHANGE = "change"
_NAMED = 6  # items that a sentence names


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check: a warning or a note."""

    kind: str  # "nan-appears"
    level: Level
    stage: str
    function: str
    items: tuple[Any, ...]  # the ids of the items concerned
    text: str  # a full sentence, including the figures
    remedy: str = ""

    @property
    def place(self) -> str:
        """`model · Net.forward`."""
        return " · ".join(printable(part) for part in (self.stage, self.function) if part)

    def __str__(self) -> str:
        return " ".join(filter(None, [f"{self.kind}  {self.place}:", self.text, self.remedy]))


class Findings(Sequence[Finding]):
    """All findings of a check; true if there is a warning. `print` and notebooks show the same content."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self._findings = sorted(findings, key=lambda finding: finding.level != "warning")  # stable: else in given order

    @property
    def warnings(self) -> list[Finding]:
        return [finding for finding in self._findings if finding.level == "warning"]

    @property
    def notes(self) -> list[Finding]:
        return [finding for finding in self._findings if finding.level == "note"]

    def __len__(self) -> int:
        return len(self._findings)

    def __bool__(self) -> bool:
        return any(finding.level == "warning" for finding in self._findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._findings)

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> Findings: ...
    def __getitem__(self, index: int | slice) -> Any:
        return Findings(self._findings[index]) if isinstance(index, slice) else self._findings[index]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, (Findings, list, tuple)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        lines = [self._head()]
        for finding in [*self.warnings, *self._hints()]:
            lines += ["", f"{finding.level}: {finding.kind}  {finding.place}", f"  {finding.text}"]
            lines += [f"  {finding.remedy}"] if finding.remedy else []
        rows = [("stage", "function", "what changed"), *self._changes()]
        if len(rows) > 1:
            widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
            lines += ["", *(f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c}" for a, b, c in rows)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        cell = 'style="text-align:left;vertical-align:top;padding:1px 10px 1px 0"'
        parts = [f"<p><b>{safe(self._head())}</b></p>"]
        for finding in [*self.warnings, *self._hints()]:
            remedy = f"<br><i>{safe(finding.remedy)}</i>" if finding.remedy else ""
            head = f"<b>{safe(finding.level)}: {safe(finding.kind)}</b> {safe(finding.place)}"
            parts.append(f"<p>{head}<br>{safe(finding.text)}{remedy}</p>")
        rows = [("stage", "function", "what changed"), *self._changes()]
        if len(rows) > 1:
            row_cells = ("".join(f"<td {cell}>{safe(text)}</td>" for text in row) for row in rows)
            parts.append("<table>" + "".join(f"<tr>{row}</tr>" for row in row_cells) + "</table>")
        return f"<div>{''.join(parts)}</div>"

    def _head(self) -> str:
        count = len(self.warnings)
        if not self._findings:
            return "No warnings, and nothing changed between the stages."
        return "No warnings." if not count else "1 warning." if count == 1 else f"{count:,} warnings."

    def _hints(self) -> list[Finding]:
        return [finding for finding in self.notes if finding.kind != CHANGE]

    def _changes(self) -> list[tuple[str, str, str]]:
        """One line per change; consecutive changes of one function show its stage and name once."""
        lines: list[tuple[str, str, str]] = []
        previous_place = ("", "")
        for finding in self.notes:
            if finding.kind == CHANGE:
                place = printable(finding.stage), printable(finding.function)
                lines.append((*(("", "") if place == previous_place else place), finding.text))
                previous_place = place
        return lines


def item_names(items: Sequence[Any]) -> str:
    """`item 7`, `items 3, 5 and 8 more`."""
    if len(items) == 1:
        return f"item {brief(items[0], 40)}"
    named = [brief(item, 40) for item in items[:_NAMED]]
    more = len(items) - len(named)
    return f"items {', '.join(named)} and {more:,} more" if more else f"items {listed(named)}"


def listed(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else ""


def repetition(count: int) -> str:
    """A sentence that says that `count` more calls had the same finding; empty for none."""
    return f" The same in {counted(count, 'more call')}." if count else ""


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"

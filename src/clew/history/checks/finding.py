"""What a check found, as people read it: warnings first, then what changed from stage to stage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

from clew.show.notebook import safe
from clew.show.text import brief, printable

Level = Literal["warning", "note"]
CHANGE = "change"
_NAMED = 6  # items that are named in a sentence


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found: a warning, or a note for whoever wants to know."""

    kind: str  # "nan-appears"
    level: Level
    stage: str
    function: str
    items: tuple[Any, ...]  # the ids of the items it is about
    text: str  # a sentence, with the figures
    remedy: str = ""

    @property
    def place(self) -> str:
        """`model · Net.forward`."""
        return " · ".join(printable(part) for part in (self.stage, self.function) if part)

    def __str__(self) -> str:
        return " ".join(filter(None, [f"{self.kind}  {self.place}:", self.text, self.remedy]))


class Findings(Sequence[Finding]):
    """All that was found: true if there is a warning. `print` and a notebook show the same."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        found = list(findings)
        self._found = [one for one in found if one.level == "warning"] + [one for one in found if one.level == "note"]

    @property
    def warnings(self) -> list[Finding]:
        return [one for one in self._found if one.level == "warning"]

    @property
    def notes(self) -> list[Finding]:
        return [one for one in self._found if one.level == "note"]

    def __len__(self) -> int:
        return len(self._found)

    def __bool__(self) -> bool:
        return any(one.level == "warning" for one in self._found)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._found)

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> Findings: ...
    def __getitem__(self, index: int | slice) -> Any:
        return Findings(self._found[index]) if isinstance(index, slice) else self._found[index]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, (Findings, list, tuple)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        lines = [self._head()]
        for one in [*self.warnings, *self._hints()]:
            lines += ["", f"{one.level}: {one.kind}  {one.place}", f"  {one.text}"]
            lines += [f"  {one.remedy}"] if one.remedy else []
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
        for one in [*self.warnings, *self._hints()]:
            remedy = f"<br><i>{safe(one.remedy)}</i>" if one.remedy else ""
            head = f"<b>{safe(one.level)}: {safe(one.kind)}</b> {safe(one.place)}"
            parts.append(f"<p>{head}<br>{safe(one.text)}{remedy}</p>")
        rows = [("stage", "function", "what changed"), *self._changes()]
        if len(rows) > 1:
            told = ("".join(f"<td {cell}>{safe(text)}</td>" for text in row) for row in rows)
            parts.append("<table>" + "".join(f"<tr>{row}</tr>" for row in told) + "</table>")
        return f"<div>{''.join(parts)}</div>"

    def _head(self) -> str:
        count = len(self.warnings)
        if not self._found:
            return "No warnings, and nothing changed between the stages."
        return "No warnings." if not count else "1 warning." if count == 1 else f"{count:,} warnings."

    def _hints(self) -> list[Finding]:
        return [one for one in self.notes if one.kind != CHANGE]

    def _changes(self) -> list[tuple[str, str, str]]:
        """One line for each; the stage and the function are not said twice."""
        lines: list[tuple[str, str, str]] = []
        before = ("", "")
        for one in self.notes:
            if one.kind == CHANGE:
                here = printable(one.stage), printable(one.function)
                lines.append((*(("", "") if here == before else here), one.text))
                before = here
        return lines


def item_names(items: Sequence[Any]) -> str:
    """`item 7`, `items 3, 5 and 8 more`."""
    if len(items) == 1:
        return f"item {brief(items[0], 40)}"
    named = [brief(item, 40) for item in items[:_NAMED]]
    more = len(items) - len(named)
    return f"items {', '.join(named)} and {more:,} more" if more else f"items {listed(named)}"


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"

"""Renders runs, series, calls and trees as HTML for Jupyter: recorded text is escaped, nothing is fetched or run."""

from __future__ import annotations

from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any

from clew.show.overview import facts, name_line
from clew.show.sparkline import svg
from clew.show.tree import OneCall, no_calls_text, walk
from clew.show.tree_lines import ERROR, NAME, REMARK
from clew.text.brief import brief, changes, printable, time_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clew.reading.call import Call
    from clew.reading.run import Run
    from clew.reading.series import Series
    from clew.reading.tree import Tree
    from clew.show.tree import Branches, Step

_NAMES = 50
_CHANGES = 10
_LINES = 500  # lines of a tree
_LEVELS = 50  # levels of nested boxes
_OPEN_LEVELS = 2  # levels that are open initially
_INDENT = 'style="margin-left:1.2em;text-align:left;font-family:monospace;white-space:pre-wrap"'
_CELL = 'style="text-align:left;padding:1px 10px 1px 0;vertical-align:middle"'


def safe(text: object) -> str:
    """Text as HTML that shows exactly that text."""
    return escape(printable(text), quote=True)


def _rows(rows: Iterable[Iterable[str]], tag: str = "td") -> str:
    """Table rows from cells that are already HTML."""
    return "".join("<tr>" + "".join(f"<{tag} {_CELL}>{cell}</{tag}>" for cell in row) + "</tr>" for row in rows)


def _table(head: list[str], rows: Iterable[Iterable[str]]) -> str:
    top = _rows([map(safe, head)], "th") if head else ""
    return f"<table>{top}{_rows(rows)}</table>"


def run_html(run: Run) -> str:
    """The head of a run, and its names with small pictures."""
    head = _table([], ((safe(key), safe(text)) for key, text in facts(run).items()))
    names = run.names
    rows = []
    for name in names[:_NAMES]:
        line = name_line(run[name])
        cells = [safe(line.name), f"{line.count:,}", safe(line.change), safe(line.range)]
        rows.append([*cells, svg(line.numbers) if len(line.numbers) > 1 else "", safe(line.where)])
    table = _table(["name", "changes", "first → last", "min … max", "over time", "where"], rows)
    more = f"<p>... {len(names) - _NAMES:,} more names</p>" if len(names) > _NAMES else ""
    problems = "".join(f"<p><b>problem:</b> {safe(problem)}</p>" for problem in run.problems)
    ledger = "".join(f"<li>{safe(note.kind)}: {safe(note.subject)} {safe(note.text)}</li>" for note in run.ledger)
    ledger = f"<p>ledger</p><ul>{ledger}</ul>" if ledger else ""
    return f"<div><b>{safe(run.name)}</b>{head}{problems}{table}{more}{ledger}</div>"


def series_html(series: Series) -> str:
    """The name of a series, a picture of its numbers, and its last values."""
    if not len(series):
        return f"<div><b>{safe(series.name)}</b>: no changes</div>"
    line = name_line(series)
    picture = svg(line.numbers, 320, 60) if len(line.numbers) > 1 else ""
    summary = " · ".join(filter(None, [changes(line.count), safe(line.change), safe(line.range), safe(line.where)]))
    last = series[max(len(series) - _CHANGES, 0) :]
    times = map(time_text, last.times.tolist(), last.times_error.tolist())
    rows = zip(last.lines, last.steps, times, last, strict=True)
    table = _table(["line", "step", "time", "value"], (_change_cells(*row) for row in rows))
    return f"<div><b>{safe(series.name)}</b> {summary}<br>{picture}{table}</div>"


def _change_cells(line: int, step: Any, time: str, value: Any) -> list[str]:
    return [str(line), "" if step is None else safe(brief(step, 12)), time, safe(brief(value, 80))]


def call_html(call: Call) -> str:
    """A call: where it ran, its arguments, what happened in it, and how it ended."""
    place = f"{safe(call.module)} · {safe(call.file)}:{call.line} · thread {safe(call.thread)} · rank {call.rank}"
    return f"<div>{place}{_details(OneCall(call), 'more in this call')}</div>"


def tree_html(tree: Tree) -> str:
    """The tree as nested parts that open and close without a script."""
    return f"<div>{_details(tree, f'more; {len(tree):,} calls in all') or safe(no_calls_text(tree))}</div>"


def _details(tree: Branches, missing: str) -> str:
    """Nested `<details>`, one per call, with its events inside; the first levels are open."""
    parts: list[str] = []
    open_depths: list[int] = []  # depths of the calls whose <details> are still open
    steps = walk(tree)
    for step in islice(steps, _LINES):
        while open_depths and open_depths[-1] >= step.depth:
            open_depths.pop()
            parts.append("</details>")
        nested = step.opens and len(open_depths) < _LEVELS
        parts.append(_step_html(step, nested, len(open_depths)))
        if nested:
            open_depths.append(step.depth)
    parts += ["</details>"] * len(open_depths)
    if next(steps, None) is not None:
        parts.append(f"<p>… {safe(missing)}; `print(run.tree().text(full=True))` shows everything</p>")
    return "".join(parts)


def _step_html(step: Step, nested: bool, level: int) -> str:
    content = "".join(_piece_html(text, style) for text, style in step.line.pieces)
    if step.depth > level:  # too deep for nested boxes
        content = f"+{step.depth - level} {content}"
    if not nested:
        return f"<div {_INDENT}>{content}</div>"
    shown = " open" if step.depth < _OPEN_LEVELS else ""
    return f"<details {_INDENT}{shown}><summary>{content}</summary>"


def _piece_html(text: str, style: str) -> str:
    tag = {NAME: "b", ERROR: "b", REMARK: "i"}.get(style)
    return f"<{tag}>{safe(text)}</{tag}>" if tag else safe(text)

"""HTML for Jupyter. Every text that was recorded is escaped; nothing is fetched and no script runs."""

from __future__ import annotations

from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any

from clew.show.overview import facts, name_line
from clew.show.sparkline import svg
from clew.show.text import brief, changes, duration, ending, printable
from clew.show.tree import tree_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clew.history.call import Call
    from clew.history.run import Run
    from clew.history.series import Series
    from clew.history.tree import Tree

_NAMES = 50
_CHANGES = 10
_CELL = 'style="text-align:left;padding:1px 10px 1px 0;vertical-align:middle"'


def safe(text: object) -> str:
    """Text as HTML that shows exactly that text."""
    return escape(printable(text), quote=True)


def _rows(rows: Iterable[Iterable[str]], tag: str = "td") -> str:
    """Table rows of cells that are HTML already."""
    return "".join("<tr>" + "".join(f"<{tag} {_CELL}>{cell}</{tag}>" for cell in row) + "</tr>" for row in rows)


def _table(head: list[str], rows: Iterable[Iterable[str]]) -> str:
    top = _rows([map(safe, head)], "th") if head else ""
    return f"<table>{top}{_rows(rows)}</table>"


def run_html(run: Run) -> str:
    """The run's head, and its names with small pictures."""
    head = _table([], ((safe(key), safe(text)) for key, text in facts(run).items()))
    names = run.names
    rows = []
    for name in names[:_NAMES]:
        line = name_line(run[name])
        cells = [safe(line.name), f"{line.count:,}", safe(line.change), safe(line.range)]
        rows.append([*cells, svg(line.numbers) if len(line.numbers) > 1 else "", safe(line.where)])
    table = _table(["name", "changes", "first → last", "min … max", "over time", "where"], rows)
    more = f"<p>... {len(names) - _NAMES:,} more names</p>" if len(names) > _NAMES else ""
    problems = "".join(f"<p><b>damaged:</b> {safe(problem)}</p>" for problem in run.problems)
    ledger = "".join(f"<li>{safe(note.kind)}: {safe(note.subject)} {safe(note.text)}</li>" for note in run.ledger)
    ledger = f"<p>ledger</p><ul>{ledger}</ul>" if ledger else ""
    return f"<div><b>{safe(run.name)}</b>{head}{problems}{table}{more}{ledger}</div>"


def series_html(series: Series) -> str:
    """The name, a picture of its numbers, and its last values."""
    if not len(series):
        return f"<div><b>{safe(series.name)}</b>: no changes</div>"
    line = name_line(series)
    picture = svg(line.numbers, 320, 60) if len(line.numbers) > 1 else ""
    told = " · ".join(filter(None, [changes(line.count), safe(line.change), safe(line.range), safe(line.where)]))
    last = series[max(len(series) - _CHANGES, 0) :]
    rows = zip(last.lines, last.steps, last.times.tolist(), last, strict=True)
    table = _table(["line", "step", "time", "value"], (_change_cells(*row) for row in rows))
    return f"<div><b>{safe(series.name)}</b> {told}<br>{picture}{table}</div>"


def _change_cells(line: int, step: Any, time: float, value: Any) -> list[str]:
    return [str(line), safe(brief(step, 12)), f"{time:.6f}", safe(brief(value, 80))]


def call_html(call: Call) -> str:
    """The call, its arguments, how it ended, what changed in it."""
    place = f"{safe(call.module)} · {safe(call.file)}:{call.line} · thread {safe(call.thread)} · rank {call.rank}"
    rows = [(safe(name), safe(brief(value, 100))) for name, value in call.args.items()]
    rows.append(("<i>error</i>", safe(call.error)) if call.error else ("<i>result</i>", safe(brief(call.result, 100))))
    seen = call.changes
    changed = (
        [safe(change.name), *_change_cells(change.line, change.step, change.time, change.value)]
        for change in islice(seen, _CHANGES)
    )
    table = _table(["name", "line", "step", "time", "value"], changed) if len(seen) else ""
    more = f"<p>... {len(seen) - _CHANGES:,} more changes</p>" if len(seen) > _CHANGES else ""
    told = safe(ending(call.duration, call.error)) if call.error else duration(call.duration)
    return f"<div><b>{safe(call.function)}</b> {told}<br>{place}{_table([], rows)}{table}{more}</div>"


def tree_html(tree: Tree) -> str:
    """The tree as preformatted text."""
    return f"<pre>{escape(tree_text(tree), quote=True)}</pre>"

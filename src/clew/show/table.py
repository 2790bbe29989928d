"""Tables of runs, names, changes and calls. Recorded text goes in as text, never as markup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from clew.show.overview import NameLine, command, facts
from clew.show.sparkline import blocks
from clew.show.text import brief, duration, printable, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from clew.history.functions import FunctionLine
    from clew.history.run import Run
    from clew.history.series import Series

_BLOCK = 4096
_STYLES = {"finished": "green", "running": "cyan", "failed": "red", "killed": "red", "interrupted": "yellow"}


def _table(*columns: str, right: Iterable[str] = (), title: str | None = None) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", no_wrap=column != "where")
    return table


def _row(table: Table, *cells: object) -> None:
    table.add_row(*(cell if isinstance(cell, Text) else Text(printable(cell)) for cell in cells))


def status_text(status: str) -> Text:
    return Text(printable(status), style=_STYLES.get(status.partition(":")[0], ""))


def run_head(run: Run) -> Table:
    """Name, status, duration, command, git."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    _row(table, "run", Text(printable(run.name), style="bold"))
    for key, text in facts(run).items():
        _row(table, key, status_text(text) if key == "status" else text)
    return table


def names_table(lines: Iterable[NameLine]) -> Table:
    """One line a name: how often, from what to what, its range, its shape over time, where."""
    table = _table("name", "changes", "first → last", "min … max", "over time", "where", right=["changes"])
    for line in lines:
        spark = blocks(line.numbers) if len(line.numbers) > 1 else ""
        name = Text(shorten(printable(line.name), 48), style="cyan")
        _row(table, name, f"{line.count:,}", line.change, line.range, spark, line.where)
    return table


def change_lines(series: Series, head: int, tail: int, width: int = 120) -> Iterator[str]:
    """The changes of one name, a line each: the first `head` and the last `tail`, and how many were left out.

    Made as they are printed and not laid out as a table, because there may be millions.
    """
    count = len(series)
    left = max(count - head - tail, 0)
    yield _columns("line", "step", "time", "value")
    for place, part in enumerate([series] if not left else [series[:head], series[count - tail :]]):
        if place:
            yield f"... {left:,} more (use --all)"
        for begin in range(0, len(part), _BLOCK):
            some = part[begin : begin + _BLOCK]
            for line, step, time, value in zip(some.lines, some.steps, some.times.tolist(), some, strict=True):
                yield _columns(str(line), brief(step, 12), f"{time:.6f}", brief(value, max(width - 34, 20)))


def _columns(line: str, step: str, time: str, value: str) -> str:
    return f"{line:>5}  {step:>8}  {time:>14}  {value}"


def functions_table(functions: Sequence[FunctionLine], limit: int = 20) -> Table:
    """One line a function: how often it was called, for how long, how often it raised."""
    table = _table("function", "calls", "total", "mean", "raised", "where", right=["calls", "total", "mean", "raised"])
    for line in functions[:limit]:
        mean = duration(line.seconds / line.ended) if line.ended else ""
        name = Text(shorten(printable(line.name), 48), style="cyan")
        total = duration(line.seconds) if line.ended else "not ended"
        _row(table, name, f"{line.calls:,}", total, mean, f"{line.errors:,}" if line.errors else "", line.where)
    if len(functions) > limit:
        _row(table, Text(f"... {len(functions) - limit:,} more functions", style="dim"), "", "", "", "", "")
    return table


def runs_table(runs: Iterable[Run]) -> Table:
    """One line a run, as `clew runs` shows it."""
    table = _table("run", "status", "started", "duration", "command", right=["duration"])
    for run in runs:
        started = str(run.meta.get("started") or "")[:19].replace("T", " ")
        folder = Text(printable("/".join(run.path.parts[-2:])), style="cyan")
        took = duration(run.duration) if run.duration is not None else ""
        _row(table, folder, status_text(run.status), started, took, shorten(printable(command(run)), 60))
    return table


def pairs_table(rows: Iterable[tuple[Any, ...]], *columns: str) -> Table:
    """Any few columns of text."""
    table = _table(*columns)
    table.show_header = any(columns)
    for cells in rows:
        _row(table, *cells)
    return table

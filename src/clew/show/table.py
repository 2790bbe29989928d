"""Makes the tables of runs, names, changes and functions. Recorded text is never read as markup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from clew.show.overview import NameLine, command, facts
from clew.show.sparkline import blocks
from clew.show.table_layout import Column, Columns
from clew.text.brief import brief, duration, printable, shorten, time_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from clew.reading.functions import FunctionLine
    from clew.reading.run import Run
    from clew.reading.series import Series

_BLOCK = 4096
_STYLES = {
    "finished": "green",
    "running": "cyan",
    "failed": "red",
    "killed": "red",
    "incomplete": "red",
    "interrupted": "yellow",
}


def status_text(status: str) -> Text:
    return Text(printable(status), style=_STYLES.get(status.partition(":")[0], ""))


def run_head(run: Run) -> Columns:
    """The head of a run: name, status, duration, command, git and so on."""
    table = Columns([Column(style="dim"), Column(folds=True)])
    table.add("run", Text(printable(run.name), style="bold"))
    for key, text in facts(run).items():
        table.add(key, status_text(text) if key == "status" else text)
    return table


def names_table(lines: Iterable[NameLine]) -> Columns:
    """One row per name: number of changes, first and last value, range, curve, places."""
    table = Columns(
        [
            Column("name", folds=True, least=12),
            Column("changes", right=True),
            Column("first → last", optional=1, least=14),
            Column("min … max", optional=2),
            Column("over time", optional=3),
            Column("where", optional=4, folds=True, least=16),
        ]
    )
    for line in lines:
        spark = blocks(line.numbers) if len(line.numbers) > 1 else ""
        name = Text(shorten(printable(line.name), 48), style="cyan")
        table.add(name, f"{line.count:,}", line.change, line.range, spark, line.where)
    return table


def change_lines(series: Series, head: int, tail: int, width: int = 120) -> Iterator[str]:
    """The changes of one name, one per line: the first `head`, the last `tail`, and how many were left out.

    Generated lazily rather than laid out as a table, because there may be millions.
    """
    count = len(series)
    hidden_count = max(count - head - tail, 0)
    yield _change_line("line", "step", "time", "value")
    for place, part in enumerate([series] if not hidden_count else [series[:head], series[count - tail :]]):
        if place:
            yield f"... {hidden_count:,} more (use --all)"
        for begin in range(0, len(part), _BLOCK):
            block = part[begin : begin + _BLOCK]
            times = map(time_text, block.times.tolist(), block.times_error.tolist())
            for line, step, time, value in zip(block.lines, block.steps, times, block, strict=True):
                yield _change_line(
                    str(line), "" if step is None else brief(step, 12), time, brief(value, max(width - 34, 20))
                )


def _change_line(line: str, step: str, time: str, value: str) -> str:
    return f"{line:>5}  {step:>8}  {time:>14}  {value}"


def functions_table(functions: Sequence[FunctionLine], limit: int = 20) -> Columns:
    """One row per function: how often it was called, for how long, and how often it raised."""
    table = Columns(
        [
            Column("function", folds=True, least=12),
            Column("calls", right=True),
            Column("total", right=True, optional=1),
            Column("mean", right=True, optional=3),
            Column("raised", right=True),
            Column("where", optional=2, folds=True, least=16),
        ]
    )
    for line in functions[:limit]:
        mean = duration(line.seconds / line.ended) if line.ended else ""
        name = Text(shorten(printable(line.name), 48), style="cyan")
        total = duration(line.seconds) if line.ended else "not ended"
        table.add(name, f"{line.calls:,}", total, mean, f"{line.errors:,}" if line.errors else "", line.where)
    if len(functions) > limit:
        table.add(Text(f"... {len(functions) - limit:,} more functions", style="dim"), "", "", "", "", "")
    return table


def runs_table(runs: Iterable[Run]) -> Columns:
    """One row per run, as `clew runs` shows it."""
    table = Columns(
        [
            Column("run", folds=True, least=26),
            Column("status"),
            Column("started", optional=1),
            Column("duration", right=True, optional=2),
            Column("command", optional=3, least=12),
        ]
    )
    for run in runs:
        started = str(run.meta.get("started") or "")[:19].replace("T", " ")
        folder = Text(printable("/".join(run.path.parts[-2:])), style="cyan")
        took = duration(run.duration) if run.duration is not None else ""
        table.add(folder, status_text(run.status), started, took, shorten(printable(command(run)), 60))
    return table

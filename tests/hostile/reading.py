"""Everything that reads a run, one after the other: only a ClewError may come out of any of it."""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import clew
import clew.commands.main as commands
from clew.commands.show import _changes_json, _run_json
from clew.errors import ClewError
from clew.export import FORMATS, export
from clew.page.plain_json import as_json
from clew.page.query_parameters import Query
from clew.page.report import make_report
from clew.page.server import answer
from clew.page.shelf import Shelf, run_id
from clew.reading.run import Run

Reader = Callable[[Path, Path, Path], object]  # the run, the run it was made of, a folder to write to


def _open(folder: Path) -> Run:
    return clew.open(folder)


def _names(folder: Path, original: Path, out: Path) -> None:
    run = _open(folder)
    str(run.meta), run.name, run.status, run.duration, run.problems, str(run.ledger), repr(run), run._repr_html_()
    for name in run.names:
        series = run[name]
        repr(series), series._repr_html_(), series.summaries()
        list(zip(series.values, series.steps, series.times, series.lines, strict=True))
        series.to_numpy()
        for change in run.changes(name):
            repr(change), change.value, change.step, change.line, change.time, change.call


def _calls(folder: Path, original: Path, out: Path) -> None:
    run = _open(folder)
    run.functions()
    for call in run.calls():
        repr(call), call.args, call.result, call.error, call.duration, call.thread, call.rank, call.step, call.stage
        call.parent, list(call.children), list(call.changes), call.callers, call.data, call.message, call.events
    for call in run.calls()[:3]:
        call._repr_html_()


def _trees(folder: Path, original: Path, out: Path) -> None:
    tree = _open(folder).tree()
    str(tree), tree._repr_html_(), tree.text(full=True, limit=500)
    str(_open(folder).tree(errors=True)), str(_open(folder).tree(slow="1us"))


def _traces(folder: Path, original: Path, out: Path) -> None:
    run = _open(folder)
    for trace in run.traces:
        str(trace), trace._repr_html_(), str(trace.check()), trace.altered, trace.notes, trace.error
        for stage in trace:
            str(stage), [str(call) for call in stage]
        for item in trace.items:
            str(item), item._repr_html_()


def _diff(folder: Path, original: Path, out: Path) -> None:
    for first, second in ((original, folder), (folder, original), (folder, folder)):
        found = clew.diff(first, second)
        str(found), found.first, found._repr_html_(), found.to_dict()


def _report(folder: Path, original: Path, out: Path) -> None:
    make_report(folder, out / "report.html")


def _shown(folder: Path, original: Path, out: Path) -> None:
    run = _open(folder)
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        _run_json(run)
        _changes_json([run[name] for name in run.names], True)
    for arguments in ([], ["--tree", "--full"], ["--trace"], ["--trace", "--json"], ["--check"], ["*"]):
        command(["show", str(folder), *arguments])


def command(words: list[str]) -> str:
    """What a command of clew's prints; its errors are raised."""
    args = commands.parser(words[0]).parse_args(words)
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        commands.load(words[0]).main(args)
    return shown.getvalue()


def _exported(format: str) -> Reader:
    def read(folder: Path, original: Path, out: Path) -> None:
        export(_open(folder), format, out / f"exported.{format}")

    return read


def _page(what: str) -> Reader:
    def read(folder: Path, original: Path, out: Path) -> None:
        shelf = Shelf(folder.parent, [folder])
        id = run_id(folder)
        for query in _questions(shelf, id, folder, what):
            with contextlib.suppress(ClewError):
                as_json(answer(shelf, id, what, Query(query)))

    return read


def _questions(shelf: Shelf, id: str, folder: Path, what: str) -> Iterator[dict[str, Any]]:
    run = _open(folder)
    if what in ("series", "tensors", "histogram"):
        yield from ({"name": name, "axis": axis} for name in run.names for axis in ("step", "time", "index"))
    elif what in ("point", "slice"):
        yield from ({"name": name, "index": index} for name in run.names for index in (0, len(run[name]) - 1))
        yield from (
            {"call": f"{c.shard}:{c.id}", "value": name} for c in run.calls()[:20] for name in (*c.args, "return")
        )
    elif what in ("call", "source", "tree"):
        yield from ({key: f"{c.shard}:{c.id}"} for c in run.calls()[:40] for key in ("call", "parent"))
    if what == "pipeline":
        yield from ({"trace": number} for number in range(len(run.traces)))
    if what == "tree":
        yield from ({"fold": 0}, {"errors": 1}, {"slow": "1us"}, {"name": next(iter(run.names), "x")})
    yield {}


ANSWERS = (
    "",
    "names",
    "series",
    "point",
    "tensors",
    "histogram",
    "slice",
    "tree",
    "call",
    "source",
    "pipeline",
    "graph",
)

READERS: dict[str, Reader] = {
    "names": _names,
    "calls": _calls,
    "trees": _trees,
    "traces": _traces,
    "diff": _diff,
    "report": _report,
    "shown": _shown,
    **{f"export {format}": _exported(format) for format in FORMATS},
    **{f"page {what}": _page(what) for what in ANSWERS},
}


def surprises(folder: Path, original: Path, out: Path, readers: Iterable[str] = READERS) -> dict[str, Exception]:
    """By reader: what came out of it that is no ClewError."""
    found: dict[str, Exception] = {}
    for name in readers:
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        try:
            READERS[name](folder, original, out)
        except ClewError:
            continue
        except Exception as error:
            found[name] = error
    return found

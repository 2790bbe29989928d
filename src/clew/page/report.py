"""Writes a report: the page and its answers in one file, which opens from disk without clew and fetches nothing.

Parts are added in a fixed order until the size limit is reached. What was left out is listed in the result and, in the
report itself, on the page of the ledger.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from clew.errors import ClewError, OptionError, PageError, UnknownNameError, nearest
from clew.page.plain_json import as_json
from clew.page.query_parameters import Query
from clew.page.server import answer, policy, read_page
from clew.page.shelf import Shelf, run_id
from clew.text.sizes import parse_size

if TYPE_CHECKING:
    from clew.reading.run import Run

LIMIT: Final = "20MB"
BUCKETS = 4_000  # points of a curve; a longer curve is reduced to the extremes of this many buckets
BRANCH = 200  # siblings requested at once, as the page does
CALLS = 5_000  # calls that are opened for the tree
SLICES = 12  # slices per series of tensors
HISTOGRAM = {"columns": 60, "bins": 40}  # as the page requests
SLICE_CELLS = 512  # likewise
#: The parts of a report, in the order in which they are added.
PARTS: Final = ("series", "pipeline", "tree", "source", "graph", "tensors", "calls", "points")
_LABELS: Final = {
    "series": "curves",
    "pipeline": "traces",
    "tree": "branches",
    "source": "calls with their source",
    "graph": "graphs",
    "tensors": "curves, histograms and slices",
    "calls": "calls in detail",
    "points": "single values",
}


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A report that was written."""

    path: Path
    size: int
    left_out: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return str(self.path)


def make_report(
    run: Run | str | Path,
    path: str | Path = "report.html",
    *,
    names: str | Sequence[str] | None = None,
    without: str | Iterable[str] = (),
    limit: int | str = LIMIT,
) -> WrittenReport:
    """Write a run into one HTML file. `names`: only these series (patterns too); `without`: parts to leave out."""
    page = read_page()
    folder = Path(run if isinstance(run, (str, Path)) else run.path).absolute()
    parts = _chosen_parts(without)
    contents = _Contents(folder, parse_size(limit, "limit") - len(page) - 4_096, parts)
    contents.add_basics()
    kinds_by_name = contents.select_names(names)
    for part in parts:
        contents.add(part, kinds_by_name)
    return _write_file(Path(path), page, contents)


def _chosen_parts(without: str | Iterable[str]) -> list[str]:
    left_out = [without] if isinstance(without, str) else list(without)
    for part in left_out:
        if part not in PARTS:
            raise OptionError("bad-option", f"A report has no part `{part}`;", nearest(part, PARTS))
    return [part for part in PARTS if part not in left_out]


def _write_file(path: Path, page: bytes, contents: _Contents) -> WrittenReport:
    overview = contents.answers[contents.address("")]
    notes = [{"kind": "not-in-report", "subject": "", "text": text} for text in contents.left_out]
    overview["ledger"] = [*overview["ledger"], *notes]
    embedded_data = {
        "made": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "title": overview["run"]["name"],
        "run": contents.id,
        "left_out": contents.left_out,
        "answers": contents.answers,
    }
    data = embed_answers(page, embedded_data, str(overview["run"]["name"]))
    if path.exists() and not path.is_file():  # a file would take the place of a device
        raise PageError("report-not-written", f"{path} is no ordinary file.", "Give another path with -o.")
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(data)
        os.replace(draft, path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        message = f"{path} cannot be written: {error.strerror or error}."
        raise PageError("report-not-written", message, "Give another path with -o.") from error
    return WrittenReport(path.absolute(), len(data), contents.left_out)


def embed_answers(page: bytes, content: dict[str, Any], title: str) -> bytes:
    """The page with the answers embedded. They contain no `<`, so no text in them can end their element."""
    data = as_json(content).replace(b"<", b"\\u003c")
    script = b'<script id="clew-report" type="application/json">' + data + b"</script>\n"
    guard = b'<meta http-equiv="Content-Security-Policy" content="%s">\n' % escape(policy(page, "'none'")).encode()
    head, tag, rest = page.partition(b"<script")
    before, opening, after = head.partition(b"<head>")
    if not opening or not tag:
        raise PageError("no-page", "The built page is not one that a report can be made of.", "Build it again.")
    titled = f"<title>{escape(title)} · clew</title>".encode("ascii", "xmlcharrefreplace")
    after = after.replace(b"<title>clew</title>", titled)
    return before + opening + b"\n" + guard + after + script + tag + rest


class _Contents:
    """The answers in a report, and the room left for more."""

    def __init__(self, folder: Path, room: int, parts: Sequence[str]) -> None:
        self._parts = parts
        self.id = run_id(folder)
        self.answers: dict[str, Any] = {}
        self.left_out: list[str] = []
        self._shelf = Shelf(folder.parent, [folder])
        self._room = room
        self._calls: list[dict[str, Any]] = []  # the nodes of calls in the tree, in order

    def address(self, question: str, **params: Any) -> str:
        """The key of an answer: the path, and the query sorted by name."""
        path = f"/api/run/{self.id}" + (f"/{question}" if question else "")
        parameters = sorted((name, str(value)) for name, value in params.items() if value is not None)
        return f"{path}?{urlencode(parameters)}" if parameters else path

    def add_basics(self) -> None:
        row = self._shelf.row(self.id)
        self.answers["/api/runs"] = {"base": "", "runs": [row]}
        self.answers[self.address("")] = overview = answer(self._shelf, self.id, "", Query())
        self.answers[self.address("version")] = {"version": overview["version"], "status": row["status"]}
        used = sum(len(as_json(added)) for added in self.answers.values())
        if used > self._room:
            message = f"The run's names and metadata alone are {used:,} bytes, more than the limit leaves."
            raise OptionError("report-limit", message, "Give a larger --max-size (limit= in Python).")
        self._room -= used

    def _add_answer(self, question: str, params: dict[str, Any], result: dict[str, Any]) -> bool:
        """Add an answer; False, with nothing changed, if there is no room for it."""
        key = self.address(question, **params)
        if key in self.answers:
            return True
        size = len(as_json(result)) + len(key) + 8
        if size > self._room:
            return False
        self._room -= size
        self.answers[key] = result
        return True

    def _ask(self, question: str, **params: Any) -> dict[str, Any] | None:
        """An answer; None if there is none, which the page then reports itself."""
        try:
            return answer(self._shelf, self.id, question, Query(params))
        except ClewError:
            return None

    def select_names(self, requested: str | Sequence[str] | None) -> dict[str, str]:
        """Name → kind of the requested series, which may be given as patterns."""
        with self._shelf.opened(self.id) as opened:
            all_names = opened.run.names
        patterns = [requested] if isinstance(requested, str) else list(requested or [])
        for pattern in patterns:
            if not any(name == pattern or fnmatchcase(name, pattern) for name in all_names):
                message = f"No `{pattern}` was recorded in this run;"
                raise UnknownNameError("unknown-name", message, nearest(pattern, all_names))
        fits = [
            name
            for name in all_names
            if not patterns or any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)
        ]
        kinds = {row["name"]: row["kind"] for row in self.answers[self.address("")]["names"]}
        return {name: kinds.get(name, "number") for name in fits}

    # ---- the parts

    def add(self, part: str, names: dict[str, str]) -> None:
        pages = self.answers[self.address("")]["pages"]
        numbers = [name for name, kind in names.items() if kind != "tensor"]
        arrays = [name for name, kind in names.items() if kind == "tensor"]
        makers: dict[str, Callable[[], Iterator[tuple[str, dict[str, Any], Any]]]] = {
            "series": lambda: self._series_answers(numbers),
            "pipeline": lambda: self._pipeline_answers() if pages["pipeline"] else iter(()),
            "tree": self._tree_answers,
            "source": self._source_answers,
            "graph": self._graph_answers,
            "tensors": lambda: self._tensor_answers(arrays),
            "calls": self._call_details,
            "points": lambda: self._point_answers(numbers),
        }
        count = 0
        for question, params, result in makers[part]():
            if result is None:
                continue
            if not self._add_answer(question, params, result):
                self.left_out.append(f"{part}: {count:,} {_LABELS[part]} are in, then the size limit was reached")
                return
            count += 1

    def _series_answers(self, names: list[str]) -> Iterator[Any]:
        for axis in ("step", "time"):
            for name in names:
                params = {"name": name, "axis": axis}
                yield "series", params, self._ask("series", **params, px=BUCKETS)

    def _pipeline_answers(self) -> Iterator[Any]:
        last = self._ask("pipeline")
        yield "pipeline", {}, last
        for trace in range(last["traces"] if last else 0):
            yield "pipeline", {"trace": trace}, self._ask("pipeline", trace=trace)

    def _tree_answers(self) -> Iterator[Any]:
        """The tree breadth-first: the roots, the calls they made, and so on; only the first of repeated calls."""
        waiting: list[str | None] = [None]
        while waiting:
            parent = waiting.pop(0)
            for params, result in self._branch_answers(parent):
                yield "tree", params, result
                calls = [node for node in result["nodes"] if node["kind"] == "call"]
                self._calls += calls
                waiting += [node["id"] for node in calls if node["inside"]]
            if len(self._calls) > CALLS and waiting:
                self.left_out.append(f"tree: {CALLS:,} calls were opened, {len(waiting):,} more were not")
                return

    def _branch_answers(self, parent: str | None) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        offset: int | None = 0
        folds: list[dict[str, Any]] = []
        while offset is not None and offset < CALLS:
            params = {"parent": parent, "offset": offset, "limit": BRANCH}
            result = self._ask("tree", **params)
            if result is None:
                return
            yield params, result
            folds += [node for node in result["nodes"] if node["kind"] == "fold"]
            offset = result["next"]
        for fold in folds:
            limit = min(BRANCH, fold["count"])
            params = {"parent": parent, "offset": fold["offset"], "limit": limit, "fold": 0}
            result = self._ask("tree", **params)
            if result is not None:
                yield params, result

    def _source_answers(self) -> Iterator[Any]:
        """The source of each function, with its first call in the tree."""
        visited: set[tuple[str, int]] = set()
        for node in self._calls[:CALLS]:
            place = node["file"], node["line"]
            if place not in visited:
                visited.add(place)
                yield "call", {"call": node["id"]}, self._ask("call", call=node["id"])
                yield "source", {"call": node["id"]}, self._ask("source", call=node["id"])

    def _graph_answers(self) -> Iterator[Any]:
        first = self._ask("graph")
        yield "graph", {}, first
        for which in range(first["graphs"] if first else 0):
            yield "graph", {"which": which}, self._ask("graph", which=which)

    def _tensor_answers(self, names: list[str]) -> Iterator[Any]:
        for name in names:
            params = {"name": name, "axis": "step"}
            result = self._ask("tensors", **params)
            yield "tensors", params, result
            yield "histogram", params | HISTOGRAM, self._ask("histogram", **params, **HISTOGRAM)
            for index in _evenly_spaced((result or {}).get("index", []), SLICES):
                slice_params = {"name": name, "index": index, "px": SLICE_CELLS}
                yield "slice", slice_params, self._ask("slice", **slice_params)

    def _call_details(self) -> Iterator[Any]:
        for node in self._calls[:CALLS]:
            yield "call", {"call": node["id"]}, self._ask("call", call=node["id"])

    def _point_answers(self, names: list[str]) -> Iterator[Any]:
        """The points that a click on a short curve requests."""
        for name in names:
            curve = self.answers.get(self.address("series", name=name, axis="step"))
            if curve is not None and curve["total"] <= BRANCH:
                for index in range(curve["total"]):
                    result = self._ask("point", name=name, index=index)
                    yield "point", {"name": name, "index": index}, self._without_code(result)
                for x in dict.fromkeys(curve["x"]):
                    params = {"name": name, "axis": "step", "x": x}
                    yield "point", params, self._without_code(self._ask("point", **params))

    def _without_code(self, result: dict[str, Any] | None) -> dict[str, Any] | None:
        """A point, without its line of code if the source is left out."""
        return result if result is None or "source" in self._parts else result | {"code": None}


def _evenly_spaced(items: list[int], count: int) -> list[int]:
    """At most `count` items, evenly spaced, including the first and the last."""
    if len(items) <= count:
        return items
    return [items[round(place * (len(items) - 1) / (count - 1))] for place in range(count)]

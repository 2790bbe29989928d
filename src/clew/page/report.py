"""A report: the page and its answers in one file, which opens from disk without clew and fetches nothing.

What goes in is chosen in a fixed order until the limit is reached; what was left out is said, by whoever makes the
report and inside it (on the page of the ledger).
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
from clew.page.plain import as_json
from clew.page.query import Query
from clew.page.server import answer, policy, read_page
from clew.page.shelf import Shelf, run_id
from clew.sizes import parse_size

if TYPE_CHECKING:
    from clew.history.run import Run

LIMIT: Final = "20MB"
BUCKETS = 4_000  # points of a curve; of a longer one the extremes of so many parts
BRANCH = 200  # siblings asked for at once: as the page does
CALLS = 5_000  # calls whose insides are looked at for the tree
SLICES = 12  # of each series of tensors
HISTOGRAM = {"columns": 60, "bins": 40}  # as the page asks
SLICE_CELLS = 512  # likewise
#: What a report consists of, in the order in which it goes in.
PARTS: Final = ("series", "pipeline", "tree", "source", "graph", "tensors", "calls", "points")
_WORDS: Final = {
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
class Made:
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
) -> Made:
    """Write a run into one HTML file. `names`: only these series (patterns too); `without`: parts to leave out."""
    page = read_page()
    folder = Path(run if isinstance(run, (str, Path)) else run.path).absolute()
    parts = _parts(without)
    making = _Making(folder, parse_size(limit, "limit") - len(page) - 4_096, parts)
    making.always()
    wanted = making.names(names)
    for part in parts:
        making.add(part, wanted)
    return _written(Path(path), page, making)


def _parts(without: str | Iterable[str]) -> list[str]:
    left_out = [without] if isinstance(without, str) else list(without)
    for part in left_out:
        if part not in PARTS:
            raise OptionError("bad-option", f"A report has no part `{part}`;", nearest(part, PARTS))
    return [part for part in PARTS if part not in left_out]


def _written(path: Path, page: bytes, making: _Making) -> Made:
    overview = making.answers[making.address("")]
    told = [{"kind": "not-in-report", "subject": "", "text": text} for text in making.left_out]
    overview["ledger"] = [*overview["ledger"], *told]
    content = {
        "made": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "title": overview["run"]["name"],
        "run": making.id,
        "left_out": making.left_out,
        "answers": making.answers,
    }
    data = embedded(page, content, str(overview["run"]["name"]))
    if path.exists() and not path.is_file():  # a file would take the place of a device
        raise PageError("report-not-written", f"{path} is no ordinary file.", "Give another path with -o.")
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(data)
        os.replace(draft, path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        what = f"{path} cannot be written: {error.strerror or error}."
        raise PageError("report-not-written", what, "Give another path with -o.") from error
    return Made(path.absolute(), len(data), making.left_out)


def embedded(page: bytes, content: dict[str, Any], title: str) -> bytes:
    """The page with the answers inside. No text of theirs can end the element they are in: it has no `<`."""
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


class _Making:
    """The answers that are in, and how much room there is left."""

    def __init__(self, folder: Path, room: int, parts: Sequence[str]) -> None:
        self._parts = parts
        self.id = run_id(folder)
        self.answers: dict[str, Any] = {}
        self.left_out: list[str] = []
        self._shelf = Shelf(folder.parent, [folder])
        self._room = room
        self._calls: list[dict[str, Any]] = []  # the nodes in the tree, in the order they were found

    def address(self, what: str, **params: Any) -> str:
        """The key of an answer: the path, and the query sorted by name."""
        path = f"/api/run/{self.id}" + (f"/{what}" if what else "")
        given = sorted((name, str(value)) for name, value in params.items() if value is not None)
        return f"{path}?{urlencode(given)}" if given else path

    def always(self) -> None:
        row = self._shelf.row(self.id)
        self.answers["/api/runs"] = {"base": "", "runs": [row]}
        self.answers[self.address("")] = overview = answer(self._shelf, self.id, "", Query())
        self.answers[self.address("version")] = {"version": overview["version"], "status": row["status"]}
        used = sum(len(as_json(one)) for one in self.answers.values())
        if used > self._room:
            what = f"The run's names and metadata alone are {used:,} bytes, more than the limit leaves."
            raise OptionError("report-limit", what, "Give a larger --max-size (limit= in Python).")
        self._room -= used

    def _put(self, what: str, params: dict[str, Any], found: dict[str, Any]) -> bool:
        """False, and nothing changed, if there is no room for it."""
        key = self.address(what, **params)
        if key in self.answers:
            return True
        size = len(as_json(found)) + len(key) + 8
        if size > self._room:
            return False
        self._room -= size
        self.answers[key] = found
        return True

    def _ask(self, what: str, **params: Any) -> dict[str, Any] | None:
        """An answer; None if there is none, which the page then says itself."""
        try:
            return answer(self._shelf, self.id, what, Query(params))
        except ClewError:
            return None

    def names(self, given: str | Sequence[str] | None) -> dict[str, str]:
        """name → kind of the series that are wanted, those that fit a pattern included."""
        with self._shelf.opened(self.id) as opened:
            known = opened.run.names
        patterns = [given] if isinstance(given, str) else list(given or [])
        for pattern in patterns:
            if not any(name == pattern or fnmatchcase(name, pattern) for name in known):
                what = f"No `{pattern}` was recorded in this run;"
                raise UnknownNameError("unknown-name", what, nearest(pattern, known))
        fits = [
            name
            for name in known
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
            "series": lambda: self._series(numbers),
            "pipeline": lambda: self._pipeline() if pages["pipeline"] else iter(()),
            "tree": self._tree,
            "source": self._sources,
            "graph": self._graphs,
            "tensors": lambda: self._tensors(arrays),
            "calls": self._call_details,
            "points": lambda: self._points(numbers),
        }
        done = 0
        for what, params, found in makers[part]():
            if found is None:
                continue
            if not self._put(what, params, found):
                self.left_out.append(f"{part}: {done:,} {_WORDS[part]} are in, then the size limit was reached")
                return
            done += 1

    def _series(self, names: list[str]) -> Iterator[Any]:
        for axis in ("step", "time"):
            for name in names:
                params = {"name": name, "axis": axis}
                yield "series", params, self._ask("series", **params, px=BUCKETS)

    def _pipeline(self) -> Iterator[Any]:
        last = self._ask("pipeline")
        yield "pipeline", {}, last
        for trace in range(last["traces"] if last else 0):
            yield "pipeline", {"trace": trace}, self._ask("pipeline", trace=trace)

    def _tree(self) -> Iterator[Any]:
        """Breadth first: the roots, what they called, and so on; of what repeats, the first ones."""
        waiting: list[str | None] = [None]
        while waiting:
            parent = waiting.pop(0)
            for params, found in self._branches(parent):
                yield "tree", params, found
                calls = [node for node in found["nodes"] if node["kind"] == "call"]
                self._calls += calls
                waiting += [node["id"] for node in calls if node["inside"]]
            if len(self._calls) > CALLS and waiting:
                self.left_out.append(f"tree: {CALLS:,} calls were opened, {len(waiting):,} more were not")
                return

    def _branches(self, parent: str | None) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        offset: int | None = 0
        folds: list[dict[str, Any]] = []
        while offset is not None and offset < CALLS:
            params = {"parent": parent, "offset": offset, "limit": BRANCH}
            found = self._ask("tree", **params)
            if found is None:
                return
            yield params, found
            folds += [node for node in found["nodes"] if node["kind"] == "fold"]
            offset = found["next"]
        for fold in folds:
            limit = min(BRANCH, fold["count"])
            params = {"parent": parent, "offset": fold["offset"], "limit": limit, "fold": 0}
            found = self._ask("tree", **params)
            if found is not None:
                yield params, found

    def _sources(self) -> Iterator[Any]:
        """Of each function the first call that is in the tree."""
        seen: set[tuple[str, int]] = set()
        for node in self._calls[:CALLS]:
            place = node["file"], node["line"]
            if place not in seen:
                seen.add(place)
                yield "call", {"call": node["id"]}, self._ask("call", call=node["id"])
                yield "source", {"call": node["id"]}, self._ask("source", call=node["id"])

    def _graphs(self) -> Iterator[Any]:
        first = self._ask("graph")
        yield "graph", {}, first
        for which in range(first["graphs"] if first else 0):
            yield "graph", {"which": which}, self._ask("graph", which=which)

    def _tensors(self, names: list[str]) -> Iterator[Any]:
        for name in names:
            params = {"name": name, "axis": "step"}
            found = self._ask("tensors", **params)
            yield "tensors", params, found
            yield "histogram", params | HISTOGRAM, self._ask("histogram", **params, **HISTOGRAM)
            for index in _some((found or {}).get("index", []), SLICES):
                params_ = {"name": name, "index": index, "px": SLICE_CELLS}
                yield "slice", params_, self._ask("slice", **params_)

    def _call_details(self) -> Iterator[Any]:
        for node in self._calls[:CALLS]:
            yield "call", {"call": node["id"]}, self._ask("call", call=node["id"])

    def _points(self, names: list[str]) -> Iterator[Any]:
        """What a click on a short curve leads to."""
        for name in names:
            curve = self.answers.get(self.address("series", name=name, axis="step"))
            if curve is not None and curve["total"] <= BRANCH:
                for index in range(curve["total"]):
                    found = self._ask("point", name=name, index=index)
                    yield "point", {"name": name, "index": index}, self._point(found)
                for x in dict.fromkeys(curve["x"]):
                    params = {"name": name, "axis": "step", "x": x}
                    yield "point", params, self._point(self._ask("point", **params))

    def _point(self, found: dict[str, Any] | None) -> dict[str, Any] | None:
        """Who leaves the source out wants no line of it."""
        return found if found is None or "source" in self._parts else found | {"code": None}


def _some(items: list[int], count: int) -> list[int]:
    """The first, the last, and some between."""
    if len(items) <= count:
        return items
    return [items[round(place * (len(items) - 1) / (count - 1))] for place in range(count)]

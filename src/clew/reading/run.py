"""The public face of a recorded run."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.errors import FormatError, NotARunError, UnknownNameError
from clew.reading import status as how_it_ended
from clew.reading.call import Call, Calls
from clew.reading.change import Changes
from clew.reading.function_patterns import matcher
from clew.reading.functions import FunctionLine, function_lines
from clew.reading.ledger import Ledger
from clew.reading.naming import labels_matching, single_label
from clew.reading.series import Series
from clew.reading.tree import Tree
from clew.reading.view import View

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from clew.page.report import WrittenReport
    from clew.page.serving import Served
    from clew.reading.trace import Trace
    from clew.records import Note
    from clew.store.reader import RunReader


class Run:
    """A recorded run, finished or still running (then `refresh()` reads what was written since)."""

    def __init__(self, path: str | Path) -> None:
        from clew.store.folder import read_meta

        self.path = Path(path).absolute()
        self._reader: RunReader | None = None
        self._view: View | None = None
        self._meta: dict[str, Any]
        try:
            self._meta = read_meta(self.path)
        except (NotARunError, FormatError):
            self._open_reader()  # the records may be whole; otherwise this raises the reason

    # ---- what it is

    @property
    def meta(self) -> dict[str, Any]:
        """Metadata of the run: argv, git, versions, host, start and end, tags."""
        return self._meta

    @property
    def name(self) -> str:
        return str(self.meta.get("name") or self.path.name)

    @property
    def status(self) -> str:
        """running, finished, incomplete (recording stopped early), failed, interrupted, exited or killed."""
        return how_it_ended.status(self.meta)

    @property
    def duration(self) -> float | None:
        """Seconds from start to end; None while the run goes on, or if its end was never written."""
        begin, end = self.meta.get("started_ns"), self.meta.get("ended_ns")
        return (end - begin) / 1e9 if isinstance(begin, int) and isinstance(end, int) else None

    @property
    def problems(self) -> list[str]:
        """Messages about damaged or missing parts of the run's files. Everything else was read."""
        return list(self._open_reader().problems)

    @property
    def ledger(self) -> Ledger:
        """What was requested but not seen, dropped or not kept."""
        notes = [shard.notes for shard in self._open_reader().shards]
        return Ledger.merged(
            notes, self._happened_elsewhere, self._reasons_incomplete(), running=self.status == "running"
        )

    def _reasons_incomplete(self) -> list[str]:
        reasons = self._open_reader().incomplete()
        if not reasons and self.status == "killed":
            return ["the run was killed: what it recorded last may be missing"]
        return reasons

    def _happened_elsewhere(self, note: Note) -> bool:
        """Whether another process saw what this note reports as never seen."""
        if len(self._open_reader().shards) < 2:
            return False
        if note.kind == "never-called":
            return self._was_called(note.subject.removesuffix("()").removeprefix("class ").strip("`"))
        if note.text.startswith("--follow "):
            return self._was_called(note.subject)
        pattern, colon, names = note.subject.rpartition(": ")
        if colon:
            functions = [function for name in names.split(", ") for function in self.tables.table.functions_of(name)]
            return any(map(matcher(pattern), functions))
        functions = self.tables.table.functions_of(note.subject)
        # The note names its function, `step()`; another function may use the same name for something else.
        named_functions = [function for function in functions if f"{function.name}()" in note.text]
        return bool(named_functions) or ("()" not in note.text and bool(functions))

    def _was_called(self, name: str) -> bool:
        """Whether a function of this name, or a method of a class of this name, was called."""
        return len(self.calls(name)) > 0 or len(self.calls(f"*{name}.*")) > 0

    # ---- what it holds

    @property
    def names(self) -> list[str]:
        """The names that changed, in order of first change: `loss`, or `train.loss` if others have a `loss`."""
        return self.tables.table.names

    def __getitem__(self, name: str) -> Series:
        """The series of a name: `loss`, `train.loss`, `train.loss@rank=1`. Errors list the candidates."""
        return self.series(name)

    def series(self, name: str, *, mode: str | None = None, rank: int | None = None) -> Series:
        """The series of a name, optionally of one mode of a model ("train" or "eval") and of one rank."""
        origins = self.tables.table.naming.origins
        labels = [
            label
            for label in self._labels_of(name)
            if mode in (None, origins[label].mode) and rank in (None, origins[label].rank)
        ]
        label = single_label(labels, name, self.path.name, self.names)
        return Series(self.tables, label, self.tables.table.rows_of(label))

    def _labels_of(self, name: str) -> list[str]:
        """The series with changes that the name may mean."""
        changed_labels = self.tables.table.first_seen
        return [label for label in self.tables.table.naming.matching(name) if label in changed_labels]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self._labels_of(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def changes(self, name: str | None = None) -> Changes:
        """The changes in order of time: all of them, or those of every series that the name or pattern may mean."""
        table = self.tables.table
        if name is None:
            return Changes(self.tables, table.all_rows)
        labels = self._labels_of(name) or labels_matching(self.names, name)
        return Changes(self.tables, table.rows_of_all(labels)) if labels else self.series(name).changes  # which raises

    def calls(self, pattern: str | None = None) -> Calls:
        """The calls in the order they began; with a name or pattern, those of matching functions."""
        return Calls(self.tables, self.tables.calls.matching(matcher(pattern)))

    def call(self, shard: str, id: int) -> Call | None:
        """The call with this id in the shard of this name."""
        for place in reversed(self.tables.calls.matching(lambda function: True).tolist()):
            call = Call(self.tables, place)
            if call.id == id and call.shard == shard:
                return call
        return None

    def functions(self) -> list[FunctionLine]:
        """Every function that was called: how often, for how long, how often it raised; longest total time first."""
        return function_lines(self.tables.calls)

    def tree(
        self,
        function: str | None = None,
        name: str | None = None,
        errors: bool = False,
        slow: float | str | None = None,
    ) -> Tree:
        """The calls as a tree, or only some of them with the calls that led to them: calls of `function` and what they
        called; calls in which `name` changed or was an argument; calls that raised; calls that took at least `slow`
        (seconds, or text such as "10ms")."""
        return Tree(self.tables, function=function, name=name, errors=errors, slow=slow)

    @property
    def traces(self) -> list[Trace]:
        """The traces recorded by `clew.items`, in order."""
        from clew.reading.trace_loading import traces_of

        return traces_of(self)

    @property
    def trace(self) -> Trace:
        """The last trace."""
        traces = self.traces
        if not traces:
            message = f"no trace was recorded in {self.path.name}."
            raise UnknownNameError("no-trace", message, "A trace is made by `with clew.items(3):`.")
        return traces[-1]

    # ---- display

    def view(self) -> Served:
        """Open the page of this run: a frame in a notebook, else the browser. `close()` stops its server."""
        # Imported by name: the page depends on runs, not the other way round.
        served: Served = importlib.import_module("clew.page.serving").view(self.path)
        return served

    def report(
        self,
        path: str | Path = "report.html",
        *,
        names: str | Sequence[str] | None = None,
        without: str | Iterable[str] = (),
        limit: int | str = "20MB",
    ) -> WrittenReport:
        """Write one file that opens without clew; `names=`, `without=` and `limit=` select its content."""
        make_report = importlib.import_module("clew.page.report").make_report
        written: WrittenReport = make_report(self, path, names=names, without=without, limit=limit)
        return written

    # ---- reading

    @property
    def tables(self) -> View:
        """The tables of the run as they are now, for exports and pages, which work on columns."""
        if self._view is None:
            shards = self._open_reader().shards
            self._view = View(self.path, shards, self._start_ns())
        return self._view

    def _start_ns(self) -> int:
        started = self.meta.get("started_ns")
        if isinstance(started, int):
            return started
        firsts = [int(shard.starts.time.min()) for shard in self._open_reader().shards if len(shard.starts.time)]
        return min(firsts, default=0)

    def _open_reader(self) -> RunReader:
        if self._reader is None:
            from clew.store.reader import RunReader

            self._reader = RunReader(self.path)
            self._meta = self._reader.meta
        return self._reader

    def refresh(self) -> bool:
        """Read what was written since the run was opened; True if there was anything new."""
        reader = self._open_reader()
        changed = bool(reader.refresh())
        self._meta = reader.meta
        if changed:
            self._view = None
        return changed

    def __repr__(self) -> str:
        return f"<Run {self.name} ({self.status}) in {self.path}>"

    def _repr_html_(self) -> str:
        from clew.show.notebook import run_html

        return run_html(self)

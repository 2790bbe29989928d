"""A run, as people read it."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.errors import FormatError, NotARunError, UnknownNameError
from clew.history import status as how_it_ended
from clew.history.call import Call, Calls
from clew.history.change import Changes
from clew.history.functions import FunctionLine, function_lines
from clew.history.ledger import Ledger
from clew.history.match import matcher
from clew.history.naming import fitting, one_of
from clew.history.series import Series
from clew.history.tree import Tree
from clew.history.view import View

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from clew.history.trace import Trace
    from clew.page.report import Made
    from clew.page.serving import Served
    from clew.records import Note
    from clew.store.reader import RunReader


class Run:
    """A recorded run, finished or still going on (`refresh()` then takes in what was written since)."""

    def __init__(self, path: str | Path) -> None:
        from clew.store.folder import read_meta

        self.path = Path(path).absolute()
        self._reader: RunReader | None = None
        self._view: View | None = None
        self._meta: dict[str, Any]
        try:
            self._meta = read_meta(self.path)
        except (NotARunError, FormatError):
            self._opened()  # its records may be whole; if there are none either, this says what is wrong

    # ---- what it is

    @property
    def meta(self) -> dict[str, Any]:
        """argv, git, versions, host, start and end, tags: what was noted about the run as a whole."""
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
        """Seconds from start to end; None while it runs, or if its end was never written."""
        begin, end = self.meta.get("started_ns"), self.meta.get("ended_ns")
        return (end - begin) / 1e9 if isinstance(begin, int) and isinstance(end, int) else None

    @property
    def problems(self) -> list[str]:
        """What is damaged or missing in the run's files, said for people. Everything else was read."""
        return list(self._opened().problems)

    @property
    def ledger(self) -> Ledger:
        """What was asked for and not seen, dropped or not kept."""
        notes = [shard.notes for shard in self._opened().shards]
        return Ledger.merged(notes, self._happened, self._incomplete(), running=self.status == "running")

    def _incomplete(self) -> list[str]:
        reasons = self._opened().incomplete()
        if not reasons and self.status == "killed":
            return ["the run was killed: what it recorded last may be missing"]
        return reasons

    def _happened(self, note: Note) -> bool:
        """Whether another process saw what one of them says it never did."""
        if len(self._opened().shards) < 2:
            return False
        if note.kind == "never-called":
            return self._was_called(note.subject.removesuffix("()").removeprefix("class ").strip("`"))
        if note.text.startswith("--follow "):
            return self._was_called(note.subject)
        pattern, colon, names = note.subject.rpartition(": ")
        if colon:
            seen_in = [function for name in names.split(", ") for function in self.tables.table.functions_of(name)]
            return any(map(matcher(pattern), seen_in))
        seen_in = self.tables.table.functions_of(note.subject)
        # The sentence names its function, `step()`; another function may have the same name and mean another thing.
        named = [function for function in seen_in if f"{function.name}()" in note.text]
        return bool(named) or ("()" not in note.text and bool(seen_in))

    def _was_called(self, name: str) -> bool:
        """Whether a function of this name was, or one of a class of this name."""
        return len(self.calls(name)) > 0 or len(self.calls(f"*{name}.*")) > 0

    # ---- what it holds

    @property
    def names(self) -> list[str]:
        """The names that changed, in the order they first did: `loss`, or `train.loss` where others have a `loss`."""
        return self.tables.table.names

    def __getitem__(self, name: str) -> Series:
        """The series of a name: `loss`, `train.loss`, `train.loss@rank=1`. If several could be meant, it says which."""
        return self.series(name)

    def series(self, name: str, *, mode: str | None = None, rank: int | None = None) -> Series:
        """The same; of one mode of a model ("train" or "eval"), and of one rank."""
        origins = self.tables.table.naming.origins
        labels = [
            label
            for label in self._meant(name)
            if mode in (None, origins[label].mode) and rank in (None, origins[label].rank)
        ]
        label = one_of(labels, name, self.path.name, self.names)
        return Series(self.tables, label, self.tables.table.rows_of(label))

    def _meant(self, name: str) -> list[str]:
        """The series that may be meant, of those that have changes."""
        seen = self.tables.table.first_seen
        return [label for label in self.tables.table.naming.matching(name) if label in seen]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self._meant(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def changes(self, name: str | None = None) -> Changes:
        """Every change, in order of time; with a name or pattern those of all series that it may mean."""
        table = self.tables.table
        if name is None:
            return Changes(self.tables, table.all_rows)
        labels = self._meant(name) or fitting(self.names, name)
        return Changes(self.tables, table.rows_of_all(labels)) if labels else self.series(name).changes  # which raises

    def calls(self, pattern: str | None = None) -> Calls:
        """The calls, in the order they began; of one function if named, bare, qualified or by pattern."""
        return Calls(self.tables, self.tables.calls.matching(matcher(pattern)))

    def call(self, shard: str, id: int) -> Call | None:
        """The call with a number, in the shard of that name."""
        for place in reversed(self.tables.calls.matching(lambda function: True).tolist()):
            call = Call(self.tables, place)
            if call.id == id and call.shard == shard:
                return call
        return None

    def functions(self) -> list[FunctionLine]:
        """Every function that was called: how often, for how long, how often it raised. The longest first."""
        return function_lines(self.tables.calls)

    def tree(
        self,
        function: str | None = None,
        name: str | None = None,
        errors: bool = False,
        slow: float | str | None = None,
    ) -> Tree:
        """The calls as a tree; or those of a function and what they called, those in which a name changed or was
        given, those that raised, those that took at least so long (seconds, or "10ms"), with all that led to them."""
        return Tree(self.tables, function=function, name=name, errors=errors, slow=slow)

    @property
    def traces(self) -> list[Trace]:
        """What `clew.items` has let through, one trace after the other."""
        from clew.history.passages import traces_of

        return traces_of(self)

    @property
    def trace(self) -> Trace:
        """The last of them."""
        traces = self.traces
        if not traces:
            what = f"no trace was recorded in {self.path.name}."
            raise UnknownNameError("no-trace", what, "A trace is made by `with clew.items(3):`.")
        return traces[-1]

    # ---- for people

    def view(self) -> Served:
        """The page of this run: in a notebook a frame, elsewhere in the browser. `close()` ends its server."""
        # By its name: the page knows runs, and a run need not know the page.
        served: Served = importlib.import_module("clew.page.serving").view(self.path)
        return served

    def report(
        self,
        path: str | Path = "report.html",
        *,
        names: str | Sequence[str] | None = None,
        without: str | Iterable[str] = (),
        limit: int | str = "20MB",
    ) -> Made:
        """One file that opens without clew: `names=`, `without=` and `limit=` choose what goes in."""
        make_report = importlib.import_module("clew.page.report").make_report
        made: Made = make_report(self, path, names=names, without=without, limit=limit)
        return made

    # ---- reading

    @property
    def tables(self) -> View:
        """The tables behind it, as they stand now (for exports and pages, which work on columns)."""
        if self._view is None:
            shards = self._opened().shards
            self._view = View(self.path, shards, self._start_ns())
        return self._view

    def _start_ns(self) -> int:
        started = self.meta.get("started_ns")
        if isinstance(started, int):
            return started
        firsts = [int(shard.starts.time.min()) for shard in self._opened().shards if len(shard.starts.time)]
        return min(firsts, default=0)

    def _opened(self) -> RunReader:
        if self._reader is None:
            from clew.store.reader import RunReader

            self._reader = RunReader(self.path)
            self._meta = self._reader.meta
        return self._reader

    def refresh(self) -> bool:
        """Take in what was written since it was opened; True if there was anything new."""
        reader = self._opened()
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

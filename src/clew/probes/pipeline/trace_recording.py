"""A trace being recorded in this process: decides which calls are about its items, and writes them down."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from time import time_ns
from typing import TYPE_CHECKING, Any

from clew import recording, trouble
from clew.recorder.how_calls_end import describe
from clew.recorder.live_call import place_of
from clew.recorder.quiet_threads import QUIET, is_quiet
from clew.records import TraceFacts

from .flow import Flow, Who, has_rows, id_of, rows_in
from .last_batches import Ring
from .passage import StagedCall, devices_of, taken

if TYPE_CHECKING:
    from pathlib import Path

    from clew.recorder.recorder import Recorder

    from .stage_functions import Spot

REPEATED = 100  # passes of one spot by the same items that are recorded: a decoder may call its model for each word
PASSES = 2  # of a source whose items reach no other stage, before the program is stopped
ORIGINS = ("sampler", "dataset", "transform", "collate", "loader", "pin")  # kinds of spots where items come from
_numbers = itertools.count(1)
_here: ContextVar[Tracing | None] = ContextVar("clew_trace", default=None)
_threads: weakref.WeakKeyDictionary[threading.Thread, Tracing] = weakref.WeakKeyDictionary()
_open: list[Tracing] = []


class TraceOver(BaseException):
    """The items that were asked for are through. Ends the block of `clew.items`, which takes it."""

    def __init__(self, tracing: Tracing) -> None:
        super().__init__("clew: the items that were asked for have passed every stage; the program ends here")
        self.tracing = tracing


class RanDry(StopIteration):
    """A loader has no more items because no more were asked for: the end, if the program had counted on them."""

    def __init__(self, tracing: Tracing) -> None:
        super().__init__()
        self.tracing = tracing


def current() -> Tracing | None:
    """The trace that calls of this thread, or task, belong to."""
    if is_quiet():
        return None
    here = _here.get()
    if here is not None and here.open:
        return here
    if not _open:
        return None
    thread = threading._active.get(threading.get_ident())  # type: ignore[attr-defined]
    found = _threads.get(thread) if thread is not None else None
    if found is not None:
        return found if found.open else None
    if thread is None and len(_open) == 1:  # a thread of another library's, as autograd's
        return _open[0]
    return None


def open_traces() -> list[Tracing]:
    return list(_open)


def leave_all() -> None:
    """In a worker: whatever was open where the process comes from is none of its business."""
    _open.clear()
    _here.set(None)


@dataclass(slots=True)
class Source:
    """A spot where items come from."""

    name: str
    made: int = 0
    passes: int = 1


class Tracing:
    """One trace, in the process that asked for it or in one of its workers."""

    cut_batch: tuple[int, int] | None = None  # a loader's last batch was cut: its size, and what it was without

    def __init__(
        self,
        wanted: int | None,
        *,
        id: Any = None,
        depth: int = 1,
        batch_size: int | None = None,
        ring: bool = False,
        key: str | None = None,
        where: str = "",
        unreached: Callable[[set[str]], bool] = lambda reached: False,
    ) -> None:
        self.wanted = wanted
        self.id = id
        self.depth = depth
        self.batch_size = batch_size
        self.key = key or f"{os.getpid()}-{next(_numbers)}"
        self.where = where
        self.open = False
        self.flow = Flow()
        self.facts = TraceFacts(wanted)
        self.sources: dict[Any, Source] = {}
        self.ring = Ring() if ring else None
        self.unwritten: list[StagedCall] = []  # where there is no run to write into
        self.recorder: Recorder = recording.recorder()
        self.failed: StagedCall | None = None
        self.carries = False  # in a worker: what it sees goes along with the batch
        self.outbox: list[StagedCall] | None = None  # that
        self.thread = threading.get_ident()
        self._unreached = unreached  # whether stages that the user has named are still to be reached
        self.steps: dict[Any, int] = {}  # how often each optimizer has stepped, by the items it did it for
        self.went_beyond = False  # others than the items that were asked for are about: only known objects count
        self.moved_on: set[str] = set()  # stages reached by items that had left the place they come from
        self.afters: dict[Spot, Callable[[StagedCall, Who, Any], Who]] = {}  # who knows whose a stage's result is
        self._repeats: dict[tuple[Any, ...], int] = {}
        self._token: Any = None

    # ---- opening and closing

    def enter(self) -> None:
        self.open = True
        _open.append(self)
        self._token = _here.set(self)

    def leave(self) -> None:
        self.open = False
        if self in _open:
            _open.remove(self)
        if self._token is not None:
            try:
                _here.reset(self._token)
            except ValueError:  # left in another context than it was entered in
                _here.set(None)
            self._token = None

    @property
    def stored(self) -> Path | None:
        """The run's folder, if what is recorded gets there."""
        return None if self.recorder.dead or not self.recorder.folder.name else self.recorder.folder

    def altered(self, what: str) -> None:
        if what not in self.facts.altered:
            self.facts.altered.append(what)

    def note(self, what: str) -> None:
        if what not in self.facts.notes:
            self.facts.notes.append(what)

    def told(self) -> dict[str, Any]:
        """The facts, as they are written."""
        return {"trace": self.key, "facts": asdict(self.facts)}

    # ---- whose call it is

    def who(self, spot: Spot, named: dict[str, Any]) -> Who | None:
        """The items a call is about; None if it is about none that were asked for."""
        flow, scope = self.flow, self.flow.scope
        if scope is not None and scope.single:
            return scope
        if spot.kind == "dataset":
            return self._from_dataset(spot, named)
        known = flow.known(named.values())
        if known is not None:
            return self._fitted(known, scope)
        if scope is not None:
            return scope
        if spot not in self.sources:
            ambient = flow.ambient
            if ambient is not None:
                return None if self.went_beyond else ambient
        if spot.kind in ("stage", "model", "generator"):
            return self.new_items(spot, spot.function, _count(spot, named))
        return Who((), "", lost="nothing of it came from a stage that was seen")

    def _fitted(self, known: Who, scope: Who | None) -> Who:
        if known.single or known.batch is not None:
            return known
        if scope is not None and set(known.ids) <= set(scope.ids):
            return replace(known, batch=scope.batch)
        return replace(known, batch=self.flow.next_batch())

    def _from_dataset(self, spot: Spot, named: dict[str, Any]) -> Who | None:
        index, scope = next(iter(named.values()), None), self.flow.scope
        if scope is not None and scope.batched:
            whole = type(index) is list and len(index) == len(scope.ids)  # a dataset that is asked for a whole batch
            return scope if whole else self._of_batch(scope, id_of(index))
        index = id_of(index)
        seen = self.sources.setdefault((spot, "seen"), Source(spot.function.rpartition(".")[0] or spot.function))
        ids = self._repeats
        mark = ("item", spot, repr(index))
        if mark not in ids:
            if self.wanted is not None and seen.made >= self.wanted:
                self._beyond(spot)
                return None
            ids[mark] = seen.made
            seen.made += 1
        return Who((index,), seen.name)

    def _of_batch(self, scope: Who, index: Any) -> Who:
        """One of the items of the batch that is being made: the one of this index, else the next one in the order."""
        calls = self._repeats
        if not any(id is index or repr(id) == repr(index) for id in scope.ids):
            mark = ("in batch", scope.source, scope.batch)
            number = calls[mark] = calls.get(mark, -1) + 1
            index = scope.ids[number % len(scope.ids)] if scope.ids else index
        return Who((index,), scope.source, scope.batch)

    def new_items(self, key: Any, name: str, count: int = 1) -> Who | None:
        """Items that come from here; None, or the end, if there were enough already."""
        source = self.sources.setdefault(key, Source(name))
        if self.wanted is not None and source.made >= self.wanted:
            self._beyond(key)
            return None
        first = source.made
        source.made += count
        ids = tuple(range(first, first + count))
        if count == 1:
            return Who(ids, source.name)
        return Who(ids, source.name, self.flow.next_batch(), batched=True)

    def _beyond(self, key: Any) -> None:
        """Another item comes than those that were asked for: the end, unless they have not been everywhere yet."""
        if self.through(key):
            self.stop()
        self.went_beyond = True

    def through(self, key: Any) -> bool:
        """Whether the items of a source have been wherever they go."""
        own = getattr(key, "stage", "")
        return any(stage != own for stage in self.moved_on) or not self._unreached(set(self.facts.stages))

    def all_given(self) -> bool:
        """Whether every source that was opened has given what was asked of it."""
        return self.wanted is not None and all(known.made < 0 or known.made >= self.wanted for known in self._asked())

    def _asked(self) -> list[Source]:
        return list(self.sources.values())

    def stop(self) -> None:
        """End the program's part that is traced. In another thread than ours, only nothing more is given out."""
        if threading.get_ident() == self.thread:
            self.facts.state = "stopped"
            raise TraceOver(self)

    # ---- passing

    def run(
        self,
        spot: Spot,
        original: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        who: Who | None = None,
        named: dict[str, Any] | None = None,
        mode: str = "",
        after: Callable[[StagedCall, Who, Any], Who] | None = None,
    ) -> Any:
        """Make a call that passes a stage. `after` may know better whose its result is."""
        if self._inside(spot):
            return original(*args, **kwargs)
        given = self._named(spot, args, kwargs) if named is None else named
        about = who if who is not None else self._whose(spot, given)
        call = self.begin(spot, given, about, mode) if about is not None else None
        if call is None or about is None:
            return original(*args, **kwargs)
        call.stand_here()
        try:
            with self.flow.within(about):
                result = original(*args, **kwargs)
        except BaseException as error:
            call.step_aside()
            self.fail(call, error)
            raise
        call.step_aside()
        call.ended = time_ns()
        self.end(call, self._afterwards(call, about, result, after or self.afters.get(spot)), result)
        return result

    def _whose(self, spot: Spot, named: dict[str, Any]) -> Who | None:
        """Whose call it is; that we could not tell is our own trouble, and not the program's."""
        try:
            return self.who(spot, named)
        except Exception as error:
            _trouble(f"whose a call of {spot.function} is could not be told", error)
            return None

    def _afterwards(
        self, call: StagedCall, who: Who, result: Any, after: Callable[[StagedCall, Who, Any], Who] | None
    ) -> Who:
        try:
            return who if after is None else after(call, who, result)
        except Exception as error:
            _trouble(f"whose the rows are that {call.spot.function} gave could not be told", error)
            return replace(who, lost="clew failed to tell; its message says why")

    def _inside(self, spot: Spot) -> bool:
        """Whether it is called by something that is recorded in its place."""
        if not spot.outermost:
            return False
        levels, call = 0, place_of(threading.get_ident()).call
        while isinstance(call, StagedCall):
            levels += call.spot.kind == spot.kind
            call = call.parent_call
        return levels >= (self.depth if spot.kind == "model" else 1)

    def _named(self, spot: Spot, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            return spot.names(args, kwargs)
        except Exception as error:  # a call that cannot be made: the program's own error comes next
            trouble.report(f"stage-names:{spot.function}", f"the arguments of {spot.function} have no names", "", error)
            return {}

    def begin(
        self, spot: Spot, named: dict[str, Any], who: Who, mode: str = "", late: bool = False
    ) -> StagedCall | None:
        """A passage begins. None if it is not recorded."""
        if not self._first_passes(spot, who):
            return None
        try:
            call = StagedCall(spot, self.recorder, named)
        except Exception as error:
            trouble.report(
                f"stage:{spot.function}", f"a call of {spot.function} was not recorded", "", error, internal=True
            )
            return None
        self._note_who(call, who)
        devices = devices_of(named)
        call.meta.update({"devices": devices} if devices else {}, **({"mode": mode} if mode else {}))
        if who.batched and who.ids and not who.lost and any(has_rows(value, len(who.ids)) for value in named.values()):
            call.meta["by_row"] = True
        self.reached(spot)
        if self.ring is None and self.outbox is None and not late:
            self._write_begin(call)
        return call

    def reached(self, spot: Spot) -> None:
        if spot.stage not in self.facts.stages:
            self.facts.stages.append(spot.stage)
        if self.flow.scope is None and spot.kind not in ORIGINS:
            self.moved_on.add(spot.stage)

    def _first_passes(self, spot: Spot, who: Who) -> bool:
        mark = (spot, who.source, who.batch, repr(who.ids[:8]))
        count = self._repeats[mark] = self._repeats.get(mark, 0) + 1
        if count > REPEATED and self.ring is None:
            self.note(f"{spot.function} was called more than {REPEATED} times for the same items; the first are here")
            return False
        return True

    def _note_who(self, call: StagedCall, who: Who) -> None:
        call.meta["trace"] = self.key
        call.meta["ids"] = list(who.ids)
        call.meta["source"] = who.source
        call.meta["batch"] = who.batch
        if who.lost:
            call.meta["lost"] = who.lost
        where = self.where or ("" if call.thread == self.thread else f"thread {call.thread_name}")
        if where:
            call.meta["where"] = where

    def end(self, call: StagedCall, who: Who, result: Any, outputs: dict[str, Any] | None = None) -> None:
        """A passage is over; what it gave is its items' from now on."""
        try:
            outputs = call.spot.outputs(result) if outputs is None else outputs
            if self.id is not None and who.single and self._brings(call):
                self._call_by_name(call, result)
            if who.batched and not who.lost and not call.meta.get("by_row"):
                self._find_rows(call, who, outputs)
            call.finish(outputs)
            self.flow.carry(result, who)
            if self.flow.scope is None:
                self.flow.arrived(who)
        except Exception as error:
            name = call.spot.function
            trouble.report(f"stage-end:{name}", f"what {name} gave was not recorded", "", error, internal=True)
        self._write_end(call)

    def _brings(self, call: StagedCall) -> bool:
        """Whether the item comes from this call, and is not only passed on."""
        if call.parent_call is not None and call.parent_call.meta.get("ids") == call.meta.get("ids"):
            return False
        return call.spot.kind == "dataset" or call.spot.stage == "dataset" or call.spot in self.sources

    def _call_by_name(self, call: StagedCall, sample: Any) -> None:
        """What the user wants the item to be called."""
        try:
            with QUIET:
                if callable(self.id):
                    call.meta["called"] = self.id(sample)
                else:
                    call.meta["called"] = sample[self.id] if hasattr(sample, "keys") else getattr(sample, self.id)
        except Exception as error:
            self.note(f"id= gave no name: {describe(error)}; items are called by their index or number")

    def _find_rows(self, call: StagedCall, who: Who, outputs: dict[str, Any]) -> None:
        count = len(who.ids)
        if any(has_rows(value, count) for value in outputs.values()):
            call.meta["by_row"] = True
        elif count > 1 and call.spot.kind != "optimizer" and "lost" not in call.meta:
            call.meta["lost"] = f"the batch has {count} items, and nothing that went in or came out has {count} rows"

    def fail(self, call: StagedCall, error: BaseException) -> None:
        """A passage has ended with an exception; that the trace is over is none of its own."""
        ours = issubclass(type(error), TraceOver)
        call.finish({}, None if ours else error)
        if not ours:
            self.failed = self.failed or call
        if not ours or call.written:
            self._write_end(call)

    # ---- writing

    def _write_begin(self, call: StagedCall) -> None:
        if self.stored is None:
            self.unwritten.append(call)
            return
        call.written = True
        call.log += (taken(call.meta), call.plan.site(0, len(call.plan.names) - 1))
        self.recorder.begin(call)

    def _write_end(self, call: StagedCall) -> None:
        if self.outbox is not None:
            self.outbox.append(call)
        elif self.ring is not None:
            self.ring.add(call)
        elif call.written:
            call.fill()
            self.recorder.end(call)
            self.recorder.hold_bytes(call.size)
        elif call not in self.unwritten:
            self.write(call)

    def write(self, call: StagedCall) -> None:
        """A passage that is over, from beginning to end."""
        if self.stored is None:
            self.unwritten.append(call)
            return
        call.written = True
        call.fill()
        self.recorder.begin(call)
        self.recorder.end(call)

    def flush(self) -> None:
        if self.stored is not None:
            self.recorder.flush()


def _trouble(what: str, error: Exception) -> None:
    trouble.report(f"pipeline:{what}", what, "", error, internal=True)


def _count(spot: Spot, named: dict[str, Any]) -> int:
    """How many items come in at a spot where nothing is known of them: the rows of what a model is given."""
    if spot.kind != "model":
        return 1
    return next((rows for rows in map(rows_in, named.values()) if rows), 1)

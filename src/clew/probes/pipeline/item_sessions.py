"""`clew.items` and `clew.traceable`: let a few items through a program, and read what each stage got and gave."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from clew import env, recording, trouble
from clew.errors import ClewError, OptionError, TargetError
from clew.instrument.call_guard import add_note, attempt, cause_of
from clew.recorder.how_calls_end import describe
from clew.records import TraceFacts

from . import item_files, stages, threads
from .passage import StagedCall
from .plugins import Installed
from .stage_functions import Spot, fixed
from .trace_recording import RanDry, TraceOver, Tracing

if TYPE_CHECKING:
    from clew.reading.trace import Trace

F = TypeVar("F", bound=Callable[..., Any])

LAST_BATCH = "last batch"
_ROOT = Spot("trace", "clew.items", names=fixed(), kind="trace")


class items:  # noqa: N801  (a word of the language users write)
    """`with clew.items(3) as trace:` lets three items of each source through, then ends the block.

    n           how many items are let through
    id          what an item is called: a function of the sample, or the name of a key or attribute of it
                (default: its index, or its number)
    batch_size  the size of batches a torch DataLoader makes meanwhile (default: what it would make)
    depth       levels of modules inside modules that are recorded: 1 is the model as a whole
    auto        False: only what was decorated; or the libraries to look at: ["torch", "sklearn"]
    keep        "last batch": nothing is stopped; the last batch in every stage is held in memory, and written if the
                block fails
    """

    def __init__(
        self,
        n: int | None = None,
        *,
        id: str | Callable[[Any], Any] | None = None,
        batch_size: int | None = None,
        depth: int = 1,
        auto: bool | list[str] | tuple[str, ...] = True,
        keep: str | None = None,
    ) -> None:
        if keep not in (None, LAST_BATCH):
            raise OptionError("bad-option", f"keep={keep!r} is not known.", f"There is keep={LAST_BATCH!r}.")
        if n is None and keep is None:
            raise OptionError("bad-option", "clew.items() was not told how many items.", "Write clew.items(3).")
        if n is not None:
            _positive("clew.items() lets through", n)
        if batch_size is not None:
            _positive("batch_size= is", batch_size)
        _positive("depth= is", depth)
        if id is not None and not isinstance(id, str) and not callable(id):
            raise OptionError("bad-option", f"id= is a function or a name, not {id!r}.", 'E.g. id="path".')
        self._options: dict[str, Any] = {"id": id, "depth": depth, "batch_size": batch_size}
        self._wanted = n
        self._ring = keep == LAST_BATCH
        self._auto = auto
        self._tracing: Tracing | None = None
        self._root: StagedCall | None = None
        self._undo = ExitStack()

    def __enter__(self) -> Trace:
        if self._tracing is not None:
            raise OptionError("items-entered-twice", "this clew.items() is already open.", "Make another one.")
        try:
            if env.enabled() and recording.is_on():
                return self._open()
            note = "clew is switched off: nothing is traced"
        except BaseException as error:
            self._undo.close()
            self._tracing = None
            if isinstance(error, ClewError) or not isinstance(error, Exception):  # the user's own mistake, or Ctrl-C
                raise
            trouble.failed(error, "clew.items")
            note = "clew failed to open the trace: nothing is traced"
        return _untraced(self._wanted, note)

    def _open(self) -> Trace:
        from clew.reading.trace import Trace

        tracing = self._tracing = Tracing(self._wanted, ring=self._ring, unreached=stages.unreached, **self._options)
        trace = Trace(Loader(tracing))
        self._begin(tracing)
        undo = self._undo.callback  # whatever fails, Ctrl-C in the middle included, everything put in is taken out
        undo(attempt, tracing.leave)
        tracing.enter()
        item_files.listen()
        threads.inherit()
        undo(attempt, threads.stop_inheriting)
        stages.put_in()
        undo(attempt, stages.take_out)
        undo(attempt, Installed(self._auto).remove)
        return trace

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        tracing = self._tracing
        if tracing is None:
            return False
        self._undo.close()
        tracing.open = False
        over = _is_over(error, tracing)
        if not over:
            attempt(lambda: _tell_of_changes(error, tracing))
        attempt(lambda: self._close(tracing, None if over else error))
        self._tracing = None
        return over

    def _begin(self, tracing: Tracing) -> None:
        root = self._root = StagedCall(_ROOT, tracing.recorder, {})
        root.stage = None
        root.place = None
        root.meta = tracing.told()
        if tracing.stored is not None:
            tracing._write_begin(root)

    def _close(self, tracing: Tracing, error: BaseException | None) -> None:
        facts = tracing.facts
        if error is not None:
            facts.state, facts.error = "failed", describe(error)
        elif facts.state == "running":
            facts.state = "finished"
        try:
            self._last_words(tracing, error)
        except Exception as trouble_of_ours:
            trouble.report("items-close", "the end of a trace was not written", "", trouble_of_ours, internal=True)
        is_exception = error is not None and issubclass(type(error), Exception)
        if error is not None and is_exception and tracing.stored is not None and not env.quiet():
            add_note(error, f"clew: the trace up to here is clew.open({str(tracing.stored)!r}).trace")

    def _last_words(self, tracing: Tracing, error: BaseException | None) -> None:
        facts, root = tracing.facts, self._root
        if tracing.ring is not None and error is not None:
            for call in tracing.ring.taken(tracing.failed):
                tracing.write(call)
        _say_what_was_missing(tracing)
        facts.run = str(tracing.stored or "")
        assert root is not None
        root.finish({}, error)
        root.meta = tracing.told()
        if root.written:
            root.fill()
            tracing.recorder.end(root)
        tracing.flush()
        tracing.flow.forget()


def _positive(said: str, number: Any) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise OptionError("bad-option", f"{said} a number of 1 or more, not {number!r}.", "Write e.g. clew.items(3).")


@trouble.entry_point()
def _untraced(wanted: int | None, note: str) -> Trace:
    from clew.reading.trace import Trace

    return Trace.of([], TraceFacts(wanted, "off", notes=[note]))


@trouble.entry_point()
def _tell_of_changes(error: BaseException | None, tracing: Tracing) -> None:
    """A program that needs whole batches fails with one that was cut: its error says why, and what to do."""
    if error is None or not issubclass(type(error), Exception):
        return
    if tracing.cut_batch is None:
        if tracing.facts.altered:
            changes = "; ".join(tracing.facts.altered)
            add_note(error, f"clew.items changed the program for the trace, which may be the reason: {changes}.")
        return
    size, whole = tracing.cut_batch
    count = tracing.wanted or size
    enough = -(-count // whole) * whole
    add_note(
        error,
        f"clew.items({count}) lets {count} items through: the last batch had {size} of its {whole} items. "
        f"If the program needs whole batches, ask for {enough}: clew.items({enough}), clew run --items {enough}.",
    )


def _is_end(error: BaseException | None) -> TypeGuard[TraceOver | RanDry]:
    return issubclass(type(error), (TraceOver, RanDry))


@trouble.entry_point(otherwise=lambda error, tracing: issubclass(type(error), (TraceOver, RanDry)))
def _is_over(error: BaseException | None, tracing: Tracing) -> bool:
    """Whether an exception is our own end of the block, also as the cause of one a framework has made of it."""
    for _ in range(10):
        if _is_end(error) and error.tracing is tracing:
            return True
        if error is None:
            break
        error = cause_of(error)
    return False


def _say_what_was_missing(tracing: Tracing) -> None:
    if not tracing.facts.stages and not tracing.facts.notes:
        tracing.note("no stage was reached: put @clew.stage on the functions the items pass")
    for source in tracing.sources.values():
        if tracing.wanted is not None and 0 < source.made < tracing.wanted and tracing.facts.error is None:
            tracing.note(f"{source.name} had {source.made} items; {tracing.wanted} were asked for")


class Loader:
    """Reads a trace: from the run, where it is stored, and what could not be stored from memory."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    def __call__(self) -> Any:
        from clew.reading.trace_loading import passages_of, with_later_knowledge

        tracing = self._tracing
        held = list(tracing.unwritten)
        if tracing.ring is not None and tracing.open:
            held += tracing.ring.shown()
        passages = [call.passage() for call in held]
        if tracing.stored is not None:
            tracing.flush()
            from clew.reading import open_run

            passages += passages_of(open_run(tracing.stored), tracing.key)
        return with_later_knowledge(passages), tracing.facts


def traceable(verb: F) -> F:
    """Give a function a `trace=` keyword: with `trace=3` it lets three items through and gives the trace."""
    if isinstance(verb, (staticmethod, classmethod)):
        return type(verb)(traceable(verb.__func__))
    if isinstance(verb, type) or not callable(verb):
        what = f"clew.traceable was put on a {type(verb).__name__}, which is no function."
        raise TargetError("not-traceable", what, "Put it on the function that trains or infers.")
    signature = _with_trace(verb)
    if inspect.iscoroutinefunction(verb):

        @functools.wraps(verb)
        async def waiting(*args: Any, trace: Any = None, **kwargs: Any) -> Any:
            if not trace:
                return await verb(*args, **kwargs)
            with items(_asked(trace, verb)) as traced:
                await verb(*args, **kwargs)
            return traced

        waiting.__signature__ = signature  # type: ignore[attr-defined]
        return waiting  # type: ignore[return-value]

    @functools.wraps(verb)
    def tracing(*args: Any, trace: Any = None, **kwargs: Any) -> Any:
        if not trace:
            return verb(*args, **kwargs)
        with items(_asked(trace, verb)) as traced:
            verb(*args, **kwargs)
        return traced

    tracing.__signature__ = signature  # type: ignore[attr-defined]
    return tracing  # type: ignore[return-value]


def _asked(trace: Any, verb: Callable[..., Any]) -> int:
    if trace is True:
        return 1
    if not isinstance(trace, int) or trace < 1:
        name = getattr(verb, "__qualname__", "the function")
        raise OptionError("bad-option", f"{name}(trace=...) takes a number of items, not {trace!r}.", "E.g. trace=3.")
    return trace


def _with_trace(verb: Callable[..., Any]) -> inspect.Signature:
    signature = inspect.signature(verb)
    parameters = list(signature.parameters.values())
    if "trace" in signature.parameters:
        name = getattr(verb, "__qualname__", "the function")
        what = f"{name} has a parameter `trace` of its own."
        raise OptionError("trace-taken", what, "Give it another name, or use `with clew.items(3) as trace:`.")
    rest = [p for p in parameters if p.kind is inspect.Parameter.VAR_KEYWORD]
    added = inspect.Parameter("trace", inspect.Parameter.KEYWORD_ONLY, default=None)
    first = [p for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD]
    return signature.replace(parameters=[*first, added, *rest])

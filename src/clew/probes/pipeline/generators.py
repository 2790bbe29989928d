"""Generators as stages: each thing they give is an item, or several, that has passed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from time import time_ns
from typing import TYPE_CHECKING, Any

from clew import trouble
from clew.instrument.call_guard import Around, attempt

from .flow import Pull, Who, has_rows
from .passage import StagedCall

if TYPE_CHECKING:
    from .stage_functions import Spot
    from .trace_recording import Tracing

_Call = Callable[..., Any]


def passing_generator(
    tracing: Tracing, spot: Spot, original: _Call, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Generator[Any, Any, Any]:
    """What `original(*args, **kwargs)` would be, with every item looked at on its way out."""
    inner = original(*args, **kwargs)
    steps = _steps(tracing, spot, args, kwargs)
    if steps is None:
        return (yield from inner)
    sent: Any = None
    thrown: BaseException | None = None
    try:
        while True:
            if not steps.may_go_on():
                return None
            call = steps.begin()
            try:
                with Around(lambda: tracing.flow.pulling(steps.pull)), Around(steps.scope):
                    item = inner.send(sent) if thrown is None else inner.throw(thrown)
            except StopIteration as stop:
                steps.aside(call)
                return stop.value
            except BaseException as error:
                steps.failed(call, error)
                raise
            steps.given(call, item)
            sent, thrown = None, None
            try:
                sent = yield item
            except GeneratorExit:
                raise
            except BaseException as error:
                thrown = error
    finally:
        inner.close()


async def passing_async_generator(
    tracing: Tracing, spot: Spot, original: _Call, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> AsyncIterator[Any]:
    """The same for one that waits."""
    inner = original(*args, **kwargs)
    steps = _steps(tracing, spot, args, kwargs)
    try:
        while steps is None or steps.may_go_on():
            call = steps.begin(stands=False) if steps is not None else None
            try:
                item = await inner.__anext__()
            except StopAsyncIteration:
                return
            except BaseException as error:
                if steps is not None:
                    steps.failed(call, error)
                raise
            if steps is not None:
                steps.given(call, item)
            yield item
    finally:
        await inner.aclose()


async def passing_coroutine(
    tracing: Tracing, spot: Spot, original: _Call, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """A coroutine whose result passes the stage."""
    call, who = _begun(tracing, spot, args, kwargs)
    if call is None or who is None:
        return await original(*args, **kwargs)
    try:
        with Around(lambda: tracing.flow.within(who)):
            result = await original(*args, **kwargs)
    except BaseException as error:
        own = error
        attempt(lambda: tracing.fail(call, own))
        raise
    attempt(lambda: tracing.end(call, who, result))
    return result


@trouble.entry_point(otherwise=lambda *_: (None, None))
def _begun(
    tracing: Tracing, spot: Spot, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[StagedCall | None, Who | None]:
    named = tracing._named(spot, args, kwargs)
    who = tracing._whose(spot, named)
    call = tracing.begin(spot, named, who) if who is not None else None
    if call is not None:
        call.place = None  # other tasks run meanwhile; it is nobody's parent
    return call, who


@trouble.entry_point()
def _steps(tracing: Tracing, spot: Spot, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Steps | None:
    return _Steps(tracing, spot, tracing._named(spot, args, kwargs))


class _Steps:
    """One generator's items."""

    def __init__(self, tracing: Tracing, spot: Spot, named: dict[str, Any]) -> None:
        self.tracing = tracing
        self.spot = spot
        self.named = named
        self.pull = Pull([])
        self.source = False  # its items come from nowhere else
        self._begun = False
        self._gives_batches = False

    @trouble.entry_point(otherwise=lambda *_: True)
    def may_go_on(self) -> bool:
        """Before a source is asked for another item: whether there are still some to come."""
        tracing, known = self.tracing, self.tracing.sources.get(self.spot)
        if not self._begun:
            self._begun = True
            if known is None or tracing.wanted is None or known.made < tracing.wanted:
                return True
            return self._again()
        return not (
            self.source and tracing.open and tracing.wanted is not None and known is not None
            and known.made >= tracing.wanted
        )  # fmt: skip

    def _again(self) -> bool:
        """The source is read once more: the items' next pass if they have not been anywhere, else this is the end."""
        from .trace_recording import PASSES

        known = self.tracing.sources[self.spot]
        if self.tracing.through(self.spot) or known.passes >= PASSES:
            self.tracing.stop()
            return False
        known.made, known.passes = 0, known.passes + 1
        return True

    def scope(self) -> AbstractContextManager[None]:
        """What its own code calls is about the item that is being made, if that is known; not about a batch."""
        scope = self.tracing.flow.scope
        return nullcontext() if scope is None or scope.single else self.tracing.flow.outside()

    @trouble.entry_point()
    def begin(self, stands: bool = True) -> StagedCall | None:
        call = StagedCall(self.spot, self.tracing.recorder, self.named)
        if stands:
            call.stand_here()
        else:
            call.place = None
        return call

    @trouble.entry_point()
    def aside(self, call: StagedCall | None) -> None:
        if call is not None:
            call.step_aside()

    @trouble.entry_point()
    def failed(self, call: StagedCall | None, error: BaseException) -> None:
        if call is None:
            return
        call.step_aside()
        taken = list(dict.fromkeys(self.pull.taken))
        self.tracing._note_who(call, taken[-1] if taken else Who((), "", lost="it raised before it gave anything"))
        self.tracing.fail(call, error)

    @trouble.entry_point()
    def given(self, call: StagedCall | None, item: Any) -> None:
        if call is None:
            return
        call.step_aside()
        tracing = self.tracing
        if not tracing.open:
            return
        who = self._who(item)
        if who is None:
            return
        tracing._note_who(call, who)
        tracing.reached(self.spot)
        # It is reached when the item comes out of it: what it took in has been elsewhere before.
        call.ended = time_ns()
        call.meta["took"] = call.ended - call.started
        call.started = call.drained_at = call.ended
        tracing.end(call, who, item)

    def _who(self, item: Any) -> Who | None:
        """Whose the item is: by the objects in it, else by what the generator took in to make it."""
        tracing, pull = self.tracing, self.pull
        taken = list(dict.fromkeys(pull.taken))
        pull.taken.clear()
        scope = tracing.flow.scope
        if scope is not None and scope.single:
            return scope
        known = tracing.flow.known([item])
        if known is not None:
            return tracing._fitted(known, scope)
        if len(taken) == 1:
            return self._several(item, taken) if self._gives_batches and taken[0].single else taken[0]
        if taken:
            return self._several(item, taken)
        if pull.last is not None:  # one in, several out
            return pull.last
        self.source = True
        return tracing.new_items(self.spot, self.spot.function)

    def _several(self, item: Any, taken: list[Who]) -> Who:
        ids = tuple(id for who in taken for id in who.ids)
        if has_rows(item, len(ids)):
            self._gives_batches = True
            return replace(taken[0], ids=ids, batched=True, batch=self.tracing.flow.next_batch(), lost="")
        if len(ids) == 1:
            return taken[0]
        lost = f"{len(ids)} items went in before this came out; which of them it is made of is not known"
        return replace(taken[0], ids=ids, lost=lost)

"""Examples of Hugging Face datasets: which are in a dataset, and what the function of a map makes of them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import time_ns
from typing import Any

from clew import trouble
from clew.instrument.call_guard import Around
from clew.probes.pipeline.flow import Who
from clew.probes.pipeline.passage import StagedCall
from clew.probes.pipeline.stage_functions import Names, Spot
from clew.probes.pipeline.stages import is_stage
from clew.probes.pipeline.trace_recording import Tracing
from clew.recorder.fingerprints import original_code
from clew.values.class_facts import is_exactly

from .naming import function_of, name_of


@dataclass(frozen=True, slots=True)
class Examples:
    """The examples of a dataset, row by row."""

    ids: tuple[Any, ...]
    source: str
    lost: str = ""  # why it is not known which they are

    def first(self, count: int) -> Examples:
        return Examples(self.ids[:count], self.source, self.lost)

    def who(self, index: int | list[int], batch: int | None) -> Who:
        """Those a call is about that was told these indices."""
        if self.lost:
            return Who((), self.source, batch, batch is not None, self.lost)
        if not isinstance(index, list):
            return Who((self.ids[index],), self.source)
        return Who(tuple(self.ids[i] for i in index), self.source, batch, batched=True)


@dataclass(slots=True)
class Given:
    """How a function is called, and what came of it."""

    examples: Examples
    is_filter: bool = False
    batched: bool = False
    with_indices: bool = False  # whether the function itself wants them
    with_rank: bool = False
    about: Who | None = None  # which example a call is about, where that is known better
    kept: dict[int, bool] | None = field(default_factory=dict)  # by index; None: a filter has not said it clearly

    def note(self, index: Any, result: Any) -> None:
        """What a filter said of examples."""
        if not self.is_filter or self.kept is None:
            return
        indices = index if isinstance(index, list) else [index]
        said = _listed(result) if self.batched else [result]
        if said is None or len(said) != len(indices) or not all(_is_bool(one) for one in said):
            self.kept = None
            return
        self.kept.update(zip(indices, map(bool, said), strict=True))

    def after(self, count: int) -> Examples:
        """The examples of what came out."""
        before = self.examples
        ids = before.ids
        if self.is_filter and not before.lost:
            ids = () if self.kept is None else tuple(id for i, id in enumerate(ids) if self.kept.get(i))
        if before.lost or len(ids) == count:
            return Examples(ids, before.source, before.lost)
        lost = f"{len(before.ids):,} examples went in, {count:,} came out, and nothing says which are which"
        return Examples((), before.source, lost)


def _listed(result: Any) -> list[Any] | None:
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(result, numpy.ndarray):
        return list(result)
    return list(result) if is_exactly(result, list, tuple) else None


def _is_bool(value: Any) -> bool:
    return is_exactly(value, bool, int) or type(value).__name__ in ("bool_", "bool")


# ---- the function


def seen(
    tracing: Tracing,
    function: Any,
    given: Given,
    method: str,
    begin: Callable[[], None] | None = None,
    done: Callable[[Any, Any], None] | None = None,
) -> Callable[..., Any]:
    """A function that calls `function` as before and writes down what it got and gave. It is told indices."""
    spot = None if is_stage(function_of(function)) else _spot(function, method)

    # Both find the index among the arguments, and what the function is to be given, by themselves: nothing can fail.
    def calling(*args: Any, **kwargs: Any) -> Any:
        place = len(args) - 1 - given.with_rank
        own = args if given.with_indices else args[:place] + args[place + 1 :]
        passage = _passage(tracing, spot, given, begin, args[place], own, kwargs)
        if passage is None:
            return function(*own, **kwargs)
        with Around(passage.going_on):
            result = function(*own, **kwargs)
        passage.over(result, done)
        return result

    async def waiting(*args: Any, **kwargs: Any) -> Any:
        place = len(args) - 1 - given.with_rank
        own = args if given.with_indices else args[:place] + args[place + 1 :]
        passage = _passage(tracing, spot, given, begin, args[place], own, kwargs)
        if passage is None:
            return await function(*own, **kwargs)
        with Around(lambda: passage.going_on(alone=False)):
            result = await function(*own, **kwargs)
        passage.over(result, done)
        return result

    return waiting if inspect.iscoroutinefunction(function) else calling


@trouble.entry_point()
def _passage(
    tracing: Tracing,
    spot: Spot | None,
    given: Given,
    begin: Callable[[], None] | None,
    index: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> _Passage | None:
    if begin is not None:
        begin()
    batch = tracing.flow.next_batch() if given.batched else None
    who = given.about or given.examples.who(index, batch)
    call = _begun(tracing, spot, args, kwargs, who) if spot is not None else None
    return _Passage(tracing, given, index, who, call)


@dataclass(slots=True)
class _Passage:
    """One call of the function."""

    _tracing: Tracing
    _given: Given
    _index: Any
    _who: Who
    _call: StagedCall | None

    @contextmanager
    def going_on(self, alone: bool = True) -> Iterator[None]:
        """While it runs; not `alone`: other examples are worked on meanwhile, so it is nobody's parent."""
        call = self._call
        if call is not None and alone:
            call.stand_here()
        elif call is not None:
            call.place = None
        try:
            with self._tracing.flow.within(self._who):
                yield
        except BaseException as error:
            if call is not None:
                call.step_aside()
                self._tracing.fail(call, error)
            raise
        if call is not None:
            call.step_aside()
            call.ended = time_ns()

    @trouble.entry_point()
    def over(self, result: Any, done: Callable[[Any, Any], None] | None) -> None:
        self._given.note(self._index, result)
        if done is not None:
            done(self._index, result)
        if self._call is not None:
            with self._tracing.flow.within(self._who):  # so that what the program does next is not about this example
                self._tracing.end(self._call, self._who, None, {str(self._call.spot.result): plain(result)})


def _begun(tracing: Tracing, spot: Spot, args: tuple[Any, ...], kwargs: dict[str, Any], who: Who) -> StagedCall | None:
    try:
        named = {name: plain(value) for name, value in spot.names(args, kwargs).items()}
    except Exception as error:
        trouble.report(f"stage-names:{spot.function}", f"the arguments of {spot.function} have no names", "", error)
        named = {}
    return tracing.begin(spot, named, who)


def plain(value: Any) -> Any:
    """An example as a dict. The library's own decodes each column when it is asked for, and takes note: a copy is."""
    formatting: Any = sys.modules.get("datasets.formatting.formatting")
    if formatting is None or not isinstance(value, formatting.LazyDict):
        return value
    copy = value.copy()
    try:
        copy._format_all()
    except Exception:  # a picture that cannot be decoded; what the function did not ask for it need not know
        copy.data = {key: held for key, held in copy.data.items() if key not in copy.keys_to_format}
    return dict(copy.data)


_spots: dict[tuple[Any, ...], Spot] = {}


def _spot(function: Any, method: str) -> Spot:
    inner = function_of(function)
    code = original_code(inner)
    name = name_of(inner)
    where = (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)
    stage = name.rpartition(".")[2]
    stage = method if stage == "<lambda>" else stage
    known = _spots.get((method, name, *where))
    if known is None:
        names = Names(function, None, receiver=False, defaults=False)
        known = _spots[method, name, *where] = Spot(
            stage,
            name,
            module=getattr(inner, "__module__", "") or "",
            code=code,
            names=names,
            result="result" if "result" not in names.known else "returned",
            kind="transform",
            ours=True,
        )
    return known

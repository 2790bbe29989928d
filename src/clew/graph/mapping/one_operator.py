"""`clew.map` and `clew.submit`: one operator over many values, and calls that do not wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from clew.errors import TargetError
from clew.graph.operators import Operator, is_operator
from clew.graph.recording.session import current

if TYPE_CHECKING:
    from collections.abc import Iterator

Result = TypeVar("Result")

_pool: ContextVar[ThreadPoolExecutor | None] = ContextVar("clew_pool", default=None)


class MapOperator(Operator):
    """An operator called for each of the values: one step of a graph, however many there are."""

    def __init__(self, inner: Callable[..., Any], star: bool = False) -> None:
        self.inner = inner
        self.star = star  # each value is the arguments of a call
        super().__init__(self.each, name=f"{'starmap' if star else 'map'}({_name(inner)})")

    def each(self, *columns: Iterable[Any]) -> list[Any]:
        pool, call = _pool.get(), _unrecorded(self.inner)
        rows = [tuple(row) for row in columns[0]] if self.star else list(zip(*columns, strict=True))
        if pool is None or len(rows) < 2:
            return [call(*row) for row in rows]
        return list(pool.map(lambda row: call(*row), rows))


def _name(inner: Any) -> str:
    return inner.name if isinstance(inner, Operator) else str(getattr(inner, "__qualname__", type(inner).__name__))


def _unrecorded(inner: Any) -> Callable[..., Any]:
    return inner.call if isinstance(inner, Operator) else inner


_maps: dict[tuple[int, bool], tuple[Any, MapOperator]] = {}


def map(op: Callable[..., Result], *columns: Iterable[Any]) -> list[Result]:
    """`[op(x) for x in xs]`; in a recorded pipeline one step, whatever the length."""
    results: list[Result] = _mapping(op, star=False)(*columns)
    return results


def starmap(op: Any, rows: Any) -> Any:
    """`[op(*row) for row in rows]`, likewise."""
    return _mapping(op, star=True)(rows)


def _mapping(op: Any, star: bool) -> MapOperator:
    _require_callable(op, "map", "clew.map(op, xs)")
    if current() is not None and not is_operator(op):
        what = f"clew.map in a recorded pipeline takes an operator, and {_name(op)} is none."
        raise TargetError("not-an-operator", what, "Put @clew.op on it.")
    known = _maps.get((id(op), star))
    if known is None or known[0] is not op:
        known = _maps[(id(op), star)] = (op, MapOperator(op, star))
    return known[1]


def _require_callable(op: Any, verb: str, example: str) -> None:
    if not callable(op):
        what = f"clew.{verb} takes an operator, not a {type(op).__name__}."
        raise TargetError("not-an-operator", what, example)


class Pending(Generic[Result]):
    """What `clew.submit` gives: `.get()` waits for the result."""

    def __init__(self, result: Any = None, future: Future[Result] | None = None) -> None:
        self._result: Result = result
        self._future = future

    def get(self) -> Result:
        return self._result if self._future is None else self._future.result()

    __call__ = get  # as Matx's futures are asked, too


def submit(op: Callable[..., Result], *args: Any, **kwargs: Any) -> Pending[Result]:
    """Call an operator without waiting; in a recorded pipeline a step that others need not wait for."""
    _require_callable(op, "submit", "clew.submit(op, x).get()")
    pool = _pool.get()
    if current() is not None:
        from clew.graph.recording.rewritten_calls import HOOKS

        return Pending(HOOKS.call(op, *args, **kwargs))  # a function of the pipeline's own is seen through
    if pool is None:
        return Pending(op(*args, **kwargs))
    context = copy_context()
    return Pending(future=pool.submit(context.run, _in_pool, op, args, kwargs))


def _in_pool(op: Any, args: Any, kwargs: Any) -> Any:
    """In a thread of the pool, which must not wait for another of them: all might."""
    _pool.set(None)
    return op(*args, **kwargs)


for _function in (map, starmap, submit):  # called in a recorded pipeline, they see to it themselves
    vars(_function)["__clew_op__"] = True


@contextmanager
def pooled(workers: int | None) -> Iterator[None]:
    """`clew.map` and `clew.submit` in here use so many threads."""
    if not workers or workers < 2:
        yield
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="clew-pool") as pool:
        token = _pool.set(pool)
        try:
            yield
        finally:
            _pool.reset(token)

"""scikit-learn: the steps of a `Pipeline`, the transformers of a `ColumnTransformer` and of a `FeatureUnion`.

Each is a stage under the name the user gave it. Nothing is cut short: estimators are fitted on all rows, and the rows
of the items are captured (see tables.py). A step is known by the object; ColumnTransformer works on clones, so what
`clone` makes of a known step is known as well.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import FunctionType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from clew import trouble
from clew.probes.pipeline.stage_functions import Spot, fixed
from clew.probes.pipeline.stages import Passer
from clew.probes.pipeline.trace_recording import Tracing, current
from clew.recorder.fingerprints import original_code

from . import site as open_site
from .cutting import count_of, cut
from .tables import Rows, follow, passing, settled, shown, tables

if TYPE_CHECKING:
    from clew.probes.pipeline.plugins import Site

_RESULTS = {  # what each method gives is called
    "fit": "self", "fit_transform": "Xt", "transform": "Xt", "inverse_transform": "inverse",
    "fit_predict": "prediction", "predict": "prediction", "predict_proba": "prediction",
    "predict_log_proba": "prediction", "decision_function": "prediction", "score_samples": "prediction",
    "score": "score",
}  # fmt: skip
_TAKES_Y = ("fit", "fit_transform", "fit_predict", "score")
_WHOLES = (("sklearn.pipeline", "Pipeline"), ("sklearn.pipeline", "FeatureUnion"),
           ("sklearn.compose._column_transformer", "ColumnTransformer"))  # fmt: skip
_spots: dict[tuple[str, str, str], Spot] = {}


def install(site: Site) -> None:
    """Modules of scikit-learn that are not loaded are not loaded for us: other libraries load a part of it."""
    from wrapt import register_post_import_hook

    for module in dict.fromkeys(module for module, _ in _WHOLES):
        if module in sys.modules:
            _put_in(site, module)
        elif module not in _awaited:
            _awaited.add(module)
            register_post_import_hook(_loaded, module)


_awaited: set[str] = set()


@trouble.entry_point()
def _loaded(module: Any) -> None:
    site = open_site()
    if site is not None and "sklearn" in site._done:  # a trace is open that wants it
        _put_in(site, module.__name__)


def _put_in(site: Site, module: str) -> None:
    site.swap(sys.modules["sklearn.base"].clone, _Cloning())
    for name in [name for home, name in _WHOLES if home == module]:
        for cls in _with_subclasses(getattr(sys.modules[module], name)):
            _look_at(site, cls)


def _with_subclasses(cls: type) -> list[type]:
    below: list[type] = type.__subclasses__(cls)
    return [cls, *(found for sub in below for found in _with_subclasses(sub))]


def _look_at(site: Site, cls: type) -> list[str]:
    """Let the methods of a class of estimators lead to us; gives those that cannot."""
    closed = []
    for name in _RESULTS:
        function = _function(cls, name)
        if function is None:
            continue
        if not isinstance(function, FunctionType):
            closed.append(name)
        else:
            site.swap(function, _Method(name))
    return closed


def _function(cls: type, name: str) -> Any:
    """What a method runs; None if there is no such method."""
    found = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
    return getattr(found, "fn", found)  # of `available_if`


# ---- where we are


@dataclass(eq=False, slots=True)
class _Frame:
    """A call of a whole, or of one of its steps, that is going on."""

    tracing: Tracing
    estimator: Any
    rows: Rows | None  # of what it was given; None: nothing inside is recorded
    is_whole: bool
    called: set[str] = field(default_factory=set)
    over: bool = False


@dataclass(frozen=True, slots=True)
class _Step:
    """An object that is a step of a whole."""

    name: str
    frame: _Frame
    held: Callable[[], Any]


_frame: ContextVar[_Frame | None] = ContextVar("clew_sklearn", default=None)
_steps: WeakKeyDictionary[Tracing, dict[int, _Step]] = WeakKeyDictionary()


def _step_of(tracing: Tracing, estimator: Any) -> _Step | None:
    step = _steps.get(tracing, {}).get(id(estimator))
    return step if step is not None and step.held() is estimator and not step.frame.over else None


def _know(frame: _Frame, name: str, estimator: Any) -> None:
    try:
        held: Callable[[], Any] = ref(estimator)
    except TypeError:
        held = lambda: estimator  # noqa: E731
    _steps.setdefault(frame.tracing, {})[id(estimator)] = _Step(name, frame, held)
    site = open_site()
    closed = _look_at(site, type(estimator)) if site is not None else []
    if "fit" in closed or "transform" in closed or "predict" in closed:
        frame.tracing.note(f"scikit-learn: {name} ({type(estimator).__name__}) is no Python code, and is not seen")


@contextmanager
def _within(frame: _Frame) -> Iterator[None]:
    token = _frame.set(frame)
    try:
        yield
    finally:
        frame.over = True
        _frame.reset(token)


def _is_whole(estimator: Any) -> bool:
    kinds = tuple(getattr(sys.modules.get(module), name, ()) for module, name in _WHOLES)
    return any(isinstance(kind, type) and isinstance(estimator, kind) for kind in kinds)


def _members(whole: Any) -> list[tuple[str, Any]]:
    """The steps of a whole by name: those it was made with, and those it has fitted."""
    own = vars(whole)
    entries = [*(own.get("steps") or ()), *(own.get("transformer_list") or ())]
    given = own.get("transformers") or ()
    passed_on = {entry[0] for entry in given if isinstance(entry[1], str)}
    if isinstance(own.get("remainder"), str):
        passed_on.add("remainder")
    fitted = [entry for entry in own.get("transformers_") or () if entry[0] not in passed_on]
    entries += [*given, *fitted, ("remainder", own.get("remainder"))]
    return [(entry[0], entry[1]) for entry in entries if entry[1] is not None and not isinstance(entry[1], str)]


# ---- calls


class _Cloning(Passer):
    """At `sklearn.base.clone`: the copy of a step is that step."""

    def __init__(self) -> None:
        super().__init__(Spot("clone", "clone", names=fixed()))

    def __call__(self, twin: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        copy = twin(*args, **kwargs)
        tracing = current()
        step = _step_of(tracing, args[0]) if tracing is not None and args else None
        if step is not None and copy is not args[0]:
            _know(step.frame, step.name, copy)
        return copy


class _Method(Passer):
    """At a method of estimators."""

    def __init__(self, method: str) -> None:
        super().__init__(Spot(method, method, names=fixed()))
        self._method = method

    def __call__(self, twin: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tracing = current()
        if tracing is None or not args:
            return twin(*args, **kwargs)
        call = _Call(tracing, self._method, args, kwargs)
        try:
            way = call.way()
        except Exception as error:
            name = f"{type(args[0]).__name__}.{self._method}"
            trouble.report(f"stage:{name}", f"a call of {name} was not recorded", "", error, internal=True)
            way = None
        return twin(*args, **kwargs) if way is None else way(lambda: twin(*args, **kwargs))


Way = Callable[[Callable[[], Any]], Any]


class _Call:
    """One call of a method of an estimator, and what it is to us."""

    def __init__(self, tracing: Tracing, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.tracing = tracing
        self.method = method
        self.estimator = args[0]
        self.X = args[1] if len(args) > 1 else kwargs.get("X", next(iter(kwargs.values()), None))
        self.y = (args[2] if len(args) > 2 else kwargs.get("y")) if method in _TAKES_Y else None
        self.name = f"{type(self.estimator).__qualname__.rpartition('<locals>.')[2]}.{method}"

    def way(self) -> Way | None:
        """How the call is to be made; None: as if nobody looked."""
        frame = _frame.get()
        if frame is not None and (frame.tracing is not self.tracing or frame.over):
            frame = None
        if frame is not None and frame.estimator is self.estimator:
            return None  # its own business: fit_transform calls fit
        step = _step_of(self.tracing, self.estimator)
        if step is not None and (frame is step.frame or frame is None):  # no frame: a thread of joblib's
            return self._as_step(step)
        if not _is_whole(self.estimator):
            return None
        if frame is not None and frame.is_whole:
            return self._unseen  # a part of a pipeline, made to prepare an argument
        return self._as_first()

    def _unseen(self, original: Callable[[], Any]) -> Any:
        with _within(_Frame(self.tracing, self.estimator, None, True)):
            return original()

    def _as_first(self) -> Way | None:
        rows = tables(self.tracing).arrive(self.tracing, self.X, self.name)
        if rows is None:
            return self._unseen
        self._say(rows)
        return lambda original: self._inside(rows, original)

    def _say(self, rows: Rows) -> None:
        if rows.count <= len(rows.places) or rows.who.single:
            return
        fits = self.method.startswith("fit")
        how = "fitted on all" if fits else "given all"
        begins = f"scikit-learn: {how} "
        if not any(note.startswith(begins) for note in self.tracing.facts.notes):
            several = len(rows.places) != 1
            shown_rows = f"{len(rows.places)} rows" if several else "1 row"
            verb = "are" if several else "is"
            self.tracing.note(f"{begins}{rows.count:,} rows; {shown_rows} of each table {verb} shown")

    def _inside(self, rows: Rows, original: Callable[[], Any]) -> Any:
        """The call itself; what is a whole has steps that are stages."""
        is_whole = _is_whole(self.estimator)
        frame = _Frame(self.tracing, self.estimator, rows, is_whole)
        members = _members(self.estimator) if is_whole else []
        for name, member in members:
            _know(frame, name, member)
        with _within(frame):
            result = original()
        self._say_unseen(frame, [name for name, _ in members])
        return result

    def _say_unseen(self, frame: _Frame, names: list[str]) -> None:
        missing = [name for name in dict.fromkeys(names) if name not in frame.called]
        own = vars(self.estimator)
        if not missing:
            return
        if own.get("n_jobs") not in (None, 1):
            why = f"n_jobs={own['n_jobs']} runs them in other processes"
        elif own.get("memory") is not None and self.method.startswith("fit"):
            why = "memory= had it already"
        else:
            return
        whole = type(self.estimator).__name__
        self.tracing.note(f"scikit-learn: {', '.join(missing)} of {whole}.{self.method} not seen: {why}")

    def _as_step(self, step: _Step) -> Way | None:
        step.frame.called.add(step.name)
        if step.frame.rows is None:
            return None
        rows = self._rows(step.frame.rows)
        key = (step.name, self.name, _RESULTS[self.method])
        spot = _spots.get(key)
        if spot is None:
            spot = _spots[key] = _spot(step.name, self.name, type(self.estimator), self.method)
        named = {"X": shown(self.X, rows)}
        if self.y is not None:
            named["y"] = shown(self.y, rows)

        def way(original: Callable[[], Any]) -> Any:
            return passing(self.tracing, spot, named, rows, lambda: self._inside(rows, original), self._given(rows))

        return way

    def _rows(self, outer: Rows) -> Rows:
        """Where the items are in what a step is given: what the step before gave, or columns of what the whole got."""
        known = tables(self.tracing).known(self.X)
        if known is not None:
            return settled(known)
        return settled(follow(outer, self.X, self.X))

    def _given(self, rows: Rows) -> Callable[[Any], tuple[Rows, dict[str, Any]]]:
        def given(result: Any) -> tuple[Rows, dict[str, Any]]:
            if self.method == "fit":
                return rows, {}
            name = _RESULTS[self.method]
            if type(result) is list and self.method.startswith("predict"):  # one array for each output
                return rows, {name: [shown(part, rows) for part in result]}
            if count_of(result) is None:
                return rows, {name: result}
            after = follow(rows, self.X, result)
            tables(self.tracing).remember(result, settled(after))
            return after, {name: cut(result, after.places)}

        return given


def _spot(stage: str, name: str, cls: type, method: str) -> Spot:
    function = _function(cls, method)
    code = original_code(inspect.unwrap(function)) if function is not None else None
    return Spot(
        stage,
        name,
        module=cls.__module__,
        code=code,
        names=fixed("X", "y", receiver=True),
        result=_RESULTS[method],
        kind="table",
        ours=True,
    )

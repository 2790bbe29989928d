"""hyrax.trace's names, over clew: `from clew.compat.hyrax import trace_dataset_func, trace_verb_data, get_trace`.

It can also be `hyrax.trace` itself: `sys.modules["hyrax.trace"] = clew.compat.hyrax` before hyrax is imported. Every
call is kept in a TraceResult, as there, and passes a stage of the clew run as well: `clew.open("latest").trace`.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from time import perf_counter_ns
from types import FunctionType, MethodType, TracebackType
from typing import TYPE_CHECKING, Any

from clew import trouble
from clew.compat.hyraxcalls import RESULT, TraceCall, TraceDef, TracePrintable, TraceStage, copied, indented
from clew.compat.hyraxshims import (
    ABSENT,
    Shim,
    alter,
    found_in,
    inner,
    item_count,
    known_models,
    named_arguments,
    put_up,
    unshimmed,
    workers_in,
)
from clew.errors import TargetError
from clew.instrument.call_guard import add_note
from clew.probes.pipeline import items
from clew.probes.pipeline.passage import devices_of
from clew.probes.pipeline.trace_recording import Tracing, current
from clew.reading.stage import unknown_part_error
from clew.recorder.how_calls_end import describe

if TYPE_CHECKING:
    from clew.reading.trace import Trace

logger = logging.getLogger(__name__)

STAGES = ("dataset_getter", "resolve_data", "field_level_collation", "collate", "prepare_inputs", "evaluation")
_MODEL = {  # of every model hyrax knows: what a batch is called, and what comes of it
    "forward": ("batch", "batch_results"),
    "infer_batch": ("batch", "batch_results"),
    "prepare_inputs": ("batch_dict", "batch_ndarray"),
    "test_batch": ("batch", "loss_dict"),
    "train_batch": ("batch", "loss_dict"),
    "validate_batch": ("batch", "loss_dict"),
}

trace_result: TraceResult | None = None  # the trace that calls go to now
_open: list[TraceResult] = []  # it, and those it is nested in
_last: TraceResult | None = None
_shimmed: dict[tuple[type, str], tuple[int, Any, Any]] = {}  # how many want it; what stood in the class; the shim


class TraceResult(TracePrintable):
    """A few items on their way through the stages: `trace.collate`, `trace["collate"]`. `print` shows all of it.

    dataset_getter         the getters of the datasets, and what is decorated with trace_dataset_func
    resolve_data           DataProvider makes a dictionary of what the getters gave for one item
    field_level_collation  what collates one field
    collate                several items become a batch; NaN are handled
    prepare_inputs         the batch becomes what the model takes
    evaluation             the methods of the model, and what is decorated with trace_model_func
    """

    def __init__(self, trace_batch_size: int) -> None:
        self.shimmed_funcs: list[tuple[type, str, Any]] = []
        self.trace_batch_size = trace_batch_size
        self.stages = {name: TraceStage() for name in STAGES}
        self._objects: list[tuple[Any, str, Any, Any]] = []
        self._recording: _Recording | None = None
        self._process = os.getpid()
        for cls in known_models():
            try:
                self._instrument_model(cls)
            except Exception as error:
                trouble.report(f"hyrax-model:{cls.__qualname__}", f"{cls.__qualname__} is not traced", "", error)

    def __getstate__(self) -> dict[str, Any]:
        return {"stages": self.stages, "trace_batch_size": self.trace_batch_size}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, shimmed_funcs=[], _objects=[], _recording=None, _process=os.getpid())

    def reset(self) -> None:
        """Forget all calls."""
        self.stages = {name: TraceStage() for name in STAGES}
        if self._recording is not None:
            self._recording.begin_again()

    def __getitem__(self, ref: str) -> TraceStage:
        stages: dict[str, TraceStage] = self.__dict__.get("stages", {})
        if ref not in stages:
            raise unknown_part_error(f"the trace has no stage `{ref}`", ref, list(stages))
        return stages[ref]

    def __iter__(self) -> Iterator[str]:
        return iter(self.stages)

    def _valid_keys(self) -> list[str]:
        return list(self.__dict__.get("stages", {}))

    def __str__(self) -> str:
        stages = [f"\t{name}: {indented(str(stage))}" for name, stage in self.stages.items()]
        return "\n".join(["Trace Stages {", *stages, "}", ""])

    @property
    def recorded(self) -> Trace | None:
        """The same calls as clew's own trace, with items, checks and pictures. None if clew is switched off."""
        return self._recording.trace if self._recording is not None else None

    # ---- a call

    def trace_call(self, trace_def: TraceDef, *args: Any, **kwargs: Any) -> Callable[[Any, float], None]:
        """A call begins. What is returned takes what the call gave, and how long it took."""
        named = named_arguments(trace_def, args, kwargs)
        call = self._begun(trace_def, named)

        def ended(retval: Any, duration_ns: float) -> None:
            self._ended(call, retval, duration_ns)

        return ended

    def _begun(self, trace_def: TraceDef, named: dict[str, Any]) -> TraceCall:
        params, devices = copied(named), devices_of(named)
        name = trace_def.result_name or RESULT
        call = TraceCall(trace_def.disp_name, trace_def.func_name, params, {}, result_name=name, devices=devices)
        self.stages.setdefault(trace_def.stage_name, TraceStage()).append(call)
        return call

    def _ended(self, call: TraceCall, retval: Any, duration_ns: float) -> None:
        given = {call.result_name: retval}
        call.retval, call.duration_ns = copied(given), duration_ns
        call.devices.update(devices_of(given))

    def _made(self, shim: Shim, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call, and keep it."""
        bound_args, bound_kwargs = shim.bound(args, kwargs)
        named = named_arguments(shim.trace_def, bound_args, bound_kwargs)
        call = self._begun(shim.trace_def, named)
        took = 0

        def timed(*args: Any, **kwargs: Any) -> Any:
            nonlocal took
            started = perf_counter_ns()
            try:
                return shim.original(*args, **kwargs)
            finally:
                took = perf_counter_ns() - started

        tracing = self._recording.tracing if self._recording is not None else None
        try:
            if tracing is None or not tracing.open:
                result = timed(*args, **kwargs)
            else:  # the object a method belongs to is no value that passes
                own = bound_args[0] if shim.is_method and bound_args else ABSENT
                passing = {name: value for name, value in named.items() if value is not own}
                result = tracing.run(shim.spot, timed, args, kwargs, named=passing)
        except BaseException as error:
            call.error, call.duration_ns = describe(error), took
            raise
        self._ended(call, result, took)
        return result

    # ---- instrumenting

    def instrument_prepare_inputs(self, model: Any) -> Any:
        """`prepare_inputs` of one model, which hyrax has attached to it."""
        name = f"{type(model).__name__}_inst_prepare_inputs"
        return self._instrument(model, model.prepare_inputs, name, "batch_dict", "batch_ndarray", "prepare_inputs")

    def instrument_prepare_inputs_fn(self, prepare_inputs_fn: Any) -> Any:
        """The same for a bare function. The one to call instead is returned."""
        trace_def = TraceDef("saved__prepare_inputs", "prepare_inputs", {"batch_dict": 0}, "batch_ndarray", STAGES[4])
        return self._make_shim(unshimmed(prepare_inputs_fn), trace_def)

    def instrument_dataset_getter(self, dataset: Any, getter: Any, friendly_name: str, field_name: str) -> Any:
        """A getter of a dataset. The one to call instead is returned."""
        name = f"{friendly_name}__get_{field_name}"
        return self._instrument(dataset, getter, name, "index", field_name, "dataset_getter", f"get_{field_name}")

    def instrument_field_collate(self, dataset: Any, field_collate_fn: Any, friendly_name: str, field_name: str) -> Any:
        """What collates one field of a dataset."""
        function, stage = f"collate_{field_name}", "field_level_collation"
        name = f"{friendly_name}__{function}"
        return self._instrument(dataset, field_collate_fn, name, "samples", "batch_dict", stage, function)

    def instrument_dataset_collate(self, dataset: Any, collate_fn: Any, friendly_name: str) -> Any:
        """What collates a dataset."""
        name = f"{friendly_name}__collate"
        return self._instrument(dataset, collate_fn, name, "samples", "batch_dict", "collate", "collate")

    def instrument_dataprovider(self, dataprovider: Any) -> None:
        """What a DataProvider does with the items of all datasets."""
        for name, given, result, stage in (
            ("resolve_data", "index", "data_dict", "resolve_data"),
            ("collate", "batch_dicts", "batch_dict", "collate"),
            ("handle_nans", "batch_dict", "batch_dict_no_nan", "collate"),
        ):
            member = getattr(dataprovider, name)
            self._instrument(dataprovider, member, f"DataProvider__{name}", given, result, stage, name)

    def instrument_engine_verb(self, engine_verb: Any) -> None:
        """What the verb `engine` does with a batch."""
        for name, given, result, stage in (
            ("create_ort_inputs", "prepared_batch", "ort_inputs", "evaluation"),
            ("run_onnx_batch", "ort_inputs", "onnx_results", "evaluation"),
        ):
            member = getattr(engine_verb, name)
            self._instrument(engine_verb, member, f"Engine__{name}", given, result, stage, name)

    def _instrument(
        self, obj: Any, member: Any, name: str, given: str, result: str, stage: str, function: str = ""
    ) -> Any:
        """A member of which one argument is captured: the first after the object it belongs to."""
        position = int(isinstance(unshimmed(member), MethodType))  # a static one is given no object
        trace_def = TraceDef(name, function or stage, {given: position}, result, stage)
        return self.instrument_instance_data_handler(obj, member, trace_def)

    def instrument_instance_data_handler(self, obj: Any, original_member: Any, trace_def: TraceDef) -> Any:
        """A method of one object. The shim that is put there is returned."""
        shim = self._make_shim(unshimmed(original_member), trace_def)
        name = trace_def.func_name
        before = getattr(obj, "__dict__", {}).get(name, ABSENT)
        with suppress(AttributeError, TypeError):  # slots: hyrax calls what is returned, and that is traced
            setattr(obj, name, shim)
            self._objects.append((obj, name, before, shim))
        return shim

    def instrument_class_data_handler(self, cls: type, trace_def: TraceDef) -> None:
        """A method of a class: its own or one it has inherited, static ones and class methods too."""
        found = unshimmed(found_in(cls, trace_def.func_name))
        function = inner(found)
        if not isinstance(function, FunctionType):
            what = f"{cls.__qualname__}.{trace_def.func_name} is a {type(function).__name__}, not a Python function."
            raise TargetError("not-a-stage", what, "Decorate a function of your own that calls it.")
        self._put(cls, trace_def.func_name, found, self._make_shim(found, trace_def))

    def _instrument_model(self, cls: type) -> None:
        for name, (given, result) in _MODEL.items():
            found = inspect.getattr_static(cls, name, None)
            if isinstance(inner(found), FunctionType):
                stage = name if name == "prepare_inputs" else "evaluation"
                position = 0 if isinstance(found, staticmethod) else 1
                trace_def = TraceDef(f"{cls.__name__}__{name}", name, {given: position}, result, stage)
                self.instrument_class_data_handler(cls, trace_def)

    def reduce_len(self, cls: type) -> None:
        """Objects of a class have no more than `trace_batch_size` items while they are traced."""
        original = unshimmed(found_in(cls, "__len__"))

        @functools.wraps(original)
        def shim(self: Any) -> int:
            trace, length = get_trace(), original(self)
            return int(length if trace is None else min(length, trace.trace_batch_size))

        self._put(cls, "__len__", original, put_up(shim))

    def _put(self, cls: type, name: str, original: Any, shim: Any) -> None:
        """Shims of nested traces are one: each gives its calls to the innermost trace."""
        if any(known[:2] == (cls, name) for known in self.shimmed_funcs):
            return
        if (cls, name) not in _shimmed:
            before = cls.__dict__.get(name, ABSENT)
            setattr(cls, name, shim)
            _shimmed[cls, name] = 0, before, shim
        count, before, shim = _shimmed[cls, name]
        _shimmed[cls, name] = count + 1, before, shim
        self.shimmed_funcs.append((cls, name, original))

    def remove_class_level_shims(self) -> None:
        """Every class is what it was."""
        while self.shimmed_funcs:
            cls, name, _ = self.shimmed_funcs.pop()
            count, before, shim = _shimmed.pop((cls, name))
            if count > 1:
                _shimmed[cls, name] = count - 1, before, shim
            elif cls.__dict__.get(name) is shim:
                _put_back(cls, name, before)

    def _remove_instance_level_shims(self) -> None:
        while self._objects:
            obj, name, before, shim = self._objects.pop()
            if getattr(obj, "__dict__", {}).get(name) is shim:
                _put_back(obj, name, before)

    @staticmethod
    def _make_shim(original_func: Any, trace_def: TraceDef) -> Any:
        function = inner(original_func) if isinstance(original_func, (staticmethod, classmethod)) else original_func
        shim = put_up(Shim(function, trace_def, get_trace).function())
        return shim if function is original_func else type(original_func)(shim)


def _put_back(owner: Any, name: str, before: Any) -> None:
    if before is ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, before)


# ---- while it is traced


class _Recording:
    """The same calls in the clew run."""

    def __init__(self, count: int, altered: list[str]) -> None:
        self._count = count
        self._altered = altered
        self.tracing: Tracing | None = None
        self._begin()

    def _begin(self) -> None:
        before = current()
        self._block = items(self._count, auto=False)
        self.trace: Trace = self._block.__enter__()
        tracing = current()
        self.tracing = tracing if tracing is not before else None  # None: clew is switched off
        if self.tracing is not None:
            self.tracing.wanted = None  # hyrax itself ends after a batch
            for what in self._altered:
                self.tracing.altered(what)

    def note(self, what: str) -> None:
        logger.warning(what)
        if self.tracing is not None:
            self.tracing.note(what)

    def begin_again(self) -> None:
        """What was traced so far was a trial."""
        if self.tracing is not None and self.tracing.facts.stages:
            self.tracing.note("reset_trace() was called: what came after it is in the next trace")
            self.end(None, None, None)
            self._begin()

    def end(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._block.__exit__(kind, error, traceback)


class TraceContext:
    """`with TraceContext(3, self.config) as self.config:` traces one batch of 3 items; with 0 or None nothing.

    Afterwards every shim is removed and the config is as it was, whatever has happened inside.
    """

    def __init__(self, trace_arg: Any, config: Any) -> None:
        self.trace_arg = trace_arg
        self.config = config
        self._undo = ExitStack()
        self._result: TraceResult | None = None

    def __enter__(self) -> Any:
        if not self.trace_arg:
            return self.config
        count = item_count(self.trace_arg)
        with ExitStack() as undo:
            altered = alter(self.config, count, undo)
            logger.info("one batch of %d is traced; %s", count, ", ".join(altered) or "the config is left as it is")
            result = TraceResult(count)
            undo.callback(result.remove_class_level_shims)
            undo.callback(result._remove_instance_level_shims)
            recording = result._recording = _Recording(count, altered)
            undo.push(recording.end)
            if workers_in(self.config):
                recording.note("calls in the workers of the loader are not seen: set data_loader.num_workers = 0")
            _go_to(result)
            undo.callback(_leave, result)
            self._undo, self._result = undo.pop_all(), result
        return self.config

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._result is not None and exc_value is not None and issubclass(type(exc_value), Exception):
            add_note(exc_value, f"clew: the trace up to here is also {__name__}.last_trace()")
        self._result = None
        self._undo.__exit__(exc_type, exc_value, traceback)


def _go_to(result: TraceResult) -> None:
    global trace_result
    _open.append(result)
    trace_result = result


def _leave(result: TraceResult) -> None:
    global trace_result, _last
    _open.remove(result)
    trace_result = _open[-1] if _open else None
    _last = result


def get_trace() -> TraceResult | None:
    """The trace that calls go to now. None if nothing is traced."""
    return trace_result


def last_trace() -> TraceResult | None:
    """The trace that ended last, also if its verb raised: then it is the trace up to there."""
    return _last


def reset_trace() -> None:
    """Forget the calls of the trace, if there is one."""
    if trace_result is not None:
        trace_result.reset()


# ---- decorators


def trace_dataset_func(
    func: Any = None,
    *,
    params_to_capture: dict[str, int] | None = None,
    result_name: str | None = None,
    stage_name: str = "dataset_getter",
) -> Any:
    """Trace a function of a dataset. All arguments are captured, if none are named."""
    return trace_func(func, params_to_capture=params_to_capture, result_name=result_name, stage_name=stage_name)


def trace_model_func(
    func: Any = None,
    *,
    params_to_capture: dict[str, int] | None = None,
    result_name: str | None = None,
    stage_name: str = "evaluation",
) -> Any:
    """Trace a function of a model. All arguments are captured, if none are named."""
    return trace_func(func, params_to_capture=params_to_capture, result_name=result_name, stage_name=stage_name)


def trace_func(
    func: Any = None,
    *,
    params_to_capture: dict[str, int] | None = None,
    result_name: str | None = None,
    stage_name: str,
) -> Any:
    """Trace a function in a stage: one of hyrax's, or any other, which then comes after those."""
    if func is None:
        return functools.partial(
            trace_func, params_to_capture=params_to_capture, result_name=result_name, stage_name=stage_name
        )
    if isinstance(func, (staticmethod, classmethod)):
        return type(func)(
            trace_func(
                func.__func__, params_to_capture=params_to_capture, result_name=result_name, stage_name=stage_name
            )
        )
    if not callable(func):
        what = f"a function of stage `{stage_name}` was to be traced, but a {type(func).__name__} cannot be called."
        raise TargetError("not-a-stage", what, "Decorate a function or a method.")
    name = getattr(func, "__name__", type(func).__name__)
    trace_def = TraceDef(name, name, params_to_capture, result_name, stage_name)
    return Shim(func, trace_def, get_trace).function()


def trace_verb_data(verb_run_func: Any) -> Any:
    """Give the method `run` of a verb a keyword `trace=`: with `trace=3` one batch of 3 passes, and gives the trace."""

    @functools.wraps(verb_run_func)
    def run(self: Any, *args: Any, trace: Any = None, **kwargs: Any) -> Any:
        if not trace:
            return verb_run_func(self, *args, **kwargs)
        with TraceContext(trace, self.config) as config:
            self.config = config
            traced = get_trace()
            verb_run_func(self, *args, **kwargs)
            return traced

    return run

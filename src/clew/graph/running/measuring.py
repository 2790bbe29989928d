"""`graph.profile`: how long each step takes; and `graph.run(..., record=True)`: what each step was given and gave."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any

from clew import recording
from clew.graph.drawing.boxes import label
from clew.graph.drawing.plain_drawing import drawing
from clew.graph.nodes import Step
from clew.recorder.graph_drawings import keep_graph
from clew.recorder.how_calls_end import describe
from clew.recorder.live_call import LiveCall, as_it_is, place_of
from clew.recorder.plan import Plan, Watched

from .runners import walk

if TYPE_CHECKING:
    from clew.graph.graph import Graph


@dataclass(frozen=True, slots=True)
class StepTime:
    """One step, timed."""

    name: str
    where: str
    start: float  # seconds after the run began
    seconds: float


class Profile:
    """How long each step took: a table and a timeline."""

    def __init__(self, steps: list[StepTime], total: float) -> None:
        self.steps = steps
        self.total = total

    def __str__(self) -> str:
        width = max((len(step.name) for step in self.steps), default=4)
        lines = [f"{'step':<{width}}  {'time':>9}  {'share':>5}  {'':<40}  where"]
        for step in self.steps:
            share = step.seconds / self.total if self.total else 0
            bar = self._bar(step)
            lines.append(f"{step.name:<{width}}  {step.seconds * 1e6:>6.1f} µs  {share:>5.0%}  {bar}  {step.where}")
        return "\n".join([*lines, f"{'total':<{width}}  {self.total * 1e6:>6.1f} µs"])

    def _bar(self, step: StepTime, width: int = 40) -> str:
        if not self.total:
            return " " * width
        first = min(int(step.start / self.total * width), width - 1)
        count = max(1, min(round(step.seconds / self.total * width), width - first))
        return " " * first + "█" * count + " " * (width - first - count)

    def __repr__(self) -> str:
        return str(self)


def profiled(graph: Graph, given: list[Any]) -> Profile:
    found: list[StepTime] = []
    began = perf_counter_ns()

    def around(step: Step, do: Callable[[], Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        start = perf_counter_ns()
        result = do()
        end = perf_counter_ns()
        found.append(StepTime(label(step), str(step.where), (start - began) / 1e9, (end - start) / 1e9))
        return result

    walk(graph._inputs, graph._block, given, around)
    return Profile(found, (perf_counter_ns() - began) / 1e9)


# ---- stored ----------------------------------------------------------------------------------------------------------

_plans: dict[tuple[Any, ...], Plan] = {}


def stored(graph: Graph, given: list[Any]) -> Any:
    """Run, and write every step into the current run as a call like any other, and the graph beside them."""
    module = keep_graph(drawing(graph), recording.recorder().folder)
    root = _begun(graph.name, module, "", 0, dict(zip(graph.input_names, given, strict=True)))
    place = place_of(threading.get_ident())
    before, place.call = place.call, root
    try:
        result = walk(graph._inputs, graph._block, given, partial(_around, module))
    except BaseException as error:
        _ended(root, None, error)
        raise
    finally:
        place.call = before
    _ended(root, result)
    return result


def _around(module: str, step: Step, do: Callable[[], Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    names = _parameters(step)
    named = {names.get(number, f"arg{number}"): value for number, value in enumerate(args)} | kwargs
    call = _begun(label(step), f"{module}.v{step.id}", step.where.file, step.where.line, named)
    try:
        result = do()
    except BaseException as error:
        _ended(call, None, error)
        raise
    _ended(call, result)
    return result


_names: dict[int, tuple[Any, dict[int, str]]] = {}  # of the parameters of an operator, which is held


def _parameters(step: Step) -> dict[int, str]:
    """The names of the arguments that an operator is given by their place."""
    if step.kind != "operator":
        return {}
    known = _names.get(id(step.target))
    if known is None:
        known = _names[id(step.target)] = (step.target, _by_place(step.target.call))
    return known[1]


def _by_place(function: Callable[..., Any]) -> dict[int, str]:
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of a library's own making
        return {}
    given = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return dict(enumerate(one.name for one in found if one.kind in given))


def _begun(name: str, module: str, file: str, line: int, named: dict[str, Any]) -> LiveCall:
    key = (name, module, file, line, tuple(named))
    plan = _plans.get(key)
    if plan is None:
        watched = (*(Watched(one, "input") for one in named), Watched("result", "output"))
        plan = _plans[key] = Plan(name, module, file, line, watched, [line], [False], dedupe=False)
        plan.always = False
    call = LiveCall(plan, recording.recorder())
    for index, value in enumerate(named.values()):
        call.log += (as_it_is(value), plan.site(0, index))
    call.recorder.begin(call)
    call.started = call.drained_at = time_ns()
    return call


def _ended(call: LiveCall, result: Any, error: BaseException | None = None) -> None:
    call.ended = time_ns()
    if error is not None:
        call.error = describe(error)
    else:
        call.log += (as_it_is(result), call.plan.site(0, len(call.plan.names) - 1))
    call.recorder.end(call)

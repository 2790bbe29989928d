"""Other ways to run a graph than straight through: independent steps in parallel, each step timed, each step stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Any

from clew.graph.nodes import Block, Build, Const, Guard, Input, Ref, Step, Template, same
from clew.graph.operations import unwinding
from clew.graph.parts import copied
from clew.graph.recording.operator_state import State, state_of
from clew.graph.recording.pruning import Kin

from .compiled import _broken, _function, _nowhere

Around = Callable[[Step, Callable[[], Any], list[Any], dict[str, Any]], Any]
Values = dict[int, Any]


def walk(inputs: list[Input], block: Block, given: list[Any], around: Around) -> Any:
    """Run step by step, each inside `around(step, do, args, kwargs)`."""
    return unwinding(_walk)(inputs, block, given, around)


def enters(block: Block) -> bool:
    """Whether it enters contexts: what is in one must stay in its order."""
    return any(step.kind == "python" and step.target in ("enter", "leave") for step in block.steps())


def _walk(inputs: list[Input], block: Block, given: list[Any], around: Around) -> Any:
    values = {one.id: value for one, value in zip(inputs, given, strict=True)}
    while True:
        for event in block.events:
            if isinstance(event, Guard):
                check(event, values)
            else:
                values[event.id] = done(event, values, around)
        if block.decision is None:
            return None if block.output is None else made(block.output, values)
        block = chosen(block, values)


def done(step: Step, values: Values, around: Around) -> Any:
    args = [made(arg, values) for arg in step.args]
    kwargs = {name: made(value, values) for name, value in step.kwargs.items()}
    do = doing(step)
    return around(step, lambda: do(*args, **kwargs), args, kwargs)


def doing(step: Step) -> Callable[..., Any]:
    """The function that a step is."""
    return _function(step)


def check(guard: Guard, values: Values) -> None:
    if not guard.holds(values[guard.ref]):
        _broken(guard, values[guard.ref])


def chosen(block: Block, values: Values) -> Block:
    """The way a decision goes for these values."""
    guard = block.decision
    assert guard is not None
    seen = guard.seen(values[guard.ref])
    for expected, branch in block.branches:
        if same(seen, expected):
            return branch
    _nowhere([guard, [expected for expected, _ in block.branches]], values[guard.ref])
    raise AssertionError("a decision without a way raises")


def made(template: Template, values: Values) -> Any:
    """A value as the template says."""
    if isinstance(template, Ref):
        return values[template.id]
    if isinstance(template, Const):
        return copied(template.value)  # who changes what it is given must find it as it was the next time
    items = [made(item, values) for item in template.items]
    return _container(template, items, values)


def _container(build: Build, items: list[Any], values: Values) -> Any:
    if build.kind == "dict":
        keys = [made(key, values) for key in build.keys]
        return dict(zip(keys, items, strict=True))
    kinds: dict[str, Callable[[list[Any]], Any]] = {
        "list": list,
        "tuple": tuple,
        "set": set,
        "frozenset": frozenset,
        "slice": lambda parts: slice(*parts),
    }
    return kinds[build.kind](items)


# ---- in parallel -----------------------------------------------------------------------------------------------------


def run_parallel(inputs: list[Input], block: Block, given: list[Any], workers: int) -> Any:
    """Steps that do not need each other run at the same time. What comes after a guard waits for it."""
    if enters(block):
        return walk(inputs, block, given, straight)
    kin = Kin(block)
    values = {one.id: value for one, value in zip(inputs, given, strict=True)}
    with ThreadPoolExecutor(workers, thread_name_prefix="clew-graph") as pool:
        while True:
            for steps, guards in _segments(block):
                _together(pool, steps, values, kin)
                for guard in guards:
                    check(guard, values)
            if block.decision is None:
                return None if block.output is None else made(block.output, values)
            block = chosen(block, values)


def _segments(block: Block) -> Iterator[tuple[list[Step], list[Guard]]]:
    """Steps up to the next guards, and these."""
    steps: list[Step] = []
    guards: list[Guard] = []
    for event in block.events:
        if isinstance(event, Guard):
            guards.append(event)
        else:
            if guards:
                yield steps, guards
                steps, guards = [], []
            steps.append(event)
    yield steps, guards


def _together(pool: ThreadPoolExecutor, steps: list[Step], values: Values, kin: Kin) -> None:
    needs = dependencies(steps, kin)
    waiting = dict(enumerate(steps))
    over: set[int] = set()
    running: dict[Future[Any], int] = {}
    try:
        while waiting or running:
            for number in [n for n in waiting if needs[n] <= over]:
                step = waiting.pop(number)
                context = copy_context()
                running[pool.submit(context.run, done, step, values, straight)] = number
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                number = running.pop(future)
                values[steps[number].id] = future.result()
                over.add(number)
    finally:
        for future in running:
            future.cancel()


def straight(step: Step, do: Callable[[], Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    return do()


def dependencies(steps: list[Step], kin: Kin) -> list[set[int]]:
    """By number: the steps that must be over before each. What changes a value, or one that may share a part with it,
    waits for those who look at it before, and those who look at it later wait for the change; effects of other kinds
    keep their order."""
    makers: dict[int, int] = {}
    readers: dict[int, set[int]] = {}
    changed: dict[int, int] = {}
    needs: list[set[int]] = []
    states: list[tuple[int, State]] = []
    last_effect: int | None = None
    for number, step in enumerate(steps):
        families = {kin.of(id) for id in step.refs}
        needed = {makers[id] for id in step.refs if id in makers} | {changed[one] for one in families if one in changed}
        for id in step.changes:
            needed |= readers.get(kin.of(id), set())
        if step.effect:
            needed |= {last_effect} if last_effect is not None else set()
            last_effect = number
        needed |= _kept_apart(number, step, states)
        for one in families:
            readers.setdefault(one, set()).add(number)
        for id in step.changes:
            changed[kin.of(id)] = number
        makers[step.id] = number
        needs.append(needed - {number})
    return needs


def _kept_apart(number: int, step: Step, states: list[tuple[int, State]]) -> set[int]:
    """The earlier steps that change, in an object of both, what this one goes by, or the other way round."""
    state = state_of(step)
    if state is None:
        return set()
    found = {other for other, known in states if state.in_the_way_of(known)}
    states.append((number, state))
    return found

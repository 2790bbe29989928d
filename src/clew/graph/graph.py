"""`clew.record` and the graph it gives."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from clew.errors import ClewError, GraphError, SignatureError, nearest
from clew.graph.drawing.picture import dot, mermaid, shown, svg
from clew.graph.mapping.one_operator import pooled
from clew.graph.recording.computed_constants import drop_changed_answers, with_constants
from clew.graph.recording.in_place_changes import deep_copied
from clew.graph.recording.merging import merged
from clew.graph.recording.pruning import pruned
from clew.graph.recording.rewritten_calls import HOOKS
from clew.graph.recording.session import Session
from clew.graph.running.compiled import compiled, source_of
from clew.graph.running.input_checks import door
from clew.graph.running.measuring import Profile, profiled, stored
from clew.graph.running.runners import run_parallel, straight, walk
from clew.recorder.how_calls_end import traceback_of

from . import signature
from .nodes import Block, Guard, Input, Note, Step
from .operators import Operator
from .parts import handed
from .recording import called_code
from .signature import Signature
from .specs import Spec, describe

if TYPE_CHECKING:
    import os

    from clew.graph.mapping.results import Mapped


class Graph:
    """A recorded pipeline: it runs without the code around its operators, and says so where it would not be valid."""

    def __init__(self, inputs: list[Input], block: Block, name: str = "pipeline") -> None:
        self.name = name
        self.attrs: dict[str, Any] = {}  # the user's own
        self.parallel = 1  # threads a run uses
        self.shareable = True  # False: clew.load(..., share=True) makes its objects anew each time
        self.notes: list[Note] = []  # what its steps do not show: constants that were computed while it was recorded
        self._examples: list[Any] = []  # what it was recorded with: inputs by name, or why they could not be copied
        self._inputs = inputs
        self._block = block
        self._signature = signature.unknown(inputs)

    @property
    def signature(self) -> Signature:
        """What each input is like and what comes out, from the examples or as it was given.

        Can be set, for all or some of the inputs: {"x": "float32[*, 4]", "text": str, "row": {"age": float}}.
        """
        return self._signature

    @signature.setter
    def signature(self, said: Any) -> None:
        if isinstance(said, Signature):
            self._signature = said
        else:
            specs = signature.given(said, self.input_names)
            self._signature = self._signature.with_specs(specs, strict=True)
        vars(self).pop("_entry", None)
        vars(self).pop("_entry_of_items", None)

    @property
    def input_names(self) -> list[str]:
        return [given.name for given in self._inputs]

    @property
    def steps(self) -> list[Step]:
        """Everything that is done, in its order."""
        return list(self._block.steps())

    @property
    def guards(self) -> list[Guard]:
        """The decisions it holds for."""
        return list(self._block.guards())

    @property
    def operators(self) -> list[Operator]:
        found = {id(step.target): step.target for step in self.steps if step.kind == "operator"}
        return list(found.values())

    @cached_property
    def _function(self) -> Callable[..., Any]:
        try:
            return compiled(self._inputs, self._block)
        except (SyntaxError, RecursionError, MemoryError):  # Python nests code only so deep
            return lambda *given: walk(self._inputs, self._block, list(given), straight)

    @cached_property
    def _entry(self) -> Callable[..., Any]:
        """The function, with its inputs looked at before it runs."""
        return door(self._signature, self._inputs, self._block, self._function)

    @cached_property
    def _entry_of_items(self) -> Callable[..., Any]:
        """The same for the items of a collection: a loader's may be batches of what the graph was recorded with."""
        return door(self._signature, self._inputs, self._block, self._function, any_rank=True)

    @cached_property
    def _rest_at(self) -> int | None:
        """From which positional argument on they are the values of `*rest`."""
        return next((number for number, one in enumerate(self._inputs) if one.is_rest), None)

    @property
    def source(self) -> str:
        """What it does, as Python."""
        return source_of(self._inputs, self._block)

    # ---- running

    def run(
        self, feed: Mapping[str, Any] | None = None, /, *, parallel: int | None = None, record: bool = False
    ) -> Any:
        """What the pipeline gives for these inputs, by name.

        parallel   run independent steps, `clew.map` and `clew.submit` in so many threads (default: `graph.parallel`)
        record     store what every step is given and gives, in the current run
        """
        given = self._given({} if feed is None else feed)
        workers = _threads(self.parallel if parallel is None else parallel)
        if record:
            with pooled(workers):
                return self._checked(lambda *values: stored(self, list(values)), given)
        if workers > 1:
            with pooled(workers):
                block = self._block
                return self._checked(lambda *all: run_parallel(self._inputs, block, list(all), workers), given)
        return self._entry(*given)

    def _checked(self, run: Callable[..., Any], given: list[Any]) -> Any:
        """Run it in another way than straight through."""
        return door(self._signature, self._inputs, self._block, run)(*given)

    def __call__(self, *args: Any, **named: Any) -> Any:
        if self._rest_at is not None and len(args) > self._rest_at:
            args = (*args[: self._rest_at], args[self._rest_at :])
        if self.parallel < 2:  # as it is nearly always called
            try:
                return self._entry(*args, **named)
            except TypeError as error:
                traceback = traceback_of(error)
                if traceback is None or traceback.tb_next is not None:
                    raise  # of the graph; else Python could not bind what was given, which is told below
        names = self.input_names
        if len(args) > len(names):
            raise GraphError("graph-inputs", f"the graph takes {len(names)} inputs, not {len(args)}.", _inputs(names))
        twice = [name for name in names[: len(args)] if name in named]
        if twice:
            raise GraphError("graph-inputs", f"the input `{twice[0]}` is given twice.", _inputs(names))
        return self.run({**dict(zip(names, args, strict=False)), **named})

    def _given(self, feed: Any) -> list[Any]:
        names = self.input_names
        if not isinstance(feed, Mapping):
            what = f"inputs are given by name, in a dictionary, not in a {type(feed).__name__}."
            raise GraphError("graph-inputs", what, _inputs(names))
        unknown = [name for name in feed if name not in names]
        if unknown:
            what = f"the graph has no input `{unknown[0]}`;"
            hint = f"{nearest(str(unknown[0]), names)} {_inputs(names)} What an example leaves to its default is a"
            raise GraphError("graph-inputs", what, f"{hint} constant, unless clew.record(..., params=[...]) names it.")
        missing = [given.name for given in self._inputs if given.name not in feed and not given.has_default]
        if missing:
            known = self._signature.inputs.get(missing[0])
            hint = f"{_inputs(names)} The graph was recorded with {known}." if known and known.specs else _inputs(names)
            raise SignatureError("graph-inputs", f"the input `{missing[0]}` is missing.", hint)
        return [feed.get(given.name, given.default) for given in self._inputs]

    def profile(self, feed: Mapping[str, Any]) -> Profile:
        """How long each step takes for these inputs: a table and a timeline."""
        return self._checked(lambda *values: profiled(self, list(values)), self._given(feed))  # type: ignore[no-any-return]

    def map(
        self, items: Any, *, output: str | os.PathLike[str] | None = None, engine: Any = "local", **options: Any
    ) -> Mapped:
        """What the graph gives for each of many items, here or on a cluster: an iterator of results.

        items       a collection: anything that can be gone through, a Dataset, a DataFrame, a pyarrow Table
        output      a .parquet or .arrow file: all results are written there at once, and the same call goes on with a
                    job that was stopped
        engine      "local", "dask", or a `distributed.Client`; address= of the Dask scheduler
        processes   True: processes of this machine that load the graph; False: threads; default: whichever is fastest,
                    by measuring; workers= how many
        batch       so many rows in one call of the graph, whose inputs are frames, arrays or lists then, as recorded
        keep        with an output: columns of the items that are written beside the results
        ordered     False: results as they are ready (default: in the order of the items)
        retries     how often an item that raises is tried again
        on_error    "collect": a failed item has a `Failure` in place of its result; "raise": the job ends with it
        progress    False: no bar on the terminal
        """
        from clew.graph.mapping.map_job import Options, mapped

        return mapped(self, items, Options(engine=engine, **options), output)

    # ---- looking

    def inspect(self) -> str:
        """What goes in, what comes out, and the steps, as lines."""
        return f"{self.signature}\n\n{self.show()}"

    def show(self, format: str = "text") -> str:
        """The steps as lines, for a terminal; in a notebook the drawing. Or, by name, as "svg", "mermaid" or "dot"."""
        kinds: dict[str, Callable[[Graph], str]] = {"text": shown, "svg": svg, "mermaid": mermaid, "dot": dot}
        if format not in kinds:
            remedy = f"There is {', '.join(map(repr, kinds))}."
            raise GraphError("bad-option", f"show({format!r}): no such format.", remedy)
        return kinds[format](self)

    def to_mermaid(self) -> str:
        return mermaid(self)

    def to_dot(self) -> str:
        return dot(self)

    def to_svg(self) -> str:
        return svg(self)

    def _repr_svg_(self) -> str:
        return svg(self)

    def warmup(self, feed: Mapping[str, Any]) -> None:
        """Run once and forget what comes out: models and caches are ready afterwards."""
        self.run(feed)

    def save(self, target: str | os.PathLike[str], assets: Any = None, *, test: bool | float = True) -> Path:
        """Write it as a bundle: a folder (or a .zip) that runs where the author's code and files are not.

        The bundle is tested before it is put into its place: a fresh process without the project loads it and runs
        the examples it was recorded with, which are kept in it.

        assets   "anywhere": files outside the project folder may be taken along; a list: take these too; a function
                 of a path: take only those for which it is true
        test     False: do not test it, and keep no examples in it; a number: the test may take so many seconds
                 (else CLEW_SELFTEST_TIMEOUT, or ten minutes)
        """
        from clew.graph.bundle.saving import save

        return save(self, target, assets, test=test)

    def __repr__(self) -> str:
        steps, guards = _count(len(self.steps), "step"), _count(len(self.guards), "guard")
        return f"<clew graph {self.name}({', '.join(self.input_names)}): {steps}, {guards}>"


def _threads(parallel: Any) -> int:
    if isinstance(parallel, bool) or not isinstance(parallel, int) or parallel < 1:
        what = f"parallel={parallel!r} is not a number of threads."
        raise GraphError("bad-option", what, "Give a whole number from 1 on.")
    return parallel


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _inputs(names: list[str]) -> str:
    return f"It takes: {', '.join(names) or 'nothing'}."


_LIBRARY = ("input", "operator", "constant")


def record(pipeline: Callable[..., Any], *args: Any, library: str = "input", **kwargs: Any) -> Graph:
    """Run a pipeline once with an example, for real, and give the graph of what it did.

    A single list holds several examples, which are merged into one graph: each of them the pipeline's one argument, a
    tuple of its arguments, or a dictionary of them by name. A pipeline that fails with the first of them, and takes the
    list itself, has the list as its example (`record(pipeline, xs=[1, 2])` says so, and runs it once).

    library     "input": functions of libraries that an input goes into are steps, called again when the graph runs;
                what others give is part of the graph as it is. "operator": all of them are called again.
                "constant": none is (a warning says where an input went in)
    params      names of arguments that the example leaves to their defaults, and that can be given when the graph runs;
                True: all of them
    signature   what inputs are like, by name: {"x": "float32[*, 4]", "text": str}; default: like those of the examples

    A pipeline with an argument called `params` or `signature` gets that itself.
    """
    if library not in _LIBRARY:
        raise GraphError("bad-option", f"library={library!r} is not known.", f"There is {', '.join(_LIBRARY)}.")
    name = getattr(pipeline, "__name__", "pipeline")
    options = {key: kwargs.pop(key) for key in ("params", "signature") if key in kwargs and not _takes(pipeline, key)}
    params = _params(pipeline, options.get("params", ()))
    if len(args) == 1 and type(args[0]) is list and not kwargs:
        graph = _graph(_several(pipeline, library, args[0], params), name)
    else:
        graph = _graph([_recorded(pipeline, library, args, kwargs, params)], name)
    if options.get("signature") is not None:
        graph.signature = options["signature"]
    return graph


def _signature_of(pipeline: Any) -> inspect.Signature:
    """The arguments of a pipeline; a torch module takes those of its `forward`, if these are known."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(pipeline, torch.nn.Module):
        try:
            return inspect.signature(pipeline.forward)
        except ValueError:  # of TorchScript
            return inspect.signature(pipeline)
    return inspect.signature(pipeline)


def _takes(pipeline: Callable[..., Any], name: str) -> bool:
    try:
        return name in _signature_of(pipeline).parameters
    except (TypeError, ValueError):
        return False


def _params(pipeline: Callable[..., Any], params: Any) -> frozenset[str]:
    """The arguments that are inputs even if the example leaves them to their defaults."""
    if not params:
        return frozenset()
    parameters = _signature_of(pipeline).parameters.values()
    known = [one.name for one in parameters if one.default is not one.empty]
    if params is True:
        return frozenset(known)
    names = [params] if isinstance(params, str) else list(params)
    for name in names:
        if name not in known:
            what = f"params= names `{name}`, which is no argument of the pipeline with a default;"
            raise GraphError("bad-option", what, nearest(str(name), known))
    return frozenset(names)


class Recorded(NamedTuple):
    """One run of a pipeline."""

    inputs: list[Input]
    block: Block
    example: Any
    notes: list[Note]
    specs: dict[str, Spec]  # what the inputs were like
    output: Spec


def _graph(runs: list[Recorded], name: str) -> Graph:
    inputs = runs[0].inputs
    block, constants = with_constants(merged([run.block for run in runs]))
    graph = Graph(inputs, pruned(block), name)
    graph._examples = [run.example for run in runs]
    noted = {(one.kind, one.name, one.where): one for run in runs for one in run.notes}
    graph.notes = [*noted.values(), *constants]
    graph.signature = signature.of_examples(inputs, [run.specs for run in runs], [run.output for run in runs])
    return graph


def _several(pipeline: Callable[..., Any], library: str, examples: list[Any], params: frozenset[str]) -> list[Recorded]:
    """One run for each of several examples; or, where it takes no part of the list but the list, one run of that."""
    if not examples:
        raise GraphError("graph-examples", "clew.record was given an empty list.", "Give it an example or more.")
    first, *others = examples
    params |= _given_by_any(pipeline, examples)
    try:
        runs = [_recorded(pipeline, library, *_example(pipeline, first), params, keeps_scope=bool(others))]
    except (ClewError, Warning):
        raise
    except Exception as error:
        try:
            return [_recorded(pipeline, library, (examples,), {}, params)]
        except Exception:
            error.add_note(
                "clew.record takes a single list for several examples; this was raised for the first of them."
            )
            raise error from None
    return runs + [
        _recorded(pipeline, library, *_example(pipeline, other), params, keeps_scope=True) for other in others
    ]


def _given_by_any(pipeline: Callable[..., Any], examples: list[Any]) -> frozenset[str]:
    """What some examples give and others leave to its default is an input."""
    own, names = _signature_of(pipeline), set[str]()
    for example in examples:
        args, kwargs = _example(pipeline, example)
        try:
            names |= own.bind(*args, **kwargs).arguments.keys()
        except TypeError:  # whoever runs it says so
            continue
    return frozenset(name for name in names if own.parameters[name].default is not inspect.Parameter.empty)


def _example(pipeline: Callable[..., Any], example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if type(example) is tuple:
        return example, {}
    names = _signature_of(pipeline).parameters
    if type(example) is dict and example and all(key in names for key in example):
        return (), example
    return (example,), {}


def _recorded(
    pipeline: Callable[..., Any],
    library: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    params: frozenset[str] = frozenset(),
    *,
    keeps_scope: bool = False,
) -> Recorded:
    """One run of a pipeline, step by step: its inputs, what it did, and what it was given."""
    session = Session(library, keeps_scope)
    own = _signature_of(pipeline)
    bound = own.bind(*args, **kwargs)
    given = dict(bound.arguments)
    bound.apply_defaults()
    spread = ""
    example: Any = {}
    for name, parameter in own.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:  # of `**more`, each is an input
            more = bound.arguments.get(name, {})
            example.update(more)
            bound.arguments[name] = {key: session.input(key, value) for key, value in more.items()}
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            if name in given:  # `*rest` is one input, a tuple
                spread = name
                example[name] = bound.arguments[name]
                bound.arguments[name] = session.input(name, bound.arguments[name], is_rest=True)
            continue
        has_default = parameter.default is not parameter.empty
        if name in given or not has_default or name in params:
            default = parameter.default if has_default else None
            example[name] = bound.arguments[name]
            bound.arguments[name] = session.input(name, bound.arguments[name], default, has_default)
    specs = signature.described(example)
    example = _copies(example)
    with session.open():
        if spread:
            bound.arguments[spread] = tuple(session.unpacked(bound.arguments[spread]))
        result = called_code.through(pipeline, session, HOOKS)(*bound.args, **bound.kwargs)
        output = session.template(result)
    drop_changed_answers(session.events, output)
    block = Block(list(session.events), output, choices=session.choices)
    return Recorded(session.inputs, block, example, session.notes, specs, describe(handed(result)))


def _copies(example: dict[str, Any]) -> dict[str, Any] | str:
    """What a pipeline is given, as it is before it runs; else why it cannot be copied."""
    try:
        return deep_copied(example)
    except Exception as error:  # of what the user gives: an open file, a lock
        return f"{type(error).__name__}: {error}"

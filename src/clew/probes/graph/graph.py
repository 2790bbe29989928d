"""`clew.record` and the graph it gives."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.errors import ClewError, GraphError, nearest

from . import calls
from .compiled import compiled, source_of
from .hooks import HOOKS
from .mapped import pooled
from .measuring import Profile, profiled, stored
from .merging import merged
from .nodes import Block, Guard, Input, Step
from .operators import Operator
from .picture import dot, mermaid, shown, svg
from .pruning import pruned
from .running import run_parallel
from .session import Session

if TYPE_CHECKING:
    import os

    from .mapping import Mapped


class Graph:
    """A recorded pipeline: it runs without the code around its operators, and says so where it would not be valid."""

    def __init__(self, inputs: list[Input], block: Block, name: str = "pipeline") -> None:
        self.name = name
        self.attrs: dict[str, Any] = {}  # the user's own
        self.parallel = 1  # threads a run uses
        self._inputs = inputs
        self._block = block

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
        return compiled(self._inputs, self._block)

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
                return stored(self, given)
        if workers > 1:
            with pooled(workers):
                return run_parallel(self._inputs, self._block, given, workers)
        return self._function(*given)

    def __call__(self, *args: Any, **named: Any) -> Any:
        if not args and self.parallel < 2 and len(named) == len(self._inputs):  # as it is nearly always called
            try:
                given = [named[one.name] for one in self._inputs]
            except KeyError:
                given = None
            if given is not None:
                return self._function(*given)
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
            hint = f"{nearest(str(unknown[0]), names)} {_inputs(names)}"
            raise GraphError("graph-inputs", what, f"{hint} What an example leaves to its default is a constant.")
        missing = [given.name for given in self._inputs if given.name not in feed and not given.has_default]
        if missing:
            raise GraphError("graph-inputs", f"the input `{missing[0]}` is missing.", _inputs(names))
        return [feed.get(given.name, given.default) for given in self._inputs]

    def profile(self, feed: Mapping[str, Any]) -> Profile:
        """How long each step takes for these inputs: a table and a timeline."""
        return profiled(self, self._given(feed))

    def map(
        self, items: Any, *, output: str | os.PathLike[str] | None = None, engine: Any = "local", **options: Any
    ) -> Mapped:
        """What the graph gives for each of many items, here or on a cluster: an iterator of results.

        items       a collection: anything that can be gone through, a Dataset, a DataFrame, a pyarrow Table
        output      a .parquet or .arrow file: all results are written there at once, and the same call goes on with a
                    job that was stopped
        engine      "local", "dask", or a `distributed.Client`; address= of the Dask scheduler
        processes   True: processes of this machine that load the graph, instead of threads; workers= how many
        batch       so many items in one call of the graph, whose inputs are lists then
        ordered     False: results as they are ready (default: in the order of the items)
        retries     how often an item that raises is tried again
        on_error    "collect": a failed item has a `Failure` in place of its result; "raise": the job ends with it
        progress    False: no bar on the terminal
        """
        from .mapping import Options, mapped

        return mapped(self, items, Options(engine=engine, **options), output)

    # ---- looking

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

    def save(self, target: str | os.PathLike[str], assets: Any = None) -> Path:
        """Write it as a bundle: a folder (or a .zip) that runs where the author's code and files are not.

        assets   "anywhere": files outside the project folder may be taken along; a list: take these too; a function
                 of a path: take only those for which it is true
        """
        from .bundle.saving import save

        return save(self, target, assets)

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


def record(pipeline: Callable[..., Any], *args: Any, library: str = "constant", **kwargs: Any) -> Graph:
    """Run a pipeline once with an example, for real, and give the graph of what it did.

    A single list holds several examples, which are merged into one graph: each of them the pipeline's one argument, a
    tuple of its arguments, or a dictionary of them by name. A pipeline that fails with the first of them, and takes the
    list itself, has the list as its example (`record(pipeline, xs=[1, 2])` says so, and runs it once).

    library   "constant": what libraries give is part of the graph as it is (a warning says where an input went in);
              "operator": their functions are called again
    """
    if library not in ("constant", "operator"):
        raise GraphError("bad-option", f"library={library!r} is not known.", 'There is "constant" and "operator".')
    name = getattr(pipeline, "__name__", "pipeline")
    if len(args) == 1 and type(args[0]) is list and not kwargs:
        runs = _several(pipeline, library, args[0])
        return Graph(runs[0][0], pruned(merged([block for _, block in runs])), name)
    inputs, block = _recorded(pipeline, library, args, kwargs)
    return Graph(inputs, pruned(block), name)


def _several(pipeline: Callable[..., Any], library: str, examples: list[Any]) -> list[tuple[list[Input], Block]]:
    """One run for each of several examples; or, where it takes no part of the list but the list, one run of that."""
    if not examples:
        raise GraphError("graph-examples", "clew.record was given an empty list.", "Give it an example or more.")
    first, *others = examples
    try:
        runs = [_recorded(pipeline, library, *_example(pipeline, first))]
    except (ClewError, Warning):
        raise
    except Exception as error:
        try:
            return [_recorded(pipeline, library, (examples,), {})]
        except Exception:
            error.add_note(
                "clew.record takes a single list for several examples; this was raised for the first of them."
            )
            raise error from None
    return runs + [_recorded(pipeline, library, *_example(pipeline, other)) for other in others]


def _example(pipeline: Callable[..., Any], example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if type(example) is tuple:
        return example, {}
    names = inspect.signature(pipeline).parameters
    if type(example) is dict and example and all(key in names for key in example):
        return (), example
    return (example,), {}


def _recorded(
    pipeline: Callable[..., Any], library: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[Input], Block]:
    """One run of a pipeline, step by step."""
    session = Session(library)
    signature = inspect.signature(pipeline)
    bound = signature.bind(*args, **kwargs)
    given = dict(bound.arguments)
    bound.apply_defaults()
    spread = ""
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:  # of `**more`, each is an input
            more = bound.arguments.get(name, {})
            bound.arguments[name] = {key: session.input(key, value) for key, value in more.items()}
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            if name in given:  # `*rest` is one input, a tuple
                spread = name
                bound.arguments[name] = session.input(name, bound.arguments[name])
            continue
        has_default = parameter.default is not parameter.empty
        if name in given or not has_default:
            default = parameter.default if has_default else None
            bound.arguments[name] = session.input(name, bound.arguments[name], default, has_default)
    with session.open():
        if spread:
            bound.arguments[spread] = tuple(session.unpacked(bound.arguments[spread]))
        result = calls.through(pipeline, session, HOOKS)(*bound.args, **bound.kwargs)
        output = session.template(result)
    return session.inputs, Block(list(session.events), output)

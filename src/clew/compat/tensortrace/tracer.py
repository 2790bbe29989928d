"""`ModelTracer` with TensorTracer's options, and its way of counting."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import torch

from clew import trouble
from clew.errors import ClewError, OptionError
from clew.probes.model import ModelTracer as _ModelTracer
from clew.probes.model.results import as_seen

from .callbacks import adapted
from .results import GlobalResults, LocalVariableResult
from .variable import Variable, stack_padded_tensors, stack_tensors


class ModelTracer(_ModelTracer):
    """As TensorTracer's: in memory, gathered on rank 0 through torch.distributed.

    Iterations are counted from 1, those in training and in evaluation together, unless `train_only` or `eval_only` is
    given. Values that came after the last gathering are in `local_results`. Options of `clew.ModelTracer` may be given.
    """

    wildcards_match_methods = True

    def __init__(
        self,
        model: Any,
        variables: str | Variable | Iterable[str | Variable],
        trace_interval: int = 1,
        gathering_interval: int = 1,
        pre_save_callbacks: Any = None,
        pre_gather_callbacks: Any = None,
        post_gather_callbacks: Any = None,
        post_trace_callbacks: Any = None,
        eval_only: bool = False,
        train_only: bool = False,
        **options: Any,
    ) -> None:
        if eval_only and train_only:
            raise OptionError("bad-option", "eval_only and train_only cannot both be given.", "Leave one of them out.")
        given = [variables] if isinstance(variables, (str, Variable)) else list(variables)
        super().__init__(
            model,
            [path for path in given if not isinstance(path, Variable)],
            every=trace_interval,
            gathering_interval=gathering_interval,
            pre_save=adapted("pre_save", pre_save_callbacks),
            pre_gather=adapted("pre_gather", pre_gather_callbacks),
            post_gather=adapted("post_gather", post_gather_callbacks),
            post_trace=adapted("post_trace", post_trace_callbacks),
            **{
                "store": False, "gather": "collective", "repeats": "tensors",
                "mode": "eval" if eval_only else "train" if train_only else "both", **options,
            },
        )  # fmt: skip
        self.variables = given
        self.trace_interval, self.gathering_interval = trace_interval, gathering_interval
        self.eval_only, self.train_only = eval_only, train_only
        self.current_iteration = 0
        self.results: Any = GlobalResults(self.results, self._gathered_names)
        self._parts = [_VariableTracer(model, each, options) for each in given if isinstance(each, Variable)]

    @property
    def current_training_iteration(self) -> int:
        return self.counts["train"]

    @property
    def current_evaluation_iteration(self) -> int:
        return self.counts["eval"]

    @property
    def local_results(self) -> dict[str, LocalVariableResult]:
        """What was not gathered yet."""
        return {
            track.name: LocalVariableResult(list(track.iterations), [as_seen(copy) for copy in track.values])
            for track in self._tracks.values()
            if track.values
        }

    @trouble.entry_point(lambda tracer: tracer, passes=(ClewError,))
    def start(self) -> Self:
        super().start()
        for part in self._parts:
            part.start()
        return self

    def stop(self, error: BaseException | None = None) -> None:
        for part in reversed(self._parts):
            part.stop(error)
        super().stop(error)

    # ---- counting and gathering, as there

    def count_iteration(self, mode: str) -> int:
        super().count_iteration(mode)
        self.current_iteration += self._options.mode in ("both", mode)
        return self.current_iteration

    def gather_before(self) -> None:
        pass

    def gather_after(self) -> None:
        is_counted = self._options.mode in ("both", self._mode)
        if is_counted and self.current_iteration % self._options.gathering_interval == 0:
            self._gather_up_to(self.current_iteration)

    def gather(self, *, last: bool = False) -> None:
        """At the end: gradients, which came after their iterations were gathered. Other values stay local."""
        if not self._open:
            interval = self._options.gathering_interval
            self._gather_up_to(self.current_iteration // interval * interval)

    def _gather_up_to(self, iteration: int) -> None:
        if self._gathering is not None:
            tracks = [
                track for track in self._tracks.values() if track.iterations and track.iterations[-1] <= iteration
            ]
            self._gathering.gather(tracks)

    def _gathered_names(self) -> list[str]:
        if not self._options.in_memory and not self._gathers:
            return self._names()  # the values are in the run
        return self._gathering.names() if self._gathering is not None else []


class _VariableTracer(ModelTracer):
    """Traces one `Variable`."""

    def __init__(self, model: Any, variable: Variable, options: dict[str, Any]) -> None:
        super().__init__(
            model,
            variable.paths,
            variable.trace_interval,
            variable.gather_interval,
            variable.pre_save_callbacks,
            post_gather_callbacks=[variable.gathered],
            pre_gather_callbacks=adapted("pre_gather", variable.pre_gather_callbacks, of_variable=True),
            **{**options, "mode": variable.mode},
        )
        self._variable = variable

    def stop(self, error: BaseException | None = None) -> None:
        was_open = self._open
        super().stop(error)
        if was_open:
            self._variable.finish()


def trace_model(model: Any, variables: Any, *args: Any, **kwargs: Any) -> tuple[Any, ModelTracer]:
    """Call the model once: what it gives, and the tracer."""
    with ModelTracer(model, variables) as tracer:
        output = model(*args, **kwargs)
    return output, tracer


class TracedModel(torch.nn.Module):
    """A model that is traced whenever it is called; `tracer` has what was seen."""

    def __init__(
        self, model: Any, variables: Any, trace_interval: int = 1, eval_only: bool = False, train_only: bool = False
    ) -> None:
        super().__init__()
        self.model = model
        self.tracer = ModelTracer(model, variables, trace_interval, eval_only=eval_only, train_only=train_only)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with self.tracer:
            return self.model(*args, **kwargs)


__all__ = ["ModelTracer", "TracedModel", "stack_padded_tensors", "stack_tensors", "trace_model"]

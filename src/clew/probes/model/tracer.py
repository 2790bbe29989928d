"""`clew.ModelTracer`: every value at the named paths inside a torch model, iteration by iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

import torch

from clew import env, recording, trouble
from clew.errors import TargetError
from clew.recorder.endings import describe
from clew.records import Note, Value

from . import callbacks, flight, unseen
from .flight import OnSignal, Spikes
from .gathering import Gathering
from .inside import inside, items_of
from .nonfinite import Finder, Finding
from .options import Options, checked
from .paths import Spot, joined, spots
from .probes import ModuleProbe
from .results import Result, Results, as_seen
from .sinks import Home, RingSink, StoreSink
from .snapshot import CONTAINERS, Recent, copied, is_spread, same
from .state import StateProbe
from .unwrap import Uncompiled, unwrapped

_Tensor = torch.Tensor


class Track:
    """One concrete path: what was last seen there, call by call of an iteration, and what waits to be gathered."""

    __slots__ = ("iterations", "last", "modes", "name", "ordinal", "pattern", "serial", "values")

    def __init__(self, name: str, pattern: str) -> None:
        self.name = name
        self.pattern = pattern
        self.serial = -1  # the iteration that `ordinal` counts in
        self.ordinal = 0
        self.last: list[Any] = []
        self.values: list[Any] = []
        self.iterations: list[int] = []
        self.modes: list[str] = []


class ModelTracer:
    """Record what is at some paths inside a model, while it is used.

        with clew.ModelTracer(model, ["forward.x", "encoder.*.attn", "**.weight.grad"]) as tracer:
            train(model)
        tracer.results["forward.x"].values

    store       into the current run (one is opened if there is none); False: in memory only
    keep        how much of large values: "full", "summary", or "last 50 steps": everything, in memory, written when
                something happens (a non-finite value, a spike, an exception, `clew.dump()`)
    mode        count and record only "train" or only "eval" iterations; "both"
    every, steps, when   which iterations to record: each n-th, these, those for which the function says so
    optimizer   for paths such as "optimizer.state.**"
    pre_save, pre_gather, post_gather, post_trace   functions (name, values, iterations, ranks) that may change the
                lists: after each value, before and after values are gathered, and at the end
    gathering_interval   iterations between gatherings; given, or with store=False, values are gathered
    gather      "collective": on rank 0, through torch.distributed; "files": each rank into its shard of one run;
                "auto": the first for up to 4 ranks
    timeout     seconds that a rank waits for others that do not come
    nonfinite   "find": tell which call first made a NaN or Inf from finite inputs; "raise": and raise there; "stop":
                and record no more
    spike       tell when a scalar is so many times its running median
    signal      write a flight recorder (`keep="last 50 steps"`) when this signal comes
    compiled    "eager": run compiled code uncompiled while tracing, so that it can be seen; "leave": do not
    """

    def __init__(
        self,
        model: Any,
        paths: str | Iterable[str],
        *,
        store: bool = True,
        keep: Any = None,
        mode: str = "both",
        every: int = 1,
        steps: Iterable[int] | None = None,
        when: Callable[[int], object] | None = None,
        optimizer: Any = None,
        pre_save: Any = None,
        pre_gather: Any = None,
        post_gather: Any = None,
        post_trace: Any = None,
        gathering_interval: int | None = None,
        gather: str = "auto",
        timeout: float = 30.0,
        nonfinite: str | None = None,
        spike: float | None = None,
        signal: int | None = None,
        compiled: str = "eager",
    ) -> None:
        if not isinstance(model, torch.nn.Module):
            raise TargetError(
                "not-a-module",
                f"ModelTracer traces torch modules, not {type(model).__name__}.",
                "Give it the model itself: clew.ModelTracer(model, [...]).",
            )
        self.model = unwrapped(model)
        self.optimizer = optimizer
        self.paths = [paths] if isinstance(paths, str) else list(paths)
        self._options: Options = checked(
            store=store, keep=keep, mode=mode, every=every, steps=steps, when=when, pre_save=pre_save,
            pre_gather=pre_gather, post_gather=post_gather, post_trace=post_trace,
            gathering_interval=gathering_interval, gather=gather, timeout=timeout, nonfinite=nonfinite, spike=spike,
            signal=signal, compiled=compiled,
        )  # fmt: skip
        self.active = False  # whether this iteration is recorded; asked by every hook
        self.rank = env.rank()
        self.iteration = -1
        self.counts = {"train": 0, "eval": 0}  # iterations begun
        self._mode = "train"
        self._serial = -1  # recorded iterations, whatever their mode
        self._depth = 0
        self._tracks: dict[str, Track] = {}
        self._found: dict[str, list[Spot]] = {pattern: spots(self.model, pattern) for pattern in self.paths}
        self._notes: dict[tuple[str, str], Note] = {}
        self._probes: list[ModuleProbe] = []
        self._state: StateProbe | None = None
        self._finder = Finder(self, nonfinite) if nonfinite is not None else None
        self._spikes = Spikes(spike) if spike is not None else None
        self._on_signal: OnSignal | None = None
        self._halted = False
        self._items_apart = self._options.keep.mode == "summary"  # a summary of a tuple as a whole tells nothing
        self._recent = None if self._options.pre_save else Recent()  # who changes values gets them for himself
        self._sink: StoreSink | RingSink | None = None
        self._gathering: Gathering | None = None
        self._wrapped = model
        self._uncompiled = Uncompiled()
        self.run: Any = None  # that the values are in
        self._open = False
        self.results = Results(self._names, self._result)

    # ---- on and off

    def __enter__(self) -> ModelTracer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop(error)

    def start(self) -> ModelTracer:
        """Begin to trace; `with` does it."""
        if self._open or not env.enabled():
            return self
        self._open = True
        options = self._options
        self._gathering = Gathering(options, self.rank, self._gathering)
        self.rank = self._gathering.rank
        if options.store:
            self._gathering.join_run()
            self._sink = RingSink(self._home(), options.ring) if options.ring else StoreSink(self._home())
            self.run = recording.current()
        if options.compiled == "eager":
            self._uncompiled.__enter__()
        self._attach()
        if isinstance(self._sink, RingSink):
            flight.begin(self)
        if options.signal is not None:
            self._on_signal = OnSignal(options.signal)
        return self

    def stop(self, error: BaseException | None = None) -> None:
        """Trace no longer. The model is as it was before."""
        if not self._open:
            return
        self._open = self.active = False
        self._detach()
        unseen.tell_of_compilation(self, self._wrapped, self._uncompiled, leaves=self._options.compiled == "leave")
        self._uncompiled.__exit__()
        if error is not None:
            self.fire(f"an exception: {describe(error)}")
        flight.end(self)
        if self._on_signal is not None:
            self._on_signal.remove()
        if self._sink is not None:
            self._sink.close(None if error is None else describe(error))
        self._gather(last=True)
        self._finish()
        if error is None:
            unseen.tell(
                self, self._found, {track.pattern for track in self._tracks.values()}, recorded=self._serial >= 0
            )
        if self._gathering is not None:
            self._gathering.close()

    def _home(self) -> Home:
        kind = type(self.model)
        code = getattr(kind.forward, "__code__", None)
        place = (code.co_filename, code.co_firstlineno) if code is not None else ("?", 0)
        return Home(self.title, kind.__module__, *place)

    @property
    def title(self) -> str:
        """The function that the calls in the run are named after."""
        return f"{type(self.model).__qualname__}.iteration"

    def _attach(self) -> None:
        modules = dict(self.model.named_modules(remove_duplicate=False))
        by_module: dict[int, ModuleProbe] = {}
        root = by_module[id(self.model)] = ModuleProbe(self, "", self.model, is_root=True)
        state = self._state = StateProbe(self, self.model, self.optimizer, self._wrapped)
        taken: set[tuple[int, str, str, Any]] = set()
        for found in self._found.values():
            for spot in found:
                if spot.facet == "optimizer":
                    state.add_optimizer(spot)
                    continue
                module = modules[spot.module]
                key = (id(module), spot.facet, spot.name, spot.rest)
                if key in taken and spot.facet not in ("tensor", "tensor.grad"):
                    continue  # the same module, or another pattern
                taken.add(key)
                if spot.facet in ("tensor", "tensor.grad", "attribute"):
                    state.add(spot, module)
                    continue
                probe = by_module.get(id(module))
                if probe is None:
                    probe = by_module[id(module)] = ModuleProbe(self, spot.module, module, is_root=False)
                probe.add(spot)
        self._probes = list(by_module.values())
        try:
            for probe in self._probes:
                probe.attach()
            state.attach()
            if self._finder is not None:
                self._finder.attach()
        except BaseException:
            self._open = False
            self._detach()
            raise
        assert root is self._probes[0]

    def _detach(self) -> None:
        for probe in reversed(self._probes):
            probe.detach()
        if self._state is not None:
            self._state.detach()
        if self._finder is not None:
            self._finder.detach()

    # ---- hot

    def begin(self) -> None:
        """The model is called."""
        self._depth += 1
        if self._depth > 1:
            return
        mode = "train" if self.model.training else "eval"
        self._mode = mode
        number = self.counts[mode]
        self.counts[mode] = number + 1
        self.iteration = number
        self.active = not self._halted and recording.is_on() and self._wants(number, mode)
        if self.active:
            if self._serial >= 0 and (self._serial + 1) % self._options.gathering_interval == 0:
                self._gather()
            self._serial += 1
            if self._recent is not None:
                self._recent.clear()
            if self._sink is not None:
                self._sink.begin(number, mode)
            if self._state is not None:
                self._state.before_forward()

    def end(self) -> None:
        """The model is done with it, one way or the other."""
        self._depth = max(0, self._depth - 1)
        if not self._depth and self.active and self._state is not None:
            self._state.after_forward()

    def _wants(self, number: int, mode: str) -> bool:
        options = self._options
        if options.mode not in ("both", mode) or number % options.every:
            return False
        if options.steps is not None and number not in options.steps:
            return False
        return options.when is None or self._asked(options.when, number)

    def _asked(self, when: Callable[[int], object], number: int) -> bool:
        try:
            return bool(when(number))
        except Exception as error:
            trouble.report(f"when:{id(self)}", f"when= of a ModelTracer raised in iteration {number}", "", error)
            return False

    def take(self, name: str, value: Any, pattern: str) -> None:
        """A value at a path, as it is now; kept unless it is what it was in the iteration before."""
        if self._items_apart and type(value) in CONTAINERS:
            for key, item in items_of(value).items():
                self.take(joined(name, key), item, pattern)
            return
        track = self._tracks.get(name)
        if track is None:
            track = self._tracks.setdefault(name, Track(name, pattern))
        if track.serial != self._serial:
            track.serial, track.ordinal = self._serial, 0
        ordinal, last = track.ordinal, track.last
        track.ordinal = ordinal + 1
        known = ordinal < len(last)
        try:
            if known and same(last[ordinal], value):
                self._again(track, last[ordinal])
                return
            copy = copied(value, self._options.keep, self._recent)
            if known and _same_copy(last[ordinal], copy):
                self._again(track, last[ordinal])
                return
        except (RuntimeError, NotImplementedError) as error:  # functorch, storages given away, odd backends
            self._cannot(name, error)
            return
        if known:
            last[ordinal] = copy
        else:
            last.append(copy)
        if is_spread(value):
            self._spread(name, value)
        self._put(track, copy)

    def _again(self, track: Track, copy: Any) -> None:
        """A value is what it was. A ring forgets what it was, and has to be told."""
        if self._options.ring:
            self._put(track, copy)

    def _put(self, track: Track, copy: Any) -> None:
        kept = [copy]
        if self._options.pre_save:
            kept = [as_seen(copy)]
            callbacks.run(self._options.pre_save, "pre_save", track.name, kept, [self.iteration], [self.rank])
            kept = [copied(each, self._options.keep) for each in kept]
        for each in kept:
            if self._spikes is not None:
                said = self._spikes.look(track.name, each)
                if said:
                    self.fire(f"a spike: {said}")
            if self._sink is not None:
                self._sink.put(track.name, each)
            if self._options.in_memory or self._gathers:
                track.values.append(each)
                track.iterations.append(self.iteration)
                track.modes.append(self._mode)

    def failed(self, error: Exception) -> None:
        """A bug of ours must not become the user's: it is told, and nothing more is recorded."""
        self.halt()
        what = f"tracing {type(self.model).__name__} has stopped"
        trouble.report(f"tracer:{id(self)}", what, "Your program goes on. Please report this.", error, internal=True)

    def take_inside(self, value: Any, rest: Any, label: str, pattern: str) -> None:
        """What is at these steps inside a value."""
        for name, found, gradient in inside(value, rest, label):
            if gradient:
                self.await_gradient(found, name, pattern)
            else:
                self.take(name, found, pattern)

    def await_gradient(self, tensor: Any, name: str, pattern: str) -> None:
        """Take the gradient of a tensor when it is computed. A hook that returns nothing leaves it as it is."""
        if not tensor.requires_grad:
            return
        serial = self._serial

        def arrived(gradient: Any) -> None:
            if self._open and serial == self._serial and self.active:
                self.take(name, gradient, pattern)

        tensor.register_hook(arrived)

    # ---- something has happened

    def fire(self, reason: str) -> int:
        """Write what the flight recorder holds, if this is one; gives how many iterations that were."""
        ring = self._sink
        if not isinstance(ring, RingSink):
            if not reason.startswith(("non-finite", "an exception")):
                self.note("trigger", reason.partition(":")[0], f"{reason} (iteration {self.iteration}).")
            return 0
        count = ring.dump()
        self.note("trigger", reason, f"{count} iterations up to {self.iteration} were written: {reason}.")
        return count

    def dump(self) -> int:
        """Write what the flight recorder holds now."""
        return self.fire("tracer.dump()")

    def halt(self) -> None:
        """Record no more, and let the program go on."""
        self._halted, self.active = True, False

    @property
    def nonfinite(self) -> Finding | None:
        """Where a NaN or Inf was born, if `nonfinite=` was given and there was one."""
        return self._finder.finding if self._finder is not None else None

    @property
    def stores(self) -> bool:
        return self._options.store

    # ---- results

    @property
    def _gathers(self) -> bool:
        return self._gathering is not None and self._gathering.collective

    def _names(self) -> list[str]:
        gathered = self._gathering.names() if self._gathering is not None else []
        return list(dict.fromkeys([*(name for name, track in self._tracks.items() if track.last), *gathered]))

    def _result(self, name: str) -> Result:
        if self._options.in_memory or self._gathers:
            assert self._gathering is not None
            if self._open and not self._gathers and not self._options.has_callbacks:
                self._gather(last=True)
            return self._gathering.result(name)
        from .stored import stored_result

        return stored_result(self, name)

    def _gather(self, *, last: bool = False) -> None:
        """Hand what was seen since the last time to callbacks and, in a distributed job, to rank 0."""
        if self._gathering is not None and (self._options.in_memory or self._gathers):
            self._gathering.gather([track for track in self._tracks.values() if track.values or last])

    def _finish(self) -> None:
        if self._gathering is not None and (self._options.in_memory or self._gathers):
            self._gathering.finish()

    def frame(self) -> Any:
        """One row a value, for pandas: path, iteration, rank, mode, and the number or its summary."""
        from .frame import frame

        return frame(self)

    # ---- what is said

    def note(self, kind: str, subject: str, text: str) -> None:
        """For the ledger, once."""
        if (kind, subject) not in self._notes:
            note = self._notes[kind, subject] = Note(kind, subject, text)
            run = recording.current()
            if self._options.store and run is not None:
                recording.recorder().note(note)

    @property
    def ledger(self) -> list[Note]:
        """What was asked for and not seen, and why."""
        return list(self._notes.values())

    def _cannot(self, name: str, error: Exception) -> None:
        self.note("not-kept", name, f"a value could not be copied ({type(error).__name__}: {error}).")

    def _spread(self, name: str, value: Any) -> None:
        placements = ", ".join(map(str, getattr(value, "placements", ())))
        self.note(
            "shard", name, f"the local part of a tensor spread over processes ({placements}); its whole shape is "
            f"{tuple(value.shape)}."
        )  # fmt: skip


def _same_copy(before: Any, now: Any) -> bool:
    """Of what could only be compared once it was copied."""
    if type(now) is _Tensor:
        return same(before, now)
    if type(now) is Value and type(before) is Value:
        return bool(now.digest) and now.digest == before.digest
    return False

"""`clew.ModelTracer`: every value at the named paths inside a torch model, iteration by iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self

import torch

from clew import env, recording, trouble
from clew.errors import ClewError, TargetError
from clew.recorder.fingerprints import original_code
from clew.recorder.how_calls_end import describe
from clew.recorder.quiet_threads import QUIET, is_quiet
from clew.records import Note
from clew.values.class_facts import is_exactly

from . import callbacks, flight_recorder, not_seen
from .container_items import has_tensors, inside, items_of
from .flight_recorder import OnSignal, Spikes
from .gathering import Gathering
from .gradients import on_gradient
from .method_locals import Held
from .model_state import StateProbe
from .nonfinite import Finder, Finding
from .options import Options, checked
from .path_tracks import Track
from .paths import Entry, Spot, joined, spots
from .probe_placing import Placing
from .probes import ModuleProbe
from .results import Result, Results, as_seen
from .sinks import Home, RingSink, StoreSink
from .snapshot import CONTAINERS, Recent, copied, is_spread, same, same_copy
from .undo_steps import do_all
from .unwrap import Uncompiled, unwrapped

_Tensor = torch.Tensor


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
    optimizer   for paths such as "optimizer.state.**"; the first that steps the model, if none is given
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
    repeats     values that are what they were in the iteration before: "skip" them, record "tensors" and containers of
                tensors in every iteration, or "all"
    compiled    "eager": run compiled code uncompiled while tracing, so that it can be seen; "leave": do not
    """

    wildcards_match_methods = False  # for a subclass to say
    tells_unseen = True  # False: paths are for several models, and need not lead to something in each
    is_model = True  # False: a loss, transform or layer that is called on its own, which has calls and no iterations
    belongs_to_program = False  # True: `clew run` has made it, and the program has no variable that holds it

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
        repeats: str = "skip",
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
            signal=signal, compiled=compiled, repeats=repeats,
        )  # fmt: skip
        self.active = False  # whether this iteration is recorded; asked by every hook
        self.rank = env.rank()
        self.iteration = -1
        self.counts = {"train": 0, "eval": 0}  # iterations begun
        self._mode = "train"
        self._serial = -1  # recorded iterations, whatever their mode
        self._depth = 0
        self._tracks: dict[str, Track] = {}
        methods = self.wildcards_match_methods
        self._found: dict[str, list[Spot]] = {path: spots(self.model, path, methods=methods) for path in self.paths}
        self._notes: dict[tuple[str, str], Note] = {}
        self._probes: list[ModuleProbe] = []
        self._doubles: list[tuple[str, str]] = []
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

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop(error)

    @trouble.entry_point(lambda tracer: tracer, passes=(ClewError,))
    def start(self) -> Self:
        """Begin to trace; `with` does it."""
        if self._open or not env.enabled():
            return self
        self._open = True
        try:
            self._install()
        except BaseException:
            self._open = False
            do_all([self._take_away, self._close])
            raise
        return self

    def _install(self) -> None:
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
            flight_recorder.begin(self)
        if options.signal is not None:
            self._on_signal = OnSignal(options.signal)

    @trouble.entry_point()
    def stop(self, error: BaseException | None = None) -> None:
        """Trace no longer. The model is as it was before."""
        if not self._open:
            return
        self._open = self.active = False
        do_all([self._tell_of_compilation, self._take_away, partial(self._conclude, error), self._close])

    def _take_away(self) -> None:
        """Whatever was put anywhere, also if not all of it was."""
        signalled, self._on_signal = self._on_signal, None
        removed = [signalled.remove] if signalled is not None else []
        do_all([self._detach, self._uncompiled.__exit__, partial(flight_recorder.end, self), *removed])

    def _conclude(self, error: BaseException | None) -> None:
        """What was seen is written and gathered."""
        how = None if error is None else describe(error)
        steps: list[Callable[[], object]] = [] if how is None else [partial(self.fire, f"an exception: {how}")]
        if self._sink is not None:
            steps.append(partial(self._sink.close, how))
        steps += [partial(self.gather, last=True), self._finish]
        do_all([*steps, self.tell_unseen] if error is None and self.tells_unseen else steps)

    def _close(self) -> None:
        """A second time does no harm."""
        do_all([each.close for each in (self._sink, self._gathering) if each is not None])

    def _tell_of_compilation(self) -> None:
        not_seen.tell_of_compilation(self, self._wrapped, self._uncompiled, leaves=self.leaves_compiled)

    @property
    def patterns_seen(self) -> set[str]:
        return not_seen.patterns_seen(self._tracks, self._doubles)

    def tell_unseen(self, seen_elsewhere: Iterable[str] = ()) -> None:
        not_seen.tell(self, self._found, {*self.patterns_seen, *seen_elsewhere}, recorded=self._serial >= 0)

    def _home(self) -> Home:
        kind = type(self.model)
        return Home(self.title, kind.__module__, original_code(kind.forward))

    @property
    def title(self) -> str:
        """The function that the calls in the run are named after."""
        return f"{type(self.model).__qualname__}.{'iteration' if self.is_model else 'call'}"

    def _attach(self) -> None:
        state = self._state = StateProbe(self, self.model, self.optimizer, self._wrapped)
        placing = Placing(self, state)
        for found in self._found.values():
            for spot in found:
                placing.add(spot)
        self._doubles = placing.doubles
        self._probes = placing.probes
        for probe in self._probes:
            probe.attach()
        state.attach()
        if self._finder is not None:
            self._finder.attach()

    def _detach(self) -> None:
        do_all(each.detach for each in (*reversed(self._probes), self._state, self._finder) if each is not None)

    # ---- hot

    def begin(self) -> None:
        """The model is called."""
        if is_quiet():
            return
        self._depth += 1
        if self._depth > 1:
            return
        mode = "train" if self.model.training else "eval"
        self._mode = mode
        number = self.iteration = self.count_iteration(mode)
        self.active = self._open and not self._halted and recording.is_on() and self._wants(number, mode)
        if self.active:
            self.gather_before()
            self._serial += 1
            if self._recent is not None:
                self._recent.clear()
            if self._sink is not None:
                self._sink.begin(number, mode)
            if self._state is not None:
                self._state.before_forward()

    def end(self) -> None:
        """The model is done with it, one way or the other."""
        if is_quiet():
            return
        self._depth = max(0, self._depth - 1)
        if self._depth:
            return
        if self.active and self._state is not None:
            self._state.after_forward()
        self.gather_after()

    def count_iteration(self, mode: str) -> int:
        """The number of the iteration that begins."""
        self.counts[mode] += 1
        return self.counts[mode] - 1

    def gather_before(self) -> None:
        """An iteration begins: what the last ones left, with their gradients, is gathered if it is time."""
        if self._serial >= 0 and (self._serial + 1) % self._options.gathering_interval == 0:
            self.gather()

    def gather_after(self) -> None:
        """The model is done with an iteration."""

    def _wants(self, number: int, mode: str) -> bool:
        options = self._options
        if options.mode not in ("both", mode) or number % options.every:
            return False
        if options.steps is not None and number not in options.steps:
            return False
        return options.when is None or self._asked(options.when, number)

    def _asked(self, when: Callable[[int], object], number: int) -> bool:
        try:
            with QUIET:
                return bool(when(number))
        except Exception as error:
            trouble.report(f"when:{id(self)}", f"when= of a ModelTracer raised in iteration {number}", "", error)
            return False

    def take(self, name: str, value: Any, pattern: str) -> None:
        """A value at a path, as it is now; kept unless it is what it was in the iteration before."""
        if is_quiet():
            return
        if self._items_apart and is_exactly(value, *CONTAINERS):
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
        if self._options.repeats != "skip":  # compared with the latest value there was, if at all
            ordinal = 0
            known = bool(last) and self._options.repeats == "tensors" and not has_tensors(value)
        try:
            if known and same(last[ordinal], value):
                self._again(track, last[ordinal])
                return
            copy = copied(value, self._options.keep, self._recent)
            if known and same_copy(last[ordinal], copy):
                self._again(track, last[ordinal])
                return
        except (RuntimeError, NotImplementedError) as error:  # functorch, storages given away, odd backends
            self._cannot(name, error)
            return
        last[ordinal : ordinal + 1] = [copy]
        if is_spread(value):
            not_seen.note_spread(self, name, value)
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
        with suppress(Exception):  # it was said; the ledger itself may be what fails
            self.note("trouble", "clew", f"{what}: {type(error).__name__}.")

    def take_entries(self, value: Any, entries: Iterable[Entry], held: Held | None = None) -> None:
        """What several paths lead to inside a value: each value once, whatever number of them lead to it. With `held`,
        only items that are not what they were when the value was last looked at."""
        taken: set[str] = set()
        for label, rest, pattern in entries:
            for name, found, gradient in inside(value, rest, label):
                if name in taken:
                    self.led_to(name, pattern)
                    continue
                taken.add(name)
                if held is not None and rest and not held.is_new(name, found):
                    continue
                if gradient:
                    self.await_gradient(found, name, pattern)
                else:
                    self.take(name, found, pattern)

    def led_to(self, name: str, pattern: str) -> None:
        """One more pattern that leads to a path."""
        track = self._tracks.get(name)
        if track is not None:
            track.patterns.add(pattern)

    def await_gradient(self, tensor: Any, name: str, pattern: str) -> None:
        """Take the gradient of a tensor when it is computed."""
        if not tensor.requires_grad:
            return
        serial = self._serial

        def arrived(gradient: Any) -> None:
            try:
                if self._open and serial == self._serial and self.active:
                    self.take(name, gradient, pattern)
            except Exception as error:
                self.failed(error)

        on_gradient(tensor, arrived)

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
    def leaves_compiled(self) -> bool:
        return self._options.compiled == "leave"

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
                self.gather(last=True)
            return self._gathering.result(name)
        from .stored_results import stored_result

        return stored_result(self, name)

    def gather(self, *, last: bool = False) -> None:
        """Hand what was seen since the last time to callbacks and, in a distributed job, to rank 0."""
        if self._gathering is not None and (self._options.in_memory or self._gathers):
            self._gathering.gather([track for track in self._tracks.values() if track.values or last])

    def _finish(self) -> None:
        if self._gathering is not None and (self._options.in_memory or self._gathers):
            self._gathering.finish()

    def frame(self) -> Any:
        """One row a value, for pandas: path, iteration, rank, mode, and the number or its summary."""
        from .data_frame import frame

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

"""Inside a model: what all modules of it give, kept in some way, while it is trained."""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks import peers
from benchmarks.harness import NOISE, ROOT, Contender, Measure, Result, compare, duration, table, timed, times

TITLE = "Inside a model"
STEPS = 2  # of a block: a tracer, and all that it holds, lives that long
BLOCKS = 1  # with and without tracing, that take turns in one measurement
MANY = 3  # of them where two ways are to be told apart that are almost the same
LONG = 4  # steps of a block that is written to disk: some 200 MB
FINISH: list[Callable[[], None]] = []  # what the worker does at its end, before its folder goes

Forward = Callable[[Any], Any]
Way = Callable[[Any], AbstractContextManager[Forward]]  # entered with a model; gives what to call in its place


# ---- what is done ----------------------------------------------------------------------------------------------------


class Work:
    """A model and its data. A step is a step of training, or only the model called."""

    def __init__(self, make: Callable[[], tuple[Any, Any]], *, trains: bool) -> None:
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.model, self.x = make()
        self._trains = trains
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=0.001)

    def step(self, forward: Forward) -> None:
        import torch

        if not self._trains:
            with torch.no_grad():
                forward(self.x)
            return
        loss = forward(self.x).square().mean()
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()

    def steps(self, count: int, forward: Forward) -> None:
        for _ in range(count):
            self.step(forward)


def encoder() -> tuple[Any, Any]:
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 12, enable_nested_tensor=False), torch.randn(8, 64, 128)


def convolutions() -> tuple[Any, Any]:
    """Nine residual blocks of two convolutions each, and one before them; two more fit the widths."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, before: int, width: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(before, width, 3, 1 if before == width else 2, 1, bias=False)
            self.norm1 = nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
            self.norm2 = nn.BatchNorm2d(width)
            self.fit = nn.Identity() if before == width else nn.Conv2d(before, width, 1, 2, bias=False)
            self.relu = nn.ReLU()

        def forward(self, x: Any) -> Any:
            y = self.relu(self.norm1(self.conv1(x)))
            y = self.norm2(self.conv2(y))
            return self.relu(y + self.fit(x))

    widths = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64]
    blocks = [Block(before, width) for before, width in pairwise(widths)]
    first = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    last = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
    return nn.Sequential(*first, *blocks, *last), torch.randn(16, 3, 32, 32)


# ---- ways to see it --------------------------------------------------------------------------------------------------


@contextmanager
def untraced(model: Any) -> Iterator[Forward]:
    yield model


def traced(*paths: str, **options: Any) -> Way:
    """clew, in memory."""

    @contextmanager
    def way(model: Any) -> Iterator[Forward]:
        import clew

        with clew.ModelTracer(model, paths, store=False, **options):
            yield model

    return way


@contextmanager
def on_disk(model: Any) -> Iterator[Forward]:
    import clew

    with clew.run("bench"), clew.ModelTracer(model, "**", keep="full"):
        yield model


# ---- how it is measured ----------------------------------------------------------------------------------------------


def block(work: Work, way: Way, steps: int, *, whole: bool = False) -> float:
    """Seconds of some steps; `whole`: and of what comes before and after them."""
    inside = 0.0

    def everything() -> None:
        nonlocal inside
        with way(work.model) as forward:
            inside = timed(lambda: work.steps(steps, forward))

    total = timed(everything)
    gc.collect()
    for run in Path(os.environ["CLEW_DIR"]).iterdir():
        shutil.rmtree(run)
    return total if whole else inside


class Job(NamedTuple):
    """What is measured: some model at work."""

    make: Callable[[], tuple[Any, Any]]
    trains: bool = True

    def work(self) -> Work:
        return Work(self.make, trains=self.trains)

    def turns(
        self, way: Way, *, beside: Way = untraced, blocks: int = BLOCKS, steps: int = STEPS, whole: bool = False
    ) -> Contender:
        """How many times longer it takes one way than the other, in one process; each has a model of its own."""

        def contender() -> Measure:
            one, other = self.work(), self.work()

            def measure() -> float:
                pairs = [(block(one, beside, steps), block(other, way, steps, whole=whole)) for _ in range(blocks)]
                return median(with_it / without for without, with_it in pairs)

            return measure

        return contender

    def alone(self, way: Way, *, steps: int = STEPS) -> Contender:
        """Seconds of a step, for what leaves traces in a process."""

        def contender() -> Measure:
            work = self.work()
            return lambda: block(work, way, steps) / steps

        return contender


HOOKS = "hooks that clone"
MEMORY = "clew, in memory"
CLOSE = f"{MEMORY}: beside those hooks"
LOCALS = "clew, in memory: and local variables of forward"
OPEN = "clew, on disk in full: the steps, the run being open"
WHOLE = f"clew, on disk in full: opening, {LONG} steps, closing"
SUMMARIES = "clew, summaries"
PEERS = {  # that leave torch wrapped, or so
    "TorchLens, `record`": ("torchlens", peers.torchlens_record),
    "TorchLens, `trace`": ("torchlens", peers.torchlens),
}
NNSIGHT = "nnsight, its cache of all modules (no copies)"
ONLY = ", forward only"


def ways(job: Job) -> dict[str, Contender]:
    found = {
        "untraced": job.alone(untraced),
        HOOKS: job.turns(peers.cloning_hooks),
        MEMORY: job.turns(traced("**")),
        CLOSE: job.turns(traced("**"), beside=peers.cloning_hooks, blocks=MANY),
        LOCALS: job.turns(traced("**", "**.forward.*")),
        OPEN: job.turns(on_disk, blocks=1, steps=LONG),
        WHOLE: job.turns(on_disk, blocks=1, steps=LONG, whole=True),
        SUMMARIES: job.turns(traced("**", keep="summary")),
        "five reductions in hooks, one by one": job.turns(peers.reducing_hooks),
        'clew, `nonfinite="find"`, no paths': job.turns(traced(nonfinite="find")),
        "TensorTracer's method": job.turns(peers.tensortracer_method),
        NNSIGHT: job.turns(peers.nnsight),
        **{name: job.alone(way, steps=1) for name, (_, way) in PEERS.items()},
    }
    if job.trains:
        return found
    return {name: found[name] for name in ("untraced", HOOKS, MEMORY)}


JOBS = {"encoder": Job(encoder), f"encoder{ONLY}": Job(encoder, trains=False), "convolutions": Job(convolutions)}
RATIOS = {f"{title}: {name}": way for title, job in JOBS.items() for name, way in ways(job).items()}
TO_REACH = {CLOSE: "≤ 1.05 ×", LOCALS: "≤ 1.5 ×", OPEN: "≤ 1.3 ×", WHOLE: "≤ 1.3 ×", SUMMARIES: "≤ 1.3 ×"}


# ---- memory ----------------------------------------------------------------------------------------------------------


def holding(by_clew: bool) -> Contender:
    """Bytes by which the process has grown, for each byte of the tensors that were captured."""

    def contender() -> Measure:
        import clew

        work = Job(encoder).work()
        block(work, untraced, STEPS)

        def measure() -> float:
            before = _resident()
            if by_clew:
                with clew.ModelTracer(work.model, "**", store=False) as tracer:
                    work.steps(LONG, work.model)
                    after = _resident()
                return (after - before) / _bytes([tracer.results[name].values for name in tracer.results])
            with peers.keeping_hooks(work.model, lambda tensor: tensor.detach().clone()) as kept:
                work.steps(LONG, work.model)
                return (_resident() - before) / _bytes(kept)

        return measure

    return contender


def _resident() -> int:
    """Bytes of this process in memory, when all that is free has been given back. Linux only."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _bytes(found: Any) -> int:
    if isinstance(found, (list, tuple)):
        return sum(map(_bytes, found))
    return getattr(found, "nbytes", 0)


MEMORIES = {f"memory: {name}": holding(by_clew) for name, by_clew in ((HOOKS, False), (MEMORY, True))}


# ---- gathering -------------------------------------------------------------------------------------------------------


GATHERINGS = 20  # in one measurement
TENSORS, ELEMENTS = 16, 65_536  # of a rank in one gathering: 256 KiB each


class Rank:
    """One of two processes that gather. Rank 1 does what rank 0 tells it to."""

    def __init__(self, rank: int, meeting: str) -> None:
        import torch
        import torch.distributed as dist

        from clew.engines.gather import Batch, Gatherer

        torch.set_num_threads(1)
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        alone = timedelta(minutes=2)  # after which a rank whose other has gone gives up
        dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2, timeout=alone)
        self._rank, self._dist = rank, dist
        self._gatherer = Gatherer()
        self._batches = [Batch(f"layers.{i}", [torch.randn(ELEMENTS)], [0]) for i in range(TENSORS)]
        self._word = torch.zeros(1, dtype=torch.int64)

    def by_clew(self) -> None:
        found = self._gatherer.gather(self._batches)
        assert self._rank or (found is not None and len(found[1]) == TENSORS), self._gatherer.broken

    def by_pickles(self) -> None:
        everything = None if self._rank else [None, None]
        self._dist.gather_object([tuple(batch) for batch in self._batches], everything)

    def told(self, word: int = 0) -> int:
        """From rank 0 to rank 1: 1 is a measurement, 2 the end."""
        self._word[0] = word
        self._dist.broadcast(self._word, 0)
        return int(self._word[0])

    def measure(self) -> tuple[float, float]:
        """Seconds of a gathering, by clew and by `gather_object`."""
        pairs = [(self._one(self.by_clew), self._one(self.by_pickles)) for _ in range(GATHERINGS)]
        return median(clew for clew, _ in pairs), median(pickles for _, pickles in pairs)

    def _one(self, gather: Callable[[], None]) -> float:
        self._dist.barrier()
        return timed(gather)

    def close(self) -> None:
        self._gatherer.close()
        self._dist.destroy_process_group()


def gathering(what: Callable[[float, float], float]) -> Contender:
    def contender() -> Measure:
        folder = tempfile.mkdtemp()
        meeting = f"file://{folder}/meeting"
        other = subprocess.Popen([sys.executable, "-m", __name__, meeting], cwd=ROOT)
        rank = Rank(0, meeting)

        def finish() -> None:
            rank.told(2)
            rank.close()
            other.wait(timeout=60)
            shutil.rmtree(folder)

        def measure() -> float:
            rank.told(1)
            return what(*rank.measure())

        FINISH.append(finish)
        return measure

    return contender


def rank_one(meeting: str) -> None:
    rank = Rank(1, meeting)
    while rank.told() == 1:
        rank.measure()
    rank.close()


PICKLES, GATHERER = "gather_object", "clew's gatherer"
GATHERS = {
    PICKLES: gathering(lambda clew, pickles: pickles),
    GATHERER: gathering(lambda clew, pickles: clew / pickles),
}


# ---- the page --------------------------------------------------------------------------------------------------------


CONTENDERS = RATIOS | MEMORIES | GATHERS


def report(repeats: int, pythons: list[str]) -> str:
    parts = [_job(title, repeats) for title in JOBS]
    memory = compare(__name__, MEMORIES, repeats=repeats)
    rows = [(name.partition(": ")[2], f"{memory.median(name):.3f}") for name in MEMORIES]
    parts.append(table([f"{LONG} steps of the encoder, kept", "bytes held, a byte captured"], rows))
    gathers = compare(__name__, GATHERS, repeats=repeats)
    NOISE.pop()  # the other rank is taken for somebody else
    more = [
        (PICKLES, duration(gathers.median(PICKLES)), "1.00 ×"),
        (GATHERER, "", times(gathers.median(GATHERER))),
    ]
    parts.append(table([f"{TENSORS} tensors of 256 KiB from each of two ranks", "a gathering", PICKLES], more))
    return "\n\n".join(parts)


def _job(title: str, repeats: int) -> str:
    names = [name for name in RATIOS if name.startswith(f"{title}: ")]
    missing = [name for name in names if not _is_there(name.partition(": ")[2])]
    result = compare(__name__, [name for name in names if name not in missing], repeats=repeats)
    rows = []
    for full in names:
        name = full.partition(": ")[2]
        found = "not installed" if full in missing else _ratio(result, title, name)
        rows.append((name, found, TO_REACH.get(name, "")))
    return table([title, "", "to reach"], rows)


def _is_there(name: str) -> bool:
    needed = "nnsight" if name == NNSIGHT else PEERS[name][0] if name in PEERS else "torch"
    return find_spec(needed) is not None


def _ratio(result: Result, title: str, name: str) -> str:
    full = f"{title}: {name}"
    if name == "untraced":
        return f"{duration(result.median(full))} a step"
    ratio = result.ratio(full, f"{title}: untraced") if name in PEERS else result.median(full)
    if ratio >= 10:
        return f"{times(ratio)} untraced"
    return f"{ratio:.3f} × {'the hooks' if name == CLOSE else 'untraced'}"


if __name__ == "__main__":
    rank_one(sys.argv[1])

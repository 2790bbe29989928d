"""Calls followed: a program of many small calls, a pipeline on arrays, a model layer by layer."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks import peers
from benchmarks.harness import Contender, Measure, compare, duration, table, timed, times

TITLE = "Calls followed"
ROUNDS = 25_000  # of four calls each
BLOCKS = 10  # of each kind in a turn, where blocks take turns
ITEMS = 3
FINISH: list[Callable[[], None]] = []  # what the worker does at its end, before its folder goes


# ---- a program of small calls ----------------------------------------------------------------------------------------


def clip(value: int, low: int, high: int) -> int:
    if value < low:
        return low
    if value > high:
        return high
    return value


def weight(a: int, b: int) -> float:
    total = a + b
    if total == 0:
        return 0.0
    share = a / total
    return share * share


def step(i: int) -> float:
    a = clip(i % 100, 10, 90)
    b = clip(i % 7, 1, 5)
    return weight(a, b)


def many_calls(rounds: int) -> float:
    total = 0.0
    for i in range(rounds):
        total += step(i)
    return total


def calling(function: Callable[[int], Any], rounds: int) -> Measure:
    return lambda: timed(lambda: function(rounds)) / (4 * rounds)


def recorded(instrument: Callable[[], object], stored: bool) -> Contender:
    """The program alone, with what it logged still to be taken; or from opening a run to its being closed."""

    def contender() -> Measure:
        import clew
        from clew.recorder import backlog, recorder

        if not stored:
            backlog.INTERVAL = recorder.HURRY = 3600.0
        instrument()

        def measure() -> float:
            run = clew.run("bench")
            opening = timed(run.__enter__)
            many_calls(10)
            seconds = timed(lambda: many_calls(ROUNDS))
            closing = timed(lambda: run.__exit__(None, None, None))
            shutil.rmtree(str(run.path))
            return (seconds + (opening + closing if stored else 0.0)) / (4 * ROUNDS)

        return measure

    return contender


def follow() -> None:
    import clew

    clew.follow(show=False)(many_calls)


def watch() -> None:
    """One name in each of the functions."""
    import clew

    for function, name in ((clip, "value"), (weight, "share"), (step, "a")):
        clew.watch(name)(function)


def snooped(tool: str, rounds: int) -> Contender:
    def contender() -> Measure:
        peers.quiet()
        if tool == "PySnooper":
            import pysnooper

            return calling(pysnooper.snoop(output=lambda text: None, color=False, depth=4)(many_calls), rounds)
        from snoop.configuration import Config

        return calling(Config(out=lambda text: None, color=False).snoop(depth=4)(many_calls), rounds)

    return contender


def hunted() -> Measure:
    import hunter

    stream = open(os.devnull, "w")  # noqa: SIM115  # for the life of the process

    def measure() -> float:
        with hunter.trace(filename__endswith="calls.py", action=hunter.CallPrinter(stream=stream)):
            return timed(lambda: many_calls(1000)) / 4000

    return measure


def viztraced() -> Measure:
    from viztracer import VizTracer

    tracer = VizTracer(verbose=0, log_func_args=True, log_func_retval=True, tracer_entries=2_000_000)

    def measure() -> float:
        tracer.clear()
        tracer.start()
        seconds = timed(lambda: many_calls(5000))
        tracer.stop()
        return seconds / 20_000

    return measure


SMALL: dict[str, Contender] = {
    "untraced": lambda: calling(many_calls, ROUNDS),
    "clew.follow, the program alone": recorded(follow, stored=False),
    "clew.follow, stored": recorded(follow, stored=True),
    "clew.watch, the program alone": recorded(watch, stored=False),
    "clew.watch, stored": recorded(watch, stored=True),
    "VizTracer, arguments and results": viztraced,
    "hunter's CallPrinter": hunted,
    "snoop, depth=4": snooped("snoop", 10),
    "PySnooper, depth=4": snooped("PySnooper", 20),
}


# ---- arrays and layers: blocks with and without following take turns in one process --------------------------------


def pipeline() -> tuple[Callable[[], Any], Callable[[], Any]]:
    import numpy as np

    import clew

    random = np.random.default_rng(0)
    frames = random.integers(0, 256, (16, 180, 240, 3), dtype=np.uint8)
    source = _PIPELINE
    plain: dict[str, Any] = {}
    traced: dict[str, Any] = {}
    _load(source, "plain_pipeline", plain)
    _load(source, "traced_pipeline", traced)
    clew.follow(show=False, only="traced_pipeline")(traced["prepare"])
    return lambda: plain["prepare"](frames), lambda: traced["prepare"](frames)


_PIPELINE = """
import numpy as np

def resize(video, height, width):
    rows = np.arange(height) * video.shape[1] // height
    columns = np.arange(width) * video.shape[2] // width
    return video[:, rows][:, :, columns]

def normalise(video, mean, std):
    video = video.astype("float32") / 255.0
    return (video - mean) / std

def flip(video):
    return video[:, :, ::-1]

def jitter(video, scale):
    return np.clip(video * scale + 0.01, -3.0, 3.0)

def to_channels_first(video):
    return np.ascontiguousarray(np.transpose(video, (3, 0, 1, 2)))

def prepare(video):
    video = resize(video, 128, 160)
    video = normalise(video, 0.45, 0.22)
    video = flip(video)
    video = jitter(video, 1.1)
    return to_channels_first(video)
"""


def _load(source: str, name: str, namespace: dict[str, Any]) -> None:
    """As a module of its own, from a file, so that its source is found."""
    import importlib.util
    import sys
    import tempfile
    from pathlib import Path

    path = Path(tempfile.mkdtemp()) / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    namespace.update(vars(module))
    FINISH.append(lambda: shutil.rmtree(path.parent))


def layers() -> tuple[Callable[[], Any], Callable[[], Any]]:
    import torch
    from torch import nn

    import clew

    torch.set_num_threads(1)
    torch.manual_seed(0)
    x = torch.randn(16, 64, 128)

    def model() -> Any:
        layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
        return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)

    plain, traced = model(), clew.follow(model(), show=False)
    return lambda: plain(x), lambda: traced(x)


def taking_turns(make: Callable[[], tuple[Callable[[], Any], Callable[[], Any]]]) -> Contender:
    """How many times longer a block takes with following, the run being open."""

    def contender() -> Measure:
        import clew

        plain, traced = make()
        run = clew.run("bench")
        run.__enter__()
        FINISH.append(lambda: run.__exit__(None, None, None))

        def measure() -> float:
            pairs = [(timed(plain), timed(traced)) for _ in range(BLOCKS * ITEMS)]
            return median(with_it / without for without, with_it in pairs)

        return measure

    return contender


RATIOS: dict[str, Contender] = {
    "a pipeline of five functions on 16 frames": taking_turns(pipeline),
    "an encoder of four layers, all 36 modules": taking_turns(layers),
}
CONTENDERS = SMALL | RATIOS
NOTES = {"clew.follow, the program alone": "≤ 3 × untraced"}


def report(repeats: int, pythons: list[str]) -> str:
    small = compare(__name__, SMALL, repeats=repeats)
    rows = [
        (name, duration(small.median(name)), times(small.ratio(name, "untraced")), NOTES.get(name, ""))
        for name in SMALL
    ]
    large = compare(__name__, RATIOS, repeats=repeats)
    more = [(name, f"{large.median(name):.3f} × untraced", "≤ 1.05 ×" if "pipeline" in name else "") for name in RATIOS]
    return (
        table(["100,000 small calls", "a call", "untraced", "to reach"], rows)
        + "\n\n"
        + table(["", "", "to reach"], more)
    )

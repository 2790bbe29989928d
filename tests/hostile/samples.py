"""Runs of every probe, with values of every kind: what is forged and damaged in the tests here."""

from __future__ import annotations

import array
import datetime as dt
import decimal
import fractions
import pathlib
import types
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import clew


class Point:
    def __init__(self, x: int) -> None:
        self.x = x
        self.self = self


def values() -> list[Any]:
    """One of each kind."""
    shared = [1, 2]
    cyclic: list[Any] = [shared, shared]
    cyclic.append(cyclic)
    records = np.zeros(2, [("a", "<i4"), ("b", "U3")])
    found = [
        *(1, 2.5, True, None, "text", b"bytes", 1j, 10**700, float("nan"), "\udc80", b"x" * 5000, "y" * 70_000),
        *([1, [2]], (1, (2,)), {1, 2}, frozenset({3}), {"a": 1}, {1: 2, (3, 4): [5]}, deque([1], 4), slice(1, 2)),
        *(OrderedDict(a=1), Counter("aab"), defaultdict(list, {1: [2]}), types.MappingProxyType({"a": 1})),
        *(types.SimpleNamespace(a=1), Point(3), print, Point, cyclic, list(range(3000)), ..., NotImplemented),
        *(bytearray(b"abc"), array.array("d", [1, 2]), array.array("u", "ab"), memoryview(b"abcd").cast("H")),
        *(dt.date(2024, 1, 2), dt.datetime(2024, 1, 2, 3, tzinfo=dt.timezone.utc), dt.time(1, 2), dt.timedelta(1)),
        *(dt.datetime(2024, 1, 2, tzinfo=zoneinfo.ZoneInfo("UTC")), dt.timezone(dt.timedelta(hours=1), "x")),
        *(decimal.Decimal("1.5"), fractions.Fraction(1, 3), uuid.UUID(int=5), range(1, 9, 2), pathlib.Path("a/b")),
        *(np.arange(6.0).reshape(2, 3), np.float32(1.5), np.int64(3), np.str_("a"), np.bytes_(b"b"), np.dtype("<f4")),
        *(np.array([1, "a", None], object), records, records[0], np.array(["a", "bc"]), np.matrix([[1, 2]])),
        *(np.ma.masked_array([1, 2], [True, False]), np.array(["2024-01-01"], "M8[D]"), np.zeros((0, 3))),
        *(np.zeros((40, 50), np.uint8), np.ones(20_000), np.longdouble(1), np.complex64(1j), np.array(3)),
    ]
    if find_spec("PIL"):
        from PIL import Image

        found += [Image.new("RGB", (4, 3), "red"), Image.new("P", (2, 2))]
    if find_spec("pandas"):
        import pandas as pd

        frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "c": pd.Categorical(["u", "v"]), "d": [[1], None]})
        found += [frame, frame["a"], frame.index, pd.Timestamp("2024-01-01", tz="UTC"), pd.Timedelta(1), pd.NaT, pd.NA]
        found += [frame.set_index(["a", "b"]), pd.date_range("2024", periods=3)]
    if find_spec("torch"):
        import torch

        found += [torch.arange(6.0).reshape(2, 3), torch.tensor(1.5), torch.ones(2, dtype=torch.bfloat16)]
        found += [torch.Size([1, 2]), torch.float32, torch.device("cpu"), torch.ones(2, requires_grad=True)]
    return found


@clew.watch("value", "number", step="step")
def keep_values(given: list[Any]) -> None:
    number = 0.0
    for step, value in enumerate(given):
        number = step / 2
    del value


@clew.watch("weight", "loss", "word", step="step")
def train() -> float:
    weight = np.zeros((3, 4), np.float32)
    for step in range(6):
        loss = np.float32(1 / (step + 1))
        weight = weight + step
        word = f"step {step}"
    return float(loss)


def _fail(depth: int) -> None:
    if depth == 0:
        raise ValueError("at the bottom")
    _fail(depth - 1)


def _helper(x: Any) -> Any:
    y = [x, x]
    return y


@clew.follow("total", show=False)
def followed(count: int) -> int:
    total = 0
    for number in range(count):
        total += len(_helper(number))
    try:
        _fail(3)
    except ValueError:
        total = -total
    return total


@clew.stage("load")
def load(index: int) -> dict[str, Any]:
    return {"image": np.full((4, 4), index, np.uint8), "label": index}


@clew.stage("clean")
def clean(sample: dict[str, Any]) -> dict[str, Any]:
    return {**sample, "image": sample["image"] / 255}


@clew.op
def tokenize(text: str, sep: str = " ") -> list[str]:
    return text.split(sep)


def _pipeline(text: str) -> int:
    return len(tokenize(text, sep=","))


def everything(base: Path) -> Path:
    """One run of all probes, in this process."""
    graph = clew.record(_pipeline, "a,b")
    with clew.run("everything", path=base / "everything", tags={"lr": 0.1}) as run:
        keep_values(values())
        train()
        followed(4)
        with clew.items(2):
            for index in range(10):
                clean(load(index))
        graph.run({"text": "a,b,c"}, record=True)
        if find_spec("torch"):
            _model()
    return Path(run.path)


def _model() -> None:
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    with clew.ModelTracer(model, ["*", "**.weight.grad"]):
        for _ in range(2):
            model(torch.ones(2, 3)).sum().backward()

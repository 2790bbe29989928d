"""A small pipeline as a trace holds it: images and sounds are loaded, made numbers, put into a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from clew.reading.trace import Trace
from clew.records import Kept, NotKept, Object, Passage, Summary, TraceFacts

IMAGE = np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3)


def passage(stage: str = "load", function: str = "load", **given: Any) -> Passage:
    given = {"inputs": {}, "duration": 1_200_000, **given}
    return Passage(stage, function, **given)


def trace_of(*passages: Passage, **facts: Any) -> Trace:
    return Trace.of(list(passages), TraceFacts(**{"state": "finished", **facts}))


def whole() -> Trace:
    """One of everything."""
    loads = [
        passage(
            "dataset",
            "Scenes.__getitem__",
            inputs={"index": id},
            outputs={
                "sample": {"image": IMAGE + id, "sound": np.sin(np.arange(900) / id), "caption": "a <b>tree</b> " * 9}
            },
            ids=(id,),
            source="train",
            where="worker 1",
            files=(f"/data/{id}.png",),
            started=id,
            file="/home/me/data.py",
            line=12,
        )
        for id in (3, 7)
    ]
    batch = np.stack([IMAGE + 3, IMAGE + 7])
    mask = np.arange(2 * 36).reshape(2, 6, 6) % 3
    collate = passage(
        "collate",
        "collate",
        inputs={"samples": [{"image": IMAGE}, {"image": IMAGE}]},
        outputs={"batch": {"image": batch, "mask": mask}},
        ids=(3, 7),
        batch=0,
        by_row=True,
        source="train",
        started=10,
    )
    loss = passage(
        "loss",
        "criterion",
        inputs={
            "big": NotKept("torch.Tensor", Kept.SUMMARY, "over 32 MiB", Summary((9, 9), "float32", min=0.0, max=1.5))
        },
        outputs={"loss": np.array([0.5, 1.5])},
        ids=(3, 7),
        batch=0,
        by_row=True,
        source="train",
        started=20,
    )
    step = passage(
        "optimizer",
        "SGD.step",
        inputs={"config": Object("cfg.Config", {"lr": 0.1, "weights": np.eye(3)})},
        lost="the optimizer sees no batch",
        rows=1000,
        error="ValueError: no <gradient>",
        started=30,
    )
    facts = {"altered": ["the batch size was 64, and is 2"], "notes": ["one worker & no more"], "run": "/runs/one"}
    return trace_of(*loads, collate, loss, step, state="failed", error="ValueError: no <gradient>", **facts)

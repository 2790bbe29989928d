"""Callbacks that call the model they are told about, and names of items that lead to stages."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import clew


def test_callbacks_and_conditions_of_a_tracer_may_call_the_model() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    asked: list[int] = []

    def again(name: str, values: Any, iterations: Any, ranks: Any) -> None:
        asked.append(1)
        model(torch.ones(1, 2))

    def when(number: int) -> bool:
        model(torch.ones(1, 2))
        return True

    with clew.run(), clew.ModelTracer(model, ["*"], pre_save=again, when=when) as tracer:
        for _ in range(3):
            model(torch.zeros(1, 2))
    assert tracer.counts["train"] == 3
    assert asked


def test_the_name_of_an_item_may_be_found_through_a_stage() -> None:
    @clew.stage("double")
    def double(x: int) -> int:
        return x * 2

    class Numbers(torch.utils.data.Dataset[int]):
        def __len__(self) -> int:
            return 6

        def __getitem__(self, index: int) -> int:
            return double(index)

    loader = torch.utils.data.DataLoader(Numbers(), batch_size=2)
    with clew.items(2, id=lambda sample: f"item {double(sample)}") as trace:
        for _ in loader:
            pass
    assert len(trace.double) == 2


@pytest.mark.parametrize("path", ["forward.self.shifted", "forward.self.called"])
def test_a_path_that_is_a_property_may_call_the_model(path: str) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(2, 2)
            self.asked = 0

        @property
        def shifted(self) -> Any:
            self.asked += 1
            assert self.asked < 50
            return self.fc(torch.ones(1, 2))

        @property
        def called(self) -> Any:
            self.asked += 1
            assert self.asked < 50
            return self(torch.ones(1, 2))

        def forward(self, x: Any) -> Any:
            h = self.fc(x)
            return h * 2

    model = Net()
    with clew.run(), clew.ModelTracer(model, [path, "fc", "forward.h"]) as tracer:
        for number in range(2):
            model(torch.full((1, 2), float(number)))
    assert tracer.counts["train"] == 2
    assert len(tracer.results["fc"].values) == 2
    assert len(tracer.results["forward.h"].values) == 2
    assert model.asked > 0

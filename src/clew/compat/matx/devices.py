"""Devices as Matx names and counts them."""

from __future__ import annotations

from typing import Any

from clew.graph import op


def torch_device(device: Any) -> Any:
    """Matx counts devices: -1 is the CPU, 0 the first GPU."""
    if isinstance(device, Device):
        device = device.name
    try:
        number = int(device)
    except (TypeError, ValueError):
        return device  # "cpu", torch.device("cuda:0")
    return "cpu" if number < 0 else f"cuda:{number}"


@op
class Device:
    """An operator that gives the number of a device: -1 for the CPU, 0 for the first GPU."""

    def __init__(self, device: Any) -> None:
        self.name = str(torch_device(device))

    def __call__(self) -> int:
        kind, _, number = self.name.partition(":")
        return -1 if kind == "cpu" else int(number or 0)

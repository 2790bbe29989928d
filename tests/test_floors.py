"""The environment of `make test-floors` has the lowest versions that pyproject.toml allows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: Too large, or on no Python with a wheel of that age: not in that environment.
NOT_THERE = {"torch", "jax", "tensorflow", "lightning", "transformers", "accelerate"}


def _padded(version: str) -> list[int]:
    numbers = [int(part) for part in version.split(".")]
    return numbers + [0] * (4 - len(numbers))


def test_the_lowest_versions_are_those_that_are_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(each for extra in project["optional-dependencies"].values() for each in extra)]
    floors = {match[1]: match[2] for each in asked if (match := re.match(r"([\w-]+)>=([\d.]+)", each))}
    pinned = dict(re.findall(r"^([\w-]+)==([\d.]+)", (ROOT / "requirements/test-floors.txt").read_text(), re.MULTILINE))
    assert len(floors) == len(asked)
    assert {name: _padded(pinned[name]) for name in floors.keys() - NOT_THERE} == {
        name: _padded(version) for name, version in floors.items() if name not in NOT_THERE
    }

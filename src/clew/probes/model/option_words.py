"""The words that options of a tracer take."""

from __future__ import annotations

from typing import Literal

Mode = Literal["train", "eval", "both"]
Gather = Literal["auto", "collective", "files", "none"]
Nonfinite = Literal["find", "raise", "stop"]
Compiled = Literal["eager", "leave"]
Repeats = Literal["skip", "tensors", "all"]

"""Sizes as people write them: "2GB", "512 MiB", 1_000_000."""

from __future__ import annotations

import re

from clew.errors import OptionError

_UNITS = {"": 1, "b": 1, "k": 10**3, "kb": 10**3, "kib": 2**10, "m": 10**6, "mb": 10**6, "mib": 2**20,
          "g": 10**9, "gb": 10**9, "gib": 2**30, "t": 10**12, "tb": 10**12, "tib": 2**40}  # fmt: skip


def parse_size(given: int | str, option: str) -> int:
    """The number of bytes, or an error that names the option."""
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", given) if isinstance(given, str) else None
    if match is None or match.group(2).lower() not in _UNITS:
        raise OptionError("bad-size", f"{option}={given!r} is not a size.", 'Write it like "2GB" or "512 MiB".')
    return int(float(match.group(1)) * _UNITS[match.group(2).lower()])

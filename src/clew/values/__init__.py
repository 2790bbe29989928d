"""How a value is compared, copied, summarised, written and read back. No user code ever runs here.

`capture` looks at a value; `Capture.unchanged` tells quickly whether it is still the same; `decode` reads it back.
"""

from __future__ import annotations

from clew.records import Summary, Value
from clew.values.capture import Capture, capture, same_scalar
from clew.values.class_facts import type_name
from clew.values.codec import decode
from clew.values.json_text import SCALAR_IDS, SCALARS
from clew.values.keep import AUTO, LIGHT, Keep, keep_by_name, parse_keep
from clew.values.type_markers import Unlooked, unlooked

__all__ = [
    "AUTO",
    "LIGHT",
    "SCALARS",
    "SCALAR_IDS",
    "Capture",
    "Keep",
    "Unlooked",
    "capture",
    "decode",
    "keep_by_name",
    "parse_keep",
    "same_scalar",
    "summary_of",
    "type_name",
    "unlooked",
]


def summary_of(value: Value) -> Summary:
    """The summary, with the statistics that were left to the reader computed from the bytes."""
    from clew.values.array_stats import filled

    return filled(value)

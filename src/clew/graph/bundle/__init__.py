"""Bundles: a graph saved as a folder or a zip of readable parts, and loaded where its author's files are not.

`layout` says what is in one and checks it; `saving` and `encoding` write, `loading` and `decoding` read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

    from clew.graph.graph import Graph

__all__ = ["load"]


def load(
    path: str | os.PathLike[str],
    *,
    trusted: bool | str | Iterable[str] = False,
    device: Any = None,
    share: bool = False,
) -> Graph:
    """The graph of a bundle.

    trusted   a bundle is a program: True runs it; a list of names says which of its modules may run (or which bundle,
              by the SHA-256 that `clew inspect` shows)
    device    where torch modules and tensors go
    share     loads of the same bundle have the same objects
    """
    from .loading import load

    return load(path, trusted=trusted, device=device, share=share)

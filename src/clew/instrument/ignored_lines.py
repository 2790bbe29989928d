"""Lines whose changes are not wanted: `# clew: ignore` at the end of a line (or `# ztrace: ignore`)."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable

_COMMENT = re.compile(r"#\s*(?:clew|ztrace)\s*:\s*ignore\b")


_known: dict[int, tuple[list[str], frozenset[int]]] = {}  # by identity of a file's lines, which are held


def ignored_lines(lines: list[str]) -> frozenset[int]:
    """Line numbers that carry the comment; read once for all functions of a file."""
    known = _known.get(id(lines))
    if known is None:
        known = _known[id(lines)] = (lines, _read(lines))
    return known[1]


def _read(lines: list[str]) -> frozenset[int]:
    """By tokens: a text that merely contains the comment does not count."""
    if not any(_COMMENT.search(line) for line in lines):
        return frozenset()
    found = set()
    try:
        for token in tokenize.generate_tokens(io.StringIO("".join(lines)).readline):
            if token.type == tokenize.COMMENT and _COMMENT.search(token.string):
                found.add(token.start[0])
    except (tokenize.TokenError, SyntaxError):
        pass  # what came before the unreadable place counts
    return frozenset(found)


def ignorer(lines: list[str]) -> Callable[[int, int], bool]:
    """Whether a statement from one line to another carries the comment on any of its lines."""
    marked = ignored_lines(lines)
    if not marked:
        return lambda first, last: False
    return lambda first, last: any(line in marked for line in range(first, last + 1))

"""Lines whose changes are not wanted: `# clew: ignore` at the end of a line (or `# ztrace: ignore`)."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable

_COMMENT = re.compile(r"#\s*(?:clew|ztrace)\s*:\s*ignore\b")


def ignored_lines(lines: list[str]) -> frozenset[int]:
    """Line numbers that carry the comment; a text that merely contains it does not count."""
    if not any("ignore" in line for line in lines):
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

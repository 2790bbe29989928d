"""`ast.parse` that succeeds whatever other threads do.

Until Python 3.11.8 all threads count their depth in one place while a syntax tree is made. A garbage collection in
the middle lets another thread go on; if that parses as well, the count is wrong and `ast.parse` raises SystemError
(https://github.com/python/cpython/issues/106905). The text is not at fault, and the next attempt succeeds.
"""

from __future__ import annotations

import ast
from typing import Literal, overload

_ATTEMPTS = 100


@overload
def parse(text: str | bytes, filename: str = ..., mode: Literal["exec"] = ...) -> ast.Module: ...


@overload
def parse(text: str | bytes, filename: str = ..., *, mode: Literal["eval"]) -> ast.Expression: ...


def parse(text: str | bytes, filename: str = "<unknown>", mode: Literal["exec", "eval"] = "exec") -> ast.AST:
    """The syntax tree of a text, as `ast.parse` makes it."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return ast.parse(text, filename, mode)
        except SystemError:
            continue
    return ast.parse(text, filename, mode)

"""Parsing beside threads that parse."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from clew.instrument import parsing


def test_parsing_is_repeated_when_another_thread_disturbed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11.7 and earlier raise SystemError then; the moment cannot be forced, so it is raised here."""
    attempts: list[str] = []

    def disturbed(text: str, *rest: Any) -> ast.AST:
        attempts.append(text)
        if len(attempts) < 3:
            raise SystemError("AST constructor recursion depth mismatch (before=90, after=85)")
        return compile(text, "<unknown>", "exec", ast.PyCF_ONLY_AST)  # type: ignore[return-value]

    monkeypatch.setattr(ast, "parse", disturbed)
    assert ast.unparse(parsing.parse("x = 1")) == "x = 1"
    assert len(attempts) == 3


def test_a_text_that_is_no_python_is_an_error_at_once() -> None:
    with pytest.raises(SyntaxError):
        parsing.parse("1 +", mode="eval")

"""Every error a user can meet has a slug, and every slug its paragraph in docs/errors.md."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from clew import errors

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "errors.md"
FAMILY = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.ClewError)}


def slugs_in(source: str) -> list[tuple[str | None, int]]:
    """(slug, line) of each error of the family that is made in a module; None where the slug is not a plain text."""
    found: list[tuple[str | None, int]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rsplit(".", 1)[-1] in FAMILY:
            first = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "slug"), None)
            plain = isinstance(first, ast.Constant) and isinstance(first.value, str)
            found.append((first.value if plain else None, node.lineno))
    return found


USED = [
    (str(path.relative_to(ROOT)), line, slug)
    for path in sorted((ROOT / "src" / "clew").rglob("*.py"))
    for slug, line in slugs_in(path.read_text(encoding="utf-8"))
]
SLUGS = sorted({slug for _, _, slug in USED if slug is not None})


def paragraphs() -> dict[str, str]:
    """slug -> the text under its heading."""
    parts = re.split(r"^## `([a-z0-9-]+)`$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("slug", SLUGS)
def test_a_slug_has_its_paragraph(slug: str) -> None:
    assert len(paragraphs().get(slug, "").split()) > 15, f"docs/errors.md says nothing of {slug!r}"


def test_every_error_is_made_with_a_slug_that_can_be_searched_for() -> None:
    assert [f"{file}:{line}" for file, line, slug in USED if slug is None] == []


def test_the_page_describes_no_error_that_cannot_happen() -> None:
    assert sorted(set(paragraphs()) - set(SLUGS)) == []


def test_slugs_are_found_however_the_error_is_named() -> None:
    source = "raise errors.OptionError('keep', 'x')\nOptionError(slug='every', what='y')\nraise ValueError('no')"
    assert slugs_in(source) == [("keep", 1), ("every", 2)]


def test_an_error_says_what_and_what_to_do() -> None:
    error = errors.UnknownNameError("unknown-name", "no `los`;", errors.nearest("los", ["loss", "accuracy"]))
    assert str(error) == "no `los`; did you mean `loss`?"
    assert isinstance(error, KeyError)


def test_without_a_near_name_the_error_lists_what_there_is() -> None:
    assert errors.nearest("zzz", ["loss", "accuracy"]) == "there is `loss`, `accuracy`."
    assert errors.nearest("zzz", []) == "nothing was recorded."

"""The page is built when its sources have changed, and only then. (That it can be built: `make wheel-check`.)"""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

from documents import ROOT

SPEC = importlib.util.spec_from_file_location("build_page", ROOT / "scripts" / "build_page.py")
assert SPEC is not None
assert SPEC.loader is not None
build_page = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(build_page)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree with a page that is current."""
    source = build_page.web(tmp_path) / "src"
    source.mkdir(parents=True)
    (source / "app.tsx").write_text("export const app = 1;\n")
    (source / "app.test.tsx").write_text("test();\n")
    for name in ("package.json", "package-lock.json"):
        (build_page.web(tmp_path) / name).write_text("{}\n")
    build_page.page(tmp_path).parent.mkdir(parents=True)
    build_page.page(tmp_path).write_text(f"<html></html>\n{build_page.stamp(tmp_path)}\n")
    return tmp_path


def forbid_npm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_page, "npm", lambda *words: pytest.fail(f"npm was called: {words}"))


def test_a_current_page_is_left_alone(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_npm(monkeypatch)
    assert build_page.build(tree) is False


def test_a_changed_source_makes_the_page_old(tree: Path) -> None:
    (build_page.web(tree) / "src" / "app.tsx").write_text("export const app = 2;\n")
    assert not build_page.is_current(tree)


def test_a_new_source_and_a_changed_lock_file_make_the_page_old(tree: Path) -> None:
    extra = build_page.web(tree) / "src" / "more.ts"
    extra.write_text("")
    assert not build_page.is_current(tree)
    extra.unlink()
    assert build_page.is_current(tree)
    (build_page.web(tree) / "package-lock.json").write_text('{"a": 1}\n')
    assert not build_page.is_current(tree)


def test_a_changed_test_leaves_the_page_current(tree: Path) -> None:
    (build_page.web(tree) / "src" / "app.test.tsx").write_text("other();\n")
    assert build_page.is_current(tree)


def test_an_old_page_is_built_and_stamped(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (build_page.web(tree) / "src" / "app.tsx").write_text("export const app = 2;\n")
    called: list[tuple[str, ...]] = []

    def npm(root: Path, node: Path, *words: str) -> None:
        called.append(words[:2])
        (build_page.web(root) / "node_modules").mkdir(exist_ok=True)
        if words[0] == "run":
            build_page.page(root).write_text("<html>new</html>")

    monkeypatch.setattr(build_page, "npm", npm)
    monkeypatch.setattr(build_page, "machines_node", lambda: Path("bin"))
    assert build_page.build(tree) is True
    assert called == [("ci", "--no-audit"), ("run", "build")]
    assert build_page.is_current(tree)
    assert build_page.page(tree).read_text().startswith("<html>new</html>\n<!-- made from ")
    called.clear()
    assert build_page.build(tree, force=True) is True
    assert called == [("run", "build")]  # the lock file is the same: nothing is installed again


def test_without_node_it_says_what_to_do(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_page.page(tree).unlink()
    monkeypatch.setattr(build_page, "machines_node", lambda: None)
    monkeypatch.setattr(build_page, "wheels_node", lambda: None)
    with pytest.raises(build_page.PageError, match="pip install"):
        build_page.build(tree)


@pytest.mark.parametrize(
    ("version", "fits"),
    [
        ("v20.19.0", True),
        ("v20.18.3", False),
        ("v21.9.0", False),
        ("v22.11.0", False),
        ("v22.12.0", True),
        ("v24.1.0", True),
        ("", False),
    ],
)
def test_the_node_that_is_new_enough(version: str, fits: bool) -> None:
    assert build_page.is_new_enough(version) is fits


def test_what_is_made_is_not_in_the_repository() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "node_modules/" not in listed
    assert "page/static/" not in listed

"""A real browser: Debian's Chromium, driven by Playwright. On the primary Python alone; there, it must be found."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

if find_spec("playwright") is None and not os.environ.get("CLEW_PRIMARY"):
    collect_ignore_glob = ["test_*_browser.py"]

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@pytest.fixture(scope="module")  # no longer: Playwright keeps an event loop running, in which others' cannot be run
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CLEW_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    assert path, "no Chromium found: `make browser` installs Debian's package, or set CLEW_CHROMIUM to one"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    yield context.new_page()
    context.close()

"""How a real browser comes to the page, and what it knows afterwards."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.page import serving
from clew.page.serving import Served
from clew.page.shelf import Shelf, run_id
from reading.writing import simple_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return simple_run(tmp_path / "runs", {"loss": [1.0, 2.0]}).path


@pytest.fixture
def served(tmp_path: Path, folder: Path) -> Iterator[Served]:
    opened = Served(Shelf(tmp_path / "runs"), port=0).at(f"/run/{run_id(folder)}")
    yield opened
    opened.close()


def is_let_in(page: Any, served: Served) -> None:
    """The run is shown, and the address has neither token nor code, also after loading it again."""
    for _ in range(2):
        page.get_by_text("loss").first.wait_for(state="attached")
        assert page.evaluate("location.href").startswith(f"http://127.0.0.1:{served.port}/#{served.route}")
        assert page.evaluate("document.cookie") == ""
        assert served.token not in page.content()
        page.reload()


def test_the_printed_address_leads_to_a_clean_one(served: Served, page: Any) -> None:
    page.goto(served.address)
    is_let_in(page, served)


def test_the_file_that_a_browser_is_given_leads_to_a_clean_address(
    served: Served, page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []
    monkeypatch.setattr(serving, "open_browser", lambda address: given.append(address) or True)
    served.open_browser()
    page.goto(given[0])
    page.wait_for_url(f"http://127.0.0.1:{served.port}/**")
    is_let_in(page, served)


def test_another_browser_is_not_let_in_by_the_address_of_the_first(served: Served, browser: Any, page: Any) -> None:
    address = served.address
    page.goto(address)
    is_let_in(page, served)
    other = browser.new_context().new_page()
    other.goto(address)
    assert "works once" in other.inner_text("body")
    other.goto(f"http://127.0.0.1:{served.port}/")
    assert "not been let in" in other.inner_text("body")
    other.context.close()


def test_two_servers_in_one_browser_do_not_log_each_other_out(served: Served, tmp_path: Path, page: Any) -> None:
    other = Served(Shelf(tmp_path / "runs"), port=0).at(served.route)
    try:
        page.goto(served.address)
        is_let_in(page, served)
        page.goto(other.address)
        is_let_in(page, other)
        page.goto(f"http://127.0.0.1:{served.port}/#{served.route}")
        is_let_in(page, served)
    finally:
        other.close()


def test_a_notebook_on_another_site_shows_the_page_in_a_frame(tmp_path: Path, folder: Path, page: Any) -> None:
    """Browsers give no cookie to such a frame: `localhost` and `127.0.0.1` are two sites."""
    framed = Served(Shelf(tmp_path / "runs"), port=0, framed=True).at(f"/run/{run_id(folder)}")
    shown = f"<!doctype html>{framed._repr_html_()}".encode()

    class Notebook(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(shown)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    notebook = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Notebook)
    threading.Thread(target=notebook.serve_forever, daemon=True).start()
    try:
        page.goto(f"http://localhost:{notebook.server_port}/")
        for _ in range(2):
            page.frame_locator("iframe").get_by_text("loss").first.wait_for(state="attached")
            page.reload()
    finally:
        notebook.shutdown()
        notebook.server_close()
        framed.close()

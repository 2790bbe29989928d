"""A real socket, a port, a browser, a notebook."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.errors import OptionError, PageError
from clew.page import serving
from clew.page.serving import HOST, Served, bound_socket, open_browser, route_to
from clew.page.shelf import Shelf, run_id


@pytest.fixture
def served(base: Path, folder: Path) -> Iterator[Served]:
    server = Served(Shelf(base), port=0)
    yield server
    server.close()


def fetch(address: str, **headers: str) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=20) as answer:
        return answer.read()


def test_a_served_page_answers_to_its_token_alone(served: Served) -> None:
    address = f"http://{HOST}:{served.port}/api/runs"
    answer = fetch(address, Authorization=f"Bearer {served.token}")
    assert json.loads(answer)["runs"][0]["name"] == "training"
    with pytest.raises(urllib.error.HTTPError) as refused:
        fetch(address)
    with refused.value:
        assert refused.value.code == 403


def test_it_listens_on_loopback_only(served: Served) -> None:
    assert served._socket.getsockname()[0] == "127.0.0.1"


def test_every_server_has_its_own_token(served: Served, base: Path) -> None:
    second = Served(Shelf(base), port=0)
    try:
        assert second.token != served.token
        assert len(second.token) >= 32
    finally:
        second.close()


def test_a_closed_server_is_gone(base: Path) -> None:
    server = Served(Shelf(base), port=0)
    server.close()
    assert not server.alive
    assert "closed" in repr(server)
    with pytest.raises(OSError):
        socket.create_connection((HOST, server.port), timeout=1).close()


def test_a_port_in_use_is_an_error_if_it_was_asked_for() -> None:
    with socket.socket() as busy_socket:
        busy_socket.bind((HOST, 0))
        busy_socket.listen()
        port = busy_socket.getsockname()[1]
        with pytest.raises(PageError, match=f"Port {port} is in use"):
            bound_socket(port)


def test_without_one_asked_for_a_free_port_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as busy_socket:
        busy_socket.bind((HOST, 0))
        busy_socket.listen()
        monkeypatch.setattr(serving, "PORT", busy_socket.getsockname()[1])
        with bound_socket(None) as server:
            assert server.getsockname()[1] != busy_socket.getsockname()[1]


@pytest.mark.parametrize("port", [-1, 65536])
def test_an_invalid_port_is_refused(port: int) -> None:
    with pytest.raises(OptionError, match="not a valid port"):
        bound_socket(port)


def test_the_first_page_is_that_of_the_runs_that_were_named(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    assert route_to([]) == "/"
    assert route_to([a]) == f"/run/{run_id(a)}"
    assert route_to([a, b]) == f"/run/{run_id(a)}/series?runs={run_id(b)}"


def test_no_browser_is_tried_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(serving.sys, "platform", "linux")
    monkeypatch.setattr(serving.webbrowser, "open", lambda address: pytest.fail("it would take over the terminal"))
    assert not open_browser("http://127.0.0.1/")


def test_a_browser_that_fails_is_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(address: str) -> bool:
        raise serving.webbrowser.Error("none")

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(serving.webbrowser, "open", fail)
    assert not open_browser("http://127.0.0.1/")


@pytest.fixture
def viewing(base: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is opened in the browser by `run.view()`; its server ends with the test."""
    opened: list[str] = []
    monkeypatch.setenv("CLEW_DIR", str(base))
    monkeypatch.setattr(serving, "PORT", 0)
    monkeypatch.setattr(serving, "open_browser", lambda address: opened.append(address) or True)
    monkeypatch.setattr(serving, "_serving", {})
    yield opened
    for server in serving._serving.values():
        server.close()


def test_a_run_opens_in_the_browser(folder: Path, viewing: list[str]) -> None:
    view = clew.open(folder).view()
    (opened,) = viewing
    assert opened.startswith("file:///") and opened.endswith("/open.html")
    assert view.route == f"/run/{run_id(folder)}"
    assert clew.open(folder).view().port == view.port


def test_in_a_notebook_it_is_a_frame(folder: Path, viewing: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "in_notebook", lambda: True)
    view = clew.open(folder).view()
    assert viewing == []
    assert f'<iframe src="http://127.0.0.1:{view.port}/frame/' in view._repr_html_()
    assert view.token not in view._repr_html_()


def test_a_plain_interpreter_is_not_a_notebook() -> None:
    assert not serving.in_notebook()

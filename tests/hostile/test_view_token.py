"""The token of the page: on no command line, in no address, of no use to another site."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPCookieProcessor, build_opener

import pytest
from starlette.testclient import TestClient

from clew.page.access import Access
from clew.page.server import make_app
from clew.page.serving import Served
from clew.page.shelf import Shelf
from reading.writing import simple_run

SOURCE = str(Path(__file__).parents[2] / "src")
HOST = "http://127.0.0.1:8412"
QUESTION = "/api/runs"


@pytest.fixture
def access() -> Access:
    return Access()


@pytest.fixture
def client(access: Access, tmp_path: Path) -> TestClient:
    return TestClient(make_app(Shelf(tmp_path), access), base_url=HOST, follow_redirects=False)


def cookie(access: Access, port: int = 8412) -> dict[str, str]:
    return {"Cookie": f"clew-{port}={access.token}"}


# ---- the code that works once


def test_a_code_lets_one_browser_in_and_leads_to_a_clean_address(client: TestClient, access: Access) -> None:
    answer = client.get(f"/open/{access.new_code('/run/abc')}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/#/run/abc")
    assert client.get(QUESTION).status_code == 200  # with the cookie
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"


def test_a_code_works_once(client: TestClient, access: Access, tmp_path: Path) -> None:
    code = access.new_code("/")
    client.get(f"/open/{code}")
    other = TestClient(client.app, base_url=HOST, follow_redirects=False)
    answer = other.get(f"/open/{code}")
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert other.get(QUESTION).status_code == 403


def test_of_many_who_come_with_a_code_at_once_one_is_let_in(access: Access) -> None:
    code = access.new_code("/")
    with ThreadPoolExecutor(16) as pool:
        routes = list(pool.map(lambda _: access.redeem(code), range(64)))
    assert sorted(route for route in routes if route is not None) == ["/"]


def test_the_browser_that_used_a_code_may_come_with_it_again(client: TestClient, access: Access) -> None:
    code = access.new_code("/")
    client.get(f"/open/{code}")
    assert client.get(f"/open/{code}").status_code == 303


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "OPTIONS"])
def test_a_look_ahead_does_not_use_a_code_up(client: TestClient, access: Access, method: str) -> None:
    code = access.new_code("/")
    assert client.request(method, f"/open/{code}").status_code in (403, 405)
    assert access.is_unused(code)


def test_a_code_is_of_no_use_under_another_host(client: TestClient, access: Access) -> None:
    code = access.new_code("/")
    assert client.get(f"/open/{code}", headers={"Host": "evil.example"}).status_code == 403
    assert access.is_unused(code)


def test_a_code_is_no_token(client: TestClient, access: Access) -> None:
    for code in (access.new_code("/"), access.frame_code):
        assert client.get(QUESTION, headers={"Authorization": f"Bearer {code}"}).status_code == 403
        assert client.get(QUESTION, headers={"Cookie": f"clew-8412={code}"}).status_code == 403


@pytest.mark.parametrize("path", ["/open", "/open/", "/open//", "/open/x", "/frame/", "/frame/x", "/open/x/y"])
def test_without_a_code_nobody_is_let_in(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_unused_codes_are_bounded() -> None:
    access = Access()
    codes = [access.new_code("/") for _ in range(1_000)]
    assert sum(map(access.is_unused, codes)) <= 100
    assert access.is_unused(codes[-1])


# ---- the cookie


def test_the_cookie_is_for_this_server_alone_and_unseen_by_scripts(client: TestClient, access: Access) -> None:
    parts = client.get(f"/open/{access.new_code('/')}").headers["set-cookie"].split("; ")
    assert parts[0] == f"clew-8412={access.token}"
    assert set(parts[1:]) == {"HttpOnly", "SameSite=Strict", "Path=/"}


def test_servers_on_two_ports_do_not_take_each_other_s_cookie(client: TestClient, access: Access) -> None:
    assert client.get(QUESTION, headers=cookie(access, 8412)).status_code == 200
    assert client.get(QUESTION, headers=cookie(access, 8413)).status_code == 403


FROM_ELSEWHERE = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "https://example.org"},  # of a browser that does not say Sec-Fetch-Site
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "null"},
]


@pytest.mark.parametrize("site", FROM_ELSEWHERE)
def test_a_cookie_is_not_the_word_of_another_site_or_port(
    client: TestClient, access: Access, site: dict[str, str]
) -> None:
    headers = {**cookie(access), **site}
    for method, path in [("GET", QUESTION), ("GET", "/"), ("POST", "/api/run/x/delete")]:
        assert client.request(method, path, headers=headers, json={}).status_code == 403


def test_the_page_s_own_origin_needs_no_more_than_the_cookie(client: TestClient, access: Access) -> None:
    own = {"Origin": f"{client.base_url}".rstrip("/")}
    assert client.get(QUESTION, headers={**cookie(access), **own}).status_code == 200


def test_from_a_file_the_page_is_reached_without_a_redirect(client: TestClient, access: Access) -> None:
    """A browser would follow a redirect without the cookie that it was just given."""
    answer = client.get(f"/open/{access.new_code('/run/x')}", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 200
    assert 'content="0; url=/#/run/x"' in answer.text
    assert access.token not in answer.text


def test_a_route_cannot_break_out_of_the_page_that_leads_on(client: TestClient, access: Access) -> None:
    code = access.new_code('/"><script>alert(1)</script>\r\nX-Bad: 1')
    answer = client.get(f"/open/{code}", headers={"Sec-Fetch-Site": "cross-site"})
    assert "<script>" not in answer.text
    again = client.get(f"/open/{access.new_code(chr(13) + chr(10) + 'X-Bad: 1')}")
    assert "x-bad" not in again.headers


# ---- the command line


@contextmanager
def viewing(folder: Path, browser: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`clew view` in a process of its own, which opens `browser`; and what it printed."""
    run = simple_run(folder, {"loss": [1.0, 2.0]})
    environment = {**os.environ, "CLEW_DIR": str(folder), "PYTHONPATH": SOURCE, "BROWSER": browser, "DISPLAY": ""}
    command = [sys.executable, "-m", "clew", "view", str(run.path), "--port", "0"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            told = ""
            while "Ctrl-C" not in told:
                line = process.stdout.readline()
                assert line, "it ended"
                told += line
            yield process, told
        finally:
            process.kill()


def arguments_of(file: Path) -> list[str]:
    for _ in range(400):
        if file.exists() and file.read_text().endswith("\n"):
            break
        time.sleep(0.05)
    return file.read_text().split()


@pytest.fixture
def fake_browser(tmp_path: Path) -> Path:
    """A browser that only writes down what it was started with."""
    path = tmp_path / "browser"
    path.write_text(f"#!/bin/sh\necho $* > {tmp_path}/part\nmv {tmp_path}/part {tmp_path}/arguments\n")
    path.chmod(0o700)
    return path


def test_the_command_line_of_the_browser_names_a_file_that_only_its_user_can_read(
    tmp_path: Path, fake_browser: Path
) -> None:
    with viewing(tmp_path / "runs", str(fake_browser)) as (process, told):
        (argument,) = arguments_of(tmp_path / "arguments")
        file = Path(unquote(urlsplit(argument).path))
        assert argument.startswith("file:///") and file.is_file()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        target = re.search(r"url=(http://127\.0\.0\.1:\d+/open/([\w-]+))", file.read_text())
        assert target is not None
        assert target[2] not in argument and target[2] not in told  # the printed address has a code of its own
        browser = build_opener(HTTPCookieProcessor())
        with browser.open(target[1], timeout=20) as page:
            assert urlsplit(page.url).path == "/"
        command_line = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode()
        assert "/open/" not in command_line
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert not file.parent.exists()


def test_when_the_printed_address_was_used_another_is_printed(tmp_path: Path, fake_browser: Path) -> None:
    with viewing(tmp_path / "runs", str(fake_browser)) as (process, told):
        (first,) = re.findall(r"http://127\.0\.0\.1:\d+/open/[\w-]+", told)
        build_opener(HTTPCookieProcessor()).open(first, timeout=20).close()
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(first, timeout=20)
        refused.value.close()
        assert process.stdout is not None
        lines: list[Any] = []
        while not any("/open/" in line for line in lines):
            lines.append(process.stdout.readline())
            assert lines[-1], "it ended"
        assert first not in "".join(lines)


def test_nothing_that_people_see_of_a_server_has_its_token(tmp_path: Path) -> None:
    for framed in (False, True):
        served = Served(Shelf(tmp_path), port=0, framed=framed)
        try:
            assert served.token not in f"{served!r} {served._repr_html_()} {served.address}"
        finally:
            served.close()


def test_what_a_browser_was_given_outlives_what_view_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`run.view()` whose value nobody keeps: the browser still has to read the file."""
    from clew.page import serving

    opened: list[str] = []
    monkeypatch.setattr(serving, "open_browser", lambda address: opened.append(address) or True)
    served = Served(Shelf(tmp_path), port=0)
    try:
        served.at("/run/x").open_browser()
        assert Path(urlsplit(opened[0]).path).is_file()
    finally:
        served.close()
    assert not Path(urlsplit(opened[0]).path).exists()

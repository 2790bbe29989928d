"""Who may ask: the host, the token, and what a page may do."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from clew.page import server
from clew.page.access import Access
from page.asking import HOST, TOKEN, Page
from reading.writing import Written

QUESTION = "/api/runs"


def bare(page: Page, path: str, *, host: str = "127.0.0.1:8412", **headers: str) -> int:
    """The status for a request without the token, unless it is given."""
    return page.client.get(path, headers={"Host": host, "X-Clew-Token": "", **headers}).status_code


@pytest.mark.parametrize("path", ["/", QUESTION, "/api/diff", "/api/run/abc", "/nothing"])
def test_nothing_is_answered_without_the_token(page: Page, path: str) -> None:
    assert bare(page, path) == 403


@pytest.mark.parametrize(
    ("name", "scheme"), [("X-Clew-Token", ""), ("Authorization", "Bearer "), ("Cookie", "clew-8412=")]
)
def test_a_wrong_token_is_refused_and_the_right_one_answered(page: Page, name: str, scheme: str) -> None:
    assert bare(page, QUESTION, **{name: f"{scheme}wrong"}) == 403
    assert bare(page, QUESTION, **{name: f"{scheme}{TOKEN[:-1]}"}) == 403
    assert bare(page, QUESTION, **{name: f"{scheme}{TOKEN}"}) == 200


def test_a_token_in_the_address_opens_nothing(page: Page) -> None:
    assert bare(page, f"{QUESTION}?token={TOKEN}") == 403


def test_a_refusal_says_what_to_do(page: Page) -> None:
    refusal = page.client.get("/", headers={"X-Clew-Token": ""})
    assert refusal.headers["content-type"].startswith("text/html")
    assert "clew view" in refusal.text
    assert page.client.get(QUESTION, headers={"X-Clew-Token": ""}).json()["slug"] == "wrong-token"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:9", "localhost:8888", "LOCALHOST", "[::1]:80", "[::1]"])
def test_loopback_hosts_are_answered_at_any_port(page: Page, host: str) -> None:
    assert bare(page, QUESTION, host=host, Authorization=f"Bearer {TOKEN}") == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "10.0.0.1", "", "127.0.0.1:80:80"]
)
def test_other_hosts_are_refused_even_with_the_token(page: Page, host: str) -> None:
    assert bare(page, QUESTION, host=host, Authorization=f"Bearer {TOKEN}") == 403


def test_a_post_needs_the_token_in_the_header(page: Page, folder: Path) -> None:
    path = f"{page.run(folder)}/edit?token={TOKEN}"
    answer = page.client.post(path, json={"name": "x"}, headers={"X-Clew-Token": ""})
    assert answer.status_code == 403
    assert "training" in (folder / "run.json").read_text()


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_post_must_be_json(page: Page, folder: Path, kind: str) -> None:
    path = f"{page.run(folder)}/edit"
    answer = page.client.post(path, content=b'{"name": "x"}', headers={"Content-Type": kind})
    assert answer.status_code == 400


def test_a_very_long_body_is_not_read(page: Page, folder: Path) -> None:
    body = json.dumps({"name": "x" * (2 << 20)}).encode()
    headers = {"Content-Type": "application/json"}
    assert page.client.post(f"{page.run(folder)}/edit", content=body, headers=headers).status_code == 400


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH"])
def test_other_methods_mean_nothing(page: Page, method: str) -> None:
    assert page.client.request(method, QUESTION).status_code == 405


@pytest.mark.parametrize("id", ["..", "%2e%2e", "..%2f..%2fetc", "%2fetc%2fpasswd", "2023-11-14", "x" * 5000])
def test_an_id_that_is_a_path_leads_nowhere(page: Page, id: str) -> None:
    assert page.client.get(f"/api/run/{id}").status_code == 404


def test_a_run_s_folder_name_is_not_an_id(page: Page, folder: Path) -> None:
    assert page.client.get(f"/api/run/{folder.name}").status_code == 404


@pytest.mark.parametrize("path", ["/", QUESTION, "/nothing"])
def test_every_answer_keeps_to_itself(page: Page, path: str) -> None:
    headers = page.client.get(path).headers
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["x-frame-options"] == "DENY"


def test_a_notebook_may_frame_the_page(base: Path) -> None:
    from starlette.testclient import TestClient

    access = Access(TOKEN)
    client = TestClient(server.make_app(Page(base).shelf, access, framed=True), base_url=HOST)
    answer = client.get(f"/frame/{access.frame_code}")
    assert answer.status_code == 200
    assert "x-frame-options" not in answer.headers
    assert f'<meta name="clew-token" content="{TOKEN}">' in answer.text
    assert client.get("/frame/wrong").status_code == 403


def test_only_a_notebook_s_server_gives_a_page_with_the_token_inside(page: Page) -> None:
    answer = page.client.get(f"/frame/{page.access.frame_code}")
    assert answer.status_code == 404


def test_only_the_scripts_of_the_page_may_run(page: Page, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    built = tmp_path / "page.html"
    built.write_text("<html><head><script type=module>let a = 1</script></head></html>")
    monkeypatch.setattr(server, "PAGE", built)
    answer = page.client.get("/")
    assert answer.text == built.read_text()
    policy = answer.headers["content-security-policy"]
    assert "script-src 'sha256-" in policy
    assert "unsafe-inline" not in policy.partition("style-src")[0]
    assert "connect-src 'self'" in policy


def test_a_page_that_was_not_built_says_how(page: Page, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(server, "PAGE", tmp_path / "page.html")
    answer = page.client.get("/")
    assert answer.status_code == 503
    assert "build_page.py" in answer.text


def test_long_answers_are_zipped_for_who_can_read_them(page: Page, folder: Path) -> None:
    with page.client.stream("GET", page.run(folder), headers={"Accept-Encoding": "gzip"}) as answer:
        raw = b"".join(answer.iter_raw())
    assert json.loads(gzip.decompress(raw))["run"]["name"] == "training"
    plain = page.client.get(page.run(folder), headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers


def test_a_run_deleted_while_it_is_shown_says_so(page: Page, folder: Path) -> None:
    page.of(folder)
    shutil.rmtree(folder)
    refusal = page.refused(410, f"{page.run(folder)}/series", name="loss")
    assert refusal["slug"] == "run-gone"
    assert "list of runs" in refusal["remedy"]


def test_a_damaged_run_is_shown_with_what_is_wrong(base: Path) -> None:
    writer = Written(base)
    shard = writer.shard()
    shard.change(shard.call(), "x", 1.0)
    shard.close()
    (records,) = writer.folder.glob("shards/*/records.arrow")
    records.write_bytes(records.read_bytes()[:-40])
    answer = Page(base).of(writer.folder)
    assert answer["problems"]


def test_an_empty_run_has_no_pages_and_no_error(base: Path) -> None:
    writer = Written(base)
    page = Page(base)
    assert not any(page.of(writer.folder)["pages"].values())
    assert page.of(writer.folder, "tree")["nodes"] == []
    assert page.of(writer.folder, "graph")["nodes"] == []
    assert page.refused(404, f"{page.run(writer.folder)}/pipeline")["slug"] == "no-trace"


def test_a_run_of_a_newer_clew_says_so(base: Path) -> None:
    writer = Written(base, format=99)
    page = Page(base)
    assert page.refused(422, page.run(writer.folder))["slug"] == "newer-format"
    assert "newer" in page.ask("/api/runs")["runs"][0]["problem"]


def test_a_mistake_in_clew_is_reported_and_the_page_stays_up(
    page: Page, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("clew.page.answers.series.series", broken)
    refusal = page.refused(500, f"{page.run(folder)}/series", name="loss")
    assert refusal["slug"] == "page-trouble"
    assert "ZeroDivisionError" in refusal["error"]
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert page.of(folder, "version")["status"] == "finished"


@pytest.mark.parametrize("params", [{"px": "many"}, {"axis": "sideways"}, {"from": "nan"}, {"from": "x"}])
def test_nonsense_is_refused_by_name(page: Page, folder: Path, params: dict[str, str]) -> None:
    refusal = page.refused(400, f"{page.run(folder)}/series", name="loss", **params)
    assert next(iter(params)) in refusal["error"]


def test_a_question_without_a_name_is_refused(page: Page, folder: Path) -> None:
    assert "name=" in page.refused(400, f"{page.run(folder)}/series")["error"]


def test_an_unknown_name_gets_the_nearest(page: Page, folder: Path) -> None:
    assert "`loss`" in page.refused(404, f"{page.run(folder)}/series", name="los")["remedy"]


def test_ids_that_damage_has_made_enormous_cost_nothing(base: Path) -> None:
    import numpy as np

    from clew.records import Function, Kind, Site
    from clew.store.flush import CallStart, ChangeColumns, Flush, Span

    huge = 2**31 - 7
    writer = Written(base)
    shard = writer.shard()
    columns = np.array([huge], np.int32), np.array([Kind.FLOAT], np.uint8), np.array([1.0])
    shard.writer.write(
        Flush(
            time=1,
            functions=[Function(huge, "f", "m", "/x/f.py", 1)],
            sites=[Site(huge, huge, "x", 5)],
            starts=[CallStart(2**62, -1, huge, 900, 77, "MainThread")],
            changes=ChangeColumns(*columns, [Span(1, 2**62, 999, 999)]),
        )
    )
    shard.close()
    page = Page(base)
    page.of(writer.folder)
    (root,) = page.of(writer.folder, "tree")["nodes"]
    for what, name in (("tree", "parent"), ("call", "call"), ("source", "call")):
        page.of(writer.folder, what, **{name: root["id"]})
    assert page.of(writer.folder, "graph")["nodes"][0]["label"] == "f"

"""The page's server: checks requests, routes them to answers, and reports errors.

Every request must name a loopback host and carry the token (see access.py). Headers forbid framing (except by a
notebook), caching and referrers. Answers are computed in threads; the event loop only forwards them.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from importlib import import_module
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from clew import trouble
from clew.errors import ClewError, FormatError, NotARunError, OptionError, PageError, UnknownNameError
from clew.page import BUILT
from clew.page.access import Access, is_from_other_site
from clew.page.plain_json import as_json
from clew.page.query_parameters import Query
from clew.page.shelf import Shelf

PAGE = BUILT
BUILD = "Build it with `python scripts/build_page.py`, or `npm ci && npm run build` in web."
LARGEST_BODY = 1 << 20
_HOSTS = frozenset(["127.0.0.1", "localhost", "[::1]"])
_HOST = re.compile(r"(\[::1\]|[^:\[\]]+)(?::\d{1,5})?")
_SCRIPT = re.compile(rb"<script\b([^>]*)>(.*?)</script>", re.DOTALL | re.IGNORECASE)
_COMPRESSED_FROM = 1_000

#: The last part of an address about a run → the function that computes its answer, imported on first use.
ANSWERS = {
    "": "overview:overview",
    "names": "overview:names",
    "series": "series:series",
    "point": "series:point",
    "tensors": "tensors:tensors",
    "histogram": "tensors:histogram",
    "slice": "slices:cut",
    "tree": "tree:tree",
    "call": "tree:call",
    "source": "source:source",
    "pipeline": "pipeline:pipeline",
    "graph": "graph:graph",
}
_STATUS = {
    "run-gone": 410,
    "no-such-run": 404,
    "run-goes-on": 409,
    "run-elsewhere": 403,
    "no-page": 503,
    "not-an-array": 422,
    "tensor-not-kept": 422,
}

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def make_app(shelf: Shelf, access: Access, *, framed: bool = False) -> Any:
    """The application. `framed`: a notebook may show it in a frame."""
    server = _Server(shelf)
    run = "/api/run/{id}"
    routes = [
        Route("/", server.page),
        Route("/api/runs", server.runs),
        Route("/api/diff", server.diff),
        Route(f"{run}/edit", server.edit, methods=["POST"]),
        Route(f"{run}/delete", server.delete, methods=["POST"]),
        Route(f"{run}/version", server.version),
        Route(run, server.about),
        Route(f"{run}/{{question}}", server.about),
    ]
    app = Starlette(routes=routes, exception_handlers={404: _not_found, 405: _not_found})
    return Guard(app, access, framed)


def answer(shelf: Shelf, id: str, question: str, query: Query) -> dict[str, Any]:
    """The answer to a question about a run; usable without a server, for reports."""
    module, _, name = ANSWERS[question].partition(":")
    compute = getattr(import_module(f"clew.page.answers.{module}"), name)
    with shelf.opened(id) as opened:
        if question == "":
            return compute(opened, query, shelf.row(id))  # type: ignore[no-any-return]
        return compute(opened, query)  # type: ignore[no-any-return]


class _Server:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def page(self, request: Request) -> Response:
        return await run_in_threadpool(_page_response, request)

    async def runs(self, request: Request) -> Response:
        from clew.page.answers import runs

        return await self._respond(request, lambda: runs.runs(self._shelf))

    async def about(self, request: Request) -> Response:
        id, question = request.path_params["id"], request.path_params.get("question", "")
        if question not in ANSWERS or (not question and "question" in request.path_params):
            return _not_found(request)
        query = Query(dict(request.query_params))
        response = await self._respond(request, lambda: answer(self._shelf, id, question, query))
        if question == "" and response.status_code == 200:
            response.background = BackgroundTask(_warm_up, self._shelf, id)
        return response

    async def version(self, request: Request) -> Response:
        return await self._respond(request, lambda: self._version(request.path_params["id"]))

    def _version(self, id: str) -> dict[str, Any]:
        opened = self._shelf.opened(id)
        glimpse = opened.glance()
        if glimpse is None:  # busy with an answer: the last known version is enough
            return {"version": opened.version, "status": self._shelf.row(id)["status"]}
        return {"version": glimpse[0], "status": glimpse[1]}

    async def diff(self, request: Request) -> Response:
        from clew.page.answers.compare import compare

        query = Query(dict(request.query_params))
        return await self._respond(request, lambda: compare(self._shelf, query))

    async def edit(self, request: Request) -> Response:
        from clew.page.answers import runs

        return await self._respond_to_change(request, runs.edit)

    async def delete(self, request: Request) -> Response:
        from clew.page.answers import runs

        return await self._respond_to_change(request, runs.delete)

    async def _respond_to_change(self, request: Request, change: Callable[[Shelf, str, Any], Any]) -> Response:
        body = await _json_body(request)
        if body is None:
            return refusal(
                400, "The body is not a JSON object, or it is too long.", "Load the page again.", "bad-query"
            )
        return await self._respond(request, lambda: change(self._shelf, request.path_params["id"], body))

    async def _respond(self, request: Request, work: Callable[[], dict[str, Any]]) -> Response:
        return await run_in_threadpool(_response_of, request, work)


def _warm_up(shelf: Shelf, id: str) -> None:
    """Compute what the page will request next, while the browser draws."""
    try:
        shelf.opened(id).warm()
    except Exception:  # the request itself will report it
        pass


def _response_of(request: Request, work: Callable[[], dict[str, Any]]) -> Response:
    try:
        return _compressed(as_json(work()), "application/json", request)
    except ClewError as error:
        return refusal(status_of(error), error.what, error.remedy, error.slug)
    except OSError as error:
        message = f"The run cannot be read: {error.strerror or error}."
        return refusal(500, message, "Look at the folder; `clew show` may say more.", "unreadable")
    except Exception as error:  # whatever is wrong with a run, the page keeps working and reports it
        last_frame = traceback.extract_tb(error.__traceback__)[-1]
        location = f"{Path(last_frame.filename).name}:{last_frame.lineno}"
        trouble.report(f"page-{location}", f"the page could not answer {request.url.path}, at {location}", cause=error)
        message = f"clew could not answer this ({type(error).__name__}: {str(error)[:200]}, at {location})."
        return refusal(500, message, "This is a bug in clew. Please report it with this line.", "page-trouble")


def status_of(error: ClewError) -> int:
    """The HTTP status for an error."""
    if error.slug in _STATUS:
        return _STATUS[error.slug]
    for kind, status in ((UnknownNameError, 404), (OptionError, 400), (NotARunError, 410), (FormatError, 422)):
        if isinstance(error, kind):
            return status
    return 500


def refusal(status: int, message: str, remedy: str, slug: str) -> Response:
    return Response(as_json({"error": message, "remedy": remedy, "slug": slug}), status, media_type="application/json")


def _not_found(request: Request, error: Exception | None = None) -> Response:
    status = getattr(error, "status_code", 404)
    return refusal(
        status, f"There is nothing at {request.url.path[:200]}.", "Go back to the list of runs.", "nothing-here"
    )


async def _json_body(request: Request) -> dict[str, Any] | None:
    """The JSON object in the request; None for anything else."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        return None
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > LARGEST_BODY:
            return None
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _compressed(data: bytes, media_type: str, request: Request) -> Response:
    if len(data) < _COMPRESSED_FROM or "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(data, media_type=media_type)
    headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    # Light compression: loopback is fast, and only users who forward the port gain from it.
    return Response(gzip.compress(data, 1, mtime=0), media_type=media_type, headers=headers)


# ---- the page itself


def read_page() -> bytes:
    """The built front end, in one file."""
    try:
        return PAGE.read_bytes()
    except OSError:
        raise PageError("no-page", f"The page itself was not built: {PAGE.name} is missing.", BUILD) from None


def script_hashes(page: bytes) -> list[str]:
    """The hashes of the page's scripts for a Content-Security-Policy that allows no others."""
    bodies = [body for attributes, body in _SCRIPT.findall(page) if b"json" not in attributes]
    digests = (base64.b64encode(hashlib.sha256(body).digest()).decode("ascii") for body in bodies)
    return [f"'sha256-{digest}'" for digest in digests]


def policy(page: bytes, connect: str) -> str:
    """A Content-Security-Policy that allows only what is in the page itself."""
    scripts = " ".join(script_hashes(page)) or "'none'"
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; font-src data:; "
        f"connect-src {connect}; worker-src blob:; base-uri 'none'; form-action 'none'"
    )


def _page_response(request: Request, token: str = "") -> Response:
    """The page; with the token inside, for a notebook's frame."""
    try:
        page = read_page()
    except PageError as error:
        return Response(
            _notice_page("The page is missing", f"{error.what} {error.remedy}"), 503, media_type="text/html"
        )
    if token:
        page = page.replace(b"<head>", b'<head><meta name="clew-token" content="%s">' % token.encode(), 1)
    response = _compressed(page, "text/html", request)
    response.headers["Content-Security-Policy"] = policy(page, "'self'")
    return response


def _notice_page(title: str, text: str) -> str:
    """A page with a short message."""
    style = "font:16px/1.5 system-ui,sans-serif;max-width:36em;margin:4em auto;padding:0 1em"
    head = f"<!doctype html><meta charset=utf-8><title>clew</title><body style='{style}'>"
    return f"{head}<h1>{html.escape(title)}</h1><p>{html.escape(text)}</p>"


# ---- access


class Guard:
    """Wraps the application: checks host and token, and adds headers that isolate the page."""

    def __init__(self, app: Any, access: Access, framed: bool) -> None:
        self._app = app
        self._access = access
        self._framed = framed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        response = _refusal_of_host(request) or self._response_to_code(request) or self._refusal_of(request)
        await (response or self._app)(scope, receive, self._with_headers(send))

    def _response_to_code(self, request: Request) -> Response | None:
        """The response to a browser that sends a code; None without a code."""
        kind, _, code = request.url.path.removeprefix("/").partition("/")
        if request.method != "GET":
            return None
        if kind == "frame" and self._framed and self._access.is_frame_code(code):
            return _page_response(request, self._access.token)
        if kind != "open":
            return None
        route = self._access.redeem(code)
        if route is not None:
            response = _redirect(f"/#{route}", request)
            response.headers["Set-Cookie"] = self._access.cookie(request)
            return response
        if self._access.allows(request):  # this browser has used the code before
            return _redirect("/", request)
        text = f"This address works once, and was used. In the browser that used it, open {_root_address(request)}."
        text += " For another browser, take the newest address that `clew view` printed."
        return Response(_notice_page("Used before", text), 403, media_type="text/html")

    def _refusal_of(self, request: Request) -> Response | None:
        if request.method not in ("GET", "HEAD", "POST"):
            return refusal(405, f"The method {request.method} is not supported.", "", "nothing-here")
        if self._access.allows(request):
            return None
        message = "This browser has not been let in: it has no token, or that of another server."
        remedy = "Open the newest address that `clew view` printed."
        if request.url.path == "/":
            return Response(_notice_page("Not this way", f"{message} {remedy}"), 403, media_type="text/html")
        return refusal(403, message, remedy, "wrong-token")

    def _with_headers(self, send: Send) -> Send:
        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                headers = {
                    b"content-security-policy": b"default-src 'none'; style-src 'unsafe-inline'",
                    b"referrer-policy": b"no-referrer",
                    b"x-content-type-options": b"nosniff",
                    b"cache-control": b"no-store",
                    b"cross-origin-resource-policy": b"same-origin",
                }
                if not self._framed:
                    headers[b"x-frame-options"] = b"DENY"
                added = [(name, value) for name, value in headers.items() if name not in present]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        return send_with_headers


def _refusal_of_host(request: Request) -> Response | None:
    host = _HOST.fullmatch(request.headers.get("host", ""))
    if host is not None and host[1].lower() in _HOSTS:
        return None
    return refusal(
        403,
        "This server answers only to 127.0.0.1 and localhost.",
        "Open the address that `clew view` printed; over SSH, forward the port and keep the host.",
        "wrong-host",
    )


def _root_address(request: Request) -> str:
    return f"http://{request.headers.get('host', '')}/"


def _redirect(target: str, request: Request) -> Response:
    """Redirect to a page. Browsers that come from another site or a file follow redirects without cookies."""
    if not is_from_other_site(request):
        return RedirectResponse(target, 303)
    head = f'<!doctype html><meta charset=utf-8><meta http-equiv="refresh" content="0; url={html.escape(target)}">'
    return Response(f"{head}<title>clew</title>", media_type="text/html")

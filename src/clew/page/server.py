"""The server: who may ask, what is asked, and how it is told when something is the matter.

Every request must name a loopback host and carry the token (see access.py); what it gets can be neither framed (but by
a notebook), kept nor sent on. Answers are made in threads: the loop only passes them on.
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
from clew.page.plain import as_json
from clew.page.query import Query
from clew.page.shelf import Shelf

PAGE = BUILT
BUILD = "Build it with `python scripts/build_page.py`, or `npm ci && npm run build` in src/clew/web."
LARGEST_BODY = 1 << 20
_HOSTS = frozenset(["127.0.0.1", "localhost", "[::1]"])
_HOST = re.compile(r"(\[::1\]|[^:\[\]]+)(?::\d{1,5})?")
_SCRIPT = re.compile(rb"<script\b([^>]*)>(.*?)</script>", re.DOTALL | re.IGNORECASE)
_ZIPPED_FROM = 1_000

#: The last word of a question about a run → where its answer is made. Loaded when it is first asked.
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
        Route(f"{run}/{{what}}", server.about),
    ]
    app = Starlette(routes=routes, exception_handlers={404: _not_found, 405: _not_found})
    return Guard(app, access, framed)


def answer(shelf: Shelf, id: str, what: str, query: Query) -> dict[str, Any]:
    """The answer to a question about a run, also without a server: a report is made of these."""
    module, _, name = ANSWERS[what].partition(":")
    make = getattr(import_module(f"clew.page.answers.{module}"), name)
    with shelf.opened(id) as opened:
        if what == "":
            return make(opened, query, shelf.row(id))  # type: ignore[no-any-return]
        return make(opened, query)  # type: ignore[no-any-return]


class _Server:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def page(self, request: Request) -> Response:
        return await run_in_threadpool(_page, request)

    async def runs(self, request: Request) -> Response:
        from clew.page.answers import runs

        return await self._told(request, lambda: runs.runs(self._shelf))

    async def about(self, request: Request) -> Response:
        id, what = request.path_params["id"], request.path_params.get("what", "")
        if what not in ANSWERS or (not what and "what" in request.path_params):
            return _not_found(request)
        query = Query(dict(request.query_params))
        response = await self._told(request, lambda: answer(self._shelf, id, what, query))
        if what == "" and response.status_code == 200:
            response.background = BackgroundTask(_warm, self._shelf, id)
        return response

    async def version(self, request: Request) -> Response:
        return await self._told(request, lambda: self._version(request.path_params["id"]))

    def _version(self, id: str) -> dict[str, Any]:
        opened = self._shelf.opened(id)
        seen = opened.glance()
        if seen is None:  # busy with an answer: what is known does for now
            return {"version": opened.version, "status": self._shelf.row(id)["status"]}
        return {"version": seen[0], "status": seen[1]}

    async def diff(self, request: Request) -> Response:
        from clew.page.answers.compare import compare

        query = Query(dict(request.query_params))
        return await self._told(request, lambda: compare(self._shelf, query))

    async def edit(self, request: Request) -> Response:
        from clew.page.answers import runs

        return await self._changed(request, runs.edit)

    async def delete(self, request: Request) -> Response:
        from clew.page.answers import runs

        return await self._changed(request, runs.delete)

    async def _changed(self, request: Request, change: Callable[[Shelf, str, Any], Any]) -> Response:
        body = await _body(request)
        if body is None:
            return refusal(400, "This is no JSON object, or a very long one.", "Load the page again.", "bad-query")
        return await self._told(request, lambda: change(self._shelf, request.path_params["id"], body))

    async def _told(self, request: Request, work: Callable[[], dict[str, Any]]) -> Response:
        return await run_in_threadpool(_told, request, work)


def _warm(shelf: Shelf, id: str) -> None:
    """What will be asked next, made while the browser draws."""
    try:
        shelf.opened(id).warm()
    except Exception:  # whoever asks is told
        pass


def _told(request: Request, work: Callable[[], dict[str, Any]]) -> Response:
    try:
        return _sent(as_json(work()), "application/json", request)
    except ClewError as error:
        return refusal(status_of(error), error.what, error.remedy, error.slug)
    except OSError as error:
        what = f"The run cannot be read: {error.strerror or error}."
        return refusal(500, what, "Look at the folder; `clew show` may say more.", "unreadable")
    except Exception as error:  # whatever is odd about a run: the page stays up, and says so
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        trouble.report(f"page-{where}", f"the page could not answer {request.url.path}, at {where}", cause=error)
        what = f"clew could not answer this ({type(error).__name__}: {str(error)[:200]}, at {where})."
        return refusal(500, what, "This is a mistake in clew. Please report it with this line.", "page-trouble")


def status_of(error: ClewError) -> int:
    """The HTTP status for an error."""
    if error.slug in _STATUS:
        return _STATUS[error.slug]
    for kind, status in ((UnknownNameError, 404), (OptionError, 400), (NotARunError, 410), (FormatError, 422)):
        if isinstance(error, kind):
            return status
    return 500


def refusal(status: int, what: str, remedy: str, slug: str) -> Response:
    return Response(as_json({"error": what, "remedy": remedy, "slug": slug}), status, media_type="application/json")


def _not_found(request: Request, error: Exception | None = None) -> Response:
    status = getattr(error, "status_code", 404)
    return refusal(
        status, f"There is nothing at {request.url.path[:200]}.", "Go back to the list of runs.", "nothing-here"
    )


async def _body(request: Request) -> dict[str, Any] | None:
    """The JSON object that was sent; None of anything else."""
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


def _sent(data: bytes, kind: str, request: Request) -> Response:
    if len(data) < _ZIPPED_FROM or "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(data, media_type=kind)
    headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    # Loopback is quick: little is won by squeezing harder, but for those who forward the port.
    return Response(gzip.compress(data, 1, mtime=0), media_type=kind, headers=headers)


# ---- the page itself


def read_page() -> bytes:
    """The built front end, in one file."""
    try:
        return PAGE.read_bytes()
    except OSError:
        raise PageError("no-page", f"The page itself was not built: {PAGE.name} is missing.", BUILD) from None


def script_hashes(page: bytes) -> list[str]:
    """What a Content-Security-Policy calls the scripts inside the page: nothing else may run."""
    bodies = [body for attributes, body in _SCRIPT.findall(page) if b"json" not in attributes]
    digests = (base64.b64encode(hashlib.sha256(body).digest()).decode("ascii") for body in bodies)
    return [f"'sha256-{digest}'" for digest in digests]


def policy(page: bytes, connect: str) -> str:
    """Nothing from outside, nothing that is not in the page."""
    scripts = " ".join(script_hashes(page)) or "'none'"
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; font-src data:; "
        f"connect-src {connect}; worker-src blob:; base-uri 'none'; form-action 'none'"
    )


def _page(request: Request, token: str = "") -> Response:
    """The page; with the token inside, for a notebook's frame."""
    try:
        page = read_page()
    except PageError as error:
        return Response(_notice("The page is missing", f"{error.what} {error.remedy}"), 503, media_type="text/html")
    if token:
        page = page.replace(b"<head>", b'<head><meta name="clew-token" content="%s">' % token.encode(), 1)
    response = _sent(page, "text/html", request)
    response.headers["Content-Security-Policy"] = policy(page, "'self'")
    return response


def _notice(title: str, text: str) -> str:
    """A page of a few words, for people."""
    style = "font:16px/1.5 system-ui,sans-serif;max-width:36em;margin:4em auto;padding:0 1em"
    head = f"<!doctype html><meta charset=utf-8><title>clew</title><body style='{style}'>"
    return f"{head}<h1>{html.escape(title)}</h1><p>{html.escape(text)}</p>"


# ---- who may ask


class Guard:
    """Around everything: the host, the token, and headers that keep the page to itself."""

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
        response = _wrong_host(request) or self._opened(request) or self._refused(request)
        await (response or self._app)(scope, receive, self._with_headers(send))

    def _opened(self, request: Request) -> Response | None:
        """The answer to a browser that comes with a code, if it does."""
        kind, _, code = request.url.path.removeprefix("/").partition("/")
        if request.method != "GET":
            return None
        if kind == "frame" and self._framed and self._access.is_frame_code(code):
            return _page(request, self._access.token)
        if kind != "open":
            return None
        route = self._access.redeem(code)
        if route is not None:
            response = _leading_to(f"/#{route}", request)
            response.headers["Set-Cookie"] = self._access.cookie(request)
            return response
        if self._access.allows(request):  # this browser has used it before
            return _leading_to("/", request)
        text = f"This address works once, and was used. In the browser that used it, open {_root(request)}."
        text += " For another browser, take the newest address that `clew view` printed."
        return Response(_notice("Used before", text), 403, media_type="text/html")

    def _refused(self, request: Request) -> Response | None:
        if request.method not in ("GET", "HEAD", "POST"):
            return refusal(405, f"{request.method} means nothing here.", "", "nothing-here")
        if self._access.allows(request):
            return None
        what = "This browser has not been let in: it has no token, or that of another server."
        remedy = "Open the newest address that `clew view` printed."
        if request.url.path == "/":
            return Response(_notice("Not this way", f"{what} {remedy}"), 403, media_type="text/html")
        return refusal(403, what, remedy, "wrong-token")

    def _with_headers(self, send: Send) -> Send:
        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                wanted = {
                    b"content-security-policy": b"default-src 'none'; style-src 'unsafe-inline'",
                    b"referrer-policy": b"no-referrer",
                    b"x-content-type-options": b"nosniff",
                    b"cache-control": b"no-store",
                    b"cross-origin-resource-policy": b"same-origin",
                }
                if not self._framed:
                    wanted[b"x-frame-options"] = b"DENY"
                added = [(name, value) for name, value in wanted.items() if name not in given]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        return sending


def _wrong_host(request: Request) -> Response | None:
    host = _HOST.fullmatch(request.headers.get("host", ""))
    if host is not None and host[1].lower() in _HOSTS:
        return None
    return refusal(
        403,
        "This server answers only to 127.0.0.1 and localhost.",
        "Open the address that `clew view` printed; over SSH, forward the port and keep the host.",
        "wrong-host",
    )


def _root(request: Request) -> str:
    return f"http://{request.headers.get('host', '')}/"


def _leading_to(target: str, request: Request) -> Response:
    """On to another page. A browser that comes from another site, or from a file, follows redirects without cookies."""
    if not is_from_other_site(request):
        return RedirectResponse(target, 303)
    head = f'<!doctype html><meta charset=utf-8><meta http-equiv="refresh" content="0; url={html.escape(target)}">'
    return Response(f"{head}<title>clew</title>", media_type="text/html")

"""Controls access to the page's server: the token, and how browsers receive it.

No address contains the token. A browser gets it as a cookie in exchange for a code that works once. A notebook's frame,
to which browsers give no cookies, gets it inside the page. Scripts send it as `Authorization: Bearer <token>`.
"""

from __future__ import annotations

import re
import secrets
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request

_PORT = re.compile(r":(\d{1,5})$")
_CODES = 100  # unused codes that are remembered; the oldest is dropped first


class Access:
    """The secrets of one server."""

    def __init__(self, token: str | None = None) -> None:
        self.token = token or secrets.token_urlsafe(24)
        self.frame_code = secrets.token_urlsafe(
            24
        )  # valid as long as the server runs: a notebook draws its frame often
        self._routes: dict[str, str] = {}  # unused code → the page it leads to
        self._lock = threading.Lock()

    def new_code(self, route: str) -> str:
        """A code that admits one browser once, at this page."""
        code = secrets.token_urlsafe(24)
        with self._lock:
            self._routes[code] = route
            while len(self._routes) > _CODES:
                del self._routes[next(iter(self._routes))]
        return code

    def is_unused(self, code: str) -> bool:
        return code in self._routes

    def redeem(self, code: str) -> str | None:
        """The page that a code leads to; None if it is unknown or was used before."""
        with self._lock:
            return self._routes.pop(code, None)

    def is_frame_code(self, code: str) -> bool:
        return secrets.compare_digest(code.encode(), self.frame_code.encode())

    def allows(self, request: Request) -> bool:
        """Whether a request carries the token."""
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        sent = [request.headers.get("x-clew-token", ""), credentials.strip() if scheme.lower() == "bearer" else ""]
        if not is_from_other_site(request):
            sent.append(request.cookies.get(cookie_name(request), ""))
        return any(secrets.compare_digest(candidate.encode(), self.token.encode()) for candidate in sent)

    def cookie(self, request: Request) -> str:
        """The cookie that the browser will send: only to this host, hidden from scripts, not from other sites."""
        return f"{cookie_name(request)}={self.token}; HttpOnly; SameSite=Strict; Path=/"


def cookie_name(request: Request) -> str:
    """The name of the cookie, one per port, because all servers on 127.0.0.1 share their cookies."""
    port = _PORT.search(request.headers.get("host", ""))
    return f"clew-{port[1] if port else 80}"


def is_from_other_site(request: Request) -> bool:
    """Whether another site or port caused the request. Its cookies may be included, but prove nothing."""
    site = request.headers.get("sec-fetch-site")
    if site is None:  # an older browser, or no browser at all: only the former names the page's origin
        origin = request.headers.get("origin")
        return origin is not None and origin.partition("://")[2] != request.headers.get("host")
    return site not in ("none", "same-origin")

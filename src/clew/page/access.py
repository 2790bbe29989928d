"""Who may ask the page's server: the token, and the ways in which a browser comes to it.

The token is in no address. A browser gets it as a cookie in exchange for a code that works once; a notebook's frame, to
which browsers give no cookies, gets it inside the page; scripts send it as `Authorization: Bearer <token>`.
"""

from __future__ import annotations

import re
import secrets
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request

_PORT = re.compile(r":(\d{1,5})$")
_CODES = 100  # unused codes that are remembered; the oldest is forgotten first


class Access:
    """The secrets of one server."""

    def __init__(self, token: str | None = None) -> None:
        self.token = token or secrets.token_urlsafe(24)
        self.frame_code = secrets.token_urlsafe(24)  # works as long as the server: a notebook draws its frame often
        self._routes: dict[str, str] = {}  # code that was not used yet → the page it leads to
        self._lock = threading.Lock()

    def new_code(self, route: str) -> str:
        """A code that lets one browser in, once, at this page."""
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
        return any(secrets.compare_digest(each.encode(), self.token.encode()) for each in sent)

    def cookie(self, request: Request) -> str:
        """What the browser is told to send from now on: to this host alone, unseen by scripts, from no other site."""
        return f"{cookie_name(request)}={self.token}; HttpOnly; SameSite=Strict; Path=/"


def cookie_name(request: Request) -> str:
    """One for each port: all servers of 127.0.0.1 share their cookies."""
    port = _PORT.search(request.headers.get("host", ""))
    return f"clew-{port[1] if port else 80}"


def is_from_other_site(request: Request) -> bool:
    """Whether another site or port made the browser ask. Its cookies may come along, but are not its word."""
    return request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")

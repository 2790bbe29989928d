"""Serves the page on a loopback socket from a thread, and opens it in a browser or in a notebook frame."""

from __future__ import annotations

import copy
import errno
import html
import os
import socket
import sys
import threading
import time
import webbrowser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from clew import env
from clew.errors import OptionError, PageError
from clew.page.access import Access
from clew.page.shelf import Shelf, run_id

HOST = "127.0.0.1"
PORT = 8412  # unless in use; always the same, so that it can be forwarded
PATIENCE = 10.0  # seconds to wait for the server to start
_HEIGHT = 760


class Served:
    """A server in a thread of this process. A notebook shows its page; `close()` stops it."""

    def __init__(self, shelf: Shelf, *, port: int | None = None, framed: bool = False) -> None:
        import uvicorn

        from clew.page.server import make_app

        self.shelf = shelf
        self.route = "/"
        self._access = Access()
        self._framed = framed
        self._code = ""
        self._handovers: list[TemporaryDirectory[str]] = []  # files handed to browsers, deleted when the server stops
        self._socket = bound_socket(port)
        self.port = int(self._socket.getsockname()[1])
        config = uvicorn.Config(
            make_app(shelf, self._access, framed=framed),
            log_level="error",
            access_log=False,  # it would log the codes
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=1,
            ws="none",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="clew-page", daemon=True)
        self._thread.start()
        self._await_start()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()

    def _await_start(self) -> None:
        end = time.monotonic() + PATIENCE
        while not self._server.started and self._thread.is_alive() and time.monotonic() < end:
            time.sleep(0.005)
        if not self._server.started:
            self.close()
            raise PageError("no-server", "The page's server did not start.", "Try again, with another --port.")

    @property
    def token(self) -> str:
        """The token for scripts: `Authorization: Bearer <token>`."""
        return self._access.token

    @property
    def address(self) -> str:
        """An address that admits one browser; once used, a new one is made. The address of a frame stays the same."""
        if self._framed:
            return f"http://{HOST}:{self.port}/frame/{self._access.frame_code}#{self.route}"
        if not self._access.is_unused(self._code):
            self._code = self._access.new_code(self.route)
        return f"http://{HOST}:{self.port}/open/{self._code}"

    def at(self, route: str) -> Served:
        """The same server, opened at another page."""
        copied = copy.copy(self)
        copied.route, copied._code = route, ""
        return copied

    def open_browser(self) -> bool:
        """Open a browser, and return whether that worked. It gets a file that only this user can read.

        Every user of the machine can read the command line of a browser, so it must not contain a code.
        """
        self._handovers.append(TemporaryDirectory(prefix="clew_view_"))  # of mode 700
        file = Path(self._handovers[-1].name) / "open.html"
        target = f"http://{HOST}:{self.port}/open/{self._access.new_code(self.route)}"
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as opened:
            opened.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={target}">\n')
        return open_browser(file.as_uri())

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the server stops, Ctrl-C, or for `seconds`; returns whether it has stopped."""
        if seconds is not None:
            self._thread.join(seconds)
            return not self._thread.is_alive()
        while not self.wait(0.5):  # on Windows, Ctrl-C does not end a wait without a limit
            pass
        return True

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        while self._handovers:
            self._handovers.pop().cleanup()

    def __repr__(self) -> str:
        return f"<the page at {self.address}>" if self.alive else "<the page, closed>"

    def _repr_html_(self) -> str:
        style = "border:1px solid rgba(128,128,128,.35);border-radius:6px"
        address = html.escape(self.address, quote=True)
        return f'<iframe src="{address}" width="100%" height="{_HEIGHT}" style="{style}"></iframe>'


def bound_socket(port: int | None) -> socket.socket:
    """A loopback socket at this port; without a port at the usual one, or else at any free one."""
    if port is not None and not 0 <= port <= 65535:
        raise OptionError("bad-port", f"--port {port} is not a valid port.", "Give a number from 1 to 65535.")
    for candidate in (PORT, 0) if port is None else (port,):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            if os.name == "posix":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((HOST, candidate))
            listener.listen(64)
            return listener
        except OSError as error:
            listener.close()
            if candidate and port is None:
                continue
            raise _port_error(candidate, error) from error
    raise AssertionError("one of the ports was tried last")


def _port_error(port: int, error: OSError) -> PageError:
    if error.errno == errno.EADDRINUSE:
        message = f"Port {port} is in use by another program."
        return PageError("port-in-use", message, "Give another --port; without one, a free port is chosen.")
    message = f"Port {port} cannot be opened: {error.strerror or error}."
    return PageError("port-in-use", message, "Give another --port, above 1023; without one, a free port is chosen.")


# ---- what is shown first


def route_to(folders: list[Path]) -> str:
    """The first page to show: the list, one run, or the curves of several runs together."""
    if not folders:
        return "/"
    first, *further = (run_id(folder.absolute()) for folder in folders)
    return f"/run/{first}/series?runs={quote(','.join(further))}" if further else f"/run/{first}"


# ---- browsers and notebooks


def open_browser(address: str) -> bool:
    """Open a browser, and return whether that worked; browsers in the terminal are not tried."""
    graphical = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    if not graphical and not os.environ.get("BROWSER"):
        return False
    try:
        return webbrowser.open(address)
    except (webbrowser.Error, OSError):
        return False


def in_notebook() -> bool:
    """Whether this process is a notebook kernel."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and "IPKernelApp" in getattr(shell, "config", {})


_serving: dict[tuple[Path, bool], Served] = {}
_lock = threading.Lock()


def view(run: Path) -> Served:
    """Open the page of a run: a frame in a notebook, else the browser. One server serves the whole process."""
    framed = in_notebook()
    base = env.runs_folder()
    with _lock:
        served = _serving.get((base, framed))
        if served is None or not served.alive:
            served = _serving[base, framed] = Served(Shelf(base), framed=framed)
    served.shelf.add(run)
    page = served.at(route_to([run]))
    if not framed:
        page.open_browser()
    return page

"""`clew view`: runs in the browser."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from clew.page.serving import Served


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser("view", help="look at runs in the browser")
    parser.description = "Opens a page with the runs, on this machine only, until Ctrl-C."
    parser.add_argument(
        "names", metavar="RUN", nargs="*", help="show this run first: its folder, its name, or `latest`"
    )
    parser.add_argument("--port", type=int, metavar="N", help="the port to listen on (a free one)")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


def main(args: argparse.Namespace) -> int:
    from clew import env
    from clew.page.serving import Served, open_browser, route_to
    from clew.page.shelf import Shelf

    folders = [_folder(name) for name in args.names]
    served = Served(Shelf(env.runs_folder(), folders), port=args.port)
    served.route = route_to(folders)
    try:
        opened = not args.no_browser and open_browser(served.address)
        _say(served, opened)
        _warm_up()
        served.wait()
    except KeyboardInterrupt:
        print()
    finally:
        served.close()
    return 0


def _folder(name: str) -> Path:
    """Of a run that can be opened; else an error, before anything is served."""
    from clew.history import open_run

    return open_run(name).path


def _say(served: Served, opened: bool) -> None:
    print(f"{'Opened' if opened else 'Open'} this in a browser:\n\n  {served.address}\n", flush=True)
    if os.environ.get("SSH_CONNECTION"):
        print(f"From another machine: ssh -L {served.port}:127.0.0.1:{served.port} HOST, and the same address there.")
    print("Ctrl-C ends it.", flush=True)


def _warm_up() -> None:
    """What the first answers need, loaded while the browser starts."""
    import clew.page.answers.overview
    import clew.page.answers.series
    import clew.page.answers.tree  # noqa: F401

"""`clew view`: runs in the browser."""

from __future__ import annotations

import os
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from clew.page.serving import Served

EXAMPLES = [
    "clew view",
    "clew view latest",
    "clew view --port 8000 --no-browser",
]


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser("view", help="look at runs in the browser")
    parser.description = "Opens a page with the runs, on this machine only, until Ctrl-C."
    told = "show this run first: its folder, its name, or `latest`; or a saved graph, of which nothing is run"
    parser.add_argument("names", metavar="RUN", nargs="*", help=told)
    parser.add_argument("-p", "--port", type=int, metavar="N", help="the port to listen on (a free one)")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


def main(args: argparse.Namespace) -> int:
    from clew import env
    from clew.page.serving import Served, route_to
    from clew.page.shelf import Shelf

    made = ExitStack()
    folders = [_folder(name, made) for name in args.names]
    served = Served(Shelf(env.runs_folder(), folders), port=args.port)
    served.route = route_to(folders)
    if len(folders) == 1 and _is_bundle(args.names[0]):
        served.route += "/graph"
    try:
        opened = not args.no_browser and served.open_browser()
        address = served.address
        _say(served, address, opened)
        _warm_up(served, folders)
        _wait(served, address)
    except KeyboardInterrupt:
        print()
    finally:
        served.close()
        made.close()
    return 0


def _folder(name: str, made: ExitStack) -> Path:
    """Of a run that can be opened; else an error, before anything is served."""
    from clew.reading import open_run

    return _drawn(name, made) if _is_bundle(name) else open_run(name).path


def _is_bundle(name: str) -> bool:
    is_folder = os.path.isfile(os.path.join(name, "graph.json")) and os.path.isfile(os.path.join(name, "graph.sha256"))
    return is_folder or (name.endswith(".zip") and os.path.isfile(name))


def _drawn(name: str, made: ExitStack) -> Path:
    """A saved graph as a run that has nothing but its drawing, in a folder that goes when the page does."""
    from pathlib import Path

    from clew.graph.bundle.layout import Bundle
    from clew.graph.bundle.untrusted_view import sketched
    from clew.store.folder import write_meta
    from clew.store.graph_files import graph_text, write_graph

    bundle = Bundle(name)
    drawing = sketched(bundle).drawing()
    page, folder = bundle.page, Path(made.enter_context(TemporaryDirectory(prefix="clew_view_")))
    when = _nanoseconds(page.get("created"))
    tags = {"bundle": os.path.abspath(name), "sha256": bundle.digest}
    meta = {"id": bundle.digest[:32], "name": drawing["name"], "how": "finished", "tags": tags, "argv": []}
    times = {"started_ns": when, "ended_ns": when, "started": page.get("created"), "ended": page.get("created")}
    versions = {"packages": page["versions"], "python": page["versions"].get("python"), "clew": page.get("clew")}
    write_meta(folder, {**meta, **times, **versions})
    write_graph(folder, *graph_text(drawing))
    return folder


def _nanoseconds(created: str | None) -> int:
    from datetime import datetime

    try:
        return int(datetime.fromisoformat(created or "").timestamp()) * 1_000_000_000
    except (ValueError, OverflowError):
        return 0


def _say(served: Served, address: str, opened: bool) -> None:
    if opened:
        print("Opened the page in a browser. In another one, open this; it works once:", end="")
    else:
        print("Open this in a browser; it works once:", end="")
    print(f"\n\n  {address}\n", flush=True)
    if os.environ.get("SSH_CONNECTION"):
        print(f"From another machine: ssh -L {served.port}:127.0.0.1:{served.port} HOST, and the same address there.")
    print("Ctrl-C ends it.", flush=True)


def _wait(served: Served, address: str) -> None:
    """Until the server ends; when the address was used, there is another."""
    while not served.wait(0.5):
        if served.address != address:
            address = served.address
            print(f"That address was used. For another browser:\n\n  {address}\n", flush=True)


def _warm_up(served: Served, folders: list[Path]) -> None:
    """What the first answers need, loaded and begun while the browser starts."""
    import clew.page.answers.overview
    import clew.page.answers.series
    import clew.page.answers.tree  # noqa: F401
    from clew.page.shelf import run_id

    for folder in folders:
        try:
            served.shelf.opened(run_id(folder.absolute())).warm()
        except Exception:  # whoever asks is told
            pass

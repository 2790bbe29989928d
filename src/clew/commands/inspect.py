"""`clew inspect`: what is inside a bundle. Nothing of it is run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.commands.console import console, print_json

if TYPE_CHECKING:
    import argparse


_MOST = 200  # lines of the graph


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser("inspect", help="what is inside a saved graph; nothing of it is run")
    parser.description = "Inputs, operators, code, files, versions, sizes and hashes of a bundle. Nothing of it is run."
    parser.add_argument("bundle", metavar="BUNDLE", help="a folder or zip that graph.save() has written")
    parser.add_argument("--code", action="store_true", help="print the code that is in it, too")
    parser.add_argument("--json", action="store_true", help="for machines")


def main(args: argparse.Namespace) -> int:
    from clew.probes.graph.bundle.layout import Bundle
    from clew.probes.graph.bundle.summary import described

    bundle = Bundle(args.bundle)
    found = described(bundle)
    if args.json:
        print_json(found)
        return 0
    _say(lines(found))
    for one in found["code"] if args.code else ():
        _say(["", f"# {one['name']}", *bundle.text(one["name"]).split("\n")])
    return 0


def _say(lines: list[str]) -> None:
    """Line by line. What a bundle says of itself cannot pretend to be a line of ours, or act on the terminal."""
    from clew.show.text import printable

    for line in lines:
        shown = "\t".join(map(printable, line.removesuffix("\r").split("\t")))
        console().print(shown, markup=False, highlight=False, soft_wrap=True)


def lines(found: dict[str, Any]) -> list[str]:
    """The same as text."""
    inputs = ", ".join(f"{one['name']}{' (optional)' if one['optional'] else ''}" for one in found["inputs"])
    shown = [
        f"{found['path']}: {found['name']}({inputs}) → {found['outputs']}",
        f"made {found['created']}, {_size(found['size'])} in {len(found['files'])} files, {found['steps']} steps",
        f"sha256 {found['sha256']}",
    ]
    hidden = len(found["graph"]) - _MOST
    more = [f"… and {hidden} more; --json has all"] if hidden > 0 else []
    shown += _section("graph", [*found["graph"][:_MOST], *more])
    shown += _section("operators", [f"{one['name']}: {one['what']}" for one in found["operators"]])
    shown += _section("functions of libraries", [", ".join(found["functions"])] if found["functions"] else [])
    shown += _section("guards", [_guard(one) for one in found["guards"]])
    for title in ("code", "assets"):
        shown += _section(title, [_file(one) for one in found[title]])
    listed = {one["name"] for title in ("code", "assets") for one in found[title]}
    shown += _section("other files", [_file(one) for one in found["files"] if one["name"] not in listed])
    shown += _section("made with", [", ".join(f"{name} {version}" for name, version in found["versions"].items())])
    shown += _section("other here", [", ".join(found["differences"])] if found["differences"] else [])
    return [*shown, "", f"to load it is to run {'; '.join(found['runs'])}"]


def _section(title: str, entries: list[str]) -> list[str]:
    return ["", title, *(f"  {entry}" for entry in entries)] if entries else []


def _guard(one: dict[str, Any]) -> str:
    return f"{one['where']}: `{one['condition']}` ({one['kind']}: {' or '.join(one['expected'])})"


def _file(one: dict[str, Any]) -> str:
    return f"{one['sha256'][:12]}  {_size(one['size']):>9}  {one['name']}"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return ""

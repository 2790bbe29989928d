"""`clew inspect`: what is inside a bundle. Nothing of it is run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.commands.console import print_json

if TYPE_CHECKING:
    import argparse

    from clew.graph.bundle.layout import Bundle


_MOST = 200  # lines of a section
_LONGEST = 2_000  # characters of a line

EXAMPLES = [
    "clew inspect bundle",
    "clew inspect bundle.zip --code",
    "clew inspect bundle --test --trusted",
]


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser("inspect", help="what is inside a saved graph; nothing of it is run")
    parser.description = "Inputs, operators, code, files, versions, sizes and hashes of a bundle. Nothing of it is run."
    parser.add_argument("bundle", metavar="BUNDLE", help="a folder or zip that graph.save() has written")
    parser.add_argument("--code", action="store_true", help="print the code that is in it, too")
    parser.add_argument("--json", action="store_true", help="for machines")
    told = "load it in a fresh process and run the examples that are kept in it; this runs its code, so give --trusted"
    parser.add_argument("--test", action="store_true", help=told)
    parser.add_argument("--trusted", action="store_true", help="with --test: the bundle may run")


def main(args: argparse.Namespace) -> int:
    from clew.graph.bundle.layout import Bundle
    from clew.graph.bundle.summary import described

    bundle = Bundle(args.bundle)
    if args.test:
        return _test(bundle, args.trusted, args.json)
    found = described(bundle)
    if args.json:
        print_json(found)
        return 0
    say(lines(found))
    for one in found["code"] if args.code else ():
        say(["", f"# {one['name']}", *_code(bundle, one["name"]).split("\n")], whole=True)
    return 0


def _code(bundle: Bundle, name: str) -> str:
    from clew.graph.bundle.layout import damaged

    try:
        return bundle.text(name)
    except UnicodeDecodeError as error:
        raise damaged(f"{bundle.path}: {name} is no text: {error}.") from None


def _test(bundle: Bundle, trusted: bool, as_json: bool) -> int:
    from clew.errors import GraphError
    from clew.graph.bundle import schema, selftest
    from clew.graph.bundle.layout import as_it_should_be

    if not trusted:
        what = f"{bundle.path} is a program, and --test runs it."
        remedy = "Look at it without --test, and with --code; then say --trusted."
        raise GraphError("bundle-trust", what, remedy)
    with as_it_should_be(bundle.path):
        schema.check(bundle)
    count = selftest.check(bundle)
    if as_json:
        print_json({"path": str(bundle.path), "sha256": bundle.digest, "examples": count, "equal": True})
    elif count:
        say([f"{bundle.path}: {count} {'example gives' if count == 1 else 'examples give'} what it gave when saved."])
    else:
        say([f"{bundle.path}: it can be loaded. No examples are kept in it: it was saved with test=False."])
    return 0


def say(lines: list[str], *, whole: bool = False) -> None:
    """Line by line. What a bundle says of itself cannot pretend to be a line of ours, or act on the terminal."""
    from clew.text.brief import printable

    for line in lines:
        cut = line if whole or len(line) <= _LONGEST else f"{line[:_LONGEST]}… (--json has all)"
        print("\t".join(map(printable, cut.removesuffix("\r").split("\t"))))


def lines(found: dict[str, Any]) -> list[str]:
    """The same as text."""
    from clew.text.brief import byte_size

    inputs = ", ".join(f"{one['name']}{' (optional)' if one['optional'] else ''}" for one in found["inputs"])
    shown = [
        f"{found['path']}: {found['name']}({inputs}) → {found['outputs']}",
        f"made {found['created']}, {byte_size(found['size'])} in {len(found['files'])} files, {found['steps']} steps",
        f"sha256 {found['sha256']}",
    ]
    if found["signature"] is not None:
        shown += _section("inputs", [_input(one) for one in found["signature"]["inputs"]])
        shown += _section("output", [found["signature"]["output"]["like"]])
    shown += _section("graph", found["graph"])
    shown += _section("operators", [f"{one['name']}: {one['what']}" for one in found["operators"]])
    shown += _section("functions of libraries", [", ".join(found["functions"])] if found["functions"] else [])
    notes = found["notes"]
    constants = [one["text"] for one in notes if one["kind"].startswith("constant")]
    shown += _section("constants that were computed while it was recorded", constants)
    whole = [one["text"] for one in notes if one["kind"].startswith("one step")]
    shown += _section("functions that are one step", whole)
    shown += _section("guards", [_guard(one) for one in found["guards"]])
    for title in ("code", "assets"):
        shown += _section(title, [_file(one) for one in found[title]])
    listed = {one["name"] for title in ("code", "assets") for one in found[title]}
    shown += _section("other files", [_file(one) for one in found["files"] if one["name"] not in listed])
    shown += _section("made with", [", ".join(f"{name} {version}" for name, version in found["versions"].items())])
    shown += _section("other here", [", ".join(found["differences"])] if found["differences"] else [])
    return [*shown, "", f"to load it is to run {'; '.join(found['runs'])}"]


def _input(one: dict[str, Any]) -> str:
    return f"{one['name']}: {one['like']}" + ("" if one["default"] is None else f" = {one['default']}")


def _section(title: str, entries: list[str]) -> list[str]:
    hidden = len(entries) - _MOST
    more = [f"  … and {hidden} more; --json has all"] if hidden > 0 else []
    return ["", title, *(f"  {entry}" for entry in entries[:_MOST]), *more] if entries else []


def _guard(one: dict[str, Any]) -> str:
    return f"{one['where']}: `{one['condition']}` ({one['kind']}: {' or '.join(one['expected'])})"


def _file(one: dict[str, Any]) -> str:
    from clew.text.brief import byte_size

    return f"{one['sha256'][:12]}  {byte_size(one['size']):>9}  {one['name']}"

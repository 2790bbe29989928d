"""The call tree as lines of text. A thousand calls of one function in a row take a few lines, which say so."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from clew.show.text import brief, changes, ending, printable, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clew.history.call import Call, Calls
    from clew.history.tree import Tree

SAME_IN_A_ROW = 3  # calls of one function after each other that are shown before the rest is counted
LOOKED_AT = 1_000  # children of one call
LINES = 200
DEEPEST = 60


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the tree: a call, or how many calls were left out."""

    depth: int
    call: Call | None
    text: str


def tree_lines(tree: Tree, limit: int = LINES) -> Iterator[Line]:
    """The tree in the order of the calls, at most `limit` lines; the last one says what is missing."""
    lines = _walk(tree.roots)
    shown = 0
    for line in islice(lines, limit):
        shown += 1
        yield line
    if shown == limit and next(lines, None) is not None:
        yield Line(0, None, f"... more; {len(tree):,} calls in all")


def _walk(roots: Calls) -> Iterator[Line]:
    """Depth first without recursion: recorded recursion may be deeper than ours may go."""
    open_: list[Iterator[Line]] = [_siblings(roots, 0)]
    while open_:
        line = next(open_[-1], None)
        if line is None:
            open_.pop()
            continue
        yield line
        if line.call is not None and len(line.call.children):
            if len(open_) >= DEEPEST:
                yield Line(len(open_), None, f"... deeper than {DEEPEST} calls")
            else:
                open_.append(_siblings(line.call.children, len(open_)))


def _siblings(calls: Calls, depth: int) -> Iterator[Line]:
    before, same, hidden = "", 0, 0
    for call in calls[:LOOKED_AT]:
        same = same + 1 if call.function == before else 1
        if same > SAME_IN_A_ROW:
            hidden += 1
            continue
        if hidden:
            yield Line(depth, None, f"... {hidden:,} more calls of {printable(before)}")
            hidden = 0
        before = call.function
        yield Line(depth, call, call_line(call))
    if len(calls) > LOOKED_AT:
        yield Line(depth, None, f"... {len(calls) - LOOKED_AT + hidden:,} more calls")
    elif hidden:
        yield Line(depth, None, f"... {hidden:,} more calls of {printable(before)}")


def call_line(call: Call, width: int = 110) -> str:
    """`step(x=3)  → 4  1.2 ms  12 changes`."""
    arguments = ", ".join(f"{printable(name)}={brief(value, 24)}" for name, value in islice(call.args.items(), 6))
    text = f"{printable(call.function)}({shorten(arguments, 60)})"
    if call.duration is not None and call.error is None and call.result is not None:
        text += f" → {brief(call.result, 30)}"
    count = len(call.changes)
    told = f"  {ending(call.duration, call.error)}" + (f"  {changes(count)}" if count else "")
    return shorten(text, width) + told


def tree_text(tree: Tree, limit: int = LINES) -> str:
    """The tree, two spaces a level."""
    lines = ["  " * line.depth + line.text for line in tree_lines(tree, limit)]
    return "\n".join(lines) or "no calls were recorded"

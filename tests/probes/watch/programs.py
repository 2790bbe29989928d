"""Small programs made by hypothesis: every way of binding and changing values, one statement on a line."""

from __future__ import annotations

from hypothesis import strategies as st

HELPERS = """\
import contextlib


def push(target, value):
    target.append(value)


def push_and_fail(target, value):
    target.append(value)
    raise KeyError(value)


def put(target, key, value):
    target[key] = value
    return target


class Manager:
    def __init__(self, target):
        self.target = target

    def __enter__(self):
        self.target.append("in")
        return len(self.target)

    def __exit__(self, *error):
        if error[0] is None:  # otherwise nobody can tell it from what the failing line did
            self.target.append("out")


"""

_NAMES = ("a", "b", "c")
_LISTS = ("xs", "ys")

_numbers = st.sampled_from(["0", "1", "2", "-1", "True", "0.0", "-0.0", "1.0", "float('nan')", "2**60", "None", "'t'"])
_lists = st.sampled_from(["[]", "[1]", "[1, 2, 3]", "[[1], 2]", "[0.5, 'u']", "list(xs)", "xs", "ys"])
_name = st.sampled_from(_NAMES)
_list = st.sampled_from(_LISTS)
_value = st.one_of(
    _numbers,
    _numbers,
    _name,
    st.builds("{} + 1".format, _name),
    st.builds("len({})".format, _list),
    st.builds("[{}, {}]".format, _name, _numbers),
    st.builds("{{'k': {}}}".format, _name),
    st.builds("({}, {})".format, _name, _list),
)


@st.composite
def _simple(draw: st.DrawFn, caught: bool, generator: bool, loop: bool) -> str:
    kinds = [
        "{n} = {v}", "{n} = {v}", "{l} = {w}", "{n}, {m} = {v}, {v2}", "{n}, *{l} = {w}", "*{l}, {n} = {w}",
        "{n} = {m} = {v}", "{n}: int = {v}", "{n} += 1", "{l} += [{n}]", "{l}.append({v})",
        "{l}.clear()", "push({l}, {v})", "d['k'] = {v}", "put(d, {n}, {v})", "d |= {{'z': {n}}}", "{l}[0] = {v}",
        "{l} = {o}", "del {n}", "del {l}[:]", "del d['k']", "{l} = [v for v in {o} if ({n} := v)]", "bump()",
        "({n} := {v})", "print_nothing = lambda: {n}", "import math", "from math import pi as {n}", "assert {n}",
        "{l} = sorted({o}, key=str)", "d = dict(d)", "{l}[len({l}):] = {o}", "pass", "shared = {v}", "total = count",
    ]  # fmt: skip
    if caught:  # a statement that fails half way; outside `try` what it did is nobody's to see
        kinds += [
            "{n}, {m} = ({v}, {v2}, {v})",
            "{n}, ({m}, c) = 1, (2,)",
            "push_and_fail({l}, {v})",
            "raise ValueError({n})",
        ]
    if generator:
        kinds += ["yield {v}", "{n} = yield {l}", "{n} = yield from iter({l})"]
    if loop:
        kinds += ["break", "continue"]
    return draw(st.sampled_from(kinds)).format(
        n=draw(_name), m=draw(_name), l=draw(_list), o=draw(_list), v=draw(_value), v2=draw(_value), w=draw(_lists)
    )


@st.composite
def _block(draw: st.DrawFn, depth: int, caught: bool, generator: bool, loop: bool, indent: str) -> list[str]:
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 4))):
        compound = depth > 0 and draw(st.integers(0, 2)) == 0
        if compound:
            lines += draw(_compound(depth - 1, caught, generator, loop, indent))
        else:
            lines.append(indent + draw(_simple(caught, generator, loop)))
    return lines


@st.composite
def _compound(  # noqa: C901
    draw: st.DrawFn, depth: int, caught: bool, generator: bool, loop: bool, indent: str
) -> list[str]:
    inner = indent + "    "

    def block(*, caught: bool = caught, loop: bool = loop) -> list[str]:
        return draw(_block(depth, caught, generator, loop, inner))

    name, other, some, value = draw(_name), draw(_name), draw(_list), draw(_value)
    kind = draw(st.sampled_from(["if", "walrus", "for", "for2", "while", "try", "try", "finally", "with", "suppress",
                                 "match", "def", "class"]))  # fmt: skip
    if kind == "if":
        return [f"{indent}if {name}:", *block(), f"{indent}elif {other} is None:", *block(), f"{indent}else:", *block()]
    if kind == "walrus":
        return [f"{indent}if ({name} := {value}):", *block()]
    if kind == "for":
        return [f"{indent}for {name} in range(3):", *block(loop=True), f"{indent}else:", *block()]
    if kind == "for2":
        return [f"{indent}for {name}, {other} in [({value}, 1), (2, {value})]:", *block(loop=True)]
    if kind == "while":
        count = f"w{depth}{len(indent)}"
        return [f"{indent}{count} = 0", f"{indent}while ({count} := {count} + 1) < 4:", *block(loop=True)]
    if kind == "try":
        names = draw(st.sampled_from(["Exception", "(KeyError, IndexError)", "TypeError", "ValueError"]))
        return [
            f"{indent}try:", *block(caught=True), f"{indent}except {names} as e:", *block(),
            f"{indent}except Exception as f:", *block(), f"{indent}else:", *block(),
        ]  # fmt: skip
    if kind == "finally":
        return [f"{indent}try:", *block(), f"{indent}finally:", *block(loop=False)]
    if kind == "with":
        return [f"{indent}with Manager({some}) as {name}:", *block()]
    if kind == "suppress":
        return [f"{indent}with contextlib.suppress(Exception):", *block(caught=False)]
    if kind == "match":
        return [
            f"{indent}match {draw(st.sampled_from([name, some, 'd', value]))}:",
            f"{indent}    case [{name}, *{some}]:", *_deeper(block()),
            f"{indent}    case {{'k': {name}, **d}} if {other}:", *_deeper(block()),
            f"{indent}    case int({name}) | float({name}):", *_deeper(block()),
        ]  # fmt: skip
    if kind == "def":
        return [f"{indent}def {name}(p={value}):", f"{inner}return p", f"{indent}{other} = {name}()"]
    return [f"{indent}class {name}:", f"{inner}x = 1", f"{indent}{other} = {name}.x"]


def _deeper(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


@st.composite
def programs(draw: st.DrawFn) -> str:
    """The text of a module with a function (or generator) `main`."""
    generator = draw(st.booleans()) and draw(st.booleans())
    body = draw(_block(3, False, generator, False, "    "))
    lines = [
        "def main(a, b, xs, *, ys, d):",
        "    c = a",
        "    count = 0",
        "    shared = None",
        "    def bump():",
        "        nonlocal count, shared",
        "        count += 1",
        "        shared = count % 2",
        "        xs.append(count)",
        *body,
        *(["    yield 'last'"] if generator else []),
        f"    return {draw(_value)}",
    ]
    return HELPERS + "\n".join(lines) + "\n"

"""What graph.json may say, in one place: every part of it, of which kind, and what it may refer to.

A bundle can have been written by anyone, hashes and all. What has passed here is of the right kind everywhere, so that
those who read it need not look again. Nothing is run, imported or opened.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from clew.errors import GraphError
from clew.graph import operations, specs
from clew.graph.brief_values import visible
from clew.graph.nodes import NOTES, SEEN, Step

from .checks import Check, Where
from .checks import at_least_one as _at_least_one
from .checks import device as _device
from .checks import either as _either
from .checks import elsewhere as _elsewhere
from .checks import flag as _flag
from .checks import float_text as _float_text
from .checks import identity as _identity
from .checks import in_words as _in_words
from .checks import list_of as _each
from .checks import name as _name
from .checks import number as _number
from .checks import optional_name as _optional_name
from .checks import pairs as _pairs
from .checks import path as _place
from .checks import record as _record
from .checks import table_of as _table
from .checks import text as _text
from .checks import whole as _whole
from .layout import CODE, EXAMPLES, GRAPH, Bundle, damaged

MARKS = tuple(field.name for field in fields(Step) if field.default is False)  # what is or is not so of a step

_BUILDS = frozenset({"list", "tuple", "set", "frozenset", "dict", "slice"})
_MOST_PACKAGES = 1_000  # whose versions are compared with those that are installed here
_FEWEST = {"item": 2, "attribute": 1, "method": 1}  # arguments that a step of a kind has


class Page:
    """The page that is looked at, and what its parts may refer to."""

    def __init__(self, bundle: Bundle) -> None:
        self.path = bundle.path
        self.clew = bundle.page.get("clew")
        self.page = bundle.page
        self.values = {kind: _record(*parts) for kind, parts in VALUES.items()}

    def wrong(self, where: Where, what: str) -> GraphError:
        return damaged(f"{self.path}: {GRAPH} is not as it should be: {_in_words(where)} {what}.")

    def unknown(self, what: str) -> GraphError:
        said = visible(f"{self.path} uses {what}, which this clew does not know.")
        made_with = visible(str(self.clew)[:40])
        return GraphError("bundle-unknown", said, f"It was made with clew {made_with}: install that or a newer.")

    def size(self, part: str) -> int:
        return len(self.page[part])


def check(bundle: Bundle) -> None:
    """Refuse a page that is not what clew writes, with the place that is wrong."""
    page = Page(bundle)
    for name, kind in _PARTS.items():  # first of all: what refers to them looks into them
        if not isinstance(bundle.page.get(name), kind):
            raise damaged(f"{bundle.path}: {GRAPH} has no {name}.")
    _record(_REQUIRED, _OPTIONAL)(page, bundle.page, GRAPH)
    _each(_each(_elsewhere, 4))(page, bundle.page.get("notes", []), "notes")
    for place, note in enumerate(bundle.page.get("notes", [])):
        _note(page, note, ("notes", place))
    _block(page, bundle.page["block"], "block", {said["id"] for said in bundle.page["inputs"]})


def check_examples(bundle: Bundle, examples: Any) -> None:
    """The same for the examples that are kept in a bundle."""
    page = Page(bundle)
    page.page = {**bundle.page, "objects": examples["objects"]}
    inputs = _pairs(_text, _value)
    step = _record(
        {
            "inputs": inputs,
            "files": _each(_text),
            "steps": _each(_each(_elsewhere, 4)),
        }
    )
    _record({"objects": _each(_value), "examples": _each(step)})(page, examples, EXAMPLES)


# ---- values ----------------------------------------------------------------------------------------------------------


def _value(page: Page, value: Any, where: Where) -> None:
    """Plain data, or a record whose "$" says what it is."""
    if isinstance(value, list):
        for place, item in enumerate(value):
            _value(page, item, (where, place))
    elif isinstance(value, dict):
        kind = value.get("$")
        if not isinstance(kind, str):
            raise page.wrong(where, "does not say what it is")
        if kind not in page.values:
            raise page.unknown(f"a value of kind {kind!r}")
        page.values[kind](page, value, where)


def _kind(*kinds: str) -> Check:
    """A value of one of these kinds."""

    def look(page: Page, value: Any, where: Where) -> None:
        _value(page, value, where)
        if not isinstance(value, dict) or value["$"] not in kinds:
            raise page.wrong(where, f"is none of {', '.join(kinds)}")

    return look


def _object(page: Page, value: Any, where: Where) -> None:
    if type(value) is not int or not 0 <= value < page.size("objects"):
        raise page.wrong(where, f"is {value!r}, and there is no such object")


def _module(page: Page, value: Any, where: Where) -> None:
    if not isinstance(value, str) or value not in page.page["modules"]:
        raise page.wrong(where, f"is {value!r}, and there is no such module")


def _module_file(page: Page, value: Any, where: Where) -> None:
    """A text of the bundle's that is code: where it belongs, and where `clew inspect --code` shows it."""
    if value is not None and not (isinstance(value, str) and value.startswith(f"{CODE}/")):
        raise page.wrong(where, f"is no file in {CODE}/")


def _code_file(page: Page, value: Any, where: Where) -> None:
    _text(page, value, where)
    _module_file(page, value, where)


def _without_class(page: Page, value: Any, where: Where) -> None:
    """One of the values whose type has no name."""
    if value is not None:
        _kind("constant")(page, value, where)


_values, _named_values = _each(_value), _table(_name, _value)
_operator_value = _kind("operator", "map")
Parts = tuple[dict[str, Check], dict[str, Check]]
_items: Parts = ({"items": _values}, {})
_numpy: Parts = (
    {"array": _number},
    {
        "order": _either("F"),
        "frozen": _flag,
        "dtype": _elsewhere,
        "shape": _each(_number),
    },
)
_bytes: Parts = ({}, {"base64": _text, "array": _number})


def _sizes(page: Page, value: Any, where: Where) -> None:
    """The sizes of a tensor; of some, or of all, nothing may be known."""
    for size in value if isinstance(value, list) else [value]:
        if size is not None:
            _number(page, size, where)


def _specs(page: Page, value: Any, where: Where) -> None:
    if value is not None:
        _each(_record({"shape": _sizes, "dtype": _name}))(page, value, where)


_class = _kind("code", "part", "object", "named")

# By what "$" says: the parts that must be there, and those that may be.
VALUES: dict[str, Parts] = {
    "float": ({"text": _float_text}, {}),
    "list": _items,
    "tuple": _items,
    "set": _items,
    "frozenset": _items,
    "dict": ({"items": _pairs(_value, _value)}, {}),
    "bytes": _bytes,
    "bytearray": _bytes,
    "complex": ({"parts": _each(_value, 2)}, {}),
    "slice": ({"parts": _each(_value, 3)}, {}),
    "range": ({"parts": _each(_whole, 3)}, {}),
    "constant": ({"name": _either("Ellipsis", "NotImplemented")}, {}),
    "type of": ({"value": _without_class}, {}),
    "path": ({"text": _text}, {}),
    "asset": ({"file": _text, "kind": _either("str", "path", "bytes"), "tail": _either("", "/")}, {}),
    "code": ({"module": _module, "name": _optional_name}, {}),
    "part": (
        {"module": _module, "name": _text, "file": _code_file, "held": _named_values},
        {"line": _whole, "defaults": _value, "kwdefaults": _value},
    ),
    "named": ({"name": _text}, {}),
    "method": ({"self": _value, "name": _name}, {}),
    "numpy": _numpy,
    "numpy scalar": _numpy,
    "numpy objects": ({"shape": _each(_number), "items": _values}, {}),
    "tensor": (
        {"array": _number, "device": _device},
        {
            "parameter": _flag,
            "requires_grad": _flag,
            "complex": _flag,
            "order": _either("channels_last", "channels_last_3d"),
        },
    ),
    "device": ({"text": _device}, {}),
    "object": ({"number": _object}, {}),
    "operator": ({"name": _text, "side_effects": _flag, "target": _value}, {}),
    "operators of": ({"value": _value, "side_effects": _flag}, {}),
    "map": ({"name": _text, "inner": _value, "star": _flag}, {}),
    "made": (
        {
            "class": _kind("code", "part", "object", "named"),
            "args": _values,
            "kwargs": _pairs(_text, _value),
        },
        {
            "random": _table(_text, _value),
            "weights": _value,
            "training": _flag,
            "changed": _table(_text, _value),
            "variables": _table(_optional_name, _values),
            "build": _value,
            "unshared": _flag,
        },
    ),
    "exported": ({"file": _text, "class": _text, "training": _flag, "device": _device}, {}),
    "torchscript": ({"file": _text, "class": _text, "device": _device}, {}),
    "tf tensor": (
        {"dtype": _name, "shape": _each(_number)},
        {"array": _number, "items": _values},
    ),
    "tf variable": ({"value": _value, "name": _text, "trainable": _flag, "shape": _sizes}, {}),
    "tf function": (
        {
            "function": _value,
            "signature": _specs,
            "autograph": _flag,
            "jit_compile": _flag,
            "reduce_retracing": _flag,
        },
        {},
    ),
    "tf module": ({"class": _class, "name": _text, "state": _named_values}, {}),
    "saved model": ({"file": _text, "class": _text}, {"attribute": _name}),
    "keras": (
        {"file": _text, "class": _text, "model": _flag, "custom": _pairs(_text, _class)},
        {},
    ),
    "reduced": (
        {"type": _text, "call": _value, "args": _values},
        {"state": _value, "items": _values, "pairs": _pairs(_value, _value)},
    ),
}


# ---- the page --------------------------------------------------------------------------------------------------------


def _settings(page: Page, value: Any, where: Where) -> None:
    _record({}, {"parallel": _at_least_one, "share": _flag})(page, value, where)


def _like(page: Page, value: Any, where: Where) -> None:
    if not specs.are_data(value):
        raise page.wrong(where, "does not say what a value is like")


def _inputs(page: Page, value: Any, where: Where) -> None:
    optional = {"default": _value, "like": _like, "strict": _flag, "rest": _flag}
    _each(_record({"id": _identity, "name": _name}, optional))(page, value, where)
    for part in ("id", "name"):
        if len({said[part] for said in value}) < len(value):
            raise page.wrong(where, f"has two of one {part}")


def _versions(page: Page, value: Any, where: Where) -> None:
    if isinstance(value, dict) and len(value) > _MOST_PACKAGES:
        raise page.wrong(where, f"names more than {_MOST_PACKAGES:,} packages")
    _table(_text, _text)(page, value, where)


_ADDRESS = _pairs(_either("name", "cell", "defaults", "kwdefaults"), _optional_name)
_HELD: dict[str, Check] = {"names": _named_values, "state": _pairs(_ADDRESS, _value)}
_PARTS: dict[str, type] = {
    "inputs": list, "block": dict, "operators": list, "objects": list, "modules": dict, "assets": list,
    "versions": dict,
}  # fmt: skip
_REQUIRED: dict[str, Check] = {
    "inputs": _inputs,
    "block": _elsewhere,
    "operators": _each(_operator_value),
    "objects": _each(_value),
    "modules": _table(_name, _record({"file": _module_file, "package": _flag}, _HELD)),
    "assets": _each(_record({"file": _text, "given": _place, "place": _place}, {"code": _place})),
    "versions": _versions,
}
_OPTIONAL: dict[str, Check] = {
    "schema": _whole, "files": _elsewhere, "name": _text, "clew": _text, "created": _text, "attrs": _kind("dict"),
    "settings": _settings, "notes": _elsewhere, "output": _like,
}  # fmt: skip

# ---- the graph: here identities count, because they become names in the function that is made of it


def _block(page: Page, block: Any, where: Where, known: set[int]) -> None:
    if not isinstance(block, dict) or not isinstance(block.get("events"), list):
        raise damaged(f"{page.path}: {GRAPH} has a block without events.")
    if other := set(block) - {"events", "output", "decision", "branches"}:
        raise page.wrong(where, f"has a part {min(other)!r} that does not belong there")
    own: list[int] = []  # the steps of this block, which others do not know
    for place, event in enumerate(block["events"]):
        at = ((where, "events"), place)
        if isinstance(event, dict) and len(event) > 1:
            raise page.wrong(at, "is more than one thing")
        if isinstance(event, dict) and isinstance(event.get("step"), dict):
            _step(page, event["step"], (at, "step"), known)
            if event["step"]["id"] not in known:
                own.append(event["step"]["id"])
                known.add(own[-1])
        elif isinstance(event, dict) and isinstance(event.get("guard"), dict):
            _guard(page, event["guard"], (at, "guard"), known)
        else:
            raise page.unknown("an event that is neither step nor guard")
    if "output" in block:
        _template(page, block["output"], (where, "output"), known)
    if "decision" in block or "branches" in block:
        _branches(page, block, where, known)
    known.difference_update(own)


def _branches(page: Page, block: dict[str, Any], where: Where, known: set[int]) -> None:
    decision, branches = block.get("decision"), block.get("branches")
    if not isinstance(branches, list) or not branches:
        raise page.wrong((where, "branches"), "is no list of what may follow")
    _guard(page, decision, (where, "decision"), known, decided=False)
    assert isinstance(decision, dict)
    for place, branch in enumerate(branches):
        at = ((where, "branches"), place)
        if not isinstance(branch, list) or len(branch) != 2:
            raise page.wrong(at, "is no pair")
        _expected(page, decision["kind"], branch[0], (at, 0))
        _block(page, branch[1], (at, 1), known)


_REF, _BUILD = (
    _record({"id": _elsewhere}),
    _record({"kind": _elsewhere, "items": _elsewhere}, {"keys": _elsewhere}),
)


def _template(page: Page, template: Any, where: Where, known: set[int]) -> None:
    """A value, a reference to an earlier one, or a container with such in it."""
    kind = template.get("$") if isinstance(template, dict) else None
    if kind == "ref":
        _REF(page, template, where)
        _reference(page, template["id"], where, known)
    elif kind == "build":
        _BUILD(page, template, where)
        _build(page, template, where, known)
    else:
        _value(page, template, where)


def _build(page: Page, build: dict[str, Any], where: Where, known: set[int]) -> None:
    kind, items, keys = build["kind"], build["items"], build.get("keys", [])
    if not isinstance(kind, str) or kind not in _BUILDS:
        raise page.unknown(f"a container of kind {kind!r}")
    if not isinstance(items, list) or not isinstance(keys, list):
        raise page.wrong(where, "is no container")
    if len(keys) != (len(items) if kind == "dict" else 0) or (kind == "slice" and not 1 <= len(items) <= 3):
        raise page.wrong(where, "has not as many items as it needs")
    for place, one in enumerate([*keys, *items]):
        _template(page, one, (where, place), known)


def _reference(page: Page, id: Any, where: Where, known: set[int]) -> None:
    if type(id) is not int or id not in known:
        raise page.wrong(where, f"refers to value {id!r}, and there is none before it")


def _note(page: Page, note: list[Any], where: Where) -> None:
    _either(*NOTES)(page, note[0], (where, 0))
    _text(page, note[1], (where, 1))
    _each(_elsewhere, 2)(page, note[2], (where, 2))
    _where(page, note[2], (where, 2))
    _text(page, note[3], (where, 3))


_STEP = _record(
    {
        "id": _identity,
        "kind": _text,
        "target": _elsewhere,
        "args": _each(_elsewhere),
        "where": _each(_elsewhere, 2),
    },
    {
        "kwargs": _pairs(_text, _elsewhere),
        "changes": _each(_number),
        "type": _text,
        **dict.fromkeys(MARKS, _flag),
    },
)
_GUARD = _record(
    {
        "kind": _text,
        "ref": _number,
        "expected": _elsewhere,
        "where": _each(_elsewhere, 2),
        "condition": _text,
    }
)


def _step(page: Page, step: dict[str, Any], where: Where, known: set[int]) -> None:
    kind, target = step.get("kind"), step.get("target")
    _target(page, kind, target)
    _STEP(page, step, where)
    _where(page, step["where"], (where, "where"))
    for place, arg in enumerate(step["args"]):
        _template(page, arg, ((where, "args"), place), known)
    for name, arg in step.get("kwargs", ()):
        _template(page, arg, ((where, "kwargs"), name), known)
    if len(step["args"]) < _FEWEST.get(str(kind), 0):
        raise page.wrong((where, "args"), f"has {len(step['args'])} of the {_FEWEST[str(kind)]} that it needs")


def _target(page: Page, kind: Any, target: Any) -> None:
    if kind == "operator":
        known = type(target) is int and 0 <= target < page.size("operators")
    elif kind == "python":
        known = isinstance(target, str) and target in operations.PYTHON
    elif kind in ("method", "attribute", "function", "item"):
        known = isinstance(target, str)
    else:
        raise page.unknown(f"a step of kind {kind!r}")
    if not known:
        raise page.unknown(f"the {'operation' if kind == 'python' else kind} {target!r}")


def _guard(page: Page, guard: Any, where: Where, known: set[int], *, decided: bool = True) -> None:
    _GUARD(page, guard, where)
    if guard["kind"] not in SEEN:
        raise page.unknown(f"a decision by {guard['kind']!r}")
    _where(page, guard["where"], (where, "where"))
    _reference(page, guard["ref"], (where, "ref"), known)
    if decided:
        _expected(page, guard["kind"], guard["expected"], (where, "expected"))
    else:
        _value(page, guard["expected"], (where, "expected"))


def _expected(page: Page, kind: str, expected: Any, where: Where) -> None:
    """What a decision has seen is of the kind that it looks at."""
    if kind == "truth":
        _flag(page, expected, where)
    elif kind == "length":
        _number(page, expected, where)
    elif kind == "type":
        _kind("code", "part", "named", "object", "type of")(page, expected, where)
    else:
        _value(page, expected, where)


def _where(page: Page, said: list[Any], where: Where) -> None:
    _text(page, said[0], (where, 0))
    _whole(page, said[1], (where, 1))

"""Whether what is in a bundle may run: what it would do, who says so, and which names are allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from clew.errors import GraphError
from clew.graph.brief_values import visible

from . import allowed_names, schema
from .layout import AGAIN, Bundle
from .names import PREFIX
from .policy import Policy

_STATE = ("random", "weights", "changed", "variables", "build")  # what an object that was made is given besides
_MODELS = ("exported", "torchscript", "saved model", "keras")  # that are files
_LONGEST = 200  # characters of a name in a message
_DYNAMIC = ("import *", "globals", "vars(", "locals(", "setattr", "exec", "__dict__", "_getframe", "modules[")


def check(bundle: Bundle, trusted: bool | str | Iterable[str]) -> Policy | None:
    """Refuse what nobody has vouched for, of a page that the schema has passed. Nothing has run before this.

    Gives what is to be looked at while it runs, if it was trusted by names; None if it was trusted as a whole.
    """
    page = bundle.page
    for file in _files_used(page):
        bundle.inside(file)
    for value in values_in(page):
        if value["$"] == "code" and not _may_have(bundle, value["module"], value["name"].partition(".")[0]):
            what = f"{bundle.path} uses {value['module']}:{value['name']}, which its code does not define."
            raise GraphError("bundle-unknown", visible(what), AGAIN)
    if trusted is True:
        return None
    names = _names(trusted)
    if bundle.digest in names:
        return None
    policy = Policy(frozenset(names), str(bundle.path))
    untrusted = [one for one in would_run(bundle) if not _is_covered(one, policy)]
    if not names or untrusted:
        raise _refusal(bundle, untrusted, names)
    return policy


def _may_have(bundle: Bundle, module: str, name: str) -> bool:
    """Whether a module may have a name, as far as its text tells: what is certainly unknown is told before it runs."""
    said = bundle.page["modules"][module]
    if not name or not said["file"] or name in said.get("names", {}):
        return True
    words = _words_in(bundle, said["file"])
    return words is None or name in words


def _words_in(bundle: Bundle, file: str) -> frozenset[str] | None:
    """The words of a text of code; None if it may make names of its own."""
    known: dict[str, frozenset[str] | None] = bundle.__dict__.setdefault("_words", {})
    if file not in known:
        text = bundle.text(file)
        known[file] = None if any(word in text for word in _DYNAMIC) else frozenset(re.findall(r"\w+", text))
    return known[file]


def _names(trusted: Any) -> set[str]:
    listed = [trusted] if isinstance(trusted, str) else trusted or []
    names = list(listed) if isinstance(listed, Iterable) else [listed]
    if all(isinstance(name, str) for name in names):
        return set(names) - {""}
    what = f"trusted= cannot be a {type(trusted).__name__}."
    raise GraphError("bad-option", what, "It is True, a name or a list of names, or a bundle's SHA-256.")


def _files_used(page: dict[str, Any]) -> Iterator[str]:
    """Every file that something in the page leads to."""
    yield from (one["file"] for one in page["assets"])
    yield from (said["file"] for said in page["modules"].values() if said["file"] is not None)
    for value in values_in(page):
        if value["$"] in ("asset", "part", *_MODELS):
            yield value["file"]


def steps_in(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from (event["step"] for event in block["events"] if "step" in event)
    for _, inner in block.get("branches", ()):
        yield from steps_in(inner)


def values_in(value: Any) -> Iterator[dict[str, Any]]:
    """Everything in a page that says what it is."""
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            if "$" in one:
                yield one
            stack.extend(one.values())
        elif isinstance(one, list):
            stack.extend(one)


# ---- what would run


def would_run(bundle: Bundle) -> list[tuple[str, str]]:
    """(what kind of thing, its name) of everything that needs somebody's word."""
    page = bundle.page
    found = [("module", name) for name, said in page["modules"].items() if said["file"]]
    found += [("part", value["module"]) for value in values_in(page) if value["$"] == "part"]
    found += [("function", name) for name in function_names(bundle) if not allowed_names.is_allowed(name)]
    has_code = bool(found)
    for step in steps_in(page["block"]):
        found += [("member", name) for name in _names_asked(step) if _needs_word(name, has_code)]
    ends: dict[int, Any] = {}
    for value in values_in(page):
        found += _needed(value, page, ends)
    return list(dict.fromkeys(found))


def _needed(value: dict[str, Any], page: dict[str, Any], ends: dict[int, Any]) -> Iterator[tuple[str, str]]:
    """What needs somebody's word for one value to be made."""
    kind = value["$"]
    if kind in _MODELS:  # programs of these libraries, which run what they hold
        yield "model", value["file"]
    elif kind == "path":
        yield "path", value["text"]
    elif kind == "method" and _leads_on(value):
        yield "private", value["name"]
    elif kind == "reduced" and "state" in value:
        args = value["args"]
        is_new = _resolved(value["call"], page, ends) == {"$": "named", "name": "copyreg:__newobj__"}
        yield from _state_of(args[0] if is_new and args else value["call"], page, ends)
    elif kind == "tf module" or (kind == "made" and any(map(value.get, _STATE))):
        yield from _state_of(value["class"], page, ends)


def _state_of(cls: Any, page: dict[str, Any], ends: dict[int, Any]) -> Iterator[tuple[str, str]]:
    """Attributes that are put into an object behind its class's back; code of the bundle is covered by its module."""
    cls = _resolved(cls, page, ends)
    if not isinstance(cls, dict) or cls["$"] not in ("code", "part"):
        yield "state", cls["name"] if isinstance(cls, dict) and cls["$"] == "named" else "an object's inside"


def _resolved(value: Any, page: dict[str, Any], ends: dict[int, Any]) -> Any:
    """What a value says of itself, where it stands among the objects; `ends`, by number, is what is known of them."""
    passed = []
    while isinstance(value, dict) and value["$"] == "object" and value["number"] not in ends:
        passed.append(value["number"])
        ends[value["number"]] = value  # it may lead to itself
        value = page["objects"][value["number"]]
    if isinstance(value, dict) and value["$"] == "object":
        value = ends[value["number"]]
    ends.update(dict.fromkeys(passed, value))
    return value


def _names_asked(step: dict[str, Any]) -> list[str]:
    """The names that a step asks a value for; one that is only known when it runs may be any."""
    if step["kind"] in ("method", "attribute"):
        return [step["target"]]
    if step["kind"] == "python" and step["target"] in ("getattr", "setattr", "delattr"):
        name = step["args"][1] if len(step["args"]) > 1 else None
        return [name if isinstance(name, str) else "__getattribute__"]
    return []


def _needs_word(name: str, has_code: bool) -> bool:
    """Whether no value may be asked for this. What is of the right name is looked at again when its type is known."""
    return name.startswith("_") or not (has_code or allowed_names.is_member_of_any(name))


def _leads_on(method: dict[str, Any]) -> bool:
    """Whether a method may lead from what computes to anything else, as a method of a method does."""
    owner = method["self"]
    of_method = isinstance(owner, dict) and owner["$"] == "method"
    name: str = method["name"]
    return of_method or (name != "__call__" and name.startswith("_"))


def function_names(bundle: Bundle) -> list[str]:
    """The functions and classes of libraries that it uses, by their qualified names."""
    page = bundle.page
    named = [step["target"] for step in steps_in(page["block"]) if step["kind"] == "function"]
    for value in values_in(page):
        if value["$"] == "named":
            named.append(value["name"])
        elif value["$"] == "method" and isinstance(value["self"], dict) and value["self"]["$"] == "named":
            home, _, path = value["self"]["name"].partition(":")
            named.append(f"{home}:{path}.{value['name']}" if path else f"{home}:{value['name']}")
    for name in named:
        root = name.partition(":")[0].partition(".")[0]
        if not root or root == "__main__" or root.startswith(PREFIX):
            raise schema.Page(bundle).unknown(f"the function {name!r}")
    return list(dict.fromkeys(named))


def _is_covered(one: tuple[str, str], policy: Policy) -> bool:
    """Modules of the bundle are covered by their names and those of the packages they are in; all else by its own."""
    kind, name = one
    if kind in ("module", "part"):
        return any(name == known or name.startswith(f"{known}.") for known in policy.names)
    if kind == "function":
        return policy.covers(name)
    if kind == "member":
        return not name.startswith("_") and any(":" in known for known in policy.names)  # of a type that is named
    return kind in ("model", "path", "state") and name in policy.names


def _refusal(bundle: Bundle, untrusted: list[tuple[str, str]], names: set[str]) -> GraphError:
    listed = "; ".join(summary(bundle)) if not names else _few((name for _, name in untrusted), 100)
    if names:
        what = f"{bundle.path} would run what trusted= does not name: {listed}."
    else:
        what = f"{bundle.path} is a program, and nobody has said that it may run. It would run: {listed}."
    digest = f"trusted=[{bundle.digest!r}]"
    ways = f"Look with `clew inspect`, then load with trusted=True, with the names that you trust, or with {digest}."
    return GraphError("bundle-trust", visible(what), ways)


def summary(bundle: Bundle) -> list[str]:
    """What loading and running would do, in a few words each."""
    page, values = bundle.page, list(values_in(bundle.page))[::-1]
    modules = [name for name, said in page["modules"].items() if said["file"]]
    made = [_class_name(value) for value in values if value["$"] == "made"]
    exported = [value["class"] for value in values if value["$"] in _MODELS]
    parts = [value["name"] for value in values if value["$"] == "part"]
    operators = [value["name"] for value in page["operators"]]
    # What does more than compute is not hidden behind others.
    functions = sorted(function_names(bundle), key=allowed_names.is_allowed)
    reached = [name for kind, name in would_run(bundle) if kind in ("private", "member", "path")]
    said = [
        f"the code of {_few(modules)}" if modules else "",
        f"the functions {_few(parts)}" if parts else "",
        f"the constructors of {_few(made)}" if made else "",
        f"the exported models {_few(exported)}" if exported else "",
        f"the operators {_few(operators)}" if operators else "",
        f"functions of libraries: {_few(functions)}" if functions else "",
        f"what reaches into objects or to files: {_few(reached)}" if reached else "",
    ]
    return [visible(text) for text in said if text] or ["Python operations alone"]


def _class_name(value: dict[str, Any]) -> str:
    return str(value["class"].get("name") or "a class")


def _few(names: Iterable[str], most: int = 8) -> str:
    listed = [name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…" for name in dict.fromkeys(names)]
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")

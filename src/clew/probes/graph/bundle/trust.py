"""Whether what is in a bundle may run: what it would do, who says so, and which names are allowed."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator
from typing import Any

from clew.errors import GraphError
from clew.probes.graph import operations

from .layout import Bundle, damaged
from .names import PREFIX

KINDS = frozenset({"operator", "function", "method", "attribute", "item", "python"})
VALUES = frozenset(
    {
        "float", "tuple", "set", "frozenset", "dict", "bytes", "bytearray", "complex", "slice", "range", "constant",
        "path", "asset", "code", "part", "named", "type of", "method", "object", "numpy", "numpy scalar",
        "numpy objects", "tensor", "device", "operator", "operators of", "map",
        "made", "exported", "reduced", "ref", "build",
    }
)  # fmt: skip
_ROOTS = frozenset({*operations.ARRAYS, "sklearn", "uuid"})
_KNOWN = frozenset({"copyreg:__newobj__", "copyreg:_reconstructor", "builtins:object", "logging:getLogger"})
_REACHING = frozenset({"attrgetter", "methodcaller", "Formatter"})  # they reach into whatever they are given
# Methods by which a value writes or reads files.
_METHODS = (
    "to_*", "tofile", "write*", "read_*", "dump", "open", "unlink", "rename", "rmdir", "mkdir", "touch", "*link_to",
    "chmod", "save*", "load*", "eval", "query", "apply*", "pipe",
)  # fmt: skip
# Functions of these libraries that read files, run what they read, or compile.
_NEVER = (
    "*load*", "*save*", "*file*", "*eval*", "*read_*", "*to_*", "*hub*", "*utils*", "*f2py*", "*ctypes*", "*compile*",
    "*jit*", "*script*", "*testing*", "*package*", "*multiprocessing*", "*distributed*", "*cpp*", "*ops.*", "*memmap*",
    "*DataSource*", "*pickle*", "*exec*", "*import*", "*query*", "*pipe", "*apply*", "*frompyfunc*", "*vectorize*",
)  # fmt: skip


def check(bundle: Bundle, trusted: bool | str | Iterable[str]) -> None:
    """Refuse what is unknown, and what nobody has vouched for. Nothing has run before this."""
    page = bundle.page
    for step in steps_in(page["block"], bundle):
        _check_step(step, page, bundle)
    for value in values_in([page["objects"], page["operators"], page["block"], page["modules"], page["inputs"]]):
        if value["$"] not in VALUES:
            raise unknown(bundle, f"a value of kind {value['$']!r}")
    for file in _files_used(page):
        bundle.inside(file)
    if trusted is True:
        return
    names = {trusted} if isinstance(trusted, str) else set(trusted or ())
    if bundle.digest in names:
        return
    untrusted = [one for one in would_run(bundle) if not _is_covered(one, names)]
    if not names or untrusted:
        raise _refusal(bundle, untrusted, names)


def _files_used(page: dict[str, Any]) -> Iterator[str]:
    """Every file that something in the page leads to."""
    yield from (one["file"] for one in page["assets"])
    yield from (said["file"] for said in page["modules"].values() if said["file"] is not None)
    for value in values_in([page["objects"], page["operators"], page["block"], page["modules"], page["inputs"]]):
        if value["$"] in ("asset", "part", "exported"):
            yield value["file"]


def unknown(bundle: Bundle, what: str) -> GraphError:
    said = f"{bundle.path} uses {what}, which this clew does not know."
    return GraphError(
        "bundle-unknown", said, f"It was made with clew {bundle.page.get('clew')}: install that or a newer."
    )


def _check_step(step: dict[str, Any], page: dict[str, Any], bundle: Bundle) -> None:
    kind, target = step.get("kind"), step.get("target")
    if kind not in KINDS:
        raise unknown(bundle, f"a step of kind {kind!r}")
    if kind == "operator" and not (type(target) is int and 0 <= target < len(page["operators"])):
        raise unknown(bundle, f"the operator {target!r}")
    if kind == "python" and target not in operations.PYTHON:
        raise unknown(bundle, f"the operation {target!r}")
    if kind in ("method", "attribute") and not isinstance(target, str):
        raise unknown(bundle, f"the {kind} {target!r}")


def steps_in(block: Any, bundle: Bundle) -> Iterator[dict[str, Any]]:
    if not isinstance(block, dict) or not isinstance(block.get("events"), list):
        raise damaged(f"{bundle.path}: graph.json has a block without events.")
    for event in block["events"]:
        if isinstance(event, dict) and isinstance(event.get("step"), dict):
            yield event["step"]
        elif not (isinstance(event, dict) and isinstance(event.get("guard"), dict)):
            raise unknown(bundle, "an event that is neither step nor guard")
    for _, inner in block.get("branches", ()):
        yield from steps_in(inner, bundle)


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
    found += [("part", value["module"]) for value in values_in(page["objects"]) if value["$"] == "part"]
    found += [("function", name) for name in function_names(bundle) if not is_allowed(name)]
    for step in steps_in(page["block"], bundle):
        if step["kind"] in ("method", "attribute") and _reaches(step["target"]):
            found.append(("private", step["target"]))
    found += [("path", value["text"]) for value in values_in([page["block"], page["objects"]]) if value["$"] == "path"]
    return list(dict.fromkeys(found))


def _reaches(name: str) -> bool:
    return name.startswith("_") or any(fnmatch.fnmatchcase(name, pattern) for pattern in _METHODS)


def function_names(bundle: Bundle) -> list[str]:
    """The functions and classes of libraries that it uses, by their qualified names."""
    page = bundle.page
    named = [
        step["target"]
        for step in steps_in(page["block"], bundle)
        if isinstance(step.get("target"), str) and step["kind"] == "function"
    ]
    values = values_in([page["objects"], page["operators"], page["block"], page["modules"], page["inputs"]])
    named += [value["name"] for value in values if value["$"] == "named"]
    for name in named:
        root = name.partition(":")[0].partition(".")[0] if isinstance(name, str) else ""
        if not root or root == "__main__" or root.startswith(PREFIX):
            raise unknown(bundle, f"the function {name!r}")
    return list(dict.fromkeys(named))


def is_allowed(name: str) -> bool:
    """Whether a library's function only computes, so that nobody needs to vouch for it."""
    module, _, path = name.partition(":")
    if name in _KNOWN:
        return True
    if any(part.startswith("__") for part in path.split(".")):
        return False
    if module == "builtins":
        return path.partition(".")[0] in operations.PURE or path in operations.LISTED
    root = module.lstrip("_").partition(".")[0]
    if module.lstrip("_") in operations.CALCULATING or root in operations.CALCULATING:
        return path.partition(".")[0] not in _REACHING
    return root in _ROOTS and not any(fnmatch.fnmatchcase(f"{module}.{path}", pattern) for pattern in _NEVER)


def _is_covered(one: tuple[str, str], names: set[str]) -> bool:
    kind, name = one
    if kind == "private":
        return False
    module = name.partition(":")[0]
    return name in names or any(module == known or module.startswith(f"{known}.") for known in names)


def _refusal(bundle: Bundle, untrusted: list[tuple[str, str]], names: set[str]) -> GraphError:
    listed = "; ".join(summary(bundle)) if not names else ", ".join(name for _, name in untrusted)
    if names:
        what = f"{bundle.path} would run what trusted= does not name: {listed}."
    else:
        what = f"{bundle.path} is a program, and nobody has said that it may run. It would run: {listed}."
    digest = f"trusted=[{bundle.digest!r}]"
    ways = f"Look with `clew inspect`, then load with trusted=True, with the names that you trust, or with {digest}."
    return GraphError("bundle-trust", what, ways)


def summary(bundle: Bundle) -> list[str]:
    """What loading and running would do, in a few words each."""
    page = bundle.page
    modules = [name for name, said in page["modules"].items() if said["file"]]
    made = [_class_name(value) for value in page["objects"] if value["$"] == "made"]
    exported = [value["class"] for value in page["objects"] if value["$"] == "exported"]
    parts = [value["name"] for value in page["objects"] if value["$"] == "part"]
    operators = [value["name"] for value in page["operators"]]
    said = [
        f"the code of {_few(modules)}" if modules else "",
        f"the functions {_few(parts)}" if parts else "",
        f"the constructors of {_few(made)}" if made else "",
        f"the exported models {_few(exported)}" if exported else "",
        f"the operators {_few(operators)}" if operators else "",
        f"functions of libraries: {_few(function_names(bundle))}" if function_names(bundle) else "",
    ]
    return [text for text in said if text] or ["Python operations alone"]


def _class_name(value: dict[str, Any]) -> str:
    return str(value["class"].get("name") or "a class")


def _few(names: Iterable[str]) -> str:
    listed = list(dict.fromkeys(names))
    return ", ".join(listed[:8]) + (f" and {len(listed) - 8} more" if len(listed) > 8 else "")

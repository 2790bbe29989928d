"""Whether what is in a bundle may run: what it would do, who says so, and which names are allowed."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator
from typing import Any

from clew.errors import GraphError
from clew.probes.graph import operations, tensorflow

from . import schema
from .layout import AGAIN, Bundle
from .names import PREFIX, visible

_ROOTS = frozenset({*operations.ARRAYS, "sklearn", "uuid"})
_KNOWN = frozenset({"copyreg:__newobj__", "copyreg:_reconstructor", "builtins:object", "logging:getLogger"})
# They reach into whatever they are given, or make code of it.
_REACHING = frozenset(
    {
        "attrgetter", "methodcaller", "Formatter", "FunctionType", "LambdaType", "CodeType", "CellType", "MethodType",
        "ModuleType", "new_class", "prepare_class", "make_dataclass", "main", "test",
    }
)  # fmt: skip
_DYNAMIC = ("import *", "globals", "vars(", "locals(", "setattr", "exec", "__dict__", "_getframe", "modules[")
# Methods by which a value writes or reads files.
_METHODS = (
    "to_*", "tofile", "write*", "read_*", "dump", "open", "unlink", "rename", "rmdir", "mkdir", "touch", "*link_to",
    "chmod", "save*", "load*", "eval", "query", "apply*", "pipe",
)  # fmt: skip
# Functions of these libraries that read files, run what they read, or compile.
_NEVER = (
    "*load*", "*save*", "*file*", "*eval*", "*read_*", "*to_*", "*hub*", "*utils*", "*f2py*", "*ctypes*", "*compile*",
    "*jit*", "*script*", "*testing*", "*package*", "*multiprocessing*", "*distributed*", "*cpp*", "*ops.*", "*memmap*",
    "*datasource*", "*pickle*", "*exec*", "*import*", "*query*", "*pipe", "*apply*", "*frompyfunc*", "*vectorize*",
    "*fromtxt*", "*fromregex*", "*store*", "*writer*", "*.io.*", "*fetch*", "*export*", "*open*", "*datasets*",
)  # fmt: skip


def check(bundle: Bundle, trusted: bool | str | Iterable[str]) -> None:
    """Refuse what nobody has vouched for, of a page that the schema has passed. Nothing has run before this."""
    page = bundle.page
    for file in _files_used(page):
        bundle.inside(file)
    for value in values_in(page):
        if value["$"] == "code" and not _may_have(bundle, value["module"], value["name"].partition(".")[0]):
            what = f"{bundle.path} uses {value['module']}:{value['name']}, which its code does not define."
            raise GraphError("bundle-unknown", visible(what), AGAIN)
    if trusted is True:
        return
    names = _names(trusted)
    if bundle.digest in names:
        return
    untrusted = [one for one in would_run(bundle) if not _is_covered(one, names)]
    if not names or untrusted:
        raise _refusal(bundle, untrusted, names)


def _may_have(bundle: Bundle, module: str, name: str) -> bool:
    """Whether a module may have a name, as far as its text tells: what is certainly unknown is told before it runs."""
    said = bundle.page["modules"][module]
    if not name or not said["file"] or name in said.get("names", {}):
        return True
    text = bundle.text(said["file"])
    return re.search(rf"\b{re.escape(name)}\b", text) is not None or any(word in text for word in _DYNAMIC)


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
        if value["$"] in ("asset", "part", "exported", "saved model", "keras"):
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
    found += [("function", name) for name in function_names(bundle) if not is_allowed(name)]
    for step in steps_in(page["block"]):
        found += [("private", name) for name in _names_asked(step) if _reaches(name)]
    for value in values_in(page):
        if value["$"] == "saved model":  # a program of TensorFlow's, which may read and write files
            found.append(("model", value["file"]))
        if value["$"] == "path":
            found.append(("path", value["text"]))
        if value["$"] == "method" and _leads_on(value):
            found.append(("private", value["name"]))
    return list(dict.fromkeys(found))


def _names_asked(step: dict[str, Any]) -> list[str]:
    """The names that a step asks a value for; one that is only known when it runs may be any."""
    if step["kind"] in ("method", "attribute"):
        return [step["target"]]
    if step["kind"] == "python" and step["target"] in ("getattr", "setattr", "delattr"):
        name = step["args"][1] if len(step["args"]) > 1 else None
        return [name if isinstance(name, str) else "__getattribute__"]
    return []


def _leads_on(method: dict[str, Any]) -> bool:
    """Whether a method may lead from what computes to anything else, as a method of a method does."""
    owner = method["self"]
    of_method = isinstance(owner, dict) and owner["$"] == "method"
    return of_method or (method["name"] != "__call__" and _reaches(method["name"]))


def _reaches(name: str) -> bool:
    return name.startswith("_") or any(fnmatch.fnmatchcase(name, pattern) for pattern in _METHODS)


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


def is_allowed(name: str) -> bool:
    """Whether a library's function only computes, so that nobody needs to vouch for it."""
    module, _, path = name.partition(":")
    if name in _KNOWN:
        return True
    if not path or any(part.startswith("_") for part in path.split(".")):
        return False  # a whole module leads anywhere, and so does what libraries keep to themselves
    if module == "builtins":
        return path.partition(".")[0] in operations.PURE or path in operations.LISTED
    root = module.lstrip("_").partition(".")[0]
    if root in tensorflow.ROOTS:
        return tensorflow.computes(name)
    if module.lstrip("_") in operations.CALCULATING or root in operations.CALCULATING:
        return path.partition(".")[0] not in _REACHING
    whole = f"{module}.{path}".lower()
    return root in _ROOTS and not any(fnmatch.fnmatchcase(whole, pattern) for pattern in _NEVER)


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
    return GraphError("bundle-trust", visible(what), ways)


def summary(bundle: Bundle) -> list[str]:
    """What loading and running would do, in a few words each."""
    page, values = bundle.page, list(values_in(bundle.page))[::-1]
    modules = [name for name, said in page["modules"].items() if said["file"]]
    made = [_class_name(value) for value in values if value["$"] == "made"]
    exported = [value["class"] for value in values if value["$"] in ("exported", "saved model", "keras")]
    parts = [value["name"] for value in values if value["$"] == "part"]
    operators = [value["name"] for value in page["operators"]]
    functions = sorted(
        function_names(bundle), key=is_allowed
    )  # what does more than compute is not hidden behind others
    reached = [name for kind, name in would_run(bundle) if kind in ("private", "path")]
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


def _few(names: Iterable[str]) -> str:
    listed = list(dict.fromkeys(names))
    return ", ".join(listed[:8]) + (f" and {len(listed) - 8} more" if len(listed) > 8 else "")

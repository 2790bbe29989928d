"""What is in a bundle, for people and for machines. Nothing of it is run."""

from __future__ import annotations

from typing import Any

from clew.graph import specs
from clew.graph.nodes import Note, Where

from . import schema, trust, untrusted_view, versions
from .layout import ASSETS, CODE, Bundle, as_it_should_be

_DEEPEST = 20  # references that are followed
_LONGEST = 200  # characters of what is made of several names; names themselves are given whole
_MOST = 24  # keys, arguments and outcomes that are named


def described(bundle: Bundle) -> dict[str, Any]:
    """Everything worth knowing about a bundle, as plain data."""
    with as_it_should_be(bundle.path):
        schema.check(bundle)
        return _described(bundle, bundle.page)


def _described(bundle: Bundle, page: dict[str, Any]) -> dict[str, Any]:
    files = [{"name": name, **said} for name, said in sorted(bundle.files.items())]
    return {
        "path": str(bundle.path),
        "sha256": bundle.digest,
        "schema": page["schema"],
        "name": page.get("name"),
        "created": page.get("created"),
        "size": sum(said["size"] for said in files),
        "inputs": [_input(said) for said in page["inputs"]],
        "outputs": _outputs(page["block"]),
        "signature": signature_of(page),
        "operators": [_operator(said, page) for said in page["operators"]],
        "steps": sum(1 for _ in trust.steps_in(page["block"])),
        "graph": untrusted_view.Sketch(page).lines(),
        "functions": trust.function_names(bundle),
        "notes": [_note(*note) for note in page.get("notes", ())],
        "guards": list(_guards(page["block"])),
        "modules": [{"name": name, "file": said["file"]} for name, said in page["modules"].items()],
        "code": [one for one in files if one["name"].startswith(f"{CODE}/")],
        "assets": [one for one in files if one["name"].startswith(f"{ASSETS}/")],
        "files": files,
        "versions": page["versions"],
        "differences": versions.differences(page["versions"]),
        "attrs": page.get("attrs"),
        "runs": trust.summary(bundle),
    }


def _input(said: dict[str, Any]) -> dict[str, Any]:
    return {"name": said["name"], "optional": "default" in said}


def _note(kind: str, name: str, where: list[Any], value: str) -> dict[str, Any]:
    place = Where(*where)
    return {
        "kind": kind,
        "name": name,
        "where": str(place),
        "value": value,
        "text": str(Note(kind, name, place, value)),
    }


def signature_of(page: dict[str, Any]) -> dict[str, Any] | None:
    """What the inputs and the output are like, as texts and as data; older bundles do not say it."""
    if "output" not in page:
        return None
    inputs = [
        {
            "name": said["name"],
            "like": _in_words(said.get("like", ())),
            "specs": said.get("like", []),
            "default": _shown(said["default"]) if "default" in said else None,
        }
        for said in page["inputs"]
    ]
    return {"inputs": inputs, "output": {"like": _in_words(page["output"]), "specs": page["output"]}}


def _in_words(data: Any) -> str:
    return specs.in_words(map(specs.from_data, data))


def _outputs(block: dict[str, Any]) -> str:
    """The shape of what comes out: the keys of a dictionary, the number of a tuple's values."""
    if "branches" in block:
        shapes = list(dict.fromkeys(_outputs(inner) for _, inner in block["branches"]))
        return _cut(" or ".join(shapes[:_MOST]))
    said = block.get("output")
    if isinstance(said, dict) and said.get("$") == "build":
        if said["kind"] == "dict":
            keys = [key if isinstance(key, str) else _shown(key) for key in said["keys"][:_MOST]]
            return _cut(f"dict of {', '.join(keys)}{', …' if len(said['keys']) > _MOST else ''}")
        return f"{said['kind']} of {len(said['items'])}"
    if isinstance(said, dict) and said.get("$") == "ref":
        steps = {event["step"]["id"]: event["step"].get("type", "") for event in block["events"] if "step" in event}
        return _cut(steps.get(said["id"], "")) or "a value"
    return "a constant"


def _operator(said: dict[str, Any], page: dict[str, Any]) -> dict[str, Any]:
    return {"name": said["name"], "what": _what(said.get("target", said.get("inner")), page, _DEEPEST)}


def _what(said: Any, page: dict[str, Any], depth: int) -> str:
    """In a few words, what an operator calls."""
    return _cut(_calls(said, page, depth - 1)) if depth and isinstance(said, dict) else "?"


def _calls(said: dict[str, Any], page: dict[str, Any], depth: int) -> str:
    kind = said["$"]
    if kind == "object":
        return _what(page["objects"][said["number"]], page, depth)
    if kind == "method":
        return f"{said['name']} of {_what(said['self'], page, depth)}"
    if kind == "code":
        return f"{said['module']}:{said['name']}"
    if kind == "part":
        return f"{said['module']}:{said['name']} ({said['file']})"
    if kind == "made":
        given = [_shown(arg) for arg in said["args"][:_MOST]]
        given += [f"{name}={_shown(arg)}" for name, arg in said["kwargs"][:_MOST]]
        more = ", …" if max(len(said["args"]), len(said["kwargs"])) > _MOST else ""
        return f"{_what(said['class'], page, depth)}({', '.join(given)}{more})"
    if kind in ("exported", "torchscript", "saved model", "keras"):
        return f"{said['class']}, exported ({said['file']})"
    if kind in ("operator", "map"):
        return _what(said.get("target", said.get("inner")), page, depth)
    return str(said.get("type") or said.get("name") or kind)


def _shown(said: Any, depth: int = 3) -> str:
    if isinstance(said, dict):
        return _cut(str(said.get("file") or said.get("text") or said["$"]))
    if isinstance(said, list):
        inner = [_shown(item, depth - 1) for item in said[:4]] if depth else ["…"] * bool(said)
        return f"[{', '.join(inner)}{', …' if depth and len(said) > 4 else ''}]"
    text = repr(said[:40] if isinstance(said, str) else said)
    return text if len(text) <= 40 else text[:39] + "…"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _guards(block: dict[str, Any]) -> Any:
    for event in block["events"]:
        if "guard" in event:
            yield _guard(event["guard"], [event["guard"]["expected"]])
    if "decision" in block:
        yield _guard(block["decision"], [seen for seen, _ in block["branches"]])
    for _, inner in block.get("branches", ()):
        yield from _guards(inner)


def _guard(said: dict[str, Any], expected: list[Any]) -> dict[str, Any]:
    file, line = said["where"]
    holds = [_shown(one) if not isinstance(one, dict) else str(one.get("name") or one["$"]) for one in expected]
    return {"where": f"{file}:{line}", "condition": said["condition"], "kind": said["kind"], "expected": holds}

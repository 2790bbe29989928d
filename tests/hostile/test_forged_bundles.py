"""Bundles that try to get from a byte to a call in ways that no saver writes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import ClewError
from graph.bundling import reseal
from hostile.forging import ODD, _places, _replaced, _without
from hostile.reading import command
from hostile.test_trusted_names import X, bundle, forge, named, project, run, step

__all__ = ["bundle", "project"]  # fixtures


def value(number: int, given: Any) -> dict[str, Any]:
    """A step that gives a constant."""
    return step(number, "python", "made", given)


def type_of(given: Any) -> dict[str, Any]:
    return {"$": "type of", "value": given}


def reduced(call: str, *args: Any, **more: Any) -> dict[str, Any]:
    return {"$": "reduced", "type": "x", "call": named(call), "args": list(args), **more}


MODULE = "clew_bundle_forged"
METACLASS = type_of(type_of(1))
A_CLASS = reduced(
    "copyreg:__newobj__",
    METACLASS,
    "Forged",
    {"$": "tuple", "items": [type_of({"$": "numpy objects", "items": [1], "shape": [1]})]},
    {"$": "dict", "items": [["__module__", MODULE]]},
)

ATTEMPTS: dict[str, list[dict[str, Any]]] = {
    "a metaclass by type of type": [value(1, METACLASS)],
    "a class of its own": [value(1, A_CLASS)],
    "type through map": [
        step(
            1, "function", "builtins:map", METACLASS, ["X"], [{"$": "tuple", "items": []}], [{"$": "dict", "items": []}]
        )
    ],
    "the type of a class that is named": [value(1, type_of(named("builtins:int")))],
    "the type of a method": [value(1, type_of({"$": "method", "self": named("builtins:str"), "name": "join"}))],
    "the type of an operator": [
        value(1, type_of({"$": "operator", "target": named("builtins:len"), "name": "x", "side_effects": False}))
    ],
    "the type of a function by an object": [value(1, type_of({"$": "object", "number": 0}))],
    "builtins:type as a function": [step(1, "function", "builtins:type", X)],
    "builtins:type of three": [
        step(1, "function", "builtins:type", "X", {"$": "tuple", "items": []}, {"$": "dict", "items": []})
    ],
    "new objects of types that were computed": [
        step(1, "function", "builtins:type", X),
        step(2, "function", "copyreg:__newobj__", {"$": "ref", "id": 1}, "X"),
    ],
    "an ndarray's file": [
        step(1, "function", "numpy:arange", 3),
        step(2, "method", "tofile", {"$": "ref", "id": 1}, "written"),
    ],
    "a text that formats": [step(1, "method", "format", "{0.__class__}", X)],
    "a formatted text by map": [
        step(1, "attribute", "format", "{0.__class__}"),
        step(2, "function", "builtins:map", {"$": "ref", "id": 1}, [1]),
    ],
    "str.format by its class": [value(1, {"$": "method", "self": named("builtins:str"), "name": "format"})],
    "a subclass list": [step(1, "method", "__subclasses__", named("builtins:object"))],
    "globals of a function": [step(1, "attribute", "__globals__", named("statistics:mean"))],
    "the code of a function": [step(1, "python", "getattr", named("statistics:mean"), "__code__")],
    "a name that is computed": [
        step(1, "python", "join", "__", "class__"),
        step(2, "python", "getattr", X, {"$": "ref", "id": 1}),
    ],
    "state of an object behind its class": [
        value(1, reduced("copyreg:__newobj__", named("builtins:Exception"), state={"$": "dict", "items": []}))
    ],
    "a file by its path": [value(1, {"$": "path", "text": "/etc/passwd"})],
    "a function with other globals": [
        step(1, "python", "closed", named("statistics:mean"), {"$": "dict", "items": []})
    ],
    "a partial of what is not allowed": [step(1, "function", "functools:partial", named("os:system"), "true")],
    "itemgetter into a module": [step(1, "function", "operator:itemgetter", named("os"))],
    "json with a class": [step(1, "function", "json:loads", "{}", cls=METACLASS)],
    "a manager that is none": [step(1, "python", "enter", named("logging:getLogger"))],
    "the classes a class is made of": [step(1, "method", "mro", named("builtins:str"))],
    "a generic alias of a class, called": [
        step(1, "python", "getitem", named("builtins:list"), X),
        step(2, "python", "call", {"$": "ref", "id": 1}, X),
    ],
    "the object that an exception keeps": [
        step(1, "function", "builtins:AttributeError", "x"),
        step(2, "attribute", "obj", {"$": "ref", "id": 1}),
    ],
    "what a cached function was made of": [
        step(1, "function", "functools:lru_cache", named("statistics:mean")),
        step(2, "attribute", "cache_parameters", {"$": "ref", "id": 1}),
    ],
    "the decorator that a cache gives": [
        step(1, "function", "functools:lru_cache", 8),
        step(2, "python", "call", {"$": "ref", "id": 1}, named("statistics:mean")),
    ],
    "a scalar's bytes as an object": [
        step(1, "function", "numpy:frombuffer", {"$": "bytes", "base64": "QUFBQUFBQUE="}, "V8"),
        step(2, "method", "view", {"$": "ref", "id": 1}, "O"),
    ],
    "a field of a plain array as an object": [
        step(1, "function", "numpy:arange", 3),
        step(2, "method", "getfield", {"$": "ref", "id": 1}, "O"),
    ],
    "the class of a loaded thing by its number": [value(1, {"$": "object", "number": -1})],
    "a logger's handlers": [
        step(1, "function", "logging:getLogger"),
        step(2, "attribute", "manager", {"$": "ref", "id": 1}),
    ],
}


@pytest.mark.parametrize("name", ATTEMPTS)
def test_an_attempt_is_refused(bundle: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    forge(bundle, *ATTEMPTS[name])
    with pytest.raises(clew.ClewError):
        run(bundle, trusted=["somebody"])
    assert not list(tmp_path.glob("written*"))


@pytest.mark.parametrize("share", [pytest.param(7), pytest.param(1, marks=pytest.mark.slow)])
def test_a_forged_page_is_refused_or_read_and_nothing_else(bundle: Path, share: int) -> None:
    """Every field of graph.json with every odd thing in it (some of them in the short form): inspected, and loaded by
    somebody who trusts names."""
    page = json.loads((bundle / "graph.json").read_text())
    surprises: list[str] = []
    forged = [(path, odd) for path in _places(page) for odd in (*ODD, _without)]
    for path, odd in forged[::share]:
        page_now = _without(page, path) if odd is _without else _replaced(page, path, odd)
        reseal(bundle, lambda there, made=page_now: (there.clear(), there.update(made)))
        for way in (lambda: command(["inspect", str(bundle)]), lambda: clew.load(bundle, trusted=["somebody"])):
            try:
                way()
            except ClewError:
                continue
            except Exception as error:
                surprises.append(f"{path} {str(odd)[:40]}: {type(error).__name__}: {error}")
    assert surprises == []


def test_a_forged_bundle_cannot_lead_every_path_into_itself(bundle: Path) -> None:
    (bundle / "assets").mkdir(exist_ok=True)
    (bundle / "assets" / "hosts").write_text("forged")
    digest = hashlib.sha256(b"forged").hexdigest()

    def change(page: dict[str, Any]) -> None:
        page["assets"] = [{"file": "assets/hosts", "given": "", "place": "/"}]
        page["files"]["assets/hosts"] = {**next(iter(page["files"].values()), {}), "sha256": digest, "size": 6}

    reseal(bundle, change)
    with pytest.raises(ClewError) as caught:
        clew.load(bundle, trusted=["somebody"])
    assert caught.value.slug == "bundle-damaged"

"""`clew.load`: a graph from a bundle, after everything about the bundle was checked."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from clew.errors import ClewError, GraphError
from clew.graph import signature
from clew.graph.graph import Graph
from clew.graph.nodes import Block, Build, Const, Event, Guard, Input, Note, Ref, Step, Template, Where

from . import module_state, notices, schema, trust, versions
from .assets import opened_bundles
from .bundle_code import Package, refill
from .decoding import Decoder, library_thing, remaking
from .layout import CODE, Bundle, as_it_should_be, damaged
from .policy import Policy
from .schema import MARKS

_shared: weakref.WeakValueDictionary[tuple[str, str, frozenset[str] | None], World] = weakref.WeakValueDictionary()
_lock = threading.RLock()  # a constructor may load a bundle too


def load(
    path: str | os.PathLike[str], *, trusted: bool | str | Iterable[str], device: Any = None, share: bool = False
) -> Graph:
    """See clew.load."""
    bundle = Bundle(path)
    with as_it_should_be(bundle.path):
        schema.check(bundle)
        policy = trust.check(bundle, trusted)
    if share and bundle.page.get("settings", {}).get("share", True):
        with _lock:
            key = (bundle.digest, str(device), None if policy is None else policy.names)
            world = _shared.get(key) or _world(bundle, device, policy)
            _shared[key] = world
    else:
        world = _world(bundle, device, policy)
    with _readable(bundle):
        return world.graph()


def _world(bundle: Bundle, device: Any, policy: Policy | None) -> World:
    with _readable(bundle):
        return World(bundle, device, policy)


@contextmanager
def _readable(bundle: Bundle) -> Iterator[None]:
    """What the bundle's own code raises is told by the decoder: whatever else is wrong, the bundle is to blame."""
    try:
        yield
    except ClewError:
        raise
    except ImportError as error:
        what = f"{bundle.path} needs {error.name or 'a library'}, which cannot be imported: {error}."
        raise GraphError("bundle-unknown", what, "Install what is missing.") from error
    except Exception as error:
        what = f"{bundle.path}: something in it is not as it should be: {error!r}."
        found = versions.differences(bundle.page["versions"])
        if not found:
            raise damaged(what) from error
        raise damaged(what, f"It was made with other versions ({', '.join(found)}): install those.") from error


class World:
    """What the loads of one bundle have in common: its modules and its objects."""

    def __init__(self, bundle: Bundle, device: Any, policy: Policy | None) -> None:
        self.bundle = bundle
        self.device = device
        self.policy = policy
        self._say_differences()
        for name in trust.function_names(bundle):
            thing = library_thing(name, bundle)  # what is missing is told before anything runs
            if policy is not None:
                policy.library(name, thing)
        opened_bundles.add(os.path.realpath(bundle.folder))
        self.package = Package(bundle, self._table())
        weakref.finalize(self, self.package.forget).atexit = False
        self.decoder = Decoder(bundle, self.package, device, policy)
        self._give_names()
        self._give_state()
        self.operators = self._operators(self.decoder)
        self._unshared = self._unshared_objects()
        self._has_graph = False

    def _say_differences(self) -> None:
        found = versions.differences(self.bundle.page["versions"])
        if found:
            said = f"{self.bundle.path} was made with other versions: {', '.join(found)}."
            notices.warn(f"{said} Its results may differ.")

    def _table(self) -> dict[str, str]:
        """Old paths → paths in the bundle; those that were relative, also as they are here when they are made whole."""
        table: dict[str, str] = {}
        for one in self.bundle.page["assets"]:
            place = str(self.bundle.unpack(one["file"]))
            if "code" in one:
                table[os.path.normpath(self.bundle.folder / CODE / one["code"])] = place
            for given in (one["given"], one["place"]):
                table[given] = table[os.path.abspath(os.path.expanduser(given))] = place
        return table

    def _give_names(self) -> None:
        """The values of names in scripts: before their code runs where they need none of it, else after."""
        for name, said in self.bundle.page["modules"].items():
            given = said.get("names", {})
            early = {key: self.decoder.decode(value) for key, value in given.items() if not self._needs_code(value)}
            self.package.values[name] = {**{key: self._empty(value) for key, value in given.items()}, **early}
        for name, said in self.bundle.page["modules"].items():
            for key, value in said.get("names", {}).items():
                if self._needs_code(value):
                    self._fill(vars(self.decoder.module(name)), key, value)

    def _give_state(self) -> None:
        """What modules got after they were imported; what needs their code comes last, as it may look at the rest."""
        modules = self.bundle.page["modules"].items()
        entries = [(name, address, value) for name, said in modules for address, value in said.get("state", ())]
        for name, address, value in sorted(entries, key=lambda entry: self._needs_code(entry[2])):
            with remaking(f"giving {name} the state it had", self.bundle):
                module_state.put(self.decoder.module(name), address, value, self.decoder.decode, self._fill)

    def _fill(self, scope: dict[str, Any], name: str, said: Any) -> None:
        """Give a name its value; what is a container already, because definitions use it, stays the container it is."""
        there = scope.get(name)
        shared = self.decoder.shared_container(said)
        if shared is not None and type(there).__name__ == shared["$"]:
            self.decoder.adopt(said, there)
            return
        value = self.decoder.decode(said)
        if isinstance(said, dict) and said["$"] == "object":
            scope[name] = value
        elif type(there) is type(value) and type(value) in (list, dict, set):
            refill(there, value)
        else:
            scope[name] = value

    def _empty(self, said: Any) -> Any:
        """What a name is until its value can be made: definitions may put something into it."""
        said = self.decoder.shared_container(said) or said
        if isinstance(said, list):
            return []
        return {"list": [], "dict": {}, "set": set()}.get(said["$"]) if isinstance(said, dict) else said

    def _needs_code(self, value: Any) -> bool:
        seen: set[int] = set()
        stack = [value]
        while stack:
            for one in trust.values_in(stack.pop()):
                if one["$"] in ("code", "part"):
                    return True
                if one["$"] == "object" and one["number"] not in seen:
                    seen.add(one["number"])
                    stack.append(self.bundle.page["objects"][one["number"]])
        return False

    # ---- the graph

    def graph(self) -> Graph:
        """A graph of the objects that all loads have, and of new ones in place of those that each has for itself."""
        with _lock:
            is_first, self._has_graph = not self._has_graph, True
        if is_first or not self._unshared:
            return _Reader(self, self.decoder, self.operators).graph()
        decoder = self.decoder.without(self._unshared)
        return _Reader(self, decoder, self._operators(decoder)).graph()

    def _operators(self, decoder: Decoder) -> list[Any]:
        return [decoder.decode(said) for said in self.bundle.page["operators"]]

    def _unshared_objects(self) -> set[int]:
        """The numbers of objects that each load makes for itself, and of those that lead to one."""
        objects = self.bundle.page["objects"]
        leads = {number: self._objects_in(said) for number, said in enumerate(objects)}
        found = {number for number, said in enumerate(objects) if said["$"] == "made" and said.get("unshared")}
        before = 0
        while before < len(found):
            before = len(found)
            found |= {number for number, others in leads.items() if others & found}
        return found

    def _objects_in(self, said: Any) -> set[int]:
        return {one["number"] for one in trust.values_in(said) if one["$"] == "object"}


class _Reader:
    """The graph of a page, made of the objects of one load."""

    def __init__(self, world: World, decoder: Decoder, operators: list[Any]) -> None:
        self.world = world
        self.decoder = decoder
        self.operators = operators

    def graph(self) -> Graph:
        page, policy = self.world.bundle.page, self.world.policy
        inputs = [self._input(said) for said in page["inputs"]]
        graph = Graph(inputs, self._block(page["block"]), page.get("name", "pipeline"))
        graph.signature = signature.from_page(page, inputs)
        graph.attrs = self.decoder.decode(page.get("attrs", {"$": "dict", "items": []}))
        graph.notes = notes_in(page)
        graph.parallel = page.get("settings", {}).get("parallel", 1)
        graph.shareable = page.get("settings", {}).get("share", True)
        graph.__dict__["_world"] = self.world  # alive while the graph is
        graph.__dict__["trusted"] = True if policy is None else policy.names
        graph.__dict__["bundle"] = os.path.abspath(self.world.bundle.path)
        graph.__dict__["device"] = self.world.device  # workers that load it again put it there, too
        return graph

    def _input(self, said: dict[str, Any]) -> Input:
        default = self.decoder.decode(said["default"]) if "default" in said else None
        return Input(said["id"], said["name"], default, "default" in said, "rest" in said)

    def _block(self, said: dict[str, Any]) -> Block:
        events: list[Event] = [
            self._step(event["step"]) if "step" in event else self._guard(event["guard"]) for event in said["events"]
        ]
        output = self._template(said["output"]) if "output" in said else None
        decision = self._guard(said["decision"]) if "decision" in said else None
        branches = [(self.decoder.decode(seen), self._block(inner)) for seen, inner in said.get("branches", ())]
        return Block(events, output, decision, branches)

    def _step(self, said: dict[str, Any]) -> Step:
        kind, target = said["kind"], said["target"]
        step = Step(
            said["id"],
            kind,
            self.operators[target] if kind == "operator" else target,
            tuple(self._template(arg) for arg in said["args"]),
            {name: self._template(value) for name, value in said.get("kwargs", ())},
            Where(*said["where"]),
            changes=tuple(said.get("changes", ())),
            type=said.get("type", ""),
        )
        for mark in MARKS:
            setattr(step, mark, bool(said.get(mark)))
        step.policy = self.world.policy
        return step

    def _guard(self, said: dict[str, Any]) -> Guard:
        expected = self.decoder.decode(said["expected"])
        return Guard(said["kind"], said["ref"], expected, Where(*said["where"]), said["condition"])

    def _template(self, said: Any) -> Template:
        if isinstance(said, dict) and said.get("$") == "ref":
            return Ref(said["id"])
        if isinstance(said, dict) and said.get("$") == "build":
            keys = tuple(self._template(key) for key in said.get("keys", ()))
            return Build(said["kind"], tuple(self._template(item) for item in said["items"]), keys)
        return Const(self.decoder.decode(said))


def notes_in(page: dict[str, Any]) -> list[Note]:
    """What the author was told of when the graph was recorded."""
    return [Note(kind, name, Where(*where), value) for kind, name, where, value in page.get("notes", ())]

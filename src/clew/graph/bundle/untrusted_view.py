"""A graph to look at, of a bundle that nobody has trusted: none of its operators and values is made, nothing is run.

It is drawn as the real one would be; what stands for a value only has the name of its kind. A page may say one long
name once and use it in every step: of names and values no more is kept than a drawing shows.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from clew.graph.brief_values import StandIn, visible
from clew.graph.drawing.picture import text
from clew.graph.drawing.plain_drawing import drawing
from clew.graph.graph import Graph
from clew.graph.nodes import Block, Build, Const, Event, Guard, Input, Ref, Step, Template, Where

from . import schema
from .layout import Bundle, as_it_should_be

_CALLED = {"numpy": "ndarray", "numpy objects": "ndarray", "numpy scalar": "number", "tensor": "Tensor"}
_DEEPEST = 20
_LONGEST = 200  # characters of a name, a place or a value
_MOST = 24  # items of a container: a drawing has room for fewer
_VALUE_DEPTH = 4  # containers in each other: likewise
_CONTAINERS: dict[str, Any] = {"tuple": tuple, "set": set, "frozenset": frozenset}


class Sketch:
    """The steps and decisions of a page that the schema has passed."""

    def __init__(self, page: dict[str, Any]) -> None:
        self._page = page
        self._operators: dict[int, Any] = {}
        inputs = [Input(said["id"], _cut(said["name"])) for said in page["inputs"]]
        self.graph = Graph(inputs, self._block(page["block"]), visible(_cut(page.get("name", "pipeline"))))

    def lines(self) -> list[str]:
        """One a step, with what it needs."""
        return text(self.graph).split("\n")[1:]

    def drawing(self) -> dict[str, Any]:
        """Nodes and edges, as the page of a run has them."""
        return drawing(self.graph)

    def _block(self, said: dict[str, Any]) -> Block:
        events: list[Event] = [
            self._step(event["step"]) if "step" in event else self._guard(event["guard"]) for event in said["events"]
        ]
        output = self._template(said["output"]) if "output" in said else None
        decision = self._guard(said["decision"]) if "decision" in said else None
        branches = [(self._value(seen), self._block(inner)) for seen, inner in said.get("branches", ())]
        return Block(events, output, decision, branches)

    def _step(self, said: dict[str, Any]) -> Step:
        kind, target = said["kind"], said["target"]
        args = tuple(self._template(arg) for arg in said["args"])
        kwargs = {_cut(name): self._template(value) for name, value in said.get("kwargs", ())}
        done = self._operator(target) if kind == "operator" else _cut(target)
        return Step(said["id"], kind, done, args, kwargs, _where(said), type=_cut(said.get("type", "")))

    def _guard(self, said: dict[str, Any]) -> Guard:
        expected = self._value(said["expected"])
        return Guard(said["kind"], said["ref"], expected, _where(said), _cut(said["condition"]))

    def _template(self, said: Any) -> Template:
        kind = said.get("$") if isinstance(said, dict) else None
        if kind == "ref":
            return Ref(said["id"])
        if kind == "build":
            keys = tuple(self._template(key) for key in said.get("keys", ()))
            return Build(said["kind"], tuple(self._template(item) for item in said["items"]), keys)
        return Const(self._value(said))

    def _operator(self, number: int) -> Any:
        if number not in self._operators:
            said = self._page["operators"][number]
            target = SimpleNamespace(__module__=_cut(self._module(said)))
            self._operators[number] = SimpleNamespace(name=_cut(said["name"]), target=target)
        return self._operators[number]

    def _module(self, said: Any) -> str:
        """The module that an operator is of."""
        for _ in range(_DEEPEST):  # somebody may have made it lead to itself
            kind = said["$"] if isinstance(said, dict) else None
            if kind in ("code", "part"):
                return str(said["module"])
            if kind == "named":
                return str(said["name"]).partition(":")[0]
            if kind == "object":
                said = self._page["objects"][said["number"]]
            elif kind == "reduced":
                said = said["args"][0] if said["args"] else said["call"]
            elif kind in ("exported", "torchscript", "keras", "saved model"):
                return "models"
            elif kind is None:
                break
            else:
                said = next((said[part] for part in ("target", "inner", "self", "class") if part in said), None)
        return "__main__"  # where nobody knows: that of its line

    def _value(self, said: Any, depth: int = _VALUE_DEPTH) -> Any:
        if isinstance(said, list):
            return self._items(said, depth)
        if not isinstance(said, dict):
            return _cut(said) if isinstance(said, str) else said
        kind = said["$"]
        if kind in _CONTAINERS and all(not isinstance(item, list) for item in said["items"]):
            return _CONTAINERS[kind](self._items(said["items"], depth))
        if kind == "slice":
            return slice(*(self._value(part) for part in said["parts"]))
        return self._stand_in(said)

    def _items(self, said: list[Any], depth: int) -> list[Any]:
        return [self._value(item, depth - 1) for item in said[:_MOST]] if depth else [None] * bool(said)

    def _stand_in(self, said: dict[str, Any]) -> Any:
        """Something that is called as the value's class would be."""
        if said["$"] == "object":
            said = self._page["objects"][said["number"]]
        named = str(said.get("type") or said.get("name") or _CALLED.get(said["$"], said["$"]))
        return StandIn(_cut(named.rpartition(":")[2].replace("\0", "")))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _where(said: dict[str, Any]) -> Where:
    """Of the file the end, which tells more than the folders it is in."""
    file, line = said["where"]
    return Where(file if len(file) <= _LONGEST else "…" + file[1 - _LONGEST :], line)


def sketched(bundle: Bundle) -> Sketch:
    with as_it_should_be(bundle.path):
        schema.check(bundle)
        return Sketch(bundle.page)

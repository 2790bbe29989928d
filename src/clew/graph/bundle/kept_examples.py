"""The examples a graph was recorded with, kept in its bundle: inputs in full, and what each step made of them.

    examples.json          {"objects": [...], "examples": [{"inputs": [...], "files": [...], "steps": [...]}, ...]}
    examples.safetensors   the arrays of the inputs

They stand apart from graph.json: nothing of them is made when a bundle is loaded, and they need nobody's trust.
An input is [name, value], a step [id, name, place, fingerprint]; files are those that inputs name: they do not come
along.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from clew.graph.parts import things_in
from clew.graph.recording.in_place_changes import deep_copied

from . import schema, trust
from .arrays import Reader
from .decoding import Decoder
from .encoding import Encoder
from .layout import EXAMPLES, EXAMPLES_ARRAYS, Bundle, as_it_should_be
from .names import CannotSaveError

if TYPE_CHECKING:
    from clew.graph.graph import Graph

_LONGEST_PATH = 1024
# What belongs to the graph rather than to a value that is given to it.
_NOT_KEPT = frozenset({"part", "made", "asset", "exported", "saved model", "keras", "tf function", "tf module"})


class KeptExamples:
    """The examples of a graph that is being saved."""

    def __init__(self, graph: Graph, encoder: Encoder) -> None:
        self.feeds: list[dict[str, Any]] = []
        self.notices: list[str] = []
        self._inputs: list[tuple[Any, list[str]]] = []
        self._encoder = Encoder(encoder.assets, encoder.staging)
        self._encoder.code = encoder.code
        for number, feed in enumerate(of_graph(graph), 1):
            try:
                self._keep(feed)
            except Exception as reason:  # of what the user gives: then it is not among those that are tested
                said = f"example {number} cannot be kept ({reason}): the bundle is not tested with it."
                self.notices.append(said)

    def _keep(self, feed: dict[str, Any] | str) -> None:
        if isinstance(feed, str):
            raise CannotSaveError(feed)
        count = self._encoder.mark()
        with self._encoder.containers.copy():
            inputs = [[name, self._encoder.encode(value)] for name, value in feed.items()]
        page = [inputs, self._encoder.objects[count:]]
        kinds = {value["$"] for value in trust.values_in(page)} & _NOT_KEPT
        if kinds:
            self._encoder.forget(count)
            raise CannotSaveError("an input is code or a model")
        files = sorted(set(_files_in(list(feed.values()))))
        if any(os.pardir in PurePath(file).parts for file in files):
            raise CannotSaveError("it names a file outside the folder")
        self._inputs.append((inputs, files))
        self.feeds.append(feed)

    def write(self, steps: list[list[Any]]) -> None:
        """Put them into the bundle, with what their steps gave here."""
        staging = self._encoder.staging
        for number, done in enumerate(steps, 1):
            if done and done[-1][3][0] == "error":
                said = f"example {number} fails by now ({done[-1][3][1]})"
                self.notices.append(f"{said}: the bundle is tested only up to there.")
        kept = zip(self._inputs, steps, strict=True)
        examples = [{"inputs": inputs, "files": files, "steps": done} for (inputs, files), done in kept]
        page = {"objects": self._encoder.objects, "examples": examples}
        self._encoder.containers.settle(page)
        staging.write(EXAMPLES, json.dumps(page).encode())
        if len(self._encoder.arrays):
            staging.write_parts(EXAMPLES_ARRAYS, self._encoder.arrays.parts())


def _files_in(values: Any) -> Iterator[str]:
    """The files and folders that texts and paths in plain containers name."""
    for value in things_in(values):
        if isinstance(value, str | PurePath):
            text = str(value)
            if 0 < len(text) < _LONGEST_PATH and "\0" not in text and os.path.exists(text):
                yield text


def copied(feed: dict[str, Any]) -> dict[str, Any]:
    """Inputs that a run may change."""
    return deep_copied(feed)


def of_graph(graph: Graph) -> list[Any]:
    """The examples a graph was recorded with, by input; of one that was loaded, those of its bundle."""
    world = vars(graph).get("_world")
    return graph._examples if world is None else list(decoded(world.bundle, world.decoder))


def expected(bundle: Bundle) -> list[dict[str, Any]]:
    """The examples of a bundle as they stand in it, checked; nothing of it is run."""
    return list(_page(bundle)["examples"])


def decoded(bundle: Bundle, decoder: Decoder) -> Iterator[dict[str, Any]]:
    """The inputs of each example of a bundle that is loaded."""
    page = _page(bundle)
    inner = copy.copy(decoder)
    inner.objects = page["objects"]
    inner._objects = {}
    if EXAMPLES_ARRAYS in bundle.files:
        inner._arrays = Reader(bundle.view(EXAMPLES_ARRAYS), f"{bundle.path}: {EXAMPLES_ARRAYS}")
    for example in page["examples"]:
        yield {name: inner.decode(value) for name, value in example["inputs"]}


def _page(bundle: Bundle) -> dict[str, Any]:
    if EXAMPLES not in bundle.files:
        return {"objects": [], "examples": []}
    with as_it_should_be(bundle.path):
        page: dict[str, Any] = json.loads(bundle.text(EXAMPLES))
        schema.check_examples(bundle, page)
    return page

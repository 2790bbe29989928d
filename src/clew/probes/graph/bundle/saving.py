"""`graph.save`: a graph as a folder or a zip."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.errors import ClewError, GraphError
from clew.probes.graph import operations
from clew.probes.graph.nodes import Block, Build, Const, Guard, Input, Ref, Step, Template, Where
from clew.probes.graph.operators import Operator

from . import versions
from .assets import Assets, Option
from .code import is_user_module
from .encoding import Encoder
from .layout import ARRAYS, SCHEMA
from .names import CannotSaveError, public_name
from .schema import MARKS
from .staging import Staging

if TYPE_CHECKING:
    from clew.probes.graph.graph import Graph

_WAYS = "Make it in the constructor of a clew.op class, give it as an input, or define it at the top of a module."


class BundleWarning(UserWarning):
    """Something about a bundle that its user should know."""


def save(graph: Graph, target: str | os.PathLike[str], assets: Option = None) -> Path:
    """Write a graph with everything it needs: whole, or not at all."""
    with Staging(target) as staging:
        taken = Assets(assets, staging)
        writer = _Writer(Encoder(taken, staging))
        page = writer.page(graph)
        taken.opened_by(graph.steps)
        path = staging.finish(page)
    for said in (*taken.notices, *writer.encoder.warnings, *writer.encoder.code.notices):
        warnings.warn(said, BundleWarning, stacklevel=3)
    return path


class _Writer:
    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.operators: list[dict[str, Any]] = []
        self._numbers: dict[Any, int] = {}
        self._held: list[Any] = []
        self._opened: list[dict[str, str]] = []  # by constructors that the pipeline calls

    def page(self, graph: Graph) -> dict[str, Any]:
        """What graph.json says; the files it speaks of are written on the way."""
        said: dict[str, Any] = {"schema": SCHEMA, "clew": versions.OWN, "name": graph.name}
        said["created"] = datetime.now(UTC).isoformat(timespec="seconds")
        said["inputs"] = [self._input(given) for given in graph._inputs]
        said["block"] = self._block(graph._block)
        with _about("graph.attrs"):
            said["attrs"] = self.encoder.encode(graph.attrs)
        said["settings"] = {"parallel": graph.parallel}
        said["operators"] = self.operators
        with _about("the code of its operators"):
            self.encoder.code.finish()
        said["objects"] = self.encoder.objects
        said["modules"] = self.encoder.code.modules
        said["assets"] = self._assets()
        said["versions"] = versions.here(self._packages(said))
        self._files()
        return said

    def _assets(self) -> list[dict[str, str]]:
        """Everything that was opened or added, under the names it had."""
        taken, added = self.encoder.assets, self.encoder.assets.added
        opened = [one for each in self.encoder.objects if each and each["$"] == "made" for one in each.pop("opened")]
        read = [one for file in self.encoder.code.read for one in taken.of_module(*file)]
        found = list({one["given"]: one for one in (*added, *read, *opened, *self._opened)}.values())
        return [*found, *taken.beside_code(found, self.encoder.code.roots)]

    def _packages(self, said: dict[str, Any]) -> set[str]:
        named = {step.target for step in self._steps if step.kind == "function" and isinstance(step.target, str)}
        return self.encoder.code.packages | {name.partition(":")[0].partition(".")[0] for name in named}

    def _files(self) -> None:
        staging, encoder = self.encoder.staging, self.encoder
        for name, text in encoder.code.texts.items():
            staging.write(name, text.encode("utf-8", "surrogatepass"))
        if len(encoder.arrays):
            staging.write_parts(ARRAYS, encoder.arrays.parts())

    # ---- the graph

    def _input(self, given: Input) -> dict[str, Any]:
        said: dict[str, Any] = {"id": given.id, "name": given.name}
        if given.has_default:
            with _about(f"the default of the input `{given.name}`"):
                said["default"] = self.encoder.encode(given.default)
        return said

    def _block(self, block: Block) -> dict[str, Any]:
        events = [{"step": self._step(e)} if isinstance(e, Step) else {"guard": self._guard(e)} for e in block.events]
        said: dict[str, Any] = {"events": events}
        if block.output is not None:
            with _about("the output"):
                said["output"] = self._template(block.output)
        if block.decision is not None:
            said["decision"] = self._guard(block.decision)
            with _about(f"the decision at {block.decision.where}"):
                said["branches"] = [[self.encoder.encode(seen), self._block(inner)] for seen, inner in block.branches]
        return said

    def _step(self, step: Step) -> dict[str, Any]:
        self._steps.append(step)
        with _about(f"step {step.id} ({_title(step)}), {step.where},"):
            kind, target = step.kind, step.target
            if kind == "function" and (own := _user_class(target)) is not None:
                kind, target = "operator", Operator(own, name=target.rpartition(":")[2])
            said: dict[str, Any] = {"id": step.id, "kind": kind}
            said["target"] = self._operator(target) if kind == "operator" else target
            args, kwargs = self._given(step)
            said["args"] = [self._template(arg) for arg in args]
            if kwargs:
                said["kwargs"] = [[name, self._template(value)] for name, value in kwargs.items()]
            said["where"] = _where(step.where)
            if step.changes:
                said["changes"] = list(step.changes)
            said.update({mark: True for mark in MARKS if getattr(step, mark)})
            said["type"] = step.type
            return said

    def _given(self, step: Step) -> tuple[Sequence[Template], dict[str, Template]]:
        """What a step is given; of a constructor that the pipeline calls, with the files it names taken along."""
        how = getattr(step.target, "made", None)
        if how is None:
            return step.args, step.kwargs
        taken = self.encoder.assets.of_constructor(how, f"{how.cls.__name__}()")
        self._opened += taken.opened
        args = [Const(new) if isinstance(old, Const) else old for old, new in zip(step.args, taken.args, strict=True)]
        named = {
            name: Const(taken.kwargs[name]) if isinstance(old, Const) else old for name, old in step.kwargs.items()
        }
        return args, named

    @property
    def _steps(self) -> list[Step]:
        return self.__dict__.setdefault("_seen", [])  # type: ignore[no-any-return]

    def _guard(self, guard: Guard) -> dict[str, Any]:
        with _about(f"the decision at {guard.where} (`{guard.condition}`)"):
            said = {"kind": guard.kind, "ref": guard.ref, "expected": self.encoder.encode(guard.expected)}
        return {**said, "where": _where(guard.where), "condition": guard.condition}

    def _operator(self, operator: Operator) -> int:
        target = operator.target
        bound = getattr(target, "__self__", None)
        whose = (id(bound), getattr(target, "__func__", target.__name__)) if bound is not None else (id(target), None)
        key = (*whose, operator.name, operator.side_effects)
        if key not in self._numbers:
            self._held.append(operator)  # so that its identity stays its own
            said = self.encoder.operator(operator)
            self._numbers[key] = len(self.operators)
            self.operators.append(said)
        return self._numbers[key]

    def _template(self, template: Template) -> Any:
        if isinstance(template, Ref):
            return {"$": "ref", "id": template.id}
        if isinstance(template, Const):
            return self.encoder.encode(template.value)
        assert isinstance(template, Build)
        said: dict[str, Any] = {
            "$": "build",
            "kind": template.kind,
            "items": [self._template(i) for i in template.items],
        }
        return {**said, "keys": [self._template(key) for key in template.keys]} if template.kind == "dict" else said


@contextmanager
def _about(what: str) -> Iterator[None]:
    """Whatever cannot be saved in here is told with where it stands."""
    try:
        yield
    except CannotSaveError as reason:
        raise GraphError("bundle-cannot-save", f"{what} cannot be saved: {reason}.", _WAYS) from None
    except (ClewError, OSError):
        raise
    except Exception as error:  # of what is saved, or of clew's own: it is told with the place, and with its traceback
        said = f"{what} cannot be saved: {type(error).__name__}: {error}."
        raise GraphError("bundle-cannot-save", said, _WAYS) from error


def _title(step: Step) -> str:
    return step.target.name if isinstance(step.target, Operator) else str(step.target) or step.kind


def _where(where: Where) -> list[Any]:
    return [where.file, where.line]


def _user_class(target: str) -> Any:
    """A class of the user's own that the pipeline makes objects of, found by its name."""
    home, _, path = target.partition(":")
    module = sys.modules.get(home)
    if module is None or not is_user_module(module) or public_name(home) == "clew":
        return None
    try:
        return operations.function_named(target)
    except (ImportError, AttributeError):
        raise CannotSaveError(f"{path} is not found in {home} any more") from None

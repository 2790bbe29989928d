"""`graph.save`: a graph as a folder or a zip."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from clew import env
from clew.errors import ClewError, GraphError
from clew.graph import operations, signature, specs
from clew.graph.nodes import NOTES, Block, Build, Const, Guard, Input, Ref, Step, Template, Where
from clew.graph.operators import Operator

from . import environment, notices, selftest, versions
from .assets import Assets, Option
from .encoding import Encoder
from .kept_examples import KeptExamples
from .layout import ARRAYS, README, REQUIREMENTS, SCHEMA, Bundle
from .modules import is_user_module
from .names import CannotSaveError, public_name
from .readme import readme
from .schema import MARKS
from .staging import Staging

if TYPE_CHECKING:
    from clew.graph.graph import Graph

_CLASS_FAILURES = ("bundle-cannot-save", "bundle-test", "bundle-remake", "bundle-unknown")
_READING = ("open", "read", "load", "imread", "fromfile", "genfromtxt", "from_file")
_WAYS = "Make it in the constructor of a clew.op class, give it as an input, or define it at the top of a module."


def save(
    graph: Graph,
    target: str | os.PathLike[str],
    assets: Option = None,
    on_taken: Callable[[str, list[str]], None] | None = None,
    test: bool | float = True,
) -> Path:
    """Write a graph with everything it needs, and test what was written: whole, or not at all.

    on_taken   called with the bundle's path and the files of this machine that are in it, if there are any
    test       load what was written in a fresh process, and run it on the graph's examples; a number: for at most so
               many seconds
    """
    attempt = _Attempt(graph, target, assets, test)
    try:
        path = _with_classes_or_exported(attempt)
    finally:  # a file that does not come along may be why the test has failed
        for notice in (*_constants_that_vary(graph), *attempt.notices):
            notices.warn(notice)
    if on_taken is not None and attempt.taken:
        on_taken(str(path), attempt.taken)
    return path


def _with_classes_or_exported(attempt: _Attempt) -> Path:
    """Save torch modules as their classes, which run as fast as the originals; where that fails, exported."""
    try:
        return attempt.save()
    except GraphError as error:
        if error.slug not in _CLASS_FAILURES or not attempt.used_classes:
            raise
        reason, noticed = error, attempt.notices
    try:
        return attempt.save(prefer_export=True)
    except GraphError:
        attempt.notices = noticed
        raise reason from None


class _Attempt:
    """A save, and what it has to tell besides."""

    def __init__(self, graph: Graph, target: str | os.PathLike[str], assets: Option, test: bool | float) -> None:
        self.notices: list[str] = []
        self.taken: list[str] = []
        self.used_classes = False  # of torch modules, which might be exported instead
        self._graph = graph
        self._target = target
        self._assets = assets
        self._seconds = _seconds(test)
        self._test = bool(test) and env.self_test()

    def save(self, *, prefer_export: bool = False) -> Path:
        with Staging(self._target) as staging:
            taken = Assets(self._assets, staging)
            writer = _Writer(Encoder(taken, staging, prefer_export=prefer_export), self._test)
            try:
                path = self._write(writer, staging)
            finally:
                noticed = () if writer.examples is None else writer.examples.notices
                self.notices = [*taken.notices, *writer.encoder.warnings, *writer.encoder.code.notices, *noticed]
                self.used_classes = writer.encoder.module_classes_used
        self.taken = taken.taken
        return path

    def _write(self, writer: _Writer, staging: Staging) -> Path:
        page = writer.page(self._graph)
        writer.encoder.assets.opened_by(self._graph.steps)
        kept = writer.examples
        if kept is not None:
            kept.write(selftest.expected_here(self._graph, kept.feeds))
        staging.write(README, readme(page, staging.target.name, staging.files).encode("utf-8", "replace"))
        staging.seal(page)
        if kept is not None:
            _test(self._graph, kept, staging, self._seconds, kept.notices.append)
        return staging.finish()


def _constants_that_vary(graph: Graph) -> Iterator[str]:
    """What recording has warned of is in the bundle, too."""
    for note in graph.notes:
        if note.kind in ("constant by input", "constant by chance"):
            value = f" ({note.value})" if note.value else ""
            yield (
                f"{note.where}: what {note.name}() gave{value} is a constant of the bundle: {NOTES[note.kind]}. "
                'Make it a clew.op, or record without library="constant".'
            )


def _seconds(test: Any) -> float | None:
    if isinstance(test, bool):
        return None
    if not isinstance(test, int | float) or test <= 0:
        remedy = "Give True, False, or how many seconds the test may take."
        raise GraphError("bad-option", f"test={test!r} is none of these.", remedy)
    return float(test)


def _test(
    graph: Graph, kept: KeptExamples, staging: Staging, seconds: float | None, on_notice: Callable[[str], None]
) -> None:
    def again(number: int) -> list[Any]:
        return selftest.expected_here(graph, [kept.feeds[number]], reseeded=True)[0]

    selftest.check(Bundle(staging.folder), again, name=str(staging.target), seconds=seconds, on_notice=on_notice)


class _Writer:
    def __init__(self, encoder: Encoder, keeps_examples: bool) -> None:
        self.encoder = encoder
        self.examples: KeptExamples | None = None
        self._keeps_examples = keeps_examples
        self.operators: list[dict[str, Any]] = []
        self._numbers: dict[Any, int] = {}
        self._held: list[Any] = []
        self._opened: list[dict[str, str]] = []  # by constructors that the pipeline calls

    def page(self, graph: Graph) -> dict[str, Any]:
        """What graph.json says; the files it speaks of are written on the way."""
        said: dict[str, Any] = {"schema": SCHEMA, "clew": versions.OWN, "name": graph.name}
        said["created"] = datetime.now(UTC).isoformat(timespec="seconds")
        known = graph.signature.inputs
        said["inputs"] = [{**self._input(given), **signature.to_page(known[given.name])} for given in graph._inputs]
        said["output"] = list(map(specs.to_data, graph.signature.output))
        said["block"] = self._block(graph._block)
        with _about("graph.attrs"):
            said["attrs"] = self.encoder.encode(graph.attrs)
        said["notes"] = [[note.kind, note.name, _where(note.where), note.value] for note in graph.notes]
        said["settings"] = {"parallel": graph.parallel, **({} if graph.shareable else {"share": False})}
        said["operators"] = self.operators
        if self._keeps_examples:  # before the code is finished: their classes are part of it
            self.examples = KeptExamples(graph, self.encoder)
        with _about("the code of its operators"):
            self.encoder.finish()
        said["objects"] = self.encoder.objects
        said["modules"] = self.encoder.code.modules
        said["assets"] = self._assets()
        packages = self._packages(said)
        said["versions"] = versions.here(packages)
        self._files()
        self.encoder.containers.settle(said)
        needed = environment.requirements({*packages, *self._roots_of_types(graph)}, said["versions"]["python"])
        self.encoder.staging.write(REQUIREMENTS, needed.encode())
        return said

    def _roots_of_types(self, graph: Graph) -> set[str]:
        """The libraries whose types go in, come out, or are between steps: their methods are steps as well."""
        given = [spec for one in graph.signature.inputs.values() for spec in one.specs]
        types = [step.type for step in self._steps] + [spec.type for spec in (*given, *graph.signature.output)]
        roots = {name.partition(".")[0] for name in types if "." in name}
        loaded = {root: sys.modules.get(root) for root in roots}
        return {root for root, module in loaded.items() if module is not None and not is_user_module(module)}

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
        if given.is_rest:
            said["rest"] = True
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
        """What a step is given; of one that reads files, with those that it names taken along."""
        if step.kind == "function" and _reads_file(step):
            first = step.args[0]
            assert isinstance(first, Const)
            path = self.encoder.assets.of_step(first.value, f"{_title(step)}() at {step.where}")
            return [Const(path), *step.args[1:]], step.kwargs
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
            return self.encoder.encode_copied(template.value)
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


def _reads_file(step: Step) -> bool:
    """Whether a function of a library reads a file under a name that is a constant: `open("words.txt")`."""
    name = step.target.rpartition(":")[2].rpartition(".")[2]
    if not name.startswith(_READING) or not step.args or not isinstance(step.args[0], Const):
        return False
    mode = step.kwargs.get("mode", step.args[1] if name == "open" and len(step.args) > 1 else None)
    is_read = mode is None or (isinstance(mode, Const) and not set("wax+") & set(str(mode.value)))
    return is_read and isinstance(step.args[0].value, str | PurePath) and step.args[0].value != ""


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

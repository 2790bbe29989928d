"""The door of a graph: its inputs are looked at before it runs, and a failure is explained by what differs in them.

What is looked at is decided once, when the graph is called for the first time; a call costs a look at a class.
"""

from __future__ import annotations

import keyword
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from clew.errors import ClewError, SignatureError
from clew.graph.mismatches import Grade, Mismatch, mismatch
from clew.graph.nodes import Block, Const, Input, Ref, Step, Template, refs_in
from clew.graph.signature import Parameter, Signature
from clew.graph.specs import ANYTHING, Spec, in_words

Function = Callable[..., Any]
_EXPLAINED = (ValueError, *SignatureError.__bases__[1:])  # other errors keep their class, and get a note
_WAYS = "Give it as it was recorded, or record the graph with an example like this one, too."
_WAYS_GIVEN = "Give it like that, or change signature=."


def door(
    signature: Signature, inputs: list[Input], block: Block, function: Function, *, any_rank: bool = False
) -> Function:
    """The function of a graph, with its inputs looked at. It takes them in their order or, if they can be, by name.

    any_rank   arrays may have more or fewer dimensions than they were recorded with
    """
    looks = [_Look(signature.inputs[one.name], one, block) for one in inputs if one.name in signature.inputs]
    looks = [look for look in looks if look.parameter.specs and look.is_used]
    names = _names_of_parameters(inputs)
    scope: dict[str, Any] = {"_clew_run": function, "_clew_explain": _Explainer(looks, inputs), "_clew_type": type}
    lines = [f"def _clew_graph({', '.join(_with_default(names[one.id], one, scope) for one in inputs)}):"]
    for number, look in enumerate(looks):
        scope[f"_clew_look{number}"] = look
        test = look.test(names[look.id], number, scope, any_rank=any_rank)
        if test is not None:
            lines.append(f"    if {test}: _clew_look{number}({names[look.id]})")
    given = ", ".join(names[one.id] for one in inputs)
    if looks:
        lines += ["    try:", f"        return _clew_run({given})", "    except Exception as _clew_error:"]
        lines += [f"        _clew_explain(_clew_error, ({given},))", "        raise"]
    else:
        lines += [f"    return _clew_run({given})"]
    exec(compile("\n".join(lines), "<clew graph>", "exec"), scope)
    made: Function = scope["_clew_graph"]
    return made


def _names_of_parameters(inputs: list[Input]) -> dict[int, str]:
    """What the inputs are called in the function: their names, if those are fit for it, so that Python binds them."""
    defaults = [one.has_default for one in inputs]
    fit = all(one.name.isidentifier() and not keyword.iskeyword(one.name) for one in inputs)
    if not fit or defaults != sorted(defaults) or any(one.name.startswith("_clew") for one in inputs):
        return {one.id: f"v{one.id}" for one in inputs}
    return {one.id: one.name for one in inputs}


def _with_default(name: str, given: Input, scope: dict[str, Any]) -> str:
    if not given.has_default or name != given.name:
        return name
    scope[f"_clew_default{given.id}"] = given.default
    return f"{name}=_clew_default{given.id}"


class _Look:
    """What is looked at in one input."""

    def __init__(self, parameter: Parameter, given: Input, block: Block) -> None:
        self.parameter = parameter
        self.id = given.id
        self.is_used = _is_used(given.id, block)
        self._has_one_kind = any(_goes_by_kind(step, given.id) for step in block.steps() if given.id in step.refs)
        self.needed = _needed(parameter, given.id, block)
        self._specs = _of_what_is_read(parameter, given.id, block)

    def test(self, value: str, number: int, scope: dict[str, Any], *, any_rank: bool) -> str | None:
        """The expression that is true if a value needs a closer look; None if no value would be refused."""
        specs, kinds = self.parameter.specs, {spec.kind for spec in self.parameter.specs}
        if self.parameter.strict:
            return "True"
        if kinds & _NEVER_REFUSED or not self._has_one_kind:
            return None
        classes = {cls for spec in specs for cls in _classes_of(spec)}
        if not classes:
            return "True"
        known, needed = f"_clew_known{number}", f"_clew_needed{number}"
        scope[known], scope[needed] = frozenset({*classes, type(None)}), self.needed
        test = f"_clew_type({value}) not in {known}"
        if kinds == {"array"} and not any_rank:
            ranks = sorted({len(spec.shape) for spec in specs if spec.shape is not None})
            return f"{test} or {value} is not None and {value}.ndim not in {tuple(ranks)}"
        if kinds == {"mapping"} and self.needed:
            return f"{test} or {value} is not None and not {needed} <= {value}.keys()"
        if kinds == {"frame"} and self.needed:
            return f"{test} or {value} is not None and not {needed}.issubset({value}.columns)"
        return test if kinds <= _PLAIN.keys() or not self.needed else "True"

    def __call__(self, value: Any) -> None:
        found = self.mismatch(value)
        if found.grade is Grade.REFUSED:
            raise refusal(self.parameter, found)

    def mismatch(self, value: Any) -> Mismatch:
        return mismatch(self._specs, value, self.needed, self.parameter.strict)


_NEVER_REFUSED = frozenset({"object", "nothing", ANYTHING})
_PLAIN: dict[str, tuple[type, ...]] = {
    "number": (int, float, bool, complex),
    "text": (str,),
    "bytes": (bytes,),
    "sequence": (list, tuple),
    "set": (set, frozenset),
    "mapping": (dict,),
}
_IN_LIBRARIES = {"numpy.ndarray": "numpy", "torch.Tensor": "torch", "pandas.DataFrame": "pandas"}


def _classes_of(spec: Spec) -> tuple[type, ...]:
    """Classes of which a value needs no closer look: of plain kinds, and of libraries that are loaded."""
    home = sys.modules.get(_IN_LIBRARIES.get(spec.type, ""))
    found = getattr(home, spec.type.rpartition(".")[2], None)
    return (found,) if isinstance(found, type) else _PLAIN.get(spec.kind, ())


def refusal(parameter: Parameter, found: Mismatch, error: BaseException | None = None) -> SignatureError:
    expected = "its signature is" if parameter.strict else "the graph was recorded with"
    failed = "" if error is None else f" It failed with {type(error).__name__}: {_text_of(error)}"
    what = f"the input `{parameter.name}` {found.what}; {expected} {in_words(parameter.specs)}.{failed}"
    return SignatureError("graph-signature", what, _WAYS_GIVEN if parameter.strict else _WAYS)


def _text_of(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        return "(its message cannot be shown)"
    return text if text.endswith(".") else f"{text}."


class _Explainer:
    """Says of a failure which input is other than those the graph was recorded with."""

    def __init__(self, looks: list[_Look], inputs: list[Input]) -> None:
        self._looks = [(look, [one.id for one in inputs].index(look.id)) for look in looks]

    def __call__(self, error: Exception, values: tuple[Any, ...]) -> None:
        """Raise what explains it; else leave it as it is, or with a note."""
        if isinstance(error, ClewError):
            return
        for look, place in self._looks:
            try:
                found = look.mismatch(values[place])
            except Exception:  # of a value that the pipeline has left in pieces: what it raised says more
                continue
            if found.grade >= Grade.SERIOUS and isinstance(error, _EXPLAINED):
                raise refusal(look.parameter, found, error) from error
            if found.grade is not Grade.NONE:
                expected = in_words(look.parameter.specs)
                error.add_note(f"clew: the input `{look.parameter.name}` {found.what}; recorded with {expected}.")


# ---- what the steps do with an input


def _is_used(id: int, block: Block) -> bool:
    """Whether any step or decision looks at it: what only goes through to the output may be anything."""
    return any(id in step.refs for step in block.steps()) or any(guard.ref == id for guard in block.guards())


_OF_ANY_KIND = frozenset({"eq", "ne", "is", "is not", "not", "text", "made", "in", "not within"})
_FUNCTIONS_OF_ANY_KIND = frozenset(
    f"builtins:{name}" for name in ("ascii", "bool", "format", "isinstance", "repr", "str", "type")
)


def _goes_by_kind(step: Step, id: int) -> bool:
    """Whether a step may do something else for a value of another kind; comparing or showing it does not."""
    if step.kind == "python" and step.target in _OF_ANY_KIND:
        return False
    if step.kind == "function" and step.target in _FUNCTIONS_OF_ANY_KIND:
        return False
    looks_up = step.kind == "item" or step.target in ("contains", "not in", "getitem", "get")
    return not looks_up or step.args[0] == Ref(id)


def _needed(parameter: Parameter, id: int, block: Block) -> frozenset[str]:
    """The columns or keys of an input that are read in any case, before anything changes it."""
    names: set[str] = set()
    for event in block.events:
        if not isinstance(event, Step):
            continue
        if not event.fails and not event.tried and event.args and event.args[0] == Ref(id):
            names |= _names_read(event, parameter)
        if id in event.changes or (event.effect and _takes(event, id)):
            break
    return frozenset(names)


def _of_what_is_read(parameter: Parameter, id: int, block: Block) -> tuple[Spec, ...]:
    """What an input is like, without the columns or keys that certainly nothing reads."""
    users = [step for step in block.steps() if id in step.refs]
    reads = [_names_read(step, parameter) if step.args and step.args[0] == Ref(id) else set() for step in users]
    if parameter.strict or not all(reads) or any(guard.ref == id for guard in block.guards()):
        return parameter.specs
    names = set().union(*reads)
    return tuple(
        replace(spec, fields=tuple(field for field in spec.fields if field.name in names)) for spec in parameter.specs
    )


def _takes(step: Step, id: int) -> bool:
    return any(ref.id == id for template in (*step.args, *step.kwargs.values()) for ref in refs_in(template))


def _names_read(step: Step, parameter: Parameter) -> set[str]:
    if step.kind == "item" or (step.kind == "python" and step.target == "getitem"):
        return _names_in(step.args[1])
    if step.kind == "attribute" and any(_is_column(step.target, spec) for spec in parameter.specs):
        return {step.target}
    return set()


def _names_in(key: Template) -> set[str]:
    if not isinstance(key, Const):
        return set()
    keys = key.value if type(key.value) is list else [key.value]
    return {one for one in keys if type(one) is str}


def _is_column(name: str, spec: Spec) -> bool:
    """Whether an attribute of a frame is one of its columns."""
    frame: Any = getattr(sys.modules.get("pandas"), "DataFrame", None)
    return spec.kind == "frame" and any(one.name == name for one in spec.fields) and not hasattr(frame, name)

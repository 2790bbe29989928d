"""Torch modules and tensors. Modules are exported by torch itself, so that they need none of the author's code."""

from __future__ import annotations

import copy
import io
import json
import re
import sys
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import TYPE_CHECKING, Any

from clew.errors import GraphError, OptionError

from . import digests, examples
from .layout import MODELS, Bundle, damaged
from .names import CannotSaveError

if TYPE_CHECKING:
    from .encoding import Encoder

_SIZE = re.compile(r"L\[[^()%]*\]\.size\(\)\[\d+\]")
_BATCH = 3  # torch takes sizes 0 and 1 for fixed


def _torch() -> Any:
    torch = sys.modules.get("torch")
    return torch if torch is not None and hasattr(torch, "nn") else None


def is_module(value: Any) -> bool:
    torch = _torch()
    return torch is not None and isinstance(value, torch.nn.Module)


def is_script(value: Any) -> bool:
    """Whether it is a module or a function of TorchScript."""
    torch = _torch()
    return torch is not None and isinstance(value, torch.jit.ScriptModule | torch.jit.ScriptFunction)


def script_method(value: Any, encoder: Encoder) -> dict[str, Any] | None:
    """A method of a TorchScript module, which is a value of its own."""
    torch = _torch()
    if torch is None or not isinstance(value, torch._C.ScriptMethod):
        return None
    owner = torch.jit._recursive.wrap_cpp_module(value.owner)
    return {"$": "method", "self": script(owner, encoder), "name": value.name}


def script(value: Any, encoder: Encoder) -> dict[str, Any]:
    """A module or function of TorchScript, as torch writes it: a program that needs none of the author's code."""
    import torch

    file = io.BytesIO()
    try:
        with _quiet():
            torch.jit.save(_with_defaults(value), file)
    except Exception as error:
        raise CannotSaveError(f"a {type(value).__name__} that torch.jit.save refuses: {error}") from None
    name = f"{MODELS}/{encoder.staging.count(MODELS)}.pt"
    encoder.staging.write(name, file.getvalue())
    encoder.code.packages.add("torch")
    tensors = value.state_dict().values() if isinstance(value, torch.nn.Module) else ()
    title = getattr(value, "original_name", None) or getattr(value, "qualified_name", "").rpartition(".")[2]
    return {
        "$": "torchscript", "file": name, "class": title or type(value).__name__,
        "device": str(next((one.device for one in tensors), "cpu")),
    }  # fmt: skip


def _with_defaults(value: Any) -> Any:
    """A function that is saved by itself loses the defaults of its parameters; the method of a module keeps them."""
    import torch

    if not isinstance(value, torch.jit.ScriptFunction):
        return value
    schema: Any = value.schema
    arguments = schema.arguments
    if not any(argument.has_default_value() for argument in arguments):
        return value
    parameters = ", ".join(map(_parameter, arguments))
    names = ", ".join(argument.name for argument in arguments)

    class Function(torch.jit.ScriptModule):
        def __init__(self, clew_function: Any) -> None:
            super().__init__()
            # names in it are those of this frame
            self.define(f"def forward(self, {parameters}):\n    return clew_function({names})\n")

    return Function(value)


def _parameter(argument: Any) -> str:
    text = f"{argument.name}: {argument.type.annotation_str}"
    if not argument.has_default_value():
        return text
    default = argument.default_value
    return f"{text} = " + (f'float("{default}")' if type(default) is float else repr(default))


def loaded_script(said: dict[str, Any], bundle: Bundle, device: Any) -> Any:
    import torch

    data = io.BytesIO(bundle.view(said["file"]).tobytes())
    try:
        with _quiet():
            return torch.jit.load(data, map_location=place_for(said["device"], device))  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise damaged(f"{bundle.path}: {said['file']} cannot be read: {reason}.") from None


def tensor(value: Any, encoder: Encoder) -> dict[str, Any] | None:
    torch = _torch()
    if torch is None or not isinstance(value, torch.Tensor):
        return None
    if type(value) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) or value.layout != torch.strided:
        raise CannotSaveError(f"a {type(value).__name__} of layout {value.layout}")
    said: dict[str, Any] = {"$": "tensor", "device": str(value.device)}
    if type(value) is torch.nn.Parameter:
        said["parameter"] = True
    if value.requires_grad:
        said["requires_grad"] = True
    order = _memory_order(value)
    if order is not None:
        said["order"] = order
    try:
        return {**said, **encoder.arrays.torch(value)}
    except TypeError as reason:
        raise CannotSaveError(str(reason)) from None


def _memory_order(tensor: Any) -> str | None:
    """The order of a tensor's memory, where that is not the usual one and has a name."""
    import torch

    name = {4: "channels_last", 5: "channels_last_3d"}.get(tensor.dim())
    if name is None or tensor.is_contiguous() or not tensor.is_contiguous(memory_format=getattr(torch, name)):
        return None
    return name


# ---- export


def exported(module: Any, encoder: Encoder, *, every: bool) -> dict[str, Any] | None:
    """A module as torch.export writes it, for any size of its batches; None where that does not work.

    every   sizes of other dimensions are open, too
    """
    called = examples.of(module)
    program = _export(module, called, _every_dimension if every else _first_dimension) if called else None
    data = None if program is None else _archive(program)
    if data is None:
        return None
    name = f"{MODELS}/{sum(file.startswith(MODELS) for file in encoder.staging.files)}.pt2"
    encoder.staging.write(name, data)
    encoder.code.packages.add("torch")
    said = {"$": "exported", "file": name, "class": type(module).__qualname__, "training": module.training}
    return {**said, "device": str(next((p.device for p in module.parameters()), "cpu"))}


def _export(module: Any, called: list[tuple[Any, Any]], shapes: Any) -> Any:
    """The exported program, if it holds for batches of other sizes, and calling the module changes nothing in it."""
    import torch

    args, kwargs = _example(called[0])
    if args is None or any(not _same_structure(called[0], other) for other in called[1:]):
        return None
    try:
        shadow = _shadow(module)
        after: list[Any] = []  # looked at while it is run: torch puts attributes back when it is done
        shadow.register_forward_hook(lambda *_: after.append(_state(shadow)))
        before = _state(shadow)
        with _quiet(), redirect_stderr(io.StringIO()), torch.no_grad():  # it prints what it cannot export
            dynamic = {**_by_name(module, args, shapes), **{name: shapes(value) for name, value in kwargs.items()}}
            program = torch.export.export(shadow, args, kwargs, dynamic_shapes=dynamic, strict=False)
    except Exception:  # torch.export has many words for no
        return None
    keeps_state = after and all(state == before for state in after)
    return program if keeps_state and _takes_any_batch(program) and _takes_all(program, called[1:]) else None


def _takes_all(program: Any, called: list[tuple[Any, Any]]) -> bool:
    """Whether a program takes every size that was seen: a loop over one (`range(x.shape[1])`) fixes it."""
    import torch

    if not called:
        return True
    try:
        run = program.module()
        with _quiet(), torch.no_grad():
            for args, kwargs in map(_example, called):
                run(*args, **kwargs)
    except Exception:  # of torch's check of the sizes, or of an operation that they do not fit
        return False
    return True


def _shadow(module: Any) -> Any:
    """The module with the same tensors, and everything else its own: exporting runs the code of the module."""
    tensors = [*module.parameters(), *module.buffers()]
    return copy.deepcopy(module, {id(tensor): tensor for tensor in tensors})


def _state(module: Any) -> Any:
    """What the module and those in it hold besides tensors."""
    inner = ("_parameters", "_buffers", "_modules")
    held = [{key: value for key, value in vars(one).items() if key not in inner} for one in module.modules()]
    return [digests.digests(one, into_objects=False) for one in held]


@contextmanager
def _quiet() -> Iterator[None]:
    """torch speaks at length about what it cannot export; there is another way then."""
    import logging

    known = logging.root.manager.loggerDict
    spoken = [one for name, one in list(known.items()) if name.startswith("torch") and isinstance(one, logging.Logger)]
    before = [one.disabled for one in spoken]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in spoken:
            one.disabled = True
        try:
            yield
        finally:
            for one, was in zip(spoken, before, strict=True):
                one.disabled = was


def _example(called: tuple[Any, Any]) -> tuple[Any, Any]:
    """Tensors like those that were seen, with batches of a size that torch does not take for fixed."""
    try:
        args, kwargs = (_filled(part) for part in called)
    except TypeError:
        return None, None
    return args, kwargs


def _filled(value: Any) -> Any:
    import torch

    if isinstance(value, examples.Shape):
        shape = value.shape if not value.shape or value.shape[0] > 1 else (_BATCH, *value.shape[1:])
        return torch.zeros(shape, dtype=value.dtype, device=value.device)
    if isinstance(value, list | tuple):
        return type(value)(_filled(item) for item in value)
    if isinstance(value, dict):
        return {key: _filled(item) for key, item in value.items()}
    if value is None:
        return None
    raise TypeError(value)  # a number would be fixed


def _same_structure(a: Any, b: Any) -> bool:
    if isinstance(a, examples.Shape):
        return isinstance(b, examples.Shape) and a.dtype == b.dtype and len(a.shape) == len(b.shape)
    if isinstance(a, list | tuple) and type(a) is type(b):
        return len(a) == len(b) and all(map(_same_structure, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same_structure(a[key], b[key]) for key in a)
    return bool(a is b)


def _by_name(module: Any, args: tuple[Any, ...], shapes: Any) -> dict[str, Any]:
    import inspect

    names = list(inspect.signature(module.forward).parameters.values())
    found: dict[str, Any] = {}
    for at, parameter in enumerate(names):
        if parameter.kind is parameter.VAR_POSITIONAL:
            found[parameter.name] = tuple(shapes(value) for value in args[at:])
            break
        if at < len(args):
            found[parameter.name] = shapes(args[at])
    return found


def _every_dimension(value: Any) -> Any:
    return _dimensions(value, every=True)


def _first_dimension(value: Any) -> Any:
    return _dimensions(value, every=False)


def _dimensions(value: Any, *, every: bool) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return dict.fromkeys(range(value.dim() if every else min(1, value.dim())), torch.export.Dim.AUTO)
    if isinstance(value, list | tuple):
        return type(value)(_dimensions(item, every=every) for item in value)
    if isinstance(value, dict):
        return {key: _dimensions(item, every=every) for key, item in value.items()}
    return None


def _takes_any_batch(program: Any) -> bool:
    """Whether torch has left the first dimension of what has two or more open, and decided nothing by any size.

    What the code has decided by sizes (`if x.shape[0] > 4`) is not kept when a program is saved: it would give wrong
    results for others, and say nothing.
    """
    guards = getattr(program, "_guards_code", None)
    if guards is None:  # a torch that does not tell
        return False
    given = set(program.graph_signature.user_inputs)
    values = [node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder" and node.name in given]
    fixed = any(getattr(value, "ndim", 0) > 1 and str(value.shape[0]).isdigit() for value in values)
    return not fixed and all(_is_plain(guard) for guard in guards)


def _is_plain(guard: str) -> bool:
    """A size that is one number, or that of another tensor: those are looked at whenever the program is called."""
    left, equal, right = guard.partition(" == ")
    return bool(equal) and bool(_SIZE.fullmatch(left)) and (right.isdigit() or bool(_SIZE.fullmatch(right)))


def _archive(program: Any) -> bytes | None:
    """The program as bytes; None if torch would put a pickle into it."""
    import torch

    program._example_inputs = None
    file = io.BytesIO()
    try:
        with _quiet():
            torch.export.save(program, file)
    except Exception:
        return None
    data = file.getvalue()
    return None if _pickles(data) else data


def _pickles(data: bytes) -> list[str]:
    """The members of an archive that torch would unpickle."""
    found = []
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            if info.filename.endswith((".pt", ".pkl", ".pickle")) and info.file_size:
                found.append(info.filename)
            elif info.filename.endswith("_config.json"):
                config = json.loads(archive.read(info)).get("config", {})
                found += [name for name, said in config.items() if isinstance(said, dict) and said.get("use_pickle")]
    return found


# ---- loading


def loaded(said: dict[str, Any], bundle: Bundle, device: Any) -> Any:
    import torch
    from torch.export import passes

    data = bundle.view(said["file"]).tobytes()
    try:
        pickles = _pickles(data)
    except (zipfile.BadZipFile, ValueError, AttributeError) as error:
        raise damaged(f"{bundle.path}: {said['file']} cannot be read: {error}.") from None
    if pickles:
        what = f"{bundle.path}: {said['file']} holds a pickle ({pickles[0]})."
        raise GraphError("bundle-unsafe", what, "Nothing of it was used. clew writes no such bundles.")
    with _quiet():
        program = torch.export.load(io.BytesIO(data))
        wanted = place_for(said["device"], device)
        if wanted != said["device"]:
            program = passes.move_to_device_pass(program, wanted)
        return program.module()


def place_for(recorded: str, device: Any) -> str:
    """Where a tensor goes: where it was asked for, where it was, or where it can."""
    import torch

    if device is not None:
        return device_here(device)
    kind = recorded.partition(":")[0]
    there = kind == "cpu" or (kind == "cuda" and torch.cuda.is_available())
    return recorded if there or (kind == "mps" and torch.backends.mps.is_available()) else "cpu"


def device_here(device: Any) -> str:
    """torch's name of a device that was asked for; what is not there is no fault of the bundle's."""
    import torch

    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except Exception as error:
        there = ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
        there += ["mps"] if torch.backends.mps.is_available() else []
        reason = str(error).partition("\n")[0].rstrip(".")
        what = f"torch has no device {device!r} here ({reason}); there is {', '.join(there)}."
        raise OptionError("unknown-device", what, 'Say one of these, or device="cpu".') from None
    return str(found)

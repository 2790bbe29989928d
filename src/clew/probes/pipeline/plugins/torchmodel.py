"""torch's models: calls of modules, losses, and steps of optimizers."""

from __future__ import annotations

import contextlib
import os
import weakref
from pathlib import Path
from threading import get_ident
from types import FunctionType
from typing import Any

import torch
from torch.nn import functional
from torch.nn.modules import module as torch_module
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.loss import _Loss
from torch.optim import Optimizer

from clew.instrument import eager_torch
from clew.instrument.call_guard import call_once, leave_no_frames
from clew.probes.pipeline.passage import StagedCall
from clew.probes.pipeline.plugins import Site, site
from clew.probes.pipeline.stage_functions import Names, Spot, fixed, spot_of
from clew.probes.pipeline.stages import Passer, is_stage
from clew.probes.pipeline.trace_recording import Tracing, current
from clew.recorder.fingerprints import original_code
from clew.recorder.live_call import place_of

_LOSSES = (
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy", "ctc_loss",
    "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "margin_ranking_loss", "mse_loss",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "poisson_nll_loss",
    "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss",
)  # fmt: skip
_MODELS_TOO = ("WithLoss", "AndLoss")  # a model that gives its loss as well
_SAME = 20  # steps of an optimizer with the same items
_spots: weakref.WeakKeyDictionary[type, Spot] = weakref.WeakKeyDictionary()


def install(place: Site) -> None:
    place.replace(torch.nn.Module, "__call__", _call)
    for name in _LOSSES:
        function = getattr(functional, name, None)
        if isinstance(function, FunctionType):
            spot = spot_of(function, "loss", None, "loss", name=name, receiver=False, kind="loss", ours=True)
            spot.outermost = True
            spot.names = Names(function, None, receiver=False, defaults=False)
            place.swap(function, Passer(spot))
    place.swap(torch.save, _Saving())
    for cls in _optimizers(Optimizer):
        place.swap(vars(cls)["step"], _Stepping(cls))


def _optimizers(cls: type) -> list[type]:
    found = [cls] if isinstance(vars(cls).get("step"), FunctionType) and cls is not Optimizer else []
    subclasses: list[type] = type.__subclasses__(cls)
    for sub in subclasses:
        found += _optimizers(sub)
    return found


def _call(original: Any) -> Any:
    def passing(module: Any, *args: Any, **kwargs: Any) -> Any:
        # Asked first: nothing of ours is to get into what is compiled or traced.
        if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
            return original(module, *args, **kwargs)
        try:
            return call_once(_pass, original, (module, *args), kwargs)
        except BaseException:
            leave_no_frames()
            raise

    # torch.compile may have been told to leave clew's files alone, and would stop here: it is torch's, to its eyes.
    passing.__code__ = passing.__code__.replace(co_filename=torch_module.__file__)
    return passing


def _pass(original: Any, arguments: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tracing = current()
    if tracing is None:
        return original(*arguments, **kwargs)
    module, *args = arguments
    cls = type(module)
    if cls.__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None:
        cls = type(module.__dict__.get("_modules", {}).get("_orig_mod", module))
        _uncompiled(tracing)
    if isinstance(module, _ConvNd):
        _note_convolved(tuple(args))
    spot = _spots.get(cls)
    if spot is None:
        spot = _spots[cls] = _spot(cls)
    scope = tracing.flow.scope
    if is_stage(getattr(cls, "forward", None)) or (scope is not None and scope.single):
        return original(module, *args, **kwargs)  # the user's own stage; a transform
    mode = "train" if module.training else "eval"
    return tracing.run(spot, original, arguments, kwargs, mode=mode)


def _note_convolved(args: tuple[Any, ...]) -> None:
    """What the first convolution of a model is given tells whether the model itself has put it right."""
    call = place_of(get_ident()).call
    if not isinstance(call, StagedCall) or call.spot.kind != "model" or "convolved" in call.meta:
        return
    if args and issubclass(type(args[0]), torch.Tensor):
        given = args[0].detach()
        call.meta["convolved"] = list(given.shape)
        with contextlib.suppress(Exception):  # a tensor without numbers, or in the midst of torch.func
            call.meta["convolved_range"] = [float(bound) for bound in torch.aminmax(given)]


def _uncompiled(tracing: Tracing) -> None:
    """To compile a model takes longer than everything else a trace does, and what is compiled is not seen."""
    if tracing.wanted is None:
        return  # a program that is not stopped has time for it
    tracing.altered("compiled models run uncompiled (torch.compile)")
    found = site()
    if found is not None and found not in _eager:
        _eager.add(found)
        eager_torch.begin()
        found.on_leaving(eager_torch.end)


_eager: weakref.WeakSet[Site] = weakref.WeakSet()


def _spot(cls: type) -> Spot:
    forward = getattr(cls, "forward", None)
    name = cls.__qualname__.rpartition("<locals>.")[2]
    is_loss = issubclass(cls, _Loss) or (name.endswith(("Loss", "Criterion")) and not name.endswith(_MODELS_TOO))
    code = original_code(forward)
    return Spot(
        "loss" if is_loss else "model",
        name,
        module=cls.__module__,
        code=code,
        names=Names(forward, None, receiver=True, defaults=False)
        if forward is not None
        else fixed("input", receiver=True),
        result="loss" if is_loss else "output",
        kind="loss" if is_loss else "model",
        outermost=True,
        ours=True,
    )


class _Stepping(Passer):
    """At the steps of an optimizer."""

    def __init__(self, cls: type) -> None:
        name = f"{cls.__qualname__}.step"
        super().__init__(Spot("optimizer", name, names=fixed(), kind="optimizer", outermost=True, ours=True))

    def __call__(self, twin: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tracing = current()
        if tracing is None or tracing._inside(self.spot):
            return twin(*args, **kwargs)
        _once(tracing, args[0])
        return tracing.run(self.spot, _by_itself(tracing, twin), args, kwargs, named=_state(args[0]))


def _by_itself(tracing: Tracing, step: FunctionType) -> Any:
    """What a closure calls is about whatever it is given; that it is called by an optimizer says nothing."""

    def stepping(*args: Any, **kwargs: Any) -> Any:
        with tracing.flow.outside():
            return step(*args, **kwargs)

    return stepping


def _once(tracing: Tracing, optimizer: Any) -> None:
    """A loop that goes on with the same items, without ever asking for new ones, ends at an optimizer's second step;
    later if the loader has more to give: there may be several steps to a batch."""
    about = tracing.flow.ambient
    if tracing.wanted is None:
        return
    key = (id(optimizer), (about.source, about.batch, repr(about.ids[:8])) if about is not None else None)
    done = tracing.steps.get(key, 0)
    if done >= _SAME or (done and tracing.all_given()):
        tracing.stop()
    tracing.steps[key] = done + 1


class _Saving(Passer):
    """At torch.save: what a program saves that was stopped after a few items is not what it would have saved."""

    def __init__(self) -> None:
        super().__init__(Spot("save", "torch.save", names=fixed(), kind="save", ours=True))

    def __call__(self, twin: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tracing = current()
        path = args[1] if len(args) > 1 else kwargs.get("f")
        if tracing is not None and tracing.wanted is not None and isinstance(path, (str, Path)):
            tracing.note(f"{os.path.abspath(path)} was saved (torch.save) when the program had seen a few items only")
        return twin(*args, **kwargs)


def _state(optimizer: Any) -> dict[str, Any]:
    """What an optimizer steps with: its learning rates, and how large the gradients are together."""
    groups = optimizer.param_groups
    rates = [float(group["lr"]) for group in groups if "lr" in group]
    with torch.no_grad():
        norms = [
            parameter.grad.detach().float().norm()
            for group in groups
            for parameter in group["params"]
            if parameter.grad is not None and parameter.grad.layout is torch.strided
        ]
        total = float(torch.stack([norm.cpu() for norm in norms]).norm()) if norms else None
    return {"lr": rates[0] if len(rates) == 1 else tuple(rates), "gradient_norm": total}

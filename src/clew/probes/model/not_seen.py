"""What a tracer was asked for and did not see, and why: for the ledger, and once for the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew import trouble
from clew.errors import nearest

from .paths import Spot, existing
from .unwrap import Uncompiled, has_compiled_parts, is_compiled

if TYPE_CHECKING:
    from .path_tracks import Track
    from .tracer import ModelTracer


def patterns_seen(tracks: dict[str, Track], doubles: list[tuple[str, str]]) -> set[str]:
    """Patterns that led to something. `doubles`: those that lead where another does, and the stem of that."""
    seen = {pattern for track in tracks.values() for pattern in track.patterns}
    return seen | {
        pattern for pattern, stem in doubles if any(name == stem or name.startswith(f"{stem}.") for name in tracks)
    }


def tell(tracer: ModelTracer, found: dict[str, list[Spot]], seen: set[str], *, recorded: bool) -> None:
    """Of the patterns in `found`, with what they may lead to, those not among `seen`; `recorded`: any iteration was."""
    missed = [pattern for pattern in found if pattern not in seen]
    if not missed:
        return
    if not recorded:
        why = "the model was not called" if not any(tracer.counts.values()) else "no iteration was one to record"
        hints = dict.fromkeys(missed, f"nothing was recorded: {why} while it was traced.")
        said = f"ModelTracer recorded nothing: {why} while it was traced"
    else:
        known = existing(tracer.model)
        optimizer_paths = tracer._state.optimizer_paths if tracer._state is not None else []
        hints = {pattern: _hint(pattern, found[pattern], known, optimizer_paths) for pattern in missed}
        said = "ModelTracer saw nothing at " + "; ".join(f"`{pattern}`: {hint}" for pattern, hint in hints.items())
    for pattern, hint in hints.items():
        tracer.note("never-seen", pattern, hint)
    trouble.report(f"model:{id(tracer)}", said.rstrip("."))


def _hint(pattern: str, found: list[Spot], known: list[str], optimizer_paths: list[str]) -> str:
    if any(spot.facet in ("tensor.grad", "grad") for spot in found):
        return "no gradient reached it."
    if found and found[0].facet == "optimizer":
        if not optimizer_paths:
            return "no optimizer of this model has made a step."
        return f"the optimizer has nothing of this name; {_nearest(pattern, optimizer_paths)}"
    if found and all(spot.rest and spot.facet in ("output", "method") for spot in found):
        return f"`{found[0].label}` gives nothing of this name, and has no such variable; {_nearest(pattern, known)}"
    if found:
        return "it is there, and was not reached in any iteration."
    return f"there is no such path; {_nearest(pattern, known)}"


def _nearest(pattern: str, known: list[str]) -> str:
    """A path that ends in this very name, wherever it is, or else one that looks like it."""
    name = pattern.rpartition(".")[2]
    same = [path for path in known if path.rpartition(".")[2] == name and path != pattern]
    if len(same) == 1:
        return f"did you mean `{same[0]}`?"
    return nearest(pattern, same or known)


def tell_of_compilation(tracer: ModelTracer, wrapped: Any, uncompiled: Uncompiled, *, leaves: bool) -> None:
    """Compiled code calls no hooks."""
    compiled = is_compiled(wrapped) or has_compiled_parts(tracer.model)
    if leaves and compiled:
        text = "compiled code calls no hooks: what is inside it was not seen. Trace with compiled='eager'."
        tracer.note("fallback", "torch.compile", text)
    elif uncompiled.mattered or compiled:
        text = "compiled code ran uncompiled while it was traced, so that its values could be seen."
        tracer.note("fallback", "torch.compile", text)


def note_spread(tracer: ModelTracer, name: str, value: Any) -> None:
    placements = ", ".join(map(str, getattr(value, "placements", ())))
    text = f"the local part of a tensor spread over processes ({placements}); its whole shape is {tuple(value.shape)}."
    tracer.note("shard", name, text)

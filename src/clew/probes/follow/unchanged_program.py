"""`clew run --follow "module:function"`: functions of an unchanged program, followed from where they are loaded."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from clew.errors import OptionError
from clew.instrument.engine import Follow
from clew.probes.suggestions import functions_hint
from clew.probes.watch.unchanged_program import names_of
from clew.records import Note

from . import call_objects, lean_calls
from .following import Following
from .scope import matches


@dataclass(eq=False, slots=True)
class FollowRequest:
    """One `--follow`: which functions, and how."""

    pattern: str
    following: Following
    matched: bool = False

    def fits(self, module: str, qualname: str) -> bool:
        return self.pattern in names_of(module, qualname) or matches(self.pattern, module, "", qualname)


class Follows:
    """All of them, asked about every function of the program as it is loaded."""

    def __init__(self, patterns: list[str], following: Following) -> None:
        for pattern in patterns:
            if not pattern.strip() or not pattern.replace(":", "").replace(".", "").strip():
                raise OptionError(
                    "bad-option", f"--follow {pattern!r}: a function is needed.", 'Write --follow "module:function".'
                )
        self.requests = [FollowRequest(pattern.strip(), following) for pattern in patterns]
        self._known: set[str] = set()

    def of(self, module: str, qualname: str) -> Follow | None:
        """How a function is followed; None if it was not asked for."""
        self._known.add(qualname.replace(".<locals>", ""))
        for request in self.requests:
            if request.fits(module, qualname):
                request.matched = True
                following = request.following
                return Follow(lean_calls.make, call_objects.entrance, following.names, following)
        return None

    def names_module(self, module: str) -> bool:
        """Whether a function of this very module was asked for, standard library or not."""
        return any(request.pattern.startswith((f"{module}.", f"{module}:")) for request in self.requests)

    def ledger(self, loaded_before: Collection[str]) -> list[Note]:
        """A line for each that matched no function; `loaded_before` are modules older than the program."""
        notes = []
        for request in self.requests:
            if not request.matched:
                hint = functions_hint(request.pattern, self._known, loaded_before)
                text = f"--follow {request.pattern!r}: no such function was loaded"
                text = f"{text}; {hint}" if hint else f"{text}."
                notes.append(Note("never-seen", request.pattern, text))
        return notes

"""What a constructor of an operator class does besides making its object: files it opens, random numbers it draws.

Told to `operators`, where constructors run. A bundle makes the object again elsewhere, and needs to know.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from clew import trouble

from . import digests, files_at_call

_listening = threading.local()
_installed = False


@dataclass(slots=True, eq=False)  # compared by identity: two constructors that did the same have two sets of notes
class Notes:
    """What was noticed while one constructor ran."""

    folder: str = ""  # that it ran in
    opened: dict[str, str] = field(default_factory=dict)  # a path as it was given → where that was
    looked: dict[str, str] = field(default_factory=dict)  # files that were looked for: whether they are there
    beyond: dict[str, str] = field(default_factory=dict)  # files that were opened in ways nobody can redirect
    written: set[str] = field(default_factory=set)
    random: dict[str, Any] = field(default_factory=dict)  # the states of generators that were drawn from
    state: dict[str, Any] | None = None  # digests of its attributes when it was done


@contextmanager
def constructing(notes: Notes, obj: Any) -> Iterator[None]:
    """Listen while a constructor runs in here."""
    from . import native_openers

    listen()
    stack: list[Notes] = _listening.__dict__.setdefault("stack", [])
    notes.folder = _here()
    before = _states()
    stack.append(notes)
    try:
        with native_openers.watched():
            yield
    finally:
        stack.remove(notes)
    after = _states()
    notes.random = {name: state for name, state in before.items() if not _same_state(state, after.get(name))}
    # Where a generator has come with a library that was imported in there, nobody knows what was drawn from it:
    # what the object holds is saved then, as if it had been changed.
    notes.state = {} if set(after) - set(before) else digests.digests(digests.attributes(obj))


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


# ---- files


def listen() -> None:
    """Hear which files are opened from now on."""
    global _installed
    if not _installed:
        _installed = True
        sys.addaudithook(_heard)  # it cannot be taken out again, and costs one look while nobody constructs


def _heard(event: str, args: tuple[Any, ...]) -> None:
    if event not in ("open", "os.listdir", "os.scandir", "sqlite3.connect", "subprocess.Popen"):
        return
    stack = getattr(_listening, "stack", None)
    try:
        if not stack:
            if event == "open" and isinstance(args[0], str) and not _writes(*args[1:3]):
                files_at_call.heard(args[0])
        elif event == "subprocess.Popen":
            _note_words(stack, args[1])
        else:
            _note(stack, event, args)
    except Exception:  # whatever is wrong with a path, it is not the user's program that must fail here
        return


def _note(stack: list[Notes], event: str, args: tuple[Any, ...]) -> None:
    given = args[0]
    if isinstance(given, bytes):
        given = os.fsdecode(given)
    if not isinstance(given, str):  # a descriptor that is open already
        return
    writes = event == "open" and _writes(*args[1:3])
    for notes in stack:
        place = os.path.normpath(os.path.join(notes.folder, given))
        if writes:
            notes.written.add(place)
        elif event == "sqlite3.connect":
            notes.beyond.setdefault(given, place)
        else:
            notes.opened.setdefault(given, place)


def _note_words(stack: list[Notes], command: Any) -> None:
    """Files that another program is told of: what it opens, nobody hears."""
    for word in command if isinstance(command, list | tuple) else [command]:
        given = os.fsdecode(word) if isinstance(word, str | bytes | os.PathLike) else ""
        for notes in stack:
            place = os.path.normpath(os.path.join(notes.folder, given))
            if given and os.path.isfile(place):
                notes.beyond.setdefault(given, place)


def noticed(path: str | os.PathLike[str]) -> None:
    """A file that a library opens by means of its own."""
    _note(getattr(_listening, "stack", []), "open", (os.fspath(path),))


@trouble.entry_point()
def looked(path: Any) -> None:
    """A file that is there was looked for."""
    stack = getattr(_listening, "stack", None)
    if stack and isinstance(path, str | os.PathLike):
        given = os.fsdecode(path)
        for notes in stack:
            notes.looked.setdefault(given, os.path.normpath(os.path.join(notes.folder, given)))


def led(given: str, place: str) -> None:
    """A path that was led into a bundle is known by the name it was asked for."""
    for notes in getattr(_listening, "stack", ()):
        notes.opened.setdefault(given, place)


def _writes(mode: Any = None, flags: Any = 0) -> bool:
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))


# ---- random numbers


def _states() -> dict[str, Any]:
    try:
        return random_states()
    except Exception:  # a library that is half imported, a generator of another kind
        return {}


def random_states() -> dict[str, Any]:
    """Where the generators of the libraries in use stand."""
    import random

    found: dict[str, Any] = {"random": random.getstate()}
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and hasattr(numpy, "random"):
        found["numpy"] = numpy.random.get_state()
    if torch is not None and hasattr(torch, "get_rng_state"):
        found["torch"] = torch.get_rng_state().numpy()
    return found


def set_random_states(states: dict[str, Any]) -> None:
    import random

    if "random" in states:
        random.setstate(states["random"])
    if "numpy" in states:
        import numpy

        numpy.random.set_state(states["numpy"])
    if "torch" in states:
        import torch

        torch.set_rng_state(torch.from_numpy(states["torch"]))


def reseed() -> None:
    """Let the generators of the libraries in use go on from elsewhere."""
    import random

    random.seed()
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and hasattr(numpy, "random"):
        numpy.random.seed()
    if torch is not None and hasattr(torch, "seed"):
        torch.seed()


def _same_state(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(_same_state(x, y) for x, y in zip(a, b, strict=True))
    equal = a == b
    return bool(equal.all()) if hasattr(equal, "all") else bool(equal)

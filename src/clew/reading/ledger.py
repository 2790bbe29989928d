"""Merges the notes of all processes of a run: what was requested but not seen, dropped or not kept, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, overload

from clew.records import Note

STILL_RUNNING = "the run still goes on: what it has not seen will be known when it ends"


class Ledger(Sequence[Note]):
    """The notes of a run. `str()` of it is what `clew show` prints.

    It states that nothing is missing only if the run has ended and all its records are present.
    """

    def __init__(self, notes: Iterable[Note], *, running: bool = False) -> None:
        self._notes = list(notes)
        self.running = running  # until the run ends, names may still be seen

    @classmethod
    def merged(
        cls,
        shards: Iterable[Iterable[Note]],
        happened: Callable[[Note], bool],
        incomplete: Iterable[str] = (),
        running: bool = False,
    ) -> Ledger:
        """Count equal notes as one, and drop those about names that another process saw (`happened`).

        `incomplete` gives reasons why records may be missing.
        """
        counts: dict[tuple[str, str, str], int] = {}
        for notes in shards:
            for note in notes:
                key = note.kind, note.subject, note.text
                counts[key] = counts.get(key, 0) + note.count
        merged_notes = (Note(kind, subject, text, count) for (kind, subject, text), count in counts.items())
        valid_notes = [note for note in merged_notes if not (note.kind.startswith("never-") and happened(note))]
        return cls([*valid_notes, *(Note("incomplete", "", reason) for reason in incomplete)], running=running)

    def __len__(self) -> int:
        return len(self._notes)

    @overload
    def __getitem__(self, index: int) -> Note: ...
    @overload
    def __getitem__(self, index: slice) -> Ledger: ...
    def __getitem__(self, index: int | slice) -> Any:
        return Ledger(self._notes[index]) if isinstance(index, slice) else self._notes[index]

    def __iter__(self) -> Iterator[Note]:
        return iter(self._notes)

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, (Ledger, list, tuple)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        if not self._notes:
            return STILL_RUNNING if self.running else "everything asked for was seen and kept"
        return "\n".join(map(line, self._notes))

    def __repr__(self) -> str:
        return f"<Ledger of {len(self)} notes>" if self._notes else "<Ledger: nothing to say>"


def line(note: Note) -> str:
    """One note as a line of text."""
    times = f" (×{note.count:,})" if note.count > 1 else ""
    return f"{note.kind}  {note.subject}: {note.text}{times}" if note.subject else f"{note.kind}  {note.text}{times}"

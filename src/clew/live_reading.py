"""How a run that is still being recorded is read: like any other, up to the moment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.errors import OptionError

if TYPE_CHECKING:
    from clew.reading import Run, Series

    _Base = Run
else:
    _Base = object  # reading is loaded on use


class ReadsLikeARun(_Base):
    """Gives what `Run` gives. For type checkers it is a `Run`."""

    def __init__(self) -> None:
        self.folder: Path | None = None  # None: not open, or nothing can be stored
        self._run: Run | None = None

    @property
    def path(self) -> Path:  # type: ignore[override]
        """The run's folder. None before the run is open and where nothing can be stored, which few programs ask."""
        return self.folder  # type: ignore[return-value]

    def flush(self) -> None:
        """Give everything recorded so far to the operating system."""
        raise NotImplementedError

    def reader(self) -> Run:
        """The run as readers see it, up to this moment."""
        from clew.reading import open_run

        if self.folder is None:
            raise OptionError(
                "run-not-stored", "this run is not stored, so it cannot be read.", "Is CLEW=0 set, or the disk full?"
            )
        self.flush()
        if self._run is None:
            self._run = open_run(self.folder)
        else:
            self._run.refresh()
        return self._run

    def __getitem__(self, name: str) -> Series:
        return self.reader()[name]

    def __contains__(self, name: object) -> bool:
        return name in self.reader()

    def __iter__(self) -> Iterator[str]:
        return iter(self.reader())

    def _repr_html_(self) -> str:
        return self.reader()._repr_html_()

    if not TYPE_CHECKING:  # a type checker takes the rest from Run, and sees a misspelt name

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            return getattr(self.reader(), name)

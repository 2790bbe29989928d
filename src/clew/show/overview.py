"""Gathers what `clew show` and notebooks show about a run and its names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clew.text.brief import brief, number

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from clew.reading.run import Run
    from clew.reading.series import ArrayStatistics, Series


@dataclass(frozen=True, slots=True)
class NameLine:
    """The data of one line about one name."""

    name: str
    count: int
    first: Any
    last: Any
    numbers: npt.NDArray[np.float64]  # drawn as a curve: its numbers, or the norms of its arrays
    places: list[tuple[str, str, int]]  # function, file, line
    arrays: ArrayStatistics | None = None  # set if it holds arrays and no numbers

    @property
    def change(self) -> str:
        """`0.9 → 0.1`; for arrays `float32[64, 64], norm 8.1 → 7.9`."""
        first, last = brief(self.first, 20), brief(self.last, 20)
        values = first if self.count == 1 or (self.arrays and first == last) else f"{first} → {last}"
        if self.arrays is None:
            return values
        norms = [_format_norm(value) for value in self.arrays.norms[[0, -1]].tolist()]
        return f"{values}, norm {norms[0] if self.count == 1 else ' → '.join(norms)}"

    @property
    def complete(self) -> bool:
        """Whether `numbers` is complete rather than a sample."""
        return self.arrays is None or self.arrays.complete

    @property
    def extremes(self) -> tuple[float, float] | None:
        """Smallest and largest finite number, if there is any."""
        import numpy as np

        if self.arrays is not None:
            low, high = self.arrays.low, self.arrays.high
            return None if low is None or high is None else (low, high)
        finite = self.numbers[np.isfinite(self.numbers)]
        return (float(finite.min()), float(finite.max())) if len(finite) else None

    @property
    def range(self) -> str:
        """`0.1 … 0.9`; preceded by ~ for a sample."""
        extremes = self.extremes
        if extremes is None:
            return ""
        shown = _format_norm if self.arrays is not None else number
        return f"{'' if self.complete else '~'}{shown(extremes[0])} … {shown(extremes[1])}"

    @property
    def where(self) -> str:
        """`train:12, 15`."""
        out: dict[str, list[int]] = {}
        for function, _, line in self.places:
            out.setdefault(function, []).append(line)
        texts = [f"{function}:{_first_lines(sorted(set(lines)))}" for function, lines in out.items()]
        return "; ".join(texts[:2]) + (f" and {len(texts) - 2} more" if len(texts) > 2 else "")


def _first_lines(lines: list[int]) -> str:
    return ", ".join(map(str, lines[:3])) + (", …" if len(lines) > 3 else "")


def name_line(series: Series) -> NameLine:
    """The line about a series."""
    numbers = series.points()
    arrays = None if len(numbers) else series.array_statistics()
    shown = numbers if arrays is None else arrays.norms
    return NameLine(series.name, len(series), series[0], series[-1], shown, series.places, arrays)


def _format_norm(value: float) -> str:
    return f"{value:.4g}"


def facts(run: Run) -> dict[str, str]:
    """The head of a run: status, times, command, versions and so on."""
    from clew.text.brief import duration

    meta = run.meta
    git, tags = (meta[key] if isinstance(meta.get(key), dict) else {} for key in ("git", "tags"))
    commit = str(git.get("commit") or "")[:10]
    texts = {
        "status": run.status + (f": {meta['error']}" if meta.get("error") else ""),
        "started": str(meta.get("started") or ""),
        "duration": duration(run.duration) if run.duration is not None else "",
        "command": command(run),
        "git": " ".join(filter(None, [commit, str(git.get("branch") or ""), "(dirty)" if git.get("dirty") else ""])),
        "python": str(meta.get("python") or ""),
        "host": " ".join(filter(None, [str(meta.get("host") or ""), str(meta.get("platform") or "")])),
        "tags": ", ".join(f"{key}={value}" for key, value in tags.items()),
        "traces": _traces(run),
        "folder": str(run.path),
    }
    return {key: text for key, text in texts.items() if text}


def _traces(run: Run) -> str:
    """A summary of the pipeline traces, if there are any."""
    traces = run.traces
    if not traces:
        return ""
    last = traces[-1]
    many = f"{len(traces)}, the last one: " if len(traces) > 1 else ""
    return f"{many}{len(last.items)} items through {len(last)} stages (clew show {run.path.name} --trace)"


def command(run: Run) -> str:
    """The command that started the run."""
    argv = run.meta.get("argv")
    return " ".join(map(str, argv)) if isinstance(argv, list) else ""

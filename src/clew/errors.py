"""The family of errors a user can cause. Each has a slug, and each slug a paragraph in docs/errors.md."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ClewError(Exception):
    """An error with a slug, a sentence that says what was wrong and where, and a remedy."""

    def __init__(self, slug: str, what: str, remedy: str = "") -> None:
        self.slug = slug
        self.what = what
        self.remedy = remedy
        super().__init__(f"{what} {remedy}".strip())


class ExpressionError(ClewError, ValueError):
    """An expression given to a probe is not a Python expression."""


class OptionError(ClewError, TypeError, ValueError):
    """An option given to a probe, a run or a reader does not make sense."""


class TargetError(ClewError, TypeError):
    """A probe was put on something it cannot be put on."""


class UnsupportedPythonError(ClewError, ImportError):
    """clew cannot record on this Python."""


class NotARunError(ClewError, FileNotFoundError):
    """A path does not lead to a run."""


class FormatError(ClewError, ValueError):
    """A run is of a newer format, or so damaged that nothing of it can be read."""


class UnknownNameError(ClewError, KeyError):
    """A name that was never recorded was asked for."""

    def __str__(self) -> str:  # KeyError would show the repr of the sentence
        return f"{self.what} {self.remedy}".strip()


class AmbiguousNameError(UnknownNameError):
    """A name that several series have was asked for."""


class UnknownPartError(UnknownNameError, AttributeError, IndexError):
    """A stage, call, field or item that is not in a trace was asked for."""


class RerunError(ClewError, RuntimeError):
    """A recorded call cannot be made again as it was."""


class NonfiniteError(ClewError, FloatingPointError):
    """A tracer that was told to raise has found the birth of a NaN or Inf."""


class GraphError(ClewError, ValueError):
    """A pipeline cannot be recorded, or a graph cannot be run, saved or loaded as asked."""


class NotABundleError(GraphError, FileNotFoundError):
    """A path does not lead to a saved graph."""


class SignatureError(GraphError, TypeError, KeyError, IndexError, AttributeError, RuntimeError):
    """A graph was run with an input that is not like those it was recorded with.

    Python, NumPy and torch fail with one of these errors then: whoever waits for one of them gets this.
    """

    def __str__(self) -> str:  # KeyError would show the repr of the sentence
        return f"{self.what} {self.remedy}".strip()


class GuardError(GraphError):
    """A graph was run with an input for which the pipeline would have decided otherwise than it did when recorded."""

    @classmethod
    def of(cls, kind: str, where: object, condition: str, expected: list[object], seen: object) -> GuardError:
        """The decision, with both values."""
        questions = {"truth": "was", "length": "had the length", "type": "was of type", "value": "was"}
        was = " or ".join(f"{one!r}" for one in expected)
        what = f"{where}: `{condition}` decided by a value that {questions[kind]} {was}, and now is {seen!r}."
        remedy = "The graph holds for inputs that decide as its examples did: record with more of them."
        if kind == "length" and "for" in condition.split():
            remedy = (
                "One step could not do this loop exactly (it changes an object, or a list that something else refers "
                "to, for example), so it is unrolled, and holds for the lengths of its examples. Make a clew.op of a "
                "function that has the loop, or see under Loops in docs/graphs.md what else keeps it from being a step."
            )
        error = GuardError("guard", what, remedy)
        error.expected, error.seen, error.condition = expected, seen, condition
        error.file, error.line = getattr(where, "file", ""), getattr(where, "line", 0)
        return error

    file: str  # where the pipeline decides
    line: int
    condition: str  # that line, as it is written
    expected: list[object]  # what it decided by when it was recorded
    seen: object  # and now


class PageError(ClewError, RuntimeError):
    """The page or a report cannot be made, or cannot answer, as asked."""


class ExportError(ClewError, OSError):
    """The file or folder of an export cannot be written."""


class MissingLibraryError(ClewError, ImportError):
    """Something was asked for that needs a library which is not installed."""


def nearest(name: str, known: Iterable[str]) -> str:
    """'did you mean `loss`?', or what there is, for the remedy of an unknown name."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"did you mean `{_visible(close[0])}`?"
    if not names:
        return "nothing was recorded."
    shown = ", ".join(f"`{_visible(n)}`" for n in names[:8])
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"there is {shown}{more}."


def _visible(name: str) -> str:
    """A name of a run that anybody may have written: it cannot begin a line, or act on the terminal."""
    if name.isprintable():
        return name
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in name)

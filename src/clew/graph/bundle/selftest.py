"""Whether a bundle gives what the graph gave: it is loaded in a fresh process, in an empty folder, without the project.

`expected_steps` runs the graph here, `check` runs the bundle there and compares, `main` is what runs there.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew import env
from clew.errors import ClewError, GraphError
from clew.graph import operations
from clew.graph.brief_values import visible
from clew.graph.drawing.boxes import label
from clew.graph.nodes import Block, Step, refs_in
from clew.graph.operators import Operator
from clew.graph.running.runners import walk
from clew.instrument.library_code import is_library

from . import constructors, fingerprints, kept_examples, library_settings
from .layout import Bundle

if TYPE_CHECKING:
    from clew.graph.graph import Graph

_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from clew.graph.bundle import selftest; "
_START += "selftest.main(*sys.argv[2:])"
_REMEDY = (
    "Save with test=False if it may differ (random numbers, the clock), or mark the operator with "
    "clew.op(side_effects=True): the test stops before it."
)
_SORTED = (
    "The order of a set of texts is another in each process: go through sorted(...) instead of the set, "
    "or save with test=False."
)


_NOT_COMPARED = ["type", "a value that goes by the clock"]
_TOLD_EVERY = 0.2  # seconds
_progress: list[str] = []  # what is being done now


class _StopError(BaseException):
    """A step with side effects comes next: it is not done for a test."""


def expected_steps(graph: Graph, feed: dict[str, Any]) -> list[Any]:
    """What each step gives for an example, as fingerprints: up to the first that has side effects."""
    steps: list[Any] = []
    varying: set[int] = set()  # values that go by the clock: they differ each time, and so does what is made of them

    def around(step: Step, do: Callable[[], Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        if isinstance(step.target, Operator) and step.target.side_effects:
            raise _StopError
        place = [step.id, label(step), f"{os.path.basename(step.where.file)}:{step.where.line}"]
        _progress[:] = [f"step {step.id} ({label(step)}), {place[2]}"]
        if step.refs & varying or (step.kind == "function" and not step.refs and operations.by_clock(step.target)):
            varying.add(step.id)
        try:
            result = do()
        except Exception as error:
            steps.append([*place, ["error", f"{type(error).__qualname__}: {error}"]])
            raise
        steps.append([*place, _NOT_COMPARED if step.id in varying else fingerprints.fingerprint(result)])
        return result

    try:
        given = graph._given(kept_examples.copied(feed))
        output = walk(graph._inputs, graph._block, given, around)
    except _StopError:
        return steps
    except Exception as error:
        return [*steps, [-1, "the graph", "", ["error", f"{type(error).__qualname__}: {error}"]]]
    is_varying = any(ref.id in varying for block in _blocks(graph._block) for ref in refs_in(block.output))
    return [*steps, [-1, "the output", "", _NOT_COMPARED if is_varying else fingerprints.fingerprint(output)]]


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for _, inner in block.branches:
        yield from _blocks(inner)


def expected_here(graph: Graph, feeds: list[dict[str, Any]], *, reseeded: bool = False) -> list[list[Any]]:
    """What the steps give for each example in this process, whose random generators stay where they are."""
    states = constructors.random_states()
    try:
        if reseeded:
            constructors.reseed()
        return [expected_steps(graph, feed) for feed in feeds]
    finally:
        constructors.set_random_states(states)


def check(
    bundle: Bundle,
    again: Callable[[int], list[Any]] | None = None,
    *,
    name: str = "",
    seconds: float | None = None,
    on_notice: Callable[[str], None] = lambda notice: None,
) -> int:
    """Refuse a bundle that gives something else; how many examples were run.

    again       runs an example once more in this process: then a step that differs from run to run is told as such
    name        what messages call it: a bundle that is being saved is not in its place yet
    seconds     how long it may take (default: CLEW_SELFTEST_TIMEOUT, or ten minutes)
    on_notice   called with what the author should know though nothing differs
    """
    name = name or str(bundle.path)
    examples = kept_examples.expected(bundle)
    answer = _run_elsewhere(bundle, examples, env.self_test_seconds() if seconds is None else seconds)
    if "timeout" in answer:
        what = f"the test of {name} took longer than {answer['timeout']:g} seconds, and was ended {answer['at']}."
        remedy = (
            "Give it more time: graph.save(..., test=seconds) or CLEW_SELFTEST_TIMEOUT; test=False saves without it."
        )
        raise GraphError("bundle-test", visible(what), remedy)
    if "error" in answer:
        what = f"{name} cannot be loaded in a fresh process without the project: {answer['error']}"
        remedy = "Make what it needs part of the graph, or save it with test=False."
        raise GraphError("bundle-test", visible(what), remedy)
    answers = answer["examples"]
    for number, (example, got) in enumerate(zip(examples, answers, strict=True)):
        index = _first_difference(example["steps"], got)
        if index is not None:
            raise _difference(name, number, example["steps"], got, index, again)
    notice = library_settings.notice(library_settings.here(), answer["settings"])
    if notice is not None:
        on_notice(notice)
    return sum(got is not None for got in answers)


def _first_difference(expected: list[Any], got: list[Any] | None) -> int | None:
    """Where two runs of an example differ. What fails here, and did not when it was recorded, tells nothing."""
    tolerant = False
    if got is None:  # it needs a file that is not there
        return None
    for index, (a, b) in enumerate(zip(expected, got, strict=False)):
        if a[3][0] == "error":
            return None
        tolerant = tolerant or fingerprints.has_tensor(a[3])
        if a[0] != b[0] or not fingerprints.equal(a[3], b[3], tolerant):
            return index
    return None if len(expected) == len(got) else min(len(expected), len(got))


def _difference(
    name: str,
    number: int,
    expected: list[Any],
    got: list[Any],
    index: int,
    again: Callable[[int], list[Any]] | None,
) -> GraphError:
    step = expected[index] if index < len(expected) else got[index]
    differing: tuple[Any, Any] = ("", "")
    values = ["something", "nothing"] if index >= len(got) else ["nothing", "something"]
    if index < min(len(expected), len(got)):
        differing = fingerprints.narrowed(expected[index][3], got[index][3], False)
        values = list(map(fingerprints.shown, differing))
    place = f"step {step[0]} ({step[1]}), {step[2]}," if step[0] >= 0 else f"{step[1]}"
    what = f"example {number + 1}: {place} is {values[0]} here and {values[1]} in {name}, loaded elsewhere."
    if fingerprints.is_reordered(*differing):
        what += " These are the same items in another order."
        return GraphError("bundle-test", visible(what), _SORTED)
    if again is not None and _first_difference(expected, again(number)) is not None:
        what += " It also differs from run to run in this process: it depends on random numbers, the clock or a state."
    return GraphError("bundle-test", visible(what), _REMEDY)


def _run_elsewhere(bundle: Bundle, examples: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="clew-test-", ignore_cleanup_errors=True) as folder:
        answer, errors, empty = Path(folder, "answer.json"), Path(folder, "errors"), Path(folder, "empty")
        empty.mkdir()
        _link_files(empty, [file for example in examples for file in example["files"]])
        path = os.path.abspath(bundle.path)
        command = [sys.executable, "-I", "-c", _START, json.dumps(_library_path()), path, str(answer), str(_threads())]
        environment = {**os.environ, "CLEW_DIR": folder, "CLEW_QUIET": "1"}
        code = _run(command, empty, environment, errors, seconds)
        if code is None:
            at = Path(f"{answer}.at")
            return {"timeout": seconds, "at": at.read_text() if at.exists() else "while Python was starting"}
        if code or not answer.exists():
            last = errors.read_text(errors="replace").strip().splitlines()[-1:]
            return {"error": f"the process ended with {code}: {' '.join(last)}."}
        result: dict[str, Any] = json.loads(answer.read_text())
        return result


def _run(command: list[str], folder: Path, environment: dict[str, str], errors: Path, seconds: float) -> int | None:
    """How a process ended; None if it has taken too long. It and what it has started are ended with this function."""
    with errors.open("wb") as file:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=file,
            start_new_session=True,
        )
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                _kill(process)
                process.wait()


def _kill(process: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def _link_files(folder: Path, files: list[str]) -> None:
    """Files that examples name are inputs: they are where the examples say, if they are here."""
    for file in files:
        place = folder / file
        if not os.path.isabs(file) and os.path.exists(file) and not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(os.path.abspath(file))


def _library_path() -> list[str]:
    """Where libraries are found, and nothing of the user's: the standard library, installed packages, clew."""
    is_stdlib = re.compile(r"python\d+\.zip").fullmatch
    libraries = [
        path for path in sys.path if is_library(os.path.join(path, "x.py")) or is_stdlib(os.path.basename(path))
    ]
    return [*libraries, os.path.dirname(os.path.dirname(env.PACKAGE))]


def _threads() -> int:
    """How torch splits a sum depends on its threads."""
    torch = sys.modules.get("torch")
    return int(torch.get_num_threads()) if torch is not None and hasattr(torch, "get_num_threads") else 0


# ---- in the fresh process --------------------------------------------------------------------------------------------


def main(path: str, answer: str, threads: str) -> None:
    """Load a bundle, run its examples, and write what each step gave."""
    threading.Thread(target=_tell_progress, args=(f"{answer}.at",), daemon=True).start()
    # Projects that are installed for editing have finders of their own.
    sys.meta_path[:] = [one for one in sys.meta_path if not str(one.__module__).startswith("__editable__")]
    try:
        result: dict[str, Any] = {"examples": _examples(path, int(threads)), "settings": library_settings.here()}
    except ClewError as error:
        result = {"error": str(error)}
    Path(answer).write_text(json.dumps(result))


def _tell_progress(path: str) -> None:
    """Where the test is, for the message of one that takes too long."""
    while True:
        Path(path).write_text(f"in {_progress[0]}" if _progress else "while it was being loaded")
        time.sleep(_TOLD_EVERY)


def _examples(path: str, threads: int) -> list[list[Any] | None]:
    from .loading import load

    graph = load(path, trusted=True)
    torch = sys.modules.get("torch")
    if torch is not None and threads:
        torch.set_num_threads(threads)
    world = vars(graph)["_world"]
    needed = [example["files"] for example in kept_examples.expected(world.bundle)]
    feeds = kept_examples.decoded(world.bundle, world.decoder)
    return [
        expected_steps(graph, feed) if all(map(os.path.exists, files)) else None
        for feed, files in zip(feeds, needed, strict=True)
    ]

"""Programs nobody has thought of: the same results and exceptions under watch, and the changes a slow oracle sees."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
import types
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from hypothesis import Phase, given, note, settings

import clew
from clew.records import DELETED, NotKept

from .oracle import GONE, OPAQUE, Oracle, Seen, by_name, exact
from .programs import programs

EXAMPLES = int(os.environ.get("CLEW_EXAMPLES", "70" if sys.version_info[:2] == (3, 11) else "25"))

# making a failing program smaller takes minutes: only when somebody is there to read it
PHASES = [Phase.generate, Phase.shrink] if "CLEW_SHRINK" in os.environ else [Phase.generate]


def load(text: str, path: Path) -> Callable[..., Any]:
    spec = spec_from_file_location("program", path)
    assert spec is not None
    module = module_from_spec(spec)  # tracebacks of a module without a spec warn, since 3.15
    exec(compile(text, str(path), "exec", dont_inherit=True), vars(module))
    main: Callable[..., Any] = module.main
    return main


def outcome(main: Callable[..., Any], call: Callable[..., Any]) -> tuple[Any, str]:
    """What a program gives: its values, exactly, or its exception as people see it; and its arguments afterwards."""
    xs, ys, d = [1, 2], ["y"], {"k": 0}
    result: Any
    try:
        result = call(main, 1, 2.5, xs, ys, d)
    except Exception as error:
        result = None
        shown = "".join(traceback.format_exception(type(error), error, _inside(error, main)))
    else:
        shown = ""
    return (exact(result), exact(xs), exact(ys), exact(d)), shown


def _inside(error: BaseException, main: Callable[..., Any]) -> Any:
    """The traceback from the program's own file on."""
    here = error.__traceback__
    while here is not None and here.tb_frame.f_code.co_filename != main.__code__.co_filename:
        here = here.tb_next
    return here


def drive(main: Callable[..., Any], a: Any, b: Any, xs: Any, ys: Any, d: Any) -> Any:
    """Call a function; of a generator, take (and send) up to 30 values."""
    given = main(a, b, xs, ys=ys, d=d)
    if not isinstance(given, types.GeneratorType):
        return given
    taken = []
    try:
        taken.append(next(given))
        for number in range(30):
            taken.append(given.send(number))
        given.close()
    except StopIteration as stop:
        taken.append(stop.value)
    return taken


def recorded(run: clew.Run) -> list[Seen]:
    changes = run.calls("main")[0].changes
    return [Seen(change.name, _as_oracle(change.value), change.line) for change in changes]


def _as_oracle(value: Any) -> Any:
    if value is DELETED:
        return GONE
    return OPAQUE if isinstance(value, NotKept) else exact(value)


def without_repeats(changes: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Two things the oracle cannot tell apart in a row are one."""
    return {
        name: [each for at, each in enumerate(found) if not (at and each[0] == found[at - 1][0] == OPAQUE)]
        for name, found in changes.items()
    }


@settings(max_examples=EXAMPLES, phases=PHASES)
@given(programs())
def test_a_watched_program_gives_the_same_and_records_what_a_slow_oracle_sees(text: str) -> None:
    note("\n".join(f"{number:3} {line}" for number, line in enumerate(text.splitlines(), 1)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "program.py")
        path.write_text(text)
        plain = outcome(load(text, path), drive)
        traced = load(text, path)
        oracle = Oracle(traced.__code__, not_its_own=frozenset({"v"}))
        assert outcome(traced, lambda main, *args: oracle.run(drive, main, *args)) == plain

        watched = clew.watch("*")(load(text, path))
        assert ".clew_call" in watched.__code__.co_varnames, "the source was not found"
        with clew.run(path=Path(folder, "run")) as run:
            assert outcome(watched, drive) == plain
        found = without_repeats(by_name(recorded(clew.open(run.path))))
        expected = without_repeats(by_name(oracle.calls[0]))
        assert found == expected

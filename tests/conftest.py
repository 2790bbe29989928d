"""What holds for every test: clew's failures raise, runs go to their own folders, no library is left out quietly."""

from __future__ import annotations

import functools
import gc
import importlib
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from clew.probes.follow.scope import Scope

os.environ["CLEW_STRICT"] = "1"
os.environ.setdefault("CLEW_SELFTEST", "0")  # a process for each bundle: the tests of that switch it on
for _name in ("CLEW", "CLEW_DIR", "CLEW_QUIET"):
    os.environ.pop(_name, None)

#: A test file whose name holds one of these words needs that library.
LIBRARIES = {
    "torch": "torch",
    "pandas": "pandas",
    "hdf5": "h5py",
    "h5py": "h5py",
    "matplotlib": "matplotlib",
    "zarr": "zarr",
    "safetensors": "safetensors",
    "pillow": "PIL",
    "dask": "distributed",
    "sklearn": "sklearn",
}

#: On the primary Python every test runs, and a missing library fails the tests that need it.
PRIMARY = os.environ.get("CLEW_PRIMARY", str(int(sys.version_info[:2] == (3, 11)))) == "1"

MISSING = {word for word, library in LIBRARIES.items() if importlib.util.find_spec(library) is None}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also the tests marked slow")


def pytest_configure(config: pytest.Config) -> None:
    _heed_signals()
    if PRIMARY and "torch" in MISSING:
        raise pytest.UsageError("torch is not installed on the primary Python. `make test` installs it.")


def _heed_signals() -> None:
    """A suite started in the background (`make test &`, nohup) ignores these, and so would every program it starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("SIGQUIT", "SIGHUP", "SIGTERM"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leaves out the files that need a library this (secondary) environment does not have; None means no opinion."""
    if PRIMARY or collection_path.suffix != ".py":
        return None
    if collection_path.name == "test_architecture.py":
        return True  # it reads the sources, which are the same on every Python
    return True if MISSING.intersection(collection_path.stem.split("_")) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What collecting imports is there to stay: the collector of garbage goes through it no more."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        _set_aside()


def _set_aside() -> None:
    """With torch and all the tests in memory, each full collection took half a second, and there were hundreds."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects slow tests unless asked for; deselected is counted in the closing line."""
    if config.getoption("--slow"):
        return
    slow = [item for item in items if "slow" in item.keywords]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if "slow" not in item.keywords]


def pytest_report_header() -> str:
    left_out = ", ".join(sorted({LIBRARIES[word] for word in MISSING}))
    return f"clew: {'primary' if PRIMARY else 'secondary'} environment" + (f", without {left_out}" if left_out else "")


def _as_before() -> None:
    """Closes the run a test left to the interpreter's exit, and forgets what it said: the next test begins afresh."""
    recording = sys.modules.get("clew.recording")
    if recording is not None:
        recording.on()
        while (run := recording.current()) is not None:
            run.__exit__(None, None, None)
        recording._later_notes.clear()
        recording._later_tags.clear()
    trouble = sys.modules.get("clew.trouble")
    if trouble is not None:
        trouble.forget()
    _end_programs()


def _end_programs() -> None:
    """`clew run` in the test's own process instruments all that is imported later, as it should in a process of its
    own. With hundreds of such tests each import of a later one would be instrumented hundreds of times."""
    program = sys.modules.get("clew.probes.watch.unchanged_program")
    if program is not None:
        sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder) is not program._Finder]
        acts = sys.modules["clew.instrument.received_functions"]._acts
        acts[:] = [act for act in acts if not isinstance(getattr(act, "__self__", None), program.Program)]
    models = sys.modules.get("clew.probes.model.unchanged_program")
    if models is not None:
        module_calls = sys.modules["clew.instrument.module_calls"]
        for finder in list(module_calls._finders):
            module_calls.find_no_more(finder)
    children = sys.modules.get("clew.recorder.child_processes")
    if children is not None:
        children._suppliers.pop("clew.commands.run", None)


def _instrumented_stages() -> list[object]:
    """What `clew.stage.instrument` was asked for: as long as its function lives, which may be one of the library's."""
    stages = sys.modules.get("clew.probes.pipeline.stages")
    return [] if stages is None else [known for known in stages._registered if known.again]


def _forget_stages_but(before: list[object]) -> None:
    stages = sys.modules.get("clew.probes.pipeline.stages")
    if stages is not None:
        stages._registered[:] = [known for known in stages._registered if not known.again or known in before]


@pytest.fixture(autouse=True, scope="module")
def other_tests_are_no_program(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """A followed program is the test's own file, and those it has written: rewriting the functions of all the others,
    CPython's test modules among them, takes minutes."""
    from clew.probes.follow import scope

    own, users, began = str(request.path), scope.is_users, time.time()
    elsewhere = (str(Path(__file__).parent) + os.sep, str(tmp_path_factory.getbasetemp().parent) + os.sep)

    @functools.cache
    def is_users(file: str) -> bool:
        if file != own and file.startswith(elsewhere) and not (os.path.exists(file) and os.stat(file).st_ctime > began):
            return False
        return users(file)

    scope.is_users = is_users  # type: ignore[assignment]
    yield
    scope.is_users = users


@pytest.fixture(autouse=True, scope="module")
def nothing_is_hidden_from_following() -> Iterator[None]:
    """`clew.follow` asks the collector for all functions, which are those not set aside: what follows takes all back,
    and so it stays until the module's end."""
    following = importlib.import_module("clew.probes.follow.following")  # there is a function of that name, too
    all_functions = following._all_functions

    def of_everything(scope: Scope) -> list[FunctionType]:
        gc.unfreeze()
        return all_functions(scope)

    following._all_functions = of_everything  # type: ignore[attr-defined]
    yield
    following._all_functions = all_functions  # type: ignore[attr-defined]
    if not gc.get_freeze_count():
        _set_aside()


@pytest.fixture(autouse=True)
def runs_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder this test's runs are kept in, as `CLEW_DIR`."""
    folder = tmp_path_factory.mktemp("run", numbered=True) / "clew_runs"
    os.environ["CLEW_DIR"] = str(folder)
    stages_before = _instrumented_stages()
    yield folder
    _as_before()
    _forget_stages_but(stages_before)
    os.environ.pop("CLEW_DIR", None)


def _hypothesis_profiles() -> None:
    from hypothesis import HealthCheck, settings

    # No deadline: a test of the suite never measures time. Derandomised: the same commit gives the same verdict.
    # On the other Pythons fewer examples, which are the first of the same: CI has fifteen minutes for all of them.
    # (A test that wants more or fewer takes its share of this, as `settings().max_examples * 3 // 2`.)
    settings.register_profile(
        "suite",
        max_examples=100 if PRIMARY else 25,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("suite")


_hypothesis_profiles()


@pytest.fixture
def no_garbage(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For tests that fill the stack. Finalisers and callbacks of the garbage collector that run there fail, and pytest
    fails when it is told so."""
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)
    gc.collect()
    gc.disable()
    yield
    gc.enable()

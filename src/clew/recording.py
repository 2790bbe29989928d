"""A run being recorded: opening, closing, which one is current, and the switches.

A run opens by itself at the first record and closes at exit; `clew.run(...)` names one and bounds it. Hot code asks
only `recorder()`.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from clew import env, metadata, trouble
from clew.errors import OptionError
from clew.recorder import ledger
from clew.recorder.endings import how_it_ended
from clew.recorder.recorder import Recorder
from clew.records import Note
from clew.sizes import parse_size
from clew.values import AUTO, Keep, parse_keep

if TYPE_CHECKING:
    from clew.history import Run
    from clew.recorder.live import LiveCall

DISK = 10 * 2**30
MEMORY = 512 * 2**20
JOIN = "CLEW_RUN"  # tells processes that this one starts which run they belong to

_stack: list[Recording] = []  # the innermost is current
_recorder: Recorder | None = None  # of the innermost: what hot code asks for
_opening: Recorder | None = None  # while a run is being opened: takes what is recorded on the way, and drops it
_lock = threading.RLock()
_on = True
_switches: list[Callable[[bool], None]] = []
_later_notes: list[Note] = []
_later_tags: dict[str, Any] = {}
_ended_with: BaseException | None = None


class Recording:
    """A run that is being recorded; reads like any other run, also while it goes on."""

    def __init__(
        self,
        name: str | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
        tags: Mapping[str, Any] | None = None,
        keep: Any = None,
        disk: int | str | None = DISK,
        memory: int | str = MEMORY,
    ) -> None:
        self.name = name
        self.path: Path | None = None
        self._wanted = Path(path).absolute() if path is not None else None
        self._tags = dict(tags or {})
        self._keep = _keep_by_name(keep)
        self._disk = None if disk is None else parse_size(disk, "disk")
        self._memory = parse_size(memory, "memory")
        self._meta: dict[str, Any] = {}
        self._owner = 0  # the process that writes run.json
        self._recorder: Recorder | None = None
        self._reader: Run | None = None
        self._more_notes: Callable[[], list[Note]] = list

    # ---- opening and closing --------------------------------------------------------------------------------------

    def __enter__(self) -> Recording:
        if env.enabled():
            self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._recorder is not None:
            how, what, code = how_it_ended(error)
            self._close(how, what, code)

    def _open(self) -> None:
        global _opening
        with _lock:
            _opening = Recorder(Path())
            _opening.dead = "clew's own work"
            _opening.close()
            try:
                self._open_now()
            finally:
                _opening = None

    def _open_now(self) -> None:
        global _recorder
        with _lock:
            if self._recorder is not None:
                raise OptionError("run-entered-twice", "this run is already open.", "Make another with clew.run().")
            _prepare_exit()
            self._meta = metadata.at_start(self.name, {**_later_tags, **self._tags})
            self._owner = os.getpid()
            self._make_folder()
            self._recorder = Recorder(self.path or Path(), keep=self._keep_for, disk=self._disk, memory=self._memory)
            self._recorder.paused = not _on
            if self.path is None:
                self._recorder.dead = "no folder"
            for note in _later_notes:
                self._recorder.note(note)
            _stack.append(self)
            _recorder = self._recorder
            if self.path is not None:
                os.environ[JOIN] = str(self.path)
                threading.Thread(target=self._look_up_git, name="clew-git", daemon=True).start()

    def _make_folder(self) -> None:
        from clew.store.folder import new_run_folder, write_meta

        try:
            if self._wanted is None:
                folder = new_run_folder(env.runs_folder(), self._meta["name"], datetime.now())
            else:
                folder = self._wanted
                folder.mkdir(parents=True, exist_ok=True)
                if any(folder.iterdir()):
                    raise OptionError(
                        "run-folder-taken", f"{folder} is not empty.", "Give clew.run(path=...) a new folder."
                    )
            write_meta(folder, self._meta)
            self.path = folder
        except OSError as error:
            trouble.report(
                f"no-folder:{self._wanted or env.runs_folder()}",
                f"no run can be stored in {self._wanted or env.runs_folder()}",
                "Your program goes on unrecorded. Choose another folder with CLEW_DIR or clew.run(path=...).",
                error,
            )

    def _join(self, folder: Path) -> None:
        """Record into a run that another process has opened: a shard of its own, the same folder."""
        global _recorder
        with _lock:
            _prepare_exit()
            self.path = folder
            self._recorder = Recorder(folder, keep=self._keep_for, disk=self._disk, memory=self._memory)
            _stack.append(self)
            _recorder = self._recorder

    def _look_up_git(self) -> None:
        found = metadata.git(self._meta["cwd"])
        with _lock:
            if self._meta["how"] == "running":
                self._meta["git"] = found
                self._write_meta()

    def _close(self, how: str, error: str | None = None, code: int | None = None) -> None:
        global _recorder
        with _lock:
            if self not in _stack:
                return
            recorder = self._recorder
            assert recorder is not None
            notes: list[Note] = []
            if self._owner == os.getpid() and not recorder.dead:
                notes = [*self._more_notes(), *ledger.at_end(recorder)]
                for note in notes:
                    recorder.note(note)
            recorder.close()
            _stack.remove(self)
            _recorder = _stack[-1]._recorder if _stack else None
            if self._owner != os.getpid():
                return
            if os.environ.get(JOIN) == str(self.path):
                os.environ.pop(JOIN, None)
            now = time.time_ns()
            self._meta.update(
                ended=metadata.iso(now), ended_ns=now, how=how, error=error, exit=code, packages=metadata.packages()
            )
            if self._meta["git"] is None:
                self._meta["git"] = metadata.git(self._meta["cwd"])
            self._write_meta()
        line = ledger.exit_line(notes) if how == "finished" else ""  # a failed program has seen little, and says why
        if line and not env.quiet():
            trouble.report(f"ledger:{self.path}", line, f"`clew show {self.path}` has the whole ledger.")

    def _write_meta(self) -> None:
        from clew.store.folder import write_meta

        if self.path is None or self._owner != os.getpid():
            return
        try:
            write_meta(self.path, self._meta)
        except OSError as error:
            trouble.report(f"meta:{self.path}", f"run.json in {self.path} could not be written", "", error)

    # ---- policies -------------------------------------------------------------------------------------------------

    def _keep_for(self, name: str) -> Keep:
        for pattern, keep in self._keep.items():
            if pattern == name or fnmatchcase(name, pattern):
                return keep
        return AUTO

    def tag(self, **tags: Any) -> None:
        """Put tags on the run."""
        with _lock:
            self._tags.update(tags)
            if self._meta:
                self._meta["tags"] = {**self._meta["tags"], **tags}
                self._write_meta()

    # ---- reading --------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Give everything recorded so far to the operating system."""
        if self._recorder is not None:
            self._recorder.flush()

    def reader(self) -> Run:
        """The run as readers see it, up to this moment."""
        from clew.history import open_run

        if self.path is None:
            raise OptionError(
                "run-not-stored", "this run is not stored, so it cannot be read.", "Is CLEW=0 set, or the disk full?"
            )
        self.flush()
        if self._reader is None:
            self._reader = open_run(self.path)
        else:
            self._reader.refresh()
        return self._reader

    def __getitem__(self, name: str) -> Any:
        return self.reader()[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.reader(), name)

    def __repr__(self) -> str:
        state = self._meta.get("how", "not open")
        return f"<clew run {self._meta.get('name') or self.name or ''} {state} {self.path or ''}>".replace("  ", " ")


def _keep_by_name(given: Any) -> dict[str, Keep]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {str(name): parse_keep(policy) for name, policy in given.items()}
    return {"*": parse_keep(given)}


# ---- the current run -------------------------------------------------------------------------------------------------


def recorder() -> Recorder:
    """Hot: where records go. Opens a run if there is none."""
    return _recorder if _recorder is not None else _open_by_itself()


def _open_by_itself() -> Recorder:
    with _lock:
        if _opening is not None:
            return _opening  # opening a run has led into a function that is watched
        if _recorder is None:
            recording = Recording()
            inherited = os.environ.get(JOIN)
            if inherited and _started_by_multiprocessing() and Path(inherited, "run.json").is_file():
                recording._join(Path(inherited))
            else:
                recording._open()
        assert _recorder is not None
        return _recorder


def _started_by_multiprocessing() -> bool:
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def start(
    name: str | None = None,
    *,
    path: str | os.PathLike[str] | None = None,
    tags: Mapping[str, Any] | None = None,
    keep: Any = None,
    disk: int | str | None = DISK,
    memory: int | str = MEMORY,
) -> Recording:
    """Name a run: `with clew.run("bf16", tags={"lr": 3e-4}) as run: ...`.

    path    the run's own folder, instead of one made under `clew_runs`
    keep    how much of large values to keep: a policy, or a dictionary of policies by name
    disk    bytes the run may write ("2GB"); when they are used up, arrays are kept as summaries
    memory  bytes of copied arrays that may wait to be written; beyond it, recording waits for the disk
    """
    return Recording(name, path=path, tags=tags, keep=keep, disk=disk, memory=memory)


def set_rank(rank: int) -> None:
    """What torch.distributed says, where a launcher has not put it into the environment."""
    env.told_rank = rank
    for recording in _stack:
        if recording._recorder is not None:
            recording._recorder.rank = rank


def join(folder: Path) -> Recording:
    """Record into a run that another process has opened, until this process ends."""
    with _lock:
        recording = Recording()
        recording._join(folder)
        return recording


def open_until_exit(recording: Recording, more_notes: Callable[[], list[Note]]) -> None:
    """Open a run that stays open until the program ends (`clew run`); `more_notes` adds to its ledger."""
    recording._more_notes = more_notes
    recording._open()


def ends_with(error: BaseException) -> None:
    """What ended the program, for runs that close at exit."""
    global _ended_with
    _ended_with = error


def ended_by() -> BaseException | None:
    """What ended the program, as far as that is known."""
    return _ended_with


def close_all() -> None:
    """Close what is open, as at exit."""
    _at_exit()


def current() -> Recording | None:
    """The run that is being recorded now, if any."""
    return _stack[-1] if _stack else None


def tell_return(call: LiveCall) -> None:
    """A call has ended whose `on_return=` hooks want to see it as readers do."""
    for recording in _stack:
        if recording._recorder is call.recorder and recording.path is not None:
            recorded = recording.reader().call(call.recorder.shard_name, call.id)
            for hook in call.plan.on_return:
                try:
                    hook(recorded)
                except Exception as error:
                    name = getattr(hook, "__qualname__", type(hook).__name__)
                    trouble.report(
                        f"hook:on_return:{id(hook)}", f"on_return={name} raised after {call.plan.name}()", "", error
                    )


def keep_graph(drawing: dict[str, Any]) -> str:
    """Put the drawing of a graph into the folder of the current run; gives the module that its calls say."""
    from clew.store.graphs import MODULE, graph_text, write_graph

    key, data = graph_text(drawing)
    folder = recorder().folder
    try:
        write_graph(folder, key, data)
    except OSError as error:
        what = f"the drawing of a graph could not be written into {folder}"
        trouble.report(f"graph:{folder}", what, "Your program goes on; the page shows its calls without it.", error)
    return MODULE + key


def add_tags(tags: Mapping[str, Any]) -> None:
    """Tags a probe brings: put on the current run, and on those that open later."""
    if tags:
        _later_tags.update(tags)
        if _stack:
            _stack[-1].tag(**tags)


def note_later(note: Note) -> None:
    """A line for the ledger of the current run, or of the next one that opens."""
    if _recorder is not None:
        _recorder.note(note)
    _later_notes.append(note)


# ---- switches --------------------------------------------------------------------------------------------------------


def is_on() -> bool:
    return _on


def on_switch(switch: Callable[[bool], None]) -> None:
    """A probe registers how its code is put in and taken out."""
    _switches.append(switch)


def on() -> None:
    """Put the instrumented code back and record again."""
    _switch(True)


def off() -> None:
    """Take the instrumented code out: nothing is executed, nothing written, until `clew.on()`."""
    _switch(False)


def _switch(wanted: bool) -> None:
    global _on
    with _lock:
        if wanted == _on:
            return
        for recording in _stack:
            if recording._recorder is not None:
                recording._recorder.flush()
                recording._recorder.paused = not wanted
        _on = wanted
        for switch in _switches:
            switch(wanted)


# ---- exit and fork ---------------------------------------------------------------------------------------------------

_prepared = False


def _prepare_exit() -> None:
    global _prepared
    if not _prepared:
        _prepared = True
        atexit.register(_at_exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)


def _at_exit() -> None:
    error = _ended_with or getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    how, what, code = how_it_ended(error)
    for recording in reversed(list(_stack)):
        if how == "finished" and recording._recorder is not None:
            how, what, code = recording._recorder.last_exit or (how, what, code)
        recording._close(how, what, code)


def _before_fork() -> None:
    _lock.acquire()
    for recording in _stack:
        if recording._recorder is not None:
            recording._recorder.lock_for_fork()


def _after_fork() -> None:
    for recording in _stack:
        if recording._recorder is not None:
            recording._recorder.unlock_after_fork()
    _lock.release()


def _in_child() -> None:
    global _lock
    _lock = threading.RLock()
    for recording in _stack:
        if recording._recorder is not None:
            recording._recorder.after_fork_in_child()
    util = sys.modules.get("multiprocessing.util")
    if util is not None and _stack:
        # multiprocessing leaves its children without running atexit; its own finalisers do run
        util.register_after_fork(_stack[0], lambda _: util.Finalize(None, _at_exit, exitpriority=0))

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
from clew.errors import ClewError, OptionError
from clew.live_reading import ReadsLikeARun
from clew.recorder import child_processes, ledger_notes
from clew.recorder.how_calls_end import dies_of_interrupt, how_it_ended
from clew.recorder.recorder import Recorder
from clew.records import Note
from clew.text.sizes import parse_size
from clew.values import AUTO, Keep, keep_by_name

if TYPE_CHECKING:
    from clew.recorder.live_call import LiveCall

DISK = 10 * 2**30
MEMORY = 512 * 2**20

_stack: list[Recording] = []  # the innermost is current
_recorder: Recorder | None = None  # of the innermost: what hot code asks for
_opening: Recorder | None = None  # while a run is being opened: takes what is recorded on the way, and drops it
_lock = threading.RLock()
_on = True
_switches: list[Callable[[bool], None]] = []
_later_notes: list[Note] = []
_later_tags: dict[str, Any] = {}
_ended_with: BaseException | None = None


class Recording(ReadsLikeARun):
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
        super().__init__()
        self._name = name
        self._wanted = Path(path).absolute() if path is not None else None
        self._tags = dict(tags or {})
        self._keep = keep_by_name(keep)
        self._disk = None if disk is None else parse_size(disk, "disk")
        self._memory = parse_size(memory, "memory")
        self._meta: dict[str, Any] = {}
        self._owner = 0  # the process that writes run.json
        self._recorder: Recorder | None = None
        self._git: metadata.GitLookup | None = None
        self._more_notes: Callable[[], list[Note]] = list

    # ---- opening and closing --------------------------------------------------------------------------------------

    def __enter__(self) -> Recording:
        if env.enabled():
            try:
                self._open()
            except ClewError:
                raise  # the user's own mistake
            except Exception as error:
                trouble.failed(error, "opening a run")
        return self

    @trouble.entry_point()
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._recorder is not None:
            self._close(*how_it_ended(error))

    def _open(self) -> None:
        global _opening
        with _lock:
            _opening = _dead_recorder("clew's own work")
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
            self._meta = metadata.at_start(self._name, {**_later_tags, **self._tags})
            self._owner = os.getpid()
            self._make_folder()
            self._recorder = Recorder(self.folder or Path(), keep=self._keep_for, disk=self._disk, memory=self._memory)
            self._recorder.paused = not _on
            self._recorder.dead = None if self.folder is not None else "no folder"
            self._recorder.load()
            for note in _later_notes:
                self._recorder.note(note)
            _stack.append(self)
            _recorder = self._recorder
            if self.folder is not None:
                os.environ[child_processes.JOIN] = str(self.folder)
                self._git = metadata.GitLookup(self._meta["cwd"], self._note_git)

    def _make_folder(self) -> None:
        from clew.store.folder import new_run_folder, write_meta

        try:
            if self._wanted is None:
                folder = new_run_folder(env.runs_folder(), self._meta["name"], datetime.now())
            else:
                folder = self._wanted
                folder.mkdir(parents=True, exist_ok=True)
                if any(folder.iterdir()):
                    raise OptionError("run-folder-taken", f"{folder} is not empty.", "Give path= a new folder.")
            write_meta(folder, self._meta)
            self.folder = folder
        except OSError as error:
            where = self._wanted or os.environ.get("CLEW_DIR") or "./clew_runs"
            trouble.report(
                f"no-folder:{where}",
                f"no run can be stored in {where}",
                "Your program goes on unrecorded. Choose another folder with CLEW_DIR or clew.run(path=...).",
                error,
            )

    def _join(self, folder: Path) -> None:
        """Record into a run that another process has opened: a shard of its own, the same folder."""
        global _recorder
        with _lock:
            _prepare_exit()
            self.folder = folder
            self._recorder = Recorder(folder, keep=self._keep_for, disk=self._disk, memory=self._memory)
            self._recorder.load()
            _stack.append(self)
            _recorder = self._recorder

    @trouble.entry_point()
    def _note_git(self, state: dict[str, Any]) -> None:
        with _lock:
            self._meta["git"] = state
            self._write_meta()

    @trouble.entry_point()
    def _close(self, how: str, error: str | None = None, code: int | None = None) -> None:
        global _recorder
        git = self._git.answer() if self._git is not None and self._owner == os.getpid() else None
        with _lock:
            if self not in _stack:
                return
            recorder = self._recorder
            assert recorder is not None
            notes: list[Note] = []
            if self._owner == os.getpid() and not recorder.dead:
                notes = [*self._more_notes(), *ledger_notes.at_end(recorder)]
                for note in notes:
                    recorder.note(note)
            recorder.close()
            _stack.remove(self)
            _recorder = _stack[-1]._recorder if _stack else None
            if self._owner != os.getpid():
                return
            if os.environ.get(child_processes.JOIN) == str(self.folder):
                os.environ.pop(child_processes.JOIN, None)
            now = time.time_ns()
            self._meta.update(
                ended=metadata.iso(now), ended_ns=now, how=how, error=error, exit=code, packages=metadata.packages()
            )
            if recorder.dead:
                self._meta["stopped"] = recorder.dead
            self._meta["git"] = git
            self._write_meta()
        if how != "finished" or env.quiet():
            return  # a failed program has seen little, and says why
        line = ledger_notes.exit_line(self._seen_by_nobody(notes))
        if line:
            trouble.report(f"ledger:{self.folder}", line, f"`clew show {self.folder}` has the whole ledger.")

    def _seen_by_nobody(self, notes: list[Note]) -> list[Note]:
        """Without what this process missed and a child saw."""
        try:
            if self.folder is None or not notes or len(os.listdir(self.folder / "shards")) < 2:
                return notes
        except OSError:  # nothing could be written
            return notes
        kept = {note.text for note in self.reader().ledger}
        return [note for note in notes if note.text in kept]

    def _write_meta(self) -> None:
        from clew.store.folder import write_meta

        if self.folder is None or self._owner != os.getpid():
            return
        try:
            write_meta(self.folder, self._meta)
        except OSError as error:
            trouble.report(f"meta:{self.folder}", f"run.json in {self.folder} could not be written", "", error)

    # ---- policies -------------------------------------------------------------------------------------------------

    def _keep_for(self, name: str) -> Keep:
        policies = (keep for pattern, keep in self._keep.items() if pattern == name or fnmatchcase(name, pattern))
        return next(policies, AUTO)

    def tag(self, **tags: Any) -> None:
        """Put tags on the run."""
        with _lock:
            self._tags.update(tags)
            if self._meta:
                self._meta["tags"] = {**self._meta["tags"], **tags}
                self._write_meta()

    @property
    def name(self) -> str:
        return str(self._meta.get("name") or self._name or "")

    def flush(self) -> None:
        """Give everything recorded so far to the operating system."""
        if self._recorder is not None:
            self._recorder.flush()

    def __repr__(self) -> str:
        state = self._meta.get("how", "not open")
        return f"<clew run {self.name} {state} {self.folder or ''}>".replace("  ", " ")


# ---- the current run -------------------------------------------------------------------------------------------------


def recorder() -> Recorder:
    """Hot: where records go. Opens a run if there is none."""
    return _recorder if _recorder is not None else _open_by_itself()


def open_recorder() -> Recorder | None:
    """Hot: the same, if a run is open."""
    return _recorder


def _recorders() -> list[Recorder]:
    return [recording._recorder for recording in _stack if recording._recorder is not None]


def _open_by_itself() -> Recorder:
    global _recorder
    if sys.is_finalizing():  # a thread that was stopped for good may hold the lock
        _recorder = _dead_recorder("the interpreter is at its end")
        return _recorder
    with _lock:
        if _opening is not None:
            return _opening  # opening a run has led into a function that is watched
        if _recorder is None and _is_over:
            _recorder = _dead_recorder("the program has ended")  # threads that outlive it open no run of their own
        if _recorder is None:
            try:
                _open_or_join()
            except Exception as error:
                _recorder = _dead_recorder(f"{type(error).__name__}: {error}")  # no second attempt at the next call
                trouble.failed(error, "opening a run")
        assert _recorder is not None
        return _recorder


def _dead_recorder(reason: str) -> Recorder:
    """One that takes everything and keeps nothing."""
    recorder = Recorder(Path())
    recorder.dead = reason
    recorder.close()
    return recorder


def _open_or_join() -> None:
    recording, folder = Recording(), child_processes.run_to_join()
    if folder is not None:
        recording._join(folder)
    else:
        recording._open()


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
    for recorder in _recorders():
        recorder.rank = rank


def join(folder: Path) -> Recording:
    """Record into a run that another process has opened, until this process ends."""
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


def current() -> Recording | None:
    """The run that is being recorded now, if any."""
    return _stack[-1] if _stack else None


def as_read(call: LiveCall) -> Any:
    """A call that has ended, as readers see it; None if its run is not stored."""
    for recording in _stack:
        if recording._recorder is call.recorder and recording.folder is not None:
            return recording.reader().call(call.recorder.shard_name, call.id)
    return None


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


trouble.on_failure(lambda what: note_later(Note("trouble", "clew", what)))


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
        for recorder in _recorders():
            recorder.flush()
            recorder.paused = not wanted
        _on = wanted
        for switch in _switches:
            switch(wanted)


# ---- exit and fork ---------------------------------------------------------------------------------------------------

_prepared = False
_is_over = False
child_processes.tell_run(lambda: _stack[-1].folder if _stack else None)


def _prepare_exit() -> None:
    global _prepared
    if not _prepared:
        _prepared = True
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
        child_processes.put_parcel()
        child_processes.when_child_begins(_child_begins)
    if child_processes.is_child():
        child_processes.at_end_of_child(close_for_good)


@child_processes.when_this_child_begins
@trouble.entry_point()
def _child_begins() -> None:
    """A run that was opened before this process knew which one it belongs to is not its own."""
    belongs_to = child_processes.told().get("run")
    if belongs_to is not None and _stack and str(_stack[-1].folder) != belongs_to:
        close_all()
    if _stack:
        child_processes.at_end_of_child(close_for_good)
    child_processes.before_results(lambda: [recorder.flush() for recorder in _recorders()])


@atexit.register  # when this is imported: what the program does at exit comes before, and is recorded
@trouble.entry_point()
def close_for_good() -> None:
    """Close what is open at the end of the process; no run opens automatically from then on."""
    global _is_over
    _is_over = True
    close_all()


@trouble.entry_point()
def close_all() -> None:
    """Close what is open."""
    error = _ended_with or getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    with dies_of_interrupt(error if _stack else None):
        how, what, code = how_it_ended(error)
        for recording in reversed(list(_stack)):
            if how == "finished" and recording._recorder is not None:
                how, what, code = recording._recorder.last_exit or (how, what, code)
            recording._close(how, what, code)


@trouble.entry_point()
def _before_fork() -> None:
    metadata.wait_for_git()
    _lock.acquire()
    for recorder in _recorders():
        recorder.lock_for_fork()


@trouble.entry_point()
def _after_fork() -> None:
    try:
        for recorder in _recorders():
            recorder.unlock_after_fork()
    finally:
        _lock.release()


@trouble.entry_point()
def _in_child() -> None:
    global _lock
    _lock = threading.RLock()
    try:
        for recorder in _recorders():
            recorder.after_fork_in_child()
    except Exception:  # the shards are the parent's: nothing is written here, not even at exit
        for recording in _stack:
            recording._recorder.dead = "the fork"  # type: ignore[union-attr]
        _stack.clear()
        raise

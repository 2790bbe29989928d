"""`torchrun` and `clew run`: every rank records into one run.

    torchrun --nproc-per-node 4 -m clew run --watch "train: loss" train.py
    clew run --watch "train: loss" -m torch.distributed.run --nproc-per-node 4 train.py

The second becomes the first. Rank 0 opens the run and writes down where it is; the others wait for that and join it.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from clew import env, recording, trouble
from clew.commands.launch import Words
from clew.errors import OptionError
from clew.recorder import child_processes
from clew.records import Note

LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch")
_LONGEST_WAIT = 60.0  # seconds
_OLD = 86_400.0  # seconds, after which nobody waits for what a launcher wrote down


def with_clew_in_ranks(words: Words, own: list[str]) -> list[str] | None:
    """The command that starts a launcher with `clew run` in its ranks; None if no launcher was asked for."""
    if words.kind != "-m" or words.target not in LAUNCHERS:
        return None
    from torch.distributed.run import get_args_parser

    args = get_args_parser().parse_args(words.rest)
    if args.no_python:
        raise OptionError("not-python", "clew run: --no-python starts no Python program.", "Leave --no-python out.")
    at = len(words.rest) - len(args.training_script_args) - 1
    if words.rest[at] != args.training_script:
        at -= 1  # argparse has taken a `--` out of what is the script's own
    options, program = words.rest[:at], words.rest[at:]
    if args.module:
        program = ["-m", *program]
    else:
        options = [*options, "--module"]
    return [sys.executable, "-m", words.target, *options, "clew", "run", *own, *program]


def open_run(run: recording.Recording, more_notes: Callable[[], list[Note]]) -> None:
    """Open a run for this process; where a launcher started several, one for all of them."""
    launch = _launch()
    if launch is None or env.rank() == 0:
        recording.open_until_exit(run, more_notes)
        if launch is not None and run.path is not None:
            _write_down(launch, run.path)
        return
    folder = _wait_for(launch)
    if folder is None:
        what = f"rank {env.rank()} has not found the run of rank 0, and opens one of its own"
        trouble.report("rank-alone", what, "Let CLEW_DIR name a folder that all machines share.")
        recording.open_until_exit(run, more_notes)
    else:
        run._join(folder)


def _launch() -> Path | None:
    """Where rank 0 of this launch says what its run is; None if there are no other ranks."""
    ask = os.environ.get
    if "TORCHELASTIC_RUN_ID" not in os.environ or ask("WORLD_SIZE", "1") == "1":
        return None
    names = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")
    told = [ask(name, "") for name in names]
    if _is_on_one_machine():
        told.append(str(os.getppid()))  # all ranks are children of one launcher, and no two of those are alike
    key = hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]
    return env.runs_folder() / f".launch-{key}"


def _is_on_one_machine() -> bool:
    return os.environ.get("GROUP_WORLD_SIZE", "1") == "1"


def _write_down(launch: Path, folder: Path) -> None:
    try:
        for other in launch.parent.glob(".launch-*"):
            if time.time() - other.stat().st_mtime > _OLD:
                other.unlink(missing_ok=True)
        draft = launch.with_name(f"{launch.name}.{os.getpid()}")
        draft.write_text(str(folder), encoding="utf-8")
        os.replace(draft, launch)
    except OSError as error:
        trouble.report("rank-alone", f"the other ranks cannot be told of {folder}", "They record apart.", error)


def _wait_for(launch: Path) -> Path | None:
    """The run of rank 0, as soon as it is written down."""
    deadline = time.monotonic() + _LONGEST_WAIT
    while time.monotonic() < deadline:
        try:
            folder = Path(launch.read_text(encoding="utf-8"))
        except OSError:
            folder = None
        # Of one machine no two launches write to one place. Of several, the run before may have been told there.
        if folder is not None and (_is_on_one_machine() or child_processes.is_going_on(folder)):
            return folder
        time.sleep(0.02)
    return None

"""Real processes with torch.distributed on gloo, for the tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HEAD = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
import torch, torch.distributed as dist
from datetime import timedelta
rank, world, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world,
                        timeout=timedelta(seconds=60))
import clew

def tell(**found):
    print(json.dumps(found), flush=True)

"""

# Torch's threads sometimes end a process that is done with SIGABRT, while Python takes itself down: that is left out.
TAIL = """
dist.destroy_process_group()
clew.recording.close_all()
os._exit(0)
"""


def run_ranks(tmp_path: Path, world: int, program: str, *, expect: int = 0) -> list[dict[str, Any]]:
    """What each rank told. `expect`: how many of them may end otherwise than well."""
    script = tmp_path / "program.py"
    script.write_text(HEAD + program + ("" if expect else TAIL))
    environment = os.environ | {"CLEW_DIR": str(tmp_path / "runs"), "CLEW_QUIET": "1", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    started = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), str(world), str(tmp_path)],
            env=environment | {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]
    told, failed = [], []
    for rank, process in enumerate(started):
        out, err = process.communicate(timeout=120)
        if process.returncode:
            failed.append(f"rank {rank} ended with {process.returncode}:\n{err}")
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        told.append({**(lines[-1] if lines else {}), "stderr": err})
    assert len(failed) <= expect, "\n".join(failed)
    return told


def once(factory: Any, name: str, make: Callable[[Path], dict[str, Any]]) -> tuple[Path, dict[str, Any]]:
    """What `make` gives, made by the first of the processes that tests run in; the others wait for it."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    result = folder / "told.json"
    try:
        folder.mkdir()
    except FileExistsError:
        for _ in range(1200):
            if result.exists():
                return folder, json.loads(result.read_text())
            time.sleep(0.1)
        raise TimeoutError(f"{name} was not made by the process that began it") from None
    told = make(folder)
    draft = folder / "draft.json"
    draft.write_text(json.dumps(told))
    draft.rename(result)
    return folder, told

"""Runs the benchmarks and puts their tables into benchmarks/README.md.

python -m benchmarks                         all questions
python -m benchmarks tight_loop store        some of them
python -m benchmarks --python .venv-3.12/bin/python tight_loop
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import time
from pathlib import Path

from benchmarks.harness import CLOCK, NOISE, QUIET, ROOT, load, machine

QUESTIONS = (
    "tight_loop",
    "training",
    "array",
    "calls",
    "model",
    "pipeline",
    "graphs",
    "mapping",
    "store",
    "diff",
    "page",
    "importing",
    "scaling",
)
PAGE = Path(__file__).with_name("README.md")
BUSY = 0.5  # load average above which the figures are not to be trusted
PATIENCE = 60


def main() -> None:
    options = _options()
    if options.cpu:
        os.environ[CLOCK] = "cpu"
    _put("machine", f"{machine()}; {time.strftime('%Y-%m-%d')}. {_conditions(options.cpu)}", options.dry)
    for question in options.questions or QUESTIONS:
        _wait_for_quiet(options.wait)
        module = importlib.import_module(f"benchmarks.{question}")
        print(f"== {module.TITLE}   (load average {load():.1f})", flush=True)
        NOISE.clear()
        text = f"{module.report(options.repeats, options.python)}\n\n{_noise()}".rstrip()
        print(text, flush=True)
        _put(question, text, options.dry)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description="What clew costs, beside others.")
    parser.add_argument("questions", nargs="*", metavar="question", help=f"of: {', '.join(QUESTIONS)}; all if none")
    parser.add_argument("--repeats", type=int, default=7, help="turns of each contender (default: 7)")
    parser.add_argument("--python", action="append", help="another Python to run the tight loop on; may be repeated")
    parser.add_argument("--wait", type=int, default=0, help="minutes to wait at most for a quiet machine")
    parser.add_argument("--cpu", action="store_true", help="count processor time, all threads together, not the wall's")
    parser.add_argument("--dry", action="store_true", help="leave the page as it is")
    options = parser.parse_args()
    if options.python is None:
        options.python = [str(path) for path in sorted(ROOT.glob(".venv-3.*/bin/python"))]
    unknown = set(options.questions) - set(QUESTIONS)
    if unknown:
        parser.error(f"no question {', '.join(sorted(unknown))}; there are {', '.join(QUESTIONS)}")
    return options


def _conditions(cpu: bool) -> str:
    if cpu:
        return (
            f"Processor time of the process, all its threads added up, because others used the machine too (load "
            f"average {load():.1f}): what clew's thread does beside the program counts in full."
        )
    return f"Time by the wall clock; load average at the start {load():.1f}."


def _noise() -> str:
    if not NOISE:
        return ""
    if max(NOISE) < QUIET:
        return "The machine was quiet."
    return f"Not quiet: other programs kept up to {max(NOISE):.1f} of {os.cpu_count()} processors busy meanwhile."


def _wait_for_quiet(minutes: int) -> None:
    for _ in range(minutes * 60 // PATIENCE):
        if load() < BUSY:
            return
        print(f"   waiting: load average {load():.1f}", flush=True)
        time.sleep(PATIENCE)


def _put(name: str, text: str, dry: bool) -> None:
    """Replace what stands between the markers of `name` on the page."""
    page = PAGE.read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if not pattern.search(page):
        raise ValueError(f"{PAGE.name} has no place for {name}")
    if not dry:
        PAGE.write_text(pattern.sub(lambda m: f"{m[1]}\n{text}\n\n{m[2]}", page), encoding="utf-8")

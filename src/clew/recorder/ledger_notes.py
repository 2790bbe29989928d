"""The ledger: what was asked for and never seen. Asked once, when a run ends."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from clew.errors import nearest
from clew.records import Note
from clew.store.format import END_OF_STREAM, RECORDS_NAME, SHARDS_NAME
from clew.store.run_files import open_regular

from . import quiet_threads
from .plan import Plan, plan_of, plans

if TYPE_CHECKING:
    from pathlib import Path

    from .recorder import Recorder


def at_end(recorder: Recorder) -> list[Note]:
    """Lines for what this run's probes were asked to look for and did not see."""
    recorder.flush()
    if quiet_threads.is_stopped():  # what was never seen then says nothing
        what = (
            "Recording was stopped: it led to a watched function, and that to recording, without end (an audit hook?)."
        )
        return [Note("trouble", "clew", what)]
    seen: set[tuple[Plan, int]] = set()
    for site in recorder.sites_seen:
        plan = plan_of(site)
        seen.add((plan, (site - plan.base) % plan.width))
    called = recorder.plans_seen
    alive = [plan for plan in plans() if plan in called or len(plan.owners)]
    notes = _never_called(alive, called, _forks_without_record(recorder))
    notes += _never_seen([plan for plan in alive if plan in called], seen)
    return notes


def _forks_without_record(recorder: Recorder) -> int:
    """How many processes this one forked that recorded nothing, or ended before all of it was written."""
    if not recorder.forks:
        return 0
    try:
        others = sum(map(_is_closed, (recorder.folder / SHARDS_NAME).iterdir()))
    except OSError:  # nothing could be written
        others = 0
    return max(recorder.forks - others, 0)


def _is_closed(shard: Path) -> bool:
    """Whether a process wrote all it had recorded there, as far as the last bytes say it."""
    try:
        with open_regular(shard / RECORDS_NAME) as file:
            file.seek(-len(END_OF_STREAM), os.SEEK_END)
            return file.read() == END_OF_STREAM
    except OSError:
        return False


def _never_called(alive: list[Plan], called: set[Plan], silent_forks: int) -> list[Note]:
    """What happened in forked processes that left no complete record is unknown, and reported as unknown."""
    never = "never called"
    if silent_forks:
        one = silent_forks == 1
        never = f"not called in this process. Whether {silent_forks} forked process{'' if one else 'es'} "
        never += f"called it is unknown: {'it' if one else 'they'} left no complete record"
    groups_called = {plan.group for plan in called if plan.group}
    there = {(plan.file, plan.line, plan.name) for plan in plans() if plan.called or plan in called}
    notes = []
    for plan in alive:
        if (plan.file, plan.line, plan.name) in there:
            continue  # perhaps under another plan, made when more was asked for
        if not plan.always and plan.root is None:
            continue  # rewritten only because it might be called inside a followed call
        if plan.called or (plan.group in groups_called and plan.group):
            continue  # in this run, or in another of this process
        if plan.group:
            groups_called.add(plan.group)  # said once for all its methods
        what = plan.group or f"{plan.name}()"
        how = "watched" if plan.always else "followed"
        notes.append(Note("never-called", what, f"{what} at {plan.file}:{plan.line} was {how} and {never}."))
    return notes


def _never_seen(called: list[Plan], seen: set[tuple[Plan, int]]) -> list[Note]:
    """By request: an expression counts as seen if any function of the same request saw it."""
    found: dict[tuple[str, str], tuple[Plan, bool]] = {}
    for plan in called:
        for index, watched in enumerate(plan.watched):
            if not plan.always or watched.role not in ("value", "step"):
                continue
            key = (plan.group or f"{plan.name}@{plan.file}:{plan.line}", watched.name)
            before = found.get(key, (plan, False))[1]
            found[key] = (plan, before or (plan, index) in seen)
    notes = []
    for (_, name), (plan, was_seen) in found.items():
        if not was_seen and not plan.from_star:
            known = [other for other in plan.locals if other != name]
            hint = nearest(name, known) if known else ""
            hint = hint if hint.startswith("did you mean") else ""
            if name in plan.at_module_level:
                hint = f"did you mean `<module>: {name}`?"
            where = plan.group or f"{plan.name}()"
            text = f"`{name}` was never there in {where}, {plan.file}:{plan.line}."
            notes.append(Note("never-seen", name, f"{text} {hint}".strip()))
    return notes


def exit_line(notes: list[Note]) -> str:
    """One line for people, when something asked for was never seen."""
    wanted = [note.text.rstrip(".?") for note in notes if note.kind in ("never-seen", "never-called")]
    if not wanted:
        return ""
    more = f" (and {len(wanted) - 1} more)" if len(wanted) > 1 else ""
    return f"{wanted[0]}{more}"

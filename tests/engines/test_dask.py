"""The Dask engine, on a cluster of worker processes on this machine."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster
from distributed.comm.core import CommClosedError

from clew.engines import dask
from clew.engines.dask import Dask
from clew.engines.engine import Done
from clew.errors import GraphError, OptionError
from engines.works import Doubling, drained


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as one:
        yield one


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster, set_as_default=False) as one:
        yield one


def test_all_results_arrive_once_though_a_worker_is_killed_half_way(client: Client, tmp_path: Path) -> None:
    engine = Dask(Doubling(str(tmp_path)), client)
    for number in range(10):
        engine.submit((number, 0, 2), [number, number + 0.5])
    outcomes = dict(drained(engine, 10))
    for number in range(10, 14):
        engine.submit((number, 0, 1), ["wait"])
    while len(list(tmp_path.glob("at-*"))) < 2:
        time.sleep(0.01)
    victim = int(next(tmp_path.glob("at-*")).name[3:])
    os.kill(victim, signal.SIGKILL)
    (tmp_path / "go").touch()
    for number in range(14, 24):
        engine.submit((number, 0, 1), [number])
    outcomes.update(drained(engine, 14))
    engine.close()
    assert {number: outcome.done.results for number, outcome in outcomes.items() if outcome.done} == {
        **{number: [number * 2, number * 2 + 1.0] for number in range(10)},
        **{number: ["waited"] for number in range(10, 14)},
        **{number: [number * 2] for number in range(14, 24)},
    }
    ready = {int(file.name[6:]) for file in tmp_path.glob("ready-*")}
    assert victim in ready  # and each of them once: a second time would be in another process


def test_files_are_sent_along_only_to_workers_that_do_not_see_them(client: Client) -> None:
    def sent(work: Doubling) -> Any:
        engine = Dask(work, client)
        engine.submit((0, 0, 1), ["content"])
        result = drained(engine, 1)[0].done
        engine.close()
        assert result is not None
        return result.results[0]

    assert sent(Doubling(here=True)) is False
    assert sent(Doubling(here=False)) is True


def test_a_cluster_will_do(cluster: LocalCluster) -> None:
    engine = Dask(Doubling(), cluster)
    engine.submit((0, 0, 1), [4])
    result = drained(engine, 1)[0].done
    engine.close()
    assert result is not None
    assert result.results == [8]


def test_an_address_will_do_and_the_work_is_taken_away_afterwards(client: Client) -> None:
    def works() -> int:
        from clew.engines import dask

        return len(dask._works) + len(dask._ready)

    engine = Dask(Doubling(), address=client.scheduler.address)
    engine.submit((0, 0, 1), [1])
    assert drained(engine, 1)[0].done
    assert set(client.run(works).values()) <= {1, 2}
    engine.close()
    assert set(client.run(works).values()) == {0}


def test_workers_that_cannot_be_prepared_are_an_error(client: Client) -> None:
    engine = Dask(Doubling(broken=True), client)
    engine.submit((0, 0, 1), [1])
    with pytest.raises(GraphError, match="RuntimeError: the model is missing"):
        engine.collect(wait=True)
    engine.close()


def test_a_worker_that_dies_while_the_work_is_brought_does_not_end_the_job(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dying(*args: Any) -> None:
        monkeypatch.undo()
        raise CommClosedError("in <TCP (closed) Scheduler Broadcast>: Stream is closed")

    monkeypatch.setattr(client, "register_plugin", dying)
    dask = Dask(Doubling(), client)
    dask.submit((0, 0, 2), [1, 2])
    (outcome,) = dask.collect(wait=True)
    dask.close()
    assert outcome.done is not None
    assert outcome.done.results == [2, 4]


def test_without_a_cluster_the_message_says_how_to_name_one() -> None:
    with pytest.raises(OptionError, match="engine=client"):
        Dask(Doubling())


def test_a_received_result_counts_even_if_its_worker_died_since() -> None:
    class Lost:
        status = "lost"

    engine, future = Dask.__new__(Dask), Lost()
    engine._keys = {future: ((0, 0, 1), 3)}
    outcome = engine._outcome(future, pickle.dumps(Done([2], [], 0.1)))
    assert outcome.done is not None and outcome.done.results == [2]


def test_a_cluster_without_workers_is_abandoned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dask, "_LOOK_INTERVAL", 0.0)
    monkeypatch.setattr(dask, "_PATIENCE", 0.05)
    with LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as empty:
        with Client(empty, set_as_default=False) as client:
            engine = Dask(Doubling(str(tmp_path)), client)
            engine.submit((0, 0, 1), [1])
            with pytest.raises(GraphError, match="has had no workers"):
                engine.collect(wait=True)
            engine.close()

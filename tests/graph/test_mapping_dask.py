"""`graph.map` on a Dask cluster of worker processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster

import clew
from clew.graph.mapping.map_job import Failure
from graph import mapops


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as one,
    ):
        yield one


def test_a_worker_is_killed_half_way_and_every_result_arrives_once(client: Client, tmp_path: Path) -> None:
    graph = clew.record(mapops.waiting, 1, str(tmp_path))
    (tmp_path / "ran").unlink()
    killed: list[int] = []

    def kill() -> None:
        while not (found := list(tmp_path.glob("at-*"))):
            time.sleep(0.01)
        killed.append(int(found[0].name[3:]))
        os.kill(killed[0], signal.SIGKILL)
        (tmp_path / "go").touch()

    killer = threading.Thread(target=kill)
    killer.start()
    mapped = graph.map(((x, str(tmp_path)) for x in range(200)), engine=client, ordered=False)
    found = list(mapped.indexed())
    killer.join()
    assert mapped.failures == []
    assert sorted(found) == [(x, 10 * x) for x in range(200)]
    ran = {int(pid) for pid in (tmp_path / "ran").read_text().split()}
    assert os.getpid() not in ran
    assert ran - set(killed)  # others did the rest


def test_results_come_in_order_and_are_written_with_their_failures(client: Client, tmp_path: Path) -> None:
    graph = clew.record(mapops.inverted, 1)
    items: Any = [4, 2, 0, 1]
    mapped = graph.map(items, engine="dask", address=client.scheduler.address, output=tmp_path / "out.parquet")
    assert list(mapped) == [0.25, 0.5, mapped.failures[0], 1.0]
    assert (mapped.failures[0].input, mapped.failures[0].error) == (0, "ZeroDivisionError: division by zero")
    assert pq.read_table(tmp_path / "out.parquet")["index"].to_pylist() == [0, 1, 2, 3]


def test_an_item_that_kills_workers_fails_alone(client: Client) -> None:
    client.cluster.scheduler.allowed_failures = 0  # else four workers would have to die
    mapped = clew.record(mapops.simple, 1, signature={"x": "any"}).map([1, "die", 3], engine=client)
    assert [type(value) for value in mapped] == [int, Failure, int]
    assert "KilledWorker" in mapped.failures[0].error

"""Runs pieces on a Dask cluster: a plug-in brings the work to each worker once, also to later ones."""

from __future__ import annotations

import pickle
import threading
import traceback
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

import cloudpickle
from distributed import CancelledError, Client, KilledWorker, Worker, WorkerPlugin, as_completed

from clew import trouble
from clew.engines.engine import Key, Outcome, Run, Work, pack_items, read_answer, run_piece, worker_error
from clew.errors import GraphError, OptionError

_SHORTEST, _LONGEST = 0.001, 0.02  # seconds between two looks for finished pieces
_LOOK_INTERVAL, _PATIENCE = 5.0, 300.0  # seconds between looks for workers; seconds without any until the job ends
_TRIES = 5  # to send the work to workers that die meanwhile
_works: dict[str, Work] = {}  # in the worker: the work by job
_ready: dict[str, Run] = {}  # in the worker: the prepared work by job
_preparing = threading.Lock()


class Dask:
    """The workers of a cluster. Dask gives the pieces of a worker that died to others."""

    piece_seconds = 0.3
    deaths = 1  # Dask has already tried a lost piece on several workers
    blames = True

    def __init__(self, work: Work, client: Any = None, address: str | None = None) -> None:
        self._client, self._owns_client = _find_client(client, address)
        self._job = f"clew-map-{uuid.uuid4().hex}"
        self._keys: dict[Any, tuple[Key, int]] = {}
        self._last_seen = self._last_look = monotonic()  # when there last were workers; when they were last looked for
        try:
            self.workers = max(1, sum(self._client.nthreads().values()))
            self.room = 3 * self.workers
            self._send_work(work)
            self._finished = as_completed(loop=self._client.loop, with_results=True, raise_errors=False)
        except BaseException:
            self.close()
            raise

    def _send_work(self, work: Work) -> None:
        """Send the work to every worker, including its files unless all workers see the same files."""
        here_by_worker = list(self._client.run(_is_here, pickle.dumps(work), on_error="return").values())
        for error in here_by_worker:
            if isinstance(error, ImportError | AttributeError):
                raise worker_error(
                    f"{type(error).__name__}: {error} (clew must be installed on the workers)"
                ) from error
        sent_work = (
            work if here_by_worker and all(is_here is True for is_here in here_by_worker) else work.with_content()
        )
        for attempt in range(_TRIES):
            try:
                with _ignore_size_warnings():
                    self._client.register_plugin(_WorkPlugin(self._job, sent_work))
                return
            except OSError:  # a worker died meanwhile; others may already have the work, and may get it again
                if attempt == _TRIES - 1:
                    raise
                sleep(_LONGEST)

    def submit(self, key: Key, items: Any) -> None:
        packed = pack_items(items, cloudpickle.dumps)
        with _ignore_size_warnings():
            future = self._client.submit(
                _run_submitted, self._job, packed, pure=False, key=f"{self._job}-{key}-{uuid.uuid4().hex}"
            )
        self._keys[future] = (key, len(packed))
        self._finished.add(future)

    def collect(self, wait: bool) -> list[Outcome]:
        if not self._keys:
            return []
        finished = self._finished.next_batch(block=False)
        pause = _SHORTEST
        while wait and not finished:
            sleep(pause)
            pause = min(2 * pause, _LONGEST)
            self._check_workers()
            finished = self._finished.next_batch(block=False)
        return [self._outcome(future, result) for future, result in finished]

    def _check_workers(self) -> None:
        """Raise if there have been no workers for long: Dask would wait for them forever."""
        now = monotonic()
        if now - self._last_look < _LOOK_INTERVAL:
            return
        self._last_look = now
        if self._client.nthreads():
            self._last_seen = now
        elif now - self._last_seen > _PATIENCE:
            message = f"the Dask cluster has had no workers for {_PATIENCE:.0f} seconds."
            raise GraphError("graph-cluster", message, "Start some; the same call then continues if it has an output.")
        else:
            trouble.report(f"dask:{self._job}", "the Dask cluster has no workers; waiting for some")

    def _outcome(self, future: Any, result: Any) -> Outcome:
        """The result decides, not the state of the future: its worker may have died since."""
        key, sent = self._keys.pop(future)
        if isinstance(result, bytes):
            return read_answer(key, result, sent)
        if isinstance(result, str):
            raise worker_error(result)
        error = result[1] if isinstance(result, tuple) else result
        if isinstance(error, BaseException) and not isinstance(error, KilledWorker | CancelledError):
            raise worker_error(f"{type(error).__name__}: {error}") from error
        return Outcome(key, None, f"the workers died ({type(error).__name__}: {error})")

    def close(self) -> None:
        try:
            self._client.cancel(list(self._keys))
            self._client.unregister_worker_plugin(self._job)
        except Exception:
            pass  # never registered, or the cluster is gone: there is nothing to clean up
        self._keys.clear()
        if self._owns_client:
            self._client.close()


def _find_client(client: Any, address: str | None) -> tuple[Client, bool]:
    """The client to use, and whether to close it afterwards."""
    if client is not None:
        is_ours = not isinstance(client, Client)  # the option also takes a cluster
        return (Client(client, set_as_default=False) if is_ours else client), is_ours
    if address is not None:
        try:
            return Client(address, set_as_default=False), True
        except (OSError, ValueError) as error:
            message = f"there is no Dask scheduler at {address} ({type(error).__name__})."
            raise GraphError("graph-cluster", message, "Check the address it printed when it started.") from error
    try:
        return Client.current(), False
    except ValueError:
        pass
    raise OptionError(
        "graph-cluster", "no Dask cluster was given.", 'Give address="tcp://host:8786", or engine=client.'
    )


@contextmanager
def _ignore_size_warnings() -> Iterator[None]:
    """Silence Dask's warning about size: items may be large, and bundles usually are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


# ---- in the worker ---------------------------------------------------------------------------------------------------


class _WorkPlugin(WorkerPlugin):  # type: ignore[misc]
    def __init__(self, job: str, work: Work) -> None:
        self.name = job
        self._work = work

    def setup(self, worker: Worker) -> None:
        _works[self.name] = self._work

    def teardown(self, worker: Worker) -> None:
        _works.pop(self.name, None)
        _ready.pop(self.name, None)


def _is_here(work: bytes) -> bool:
    return bool(pickle.loads(work).is_here())


def _run_submitted(job: str, items: bytes) -> bytes | str:
    """Run a piece and return the answer; a traceback if the work could not be prepared."""
    try:
        run = _prepared_run(job)
    except Exception:
        return traceback.format_exc()
    return run_piece(run, items)


def _prepared_run(job: str) -> Run:
    with _preparing:
        if job not in _ready:
            _ready[job] = _works[job].prepare()
        return _ready[job]

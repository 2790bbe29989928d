"""A Dask cluster: each worker process gets the work once, through a plug-in that later workers get as well."""

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
from clew.engines.base import Key, Outcome, Run, Work, answered, packed_items, read_answer, unready
from clew.errors import GraphError, OptionError

_SHORTEST, _LONGEST = 0.001, 0.02  # seconds between two looks at what is over
_LOOK, _PATIENCE = 5.0, 300.0  # seconds between looks for workers; and without any, until the job is given up
_TRIES = 5  # to bring the work to workers that die while it is brought
_works: dict[str, Work] = {}  # in the worker: by job, what it is to do
_ready: dict[str, Run] = {}  # in the worker: the same, made ready
_making = threading.Lock()


class Dask:
    """The workers of a cluster. Dask itself gives the pieces of a worker that died to others."""

    piece_seconds = 0.3
    deaths = 1  # Dask itself has tried it on several workers
    blames = True

    def __init__(self, work: Work, client: Any = None, address: str | None = None) -> None:
        self._client, self._own = _client(client, address)
        self._job = f"clew-map-{uuid.uuid4().hex}"
        self._keys: dict[Any, tuple[Key, int]] = {}
        self._seen = self._looked = monotonic()  # when there were workers; when they were last looked for
        try:
            self.workers = max(1, sum(self._client.nthreads().values()))
            self.room = 3 * self.workers
            self._bring(work)
            self._over = as_completed(loop=self._client.loop, with_results=True, raise_errors=False)
        except BaseException:
            self.close()
            raise

    def _bring(self, work: Work) -> None:
        """The work to every worker; its files too, unless all of them see the same files."""
        found = list(self._client.run(_is_here, pickle.dumps(work), on_error="return").values())
        for error in found:
            if isinstance(error, ImportError | AttributeError):
                raise unready(f"{type(error).__name__}: {error} (clew must be installed on the workers)") from error
        sent = work if found and all(one is True for one in found) else work.with_content()
        for attempt in range(_TRIES):
            try:
                with _without_a_word_about_size():
                    self._client.register_plugin(_Bring(self._job, sent))
                return
            except OSError:  # a worker has died just then; the others may have it, and may have it again
                if attempt == _TRIES - 1:
                    raise
                sleep(_LONGEST)

    def submit(self, key: Key, items: Any) -> None:
        packed = packed_items(items, cloudpickle.dumps)
        with _without_a_word_about_size():
            future = self._client.submit(
                _piece, self._job, packed, pure=False, key=f"{self._job}-{key}-{uuid.uuid4().hex}"
            )
        self._keys[future] = (key, len(packed))
        self._over.add(future)

    def collect(self, wait: bool) -> list[Outcome]:
        if not self._keys:
            return []
        found = self._over.next_batch(block=False)
        pause = _SHORTEST
        while wait and not found:
            sleep(pause)
            pause = min(2 * pause, _LONGEST)
            self._look_after_workers()
            found = self._over.next_batch(block=False)
        return [self._outcome(future, result) for future, result in found]

    def _look_after_workers(self) -> None:
        """Dask would wait forever for workers that have gone."""
        now = monotonic()
        if now - self._looked < _LOOK:
            return
        self._looked = now
        if self._client.nthreads():
            self._seen = now
        elif now - self._seen > _PATIENCE:
            what = f"the Dask cluster has had no workers for {_PATIENCE:.0f} seconds."
            raise GraphError("graph-cluster", what, "Start some; the same call goes on if it has an output.")
        else:
            trouble.report(f"dask:{self._job}", "the Dask cluster has no workers; waiting for some")

    def _outcome(self, future: Any, result: Any) -> Outcome:
        """What came decides, not what the future says of itself: its worker may have died since."""
        key, sent = self._keys.pop(future)
        if isinstance(result, bytes):
            return read_answer(key, result, sent)
        if isinstance(result, str):
            raise unready(result)
        error = result[1] if isinstance(result, tuple) else result
        if isinstance(error, BaseException) and not isinstance(error, KilledWorker | CancelledError):
            raise unready(f"{type(error).__name__}: {error}") from error
        return Outcome(key, None, f"the workers died ({type(error).__name__}: {error})")

    def close(self) -> None:
        try:
            self._client.cancel(list(self._keys))
            self._client.unregister_worker_plugin(self._job)
        except Exception:
            pass  # never registered, or the cluster is gone: there is nothing to clear up
        self._keys.clear()
        if self._own:
            self._client.close()


def _client(client: Any, address: str | None) -> tuple[Client, bool]:
    """The client to use, and whether it is ours to close."""
    if client is not None:
        ours = not isinstance(client, Client)  # a cluster does as well
        return (Client(client, set_as_default=False) if ours else client), ours
    if address is not None:
        try:
            return Client(address, set_as_default=False), True
        except (OSError, ValueError) as error:
            what = f"there is no Dask scheduler at {address} ({type(error).__name__})."
            raise GraphError("graph-cluster", what, "Look at the address that it printed when it started.") from error
    try:
        return Client.current(), False
    except ValueError:
        pass
    raise OptionError(
        "graph-cluster", "no Dask cluster was named.", 'Give address="tcp://host:8786", or engine=client.'
    )


@contextmanager
def _without_a_word_about_size() -> Iterator[None]:
    """An item may be large, and a bundle usually is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


# ---- in the worker ---------------------------------------------------------------------------------------------------


class _Bring(WorkerPlugin):  # type: ignore[misc]
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


def _piece(job: str, items: bytes) -> bytes | str:
    """What came of a piece; a text if the work could not be made ready."""
    try:
        run = _run(job)
    except Exception:
        return traceback.format_exc()
    return answered(run, items)


def _run(job: str) -> Run:
    with _making:
        if job not in _ready:
            _ready[job] = _works[job].prepare()
        return _ready[job]

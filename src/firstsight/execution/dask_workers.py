"""The workers of a Dask cluster: its scheduler gives a lost worker's cells to another one.

Orders and records are text. The features of a data set go to a worker once: as a path, where it shares the disk, else
as an array that Dask keeps there.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import CancelledError, Future
from typing import Any, NoReturn

import numpy as np

from firstsight.data import ZeroShotDataset
from firstsight.errors import BadInput
from firstsight.execution.local_workers import WorkerDied
from firstsight.execution.shared_data import features_key, identity_of_data, rest_of
from firstsight.execution.worker import ClusterProblem, DataNotHere, refuse_other_version, run_cell, version_here

ANSWER_SECONDS = 10  # for the scheduler
WORKER_SECONDS = 60  # without any worker
_ATTEMPTS = 3  # to hand the same cell out when what it needs was lost


class DaskWorkers:
    """A cluster, by the address of its scheduler or by a client that somebody has connected."""

    def __init__(self, scheduler: Any):
        self._named, self._address = isinstance(scheduler, str), str(scheduler)
        self._client: Any = None if self._named else scheduler
        self._alone_since: float | None = None
        self._sent: dict[str, tuple[Any, dict[str, Any]]] = {}  # by identity: features and the rest, held by workers
        self._arrays: dict[tuple[Any, ...], Any] = {}  # features by their place in memory: folds have them in common
        self._data: dict[Future[str], ZeroShotDataset] = {}
        self._lost: dict[str, int] = {}

    def __enter__(self) -> DaskWorkers:
        if self._named:
            self._client = _connected(self._address)
        else:
            self._address = self._client.scheduler.address
        self._executor = self._client.get_executor(pure=False)
        try:
            self._wait_for_workers()
            self._refuse_other_versions()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._client.status == "running":
            self._executor.shutdown(wait=False)  # what has not begun is never begun
        self._sent.clear()
        self._arrays.clear()
        if self._named:
            self._client.close()

    def slots(self) -> int:
        """One cell at a time per worker process."""
        if self._client.status != "running":
            self._gone()
        try:
            count = len(self._client.nthreads())
        except OSError:
            self._gone()
        if count:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = time.monotonic()
        elif time.monotonic() - self._alone_since > WORKER_SECONDS:
            raise ClusterProblem(
                f"The scheduler at {self._address} has had no workers for {WORKER_SECONDS} seconds; start some and run "
                "the same command again: it does what is missing."
            )
        return count

    def submit(self, order: str, dataset: ZeroShotDataset) -> Future[str]:
        """Hand a cell to the scheduler."""
        sent = self._sent.get(identity_of_data(dataset), ())
        future: Future[str] = self._executor.submit(run_cell, order, *sent)
        self._data[future] = dataset
        return future

    def answer(self, future: Future[str]) -> str | None:
        """What a cell has brought; None where a worker needs the data set first, or what it had of it was lost."""
        from distributed import KilledWorker

        dataset = self._data.pop(future)
        try:
            return future.result()
        except DataNotHere:
            self._send(dataset)
        except KilledWorker as killed:
            times = killed.allowed_failures + 1
            raise WorkerDied(
                f"The processes that ran this cell died, {times} in a row; they may have run out of memory."
            ) from None
        except CancelledError:
            identity = identity_of_data(dataset)
            self._lost[identity] = self._lost.get(identity, 0) + 1
            if self._client.status != "running" or self._lost[identity] > _ATTEMPTS:
                self._gone()
            if self._sent.pop(identity, None):  # the workers that held it are no more
                self._arrays.clear()
                self._send(dataset)
        return None

    def _send(self, dataset: ZeroShotDataset) -> None:
        identity, where = identity_of_data(dataset), features_key(dataset)
        if identity in self._sent:
            return
        if where not in self._arrays:
            features = np.asarray(dataset.features)  # larger ones than memory need a disk that is shared, and say so
            (self._arrays[where],) = self._client.scatter([features], broadcast=True, hash=True)
        self._sent[identity] = (self._arrays[where], rest_of(dataset))

    def _wait_for_workers(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=WORKER_SECONDS)
        except TimeoutError:
            raise ClusterProblem(
                f"The scheduler at {self._address} had no workers within {WORKER_SECONDS} seconds; start some: "
                f"`dask worker {self._address} --nthreads 1`."
            ) from None

    def _refuse_other_versions(self) -> None:
        for where, there in self._client.run(version_here, on_error="return").items():
            if isinstance(there, BaseException):
                raise ClusterProblem(
                    f"The worker at {where} cannot import firstsight ({type(there).__name__}); install "
                    f"firstsight[cluster] {version_here()} there."
                )
            refuse_other_version(there, where, version_here())

    def _gone(self) -> NoReturn:
        raise ClusterProblem(
            f"The scheduler at {self._address} is gone; finished cells are kept: start it and run the same command "
            "again, which does what is missing."
        ) from None


def _connected(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise BadInput("The engine dask needs Dask: pip install 'firstsight[cluster]'.") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is told in a sentence
    connect: Any = Client  # distributed has no types
    try:
        return connect(address, timeout=ANSWER_SECONDS, set_as_default=False)
    except ValueError as error:
        raise BadInput(f"{address!r} is no scheduler's address ({error}); give one such as tcp://node1:8786.") from None
    except OSError:
        raise ClusterProblem(
            f"No Dask scheduler answered at {address} within {ANSWER_SECONDS} seconds; check the address, or start one "
            "with `dask scheduler`."
        ) from None

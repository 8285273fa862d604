"""The workers of a Dask cluster: its scheduler gives a lost worker's cells to another one.

Orders and records are text. The features of a data set go to a worker once: as a path, where it shares the disk, else
as an array that Dask keeps there.
"""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from typing import Any

import numpy as np

from firstsight.data import ZeroShotDataset
from firstsight.execution.cluster import Cluster
from firstsight.execution.local_workers import WorkerDied
from firstsight.execution.shared_data import features_key, identity_of_data, rest_of
from firstsight.execution.worker import DataNotHere, run_cell

_ATTEMPTS = 3  # to hand the same cell out when what it needs was lost


class DaskWorkers(Cluster):
    """A cluster that runs cells."""

    def __init__(self, scheduler: Any):
        super().__init__(scheduler)
        self._sent: dict[str, tuple[Any, dict[str, Any]]] = {}  # by identity: features and the rest, held by workers
        self._arrays: dict[tuple[Any, ...], Any] = {}  # features by their place in memory: folds have them in common
        self._data: dict[Future[str], ZeroShotDataset] = {}
        self._lost: dict[str, int] = {}

    def __exit__(self, *_: object) -> None:
        self._sent.clear()
        self._arrays.clear()
        super().__exit__()

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

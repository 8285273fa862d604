"""Engines that compute cells: local worker processes (loky) or a Dask cluster."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from firstsight._io.child_processes import without_current_folder
from firstsight.data import ZeroShotDataset
from firstsight.errors import BadInput, UnknownName
from firstsight.experiments.cluster import Cluster
from firstsight.experiments.shared_data import features_key, identity_of_data, rest_of
from firstsight.experiments.worker import DataNotHere, begin, run_cell

# Worker processes of this machine, each a loky executor of one process.
#
# loky rather than the standard ProcessPoolExecutor, because it gives a process an environment of its own (numerical
# libraries read the thread limits when they are loaded), says how a process died, kills one that is busy, and does not
# execute the caller's script again. One executor per process, because a death breaks a whole executor: so it costs the
# one cell that ran there, and is known to be that cell's.

# What the numerical libraries read when they are loaded.
_THREAD_LIMITS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class WorkerDied(Exception):
    """The process that ran a cell is no more; the message is one sentence for its record."""


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def worker_count(processes: int | None) -> int:
    """How many worker processes are meant: all processors for None and, as in scikit-learn, for -1."""
    if processes is None or processes == -1:
        return cores()
    if processes < 1:
        raise BadInput(f"`processes` must be at least 1, or -1 for all processors, but is {processes}.")
    return processes


class LocalWorkers:
    """So many processes. More threads than processors would make every one of them slower."""

    def __init__(self, processes: int):
        self.processes = processes
        set_already = os.environ.get("OMP_NUM_THREADS", "")  # who sets a limit means it
        limit = int(set_already[:9]) if set_already.isdecimal() else cores()
        self.threads = max(1, min(cores() // processes, limit))
        self._free: list[_Process] = []
        self._busy: dict[Future[str], _Process] = {}
        self._ending = ExitStack()

    def __enter__(self) -> LocalWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def slots(self) -> int:
        """One cell at a time per process."""
        return self.processes

    def submit(self, order: str, dataset: ZeroShotDataset) -> Future[str]:
        """Begin a cell in a process that is free; the data set is where the order says."""
        process = self._free.pop() if self._free else self._start()
        future = process.submit(order)
        self._busy[future] = process
        return future

    def answer(self, future: Future[str]) -> str:
        """What a cell has brought."""
        process = self._busy.pop(future)
        try:
            text = future.result()
        except BrokenProcessPool as broken:
            raise WorkerDied(process.last_words(str(broken))) from None
        self._free.append(process)
        return text

    def _start(self) -> _Process:
        started = _Process(self.threads)
        self._ending.callback(started.stop)
        return started


class _Process:
    def __init__(self, threads: int):
        from loky.process_executor import ProcessPoolExecutor

        # What libraries print, for the last words. The process removes its name, so that a kill leaves nothing behind.
        self._said, self._log = tempfile.mkstemp(prefix="firstsight-worker-")
        limits = dict.fromkeys(_THREAD_LIMITS, str(threads))
        about = {"initializer": begin, "initargs": (os.getpid(), self._log)}
        with without_current_folder():  # loky's own process, which removes what killed ones leave, starts here
            self._executor: Any = ProcessPoolExecutor(max_workers=1, env=limits, **about)

    def submit(self, order: str) -> Future[str]:
        with without_current_folder():  # the first submission starts the process
            future: Future[str] = self._executor.submit(run_cell, order)
        return future

    def last_words(self, told: str) -> str:
        """How it ended. loky tells the exit code in the text of its error alone: "…are {SIGKILL(-9)}"."""
        match = re.search(r"\((-?\d+)\)\}", told)
        if match is None:
            return "The process that ran this cell ended unexpectedly."
        code = int(match[1])
        with open(self._said, errors="replace", closefd=False) as log:
            log.seek(0)
            lines = log.read().strip().splitlines()
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        hint = "; the machine may have run out of memory" if code == -9 else ""
        said = f": {lines[-1].strip()}" if lines and code > 0 else ""
        return f"The process that ran this cell {how}{said}{hint}."

    def stop(self) -> None:
        self._executor.shutdown(wait=True, kill_workers=True)
        os.close(self._said)
        Path(self._log).unlink(missing_ok=True)


# The workers of a Dask cluster: its scheduler gives a lost worker's cells to another one.
#
# Orders and records are text. The features of a data set go to a worker once: as a path, where it shares the disk, else
# as an array that Dask keeps there.

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


# Where cells are computed: worker processes of this machine, or those of a Dask cluster.

ENGINES = ("local", "dask")


class Workers(Protocol):
    """What the runner asks of an engine; each cell is a future of `concurrent.futures`."""

    def slots(self) -> int:
        """How many cells may be under way at once; more as a cluster grows."""

    def submit(self, order: str, dataset: ZeroShotDataset) -> Future[str]:
        """Begin a cell of a data set that `share` has put where the order says."""

    def answer(self, future: Future[str]) -> str | None:
        """What a future that is done has brought; None: submit it again. `WorkerDied` where its process died."""


Engine = Callable[[int], AbstractContextManager[Workers]]  # told how many cells there are


def engine_of(engine: Any = "local", scheduler: str | None = None, processes: int | None = None) -> Engine:
    """The engine that a caller names: "local", "dask" with a scheduler's address, or a `distributed.Client`."""
    where = cluster_of(engine, scheduler)
    if where is None:
        count = worker_count(processes)
        return lambda jobs: LocalWorkers(min(count, jobs))  # fewer jobs leave each of them more threads
    if processes is not None:
        raise BadInput("A number of processes belongs to the engine local; a cluster has the workers that it has.")

    return lambda jobs: DaskWorkers(where)


@contextmanager
def keep_workers(engine: Engine) -> Iterator[Engine]:
    """An engine whose workers stay for the next call: to start a process takes longer than most fits."""
    with ExitStack() as ending:
        opened: list[Workers] = []

        def same(jobs: int) -> AbstractContextManager[Workers]:
            if not opened:
                opened.append(ending.enter_context(engine(jobs)))
            return nullcontext(opened[0])

        yield same


def cluster_of(engine: Any, scheduler: str | None) -> Any:
    """What leads to the cluster that a caller names, an address or a client; None for this machine."""
    if isinstance(engine, str) and engine not in ENGINES:
        raise UnknownName("engine", engine, ENGINES)
    if engine == "local":
        if scheduler is not None:
            raise BadInput("A scheduler belongs to the engine dask; add it (`--engine dask`), or leave it out.")
        return None
    if engine == "dask" and not scheduler:
        raise BadInput("The engine dask needs the address of a scheduler, such as tcp://node1:8786 (`--scheduler`).")
    return scheduler if isinstance(engine, str) else engine

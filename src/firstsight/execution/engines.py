"""Where cells are computed: worker processes of this machine, or those of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, Protocol

from firstsight.data import ZeroShotDataset
from firstsight.errors import BadInput, UnknownName
from firstsight.execution.local_workers import LocalWorkers, worker_count

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

    from firstsight.execution.dask_workers import DaskWorkers

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

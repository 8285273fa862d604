"""Worker processes that run jobs: loky processes on this machine, or the workers of a Dask cluster.

Both are executors of `concurrent.futures` behind one loop, `Workers.run`: it keeps every worker busy, yields results as
they come, and submits the call of a worker that died again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar

import numpy as np

from firstsight._io.sandbox import without_current_folder
from firstsight.errors import BadInput, FirstsightError, UnknownName

ENGINES = ("local", "dask")
ATTEMPTS = 2  # a job whose worker dies so often is given up
LOSSES = 4  # how often a cluster may lose the data of a job
ANSWER_SECONDS = 10  # for the scheduler
WORKER_SECONDS = 60  # without any worker

# What the numerical libraries read when they are loaded.
_THREAD_LIMITS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
Call = TypeVar("Call")


class WorkerDied(Exception):
    """The process that ran a job is gone; the message is one sentence for its record."""


class ClusterProblem(FirstsightError):
    """A cluster does not answer, goes away or is not as it must be; what was finished is kept."""


class DataMissing(Exception):
    """Raised on a worker that does not share the disk with the data set, whose identity is the argument."""


class _Resubmit(Exception):
    """A call has to be submitted again."""


def open_workers(engine: Any = "local", scheduler: str | None = None, processes: int | None = None) -> Workers:
    """Return the workers that a caller names: "local", "dask" with a scheduler's address, or a `distributed.Client`."""
    cluster = find_cluster(engine, scheduler)
    if cluster is None:
        return LocalWorkers(processes)
    if processes is not None:
        raise BadInput("A number of processes belongs to the engine local; a cluster has the workers that it has.")
    return ClusterWorkers(cluster)


def find_cluster(engine: Any, scheduler: str | None) -> Any:
    """Return the address or the client of the cluster that a caller names; None for this machine."""
    if isinstance(engine, str) and engine not in ENGINES:
        raise UnknownName("engine", engine, ENGINES)
    if engine == "local":
        if scheduler is not None:
            raise BadInput("A scheduler belongs to the engine dask; add it (`--engine dask`), or leave it out.")
        return None
    if engine == "dask" and not scheduler:
        raise BadInput("The engine dask needs the address of a scheduler, such as tcp://node1:8786 (`--scheduler`).")
    return scheduler if isinstance(engine, str) else engine


class Workers(ABC):
    """A context that starts its processes when they are first needed and ends them on exit."""

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(self, *_: object) -> None:
        """End the processes."""

    @abstractmethod
    def start(self, calls: int) -> None:
        """Prepare for so many calls; a second time, nothing happens."""

    @abstractmethod
    def slots(self) -> int:
        """Return how many calls may run at once; it grows with a cluster."""

    @abstractmethod
    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]: ...

    @abstractmethod
    def _result(self, future: Future[Any], attempt: int) -> Any:
        """Return the result of a future that is done, or a `WorkerDied`; raise `_Resubmit` to run it again."""

    def transfer(self, identity: str, key: Any, features: Any, parts: dict[str, Any]) -> tuple[Any, ...]:
        """Return a data set as further arguments of a call, for workers that do not share this disk."""
        return ()

    def run(
        self,
        function: Callable[..., Any],
        calls: Sequence[Call],
        arguments: Callable[[Call], tuple[Any, ...]],
        on_start: Callable[[Call], None] = lambda call: None,
    ) -> Iterator[tuple[Call, Any]]:
        """Yield each call with `function(*arguments(call))` as calls end, or with `WorkerDied`; errors are raised."""
        self.start(len(calls))
        waiting = [(call, 1) for call in reversed(calls)]
        running: dict[Future[Any], tuple[Call, int]] = {}
        while waiting or running:
            while waiting and len(running) < self.slots():
                call, attempt = waiting.pop()
                running[self._submit(function, *arguments(call))] = call, attempt
                on_start(call)
            # The timeout lets new workers of a cluster get calls.
            for future in wait(running, timeout=1.0, return_when=FIRST_COMPLETED).done:
                call, attempt = running.pop(future)
                try:
                    result = self._result(future, attempt)
                except _Resubmit:
                    waiting.append((call, attempt + 1))
                else:
                    yield call, result


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_per_process(processes: int) -> int:
    """Return how many threads each process gets: more than processors would make all of them slower."""
    user_limit = os.environ.get("OMP_NUM_THREADS", "")
    limit = int(user_limit[:9]) if user_limit.isdecimal() else cores()
    return max(1, min(cores() // processes, limit))


class LocalWorkers(Workers):
    """Processes on this machine, each a loky executor of one process.

    loky rather than the standard ProcessPoolExecutor, because it gives a process its own environment (numerical
    libraries read the thread limits when they are loaded), reports how a process died, kills one that is busy, and does
    not execute the caller's script again. One executor per process, because a death breaks a whole executor: so it
    costs the one job that ran there.
    """

    def __init__(self, processes: int | None = None):
        if processes is None or processes == -1:  # as in scikit-learn
            processes = cores()
        if processes < 1:
            raise BadInput(f"`processes` must be at least 1, or -1 for all processors, but is {processes}.")
        self.processes = processes
        self._threads = 0
        self._free: list[_LocalProcess] = []
        self._busy: dict[Future[Any], _LocalProcess] = {}
        self._on_exit = ExitStack()

    def __exit__(self, *_: object) -> None:
        self._on_exit.close()

    def start(self, calls: int) -> None:
        """Limit the processes to the number of calls, which leaves each of them more threads."""
        if not self._threads:
            self.processes = max(1, min(self.processes, calls))
            self._threads = threads_per_process(self.processes)

    def slots(self) -> int:
        """Return the number of processes."""
        return self.processes

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        if self._free:
            process = self._free.pop()
        else:
            process = _LocalProcess(self._threads)
            self._on_exit.callback(process.stop)
        future = process.submit(function, *arguments)
        self._busy[future] = process
        return future

    def _result(self, future: Future[Any], attempt: int) -> Any:
        process = self._busy.pop(future)
        try:
            result = future.result()
        except BrokenProcessPool as broken:
            if attempt < ATTEMPTS:
                raise _Resubmit from None
            return WorkerDied(process.describe_exit(str(broken)))
        self._free.append(process)
        return result


class _LocalProcess:
    def __init__(self, threads: int):
        from loky.process_executor import ProcessPoolExecutor

        # What libraries print. The process removes the file's name, so that a kill leaves nothing behind.
        self._output, self._log = tempfile.mkstemp(prefix="firstsight-worker-")
        limits = dict.fromkeys(_THREAD_LIMITS, str(threads))
        arguments = (os.getpid(), self._log)
        with without_current_folder():  # loky's own process, which removes what killed ones leave, starts here
            self._executor: Any = ProcessPoolExecutor(1, env=limits, initializer=_initialize, initargs=arguments)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        with without_current_folder():  # the first submission starts the process
            future: Future[Any] = self._executor.submit(function, *arguments)
        return future

    def describe_exit(self, message: str) -> str:
        """Say how the process ended: loky has the exit code in the text of its error alone, "…are {SIGKILL(-9)}"."""
        match = re.search(r"\((-?\d+)\)\}", message)
        if match is None:
            return "The process that ran this cell ended unexpectedly."
        code = int(match[1])
        with open(self._output, errors="replace", closefd=False) as log:
            log.seek(0)
            lines = log.read().strip().splitlines()
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        hint = "; the machine may have run out of memory" if code == -9 else ""
        last = f": {lines[-1].strip()}" if lines and code > 0 else ""
        return f"The process that ran this cell {how}{last}{hint}."

    def stop(self) -> None:
        self._executor.shutdown(wait=True, kill_workers=True)
        os.close(self._output)
        Path(self._log).unlink(missing_ok=True)


def _initialize(parent: int, log: str) -> None:
    """Prepare a worker process of this machine: quiet, and ended when its parent is."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    with open(log, "ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    with contextlib.suppress(OSError):  # some systems keep the name of an open file
        os.unlink(log)
    threading.Thread(target=_exit_with, args=(parent,), daemon=True).start()


def _exit_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(0)  # the parent was killed: the result has no reader


class ClusterWorkers(Workers):
    """The workers of a Dask cluster, named by its scheduler's address or by a client that the caller has connected.

    The features of a data set go to a worker once: as a path, where it shares the disk, else as an array that Dask
    keeps there.
    """

    def __init__(self, scheduler: Any):
        self._is_ours = isinstance(scheduler, str)
        self._address = str(scheduler)
        self._client: Any = None if self._is_ours else scheduler
        self._executor: Any = None
        self._idle_since: float | None = None
        self._needed: set[str] = set()  # identities of data sets that workers cannot open
        self._arrays: dict[Any, Any] = {}  # features on the workers, by key

    def __exit__(self, *_: object) -> None:
        self._arrays.clear()
        if self._client is not None and self._client.status == "running" and self._executor is not None:
            self._executor.shutdown(wait=False)  # cancels what has not begun
        if self._client is not None and self._is_ours:
            self._client.close()

    def start(self, calls: int) -> None:
        """Connect, wait for a first worker, and check the versions of all."""
        if self._executor is not None:
            return
        if self._is_ours:
            self._client = _connect(self._address)
        else:
            self._address = self._client.scheduler.address
        self._executor = self._client.get_executor(pure=False)
        try:
            self._client.wait_for_workers(1, timeout=WORKER_SECONDS)
        except TimeoutError:
            raise ClusterProblem(
                f"The scheduler at {self._address} had no workers within {WORKER_SECONDS} seconds; start some: "
                f"`dask worker {self._address} --nthreads 1`."
            ) from None
        self._check_versions()

    def slots(self) -> int:
        """Return the number of worker processes."""
        if self._client.status != "running":
            self._fail_without_scheduler()
        try:
            count = len(self._client.nthreads())
        except OSError:
            self._fail_without_scheduler()
        if count:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = time.monotonic()
        elif time.monotonic() - self._idle_since > WORKER_SECONDS:
            raise ClusterProblem(
                f"The scheduler at {self._address} has had no workers for {WORKER_SECONDS} seconds; start some and run "
                "the same command again: it does what is missing."
            )
        return count

    def transfer(self, identity: str, key: Any, features: Any, parts: dict[str, Any]) -> tuple[Any, ...]:
        """Return features (kept on the workers) and other parts, once a worker could not open the data set.

        Features with the same `key` are sent once.
        """
        if identity not in self._needed:
            return ()
        if key not in self._arrays:
            array = np.asarray(features)  # features larger than memory need a disk that is shared
            (self._arrays[key],) = self._client.scatter([array], broadcast=True, hash=True)
        return self._arrays[key], parts

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = self._executor.submit(function, *arguments)
        return future

    def _result(self, future: Future[Any], attempt: int) -> Any:
        from distributed import KilledWorker

        try:
            return future.result()
        except DataMissing as missing:
            self._needed.add(str(missing))
        except KilledWorker as killed:  # the scheduler has tried other workers
            count = killed.allowed_failures + 1
            return WorkerDied(
                f"The processes that ran this cell died, {count} in a row; they may have run out of memory."
            )
        except CancelledError:
            if self._client.status != "running" or attempt > LOSSES:
                self._fail_without_scheduler()
            self._arrays.clear()  # the workers that held them are gone
        raise _Resubmit

    def _check_versions(self) -> None:
        for worker, version in self._client.run(installed_version, on_error="return").items():
            if isinstance(version, BaseException):
                raise ClusterProblem(
                    f"The worker at {worker} cannot import firstsight ({type(version).__name__}); install "
                    f"firstsight[cluster] {installed_version()} there."
                )
            check_version(version, worker, installed_version())

    def _fail_without_scheduler(self) -> NoReturn:
        raise ClusterProblem(
            f"The scheduler at {self._address} is gone; what was finished is kept: start it and run the same command "
            "again, which does what is missing."
        ) from None


def _connect(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise BadInput("The engine dask needs Dask: pip install 'firstsight[cluster]'.") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # our messages report what matters
    connect: Any = Client  # distributed has no types
    try:
        return connect(address, timeout=ANSWER_SECONDS, set_as_default=False)
    except ValueError as error:
        raise BadInput(
            f"{address!r} is not a scheduler's address ({error}); give one such as tcp://node1:8786."
        ) from None
    except OSError:
        raise ClusterProblem(
            f"No Dask scheduler answered at {address} within {ANSWER_SECONDS} seconds; check the address, or start one "
            "with `dask scheduler`."
        ) from None


def installed_version() -> str:
    """Return the version of firstsight in this process."""
    import firstsight

    return firstsight.__version__


def check_version(version: str, worker: str, expected: str) -> None:
    """Reject a worker with another firstsight: records of one run come from one version."""
    if version != expected:
        raise ClusterProblem(
            f"The worker at {worker} has firstsight {version}, and this is {expected}; install the same version "
            "everywhere."
        )

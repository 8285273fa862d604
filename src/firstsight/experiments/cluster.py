"""A Dask cluster: connected, with workers of this version of firstsight, and asked one thing at a time per worker."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from typing import Any, NoReturn, Self

from firstsight.errors import BadInput
from firstsight.experiments.worker import ClusterProblem, refuse_other_version, version_here

ANSWER_SECONDS = 10  # for the scheduler
WORKER_SECONDS = 60  # without any worker


class Cluster:
    """By the address of its scheduler or by a client that somebody has connected."""

    def __init__(self, scheduler: Any):
        self._named, self._address = isinstance(scheduler, str), str(scheduler)
        self._client: Any = None if self._named else scheduler
        self._alone_since: float | None = None

    def __enter__(self) -> Self:
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
        if self._named:
            self._client.close()

    def slots(self) -> int:
        """One at a time per worker process."""
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

    def each(self, function: Callable[..., Any], calls: Mapping[Any, tuple[Any, ...]]) -> Iterator[tuple[Any, Any]]:
        """What `function(*call)` gives on the workers, with the call's key, as they end; the first error is raised."""
        from distributed import KilledWorker

        waiting, running = list(calls), dict[Future[Any], Any]()
        waiting.reverse()
        while waiting or running:
            while waiting and len(running) < self.slots():
                key = waiting.pop()
                running[self._executor.submit(function, *calls[key])] = key
            # Not for ever: a cluster may have grown in the meantime.
            for future in wait(running, timeout=1.0, return_when=FIRST_COMPLETED).done:
                key = running.pop(future)
                try:
                    answer = future.result()
                except CancelledError:
                    self._gone()
                except KilledWorker as killed:
                    raise ClusterProblem(
                        f"The processes that worked on {key} died, {killed.allowed_failures + 1} in a row; they may "
                        "have run out of memory. What was finished is kept."
                    ) from None
                yield key, answer

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
            f"The scheduler at {self._address} is gone; what was finished is kept: start it and run the same command "
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
        raise BadInput(
            f"{address!r} is not a scheduler's address ({error}); give one such as tcp://node1:8786."
        ) from None
    except OSError:
        raise ClusterProblem(
            f"No Dask scheduler answered at {address} within {ANSWER_SECONDS} seconds; check the address, or start one "
            "with `dask scheduler`."
        ) from None

"""A worker process that is none: jobs run in this one, where torch is loaded already."""

from __future__ import annotations

from concurrent.futures import Future

from firstsight.experiments import worker


class Here:
    """In the place of `local_workers._Process`; what a job is sent and answers is the same."""

    def __init__(self, threads: int):
        worker._opened.clear()

    def submit(self, order: str) -> Future[str]:
        done: Future[str] = Future()
        done.set_result(worker.run_cell(order))
        return done

    def stop(self) -> None:
        worker._opened.clear()

"""A worker process that is none: jobs run in this one, where torch is loaded already."""

from __future__ import annotations

from concurrent.futures import Future

from firstsight.experiments import jobs


class Here:
    """Replaces `executors._LocalProcess`; what a job is sent and answers is the same."""

    def __init__(self, threads: int):
        jobs._opened.clear()

    def submit(self, function, *arguments) -> Future:
        done: Future = Future()
        done.set_result(function(*arguments))
        return done

    def stop(self) -> None:
        jobs._opened.clear()

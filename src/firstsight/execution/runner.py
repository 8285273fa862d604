"""Runs jobs in worker processes; this process alone writes records."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from firstsight.data import ZeroShotDataset
from firstsight.errors import BadInput
from firstsight.execution.plan import Job
from firstsight.records.record_schema import Record
from firstsight.records.storage import RecordFile

# What the numerical libraries read when they are loaded.
_THREAD_LIMITS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_RECORDS = TypeAdapter(list[Record])
_Answers = queue.Queue[tuple["_Worker", str | None]]


@dataclass(frozen=True)
class Place:
    """What the jobs of one data set need."""

    records: RecordFile
    data: Path  # where `share` has put it
    checkpoints: Path
    split: str
    features: str


@dataclass
class Event:
    """Something to show: a job began (`records` is None), or ended with these records."""

    job: Job
    records: list[Record] | None
    running: list[tuple[Job, float]]  # jobs under way and when they began (time.monotonic)


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


class Runner:
    """A pool of worker processes. More threads than processors would make every one of them slower."""

    def __init__(self, processes: int, calibrate: bool = False):
        self.processes, self.calibrate = processes, calibrate
        set_already = os.environ.get("OMP_NUM_THREADS", "")  # who sets a limit means it
        limit = int(set_already) if set_already.isdigit() else cores()
        self.threads = max(1, min(cores() // processes, limit))

    def run(self, jobs: list[Job], places: dict[str, Place], show: Callable[[Event], None]) -> None:
        """Run the jobs in order; a job whose process dies is a failed record, and another process takes over."""
        waiting = list(reversed(jobs))
        answers: _Answers = queue.Queue()
        running: dict[_Worker, tuple[Job, float]] = {}

        def tell(job: Job, records: list[Record] | None) -> None:
            show(Event(job, records, list(running.values())))

        def give(worker: _Worker) -> None:
            job = waiting.pop()
            running[worker] = (job, time.monotonic())
            tell(job, None)
            worker.send(self._order(job, places[job.dataset]))

        with _workers(self.threads, answers) as start:
            for _ in range(min(self.processes, len(jobs))):
                give(start())
            while running:
                worker, answer = answers.get()
                if worker not in running:
                    continue  # the end of a process that was already accounted for
                job, began = running.pop(worker)
                place = places[job.dataset]
                if answer is None:
                    records = self._died(worker, job, place, time.monotonic() - began)
                else:
                    records = _RECORDS.validate_json(answer)
                _keep(job, records, place)
                tell(job, records)
                if waiting:
                    give(worker if answer is not None else start())

    def _order(self, job: Job, place: Place) -> str:
        checkpoint = checkpoint_of(job, place.checkpoints)
        where = {"data": str(place.data), "features": place.features, "checkpoint": str(checkpoint)}
        return json.dumps({"job": job.to_json(), **where, "calibrate": self.calibrate})

    def _died(self, worker: _Worker, job: Job, place: Place, seconds: float) -> list[Record]:
        from firstsight.execution.run_job import failed

        return failed(job, worker.last_words(), seconds, place.split, place.features)


def run_here(
    jobs: list[Job],
    places: dict[str, Place],
    datasets: dict[str, ZeroShotDataset],
    show: Callable[[Event], None],
    calibrate: bool = False,
) -> None:
    """Run the jobs of estimators that no other process knows, one after the other."""
    from firstsight.execution.run_job import run_job

    for job in jobs:
        place = places[job.dataset]
        show(Event(job, None, [(job, time.monotonic())]))
        checkpoint = checkpoint_of(job, place.checkpoints)
        records = run_job(job, datasets[job.dataset], place.features, checkpoint, calibrate)
        _keep(job, records, place)
        show(Event(job, records, []))


def _keep(job: Job, records: list[Record], place: Place) -> None:
    place.records.append(records)
    if all(record.status == "done" for record in records):
        checkpoint_of(job, place.checkpoints).unlink(missing_ok=True)  # a failed one may go on from there


def checkpoint_of(job: Job, folder: Path) -> Path:
    return folder / f"{job.fingerprint()}.safetensors"


class _Worker:
    def __init__(self, threads: int, answers: _Answers):
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed in stop)
        self._process = subprocess.Popen(
            # -P: what lies in the current folder is not for this process to import.
            [sys.executable, "-P", "-m", "firstsight.execution.worker", str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **dict.fromkeys(_THREAD_LIMITS, str(threads))},
            text=True,
            encoding="utf-8",
        )
        threading.Thread(target=self._read, args=(answers,), daemon=True).start()

    def _read(self, answers: _Answers) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answers.put((self, line))
        answers.put((self, None))

    def send(self, order: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(order + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has died; its reader tells

    def last_words(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        hint = "; the machine may have run out of memory" if code == -9 else ""
        said = f": {lines[-1].strip()}" if lines and code > 0 else ""
        return f"The process that ran this cell {how}{said}{hint}."

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._errors.close()


@contextmanager
def _workers(threads: int, answers: _Answers) -> Iterator[Callable[[], _Worker]]:
    started: list[_Worker] = []

    def start() -> _Worker:
        started.append(_Worker(threads, answers))
        return started[-1]

    try:
        yield start
    finally:
        for worker in started:
            worker.stop()

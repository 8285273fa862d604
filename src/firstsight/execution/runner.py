"""Runs jobs on the workers of an engine; this process alone writes records."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from firstsight.data import ZeroShotDataset
from firstsight.execution.engines import Engine, Workers
from firstsight.execution.local_workers import WorkerDied
from firstsight.execution.plan import Job
from firstsight.execution.worker import version_here
from firstsight.records.record_schema import Record
from firstsight.records.storage import RecordFile

_RECORDS = TypeAdapter(list[Record])


@dataclass(frozen=True)
class Place:
    """What the jobs of one data set need."""

    records: RecordFile
    data: Path  # where `share` has put it
    checkpoints: Path
    split: str
    features: str
    identity: str


@dataclass
class Event:
    """Something to show: a job began (`records` is None), or ended with these records."""

    job: Job
    records: list[Record] | None
    running: list[tuple[Job, float]]  # jobs under way and when they began (time.monotonic)


class Runner:
    """Hands jobs to the workers of an engine, in order, and writes what they answer."""

    def __init__(self, engine: Engine, calibrate: bool = False):
        self.engine, self.calibrate = engine, calibrate

    def run(
        self,
        jobs: list[Job],
        places: dict[str, Place],
        datasets: dict[str, ZeroShotDataset],
        show: Callable[[Event], None],
    ) -> None:
        """Run the jobs; one whose process dies for good is a failed record, and the rest goes on."""
        waiting = list(reversed(jobs))
        running: dict[Future[str], tuple[Job, float]] = {}

        def tell(job: Job, records: list[Record] | None) -> None:
            show(Event(job, records, list(running.values())))

        with self.engine(len(jobs)) as workers:
            while waiting or running:
                while waiting and len(running) < workers.slots():
                    job = waiting.pop()
                    future = workers.submit(self._order(job, places[job.dataset]), datasets[job.dataset])
                    running[future] = (job, time.monotonic())
                    tell(job, None)
                # Not for ever: a cluster may have grown in the meantime.
                done, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
                for future in done:
                    job, began = running.pop(future)
                    records = self._records(workers, future, job, places[job.dataset], time.monotonic() - began)
                    if records is None:
                        waiting.append(job)
                        continue
                    _keep(job, records, places[job.dataset])
                    tell(job, records)

    def _records(
        self, workers: Workers, future: Future[str], job: Job, place: Place, seconds: float
    ) -> list[Record] | None:
        from firstsight.execution.run_job import failed

        try:
            answer = workers.answer(future)
        except WorkerDied as died:
            return failed(job, str(died), seconds, place.split, place.features)
        return None if answer is None else _RECORDS.validate_json(answer)

    def _order(self, job: Job, place: Place) -> str:
        checkpoint = checkpoint_of(job, place.checkpoints).absolute()  # a cluster's workers have folders of their own
        where = {"data": str(place.data.absolute()), "features": place.features, "checkpoint": str(checkpoint)}
        about = {"version": version_here(), "identity": place.identity, "calibrate": self.calibrate}
        return json.dumps({"job": job.to_json(), **where, **about})


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

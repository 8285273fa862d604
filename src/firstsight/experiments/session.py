"""Run an experiment: validate everything first, then run the missing cells; only this process writes records."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from firstsight._io.files import remove_stale, scratch_folder
from firstsight._io.identity import same_data
from firstsight.data import ZeroShotDataset
from firstsight.errors import BadInput
from firstsight.experiments.plan import Job, longest_first, missing
from firstsight.experiments.records import OtherRecords, Record, RecordFile, is_held, key_of
from firstsight.experiments.shared_data import features_key, identity_of_data, share, unshare
from firstsight.experiments.worker import version_here
from firstsight.experiments.workers import Engine, WorkerDied, Workers

# Runs jobs on the workers of an engine; this process alone writes records.

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
        from firstsight.experiments.jobs import failed

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
    from firstsight.experiments.jobs import run_job

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


# A benchmark from start to end: judge everything first, then run what is missing.

CHECKPOINTS, DATA = ".checkpoints", ".data"  # hidden folders under RESULTS, for the time of a run


@dataclass
class Session:
    """What is to be done in a folder of results, and what is there already."""

    folder: Path
    jobs: list[Job]  # those that are missing, longest first
    there: list[Record]  # finished records of the plan's data sets that are not run again
    places: dict[str, Place]
    datasets: dict[str, ZeroShotDataset]
    calibrate: bool = False

    def run(self, engine: Engine, show: Callable[[Event], None]) -> None:
        """Run the missing jobs; every finished cell is on the disk before the next is shown."""
        away = [job for job in self.jobs if job.estimator is None]
        if away:
            Runner(engine, self.calibrate).run(away, self.places, self.datasets, show)
        here = [job for job in self.jobs if job.estimator is not None]
        run_here(here, self.places, self.datasets, show, self.calibrate)


@contextmanager
def records_folder(out: str | Path | None) -> Iterator[Path]:
    """Where records go: `out`, or a folder for as long as the block lasts."""
    if out is not None:
        yield Path(out)
        return
    with scratch_folder() as folder:
        yield folder


@contextmanager
def prepare(
    folder: Path,
    datasets: list[ZeroShotDataset],
    plans: dict[str, list[Job]],
    calibrate: bool = False,
    instead: str = "choose another folder, or remove those lines first",
) -> Iterator[Session]:
    """Compare a plan with the records of a folder; nothing is written before everything was judged.

    `instead` is what to do where the folder holds something else.
    """
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file, and records go to a folder; choose another place.")
    names = [dataset.name for dataset in datasets]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"Two of the data sets are called {name!r}; benchmark them into two folders, one by one.")
    files = {name: RecordFile(folder, name) for name in names}
    features = {dataset.name: dataset.features_fingerprint for dataset in datasets}
    there = {name: file.read() for name, file in files.items()}
    try:
        for dataset in datasets:
            _refuse_other_data(there[dataset.name], dataset, features[dataset.name], files[dataset.name].path)
        jobs = [job for n in names for job in longest_first(missing(plans[n], there[n], calibrate), there[n])]
    except OtherRecords as other:
        raise BadInput(f"{other}; {instead}.") from None
    pending = {job.fingerprint() for job in jobs}
    places: dict[str, Place] = {}
    _refuse_links(folder)
    _remove_litter(folder)
    shared_features: dict[tuple[Any, ...], Path] = {}  # validation folds of a data set have its features in common
    try:
        for dataset in datasets:
            name, shared = dataset.name, folder / DATA / files[dataset.name].path.stem
            files[name].open()
            checkpoints = folder / CHECKPOINTS / shared.name
            _remove_checkpoints(plans[name], pending, checkpoints)
            digests = (dataset.split_hash, features[name], identity_of_data(dataset))
            places[name] = Place(files[name], shared, checkpoints, *digests)
            if any(job.dataset == name and job.estimator is None for job in jobs):
                array = features_key(dataset)
                share(dataset, shared, twin=shared_features.get(array))
                shared_features.setdefault(array, shared)
        again = {key_of(cell) for job in jobs for cell in job.cells()}
        known = [record for records in there.values() for record in records if key_of(record) not in again]
        done = [record for record in known if record.status == "done"]
        yield Session(folder, jobs, done, places, {dataset.name: dataset for dataset in datasets}, calibrate)
    finally:
        with ExitStack() as cleaning:  # the last first; what one step meets does not keep the others from being done
            for hidden in (DATA, CHECKPOINTS):
                cleaning.callback(remove_if_empty, folder / hidden)
            for place in places.values():
                # A checkpoint that is left belongs to a cell that is still to be finished.
                cleaning.callback(remove_if_empty, place.checkpoints)
                cleaning.callback(unshare, place.data)
            for file in files.values():
                cleaning.callback(file.close)


def _remove_checkpoints(jobs: list[Job], pending: set[str], folder: Path) -> None:
    """Those of finished jobs, and halves of any."""
    for job in jobs:
        checkpoint = checkpoint_of(job, folder)
        remove_stale(checkpoint)  # half of one, when its process was killed
        if job.fingerprint() not in pending:  # a kill may come between its last record and this
            checkpoint.unlink(missing_ok=True)


def _refuse_other_data(records: list[Record], dataset: ZeroShotDataset, features: str, path: Path) -> None:
    for record in records:
        if record.split != dataset.split_hash:
            raise OtherRecords(
                f"{path} holds records of another split that is also called {dataset.name!r} ({record.split}, and "
                f"this one is {dataset.split_hash})"
            )
        if record.features and not same_data(record.features, features):
            raise OtherRecords(f"{path} holds records of {dataset.name!r} with other features or descriptions")


def _refuse_links(folder: Path) -> None:
    """What lies in the hidden folders is removed: no link may make that somebody else's files."""
    for hidden in (folder / DATA, folder / CHECKPOINTS):
        for place in (hidden, *hidden.glob("*")):
            if place.is_symlink():
                raise BadInput(f"{place} is a link, but files of a run are written and removed there; remove the link.")


def _remove_litter(folder: Path) -> None:
    """Copies of data sets that a killed benchmark has left; those that another process is using stay."""
    for shared in (folder / DATA).glob("*"):
        if not is_held(folder / f"{shared.name}.jsonl"):
            unshare(shared)
    remove_if_empty(folder / DATA)


def remove_if_empty(folder: Path) -> None:
    """A hidden folder that has served its time."""
    with suppress(OSError):  # not there, or another benchmark uses it
        folder.rmdir()

"""Run an experiment: validate, then run the missing jobs; where records and checkpoints are stored."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstsight._io.files import remove_stale, scratch_folder
from firstsight._io.identity import same_data
from firstsight.data import ZeroShotDataset
from firstsight.errors import BadInput
from firstsight.experiments.executors import WorkerDied, Workers, installed_version
from firstsight.experiments.jobs import (
    data_identity,
    failed_records,
    features_key,
    other_parts,
    run_cell,
    run_job,
    share,
    unshare,
)
from firstsight.experiments.plan import Job, longest_first, missing
from firstsight.experiments.records import OtherRecords, Record, RecordFile, is_locked, key_of, parse_records

CHECKPOINTS, DATA = ".checkpoints", ".data"  # hidden folders under RESULTS, for the time of a run


@dataclass
class Event:
    """A job began (`records` is None), or ended with these records."""

    job: Job
    records: list[Record] | None
    running: list[tuple[Job, float]]  # jobs under way and when they began (time.monotonic)


@dataclass(frozen=True)
class DatasetFiles:
    """A data set of a run and the files that its jobs read and write."""

    dataset: ZeroShotDataset
    records: RecordFile
    shared: Path  # where `share` puts the data set
    checkpoints: Path

    def checkpoint_of(self, job: Job) -> Path:
        """Return where a fit saves its state while it runs."""
        return self.checkpoints / f"{job.fingerprint()}.safetensors"


@dataclass
class Session:
    """The jobs that a folder of results lacks, and the records that it has."""

    folder: Path
    jobs: list[Job]  # longest first
    finished: list[Record]  # of the plan's data sets, without those that are run again
    files: dict[str, DatasetFiles]
    calibrate: bool = False

    def run(self, workers: Workers, on_event: Callable[[Event], None]) -> None:
        """Run the missing jobs; each finished one is on the disk before the next is reported."""
        running: dict[int, tuple[Job, float]] = {}  # by the identity of the job

        def on_start(job: Job) -> None:
            running[id(job)] = job, time.monotonic()
            on_event(Event(job, None, list(running.values())))

        try:
            for results in (self._run_on(workers, running, on_start), self._run_here(on_start)):
                for job, records in results:
                    files = self.files[job.dataset]
                    files.records.append(records)
                    if all(record.status == "done" for record in records):
                        files.checkpoint_of(job).unlink(missing_ok=True)  # a failed fit may resume there
                    del running[id(job)]
                    on_event(Event(job, records, list(running.values())))
        except BaseException:
            workers.__exit__(None, None, None)  # before files are unlocked and removed that a fit still writes to
            raise

    def _run_on(
        self, workers: Workers, running: dict[int, tuple[Job, float]], on_start: Callable[[Job], None]
    ) -> Iterator[tuple[Job, list[Record]]]:
        jobs = [job for job in self.jobs if job.estimator is None]
        if not jobs:
            return

        def arguments(job: Job) -> tuple[Any, ...]:
            dataset = self.files[job.dataset].dataset
            identity, key = data_identity(dataset), features_key(dataset)
            return self._order(job), *workers.transfer(identity, key, dataset.features, other_parts(dataset))

        for job, answer in workers.run(run_cell, jobs, arguments, on_start):
            dataset = self.files[job.dataset].dataset
            if isinstance(answer, WorkerDied):
                seconds = time.monotonic() - running[id(job)][1]
                yield job, failed_records(job, str(answer), seconds, dataset.split_hash, dataset.features_fingerprint)
            else:
                yield job, parse_records(answer)

    def _run_here(self, on_start: Callable[[Job], None]) -> Iterator[tuple[Job, list[Record]]]:
        """Run the jobs of estimators that no other process knows, one after the other."""
        for job in self.jobs:
            if job.estimator is not None:
                files = self.files[job.dataset]
                on_start(job)
                fingerprint, checkpoint = files.dataset.features_fingerprint, files.checkpoint_of(job)
                yield job, run_job(job, files.dataset, fingerprint, checkpoint, self.calibrate)

    def _order(self, job: Job) -> str:
        """Return what a worker has to know of a job, as JSON."""
        files = self.files[job.dataset]
        order = {
            "job": job.to_json(), "version": installed_version(), "identity": data_identity(files.dataset),
            "features": files.dataset.features_fingerprint, "calibrate": self.calibrate,
            # A cluster's workers have other current folders.
            "data": str(files.shared.absolute()), "checkpoint": str(files.checkpoint_of(job).absolute()),
        }  # fmt: skip
        return json.dumps(order)


@contextmanager
def records_folder(out: str | Path | None) -> Iterator[Path]:
    """Yield the folder of records: `out`, or a temporary one."""
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
    advice: str = "choose another folder, or remove those lines first",
) -> Iterator[Session]:
    """Compare a plan with the records of a folder; nothing is written before everything is validated.

    `advice` ends the message about a folder whose records do not belong to the plan.
    """
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file, and records go to a folder; choose another place.")
    files = _files(folder, datasets)
    records = {name: f.records.read() for name, f in files.items()}
    try:
        for name, f in files.items():
            _check_same_data(records[name], f)
        jobs = [j for n in files for j in longest_first(missing(plans[n], records[n], calibrate), records[n])]
    except OtherRecords as other:
        raise BadInput(f"{other}; {advice}.") from None
    _check_links(folder)
    _remove_stale_shared_data(folder)
    repeated = {key_of(cell) for job in jobs for cell in job.cells()}
    finished = [r for n in files for r in records[n] if r.status == "done" and key_of(r) not in repeated]
    shared: dict[tuple[Any, ...], Path] = {}  # validation folds of a data set have the same features
    with ExitStack() as cleaning:
        for hidden in (CHECKPOINTS, DATA):  # the last first
            cleaning.callback(remove_if_empty, folder / hidden)
        for name, f in files.items():
            cleaning.callback(f.records.close)
            f.records.open()
            pending = {job.fingerprint() for job in jobs if job.dataset == name}
            # A checkpoint that is left belongs to a cell that is still to be finished.
            cleaning.callback(remove_if_empty, f.checkpoints)
            _remove_old_checkpoints(f, plans[name], pending)
            if any(job.dataset == name and job.estimator is None for job in jobs):
                cleaning.callback(unshare, f.shared)
                key = features_key(f.dataset)
                share(f.dataset, f.shared, twin=shared.get(key))
                shared.setdefault(key, f.shared)
        yield Session(folder, jobs, finished, files, calibrate)


def _files(folder: Path, datasets: list[ZeroShotDataset]) -> dict[str, DatasetFiles]:
    files: dict[str, DatasetFiles] = {}
    for dataset in datasets:
        if dataset.name in files:
            raise BadInput(
                f"Two of the data sets are called {dataset.name!r}; benchmark them into two folders, one by one."
            )
        records = RecordFile(folder, dataset.name)
        stem = records.path.stem
        files[dataset.name] = DatasetFiles(dataset, records, folder / DATA / stem, folder / CHECKPOINTS / stem)
    return files


def _remove_old_checkpoints(files: DatasetFiles, jobs: list[Job], pending: set[str]) -> None:
    """Remove those of finished jobs, and halves of any."""
    for job in jobs:
        checkpoint = files.checkpoint_of(job)
        remove_stale(checkpoint)  # half of one, when its process was killed
        if job.fingerprint() not in pending:  # a kill may come between its last record and the removal
            checkpoint.unlink(missing_ok=True)


def _check_same_data(records: list[Record], files: DatasetFiles) -> None:
    dataset, path = files.dataset, files.records.path
    for record in records:
        if record.split != dataset.split_hash:
            raise OtherRecords(
                f"{path} holds records of another split that is also called {dataset.name!r} ({record.split}, and "
                f"this one is {dataset.split_hash})"
            )
        if record.features is None or not same_data(record.features, dataset.features_fingerprint):
            raise OtherRecords(f"{path} holds records of {dataset.name!r} with other features or descriptions")


def _check_links(folder: Path) -> None:
    """Reject links among the hidden folders: files are removed there, and a link may lead to the user's files."""
    for hidden in (folder / DATA, folder / CHECKPOINTS):
        for path in (hidden, *hidden.glob("*")):
            if path.is_symlink():
                raise BadInput(f"{path} is a link, but files of a run are written and removed there; remove the link.")


def _remove_stale_shared_data(folder: Path) -> None:
    """Remove copies of data sets that a killed benchmark has left; those that another process is using stay."""
    for shared in (folder / DATA).glob("*"):
        if not is_locked(folder / f"{shared.name}.jsonl"):
            unshare(shared)
    remove_if_empty(folder / DATA)


def remove_checkpoints(folder: Path) -> None:
    """Remove the checkpoints in a folder, and the folders that are empty then."""
    for checkpoint in folder.glob("*.safetensors"):
        checkpoint.unlink(missing_ok=True)
    remove_if_empty(folder)
    remove_if_empty(folder.parent)


def remove_if_empty(folder: Path) -> None:
    """Remove a folder that nothing is in; one that another benchmark uses stays."""
    with suppress(OSError):
        folder.rmdir()

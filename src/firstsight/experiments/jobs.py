"""Run one job: open its data set, fit a method once, and make the record of every cell that the fit answers."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
import warnings
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

import firstsight
from firstsight._io.disk_samples import LARGEST_BLOCK, DiskSamples, blocks_of
from firstsight._io.files import remove_stale, write_atomically
from firstsight.data import ZeroShotDataset
from firstsight.errors import FirstsightError, StaleCheckpoint
from firstsight.evaluation import (
    TaskScores,
    best_constant,
    fit_on,
    fitted_core,
    harmonic_mean,
    percent,
    score_task,
    scores_of,
)
from firstsight.evaluation.leakage import Watched
from firstsight.evaluation.protocol import describe_space, one_hot, score_samples
from firstsight.evaluation.scores import TradeOff
from firstsight.experiments.executors import DataMissing, check_version, installed_version
from firstsight.experiments.few_shot import FewShotSplit, split_for
from firstsight.experiments.plan import Job, description_of, parameters_hash, parameters_of, with_fixed_settings
from firstsight.experiments.records import SCHEMA, CellKey, Record, parse_records
from firstsight.methods import ZeroShotClassifier

# What happened in each round of a transductive fit, judged with labels that only the evaluation has.


def diagnostics_of(model: Any) -> dict[str, Any]:
    """What a fit told of itself; a method that is not firstsight's has nothing to tell."""
    core = fitted_core(model)
    return core.diagnostics_ if isinstance(core, ZeroShotClassifier) else {}


def rounds_of(model: Any, dataset: ZeroShotDataset, setting: str) -> list[dict[str, Any]] | None:
    """Accuracy on the pool after each round, and how many of the labels it had just trained on were right.

    None for a method without rounds.
    """
    if "rounds" not in diagnostics_of(model):
        return None
    model = fitted_core(model)
    rows = dataset.test_unseen if setting == "zsl" else np.concatenate([dataset.test_seen, dataset.test_unseen])
    rows = np.sort(rows)  # the order in which fit_on hands the pool over
    truth = dataset.names_of(rows)
    names = model.classes_[model.pool_predictions_]  # (rounds, pool)
    if names.shape[1] != len(rows):
        return None
    rounds = []
    seen = dataset.seen_classes if setting == "gzsl" else []
    others = [name for name in model.classes_.tolist() if name not in set(seen)]
    for r, (predicted, selected) in enumerate(zip(names, model.selected_, strict=True)):
        task = score_samples(model, [(predicted, truth)], seen, others, lambda _, *answers: one_hot(*answers))
        labels = (names[r - 1][selected] == truth[selected]) if r and selected.any() else None
        rounds.append(
            {
                "round": r + 1,
                **{name: percent(value) for name, value in task.metrics(setting).items()},
                "selected": int(selected.sum()),
                "pseudo_label_accuracy": None if labels is None else round(100 * float(labels.mean()), 2),
            }
        )
    return rounds


# A data set that several processes read without each holding a copy: its features as a memory-mapped file.

_FEATURES, _ARRAYS_FILE, _NAMES_FILE = "features.npy", "arrays.npz", "names.json"
_ARRAYS = ("labels", "description_matrix", "train", "test_seen", "test_unseen")
_NAMES = ("name", "class_names", "attribute_names")


def share(dataset: ZeroShotDataset, folder: Path, twin: Path | None = None) -> None:
    """Write what a fit needs of a data set; `twin` is the folder of one with the same features, which are linked."""
    features = dataset.features
    source = None if twin is None else twin / _FEATURES
    if source is None and isinstance(features, DiskSamples) and features.is_whole_file:
        source = features.path.resolve()
    if source is None or not _link(source, folder / _FEATURES):
        write_atomically(folder / _FEATURES, lambda path: _save(path, features))
    parts = other_parts(dataset)
    arrays = {name: parts.pop(name) for name in _ARRAYS}
    write_atomically(folder / _ARRAYS_FILE, lambda path: np.savez(path, **arrays))
    memory = features.memory if isinstance(features, DiskSamples) else None
    names = {"identity": data_identity(dataset), "memory": memory, **parts}
    write_atomically(folder / _NAMES_FILE, json.dumps(names, ensure_ascii=False))


def other_parts(dataset: ZeroShotDataset) -> dict[str, Any]:
    """Return what a fit needs besides the features."""
    return {name: getattr(dataset, name) for name in (*_ARRAYS, *_NAMES)}


def data_identity(dataset: ZeroShotDataset) -> str:
    """Return text that changes with everything that a fit is shown."""
    return f"{dataset.features_fingerprint}-{dataset.split_hash}"


def unshare(folder: Path) -> None:
    """Remove what `share` has written, and what writes that were killed have left of it; nothing else."""
    for name in (_FEATURES, _ARRAYS_FILE, _NAMES_FILE):
        remove_stale(folder / name)
        with suppress(OSError):
            (folder / name).unlink()
    with suppress(OSError):  # it does not exist, or holds other files
        folder.rmdir()


def open_shared(folder: Path, identity: str) -> ZeroShotDataset | None:
    """Open the data set that `share` wrote, features memory-mapped; None if the folder does not hold it."""
    try:
        names = json.loads((folder / _NAMES_FILE).read_text(encoding="utf-8"))
    except OSError:
        return None
    if names.pop("identity") != identity:
        return None
    memory = names.pop("memory")
    features: Any = np.load(folder / _FEATURES, mmap_mode="r")
    if memory is not None:
        features = DiskSamples(folder / _FEATURES, memory=memory)
    with np.load(folder / _ARRAYS_FILE) as arrays:
        return ZeroShotDataset(features=features, **names, **{name: arrays[name] for name in _ARRAYS})


def features_key(dataset: ZeroShotDataset) -> tuple[Any, ...]:
    """Return a key that data sets share if they share their features in memory, as validation folds do."""
    features = dataset.features
    if isinstance(features, DiskSamples):
        return str(features.path), features.shape, id(features)
    return features.ctypes.data, features.shape, features.strides


def _save(path: Path, features: Any) -> None:
    out = np.lib.format.open_memmap(path, "w+", np.float32, features.shape)
    for part, samples in blocks_of(features, LARGEST_BLOCK):
        out[part] = samples
    out.flush()


def _link(source: Path, path: Path) -> bool:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.hardlink_to(source)
    except OSError:  # a file system without such links
        return False
    return True


# One job.

Values = dict[str, Any]  # of a record
_opened: dict[str, ZeroShotDataset] = {}  # by identity: the data set of the job before, for the next
_one_at_a_time = threading.Lock()  # thread limits, caught warnings and measured memory are the whole process's


def run_cell(order: str, features: Any = None, parts: dict[str, Any] | None = None) -> str:
    """Run a job in a worker process: its order comes in as JSON, its records go out as JSON.

    `features` and the other `parts` of its data set are arguments where no disk is shared.
    """
    values = json.loads(order)
    check_version(installed_version(), socket.gethostname(), values["version"])
    with _one_at_a_time:
        dataset = _open(values["identity"], Path(values["data"]), features, parts)
        job = Job.from_json(values["job"])
        # Without a shared disk no other worker could resume from a checkpoint.
        checkpoint = None if parts is not None else Path(values["checkpoint"])
        return _run_to_json(job, dataset, values["features"], checkpoint, values["calibrate"])


def _open(identity: str, folder: Path, features: Any, parts: dict[str, Any] | None) -> ZeroShotDataset:
    if identity not in _opened:
        _opened.clear()  # free the memory of the one before
        dataset = open_shared(folder, identity) if parts is None else ZeroShotDataset(features=features, **parts)
        if dataset is None:
            raise DataMissing(identity)
        _opened[identity] = dataset
    return _opened[identity]


def run_job(
    job: Job, dataset: ZeroShotDataset, features: str, checkpoint: Path | None = None, calibrate: bool = False
) -> list[Record]:
    """Run a job in this process and return the records of its cells; an error becomes a failed record."""
    return parse_records(_run_to_json(job, dataset, features, checkpoint, calibrate))


def failed_records(job: Job, error: str, seconds: float, split: str, features: str) -> list[Record]:
    """Return the records of a job without a result."""
    values = [_without_result(job, cell, error, seconds, split, features) for cell in job.cells()]
    return parse_records(json.dumps(values))


def _run_to_json(job: Job, dataset: ZeroShotDataset, features: str, checkpoint: Path | None, calibrate: bool) -> str:
    began = time.perf_counter()
    _reset_peak()
    try:
        results = _run_few_shot(job, dataset, checkpoint) if job.shots else _run(job, dataset, checkpoint, calibrate)
    except Exception as error:
        message = " ".join(str(error).split())
        if not isinstance(error, FirstsightError):
            message = f"{type(error).__name__}: {message[:300]}"  # libraries may add pages of their own stack
        results = [{"error": message, "seconds": round(time.perf_counter() - began, 2)} for _ in job.cells()]
    cells = zip(job.cells(), results, strict=True)
    records = [
        {**_without_result(job, cell, "", 0.0, dataset.split_hash, features), **values} for cell, values in cells
    ]
    return json.dumps(records)


def _without_result(job: Job, cell: CellKey, error: str, seconds: float, split: str, features: str) -> Values:
    entry = job.entry
    # Estimators that are no methods of firstsight declare none of these.
    declared = {"extra_supervision": "", "transductive": False, "space": ""}
    declared = {name: getattr(entry.kind, name, default) for name, default in declared.items()}
    estimator = (job.word or description_of(job.estimator)) if job.estimator is not None or job.word else None
    return {
        "schema": SCHEMA, "status": "failed", "error": error, **cell._asdict(),
        **dict.fromkeys(("t1", "ts", "tr", "h")), "per_class": {}, "confusion": [], "parameters": {}, **declared,
        "versions": _versions(), "seconds": round(seconds, 2), "fit_seconds": None, "cpu_seconds": None,
        "peak_mib": _peak_mib(), "threads": _threads(), "touched": None, "seen_unseen": None, "space_facts": None,
        "rounds": None, "collapsed": False, "warnings": [], "resumed": False, "estimator": estimator,
        "parameters_hash": None, "split": split, "features": features, "given": job.given, "tuned": job.tuned,
        "few_shot": None,
    }  # fmt: skip


def _fit(job: Job, dataset: ZeroShotDataset, checkpoint: Path | None) -> tuple[Watched, float, Values]:
    """Fit the estimator of a job; return it, the seconds that it took, and what all records of the fit share."""
    estimator = estimator_of(job, checkpoint)
    resumed = checkpoint is not None and checkpoint.exists()
    began, work = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        watched = _fit_or_restart(estimator, dataset)
    fit_seconds = time.perf_counter() - began
    messages = list(dict.fromkeys(" ".join(str(w.message).split()) for w in caught))
    return (
        watched,
        fit_seconds,
        {
            "parameters": parameters_of(estimator),
            "fit_seconds": round(fit_seconds, 2),
            "cpu_seconds": round(time.process_time() - work, 2),  # of the fit: what a busy machine does not change
            "collapsed": diagnostics_of(estimator).get("collapsed", False),
            "warnings": messages[:5],
            "resumed": resumed,
            "parameters_hash": parameters_hash(job),
        },
    )


def _run(job: Job, dataset: ZeroShotDataset, checkpoint: Path | None, calibrate: bool) -> list[Values]:
    watched, fit_seconds, common = _fit(job, dataset, checkpoint)
    estimator, common["touched"] = watched.estimator, watched.touched(dataset)
    records = []
    for cell in job.cells():
        began = time.perf_counter()
        task = score_task(estimator, dataset, cell.setting, scores_of)
        measured = _measured(estimator, dataset, cell.setting, task)
        if cell.setting == "gzsl":
            curve = task.curve
            calibrated = None
            if calibrate:
                try:
                    calibrated = _calibrated(job, dataset, curve)
                except FirstsightError as error:  # the figures as they are stand without it
                    common["warnings"] = [*common["warnings"], f"Not calibrated: {error}"]
            measured["seen_unseen"] = {**_areas(curve), "curve": curve.points(), "calibrated": calibrated}
        seconds = fit_seconds + time.perf_counter() - began
        done = {"status": "done", "error": None, "seconds": round(seconds, 2), "peak_mib": _peak_mib()}
        rounds = rounds_of(estimator, dataset, cell.setting)
        records.append({**common, **measured, **done, "rounds": rounds})
    return records


def _run_few_shot(job: Job, dataset: ZeroShotDataset, checkpoint: Path | None) -> list[Values]:
    """Measure one fit, without classes in detail, once it has learned the labelled samples of each cell."""
    splits = {draw: split_for(dataset, job.held_out, draw) for _, draw in job.shots}
    watched, fit_seconds, common = _fit(job, next(iter(splits.values())).rest, checkpoint)
    results = []
    for shots, draw in job.shots:
        split, began = splits[draw], time.perf_counter()
        learner = _with_samples(watched, job, split, shots) if shots else watched
        update_seconds = time.perf_counter() - began
        few_shot = {
            "held_out": job.held_out,
            "learned_by": "add_samples" if job.entry.is_incremental else "refit",
            "update_seconds": round(update_seconds, 4),
        }
        touched = learner.touched(split.rest, labelled=split.labelled(shots))
        for setting in job.settings:
            began = time.perf_counter()
            task = score_task(learner.estimator, split.rest, setting, scores_of)
            seconds = fit_seconds + update_seconds + time.perf_counter() - began
            trade_off = {"seen_unseen": {**_areas(task.curve), "curve": [], "calibrated": None}}
            results.append(
                {
                    **common, **_percentages(task.metrics(setting)), **(trade_off if setting == "gzsl" else {}),
                    "few_shot": few_shot, "touched": touched, "seconds": round(seconds, 2), "peak_mib": _peak_mib(),
                    "status": "done", "error": None,
                }
            )  # fmt: skip
    return results


def _with_samples(watched: Watched, job: Job, split: FewShotSplit, shots: int) -> Watched:
    """Return a copy of a fit that has learned labelled samples: a fit with the same settings, or an update."""
    if job.entry.is_incremental:
        rows = split.labelled(shots)
        return watched.with_samples(split.rest.rows(rows), split.rest.names_of(rows))
    refitted = Watched(with_fixed_settings(watched.estimator))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit before has said it
        fit_on(refitted.estimator, split.training(shots), refitted.fit)
    return refitted


def _percentages(metrics: dict[str, float | None]) -> Values:
    return {name: percent(value) for name, value in metrics.items()}


def _areas(curve: TradeOff) -> Values:
    return {"ausuc": percent(curve.area), "best_h": percent(curve.best_h)}


def _measured(model: Any, dataset: ZeroShotDataset, setting: str, task: TaskScores) -> Values:
    metrics = task.metrics(setting)
    per_class = {name: task.per_class(name) for name in metrics if name != "h"}
    return {
        **_percentages(metrics),
        "per_class": {metric: {c: percent(value) for c, value in by.items()} for metric, by in per_class.items()},
        "confusion": task.confusions() if setting == "zsl" else [],
        "space_facts": describe_space(model, dataset, setting, task),
    }


def estimator_of(job: Job, checkpoint: Path | None = None, setting: str | None = None) -> Any:
    """The unfitted estimator of a job."""
    path = None if checkpoint is None else str(checkpoint)
    return job.entry.make(job.variant, job.seed, setting or job.settings[0], path)


def _fit_or_restart(estimator: Any, dataset: ZeroShotDataset) -> Watched:
    watched = Watched(estimator)
    try:
        fit_on(estimator, dataset, watched.fit)
    except StaleCheckpoint as error:  # of a fit that is no longer this one (a default has changed, say), or unreadable
        error.path.unlink()
        watched = Watched(estimator)
        fit_on(estimator, dataset, watched.fit)
    return watched


def _calibrated(job: Job, dataset: ZeroShotDataset, curve: TradeOff) -> dict[str, Any]:
    """ts, tr and H with the constant that is best for the method on validation classes; test rows are not used."""
    fold = dataset.validation_folds(random_state=0)[0]
    model = estimator_of(job, setting="gzsl")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit_on(model, fold)
    constant = best_constant(score_task(model, fold, "gzsl", scores_of))
    ts, tr = curve.at(constant)
    return {"constant": constant, "ts": percent(ts), "tr": percent(tr), "h": percent(harmonic_mean(ts, tr))}


def _versions() -> dict[str, str]:
    import platform

    versions = {"firstsight": firstsight.__version__, "python": platform.python_version()}
    for package in ("torch", "numpy", "scikit-learn"):
        with suppress(PackageNotFoundError):  # torch is an optional extra
            versions[package] = version(package)
    return versions


def _threads() -> int:
    """The largest number of threads that a library of this process computes with: BLAS or OpenMP, so PyTorch's, too."""
    return max((library["num_threads"] for library in threadpool_info()), default=1)


def _reset_peak() -> None:
    """Measure the peak from now on; without /proc (not Linux) the peak is that of all jobs of this process so far."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_mib() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit)

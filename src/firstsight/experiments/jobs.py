"""Run one job: fit a method once and make the record of every cell that the fit answers."""

from __future__ import annotations

import json
import sys
import time
import warnings
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

import firstsight
from firstsight.data import ZeroShotDataset
from firstsight.errors import FirstsightError, StaleCheckpoint
from firstsight.evaluation import figures, fit_on, fitted_core, harmonic_mean, percent
from firstsight.evaluation.leakage import Watched
from firstsight.evaluation.scores import MEASURES, TradeOff, best_constant, measure_generalized
from firstsight.experiments.entries import description_of, parameters_of
from firstsight.experiments.plan import Job, parameters_hash
from firstsight.experiments.records import SCHEMA, Cell, Record
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
    truth, unseen = dataset.names_of(rows), np.isin(rows, dataset.test_unseen)
    names = model.classes_[model.pool_predictions_]  # (rounds, pool)
    if names.shape[1] != len(rows):
        return None
    rounds = []
    for r, (predicted, selected) in enumerate(zip(names, model.selected_, strict=True)):
        if setting == "zsl":
            judged = figures(t1=(truth, predicted))
        else:
            judged = figures(ts=(truth[unseen], predicted[unseen]), tr=(truth[~unseen], predicted[~unseen]))
        of_setting = ("t1",) if setting == "zsl" else ("ts", "tr", "h")
        labels = (names[r - 1][selected] == truth[selected]) if r and selected.any() else None
        rounds.append(
            {
                "round": r + 1,
                **{name: percent(getattr(judged, name)) for name in of_setting},
                "selected": int(selected.sum()),
                "pseudo_label_accuracy": None if labels is None else round(100 * float(labels.mean()), 2),
            }
        )
    return rounds


# One job: fit a method once and make the record of every cell that the fit answers.

Values = dict[str, Any]  # of a record that is being made


def run_job(
    job: Job, dataset: ZeroShotDataset, features: str, checkpoint: Path | None = None, calibrate: bool = False
) -> list[Record]:
    """The records of a job's cells; whatever goes wrong becomes a failed record with one sentence."""
    began = time.perf_counter()
    _forget_peak()
    try:
        results = _run(job, dataset, checkpoint, calibrate)
    except Exception as error:
        message = " ".join(str(error).split())
        if not isinstance(error, FirstsightError):
            message = f"{type(error).__name__}: {message[:300]}"  # libraries may add pages of their own stack
        return failed(job, message, time.perf_counter() - began, dataset.split_hash, features)
    hashed = {"parameters_hash": parameters_hash(job)}
    return [_record(job, {**values, **hashed}, dataset.split_hash, features) for values in results]


def failed(job: Job, error: str, seconds: float, split: str, features: str) -> list[Record]:
    """The records of a job without a result."""
    return [_record(job, _without_result(job, cell, error, seconds), split, features) for cell in job.cells()]


def _record(job: Job, values: Values, split: str, features: str) -> Record:
    if job.estimator is not None or job.word:  # no word that tells what it is
        values["estimator"] = job.word or description_of(job.estimator)
    values = {**values, "split": split, "features": features, "given": job.given, "tuned": job.tuned}
    return Record.model_validate_json(json.dumps(values))  # as it will be read: equal to the last bit


def _without_result(job: Job, cell: Cell, error: str, seconds: float) -> Values:
    figures = dict.fromkeys(("t1", "ts", "tr", "h"))
    declared = {"extra_supervision": "", "transductive": False, "space": ""}  # by whoever is no method of firstsight
    about = {name: getattr(job.entry.kind, name, nothing) for name, nothing in declared.items()}
    return {
        "schema": SCHEMA, "status": "failed", "error": error, **cell._asdict(), **figures, "per_class": {},
        "confusion": [], "parameters": {}, **about, "versions": _versions(), "seconds": round(seconds, 2),
        "fit_seconds": None, "cpu_seconds": None, "peak_mib": _peak_mib(), "threads": _threads(), "touched": None,
        "seen_unseen": None, "space_facts": None, "rounds": None, "collapsed": False, "warnings": [], "resumed": False,
    }  # fmt: skip


def _run(job: Job, dataset: ZeroShotDataset, checkpoint: Path | None, calibrate: bool) -> list[Values]:
    estimator = estimator_of(job, checkpoint)
    resumed = checkpoint is not None and checkpoint.exists()
    began, work = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        watched = _fit_or_begin_anew(estimator, dataset)
    fit_seconds = time.perf_counter() - began
    told = list(dict.fromkeys(" ".join(str(w.message).split()) for w in caught))
    common = {
        "parameters": parameters_of(estimator),
        "fit_seconds": round(fit_seconds, 2),
        "cpu_seconds": round(time.process_time() - work, 2),  # of the fit: what a busy machine does not change
        "touched": watched.touched(dataset),
        "collapsed": diagnostics_of(estimator).get("collapsed", False),
        "warnings": told[:5],
        "resumed": resumed,
    }
    records = []
    for cell in job.cells():
        began = time.perf_counter()
        measured = MEASURES[cell.setting](estimator, dataset)
        if cell.setting == "gzsl":
            curve = measured.pop("trade_off")
            calibrated = None
            if calibrate:
                try:
                    calibrated = _calibrated(job, dataset, curve)
                except FirstsightError as error:  # the figures as they are stand without it
                    common["warnings"] = [*common["warnings"], f"Not calibrated: {error}"]
            measured["seen_unseen"] = {
                "ausuc": percent(curve.area),
                "best_h": percent(curve.best_h),
                "curve": curve.points(),
                "calibrated": calibrated,
            }
        seconds = fit_seconds + time.perf_counter() - began
        done = {"status": "done", "error": None, "seconds": round(seconds, 2), "peak_mib": _peak_mib()}
        rounds = rounds_of(estimator, dataset, cell.setting)
        records.append({**_without_result(job, cell, "", 0.0), **common, **measured, **done, "rounds": rounds})
    return records


def estimator_of(job: Job, checkpoint: Path | None = None, setting: str | None = None) -> Any:
    """The unfitted estimator of a job."""
    place = None if checkpoint is None else str(checkpoint)
    return job.entry.make(job.variant, job.seed, setting or job.settings[0], place)


def _fit_or_begin_anew(estimator: Any, dataset: ZeroShotDataset) -> Watched:
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
    constant = best_constant(measure_generalized(model, fold)["trade_off"])
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


def _forget_peak() -> None:
    """Start measuring anew; without /proc (not Linux) the peak is that of all jobs of this process so far."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_mib() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit)

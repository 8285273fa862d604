"""The two settings of zero-shot evaluation, applied to any estimator with `fit` and `predict(X, classes=…)`."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from firstsight.data import ZeroShotDataset
from firstsight.errors import BadInput
from firstsight.evaluation.metrics import harmonic_mean, per_class_accuracy

SETTINGS = ("zsl", "gzsl")


@dataclass(frozen=True)
class Result:
    """What an evaluation found; accuracies are fractions, None where the setting was not asked for."""

    t1: float | None = None  # unseen rows, unseen classes to choose from
    ts: float | None = None  # unseen rows, all classes
    tr: float | None = None  # test rows of seen classes, all classes
    h: float | None = None
    seconds: float = 0.0
    per_class: dict[str, dict[str, float]] = field(default_factory=dict)  # "t1", "ts", "tr" → class → accuracy
    models: dict[str, Any] = field(default_factory=dict, repr=False)  # setting → fitted estimator


def evaluate(estimator, dataset: ZeroShotDataset, settings=SETTINGS) -> Result:
    """Fit on the training rows, name the test rows.

    An inductive method is fitted once and answers both settings. A transductive one is fitted once per setting with
    the pool that the setting prescribes: the unseen classes' test rows ("zsl") or all test rows ("gzsl"), in the order
    of their row numbers, so that nothing tells which are which. A method that declares `extra_supervision` gets
    the unseen classes' test rows as its pool in both.
    """
    unknown = set(settings) - set(SETTINGS)
    if unknown or not settings:
        raise BadInput(f"`settings` must name zsl, gzsl or both; got {sorted(unknown) or 'none'}.")
    began = time.perf_counter()
    models = {}
    if getattr(estimator, "transductive", False):
        for setting in settings:
            models[setting] = fit_on(clone(estimator).set_params(setting=setting), dataset)
    else:
        models = dict.fromkeys(settings, fit_on(clone(estimator), dataset))

    per_class = {}
    if "zsl" in settings:
        per_class["t1"] = _accuracy(models["zsl"], dataset, "test_unseen", dataset.unseen_classes)
    if "gzsl" in settings:
        everyone = dataset.seen_classes + dataset.unseen_classes
        per_class["ts"] = _accuracy(models["gzsl"], dataset, "test_unseen", everyone)
        per_class["tr"] = _accuracy(models["gzsl"], dataset, "test_seen", everyone)
    mean = {name: float(np.mean(list(values.values()))) for name, values in per_class.items()}
    h = harmonic_mean(mean["ts"], mean["tr"]) if "gzsl" in settings else None
    return Result(**mean, h=h, seconds=time.perf_counter() - began, per_class=per_class, models=models)


def fit_on(estimator, dataset: ZeroShotDataset):
    """Fit an estimator on a data set's training rows (and on the pool, if it takes one); returns it."""
    X, y = dataset.part("train")
    if not getattr(estimator, "transductive", False):
        return estimator.fit(X, y, dataset.descriptions)
    rows = dataset.test_unseen
    if estimator.setting == "gzsl" and not estimator.extra_supervision:
        rows = np.sort(np.concatenate([dataset.test_seen, dataset.test_unseen]))
    return estimator.fit(X, y, dataset.descriptions, X_unlabeled=dataset.features[np.sort(rows)])


def _accuracy(model, dataset: ZeroShotDataset, part: str, classes: list[str]) -> dict[str, float]:
    X, y = dataset.part(part)
    return per_class_accuracy(y, model.predict(X, classes=classes))

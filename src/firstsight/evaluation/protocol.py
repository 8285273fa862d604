"""The two settings of zero-shot evaluation, applied to any estimator with `fit` and `predict(X, classes=…)`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sklearn.base import clone

from firstsight.data import ZeroShotDataset, load_dataset
from firstsight.errors import BadInput
from firstsight.evaluation.estimators import core_of, fit_on, is_transductive, parameter_prefix, predictions_of
from firstsight.evaluation.scores import TITLES, figures

SETTINGS = ("zsl", "gzsl")


@dataclass(frozen=True)
class Result:
    """The figures of an evaluation; accuracies are fractions, None where the setting was not asked for.

    Attributes
    ----------
    t1 : float or None
        Mean per-class accuracy on unseen classes when only these are candidates.
    ts, tr : float or None
        The same on unseen and on seen classes when all classes are candidates.
    h : float or None
        The harmonic mean of ts and tr.
    seconds : float
        What it took.
    per_class : dict of dict
        The accuracy of each class, by figure.
    models : dict
        The fitted estimators, by setting.
    """

    t1: float | None = None  # unseen rows, unseen classes to choose from
    ts: float | None = None  # unseen rows, all classes
    tr: float | None = None  # test rows of seen classes, all classes
    h: float | None = None
    seconds: float = 0.0
    per_class: dict[str, dict[str, float]] = field(default_factory=dict)  # "t1", "ts", "tr" → class → accuracy
    models: dict[str, Any] = field(default_factory=dict, repr=False)  # setting → fitted estimator

    def __str__(self) -> str:
        """A short table; mean per-class accuracies in percent.

        >>> print(Result(t1=0.5, seconds=1.25))
        setting          T1     ts     tr      H
        conventional   50.0
        seconds         1.2
        """
        rows = {"conventional": ("t1",), "generalized": ("ts", "tr", "h")}
        lines = [f"{'setting':<12}" + "".join(f"{title:>7}" for title in TITLES.values())]
        for setting, names in rows.items():
            values = {name: getattr(self, name) for name in names}
            if any(value is not None for value in values.values()):
                shown = [f"{100 * values[n]:7.1f}" if values.get(n) is not None else " " * 7 for n in TITLES]
                lines.append((f"{setting:<12}" + "".join(shown)).rstrip())
        return "\n".join([*lines, f"{'seconds':<12}{self.seconds:7.1f}"])


def evaluate(estimator: Any, dataset: ZeroShotDataset | str | Path, settings: Sequence[str] = SETTINGS) -> Result:
    """Fit on the training rows, name the test rows.

    An inductive method is fitted once and answers both settings. A transductive one is fitted once per setting with
    the pool that the setting prescribes: the unseen classes' test rows ("zsl") or all test rows ("gzsl"), in the order
    of their row numbers, so that nothing tells which are which. A method that declares `extra_supervision` gets
    the unseen classes' test rows as its pool in both.

    Parameters
    ----------
    estimator : estimator
        A method, a scikit-learn pipeline that ends in one, or a search (GridSearchCV) over either.
    dataset : ZeroShotDataset, str or Path
        A data set, or what `load_dataset` takes.
    settings : sequence of {"zsl", "gzsl"}
        Conventional (T1), generalized (ts, tr and H), or both.

    Returns
    -------
    Result
        Accuracies as fractions; prints as a line.
    """
    settings = SETTINGS if settings == "both" else (settings,) if isinstance(settings, str) else settings
    if not hasattr(estimator, "get_params") or isinstance(estimator, type):
        raise BadInput(f"`estimator` must be an estimator, such as firstsight.ESZSL(), but is {estimator!r}.")
    dataset = dataset if isinstance(dataset, ZeroShotDataset) else load_dataset(dataset)
    unknown = set(settings) - set(SETTINGS)
    if unknown or not settings:
        raise BadInput(f"`settings` must name zsl, gzsl or both; got {sorted(unknown) or 'none'}.")
    if "gzsl" in settings and not len(dataset.test_seen):
        raise BadInput(
            f"`test_seen` of {dataset.name} has no rows, so there is no tr and no H; hold rows of seen classes out of "
            "training, or ask for T1 alone (setting zsl)."
        )
    began = time.perf_counter()
    models = {}
    if is_transductive(core_of(estimator)):
        name = f"{parameter_prefix(estimator)}setting"
        for setting in settings:
            models[setting] = fit_on(clone(estimator).set_params(**{name: setting}), dataset)
    else:
        models = dict.fromkeys(settings, fit_on(clone(estimator), dataset))

    def answers(setting: str, part: str, classes: list[str]) -> tuple[Any, Any]:
        X, y = dataset.part(part)
        return y, predictions_of(models[setting], X, classes)

    pairs = {}
    if "zsl" in settings:
        pairs["t1"] = answers("zsl", "test_unseen", dataset.unseen_classes)
    if "gzsl" in settings:
        all_classes = dataset.seen_classes + dataset.unseen_classes
        pairs["ts"] = answers("gzsl", "test_unseen", all_classes)
        pairs["tr"] = answers("gzsl", "test_seen", all_classes)
    accuracies = figures(**pairs)
    seconds = time.perf_counter() - began
    return Result(accuracies.t1, accuracies.ts, accuracies.tr, accuracies.h, seconds, accuracies.per_class, models)

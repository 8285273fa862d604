"""How any estimator is fitted and scored, and the two settings of zero-shot evaluation.

An estimator is a method, a scikit-learn pipeline that ends in one, or a search (GridSearchCV) over either. The method
inside gets the descriptions with `fit` and the candidates with `predict`; the steps of a pipeline before it transform
the features. Nothing else in firstsight knows how pipelines and searches pass these on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from firstsight.data import ZeroShotDataset, load_dataset
from firstsight.errors import BadInput
from firstsight.evaluation.scores import METRICS, SETTINGS, TITLES, TaskScores
from firstsight.evaluation.spaces import compactness_and_separability, space_facts

PARTS = {"zsl": ("test_unseen",), "gzsl": ("test_unseen", "test_seen")}  # the test samples of each setting


@dataclass(frozen=True, eq=False)
class Result:
    """The scores of an evaluation and the metrics that follow; None where a setting was not evaluated.

    Attributes
    ----------
    scores : dict of TaskScores
        The scores of the test samples, by setting.
    seconds : float
        How long fitting and scoring took.
    models : dict
        The fitted estimators, by setting.
    """

    scores: dict[str, TaskScores] = field(repr=False)
    seconds: float = 0.0
    models: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def t1(self) -> float | None:
        """Mean per-class accuracy on unseen classes when only these are candidates, as a fraction."""
        return self.metrics.get("t1")

    @property
    def ts(self) -> float | None:
        """Mean per-class accuracy on unseen classes when all classes are candidates."""
        return self.metrics.get("ts")

    @property
    def tr(self) -> float | None:
        """Mean per-class accuracy on seen classes when all classes are candidates."""
        return self.metrics.get("tr")

    @property
    def h(self) -> float | None:
        """Harmonic mean of ts and tr."""
        return self.metrics.get("h")

    @property
    def metrics(self) -> dict[str, float | None]:
        """The metrics of all settings that were evaluated, by name."""
        return {name: value for setting, task in self.scores.items() for name, value in task.metrics(setting).items()}

    @property
    def per_class(self) -> dict[str, dict[str, float]]:
        """The accuracy of each class, by metric."""
        return {
            name: task.per_class(name)
            for setting, task in self.scores.items()
            for name in METRICS[setting]
            if name != "h"
        }

    def __str__(self) -> str:
        """Format a short table; mean per-class accuracies in percent.

        >>> unseen = TaskScores(np.array([[0.9, 0.1], [0.8, 0.2]]), codes=np.array([0, 1]), n_seen=0)
        >>> print(Result({"zsl": unseen}, seconds=1.25))
        setting          T1     ts     tr      H
        conventional   50.0
        seconds         1.2
        """
        lines = [f"{'setting':<12}" + "".join(f"{title:>7}" for title in TITLES.values())]
        for setting, name in (("zsl", "conventional"), ("gzsl", "generalized")):
            if setting in self.scores:
                values = self.scores[setting].metrics(setting)
                shown = [" " * 7 if (value := values.get(m)) is None else f"{100 * value:7.1f}" for m in TITLES]
                lines.append((f"{name:<12}" + "".join(shown)).rstrip())
        return "\n".join([*lines, f"{'seconds':<12}{self.seconds:7.1f}"])


def evaluate(estimator: Any, dataset: ZeroShotDataset | str | Path, settings: Sequence[str] = SETTINGS) -> Result:
    """Fit on the training samples and score the test samples.

    An inductive method is fitted once and scored in both settings. A transductive one is fitted once per setting with
    the pool that the setting prescribes: the unseen classes' test samples ("zsl") or all test samples ("gzsl"), in the
    order of their row numbers, so that nothing tells which are which. A method that declares `extra_supervision` gets
    the unseen classes' test samples as its pool in both.

    Parameters
    ----------
    estimator : estimator
        A method, a scikit-learn pipeline that ends in one, or a search (GridSearchCV) over either. An estimator without
        `decision_function(X, classes=…)` is asked for predictions.
    dataset : ZeroShotDataset, str or Path
        A data set, or what `load_dataset` takes.
    settings : sequence of {"zsl", "gzsl"}
        Conventional (T1), generalized (ts, tr and H), or both.

    Returns
    -------
    Result
        The scores, and accuracies as fractions; prints as a table.
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
    if is_transductive(core_of(estimator)):
        name = f"{parameter_prefix(estimator)}setting"
        models = {s: fit_on(clone(estimator).set_params(**{name: s}), dataset) for s in settings}
    else:
        models = dict.fromkeys(settings, fit_on(clone(estimator), dataset))
    scores = {setting: score_task(model, dataset, setting) for setting, model in models.items()}
    return Result(scores, time.perf_counter() - began, models)


# Scores of test samples.

Score = Callable[[Any, Any, Sequence[Any]], np.ndarray]  # (model, X, classes) → scores (n, k)


def scores_of(model: Any, X: Any, classes: Sequence[Any]) -> np.ndarray:
    """Return the scores (n, k) that a fitted estimator gives the candidates; higher is better."""
    core, X = _unwrapped(model, X)
    if not hasattr(core, "decision_function"):
        raise BadInput(
            f"{type(core).__name__} has no decision_function(X, classes=…), which gives scores (n, k); a benchmark "
            "needs it: write one, or use evaluate, which needs predict(X, classes=…) alone."
        )
    return np.asarray(core.decision_function(X, classes=classes))


def scores_or_predictions_of(model: Any, X: Any, classes: Sequence[Any]) -> np.ndarray:
    """Return `scores_of`; of an estimator that only predicts, one for its prediction and zero for other candidates."""
    if hasattr(fitted_core(model), "decision_function"):
        return scores_of(model, X, classes)
    core, X = _unwrapped(model, X)
    return one_hot(np.asarray(core.predict(X, classes=classes)), classes)


def one_hot(predicted: np.ndarray, classes: Sequence[Any]) -> np.ndarray:
    """Return scores (n, k): one for the class that was predicted (n,), zero for the others."""
    column = {name: number for number, name in enumerate(classes)}
    strange = next((name for name in predicted.tolist() if name not in column), None)
    if strange is not None:
        raise BadInput(f"`predict` must answer with one of the {len(classes)} candidates, but answered {strange!r}.")
    scores = np.zeros((len(predicted), len(classes)), dtype=np.float32)
    scores[np.arange(len(predicted)), [column[name] for name in predicted.tolist()]] = 1
    return scores


def score_samples(
    model: Any,
    parts: Iterable[tuple[Any, np.ndarray]],
    seen: Iterable[Any],
    unseen: Iterable[Any],
    score: Score = scores_or_predictions_of,
) -> TaskScores:
    """Score test samples, given in parts (features, classes), for seen and unseen candidate classes."""
    seen = list(seen)
    classes = [*seen, *unseen]
    column = {name: number for number, name in enumerate(classes)}
    scores, codes = [], []
    for X, y in parts:
        codes.append(np.array([column[name] for name in y.tolist()], dtype=np.intp))
        if len(X):
            scores.append(score(model, X, classes))
    whole = scores[0] if len(scores) == 1 else np.concatenate(scores)
    return TaskScores(whole, np.concatenate(codes), len(seen), classes)


def score_task(
    model: Any, dataset: ZeroShotDataset, setting: str, score: Score = scores_or_predictions_of
) -> TaskScores:
    """Score a data set's test samples: of unseen classes among these ("zsl"), or all among all classes ("gzsl")."""
    parts = [dataset.part(part) for part in PARTS[setting]]
    return score_samples(model, parts, dataset.seen_classes if setting == "gzsl" else (), dataset.unseen_classes, score)


def describe_space(model: Any, dataset: ZeroShotDataset, setting: str, task: TaskScores) -> dict[str, Any]:
    """Measure the space of a task's scores and, where the method has `embed`, its embedding space."""
    facts: dict[str, Any] = {**space_facts(task.scores, task.codes), "embedding": None}
    if hasattr(fitted_core(model), "embed"):
        inputs = [_unwrapped(model, dataset.part(part)[0]) for part in PARTS[setting]]
        points = np.concatenate([core.embed(X) for core, X in inputs])
        facts["embedding"] = compactness_and_separability(points, task.codes)
    return facts


# Methods, pipelines and searches.


def fit_on(estimator: Any, dataset: ZeroShotDataset, fit: Callable[..., Any] | None = None) -> Any:
    """Fit an estimator on a data set's training samples (and on the pool, if it takes one) and return it.

    `fit` is called in place of `estimator.fit`, for a caller that observes its arguments.
    """
    X, y = dataset.part("train")
    core = core_of(estimator)
    pool = {"X_unlabeled": _pool(estimator, dataset, X, y)} if is_transductive(core) else {}
    fit = fit or estimator.fit
    if core is estimator:
        fit(X, y, dataset.descriptions, **pool)
        return estimator
    prefix = "".join(prefix for _, _, prefix in _layers(estimator))
    named = {f"{prefix}{name}": value for name, value in {"descriptions": dataset.descriptions, **pool}.items()}
    if _is_search(estimator):
        named["groups"] = y  # GroupKFold then cuts by class; other splitters ignore it
    fit(X, y, **named)
    return estimator


def core_of(estimator: Any) -> Any:
    """Return the method inside: the last step of a pipeline, or what a search tries."""
    layers = _layers(estimator)
    return layers[-1][0] if layers else estimator


def fitted_core(model: Any) -> Any:
    """Return the fitted method inside."""
    while isinstance(model, Pipeline) or _is_search(model):
        model = model.best_estimator_ if _is_search(model) else model.steps[-1][1]
    return model


def parameter_prefix(estimator: Any) -> str:
    """Return what stands before the names of the core's parameters in `set_params`, such as "sje__"."""
    return "".join(prefix for _, prefix, _ in _layers(estimator))


def is_transductive(core: Any) -> bool:
    """Whether a method declares that it learns from unlabelled samples; one that declares nothing does not."""
    return bool(getattr(core, "transductive", False))


def pool_rows(core: Any, dataset: ZeroShotDataset) -> np.ndarray:
    """Return the row numbers of the test samples that a transductive method gets without labels, by its setting."""
    rows = dataset.test_unseen
    if core.setting == "gzsl" and not core.extra_supervision:
        rows = np.concatenate([dataset.test_seen, dataset.test_unseen])
    return np.sort(rows)


def transformed(pipeline: Pipeline, X: Any) -> np.ndarray:
    """Transform samples as the last step of a fitted pipeline gets them."""
    # Not pipeline[:-1].transform: steps that have nothing to fit would count as unfitted.
    for _, step in pipeline.steps[:-1]:
        if step is not None and step != "passthrough":
            X = step.transform(X)
    return np.asarray(X)


def _layers(estimator: Any) -> list[tuple[Any, str, str]]:
    """What each pipeline or search holds, from outside in, with its prefix of names in `set_params` and in `fit`."""
    layers = []
    while isinstance(estimator, Pipeline) or _is_search(estimator):
        if isinstance(estimator, Pipeline):
            name, estimator = estimator.steps[-1]
            layers.append((estimator, f"{name}__", f"{name}__"))
        else:
            estimator = estimator.estimator
            layers.append((estimator, "estimator__", ""))
    return layers


def _is_search(estimator: Any) -> bool:
    from sklearn.model_selection import GridSearchCV, RandomizedSearchCV

    return isinstance(estimator, GridSearchCV | RandomizedSearchCV)


def _unwrapped(model: Any, X: Any) -> tuple[Any, Any]:
    """The fitted method inside, and the samples as it gets them."""
    while isinstance(model, Pipeline) or _is_search(model):
        if isinstance(model, Pipeline):
            X = transformed(model, X)
        model = model.best_estimator_ if _is_search(model) else model.steps[-1][1]
    return model, X


def _pool(estimator: Any, dataset: ZeroShotDataset, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The unlabelled samples that the setting prescribes, in the order of row numbers, as the method gets them."""
    core = core_of(estimator)
    pool: np.ndarray = dataset.features[pool_rows(core, dataset)]
    if _is_search(estimator) and parameter_prefix(estimator) != "estimator__":
        raise BadInput(
            "A search over a pipeline fits its scalers again in every fold, so no pool of unlabelled rows is right for "
            f"all of them; search over {type(core).__name__} alone, with its `feature_scaling`."
        )
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
        # A pipeline transforms X alone, so the pool is transformed here.
        before = clone(estimator[:-1]).fit(X, y)
        pool = transformed(Pipeline([*before.steps, ("core", core)]), pool)
    return pool

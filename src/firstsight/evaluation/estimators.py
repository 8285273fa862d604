"""How any estimator is fitted and asked: a method, a pipeline that ends in one, or a search over either.

The method inside gets the descriptions with `fit` and the candidates with `predict`; what stands before it transforms
the rows. This is the one place that knows how a pipeline or a search passes these on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from firstsight.data import ZeroShotDataset
from firstsight.errors import BadInput


def core_of(estimator: Any) -> Any:
    """The method inside: the last step of a pipeline, what a search tries; anything else is its own core."""
    while (inside := _inside(estimator)) is not None:
        estimator = inside[0]
    return estimator


def parameter_prefix(estimator: Any) -> str:
    """What stands before the names of the core's parameters in `set_params`, such as "sje__"."""
    path = ""
    while (inside := _inside(estimator)) is not None:
        estimator, prefix, _ = inside
        path += prefix
    return path


def fit_on(estimator: Any, dataset: ZeroShotDataset, fit: Callable[..., Any] | None = None) -> Any:
    """Fit an estimator on a data set's training rows (and on the pool, if it takes one); returns it.

    `fit` is what to call instead of the estimator's own, for whoever wants to see what it is handed.
    """
    fit = fit or estimator.fit
    X, y = dataset.part("train")
    core = core_of(estimator)
    more = {} if not is_transductive(core) else {"X_unlabeled": _pool(estimator, dataset, X, y)}
    if core is estimator:
        fit(X, y, dataset.descriptions, **more)
        return estimator
    prefix = _fit_prefix(estimator)
    named = {f"{prefix}{name}": value for name, value in {"descriptions": dataset.descriptions, **more}.items()}
    if _is_search(estimator):
        named["groups"] = y  # GroupKFold then cuts by class; other splitters pass over it
    fit(X, y, **named)
    return estimator


def predictions_of(model: Any, X: np.ndarray, classes: Sequence[str]) -> np.ndarray:
    """The best of the candidates for each row (n,)."""
    core, X = _opened(model, X)
    return np.asarray(core.predict(X, classes=classes))


def scores_of(model: Any, X: np.ndarray, classes: Sequence[str]) -> np.ndarray:
    """Scores (n, k) of the candidates; higher is better."""
    core, X = _opened(model, X)
    try:
        score = core.decision_function
    except AttributeError:
        raise BadInput(
            f"{type(core).__name__} has no decision_function(X, classes=…), which gives scores (n, k); a benchmark "
            "needs it: write one, or use evaluate, which needs predict(X, classes=…) alone."
        ) from None
    return np.asarray(score(X, classes=classes))


def embedded(model: Any, X: np.ndarray) -> np.ndarray | None:
    """Rows in the method's own space, where it shows it."""
    core, X = _opened(model, X)
    return core.embed(X) if hasattr(core, "embed") else None


def fitted_core(model: Any) -> Any:
    """The fitted method inside."""
    while _inside(model) is not None:
        model = model.best_estimator_ if _is_search(model) else model.steps[-1][1]
    return model


def is_transductive(core: Any) -> bool:
    """Whether a method declares that it learns from unlabelled rows; whoever declares nothing does not."""
    return bool(getattr(core, "transductive", False))


def _inside(estimator: Any) -> tuple[Any, str, str] | None:
    """What a pipeline or a search holds, and how names are passed on to it: in `set_params`, and in `fit`."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return last, f"{name}__", f"{name}__"
    if _is_search(estimator):
        return estimator.estimator, "estimator__", ""
    return None


def _is_search(estimator: Any) -> bool:
    from sklearn.model_selection import GridSearchCV, RandomizedSearchCV

    return isinstance(estimator, GridSearchCV | RandomizedSearchCV)


def _fit_prefix(estimator: Any) -> str:
    path = ""
    while (inside := _inside(estimator)) is not None:
        estimator, _, prefix = inside
        path += prefix
    return path


def _opened(model: Any, X: np.ndarray) -> tuple[Any, np.ndarray]:
    """The fitted core, and the rows as it gets them."""
    while _inside(model) is not None:
        if _is_search(model):
            model = model.best_estimator_
            continue
        X = transformed(model, X)
        model = model.steps[-1][1]
    return model, X


def transformed(pipeline: Pipeline, X: Any) -> np.ndarray:
    """Rows as the last step of a fitted pipeline gets them; some steps have nothing to fit, and no sign of a fit."""
    for _, step in pipeline.steps[:-1]:
        if step is not None and step != "passthrough":
            X = step.transform(X)
    return np.asarray(X)


def pool_rows(core: Any, dataset: ZeroShotDataset) -> np.ndarray:
    """Numbers of the test rows that a transductive method gets without their labels, by its setting."""
    rows = dataset.test_unseen
    if core.setting == "gzsl" and not core.extra_supervision:
        rows = np.concatenate([dataset.test_seen, dataset.test_unseen])
    return np.sort(rows)


def _pool(estimator: Any, dataset: ZeroShotDataset, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The unlabelled rows that the setting prescribes, in the order of their numbers: nothing tells which are which."""
    core = core_of(estimator)
    pool: np.ndarray = dataset.features[pool_rows(core, dataset)]
    if _is_search(estimator) and parameter_prefix(estimator) != "estimator__":
        raise BadInput(
            "A search over a pipeline fits its scalers again in every fold, so no pool of unlabelled rows is right for "
            f"all of them; search over {type(core).__name__} alone, with its `feature_scaling`."
        )
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
        # A pipeline transforms X alone: the pool is given as the method will see its rows.
        before = clone(estimator[:-1]).fit(X, y)
        pool = transformed(Pipeline([*before.steps, ("core", core)]), pool)
    return pool

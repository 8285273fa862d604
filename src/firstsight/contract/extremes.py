"""Promises about numbers at the ends of what a computer can hold: scores are finite, or BadInput says why not."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd

from firstsight.contract.trial import Trial
from firstsight.errors import BadInput

Change = Callable[[np.ndarray], np.ndarray]
LARGEST = float(np.finfo(np.float32).max)


def _one_column(values: np.ndarray) -> np.ndarray:
    changed = values.copy()
    changed[:, 0] *= 1e30
    return changed


# How features may look after a mistake of units, a broken decoder, or an attack.
FEATURES: dict[str, Change] = {
    "× 1e30": lambda X: X * 1e30,
    "at the largest float32": lambda X: X / np.abs(X).max() * LARGEST,
    "× 1e-30": lambda X: X * 1e-30,
    "denormal": lambda X: (X * 1e-40).astype(np.float32),
    "constant": np.ones_like,
    "all zero": np.zeros_like,
    "with one huge column": _one_column,
    "× 1e200": lambda X: X.astype(np.float64) * 1e200,
}
DESCRIPTIONS: dict[str, Change] = {
    "all zero": np.zeros_like,
    "all the same": np.ones_like,
    "× 1e30": lambda A: A * 1e30,
    "× 1e-30": lambda A: A * 1e-30,
    "with one huge column": _one_column,
}


def check_extreme_rows_are_scored_or_refused(trial: Trial) -> None:
    """Rows of huge, tiny or equal numbers get finite scores or BadInput, never NaN and an answer."""
    for what, change in FEATURES.items():
        for kind in (np.float64, np.float32):
            rows = change(trial.task.X_unseen[:5])
            if np.abs(rows).max() <= np.finfo(kind).max:
                scored_or_refused(f"rows {what}", trial.fitted, rows.astype(kind))


def check_extreme_candidates_are_scored_or_refused(trial: Trial) -> None:
    """Candidates with huge, tiny or equal descriptions get finite scores or BadInput."""
    task = trial.task
    for what, change in DESCRIPTIONS.items():
        table = _like(task.table.loc[task.unseen], change)
        scored_or_refused(f"candidates {what}", trial.fitted, task.X_unseen[:5], table)


def check_extreme_training_data_are_fitted_or_refused(trial: Trial) -> None:
    """A fit on huge, tiny or equal numbers gives finite scores or is refused with BadInput."""
    for what in ("× 1e30", "constant", "× 1e-30"):
        fitted_or_refused(trial, what, "")
    for what in ("× 1e30", "all zero"):
        fitted_or_refused(trial, "", what)


def fitted_or_refused(trial: Trial, features: str, descriptions: str) -> None:
    """One fit with `FEATURES[features]` and `DESCRIPTIONS[descriptions]`; an empty name leaves them as they are."""
    task = trial.task
    what = f"a fit on features {features or 'as usual'}, descriptions {descriptions or 'as usual'}"
    change = FEATURES.get(features, np.copy)
    table = _like(task.table, DESCRIPTIONS.get(descriptions, np.copy))
    model = trial.new()
    pool = change(trial.pool(model)) if trial.transductive else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            trial.fit(model, X=change(task.X), table=table, pool=pool)
        except BadInput as error:
            _is_a_sentence(what, error)
            return
        except Exception as error:
            raise AssertionError(f"{what}: expected BadInput, got {type(error).__name__}: {error}") from error
    scored_or_refused(what, model, change(task.X_unseen[:5]))


def scored_or_refused(what: str, model, X: np.ndarray, classes: pd.DataFrame | None = None) -> None:
    """`predict` and `decision_function` agree: finite scores and an answer, or BadInput from both."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            scores = model.decision_function(X, classes=classes)
        except BadInput as error:
            _is_a_sentence(what, error)
            scores = None
        except Exception as error:
            raise AssertionError(f"{what}: expected BadInput, got {type(error).__name__}: {error}") from error
        try:
            model.predict(X, classes=classes)
        except BadInput:
            assert scores is None, f"{what}: decision_function scores what predict refuses"
        else:
            assert scores is not None, f"{what}: predict answers what decision_function refuses"
    assert scores is None or np.isfinite(scores).all(), f"{what}: scores are NaN or infinite"


def _like(table: pd.DataFrame, change: Change) -> pd.DataFrame:
    return pd.DataFrame(change(table.to_numpy()), index=table.index, columns=table.columns)


def _is_a_sentence(what: str, error: BadInput) -> None:
    assert len(str(error).split()) >= 5, f"{what}: {error} does not say what was expected"

"""Measuring, on held-out classes, what a model's confidence must be; `confidence` says what the numbers mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize
from sklearn.base import clone

from firstsight.calibration.confidence import (
    Calibration,
    Scale,
    floored,
    reference_descriptions,
    reference_scores,
    standing,
)
from firstsight.calibration.familiarity import SHARES, measure_familiarity
from firstsight.data import ZeroShotDataset
from firstsight.errors import BadInput
from firstsight.evaluation import figures, fit_on
from firstsight.evaluation.reliability import reliability
from firstsight.evaluation.trade_off import TradeOff, best_constant, trade_off
from firstsight.methods.parts.class_input import fitted_order
from firstsight.terminal import progress

if TYPE_CHECKING:
    from firstsight.methods import ZeroShotClassifier

KINDS = ("unseen", "seen", "all", "shifted")
SPREAD_ROWS = 512
FITTED_ROWS = 4000  # more rows per fold would move the three numbers by less than the choice of classes does
# Of log T, α and ε. The prior weighs as much as one row: it decides only where rows are too few or too easy to tell.
BOUNDS = ((-4.0, 4.0), (0.0, 1.5), (0.0, 0.5))
PRIOR_MEAN, PRIOR_SPREAD = np.array([-0.8, 0.5, 0.05]), np.array([1.0, 0.5, 0.1])


def calibrate(
    model: ZeroShotClassifier,
    dataset: ZeroShotDataset,
    n_folds: int = 3,
    *,
    folds: Sequence[ZeroShotDataset] | None = None,
    models: Sequence[Any] | None = None,
    random_state: int = 0,
    checkpoint: str | Path | None = None,
    verbose: bool = False,
) -> Calibration:
    """Measure on held-out classes of `dataset.train` how sure a model may be, and how right it is.

    Copies of the model are fitted on the folds, so this takes about `n_folds` fits.

    Parameters
    ----------
    model : ZeroShotClassifier
        Fitted on `dataset` already.
    dataset : ZeroShotDataset
        The data set; its test rows are not touched.
    n_folds : int
        How many times some classes are held out.
    folds : sequence of ZeroShotDataset, optional
        Folds of your own choice.
    models : sequence, optional
        Models fitted on `folds`, one for one, to reuse their fits.
    random_state : int
        Everything random follows from it.
    checkpoint : str or Path, optional
        The start of the names of files that let an interrupted fit of a fold go on.
    verbose : bool
        Show a progress bar when a terminal is there.

    Returns
    -------
    Calibration
        To be set as the model's `calibration_`.
    """
    dataset = _in_model_order(dataset, model)
    if folds is None:
        n_seen = len(dataset.seen_classes)
        if n_seen < 4:
            raise BadInput(
                f"Calibration holds out classes to test on and needs at least 4 with labelled rows; {dataset.name!r} "
                f"has {n_seen}: add classes, or do without calibration."
            )
        folds = dataset.validation_folds(n_folds, random_state=random_state)
    if models is not None and len(models) != len(folds):
        raise BadInput(f"`models` must be one fitted model per fold ({len(folds)}), but there are {len(models)}.")
    measured = []
    with progress("Calibration", len(folds), verbose) as show:
        for number, fold in enumerate(folds):
            fitted = models[number] if models is not None else _fit_copy(model, fold, number, checkpoint)
            measured.append(_measure(fitted, fold))
            show(number + 1, "")
    shift = _best_shift(measured)
    reference = reference_descriptions(model)
    scales = {}
    for kind in KINDS:
        rows = [own for m in measured if (own := m.rows(kind, shift)) is not None]
        if rows:
            scales[kind] = _fit_scale(rows)
    estimate = {
        name: float(np.mean([m.accuracies(shift)[name] for m in measured])) for name in measured[0].accuracies(0)
    }
    return Calibration(
        scales=scales,
        estimate=estimate,
        spread=_spread(model, dataset, reference),
        seen_shift=shift,
        reference=reference,
        n_folds=len(folds),
        held_out_classes=round(np.mean([len(fold.unseen_classes) for fold in folds])),
        training_classes=round(np.mean([len(fold.seen_classes) for fold in folds])),
        familiarity=measure_familiarity(dataset, folds),
    )


def _in_model_order(dataset: ZeroShotDataset, model: ZeroShotClassifier) -> ZeroShotDataset:
    """The data set with its features where the model has them, matched by name where both have names."""
    fitted = getattr(model, "feature_names_in_", None)
    if fitted is None or dataset.feature_names is None:
        return dataset
    order = fitted_order(dataset.feature_names, fitted.tolist(), f"the data set {dataset.name!r}")
    if order is None:
        return dataset
    return replace(dataset, features=dataset.features[:, order], feature_names=tuple(fitted.tolist()))


@dataclass(frozen=True)
class _Rows:
    """Held-out rows of one fold and one kind of candidates; everything in units of the fold's σ."""

    scores: np.ndarray  # (n, k)
    row_spread: np.ndarray  # (n,)
    standing: np.ndarray  # (n,)
    right: np.ndarray  # (n,) whether the best candidate is the row's class
    weights: np.ndarray  # (n,) sums to one


@dataclass(frozen=True)
class _Measured:
    """Scores of one fold's held-out rows over all of its classes, the seen ones first; units of the fold's σ."""

    n_seen: int
    scores: dict[str, np.ndarray]  # part → (n, k)
    codes: dict[str, np.ndarray]  # part → (n,)
    mean: dict[str, np.ndarray]  # part → (n,) over the reference classes
    row_spread: dict[str, np.ndarray]

    def shifted(self, part: str, shift: float) -> np.ndarray:
        scores = self.scores[part].copy()
        scores[:, : self.n_seen] -= shift
        return scores

    def curve(self) -> TradeOff:
        is_seen = np.arange(self.scores["test_seen"].shape[1]) < self.n_seen
        scores, codes = self.scores, self.codes
        return trade_off(scores["test_unseen"], codes["test_unseen"], scores["test_seen"], codes["test_seen"], is_seen)

    def rows(self, kind: str, shift: float) -> _Rows | None:
        parts = {"unseen": ["test_unseen"], "seen": ["test_seen"]}.get(kind, ["test_seen", "test_unseen"])
        if any(len(self.codes[part]) == 0 for part in parts):
            return None
        columns = {"unseen": slice(self.n_seen, None), "seen": slice(0, self.n_seen)}.get(kind, slice(None))
        by_part = []
        for part in parts:
            scores = self.shifted(part, shift if kind == "shifted" else 0.0)[:, columns]
            right = scores.argmax(axis=1) + (columns.start or 0) == self.codes[part]
            height = standing(scores.max(axis=1), self.mean[part], self.row_spread[part])
            # Seen and unseen classes count the same, however many rows a fold has of either.
            weights = np.full(len(right), 1 / len(right) / len(parts))
            by_part.append((scores, self.row_spread[part], height, right, weights))
        return _Rows(*(np.concatenate(column) for column in zip(*by_part, strict=True)))

    def accuracies(self, shift: float) -> dict[str, float]:
        codes, n_seen = self.codes, self.n_seen
        unseen_only = self.scores["test_unseen"][:, n_seen:].argmax(axis=1) + n_seen
        accuracy = {"t1": figures(t1=(codes["test_unseen"], unseen_only)).t1 or 0.0}
        if len(codes["test_seen"]):
            for end, by in (("", 0.0), ("_shifted", shift)):
                unseen, seen = (
                    (codes[part], self.shifted(part, by).argmax(axis=1)) for part in ("test_unseen", "test_seen")
                )
                now = figures(ts=unseen, tr=seen)
                accuracy |= {f"{name}{end}": getattr(now, name) for name in ("ts", "tr", "h")}
        return accuracy


def _fit_copy(
    model: ZeroShotClassifier, fold: ZeroShotDataset, number: int, checkpoint: str | Path | None
) -> ZeroShotClassifier:
    copy: ZeroShotClassifier = clone(model)
    known = copy.get_params()
    if "checkpoint" in known:
        copy.set_params(checkpoint=None if checkpoint is None else f"{checkpoint}.fold{number + 1}")
    if "verbose" in known:
        copy.set_params(verbose=False)
    fit_on(copy, fold)
    return copy


def _measure(model: ZeroShotClassifier, fold: ZeroShotDataset) -> _Measured:
    reference = reference_descriptions(model)
    spread = _spread(model, fold, reference)
    classes = [*fold.seen_classes, *fold.unseen_classes]
    code = {name: i for i, name in enumerate(classes)}
    made: dict[str, dict[str, np.ndarray]] = {"scores": {}, "codes": {}, "mean": {}, "row_spread": {}}
    for part in ("test_unseen", "test_seen"):
        X, y = fold.part(part)
        made["codes"][part] = np.array([code[name] for name in y], dtype=int)
        if len(X) == 0:
            continue
        made["scores"][part] = model.decision_function(X, classes=classes).astype(np.float64) / spread
        mean, row_spread = reference_scores(model, X, reference)
        made["mean"][part], made["row_spread"][part] = mean / spread, floored(row_spread / spread)
    return _Measured(len(fold.seen_classes), **made)


def _spread(model: ZeroShotClassifier, dataset: ZeroShotDataset, reference: np.ndarray) -> float:
    """σ: the median spread of training rows' scores over the reference classes."""
    rows = dataset.train[np.unique(np.linspace(0, len(dataset.train) - 1, SPREAD_ROWS).astype(int))]
    return float(np.median(reference_scores(model, dataset.features[rows], reference)[1])) or 1.0


def _best_shift(measured: Sequence[_Measured]) -> float:
    """The constant that, taken off seen classes' scores, makes the mean H of the folds largest."""
    if any(len(m.codes["test_seen"]) == 0 for m in measured):
        return 0.0
    return best_constant(*(m.curve() for m in measured))


def _fit_scale(folds: Sequence[_Rows]) -> Scale:
    ece = None
    if len(folds) > 1:  # each fold is judged by numbers that it had no part in
        sure = [
            _scale(_fit([f for f in folds if f is not own]), own).confidence(own.scores, own.row_spread).max(axis=1)
            for own in folds
        ]
        right, weights = (np.concatenate([getattr(f, name) for f in folds]) for name in ("right", "weights"))
        ece = reliability(np.concatenate(sure), right, weights).ece
    everything = np.concatenate([f.standing for f in folds])
    return _scale(_fit(folds), *folds, ece=ece, standing=np.quantile(everything, SHARES).tolist())


def _scale(parameters: np.ndarray, *folds: _Rows, **more: Any) -> Scale:
    log_t, power, guesses = parameters.tolist()
    rows, candidates = sum(len(f.right) for f in folds), float(np.mean([f.scores.shape[1] for f in folds]))
    numbers = {"temperature": float(np.exp(log_t)), "row_power": power, "guesses": guesses}
    return Scale(**{**numbers, "rows": rows, "candidates": candidates, "ece": None, "standing": [], **more})


def _fit(folds: Sequence[_Rows]) -> np.ndarray:
    """log T, α and ε that make the answers' confidence likeliest: the log loss of "the answer is right"."""
    thin = [_thinned(f) for f in folds]
    n = sum(len(f.right) for f in thin)

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        total, slope = 0.0, np.zeros(3)
        for f in thin:
            value, gradient = log_loss(parameters, f.scores, f.row_spread, f.right, f.weights)
            total, slope = total + value / len(thin), slope + gradient / len(thin)
        away = (parameters - PRIOR_MEAN) / PRIOR_SPREAD
        return total + away @ away / (2 * n), slope + away / PRIOR_SPREAD / n

    best: np.ndarray = minimize(loss, PRIOR_MEAN, jac=True, bounds=BOUNDS, method="L-BFGS-B").x
    return best


def _thinned(rows: _Rows) -> _Rows:
    step = -(-len(rows.right) // FITTED_ROWS)
    weights = rows.weights[::step]
    return _Rows(
        rows.scores[::step], rows.row_spread[::step], rows.standing[::step], rows.right[::step], weights / weights.sum()
    )


def log_loss(
    parameters: np.ndarray, scores: np.ndarray, row_spread: np.ndarray, right: np.ndarray, weights: np.ndarray
) -> tuple[float, np.ndarray]:
    """Weighted log loss of the best candidate's confidence and its gradient in (log T, α, ε)."""
    log_t, power, guesses = parameters
    k = scores.shape[1]
    u = (scores - scores.max(axis=1, keepdims=True)) / (np.exp(log_t) * row_spread**power)[:, None]
    e = np.exp(u)
    best = 1 / e.sum(axis=1)  # softmax of the best candidate, whose u is 0
    stretch = best * (best * (e * u).sum(axis=1))  # d best / d log T
    p = np.clip((1 - guesses) * best + guesses / k, 1e-12, 1 - 1e-12)
    # Platt's targets, short of 0 and 1: few rows that are all right are no proof of certainty.
    n_right = right.sum()
    target = np.where(right, (n_right + 1) / (n_right + 2), 1 / (len(right) - n_right + 2))
    value = -(weights * (target * np.log(p) + (1 - target) * np.log1p(-p))).sum()
    by_p = -weights * (target / p - (1 - target) / (1 - p))
    by_t = (1 - guesses) * by_p * stretch
    gradient = np.array([by_t.sum(), (by_t * np.log(row_spread)).sum(), (by_p * (1 / k - best)).sum()])
    return float(value), gradient

"""Calibrated confidence and the threshold of "none of these", from folds of held-out classes.

Seen classes play the unseen ones: copies of the model are fitted on folds (`ZeroShotDataset.validation_folds`) and
score the samples held out of them. From these, for each kind of candidates ("unseen", "seen", "all"), three numbers
are fitted that turn the scores s_c of a sample into confidence::

    p_c = (1 − ε) · softmax_c(s_c / t) + ε / k        t = T · σ · (σ_row / σ)^α

σ_row is the standard deviation of the sample's scores over reference classes, the descriptions of up to 64 seen
classes, and σ its median over training samples of the model at hand. So T has no unit: it passes from a model fitted
on fewer classes, whose scores are larger or smaller, to the final one. α says whether samples with larger scores are
surer (0) or just larger (1); ε is the share of predictions that are guesses. All three keep the order of the scores:
confidence never changes a prediction.

"None of these" looks at the margin of a sample, in units of σ_row::

    margin = (best score − mean score over the reference classes) / σ_row

and at its distance from training samples (`firstsight.evaluation.novelty`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pydantic import Field
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.base import clone

from firstsight._io.columns import fitted_order
from firstsight._io.schemas import Schema
from firstsight._io.terminal import progress
from firstsight.data import ZeroShotDataset
from firstsight.errors import BadInput
from firstsight.evaluation.novelty import SHARES, NoveltyDetector, fit_novelty_detector
from firstsight.evaluation.protocol import fit_on, score_samples
from firstsight.evaluation.scores import TaskScores, best_constant

if TYPE_CHECKING:
    from firstsight.methods import ZeroShotClassifier

KINDS = ("unseen", "seen", "all", "shifted")  # of candidates; "shifted": all, with the constant off seen classes
REFERENCE_CLASSES = 64
SPREAD_ROWS = 512
FITTED_ROWS = 4000  # more rows per fold would move the three numbers by less than the choice of classes does
# Of log T, α and ε. The prior weighs as much as one row: it decides only where rows are too few or too easy to tell.
BOUNDS = ((-4.0, 4.0), (0.0, 1.5), (0.0, 0.5))
PRIOR_MEAN, PRIOR_SPREAD = np.array([-0.8, 0.5, 0.05]), np.array([1.0, 0.5, 0.1])
BINS = 15  # of the reliability curve


@dataclass(frozen=True, eq=False)
class Calibration:
    """How scores become confidence, and what to expect of new classes, as `calibrate` measured it.

    Attributes
    ----------
    scales : dict of Scale
        By the kind of candidates: "unseen", "seen", "all", "shifted".
    estimate : dict of float
        What to expect of new classes: mean per-class accuracies of the folds, as t1, ts, tr and h.
    spread : float
        σ: the unit of the scores.
    seen_shift : float
        What balanced seen and unseen classes best on the folds, in units of σ.
    reference : array
        Descriptions of the reference classes that a row's scores are compared with.
    n_folds, held_out_classes, training_classes : int
        How many times classes were held out, and how many classes each fold held out and had to train on.
    novelty : NoveltyDetector or None
        How far a sample may be from training samples.
    """

    scales: dict[str, Scale]  # "unseen", "seen", "all"; "shifted": all, after `seen_shift` is taken off
    estimate: dict[str, float]  # t1, ts, tr, h as fractions, "h_shifted" with the shift; as `evaluate` defines them
    spread: float  # σ of the model that this belongs to
    seen_shift: float  # what to take off seen classes' scores for the best H on the folds, in units of σ
    reference: np.ndarray = field(repr=False)  # (r, a) descriptions
    n_folds: int = 0
    held_out_classes: int = 0  # of each fold
    training_classes: int = 0  # of each fold
    novelty: NoveltyDetector | None = None

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of `estimate["t1"]` over the choice of classes."""
        return accuracy_interval(self.estimate["t1"], self.n_folds, self.held_out_classes, self.training_classes)

    def scale_for(self, seen: np.ndarray, shifted: bool = False) -> Scale:
        """The scale for candidates of which `seen (k,)` are training classes."""
        wanted = "unseen" if not seen.any() else "seen" if seen.all() else "shifted" if shifted else "all"
        return self.scales.get(wanted) or next(iter(self.scales.values()))

    def confidence(
        self, model: ZeroShotClassifier, X: ArrayLike, scores: np.ndarray, seen: np.ndarray, shifted: bool = False
    ) -> np.ndarray:
        """Confidence (n, k) of the candidates' scores (n, k); `seen (k,)` marks the training classes among them."""
        _, row_spread = reference_scores(model, X, self.reference)
        scores = np.asarray(scores, dtype=np.float64) / self.spread
        return self.scale_for(seen, shifted).confidence(scores, floored(row_spread / self.spread))

    def margin(self, model: ZeroShotClassifier, X: ArrayLike, scores: np.ndarray) -> np.ndarray:
        """Margin (n,) of each sample: its best candidate above the reference classes, in units of σ_row."""
        return margin(scores.max(axis=1), *reference_scores(model, X, self.reference))

    def to_json(self) -> dict[str, Any]:
        """Everything but `arrays`, as JSON can hold it."""
        values = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "reference"}
        values["scales"] = {kind: scale.model_dump() for kind, scale in self.scales.items()}
        return {**values, "novelty": None if self.novelty is None else self.novelty.to_json()}

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """What JSON does not hold, by name."""
        return {"reference": self.reference, **({} if self.novelty is None else {"rows": self.novelty.rows})}

    @classmethod
    def from_json(cls, values: dict[str, Any], reference: np.ndarray, rows: np.ndarray | None = None) -> Calibration:
        """The reverse of `to_json` and `arrays`."""
        scales = {kind: Scale(**scale) for kind, scale in values["scales"].items()}
        measured = values.get("novelty")
        novelty = None if measured is None or rows is None else NoveltyDetector(rows, **measured)
        return cls(**{**values, "scales": scales, "reference": reference, "novelty": novelty})


class Scale(Schema):
    """How scores of one kind of candidates become confidence, and how it went on held-out rows."""

    temperature: float = Field(description="T")
    row_power: float = Field(description="α")
    guess_rate: float = Field(description="ε")
    margins: list[float] = Field(description="quantiles 0 %, 1 %, … 100 % of known samples' margins")
    rows: int = Field(description="held-out rows that it rests on")
    candidates: float = Field(description="mean number per fold")
    ece: float | None = Field(description="on folds that did not take part in the fit; null if there is only one")

    def confidence(self, scores: np.ndarray, row_spread: np.ndarray) -> np.ndarray:
        """Scores (n, k) and σ_row (n,), both in units of σ, as confidence (n, k)."""
        return self.with_guess_rate(softmax(scores / self.temperatures(row_spread)[:, None], axis=1), scores.shape[1])

    def temperatures(self, row_spread: np.ndarray) -> np.ndarray:
        """The t (n,) of rows with this σ_row, both in units of σ."""
        return np.asarray(self.temperature * row_spread**self.row_power)

    def with_guess_rate(self, shares: np.ndarray, candidates: int) -> np.ndarray:
        """A softmax over so many candidates, with the share of answers that are guesses."""
        return np.asarray((1 - self.guess_rate) * shares + self.guess_rate / candidates)

    def threshold(self, reject_share: float, lost: float = 0.0) -> float:
        """Return the margin below which a sample is "none of these", so that this share of known samples is lost.

        `lost` of it is lost already, for another reason.
        """
        if not 0 <= reject_share < 1:
            raise BadInput(f"The share of known rows to reject must lie from 0 up to 1, but is {reject_share}.")
        return float(np.interp(reject_share - lost, SHARES, self.margins))


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
        Custom folds.
    models : sequence, optional
        Models fitted on `folds`, one for one, to reuse their fits.
    random_state : int
        Everything random follows from it.
    checkpoint : str or Path, optional
        The start of the names of files that let an interrupted fit of a fold go on.
    verbose : bool
        Show a progress bar in a terminal.

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
            measured.append(_score_fold(fitted, fold))
            show(number + 1, "")
    tasks = [fold.task for fold in measured]
    shift = 0.0 if any(task.tr is None for task in tasks) else best_constant(*tasks)
    reference = reference_descriptions(model)
    scales = {}
    for kind in KINDS:
        rows = [of_kind for scored in measured if (of_kind := scored.rows(kind, shift)) is not None]
        if rows:
            scales[kind] = _fit_scale(rows)
    accuracies = [fold.accuracies(shift) for fold in measured]
    estimate = {name: float(np.mean([of_fold[name] for of_fold in accuracies])) for name in accuracies[0]}
    return Calibration(
        scales=scales,
        estimate=estimate,
        spread=_spread(model, dataset, reference),
        seen_shift=shift,
        reference=reference,
        n_folds=len(folds),
        held_out_classes=round(np.mean([len(fold.unseen_classes) for fold in folds])),
        training_classes=round(np.mean([len(fold.seen_classes) for fold in folds])),
        novelty=fit_novelty_detector(dataset, folds),
    )


def accuracy_interval(accuracy: float, n_folds: int, held_out: int, training: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a mean over classes, of which so many were held out in so many folds.

    Classes are what the mean is drawn from, however many rows each has; their accuracies lie in 0…1 and vary no more
    than coins do. Other classes to learn from would change the mean as well, which no interval of these folds shows.
    """
    n, z = max(1, min(n_folds * held_out, held_out + training)), 1.96
    middle = (accuracy + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z / (1 + z**2 / n) * np.sqrt(accuracy * (1 - accuracy) / n + z**2 / (4 * n**2))
    return float(max(0.0, middle - reach)), float(min(1.0, middle + reach))


@dataclass(frozen=True)
class Reliability:
    """Equal-width bins of confidence: how many rows, how confident, how often right (NaN in an empty bin)."""

    share: np.ndarray  # (bins,) sums to one
    confidence: np.ndarray  # (bins,) mean
    accuracy: np.ndarray  # (bins,)

    @property
    def ece(self) -> float:
        """Expected calibration error: mean over rows of |accuracy − confidence| of the row's bin."""
        return float(np.nansum(self.share * np.abs(self.accuracy - self.confidence)))


def reliability(
    confidence: ArrayLike, right: ArrayLike, weights: ArrayLike | None = None, bins: int = BINS
) -> Reliability:
    """Bins of rows by the confidence (n,) of their answer; `right (n,)` says whether the answer was.

    >>> reliability([0.9, 0.9, 0.9, 0.9], [True, True, True, False]).ece.__round__(6)
    0.15
    """
    confidence, right = np.asarray(confidence, dtype=np.float64), np.asarray(right, dtype=np.float64)
    weights = np.ones(len(confidence)) if weights is None else np.asarray(weights, dtype=np.float64)
    which = np.clip((confidence * bins).astype(int), 0, bins - 1)
    total = np.bincount(which, weights=weights, minlength=bins)
    with np.errstate(invalid="ignore"):
        mean_confidence, accuracy = (
            np.bincount(which, weights=weights * values, minlength=bins) / total for values in (confidence, right)
        )
    return Reliability(total / total.sum(), mean_confidence, accuracy)


class Confidences:
    """Confidence in candidates whose scores come in blocks: what a row's softmax needs of all, and then of some."""

    def __init__(self, calibration: Calibration, row_spread: np.ndarray, seen: np.ndarray, shifted: bool):
        self._scale, self._unit, self._count = calibration.scale_for(seen, shifted), calibration.spread, len(seen)
        self._t = self._scale.temperatures(floored(row_spread / self._unit))
        self._highest, self._total = np.full(len(row_spread), -np.inf), np.zeros(len(row_spread))

    def add(self, rows: slice, scores: np.ndarray) -> None:
        """Take in the scores of some rows for some candidates."""
        for start in range(0, len(scores), 256):  # they take more room as float64
            part = slice(rows.start + start, rows.start + min(start + 256, len(scores)))
            z = self._exponents(part, scores[start : start + 256])
            highest = np.maximum(self._highest[part], z.max(axis=1))
            self._total[part] *= np.exp(self._highest[part] - highest)
            self._total[part] += np.exp(z - highest[:, None]).sum(axis=1)
            self._highest[part] = highest

    def of(self, scores: np.ndarray) -> np.ndarray:
        """Confidence (n, any number) in candidates with these scores, once those of all were taken in."""
        shares = np.exp(self._exponents(slice(None), scores) - self._highest[:, None]) / self._total[:, None]
        return self._scale.with_guess_rate(shares, self._count)

    def _exponents(self, rows: slice, scores: np.ndarray) -> np.ndarray:
        return np.asarray(np.asarray(scores, dtype=np.float64) / self._unit / self._t[rows, None])


def reference_descriptions(model: ZeroShotClassifier) -> np.ndarray:
    """Up to REFERENCE_CLASSES descriptions of a fitted model's seen classes, evenly from all of them."""
    A = model.descriptions_[model.seen_code_ >= 0]
    return np.asarray(A[np.unique(np.linspace(0, len(A) - 1, REFERENCE_CLASSES).round().astype(int))])


def reference_scores(model: ZeroShotClassifier, X: ArrayLike, reference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (n,) of each row's scores over the reference classes."""
    # Under names that no model knows: what counts is the description, whatever a method does with known classes.
    names = [f"\0reference {number}" for number in range(len(reference))]
    scores = model.decision_function(X, classes=pd.DataFrame(reference, index=names))
    return scores.mean(axis=1, dtype=np.float64), scores.std(axis=1, dtype=np.float64)


def margin(best: np.ndarray, mean: np.ndarray, row_spread: np.ndarray) -> np.ndarray:
    """(best score − mean reference score) / σ_row."""
    return np.asarray((best - mean) / floored(row_spread))


def floored(row_spread: np.ndarray) -> np.ndarray:
    """A row that every reference class suits alike has no spread; it must not divide by zero."""
    return np.asarray(np.maximum(row_spread, 1e-6))


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
    margins: np.ndarray  # (n,)
    right: np.ndarray  # (n,) whether the best candidate is the row's class
    weights: np.ndarray  # (n,) sums to one


@dataclass(frozen=True)
class _Fold:
    """Scores of one fold's held-out samples, and what they are compared with; units of the fold's σ."""

    task: TaskScores  # seen and unseen classes of the fold as candidates
    mean: np.ndarray  # (n,) over the reference classes
    row_spread: np.ndarray  # (n,)

    def rows(self, kind: str, shift: float) -> _Rows | None:
        """The samples and candidates of one kind; None if the fold has no such samples."""
        task = self.task.shifted(shift) if kind == "shifted" else self.task
        samples = slice(None)
        if kind in ("unseen", "seen"):
            samples, task = task.seen_samples == (kind == "seen"), task.among(kind == "seen")
        seen = self.task.seen_samples[samples].astype(int)
        counts = np.bincount(seen, minlength=2)
        if not (counts[0] or kind == "seen") or not (counts[1] or kind == "unseen"):
            return None
        margins = margin(task.scores.max(axis=1), self.mean[samples], self.row_spread[samples])
        # Seen and unseen classes count the same, however many rows a fold has of either.
        weights = 1 / counts[seen] / np.count_nonzero(counts)
        return _Rows(task.scores, self.row_spread[samples], margins, task.predictions == task.codes, weights)

    def accuracies(self, shift: float) -> dict[str, float]:
        """The metrics that `Calibration.estimate` averages over folds."""
        found = {"t1": self.task.t1}
        if self.task.tr is not None:
            shifted = self.task.shifted(shift).metrics("gzsl")
            found |= {**self.task.metrics("gzsl"), **{f"{name}_shifted": value for name, value in shifted.items()}}
        return {name: value or 0.0 for name, value in found.items()}


def _fit_copy(
    model: ZeroShotClassifier, fold: ZeroShotDataset, number: int, checkpoint: str | Path | None
) -> ZeroShotClassifier:
    copy: ZeroShotClassifier = clone(model)
    parameters = copy.get_params()
    if "checkpoint" in parameters:
        copy.set_params(checkpoint=None if checkpoint is None else f"{checkpoint}.fold{number + 1}")
    if "verbose" in parameters:
        copy.set_params(verbose=False)
    fit_on(copy, fold)
    return copy


def _score_fold(model: ZeroShotClassifier, fold: ZeroShotDataset) -> _Fold:
    reference = reference_descriptions(model)
    spread = _spread(model, fold, reference)
    parts = [fold.part("test_seen"), fold.part("test_unseen")]
    task = score_samples(model, parts, fold.seen_classes, fold.unseen_classes)
    compared = [reference_scores(model, X, reference) for X, _ in parts if len(X)]
    mean, row_spread = (np.concatenate(column) / spread for column in zip(*compared, strict=True))
    return _Fold(
        TaskScores(task.scores.astype(np.float64) / spread, task.codes, task.n_seen), mean, floored(row_spread)
    )


def _spread(model: ZeroShotClassifier, dataset: ZeroShotDataset, reference: np.ndarray) -> float:
    """σ: the median spread of training rows' scores over the reference classes."""
    rows = dataset.train[np.unique(np.linspace(0, len(dataset.train) - 1, SPREAD_ROWS).astype(int))]
    return float(np.median(reference_scores(model, dataset.features[rows], reference)[1])) or 1.0


def _fit_scale(folds: Sequence[_Rows]) -> Scale:
    ece = None
    if len(folds) > 1:  # each fold is measured with numbers that it had no part in
        sure = []
        for fold in folds:
            scale = _scale(_fit([other for other in folds if other is not fold]), fold)
            sure.append(scale.confidence(fold.scores, fold.row_spread).max(axis=1))
        right, weights = (np.concatenate([getattr(f, name) for f in folds]) for name in ("right", "weights"))
        ece = reliability(np.concatenate(sure), right, weights).ece
    everything = np.concatenate([f.margins for f in folds])
    return _scale(_fit(folds), *folds, ece=ece, margins=np.quantile(everything, SHARES).tolist())


def _scale(parameters: np.ndarray, *folds: _Rows, **more: Any) -> Scale:
    log_t, power, guess_rate = parameters.tolist()
    rows, candidates = sum(len(f.right) for f in folds), float(np.mean([f.scores.shape[1] for f in folds]))
    numbers = {"temperature": float(np.exp(log_t)), "row_power": power, "guess_rate": guess_rate}
    return Scale(**{**numbers, "rows": rows, "candidates": candidates, "ece": None, "margins": [], **more})


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

    return np.asarray(minimize(loss, PRIOR_MEAN, jac=True, bounds=BOUNDS, method="L-BFGS-B").x)


def _thinned(rows: _Rows) -> _Rows:
    step = -(-len(rows.right) // FITTED_ROWS)
    weights = rows.weights[::step]
    return _Rows(
        rows.scores[::step], rows.row_spread[::step], rows.margins[::step], rows.right[::step], weights / weights.sum()
    )


def log_loss(
    parameters: np.ndarray, scores: np.ndarray, row_spread: np.ndarray, right: np.ndarray, weights: np.ndarray
) -> tuple[float, np.ndarray]:
    """Weighted log loss of the best candidate's confidence and its gradient in (log T, α, ε)."""
    log_t, power, guess_rate = parameters
    k = scores.shape[1]
    u = (scores - scores.max(axis=1, keepdims=True)) / (np.exp(log_t) * row_spread**power)[:, None]
    e = np.exp(u)
    best = 1 / e.sum(axis=1)  # softmax of the best candidate, whose u is 0
    stretch = best * (best * (e * u).sum(axis=1))  # d best / d log T
    p = np.clip((1 - guess_rate) * best + guess_rate / k, 1e-12, 1 - 1e-12)
    # Platt's targets, short of 0 and 1: few rows that are all right are no proof of certainty.
    n_right = right.sum()
    target = np.where(right, (n_right + 1) / (n_right + 2), 1 / (len(right) - n_right + 2))
    value = -(weights * (target * np.log(p) + (1 - target) * np.log1p(-p))).sum()
    by_p = -weights * (target / p - (1 - target) / (1 - p))
    by_t = (1 - guess_rate) * by_p * stretch
    gradient = np.array([by_t.sum(), (by_t * np.log(row_spread)).sum(), (by_p * (1 / k - best)).sum()])
    return float(value), gradient

"""Scores as confidence that can be trusted, measured on classes that a model was not trained on.

Seen classes play the unseen ones: copies of the model are fitted on folds (`ZeroShotDataset.validation_folds`) and
score the rows that they never saw. From these rows, for each kind of candidates ("unseen", "seen", "all"), three
numbers are learned that turn scores s_c of a row into confidence::

    p_c = (1 − ε) · softmax_c(s_c / t) + ε / k        t = T · σ · (σ_row / σ)^α

σ_row is the spread (standard deviation) of the row's scores over reference classes, the descriptions of up to 64 seen
classes, and σ its median over training rows of the model at hand. So T has no unit: it passes from a model fitted
on fewer classes, whose scores are larger or smaller, to the final one. α says whether rows with larger scores
are surer (0) or just larger (1); ε is the share of rows where the answer is a guess however far it leads. All
three keep the order of the scores: confidence never changes an answer.

This is confidence among the candidates, whatever the row is. "None of these" looks at how far the best candidate stands
above the reference classes, in units of σ_row; and `familiarity`, whatever the candidates, at how far the row is from
all that training has seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pydantic import Field
from scipy.special import softmax

from firstsight.calibration.familiarity import SHARES, Familiarity
from firstsight.errors import BadInput
from firstsight.schemas import Schema

if TYPE_CHECKING:
    from firstsight.methods import ZeroShotClassifier

REFERENCE_CLASSES = 64


class Scale(Schema):
    """How scores of one kind of candidates become confidence, and how it went on held-out rows."""

    temperature: float = Field(description="T")
    row_power: float = Field(description="α")
    guesses: float = Field(description="ε")
    standing: list[float] = Field(description="quantiles 0 %, 1 %, … 100 % of known rows' standing")
    rows: int = Field(description="held-out rows that it rests on")
    candidates: float = Field(description="mean number per fold")
    ece: float | None = Field(description="on folds that did not take part in the fit; null if there is only one")

    def confidence(self, scores: np.ndarray, row_spread: np.ndarray) -> np.ndarray:
        """Scores (n, k) and σ_row (n,), both in units of σ, as confidence (n, k)."""
        return self.with_guesses(softmax(scores / self.temperatures(row_spread)[:, None], axis=1), scores.shape[1])

    def temperatures(self, row_spread: np.ndarray) -> np.ndarray:
        """The t (n,) of rows with this σ_row, both in units of σ."""
        t: np.ndarray = self.temperature * row_spread**self.row_power
        return t

    def with_guesses(self, shares: np.ndarray, candidates: int) -> np.ndarray:
        """A softmax over so many candidates, with the share of answers that are guesses."""
        sure: np.ndarray = (1 - self.guesses) * shares + self.guesses / candidates
        return sure

    def threshold(self, reject_share: float, lost: float = 0.0) -> float:
        """The standing below which a row is "none of these", so that this share of known rows is lost; `lost` of it
        is lost already, for another reason."""
        if not 0 <= reject_share < 1:
            raise BadInput(f"The share of known rows to reject must lie from 0 up to 1, but is {reject_share}.")
        return float(np.interp(reject_share - lost, SHARES, self.standing))


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
    familiarity : Familiarity or None
        How far a row may be from training rows.
    """

    scales: dict[str, Scale]  # "unseen", "seen", "all"; "shifted": all, after `seen_shift` is taken off
    estimate: dict[str, float]  # t1, ts, tr, h as fractions, "h_shifted" with the shift; as `evaluate` defines them
    spread: float  # σ of the model that this belongs to
    seen_shift: float  # what to take off seen classes' scores for the best H on the folds, in units of σ
    reference: np.ndarray = field(repr=False)  # (r, a) descriptions
    n_folds: int = 0
    held_out_classes: int = 0  # of each fold
    training_classes: int = 0  # of each fold
    familiarity: Familiarity | None = None  # None in folders of models that were saved before there was such

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

    def standing(self, model: ZeroShotClassifier, X: ArrayLike, scores: np.ndarray) -> np.ndarray:
        """How far the best candidate of each row stands above the reference classes (n,), in units of σ_row."""
        return standing(scores.max(axis=1), *reference_scores(model, X, self.reference))

    def to_json(self) -> dict[str, Any]:
        """Everything but `arrays`, as JSON can hold it."""
        about = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "reference"}
        about["scales"] = {kind: scale.model_dump() for kind, scale in self.scales.items()}
        return {**about, "familiarity": None if self.familiarity is None else self.familiarity.to_json()}

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """What JSON does not hold, by name."""
        return {"reference": self.reference, **({} if self.familiarity is None else {"rows": self.familiarity.rows})}

    @classmethod
    def from_json(cls, about: dict[str, Any], reference: np.ndarray, rows: np.ndarray | None = None) -> Calibration:
        """The reverse of `to_json` and `arrays`."""
        scales = {kind: Scale(**scale) for kind, scale in about["scales"].items()}
        known = about.get("familiarity")
        familiarity = None if known is None or rows is None else Familiarity(rows, **known)
        return cls(**{**about, "scales": scales, "reference": reference, "familiarity": familiarity})


def accuracy_interval(accuracy: float, n_folds: int, held_out: int, training: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a mean over classes, of which so many were held out in so many folds.

    Classes are what the mean is drawn from, however many rows each has; their accuracies lie in 0…1 and vary no more
    than coins do. Other classes to learn from would change the mean as well, which no interval of these folds shows.
    """
    n, z = max(1, min(n_folds * held_out, held_out + training)), 1.96
    middle = (accuracy + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z / (1 + z**2 / n) * np.sqrt(accuracy * (1 - accuracy) / n + z**2 / (4 * n**2))
    return float(max(0.0, middle - reach)), float(min(1.0, middle + reach))


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
        sure: np.ndarray = self._scale.with_guesses(shares, self._count)
        return sure

    def _exponents(self, rows: slice, scores: np.ndarray) -> np.ndarray:
        z: np.ndarray = np.asarray(scores, dtype=np.float64) / self._unit / self._t[rows, None]
        return z


def reference_descriptions(model: ZeroShotClassifier) -> np.ndarray:
    """Up to REFERENCE_CLASSES descriptions of a fitted model's seen classes, evenly from all of them."""
    A: np.ndarray = model.descriptions_[model.seen_code_ >= 0]
    chosen: np.ndarray = A[np.unique(np.linspace(0, len(A) - 1, REFERENCE_CLASSES).round().astype(int))]
    return chosen


def reference_scores(model: ZeroShotClassifier, X: ArrayLike, reference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (n,) of each row's scores over the reference classes."""
    # Under names that no model knows: what counts is the description, whatever a method does with known classes.
    names = [f"\0reference {number}" for number in range(len(reference))]
    scores = model.decision_function(X, classes=pd.DataFrame(reference, index=names))
    return scores.mean(axis=1, dtype=np.float64), scores.std(axis=1, dtype=np.float64)


def standing(best: np.ndarray, mean: np.ndarray, row_spread: np.ndarray) -> np.ndarray:
    """(best score − mean reference score) / σ_row."""
    height: np.ndarray = (best - mean) / floored(row_spread)
    return height


def floored(row_spread: np.ndarray) -> np.ndarray:
    """A row that every reference class suits alike has no spread; it must not divide by zero."""
    spread: np.ndarray = np.maximum(row_spread, 1e-6)
    return spread

"""Ranked answers of a saved model: classes, scores, confidence, "none of these", and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from firstsight.errors import BadInput
from firstsight.models.model_folder import Saved
from firstsight.recognition.explain import explain

NONE_OF_THESE = "none of these"
NO_CALIBRATION = (
    "this model has no calibration, so its confidence is unknown; fit it with `firstsight fit … --calibrate` (or "
    "`firstsight learn`) to get it"
)


@dataclass(frozen=True, eq=False)
class Answers:
    """The best candidates of n rows; everything but `rejected` has one column per place."""

    classes: np.ndarray  # (n, top) labels
    scores: np.ndarray  # (n, top)
    confidence: np.ndarray | None  # (n, top); None without a calibration
    rejected: np.ndarray | None  # (n,) whether none of the candidates will do; None if not asked
    why: list[dict[str, Any]] | None = None  # per row

    def as_json(self, names: list) -> list[dict[str, Any]]:
        """One entry per row: file, class, confidence, top (and rejected, why, where asked)."""
        entries = []
        for row, name in enumerate(names):
            sure = None if self.confidence is None else self.confidence[row].tolist()
            top = [
                {"class": label, "confidence": None if sure is None else sure[place], "score": score}
                for place, (label, score) in enumerate(
                    zip(self.classes[row].tolist(), self.scores[row].tolist(), strict=True)
                )
            ]
            entry = {"file": str(name), "class": top[0]["class"], "confidence": top[0]["confidence"], "top": top}
            if self.rejected is not None:
                entry["rejected"] = bool(self.rejected[row])
                if entry["rejected"]:
                    entry |= {"class": NONE_OF_THESE, "confidence": None}
            if self.why is not None:
                entry["why"] = self.why[row]
            entries.append(entry)
        return entries


def answer(
    saved: Saved,
    X,
    classes=None,
    top: int = 5,
    *,
    reject_share: float | None = None,
    shift_seen: bool = False,
    why: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Answers:
    """The `top` candidates of each row, best first; `classes` as in `predict`.

    `reject_share` asks for "none of these", set so that this share of the rows of known classes is lost.
    `shift_seen` takes the calibration's constant off the scores of seen classes, which methods tend to prefer;
    left out, the answers are the method's own.
    """
    model, calibration = saved.model, saved.calibration
    if calibration is None and (reject_share is not None or shift_seen):
        asked = f'"{NONE_OF_THESE}"' if reject_share is not None else "Shifting seen classes"
        raise BadInput(f"{asked} needs numbers measured on held-out classes, and {NO_CALIBRATION}.")
    labels, A, codes = model._candidates(classes)
    seen = codes >= 0
    chosen = classes if isinstance(classes, pd.DataFrame) else labels
    scores = model.decision_function(X, classes=chosen)
    if shift_seen and calibration is not None and seen.any() and not seen.all():
        scores = scores - np.where(seen, calibration.seen_shift * calibration.spread, 0).astype(scores.dtype)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :top]
    confidence = rejected = None
    if calibration is not None:
        confidence = calibration.confidence(model, X, scores, seen, shift_seen)
        confidence = np.take_along_axis(confidence, best, axis=1)
        if reject_share is not None:
            scale = calibration.scale_for(seen, shift_seen)
            rejected = calibration.standing(model, X, scores) < scale.threshold(reject_share)
    reasons = _reasons(saved, X, scores, labels, A, progress) if why else None
    return Answers(labels[best], np.take_along_axis(scores, best, axis=1), confidence, rejected, reasons)


def _reasons(saved: Saved, X, scores: np.ndarray, labels: np.ndarray, A: np.ndarray, progress) -> list[dict[str, Any]]:
    if len(labels) < 2:
        raise BadInput("Why a class is chosen is told against the next best one; give at least two candidates.")
    names = list(map(str, saved.facts.get("attributes") or [])) or [f"attribute {m}" for m in range(A.shape[1])]
    X, told = np.asarray(X), []
    for row, (first, second) in enumerate(np.argsort(-scores, axis=1, kind="stable")[:, :2]):
        found = explain(saved.model, X[row], A[first], A[second], scores[row, first] - scores[row, second])
        told.append({"instead_of": labels[second].item(), "lead": found.lead, **found.speaking(names)})
        told[-1]["rest"] = found.rest
        if progress is not None:
            progress(row + 1, len(X))
    return told

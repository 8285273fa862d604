"""How often the served model is right on the samples beside it: figures, classes, and the seen–unseen trade-off.

Samples that the model was trained on with their labels say nothing about new ones: they are counted apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from firstsight.evaluation import harmonic_mean
from firstsight.evaluation.trade_off import TradeOff, trade_off
from firstsight.recognition import Recognizer
from firstsight.recognition.scoring import Score
from firstsight.recognition.training_samples import InTraining, recognised_by
from firstsight.serving.sample_pictures import SamplePictures

POINTS = 200  # of the curve


def measure(own: Recognizer, samples: SamplePictures, trained: Sequence[InTraining | None]) -> dict[str, Any]:
    """What `/api/measure` answers; figures are fractions, None where there are no samples to tell.

    `trained` says of each sample whether the model was trained on it.
    """
    model = own.model
    names = [str(name) for name in model.classes_.tolist()]
    seen = dict(zip(names, (model.seen_code_ >= 0).tolist(), strict=True))
    labels, status = np.array(samples.labels), np.array(trained, dtype=object)
    known = np.isin(labels, names)
    counted = known & (status != "labelled")
    sides = {
        side: rows
        for side in (True, False)
        if len(rows := np.flatnonzero(counted & [seen.get(name) is side for name in samples.labels]))
    }
    parts = {side: samples.features[rows] for side, rows in sides.items()}
    truth = {side: labels[rows].tolist() for side, rows in sides.items()}
    among_all = {side: own.score(parts[side], truth[side]) for side in parts}
    among_own = {side: own.score(parts[side], truth[side], classes="seen" if side else "unseen") for side in parts}
    ts, tr, t1 = _mean(among_all.get(False)), _mean(among_all.get(True)), _mean(among_own.get(False))
    curve = _curve(own, parts, truth, names, seen) if len(parts) == 2 else None
    return {
        "samples": int(counted.sum()),
        "training": {
            **{part: int((known & (status == part)).sum()) for part in ("no", "unlabelled", "labelled")},
            "unknown": int((known & (status == None)).sum()),  # noqa: E711
            "labelled_right": _right(own, samples.features, labels, known & (status == "labelled")),
            "recognised_by": recognised_by(model),
        },
        "figures": {
            "t1": t1,
            "ts": ts,
            "tr": tr,
            "h": None if ts is None or tr is None else harmonic_mean(ts, tr),
            "ausuc": None if curve is None else curve.area,
        },
        "per_class": [row for side in parts for row in _rows(among_all[side], among_own[side], side)],
        "trade_off": None if curve is None else _points(curve, _suggested(own)),
        "expected": None if _calibration(own) is None else dict(_calibration(own).estimate),
    }


def _right(own: Recognizer, features: np.ndarray, labels: np.ndarray, rows: np.ndarray) -> int:
    return own.score(features[rows], labels[rows].tolist()).right if rows.any() else 0


def _mean(score: Score | None) -> float | None:
    return None if score is None else score.mean_class_accuracy


def _rows(among_all: Score, among_own: Score, seen: bool) -> list[dict[str, Any]]:
    confused = among_all.confusions.drop_duplicates("class").set_index("class")["taken_for"].to_dict()
    own = among_own.per_class
    return [
        {
            "class": name,
            "seen": seen,
            "rows": among_all.truth.count(name),
            "accuracy": accuracy,
            "among_own": own[name],
            "taken_for": confused.get(name),
        }
        for name, accuracy in among_all.per_class.items()
    ]


def _curve(
    own: Recognizer,
    parts: dict[bool, np.ndarray],
    truth: dict[bool, list[str]],
    names: list[str],
    seen: dict[str, bool],
) -> TradeOff:
    column = {name: number for number, name in enumerate(names)}
    scores = {side: own.model.decision_function(rows) for side, rows in parts.items()}
    places = {side: [column[name] for name in labels] for side, labels in truth.items()}
    return trade_off(scores[False], places[False], scores[True], places[True], list(seen.values()))


def _points(curve: TradeOff, suggested: float | None) -> dict[str, Any]:
    """The curve at constants from every part of it, zero and the calibration's own among them."""
    spread = np.quantile(curve.constants, np.linspace(0, 1, POINTS - 2), method="nearest")
    constants = np.unique(np.r_[spread, 0.0, [] if suggested is None else suggested])
    both = [curve.at(float(constant)) for constant in constants]
    return {
        "constants": [float(constant) for constant in constants],
        "ts": [ts for ts, _ in both],
        "tr": [tr for _, tr in both],
        "h": [harmonic_mean(ts, tr) for ts, tr in both],
        "now": int(np.searchsorted(constants, 0.0)),
        "suggested": None if suggested is None else int(np.searchsorted(constants, suggested)),
    }


def _suggested(own: Recognizer) -> float | None:
    calibration = _calibration(own)
    return None if calibration is None else float(calibration.seen_shift * calibration.spread)


def _calibration(own: Recognizer) -> Any:
    return getattr(own.model, "calibration_", None)

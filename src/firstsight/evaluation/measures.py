"""What is measured of a fitted model in each setting, from its scores of the test rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from firstsight.data import ZeroShotDataset
from firstsight.evaluation.estimators import embedded, scores_of
from firstsight.evaluation.metrics import Figures, figures, percent
from firstsight.evaluation.space_facts import compactness_and_separability, space_facts
from firstsight.evaluation.trade_off import trade_off

CONFUSIONS = 200


def measure_conventional(model: Any, dataset: ZeroShotDataset) -> dict[str, Any]:
    """T1 and what belongs to it: rows of unseen classes, with only these as candidates."""
    classes = dataset.unseen_classes
    X, y = dataset.part("test_unseen")
    scores = scores_of(model, X, classes)
    predicted = np.array(classes)[scores.argmax(axis=1)]
    return {
        **_in_percent(figures(t1=(y, predicted)), "t1"),
        "confusion": _confusions(y, predicted),
        "space_facts": _facts(model, X, y, scores, _columns(y, classes)),
    }


def measure_generalized(model: Any, dataset: ZeroShotDataset) -> dict[str, Any]:
    """ts, tr and H, and under "trade_off" the whole curve that they are a point of."""
    classes = dataset.seen_classes + dataset.unseen_classes
    answers, rows, scores, columns = {}, {}, {}, {}
    for name, part in (("ts", "test_unseen"), ("tr", "test_seen")):
        X, y = dataset.part(part)
        rows[name], columns[name] = (X, y), _columns(y, classes)
        scores[name] = scores_of(model, X, classes)
        answers[name] = y, np.array(classes)[scores[name].argmax(axis=1)]
    is_seen = np.isin(classes, dataset.seen_classes)
    curve = trade_off(scores["ts"], columns["ts"], scores["tr"], columns["tr"], is_seen)
    X, y = (np.concatenate([rows["ts"][i], rows["tr"][i]]) for i in (0, 1))
    both = np.concatenate([scores["ts"], scores["tr"]]), np.concatenate([columns["ts"], columns["tr"]])
    return {
        **_in_percent(figures(**answers), "ts", "tr", "h"),
        "trade_off": curve,
        "space_facts": _facts(model, X, y, *both),
    }


MEASURES = {"zsl": measure_conventional, "gzsl": measure_generalized}


def _in_percent(fractions: Figures, *names: str) -> dict[str, Any]:
    per_class = {of: {name: percent(value) for name, value in own.items()} for of, own in fractions.per_class.items()}
    return {**{name: percent(getattr(fractions, name)) for name in names}, "per_class": per_class}


def _facts(model: Any, X: np.ndarray, y: np.ndarray, scores: np.ndarray, columns: np.ndarray) -> dict[str, Any]:
    facts: dict[str, Any] = space_facts(scores, columns)
    # Where the method shows its own space, that space, too.
    space = embedded(model, X)
    facts["embedding"] = None if space is None else compactness_and_separability(space, y)
    return facts


def _columns(y: np.ndarray, classes: list[str]) -> np.ndarray:
    position = {name: i for i, name in enumerate(classes)}
    return np.array([position[name] for name in y.tolist()], dtype=np.intp)


def _confusions(truth: np.ndarray, predicted: np.ndarray) -> list[list[Any]]:
    wrong = truth != predicted
    if not wrong.any():
        return []
    pairs, counts = np.unique(np.stack([truth[wrong], predicted[wrong]], axis=1), axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:CONFUSIONS]
    return [[*pairs[i].tolist(), int(counts[i])] for i in order]

"""What happened in each round of a transductive fit, judged with labels that only the evaluation has."""

from __future__ import annotations

from typing import Any

import numpy as np

from firstsight.data import ZeroShotDataset
from firstsight.evaluation import figures, fitted_core, percent
from firstsight.methods import ZeroShotClassifier


def diagnostics_of(model: Any) -> dict[str, Any]:
    """What a fit told of itself; a method that is not firstsight's has nothing to tell."""
    core = fitted_core(model)
    return core.diagnostics_ if isinstance(core, ZeroShotClassifier) else {}


def rounds_of(model: Any, dataset: ZeroShotDataset, setting: str) -> list[dict[str, Any]] | None:
    """Accuracy on the pool after each round, and how many of the labels it had just trained on were right.

    None for a method without rounds.
    """
    if "rounds" not in diagnostics_of(model):
        return None
    model = fitted_core(model)
    rows = dataset.test_unseen if setting == "zsl" else np.concatenate([dataset.test_seen, dataset.test_unseen])
    rows = np.sort(rows)  # the order in which fit_on hands the pool over
    truth, unseen = dataset.names_of(rows), np.isin(rows, dataset.test_unseen)
    names = model.classes_[model.pool_predictions_]  # (rounds, pool)
    if names.shape[1] != len(rows):
        return None
    rounds = []
    for r, (predicted, selected) in enumerate(zip(names, model.selected_, strict=True)):
        if setting == "zsl":
            judged = figures(t1=(truth, predicted))
        else:
            judged = figures(ts=(truth[unseen], predicted[unseen]), tr=(truth[~unseen], predicted[~unseen]))
        of_setting = ("t1",) if setting == "zsl" else ("ts", "tr", "h")
        labels = (names[r - 1][selected] == truth[selected]) if r and selected.any() else None
        rounds.append(
            {
                "round": r + 1,
                **{name: percent(getattr(judged, name)) for name in of_setting},
                "selected": int(selected.sum()),
                "pseudo_label_accuracy": None if labels is None else round(100 * float(labels.mean()), 2),
            }
        )
    return rounds

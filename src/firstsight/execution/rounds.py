"""What happened in each round of a transductive fit, judged with labels that only the evaluation has."""

from __future__ import annotations

from typing import Any

import numpy as np

from firstsight.data import ZeroShotDataset
from firstsight.evaluation import harmonic_mean, mean_class_accuracy


def rounds_of(model, dataset: ZeroShotDataset, setting: str) -> list[dict[str, Any]] | None:
    """Accuracy on the pool after each round, and how many of the labels it had just trained on were right.

    None for a method without rounds.
    """
    if "rounds" not in model.diagnostics_:
        return None
    rows = dataset.test_unseen if setting == "zsl" else np.concatenate([dataset.test_seen, dataset.test_unseen])
    rows = np.sort(rows)  # the order in which fit_on hands the pool over
    truth, unseen = dataset.names_of(rows), np.isin(rows, dataset.test_unseen)
    names = model.classes_[model.pool_predictions_]  # (rounds, pool)
    if names.shape[1] != len(rows):
        return None
    found = []
    for r, (predicted, selected) in enumerate(zip(names, model.selected_, strict=True)):
        if setting == "zsl":
            figures = {"t1": mean_class_accuracy(truth, predicted)}
        else:
            ts = mean_class_accuracy(truth[unseen], predicted[unseen])
            tr = mean_class_accuracy(truth[~unseen], predicted[~unseen]) if (~unseen).any() else 0.0
            figures = {"ts": ts, "tr": tr, "h": harmonic_mean(ts, tr)}
        labels = (names[r - 1][selected] == truth[selected]) if r and selected.any() else None
        found.append(
            {
                "round": r + 1,
                **{name: round(100 * value, 2) for name, value in figures.items()},
                "selected": int(selected.sum()),
                "pseudo_label_accuracy": None if labels is None else round(100 * float(labels.mean()), 2),
            }
        )
    return found

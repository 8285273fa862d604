"""Choosing settings one at a time on simulated tasks, where a change has to beat the noise between tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# A change must gain this much (accuracies are fractions) and half a standard error of the gain over the tasks. With a
# whole one, four tasks could not tell a gain of two points.
MARGIN, CERTAINTY = 0.001, 0.5
# Tasks that share classes say less than as many that do not: with a quarter of the classes playing unseen in each, no
# more than four share none.
APART = 4

Settings = dict[str, float]


def coordinate_search(
    start: Settings, options: dict[str, tuple[float, ...]], value: Callable[[Settings], np.ndarray]
) -> tuple[Settings, list[dict[str, Any]]]:
    """The settings found from `start`, and a line for everything tried: setting, its score on each task, taken or not.

    One pass over `options` in their order. `value(settings)` gives one score per task, higher is better.
    """
    best, tried = dict(start), []
    best_value = value(best)
    tried.append({"settings": dict(best), "scores": _plain(best_value), "taken": True})
    for name, values in options.items():
        challengers = [{**best, name: v} for v in values if v != best[name]]
        reached = [value(settings) for settings in challengers]
        for settings, scores in zip(challengers, reached, strict=True):
            tried.append({"settings": settings, "scores": _plain(scores), "taken": False})
        if not reached:
            continue
        winner = int(np.argmax([scores.mean() for scores in reached]))
        if beats(reached[winner], best_value):
            best, best_value = challengers[winner], reached[winner]
            tried[len(tried) - len(reached) + winner]["taken"] = True
    return best, tried


def beats(challenger: np.ndarray, holder: np.ndarray, certainty: float = CERTAINTY) -> bool:
    """Whether the gain over the tasks is more than a margin and its own uncertainty."""
    gain = challenger - holder
    error = gain.std(ddof=1) / np.sqrt(min(len(gain), APART)) if len(gain) > 1 else 0.0
    return bool(gain.mean() > MARGIN + certainty * error)


def _plain(scores: np.ndarray) -> list[float]:
    return [round(float(score), 5) for score in scores]

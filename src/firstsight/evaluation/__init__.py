"""Metrics and the evaluation protocol."""

from firstsight.evaluation.protocol import Result, core_of, evaluate, fit_on, fitted_core, score_task, scores_of
from firstsight.evaluation.scores import (
    METRICS,
    SETTINGS,
    TITLES,
    TaskScores,
    best_constant,
    harmonic_mean,
    mean_class_accuracy,
    per_class_accuracy,
    percent,
)

__all__ = [
    "METRICS",
    "SETTINGS",
    "TITLES",
    "Result",
    "TaskScores",
    "best_constant",
    "core_of",
    "evaluate",
    "fit_on",
    "fitted_core",
    "harmonic_mean",
    "mean_class_accuracy",
    "per_class_accuracy",
    "percent",
    "score_task",
    "scores_of",
]

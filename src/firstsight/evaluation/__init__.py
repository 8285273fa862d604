"""Metrics and the evaluation protocol."""

from firstsight.evaluation.metrics import harmonic_mean, mean_class_accuracy, per_class_accuracy, percent
from firstsight.evaluation.protocol import SETTINGS, Result, evaluate, fit_on

__all__ = [
    "SETTINGS",
    "Result",
    "evaluate",
    "fit_on",
    "harmonic_mean",
    "mean_class_accuracy",
    "per_class_accuracy",
    "percent",
]

"""Metrics and the evaluation protocol."""

from firstsight.evaluation.estimators import core_of, fit_on, fitted_core, predictions_of, scores_of
from firstsight.evaluation.protocol import SETTINGS, Result, evaluate
from firstsight.evaluation.scores import (
    TITLES,
    Figures,
    figures,
    harmonic_mean,
    mean_class_accuracy,
    per_class_accuracy,
    percent,
)

__all__ = [
    "SETTINGS",
    "TITLES",
    "Figures",
    "Result",
    "core_of",
    "evaluate",
    "figures",
    "fit_on",
    "fitted_core",
    "harmonic_mean",
    "mean_class_accuracy",
    "per_class_accuracy",
    "percent",
    "predictions_of",
    "scores_of",
]

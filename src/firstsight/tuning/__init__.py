"""Choosing parameters on validation classes, cut from the training rows alone."""

from firstsight.tuning.same_budget import tune_all
from firstsight.tuning.search import Choice, tune

__all__ = ["Choice", "tune", "tune_all"]

"""Saved models, and answers from them."""

from firstsight.serving.answers import Answers, answer
from firstsight.serving.bundle import Saved, load, load_saved, load_with_facts, save
from firstsight.serving.calibration import calibrate
from firstsight.serving.classes import add_classes, remove_classes
from firstsight.serving.confidence import Calibration

__all__ = [
    "Answers",
    "Calibration",
    "Saved",
    "add_classes",
    "answer",
    "calibrate",
    "load",
    "load_saved",
    "load_with_facts",
    "remove_classes",
    "save",
]

"""Saved models: the folder, its schema and card, classes added and removed, ONNX export."""

from firstsight.persistence.class_table import add_classes, remove_classes
from firstsight.persistence.model_folder import (
    SavedModel,
    change,
    check_no_lost_changes,
    check_target,
    load,
    load_pipeline,
    load_saved,
    save,
)
from firstsight.persistence.model_schema import BackboneUsed, PictureCounts, Provenance

__all__ = [
    "BackboneUsed",
    "PictureCounts",
    "Provenance",
    "SavedModel",
    "add_classes",
    "change",
    "check_no_lost_changes",
    "check_target",
    "load",
    "load_pipeline",
    "load_saved",
    "remove_classes",
    "save",
]

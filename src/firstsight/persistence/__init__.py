"""Saved models: the folder, its schema and card, classes added and removed, ONNX export."""

from firstsight.persistence.class_table import add_classes, remove_classes
from firstsight.persistence.model_folder import (
    Saved,
    change,
    check_changes,
    check_place,
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
    "Saved",
    "add_classes",
    "change",
    "check_changes",
    "check_place",
    "load",
    "load_pipeline",
    "load_saved",
    "remove_classes",
    "save",
]

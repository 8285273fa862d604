"""Saved models: the folder, where a model comes from, its card, classes added and removed, export."""

from firstsight.models.class_table import add_classes, remove_classes
from firstsight.models.model_folder import (
    Saved,
    change,
    check_changes,
    check_place,
    load,
    load_pipeline,
    load_saved,
    save,
)
from firstsight.models.provenance import BackboneUsed, PictureCounts, Provenance

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

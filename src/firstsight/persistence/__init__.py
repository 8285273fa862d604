"""Saved models: the folder, its schema and card, classes added and removed, ONNX export."""

from firstsight.persistence.class_table import add_classes, remove_classes
from firstsight.persistence.model_folder import load, load_pipeline, save
from firstsight.persistence.model_schema import BackboneUsed, PictureCounts, Provenance

__all__ = [
    "BackboneUsed",
    "PictureCounts",
    "Provenance",
    "add_classes",
    "load",
    "load_pipeline",
    "remove_classes",
    "save",
]

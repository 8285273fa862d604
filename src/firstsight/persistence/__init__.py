"""Saved models: the folder, its schema and card, classes added and removed, ONNX export."""

from firstsight.persistence.added_samples import AddedSamples
from firstsight.persistence.class_table import add_classes, remove_classes
from firstsight.persistence.model_folder import load, load_pipeline, save
from firstsight.persistence.model_schema import BackboneUsed, PictureCounts, Provenance, TextEncoderUsed

__all__ = [
    "AddedSamples",
    "BackboneUsed",
    "PictureCounts",
    "Provenance",
    "TextEncoderUsed",
    "add_classes",
    "load",
    "load_pipeline",
    "remove_classes",
    "save",
]

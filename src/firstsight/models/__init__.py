"""Saved models: the folder, its card, classes added and removed, export."""

from firstsight.models.class_table import add_classes, remove_classes
from firstsight.models.model_folder import Saved, load, load_saved, load_with_facts, save

__all__ = ["Saved", "add_classes", "load", "load_saved", "load_with_facts", "remove_classes", "save"]

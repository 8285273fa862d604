"""Saved models."""

from firstsight.serving.bundle import load, load_with_facts, save

__all__ = ["load", "load_with_facts", "save"]

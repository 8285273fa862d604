"""Figures made from records, each with a way to draw itself for a wide page and for a phone."""

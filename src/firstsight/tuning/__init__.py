"""Choosing parameters on validation classes, cut from the training rows alone."""

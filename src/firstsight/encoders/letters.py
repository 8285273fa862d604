"""The backbone of `glyphs`: features of a drawn letter.

It needs no weights, so that a fresh machine can look at a drawn letter at once. A letter may be dark on light or light
on dark, of any size, anywhere in the picture: its ink is cut out, brought to one size and centred.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
from PIL import Image

from firstsight.data.glyphs import CELL, ORIENTATIONS, SIDE, oriented_gradients

LETTERS = "firstsight-letters"
# Raise it with every change that moves a feature: models and caches of the former ones are then told apart.
VERSION = 2
_INK_SIDE = 26  # of 32: what a letter in the middle leaves free for the gradients at its edge
_INK = 0.45  # of the strongest ink: twice what the noise of the embedded pictures reaches
_BLANK = 24  # of 255: no stroke is fainter


class LetterBackbone:
    """Pictures of one letter → 512 features; the same face as `encoders.backbone.Backbone`."""

    name = LETTERS
    dim = (SIDE // CELL) ** 2 * ORIENTATIONS

    @property
    def fingerprint(self) -> str:
        """As a vision model's: 32 hexadecimal digits that change with what is computed."""
        return hashlib.sha256(f"{LETTERS} {VERSION}".encode()).hexdigest()[:32]

    def prepare(self, picture: Image.Image) -> np.ndarray:
        """A picture → the centred ink (32, 32), white on black; all black where there is none."""
        grey = np.asarray(picture.convert("L"), dtype=np.float32)
        edge = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])
        ink = np.abs(grey - np.median(edge))
        strongest = float(ink.max())
        centred = np.zeros((SIDE, SIDE), dtype=np.uint8)
        if strongest < _BLANK:
            return centred
        rows, columns = (np.flatnonzero((ink > _INK * strongest).any(axis=axis)) for axis in (1, 0))
        cut = ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] * (255 / strongest)
        height, width = cut.shape
        scale = _INK_SIDE / max(height, width)
        size = max(1, round(width * scale)), max(1, round(height * scale))
        drawn = np.asarray(Image.fromarray(cut.astype(np.uint8)).resize(size, Image.Resampling.BILINEAR))
        top, left = (SIDE - size[1]) // 2, (SIDE - size[0]) // 2
        centred[top : top + size[1], left : left + size[0]] = drawn
        return centred

    def run(self, pixels: np.ndarray) -> np.ndarray:
        """Prepared pictures (n, 32, 32) → features (n, 512)."""
        return oriented_gradients(pixels)

    def features_of_one(self, run: Callable[[np.ndarray], np.ndarray], pixels: np.ndarray) -> np.ndarray:
        """Features of a first picture, which tell how many there are."""
        return run(pixels[None])

"""The format of the built-in data set: its name."""

from __future__ import annotations

from pathlib import Path

from firstsight.data.dataset import ZeroShotDataset

ACCEPTS = "'glyphs' (built in)"


def matches(path: Path) -> bool:
    return str(path) == "glyphs"


def read(path: Path, features: str | None = None) -> ZeroShotDataset:
    from firstsight.data.glyphs import load_glyphs

    return load_glyphs()

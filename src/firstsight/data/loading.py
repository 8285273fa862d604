"""One word or path to a data set, whatever its format."""

from __future__ import annotations

import warnings
from pathlib import Path

from firstsight.data.dataset import ZeroShotDataset
from firstsight.data.formats import find_reader
from firstsight.data.unchecked import UncheckedDataset
from firstsight.errors import FirstsightWarning


def load_dataset(path_or_name: str | Path, features: str | None = None) -> ZeroShotDataset:
    """Load a data set by its name or from its files.

    Parameters
    ----------
    path_or_name : str or Path
        "glyphs", an xlsa17 folder, a folder with a pair of tables, an .npz file, or what an installed reader reads.
    features : str, optional
        The feature file of an xlsa17 folder that has several.

    Returns
    -------
    ZeroShotDataset
        Checked: what exists is valid.
    """
    loaded = _read(path_or_name, features)
    dataset = loaded if isinstance(loaded, ZeroShotDataset) else ZeroShotDataset.judged(loaded)
    for finding in dataset.warnings:
        warnings.warn(f"{dataset.name}: {finding.message}", FirstsightWarning, 2)
    return dataset


def load_unchecked(path_or_name: str | Path, features: str | None = None) -> UncheckedDataset:
    """As `load_dataset`, unjudged."""
    loaded = _read(path_or_name, features)
    return UncheckedDataset.of(loaded) if isinstance(loaded, ZeroShotDataset) else loaded


def _read(path_or_name: str | Path, features: str | None) -> ZeroShotDataset | UncheckedDataset:
    path = Path(path_or_name)
    return find_reader(path, features).read(path, features)

"""What a reader found in files, not yet judged: rules look at it, `ZeroShotDataset.judged` makes a data set of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from firstsight.data.rules import PARTS

if TYPE_CHECKING:
    from firstsight.data.dataset import ZeroShotDataset


@dataclass
class UncheckedDataset:
    """The fields of `ZeroShotDataset`, of the right types but possibly contradictory or missing.

    Row and class numbers are 0-based here; `numbered_from` is what the file calls its first one.
    """

    name: str
    class_names: tuple[str, ...]
    description_matrix: np.ndarray
    parts: dict[str, np.ndarray]
    labels: np.ndarray | None = None
    features: Any = None  # an array, or `DiskRows`
    numbered_from: int = 0
    attribute_names: tuple[str, ...] | None = None
    images: np.ndarray | None = None
    sample_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    needed: tuple[str, ...] = ("train", "test_unseen")  # parts that must not be empty
    original_attributes: np.ndarray | None = None  # before normalisation, for the audit only
    untrusted: dict[str, np.ndarray] = field(default_factory=dict)  # train_loc, val_loc: for the audit only
    absent: str = ""  # what is missing, as a sentence, when `features` or `labels` is None

    @classmethod
    def of(cls, dataset: ZeroShotDataset, numbered_from: int = 0) -> UncheckedDataset:
        """The fields of a data set that has been checked already."""
        return cls(
            dataset.name,
            dataset.class_names,
            dataset.description_matrix,
            {part: getattr(dataset, part) for part in PARTS},
            dataset.labels,
            dataset.features,
            numbered_from,
            dataset.attribute_names,
            dataset.images,
            dataset.sample_names,
            dataset.feature_names,
            dataset.needed_parts,
        )

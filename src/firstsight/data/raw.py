"""What a reader found in files, not yet judged: the audit looks at it, `checked` makes a data set of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from firstsight.data.dataset import ZeroShotDataset
from firstsight.data.rules import checks
from firstsight.errors import BadInput


@dataclass
class RawDataset:
    """The fields of `ZeroShotDataset`, of the right types but possibly contradictory or missing.

    Row and class numbers are 0-based here; `numbered_from` is what the file calls its first one.
    """

    name: str
    class_names: tuple[str, ...]
    description_matrix: np.ndarray
    parts: dict[str, np.ndarray]
    labels: np.ndarray | None = None
    features: np.ndarray | None = None
    numbered_from: int = 0
    attribute_names: tuple[str, ...] | None = None
    images: np.ndarray | None = None
    sample_names: tuple[str, ...] | None = None
    original_attributes: np.ndarray | None = None  # before normalisation, for the audit only
    untrusted: dict[str, np.ndarray] = field(default_factory=dict)  # train_loc, val_loc: for the audit only
    absent: str = ""  # what is missing, as a sentence, when `features` or `labels` is None

    @classmethod
    def of(cls, dataset: ZeroShotDataset) -> RawDataset:
        return cls(
            dataset.name,
            dataset.class_names,
            dataset.description_matrix,
            {part: getattr(dataset, part) for part in checks.PARTS},
            dataset.labels,
            dataset.features,
        )

    def checked(self) -> ZeroShotDataset:
        """The data set, or a `BadInput` that speaks in the file's own numbering."""
        if self.features is None or self.labels is None:
            raise BadInput(self.absent)
        checks.check_length("labels", len(self.labels), len(self.features), "rows")
        checks.check_parts(self.parts, self.labels, self.class_names, self.numbered_from)
        return ZeroShotDataset(
            name=self.name,
            features=self.features,
            labels=self.labels,
            class_names=self.class_names,
            description_matrix=self.description_matrix,
            attribute_names=self.attribute_names,
            images=self.images,
            sample_names=self.sample_names,
            **self.parts,
        )

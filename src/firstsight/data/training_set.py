"""A data set to learn from: labelled rows, described classes with and without rows, perhaps rows without labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from firstsight.data.dataset import ZeroShotDataset
from firstsight.data.look_alikes import nearest_name, same_on_screen
from firstsight.data.rules import Finding, all_findings
from firstsight.data.unchecked import UncheckedDataset
from firstsight.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd


class TrainingSet(ZeroShotDataset):
    """A data set to learn from and not to test on: `test_unseen` may be empty, everything else is as ever.

    Rows without a label have the code −1 and are in no part; `pool` has them.
    """

    needed_parts = ("train",)

    @property
    def pool(self) -> np.ndarray:
        """Features of the rows without a label."""
        rows: np.ndarray = self.features[self.labels < 0]
        return rows

    def findings(self) -> list[Finding]:
        """What the audit says."""
        return all_findings(UncheckedDataset.of(self))


def make_training_set(
    name: str,
    features: np.ndarray,
    labels: Sequence[str],
    descriptions: pd.DataFrame,
    unlabeled: np.ndarray | None = None,
    feature_names: Sequence[str] | None = None,
    sample_names: Sequence[str] | None = None,
) -> TrainingSet:
    """Put labelled rows, descriptions and unlabelled rows together; every labelled class must be described.

    `sample_names` are what labelled and then unlabelled rows are called in messages.
    """
    check_described(labels, descriptions)
    pool = np.empty((0, features.shape[1]), dtype=np.float32) if unlabeled is None else unlabeled
    if pool.shape[1] != features.shape[1]:
        raise BadInput(
            f"`unlabeled` has {pool.shape[1]} features per row, but labelled rows have {features.shape[1]}; make both "
            "with the same backbone."
        )
    code = {str(name): i for i, name in enumerate(descriptions.index)}
    return TrainingSet(
        name=name,
        features=np.concatenate([features, pool]),
        labels=np.array([code[str(label)] for label in labels] + [-1] * len(pool), dtype=np.int64),
        class_names=tuple(map(str, descriptions.index)),
        description_matrix=descriptions.to_numpy(),
        train=np.arange(len(features)),
        test_seen=np.array([], dtype=np.int64),
        test_unseen=np.array([], dtype=np.int64),
        attribute_names=tuple(map(str, descriptions.columns)),
        feature_names=None if feature_names is None else tuple(feature_names),
        sample_names=None if sample_names is None else tuple(sample_names),
    )


def check_described(labels: Sequence[str], descriptions: pd.DataFrame) -> None:
    """At least two classes, each described, and each described once."""
    names = [str(name) for name in descriptions.index]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadInput(f"The table of classes describes {twice!r} more than once; keep one row per class.")
    seen = list(dict.fromkeys(map(str, labels)))
    missing = [name for name in seen if name not in set(names)]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        nearest = nearest_name(missing[0], names)
        hint = f"did you mean {nearest!r}? Write both the same way" if nearest else "add a description"
        if nearest and same_on_screen(missing[0], nearest):
            hint = f"its {nearest!r} has other code points ({nearest!a}, not {missing[0]!a}): write both the same way"
        raise BadInput(
            f"There are samples of the class {missing[0]!r}{more}, but the table of classes has no such row; {hint}, "
            "or take the samples away."
        )
    if len(seen) < 2:
        raise BadInput(
            f"There are samples of {len(seen)} class{'' if len(seen) == 1 else 'es'}; learning needs at least 2 "
            "classes to tell apart."
        )

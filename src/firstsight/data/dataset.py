"""ZeroShotDataset and TrainingSet: features, class descriptions and sets of rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from firstsight._io.disk_samples import DiskSamples
from firstsight._io.identity import fingerprint
from firstsight.data.folds import validation_folds
from firstsight.data.rules import PARTS, Finding, RawDataset, deep_findings, in_order, quick_findings
from firstsight.data.table_files import nearest_name, same_on_screen
from firstsight.errors import BadInput, UnknownName

if TYPE_CHECKING:
    import pandas as pd


class ZeroShotDataset(RawDataset):
    """Features of N samples, descriptions of C classes, and which rows are for training and which for testing.

    The arrays are read-only and valid: the first error raises `BadInput`. `warnings` has what deserves a look, such as
    two classes with one description; `audit` finds more, also in files with errors.

    Parameters
    ----------
    name : str
        What reports call it.
    features : array (N, d) or DiskSamples
        Kept as float32, C-contiguous, not copied if it already is; `DiskSamples` stay on the disk.
    labels : array (N,)
        Codes into `class_names`; −1, "none of these", only for rows in no part.
    class_names : tuple of str
        C different names.
    description_matrix : array (C, a)
        One description per class, kept as float32.
    train, test_seen, test_unseen : arrays of row numbers
        Counted from 0; classes of `test_unseen` have no row in `train`.
    attribute_names : tuple of str, optional
        What the a columns of the descriptions are called.
    images : array (N, h, w), optional
        Pictures of uint8.
    sample_names : tuple of str, optional
        What the N rows are called, such as file names.
    feature_names : tuple of str, optional
        What the d columns of the features are called; a fitted model then matches features by name.
    numbered_from : int
        What the source calls row 0 and class 0: messages use its numbering, arrays count from 0.

    Examples
    --------
    >>> toy = ZeroShotDataset("toy", features=[[0.0], [0.1], [1.0]], labels=[0, 0, 1],
    ...                       class_names=("ox", "okapi"), description_matrix=[[0.0], [1.0]],
    ...                       train=[0], test_seen=[1], test_unseen=[2])
    >>> X, y = toy.part("test_unseen")
    >>> print(y, toy.seen_classes)
    ['okapi'] ['ox']
    """

    _quick_findings: tuple[Finding, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        found = []
        for finding in quick_findings(self):
            if finding.severity == "error":
                raise BadInput(finding.message)
            found.append(finding)
        object.__setattr__(self, "_quick_findings", tuple(found))  # the way a frozen dataclass may set an attribute

    @classmethod
    def trusted(cls, **values: Any) -> Self:
        """Build a data set of parts of a valid one, without validating them again."""
        dataset = object.__new__(cls)
        for field in fields(cls):
            object.__setattr__(dataset, field.name, values.get(field.name, field.default))
        RawDataset.__post_init__(dataset)
        return dataset

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Warnings of the validation, such as two classes with one description; `findings` looks further."""
        return tuple(finding for finding in self._quick_findings if finding.severity == "warning")

    def findings(self) -> list[Finding]:
        """Everything that deserves a look, warnings first."""
        return in_order([*self._quick_findings, *deep_findings(self)])

    def __repr__(self) -> str:
        (n, d), (n_classes, a) = self.features.shape, self.description_matrix.shape
        rows = ", ".join(f"{part} {len(getattr(self, part))}" for part in PARTS)
        return f"ZeroShotDataset({self.name!r}: {n} × {d} features, {n_classes} × {a} descriptions; {rows})"

    @property
    def seen_classes(self) -> list[str]:
        """Names of the classes with training rows, in the order of the class table."""
        return [self.class_names[code] for code in np.unique(self.labels[self.train])]

    @property
    def unseen_classes(self) -> list[str]:
        """Names of the classes of `test_unseen`, in the order of the class table."""
        return [self.class_names[code] for code in np.unique(self.labels[self.test_unseen])]

    @property
    def descriptions(self) -> pd.DataFrame:
        """`description_matrix` as a table indexed by class name, as `fit` and `predict` want it."""
        import pandas as pd

        index = pd.Index(list(self.class_names), name="class")
        columns = None if self.attribute_names is None else list(self.attribute_names)
        return pd.DataFrame(self.description_matrix.copy(), index=index, columns=columns)

    @property
    def y(self) -> np.ndarray:
        """(N,) class names of all rows; empty where a row belongs to no class of the table."""
        return self.names_of(np.arange(len(self.labels)))

    def names_of(self, rows: np.ndarray) -> np.ndarray:
        """Class names of some rows."""
        names: np.ndarray = np.array([*self.class_names, ""])[self.labels[rows]]  # code −1 picks the last one
        return names

    def part(self, which: str) -> tuple[Any, np.ndarray]:
        """Features and class names of "train", "test_seen" or "test_unseen"."""
        if which not in PARTS:
            raise UnknownName("part", str(which), PARTS)
        rows = getattr(self, which)
        return self.rows(rows), self.names_of(rows)

    def rows(self, numbers: np.ndarray) -> Any:
        """Features of some rows: an array, or, of features on the disk, rows that stay there."""
        return self.features.take(numbers) if isinstance(self.features, DiskSamples) else self.features[numbers]

    @property
    def split_hash(self) -> str:
        """16 hexadecimal digits that change when classes, labels or parts do; features do not enter."""
        digest = hashlib.sha256(json.dumps(self.class_names).encode())
        for array in (self.labels, *(np.sort(getattr(self, part)) for part in PARTS)):
            digest.update(len(array).to_bytes(8, "little"))
            digest.update(array.astype("<i8").tobytes())
        return digest.hexdigest()[:16]

    @cached_property
    def features_fingerprint(self) -> str:
        """Text that stands for features and descriptions, without the split; compare with `identity.same_data`."""
        return fingerprint("", self.features, self.description_matrix)

    def validation_folds(
        self,
        n_folds: int = 3,
        n_classes: int | None = None,
        held_out: float = 0.2,
        random_state: int = 0,
    ) -> list[ZeroShotDataset]:
        """Smaller data sets cut from `train` alone, to choose settings on without touching the test.

        Each fold holds out `n_classes` seen classes as its unseen ones (the benchmarks' own number for AWA1,
        AWA2, CUB, SUN and APY, else a third of them) and the share `held_out` of every other class's training
        rows as its `test_seen`. No two folds hold out the same class while there are enough classes; then the
        classes are shuffled anew, so that all are held out about equally often.
        A fold shares this data set's feature array; its class table has the seen classes only, and test rows
        have no label and are in none of its parts.
        """
        return validation_folds(self, n_folds, n_classes, held_out, random_state)


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


def make_training_set(
    name: str,
    features: np.ndarray,
    labels: Sequence[str],
    descriptions: pd.DataFrame,
    unlabeled: np.ndarray | None = None,
    feature_names: Sequence[str] | None = None,
    sample_names: Sequence[str] | None = None,
) -> TrainingSet:
    """Put labelled rows, descriptions and unlabelled rows together; `check_described` has validated the labels.

    `sample_names` are what labelled and then unlabelled rows are called in messages.
    """
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

"""ZeroShotDataset and TrainingSet: features, class descriptions, sets of rows, validation folds and held-out rows."""

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
from firstsight.data.rules import PARTS, Finding, RawDataset, deep_findings, in_order, quick_findings
from firstsight.data.shared_space import in_shared_space
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
    backbone : str, optional
        The vision model that made the features, where that is known.
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
    def shared_space(self) -> bool:
        """Whether features and descriptions come from one vision-language model, as far as is known of them.

        Methods with `shared_space` compare the two directly then, and the answer of the model alone (`Cosine`) is one
        that a default method must not fall behind. `firstsight.data.shared_space` has the rule.
        """
        widths = self.features.shape[1], self.description_matrix.shape[1]
        return in_shared_space(*widths, self.attribute_names, self.backbone)

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
    backbone: str | None = None,
) -> TrainingSet:
    """Put labelled rows, descriptions and unlabelled rows together; `check_described` has validated the labels.

    `sample_names` are what labelled and then unlabelled rows are called in messages; `backbone` made the features.
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
        backbone=backbone,
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


# Holding out a share of every class's rows.


def check_share(share: float) -> None:
    """Refuse what is no share of rows; the argument is called `held_out` everywhere."""
    if not 0 <= share < 1:
        raise BadInput(f"`held_out` is a share from 0 up to (not including) 1, but is {share}; try 0.2.")


def held_out_of(count: int, share: float) -> int:
    """How many of `count` rows are held out: the nearest whole number, at least one, and at least one row stays."""
    return min(count - 1, max(1, round(share * count))) if share else 0


def hold_out(
    rows: np.ndarray, labels: np.ndarray, share: float, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """`rows` that stay and `rows` held out, both sorted; of every class in `labels[rows]` the same share is drawn."""
    held: list[np.ndarray] = [np.empty(0, dtype=np.int64)]
    for label in np.unique(labels[rows]):
        of_class = random.permutation(rows[labels[rows] == label])
        held.append(of_class[: held_out_of(of_class.size, share)])
    chosen = np.sort(np.concatenate(held))
    return np.setdiff1d(rows, chosen), chosen


# Class-wise validation: seen classes play the unseen ones, and nothing of the test can be reached.

# How many validation classes the community's benchmarks use (Xian et al.).
_CUSTOMARY = {"AWA1": 13, "AWA2": 13, "CUB": 50, "SUN": 65, "APY": 5}
_SHARED_FIELDS = (
    *("features", "attribute_names", "images", "sample_names", "feature_names"),
    *("backbone", "numbered_from"),
)
FEWEST_CLASSES = 4  # with fewer, a fold would train on one class or hold out one


def validation_folds(
    dataset: ZeroShotDataset, n_folds: int, n_classes: int | None, held_out: float, random_state: int
) -> list[ZeroShotDataset]:
    """See `ZeroShotDataset.validation_folds`."""
    seen = np.unique(dataset.labels[dataset.train])
    if n_classes is None and seen.size < FEWEST_CLASSES:
        raise BadInput(
            f"Validation folds need at least {FEWEST_CLASSES} classes with training rows, two to learn from and two to "
            f"tell apart, but {dataset.name!r} has {seen.size}; add some."
        )
    n_classes = _default(dataset.name, seen.size) if n_classes is None else n_classes
    if n_folds < 1:
        raise BadInput(f"`n_folds` must be at least 1, but is {n_folds}; three is customary.")
    if not 1 <= n_classes < seen.size:
        raise BadInput(
            f"`n_classes` must lie between 1 and {seen.size - 1}, because {dataset.name!r} has {seen.size} "
            f"seen classes and one must stay for training, but is {n_classes}; choose fewer or more."
        )
    check_share(held_out)
    random = np.random.default_rng(random_state)
    return [
        _fold(dataset, seen, chosen, held_out, random, number)
        for number, chosen in enumerate(_choices(seen, n_folds, n_classes, random), start=1)
    ]


def _default(name: str, n_seen: int) -> int:
    customary = _CUSTOMARY.get(name.upper(), n_seen)
    return customary if customary < n_seen else min(max(2, round(n_seen / 3)), n_seen - 1)


def _choices(seen: np.ndarray, n_folds: int, n_classes: int, random: np.random.Generator) -> list[np.ndarray]:
    at_once = seen.size // n_classes  # folds from one shuffling: no class validates twice before each could have once
    times = -(-n_folds // at_once)
    cut = [np.split(random.permutation(seen)[: at_once * n_classes], at_once) for _ in range(times)]
    return [fold for folds in cut for fold in folds][:n_folds]


def _fold(
    dataset: ZeroShotDataset,
    seen: np.ndarray,
    unseen: np.ndarray,
    held_out: float,
    random: np.random.Generator,
    number: int,
) -> ZeroShotDataset:
    # −1 says "no class of this table": a fold forgets the unseen classes and the label of every test row.
    recode = np.full(len(dataset.class_names), -1)
    recode[seen] = np.arange(seen.size)
    labels = np.full_like(dataset.labels, -1)
    labels[dataset.train] = recode[dataset.labels[dataset.train]]
    pseudo_unseen = np.isin(dataset.labels[dataset.train], unseen)
    train, test_seen = hold_out(dataset.train[~pseudo_unseen], dataset.labels, held_out, random)
    fields = {name: getattr(dataset, name) for name in _SHARED_FIELDS}
    return dataset.trusted(
        **fields,
        name=f"{dataset.name} fold {number}",
        labels=labels,
        class_names=tuple(dataset.class_names[code] for code in seen),
        description_matrix=dataset.description_matrix[seen],
        train=train,
        test_seen=test_seen,
        test_unseen=np.sort(dataset.train[pseudo_unseen]),
    )

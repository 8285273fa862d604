"""Class-wise validation folds and held-out shares of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from firstsight.errors import BadInput

if TYPE_CHECKING:
    from firstsight.data.dataset import ZeroShotDataset


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
_SHARED_FIELDS = ("features", "attribute_names", "images", "sample_names", "feature_names", "numbered_from")
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

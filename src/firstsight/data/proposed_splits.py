"""`make_dataset`: your own features and descriptions as a folder in the xlsa17 layout, with proposed splits."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firstsight._io.files import write_atomically
from firstsight.data.dataset import ZeroShotDataset, check_described, check_share, hold_out
from firstsight.data.formats.xlsa17 import SPLITS_FILE
from firstsight.errors import BadInput, FirstsightWarning, UnknownName

if TYPE_CHECKING:
    import pandas as pd

_MATLAB_5_LIMIT = 2**31 - 1  # bytes of one variable


@dataclass(frozen=True)
class Proposal:
    """A data set with proposed splits.

    Attributes
    ----------
    dataset : ZeroShotDataset
        With `train`, `test_seen` and `test_unseen`.
    fit, validation : arrays of row numbers
        Disjoint in classes; both lie within `train`.
    without_rows : tuple of str
        Described classes that no row belongs to.
    """

    dataset: ZeroShotDataset
    fit: np.ndarray
    validation: np.ndarray
    without_rows: tuple[str, ...]  # described classes that no row belongs to: they are left out


def propose_splits(
    name: str,
    features: np.ndarray,
    labels: Sequence[str],
    descriptions: pd.DataFrame,
    unseen: Sequence[str] | float = 0.25,
    held_out: float = 0.2,
    sample_names: Sequence[str] | None = None,
    random_state: int = 0,
) -> Proposal:
    """Draw unseen classes (or take those named), hold out rows of the seen ones, and validation classes among these.

    Parameters
    ----------
    name : str
        What reports call the data set.
    features : DataFrame or array (N, d)
        One row per sample; the columns of a DataFrame are the names of the features.
    labels : sequence of N str
        Class names.
    descriptions : DataFrame
        One row per class, indexed by class name.
    unseen : list of class names, or float
        The classes to play unseen, or the share of classes to draw for it.
    held_out : float
        The share of each seen class's rows that becomes `test_seen`.
    sample_names : sequence of N str, optional
        What the rows are called, such as file names.
    random_state : int
        Everything random follows from it.

    Returns
    -------
    Proposal
        The data set, and which training rows to fit and to validate on.
    """
    check_described(labels, descriptions)
    check_share(held_out)
    rows = np.array(labels, dtype=np.str_)
    present = np.isin(descriptions.index.astype(str), rows)
    table = descriptions[present]
    random = np.random.default_rng(random_state)
    names = [str(name) for name in table.index]
    hidden = _unseen(names, unseen, random)
    codes = np.array([names.index(label) for label in rows])
    is_unseen = np.isin(rows, hidden)
    train, test_seen = hold_out(np.flatnonzero(~is_unseen), codes, held_out, random)
    dataset = ZeroShotDataset(
        name=name,
        features=features,
        labels=codes,
        class_names=tuple(names),
        description_matrix=table.to_numpy(),
        train=train,
        test_seen=test_seen,
        test_unseen=np.flatnonzero(is_unseen),
        attribute_names=tuple(map(str, table.columns)),
        sample_names=None if sample_names is None else tuple(sample_names),
        feature_names=_column_names(features),
    )
    seen = np.unique(codes[train])
    chosen = random.permutation(seen)[: min(max(1, round(len(seen) / 3)), len(seen) - 1)]
    validates = np.isin(codes[train], chosen)
    without = tuple(map(str, descriptions.index[~present]))
    return Proposal(dataset, train[~validates], train[validates], without)


def make_dataset(
    X: np.ndarray,
    y: Sequence[str],
    descriptions: pd.DataFrame,
    unseen: Sequence[str] | float = 0.25,
    held_out: float = 0.2,
    name: str = "mine",
    random_state: int = 0,
) -> ZeroShotDataset:
    """Make a data set of your own arrays, with proposed splits.

    Parameters
    ----------
    X : DataFrame or array (N, d)
        Features; the columns of a DataFrame are their names.
    y : sequence of N str
        Class names.
    descriptions : DataFrame
        One row per class, indexed by class name.
    unseen : list of class names, or float
        The classes to play unseen, or the share of classes to draw for it.
    held_out : float
        The share of each seen class's rows that becomes `test_seen`.
    name : str
        What reports call the data set.
    random_state : int
        Everything random follows from it.

    Returns
    -------
    ZeroShotDataset
        With the parts `train`, `test_seen` and `test_unseen`.

    See Also
    --------
    firstsight.data.propose_splits : Also proposes classes to validate on.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"stripes": [0, 1, 0], "hooves": [0, 1, 1]}, index=["lion", "zebra", "horse"])
    >>> X = [[0.1, 0.0], [0.0, 0.1], [0.9, 1.0], [0.1, 0.9], [0.0, 1.1]]
    >>> make_dataset(X, ["lion", "lion", "zebra", "horse", "horse"], table, unseen=["zebra"])
    ZeroShotDataset('mine': 5 × 2 features, 3 × 2 descriptions; train 2, test_seen 2, test_unseen 1)
    """
    dataset = propose_splits(name, X, y, descriptions, unseen, held_out, random_state=random_state).dataset
    for finding in dataset.warnings:
        warnings.warn(finding.message, FirstsightWarning, 2)
    return dataset


def write_xlsa17(folder: str | Path, proposal: Proposal, features: str = "features") -> None:
    """Write `att_splits.mat` and `<features>.mat` (MATLAB v5, numbered from 1), the splits last.

    `att` is `original_att` with every class's description at unit length. `train_loc` and `val_loc` are class-wise
    and lie within `trainval_loc`: nobody who tunes on them reaches into the test.

    Parameters
    ----------
    folder : str or Path
        Where to write; made where it is not there.
    proposal : Proposal
        What `propose_splits` gave.
    features : str
        The stem of the feature file.
    """
    from scipy.io import savemat

    folder, data = Path(folder), proposal.dataset
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder} exists and is not an empty folder; choose another place.")
    if data.features.nbytes > _MATLAB_5_LIMIT:
        raise BadInput(
            f"The features take {data.features.nbytes / 2**30:.1f} GB, more than a MATLAB v5 file holds (2 GB); keep "
            "them as .npz (write_npz), or use fewer rows."
        )
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", features).strip("-") or "features"
    norms = np.linalg.norm(data.description_matrix.astype(np.float64), axis=1, keepdims=True)
    empty = np.flatnonzero(norms[:, 0] == 0)
    if empty.size:
        raise BadInput(f"The description of {data.class_names[empty[0]]!r} is all zero; describe the class.")
    splits = {
        "allclasses_names": _cell(data.class_names),
        "original_att": data.description_matrix.T.astype(np.float64),
        "att": (data.description_matrix / norms).T,
        "trainval_loc": _loc(data.train),
        "test_seen_loc": _loc(data.test_seen),
        "test_unseen_loc": _loc(data.test_unseen),
        "train_loc": _loc(proposal.fit),
        "val_loc": _loc(proposal.validation),
    }
    if data.attribute_names is not None:
        splits["attribute_names"] = _cell(data.attribute_names)
    rows = {"features": data.features.T, "labels": _loc(data.labels)}
    if data.sample_names is not None:
        rows["image_files"] = _cell(data.sample_names)
    for name, content in ((f"{stem}.mat", rows), (SPLITS_FILE, splits)):
        write_atomically(folder / name, partial(savemat, mdict=content))


def _unseen(names: list[str], unseen: Sequence[str] | float, random: np.random.Generator) -> list[str]:
    if isinstance(unseen, (int, float)):
        if not 0 < unseen < 1:
            raise BadInput(f"The share of unseen classes must lie between 0 and 1, but is {unseen}; try 0.25.")
        count = min(max(1, round(unseen * len(names))), len(names) - 2)
        if count < 1:
            raise BadInput(f"There are {len(names)} classes with samples; splits need at least 3, 2 of them seen.")
        return [names[i] for i in np.sort(random.permutation(len(names))[:count])]
    unseen = [unseen] if isinstance(unseen, str) else [str(name) for name in unseen]  # names are text by now
    unknown = [name for name in unseen if name not in names]
    if unknown:
        raise UnknownName("class with samples", unknown[0], names)
    if len(set(unseen)) > len(names) - 2:
        raise BadInput(f"{len(set(unseen))} of {len(names)} classes are to be unseen; leave at least 2 to learn from.")
    return unseen


def _column_names(features: Any) -> tuple[str, ...] | None:
    """The columns of a DataFrame where all of them are names."""
    columns = list(getattr(features, "columns", []))
    return tuple(columns) if columns and all(isinstance(column, str) for column in columns) else None


def _loc(rows: np.ndarray) -> np.ndarray:
    return (np.asarray(rows) + 1).astype(np.int32)[:, None]  # MATLAB counts from one


def _cell(names: Sequence[str]) -> np.ndarray:
    cell = np.empty((len(names), 1), dtype=object)
    cell[:, 0] = list(names)
    return cell

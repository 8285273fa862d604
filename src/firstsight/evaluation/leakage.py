"""What a fit has touched, found by watching it: which rows with labels, which without, which descriptions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from firstsight.data import ZeroShotDataset


class Watch:
    """What was handed to `fit` and, where the base class of firstsight stands between, on to `_fit`."""

    def __init__(self) -> None:
        self.fits: list[dict[str, Any]] = []
        self.unseen_descriptions: list[np.ndarray] = []  # as scaled for `_fit`
        self.too_many = False  # more descriptions than labelled classes were prepared
        self.handed_on: list[np.ndarray] | None = None  # matrices that reached `_fit`; None: it was not seen

    def touched(self, dataset: ZeroShotDataset) -> dict[str, Any]:
        """Compares the handed rows, byte for byte, with the data set's."""
        where = {part: set(_digests(dataset.features[getattr(dataset, part)])) for part in _PARTS}
        labelled: list[bytes] = []
        pool: list[bytes] = []
        classes: set[str] = set()
        for fit in self.fits:
            labelled += _digests(fit["X"])
            classes |= set(map(str, np.unique(fit["y"])))
            if fit["X_unlabeled"] is not None:
                pool += _digests(fit["X_unlabeled"])
        test = where["test_seen"] | where["test_unseen"]
        # A picture that is in both parts, byte for byte, is a training row; that there are such is worth a note.
        leaked = [row for row in labelled if row in test and row not in where["train"]]
        twins = sum(row in test for row in labelled) - len(leaked)
        strangers = sum(row not in test and row not in where["train"] for row in labelled)
        notes = []
        if pool:
            unseen = sum(row in where["test_unseen"] for row in pool)
            seen = sum(row in where["test_seen"] and row not in where["test_unseen"] for row in pool)
            notes.append(f"unlabelled pool: {unseen} test rows of unseen classes, {seen} of seen classes")
        if twins:
            notes.append(f"{twins} training rows are identical to a test row")
        if strangers:
            notes.append(f"{strangers} labelled rows are no rows of the data set")
        return {
            "labelled_rows": len(labelled),
            "labelled_classes": len(classes),
            "unlabelled_rows": len(pool),
            "test_rows_labelled": len(leaked),
            "unseen_classes_labelled": len(classes & set(dataset.unseen_classes)),
            "unseen_descriptions_in_fit": self._saw_unseen_descriptions(),
            "note": "; ".join(notes),
        }

    def _saw_unseen_descriptions(self) -> bool:
        if self.handed_on is None:  # the method got the whole table itself: nothing kept the rest from it
            return any(fit["descriptions"] is not None for fit in self.fits)
        unseen = {row for table in self.unseen_descriptions for row in _digests(table)}
        return self.too_many or any(row in unseen for matrix in self.handed_on for row in _digests(matrix))


_PARTS = ("train", "test_seen", "test_unseen")


@contextmanager
def watch(estimator) -> Iterator[Watch]:
    """Watch every `fit` of this estimator object inside the block."""
    seen = Watch()
    originals = {name: getattr(estimator, name) for name in ("fit", "_prepare", "_fit") if hasattr(estimator, name)}

    def fit(X, y, descriptions=None, **more):
        seen.fits.append({"X": X, "y": y, "descriptions": descriptions, "X_unlabeled": more.get("X_unlabeled")})
        return originals["fit"](X, y, descriptions, **more)

    def prepare(*arguments):
        prepared = originals["_prepare"](*arguments)
        seen.too_many |= len(prepared[2]) > len(np.unique(prepared[1]))
        seen_rows = set(_digests(prepared[2]))
        # A description that a seen class shares tells nothing about the unseen one.
        unseen = [row for row in prepared[3] if _digests(row[None])[0] not in seen_rows]
        seen.unseen_descriptions.append(np.array(unseen).reshape(-1, prepared[3].shape[1]))
        return prepared

    def inner_fit(*arguments):
        matrices = [a for a in arguments if isinstance(a, np.ndarray) and a.ndim == 2]
        seen.handed_on = [*(seen.handed_on or []), *matrices]
        return originals["_fit"](*arguments)

    watched = {"fit": fit, "_prepare": prepare, "_fit": inner_fit}
    for name in originals:
        setattr(estimator, name, watched[name])
    try:
        yield seen
    finally:
        for name in originals:
            estimator.__dict__.pop(name, None)


def _digests(rows) -> list[bytes]:
    rows = np.ascontiguousarray(rows)
    return [hashlib.blake2b(row.data, digest_size=12).digest() for row in rows]

"""Leakage audit: observe a fit and report which samples, labels and descriptions it used."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import numpy as np

from firstsight._io.disk_samples import LARGEST_BLOCK, DiskSamples, blocks_of
from firstsight.data import ZeroShotDataset

# Watching a fit: the base class tells observers what it keeps from a method and what it hands on to it.


class Observer(Protocol):
    """What is reported of every fit inside an `observing` block, whichever estimator, pipeline or search it is."""

    def on_prepared(self, S: np.ndarray, U: np.ndarray) -> None:
        """The scaled descriptions of seen and of unseen classes; an inductive method gets the first alone."""

    def on_fit(self, arrays: Mapping[str, np.ndarray]) -> None:
        """The arguments of `_fit` by name. Not called where a method has a custom `fit` that calls `_fit` itself."""


_observers: ContextVar[tuple[Observer, ...]] = ContextVar("observers", default=())


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Tell `observer` of every fit inside the block."""
    token = _observers.set((*_observers.get(), observer))
    try:
        yield
    finally:
        _observers.reset(token)


def observers() -> tuple[Observer, ...]:
    """Who is to be told."""
    return _observers.get()


# What a fit has touched, found by watching it: which rows with labels, which without, which descriptions.


class Watched:
    """Stands before an estimator, notes what its `fit` is handed and what reaches the method behind it.

    Everything else it leaves to the estimator, which may be a method, a pipeline that ends in one, or anything else
    with a `fit`. What reaches a method is told by firstsight's base class (`firstsight.evaluation.leakage`).
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        self.fits: list[dict[str, Any]] = []
        self.unseen_descriptions: set[bytes] = set()  # digests of them, as scaled for `_fit`
        self.described = False  # whether one of these, or more descriptions than classes, reached `_fit`
        self.observed_fit_inputs = False  # False: unknown what reached the method

    def fit(self, X: Any, y: Any, *arguments: Any, **more: Any) -> Any:
        """The estimator's `fit`; for a pipeline, arguments may bear the name of a step ("eszsl__descriptions")."""
        named = {name.rpartition("__")[2]: value for name, value in more.items()}
        descriptions = arguments[0] if arguments else named.get("descriptions")
        pool = named.get("X_unlabeled")
        self.fits.append({"X": X, "y": y, "descriptions": descriptions, "X_unlabeled": pool})
        with observing(self):
            return self.estimator.fit(X, y, *arguments, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.estimator, name)

    def on_prepared(self, S: np.ndarray, U: np.ndarray) -> None:
        # A description that a seen class shares tells nothing about the unseen one.
        self.unseen_descriptions |= set(_digests(U)) - set(_digests(S))

    def on_fit(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.observed_fit_inputs = True
        matrices = [array for array in arrays.values() if array.ndim == 2 and array.shape[1] == arrays["S"].shape[1]]
        self.described |= len(arrays["S"]) > len(np.unique(arrays["y"]))
        self.described |= any(row in self.unseen_descriptions for matrix in matrices for row in _digests(matrix))

    def with_samples(self, X: Any, y: Any) -> Watched:
        """A copy of a fitted one whose estimator has learned more labelled samples by `add_samples`."""
        updated = Watched(copy.copy(self.estimator).add_samples(X, y))
        updated.fits = [*self.fits, {"X": X, "y": y, "descriptions": None, "X_unlabeled": None}]
        updated.unseen_descriptions, updated.described = self.unseen_descriptions, self.described
        updated.observed_fit_inputs = self.observed_fit_inputs
        return updated

    def touched(self, dataset: ZeroShotDataset, labelled: Sequence[int] | np.ndarray = ()) -> dict[str, Any]:
        """Compares the handed rows, byte for byte, with the data set's; `labelled` rows of no part may have labels."""
        where = {part: set(_digests(dataset.rows(getattr(dataset, part)))) for part in _PARTS}
        if len(labelled):
            where["train"] |= set(_digests(dataset.rows(np.asarray(labelled))))
        taught: list[bytes] = []
        pool: list[bytes] = []
        classes: set[str] = set()
        for fit in self.fits:
            taught += _digests(fit["X"])
            classes |= set(map(str, np.unique(fit["y"])))
            if fit["X_unlabeled"] is not None:
                pool += _digests(fit["X_unlabeled"])
        test = where["test_seen"] | where["test_unseen"]
        # A picture that is in both parts, byte for byte, is a training row; that there are such is worth a note.
        leaked = [row for row in taught if row in test and row not in where["train"]]
        twins = sum(row in test for row in taught) - len(leaked)
        strangers = sum(row not in test and row not in where["train"] for row in taught)
        notes = [f"{len(labelled)} samples of unseen classes were labelled on purpose"] if len(labelled) else []
        if pool:
            unseen = sum(row in where["test_unseen"] for row in pool)
            seen = sum(row in where["test_seen"] and row not in where["test_unseen"] for row in pool)
            notes.append(f"unlabelled pool: {unseen} test rows of unseen classes, {seen} of seen classes")
        if twins:
            notes.append(f"{twins} training rows are identical to a test row")
        if strangers:
            notes.append(f"{strangers} labelled rows are not rows of the data set")
        return {
            "labelled_rows": len(taught),
            "labelled_classes": len(classes),
            "unlabelled_rows": len(pool),
            "test_rows_labelled": len(leaked),
            "unseen_classes_labelled": len(classes & set(dataset.unseen_classes)),
            "unseen_descriptions_in_fit": self._saw_unseen_descriptions(
                unlabelled=set(dataset.unseen_classes) - classes
            ),
            "note": "; ".join(notes),
        }

    def _saw_unseen_descriptions(self, unlabelled: set[str]) -> bool:
        if self.observed_fit_inputs:
            return bool(self.described)
        # The method got the whole table itself: nothing kept the rest from it.
        return bool(unlabelled) and any(fit["descriptions"] is not None for fit in self.fits)


_PARTS = ("train", "test_seen", "test_unseen")


def _digests(rows: Any) -> list[bytes]:
    rows = rows if isinstance(rows, DiskSamples) else np.ascontiguousarray(rows)
    each = (row for _, block in blocks_of(rows, LARGEST_BLOCK) for row in block)
    return [hashlib.blake2b(row.data, digest_size=12).digest() for row in each]

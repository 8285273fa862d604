"""Labelled samples for a fitted model: added and removed in closed form, without another fit."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from firstsight.errors import BadInput
from firstsight.methods._coverage import most_covering
from firstsight.methods._validation import label_indices, numbers_in_range, require_finite
from firstsight.methods.base import ZeroShotClassifier, restored_on_error, scale


class IncrementalClassifier(ZeroShotClassifier):
    """Base of the methods that labelled samples can be added to after a fit, and removed from again.

    A subclass writes `_added_rows(X)`, what it keeps of scaled samples (m, r), and `_condition(rows, codes, A)`, which
    sets the fitted state to that of the fit plus all these samples: `codes (m,)` are training codes, those from the
    fit's number of seen classes on belong to classes with the scaled descriptions `A (j, a)`. Without samples it
    restores the state of the fit. Arrays are replaced, never written into: a shallow copy of a model is independent. A
    subclass may write `_coverage(X)`, which `suggest` uses.
    """

    # Of the samples that were added: rows (m, r), codes (m,), calls (m,) and, of classes that only they made known,
    # descriptions (j, a). Absent if there are none.
    added_samples_: dict[str, np.ndarray]
    removed_classes_: list[list[Any]]  # set where classes were removed: label, index, seen code, unseen code

    def add_samples(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from more labelled samples without another fit: no search, and no setting changes.

        The result does not depend on the order of samples or calls.

        Parameters
        ----------
        X : DataFrame or array (m, d)
            Features, as in `predict`.
        y : array (m,)
            Their classes, each of which has a description: seen or unseen in training, or added since.

        Returns
        -------
        Self
            The updated estimator. A class that had no labelled sample counts as seen from now on (`seen_classes_`).
        """
        features = self.check_features(X)
        index = label_indices(y, self.classes_)
        if len(index) != len(features):
            raise BadInput(f"X has {len(features)} rows and y {len(index)} classes; expected one class per row.")
        with restored_on_error(self), numbers_in_range(self, features):
            known, codes = self._added(), self.seen_code_.copy()
            new = [i for i in dict.fromkeys(index.tolist()) if codes[i] < 0]
            codes[new] = self._seen_at_fit + len(known["descriptions"]) + np.arange(len(new))
            self.seen_code_ = codes
            rows = self._added_rows(self._scale_features(features))
            call = known["calls"].max(initial=-1) + 1
            self._set_added(
                rows=np.concatenate([known["rows"].reshape(-1, rows.shape[1]), rows]),
                codes=np.concatenate([known["codes"], codes[index]]),
                calls=np.concatenate([known["calls"], np.full(len(rows), call)]),
                descriptions=np.concatenate([known["descriptions"], self.descriptions_[new]]),
            )
        return self

    def remove_samples(self, index: ArrayLike | None = None) -> Self:
        """Undo `add_samples`: forget samples that were added.

        Parameters
        ----------
        index : array of int, optional
            Positions among the added samples, in the order of their addition; left out, those of the last call.

        Returns
        -------
        Self
            The estimator as if these had not been added.
        """
        known = self._added()
        count = len(known["codes"])
        if not count:
            raise BadInput("No samples were added to this model since its fit, so there are none to remove.")
        last = np.flatnonzero(known["calls"] == known["calls"].max())
        chosen = last if index is None else np.atleast_1d(np.asarray(index))
        if chosen.dtype.kind not in "iu" or chosen.ndim != 1 or ((chosen < 0) | (chosen >= count)).any():
            raise BadInput(f"`index` must hold positions from 0 to {count - 1} among the added samples; got {index!r}.")
        with restored_on_error(self):
            rest = {name: np.delete(known[name], chosen, axis=0) for name in ("rows", "codes", "calls")}
            # Classes that have lost their last sample give their codes back.
            fewest, described = self._seen_at_fit, known["descriptions"]
            left = np.isin(np.arange(fewest, fewest + len(described)), rest["codes"])
            moved = np.r_[np.arange(fewest), np.where(left, fewest + np.cumsum(left) - 1, -1), -1]  # the last is of −1
            rest["codes"], self.seen_code_ = moved[rest["codes"]], moved[self.seen_code_]
            if hasattr(self, "removed_classes_"):  # they may be added back
                self.removed_classes_ = [
                    [label, i, int(moved[seen]), unseen] for label, i, seen, unseen in self.removed_classes_
                ]
            self._set_added(**rest, descriptions=described[left])
        return self

    def suggest(self, X_unlabeled: ArrayLike, n: int = 10) -> np.ndarray:
        """Choose the samples whose labels would help most: together, they represent what the model does not know yet.

        Parameters
        ----------
        X_unlabeled : DataFrame or array (m, d)
            Features of samples without labels, as in `predict`.
        n : int
            How many to choose.

        Returns
        -------
        array of int
            Row numbers, the most useful first; fewer than `n` if the others are copies of these.
        """
        features = self.check_features(X_unlabeled)
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise BadInput(f"`n` must be the number of samples to choose, from 1 upwards, but is {n!r}; try 10.")
        with numbers_in_range(self, features):
            points, known, certainty = self._coverage(self._scale_features(features))
            require_finite(points)
        return most_covering(points, int(n), known, certainty)

    @property
    def added_classes_(self) -> np.ndarray:
        """The classes that only added samples have made known, in the order of `classes_`."""
        return self.classes_[self.seen_code_ >= self._seen_at_fit]

    @property
    def can_add_samples(self) -> bool:
        """Whether this fitted model can learn from added samples; one that consists of other methods may not."""
        return True

    def update_descriptions(self) -> None:
        """Take over `descriptions_` that have changed of classes that only added samples made known."""
        known, codes = self._added(), self.seen_code_ - self._seen_at_fit
        descriptions = known["descriptions"].copy()
        descriptions[codes[codes >= 0]] = self.descriptions_[codes >= 0]
        if not np.array_equal(descriptions, known["descriptions"]):
            with restored_on_error(self), numbers_in_range(self, descriptions):
                self._set_added(**{**known, "descriptions": descriptions})

    def check_added_samples(self) -> None:
        """Raise ValueError unless added samples that came from a file belong to this model."""
        added, names = self._added(), {"rows", "codes", "calls", "descriptions"}
        if set(added) != names or not all(isinstance(array, np.ndarray) for array in added.values()):
            raise ValueError(f"added_samples_ must hold {', '.join(sorted(names))}")
        rows, codes, calls, A = (added[name] for name in ("rows", "codes", "calls", "descriptions"))
        known = self._seen_at_fit + len(A)
        if (
            codes.dtype.kind not in "iu"
            or calls.dtype.kind not in "iu"
            or not codes.shape == calls.shape == rows.shape[:1]
        ):
            raise ValueError("added_samples_ have no code and call for each of their rows")
        if ((codes < 0) | (codes >= known)).any() or A.shape[1:] != self.descriptions_.shape[1:]:
            raise ValueError(f"added_samples_ do not match {known} classes")

    @property
    def _seen_at_fit(self) -> int:
        """How many classes the fit had samples of."""
        raise NotImplementedError

    def _added_rows(self, X: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _coverage(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Points (m, e) of scaled samples for `suggest`; means (k, e) of known classes, and their certainty (k,)."""
        points = scale("unit", {}, X)
        return points, points[:0], np.empty(0)

    def _condition(self, rows: np.ndarray, codes: np.ndarray, A: np.ndarray) -> None:
        raise NotImplementedError

    def _added(self) -> dict[str, np.ndarray]:
        none = {name: np.empty(0, dtype=np.int64) for name in ("rows", "codes", "calls")}
        return getattr(self, "added_samples_", {**none, "descriptions": self.descriptions_[:0]})

    def _set_added(self, **added: Any) -> None:
        vars(self).pop("added_samples_", None)
        if len(added["codes"]):
            self.added_samples_ = added
        self._condition(added["rows"], added["codes"], self._scale_descriptions(added["descriptions"]))
        for value in vars(self).values():
            if isinstance(value, np.ndarray) and value.dtype.kind == "f":
                require_finite(value)

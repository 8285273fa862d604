"""Methods that need no row twice: fitted from sums over rows, which may come in blocks, from a disk, or one by one."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.validation import column_or_1d, validate_data

from firstsight._io.disk_samples import DiskRows
from firstsight.errors import BadInput
from firstsight.methods._class_input import Descriptions, attribute_names, check_finite, read_descriptions
from firstsight.methods._moments import GatheredMoments, Moments, moments_in_memory
from firstsight.methods._scaling import fit_scaling, scale
from firstsight.methods.base import ZeroShotClassifier


class MomentClassifier(ZeroShotClassifier):
    """Base of the closed forms: a subclass writes `_solve(moments, S)` and says which moments it needs.

    Rows in memory are scaled and summed as they are; of rows on the disk (`DiskRows`), and of those that `partial_fit`
    is given, each is read once, and a "standard" scaling is applied to the sums.
    """

    reads_blocks = True
    needs: ClassVar[frozenset[str]] = frozenset()  # "gram", "scatter"
    _gathered: GatheredMoments  # of all calls of `partial_fit`; not saved

    def _solve(self, moments: Moments, S: np.ndarray) -> None:
        raise NotImplementedError

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        descriptions: Descriptions | None = None,
        *,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Learn from more rows; after any number of calls the model is that of `fit` on all rows, up to rounding.

        Parameters
        ----------
        X : array (n, d)
            Features of the rows to add.
        y : array (n,)
            Their classes.
        descriptions : DataFrame indexed by class, or array whose row numbers are the labels
            Of every class that will ever have rows; of the first call, later ones may leave them out.
        classes : array, optional
            In the place of descriptions, for an ordinary classifier: the names; else those in the first `y`.

        Returns
        -------
        self
            A `fit` before is forgotten, and a saved model does not keep the sums.
        """
        with self._all_or_nothing():
            self._validate_params()
            first = "_gathered" not in vars(self)
            rows: np.ndarray
            rows, labels = validate_data(self, X, y, dtype=list(self._dtypes), reset=first, ensure_all_finite=False)
            check_finite(rows, "X")
            if first:
                self._begin(descriptions, labels if classes is None else classes, rows.dtype)
            codes = self._codes_of(column_or_1d(labels))
            gathered = copy.deepcopy(self._gathered)  # a call that is refused changes nothing
            gathered.add(self._of_unit_length(rows), codes)
            self._gathered = gathered
            there = gathered.counts > 0
            self.seen_code_ = np.where(there, np.cumsum(there) - 1, -1)
            self.attribute_scaler_ = fit_scaling(self.attribute_scaling, self.descriptions_[there])
            S = scale(self.attribute_scaling, self.attribute_scaler_, self.descriptions_[there])
            self._fit_in_range(gathered, np.flatnonzero(there), S)
        return self

    def _fit(self, X, y, S):
        if isinstance(X, np.ndarray):
            self._solve(moments_in_memory(X, y, len(S), self.needs), S)
            return
        gathered = X
        if isinstance(X, DiskRows):
            self.__dict__.pop("_gathered", None)
            gathered = GatheredMoments(len(S), self.needs)
            for part, rows in X.blocks():
                gathered.add(self._of_unit_length(rows), y[part])
        offset, spread = 0.0, 1.0
        self.feature_scaler_: dict[str, np.ndarray] = {}
        if self.feature_scaling == "standard":
            offset, spread = (values.astype(gathered.dtype) for values in gathered.spread())
            spread[spread <= 1e-12 * np.abs(offset)] = 1.0  # a constant column, up to the rounding of its mean
            self.feature_scaler_ = {"offset": offset, "spread": spread}
        self._solve(gathered.moments(offset, spread), S)

    def _of_unit_length(self, X: np.ndarray) -> np.ndarray:
        return scale("unit", {}, X) if self.feature_scaling == "unit" else X

    def _begin(self, descriptions: Any, classes: Any, dtype: Any) -> None:
        for name in ("attribute_names_in_", "calibration_", "training_fingerprints_"):  # of a fit before
            self.__dict__.pop(name, None)
        self.described_ = descriptions is not None
        if descriptions is None:
            self.classes_ = np.unique(np.asarray(classes))
            self.descriptions_ = np.eye(len(self.classes_), dtype=dtype)
        else:
            self.classes_, self.descriptions_ = read_descriptions(descriptions, dtype, "descriptions")
            names = attribute_names(descriptions)
            if names is not None:
                self.attribute_names_in_ = np.asarray(names, dtype=str)
        self._gathered = GatheredMoments(len(self.classes_), self.needs)

    def _codes_of(self, y: np.ndarray) -> np.ndarray:
        codes = pd.Index(self.classes_).get_indexer(pd.Index(y))
        if (codes < 0).any():
            raise BadInput(
                f"`y` contains class {y[codes < 0].tolist()[0]!r}, which the first partial_fit was not told of. Name "
                "every class there, also those whose rows come later."
            )
        return codes

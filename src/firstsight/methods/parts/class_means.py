"""Regression onto rows by a network that sees the class only: exactly a problem on the class means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from firstsight.methods.parts.moments import class_sums

if TYPE_CHECKING:
    from torch import Tensor


def class_means(X: np.ndarray, y: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """μ (k, d) and the share of rows n_c/n (k,) of each class; every class has rows."""
    counts = np.bincount(y, minlength=n_classes)
    means = class_sums(X, y, n_classes) / counts[:, None]
    return means.astype(X.dtype), (counts / len(y)).astype(X.dtype)


def class_mean_loss(predicted: Tensor, means: Tensor, shares: Tensor, n_classes: int) -> Tensor:
    """Σ_c (n_c/n) ‖μ_c − f_c‖², from all classes or, without bias, from a batch drawn of `n_classes`.

    It is mean_i ‖x_i − f(a_{y_i})‖² up to a constant, because f depends on the class alone.
    """
    return n_classes * (shares * (predicted - means).square().sum(1)).mean()

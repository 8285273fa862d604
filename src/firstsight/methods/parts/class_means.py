"""Regression onto rows by a network that sees the class only: exactly a problem on the class means."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from torch import Tensor


def class_means(X: np.ndarray, y: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """μ (k, d) and the share of rows n_c/n (k,) of each class; every class has rows."""
    n = len(y)
    member = csr_array((np.ones(n, dtype=X.dtype), (y, np.arange(n))), shape=(n_classes, n))
    counts = np.bincount(y, minlength=n_classes).astype(X.dtype)
    return (member @ X) / counts[:, None], counts / n


def class_mean_loss(predicted: Tensor, means: Tensor, shares: Tensor, n_classes: int) -> Tensor:
    """Σ_c (n_c/n) ‖μ_c − f_c‖², from all classes or, without bias, from a batch drawn of `n_classes`.

    It is mean_i ‖x_i − f(a_{y_i})‖² up to a constant, because f depends on the class alone.
    """
    return n_classes * (shares * (predicted - means).square().sum(1)).mean()

"""Pool samples as a mixture of Gaussians whose assignments start at the texts: the base of TransCLIP and StatA."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array
from scipy.special import softmax

from firstsight.methods._shared_space import LOGIT_SCALE, check_one_space, unit
from firstsight.methods._validation import Range
from firstsight.methods.base import Scaling, Setting, TransductiveClassifier


def nearest_others(X: np.ndarray, n: int) -> csr_array:
    """Cosines (m, m), not below zero, of each unit sample and its n nearest others; zero elsewhere."""
    m = len(X)
    n = min(n, m - 1)
    if n < 1:
        return csr_array((m, m))
    indices, values = np.empty((m, n), dtype=np.intp), np.empty((m, n))
    step = max(1, 2**22 // m)  # 32 MiB at a time
    for start in range(0, m, step):
        cosines = X[start : start + step] @ X.T
        each = np.arange(len(cosines))[:, None]
        cosines[each[:, 0], start + each[:, 0]] = -np.inf  # a sample is not its own neighbour
        nearest = np.argpartition(-cosines, n - 1, axis=1)[:, :n]
        indices[start : start + step], values[start : start + step] = nearest, cosines[each, nearest]
    return csr_array((np.maximum(values, 0).ravel(), indices.ravel(), np.arange(0, m * n + 1, n)), (m, m))


def match_texts(A: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The index (k,) of the first of the `known` unit texts that each unit row of A equals, up to rounding; else −1."""
    if not len(known):
        return np.full(len(A), -1)
    cosines = A.astype(np.float64) @ known.T
    nearest = cosines.argmax(axis=1)
    return np.where(cosines[np.arange(len(A)), nearest] >= 1 - 1e-6, nearest, -1)


def log_likelihoods(X: np.ndarray, means: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """log N(x; μ_c, diag σ²_c) (n, k) without the constant, multiplied out to two matrix products."""
    centre = means.mean(axis=0)  # so that squares lose no digits
    X, means, precisions = X - centre, means - centre, 1 / variances
    scores = X @ (means * precisions).T
    scores -= X**2 @ (precisions / 2).T
    scores -= (means**2 * precisions + np.log(variances)).sum(axis=1) / 2
    return scores


class TextMixture(TransductiveClassifier):
    """Base: a subclass writes `_gaussians`, the M-step, and sets what a class that comes later has.

    Samples and texts have unit length. Labelled samples keep their classes; the others are assigned to the candidates
    of the setting, first by their texts and then ten times by texts, Gaussians and the nearest other pool samples.
    """

    space = "visual"
    shared_space = True
    fitted_arrays: ClassVar[dict[str, str]] = {
        "seen_means_": "k d",
        "seen_variances_": "k d",
        "unseen_texts_": "u d",
        "unseen_means_": "u d",
        "unseen_variances_": "u d",
        "gap_": "d",
        "new_variances_": "d",
    }
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "text_weight": [Range(float, at_least=0)],
        "temperature": [Range(float, above=0)],
        "neighbours": [Range(int, at_least=0)],
        "iterations": [Range(int, at_least=1)],
    }

    seen_means_: np.ndarray  # (k, d)
    gap_: np.ndarray  # (d,): from the text of a class that comes later to its mean
    new_variances_: np.ndarray  # (d,): of such a class

    def __init__(
        self,
        *,
        setting: Setting = "gzsl",
        text_weight: float = 1.0,
        temperature: float = 30.0,
        neighbours: int = 3,
        iterations: int = 10,
        feature_scaling: Scaling = None,
        attribute_scaling: Scaling = None,
    ) -> None:
        self.setting = setting
        self.text_weight = text_weight
        self.temperature = temperature
        self.neighbours = neighbours
        self.iterations = iterations
        self.feature_scaling = feature_scaling
        self.attribute_scaling = attribute_scaling

    def _gaussians(
        self, counts: np.ndarray, sums: np.ndarray, squares: np.ndarray, texts: np.ndarray, start: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances (C, d) from the number of samples (C, 1), their sums and those of their squares (C, d).

        `start` (d,) is the variance of samples about the texts by which they were assigned first.
        """
        raise NotImplementedError

    def _fit(self, X, y, S, pool, U):  # type: ignore[override]
        check_one_space(self, X, S)
        labelled, pool = unit(X).astype(np.float64), unit(pool).astype(np.float64)
        texts, k = unit(np.concatenate([S, U])).astype(np.float64), len(S)
        candidates = slice(k if self.setting == "zsl" and len(U) else 0, None)
        known = csr_array((np.ones(len(y)), (y, np.arange(len(y)))), (len(texts), len(y)))
        near = nearest_others(pool, self.neighbours)
        text_scores = LOGIT_SCALE * pool @ texts[candidates].T
        shares = np.zeros((len(pool), len(texts)))
        shares[:, candidates] = softmax(text_scores, axis=1)

        def summed(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            counts = weights.sum(axis=0) + known.sum(axis=1)
            return counts[:, None], weights.T @ pool + known @ labelled, weights.T @ pool**2 + known @ labelled**2

        counts, sums, squares = summed(shares)
        start = (squares - 2 * texts * sums + counts * texts**2).sum(axis=0) / counts.sum()
        start = np.maximum(start, 0) + 1e-6 * abs(start.mean()) + 1e-12  # no feature may decide everything
        self.history_ = []
        for _ in range(self.iterations):
            means, variances = self._gaussians(counts, sums, squares, texts, start)
            logits = self.text_weight * text_scores
            logits += log_likelihoods(pool, means[candidates], variances[candidates]) / self.temperature
            logits += near @ shares[:, candidates]
            former = shares.argmax(axis=1)
            shares[:, candidates] = softmax(logits, axis=1)
            self.history_.append(float((shares.argmax(axis=1) != former).mean()) if len(pool) else 0.0)
            counts, sums, squares = summed(shares)
        means, variances = self._gaussians(counts, sums, squares, texts, start)
        self.seen_means_, self.seen_variances_ = means[:k], variances[:k]
        self.unseen_means_, self.unseen_variances_, self.unseen_texts_ = means[k:], variances[k:], texts[k:]

    def _embed_classes(self, A):
        texts = unit(A)
        return texts, match_texts(texts, self.unseen_texts_)

    def _embed_described(self, A):
        return unit(A), np.full(len(A), -1)

    def _scores(self, X, E, seen):
        texts, matched = E
        means = unit(texts + self.gap_)
        variances = np.tile(self.new_variances_, (len(texts), 1))
        for codes, of_means, of_variances in (
            (np.where(seen < 0, matched, -1), self.unseen_means_, self.unseen_variances_),
            (seen, self.seen_means_, self.seen_variances_),
        ):
            found = codes >= 0
            means[found], variances[found] = of_means[codes[found]], of_variances[codes[found]]
        rows = unit(X).astype(np.float64)
        return (
            self.text_weight * LOGIT_SCALE * rows @ texts.T + log_likelihoods(rows, means, variances) / self.temperature
        )

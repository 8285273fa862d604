"""Scores of samples for candidate classes in blocks of bounded size, and the best classes of every sample."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from firstsight._io.disk_samples import DiskSamples, blocks_of
from firstsight.errors import FirstsightWarning
from firstsight.methods._validation import numbers_in_range, require_finite

if TYPE_CHECKING:
    from firstsight.methods.base import ZeroShotClassifier

# What a block of scores and its candidates may take. For more than 32 MiB, C libraries ask the system every time, which
# costs more than the scores.
BLOCK_BYTES = 24 * 2**20
# What is known of candidates may take no more than this: of very many, so many are scored at a time.
CLASS_BYTES = 256 * 2**20
TINY = 1e-6  # features that are all smaller may be lost in rounding
CHUNK = 64  # columns that are searched together for the best ones

ScoreBlock = tuple[slice, slice, np.ndarray]  # of samples, of candidates, and the scores


class Candidates(NamedTuple):
    """Classes to choose from.

    Attributes
    ----------
    labels : array (k,)
        Their names or numbers.
    descriptions : array (k, a)
        Their descriptions, unscaled, columns in the order of the fit.
    seen_code : array (k,)
        The code of each class among those with training samples, −1 for the others.
    """

    labels: np.ndarray
    descriptions: np.ndarray
    seen_code: np.ndarray


class ScoreBlocks(NamedTuple):
    """Scores of samples for candidate classes, computed when they are iterated over.

    Attributes
    ----------
    X : array (n, d) or DiskSamples
        The validated samples.
    candidates : Candidates
        The classes.
    blocks : iterator of (slice, slice, array)
        Some samples, some candidates, and their scores; blocks of candidates come in order.
    """

    X: Any
    candidates: Candidates
    blocks: Iterator[ScoreBlock]

    def table(self) -> np.ndarray:
        """All scores (n, k) as one array."""
        scores = np.empty((len(self.X), len(self.candidates.labels)), dtype=self.X.dtype)
        for rows, columns, block in self.blocks:
            scores[rows, columns] = block
        return scores


def blocks_of_scores(method: ZeroShotClassifier, X: Any, candidates: Candidates) -> Iterator[ScoreBlock]:
    """Score validated samples, some of them and some candidates at a time."""
    labels, A, seen = candidates
    width = max(1024, CLASS_BYTES // (8 * (X.shape[1] + A.shape[1])))
    step = max(64, BLOCK_BYTES // (X.itemsize * (X.shape[1] + min(width, len(labels)))))
    for start in range(0, len(labels), width):
        columns = slice(start, min(start + width, len(labels)))
        with numbers_in_range(method, A):
            E = method._embed_classes(method._scale_descriptions(A[columns]))
        for part, rows in blocks_of(X, step):
            with numbers_in_range(method, rows, A[columns]):
                scores = method._scores(method._scale_features(rows), E, seen[columns])
                require_finite(scores.astype(X.dtype, copy=False))  # as `decision_function` returns them
            yield part, columns, scores


def warn_if_features_are_lost(method: ZeroShotClassifier, X: Any, y: np.ndarray, S: np.ndarray) -> None:
    """Warn where features are so small that a fit names one class whatever the sample: they were rounded away."""
    if isinstance(X, DiskSamples) or len(X) == 0:
        return
    chosen = np.unique(np.linspace(0, len(X) - 1, 256).astype(int))
    largest = max(X.max(), -X.min())
    if not 0 < largest < TINY or len(np.unique(y[chosen])) < 2:
        return
    with np.errstate(all="ignore"):
        scores = method._scores(X[chosen], method._embed_classes(S), np.arange(len(S)))
    if len(np.unique(scores.argmax(axis=1))) == 1:
        warnings.warn(
            f"{type(method).__name__} names every training sample the same: the features reach only {largest:.3g} "
            "and are lost in rounding. Bring them to a usual scale, for example with feature_scaling='standard'.",
            FirstsightWarning,
            stacklevel=4,
        )


class BestClasses:
    """The `k` best classes of `n` rows, best first; of equal scores, that of the earlier class counts as better.

    Attributes
    ----------
    indices : array (n, k)
        Indices of the classes among the candidates.
    scores : array (n, k)
        Their scores.
    """

    def __init__(self, n: int, k: int):
        self.indices = np.zeros((n, k), dtype=np.intp)
        self.scores = np.full((n, k), -np.inf)

    def add(self, rows: slice, columns: slice, scores: np.ndarray) -> None:
        """Add the scores of some rows for some classes; blocks of classes come in their order."""
        k = self.indices.shape[1]
        new = best_columns(scores, k)
        highest = scores[np.arange(len(new))[:, None], new]
        if columns.start == 0 and new.shape[1] == k:  # nothing to compare with, which is all there is to few classes
            self.indices[rows], self.scores[rows] = new, highest
            return
        indices = np.hstack([self.indices[rows], new + columns.start])
        values = np.hstack([self.scores[rows], highest])
        order = np.argsort(-values, axis=1, kind="stable")[:, :k]
        self.indices[rows] = np.take_along_axis(indices, order, axis=1)
        self.scores[rows] = np.take_along_axis(values, order, axis=1)


def best_columns(scores: np.ndarray, k: int) -> np.ndarray:
    """The columns of the k largest of each row (n, at most k), largest first, as a stable sort has them."""
    n, m = scores.shape
    if k == 1:
        return scores.argmax(axis=1)[:, None]
    chunks = m // CHUNK
    if chunks < 2 * k:
        return np.argsort(-scores, axis=1, kind="stable")[:, :k]
    # A sort would take longer than the scores did. k chunks have a score of at least the k-th best of their highest
    # ones, so nothing below that is among the k best; what is left is little, unless most are equal.
    highest = scores[:, : chunks * CHUNK].reshape(n, chunks, CHUNK).max(axis=2)
    least = np.partition(highest, chunks - k, axis=1)[:, chunks - k]
    rows, columns = np.divmod(np.flatnonzero(scores >= least[:, None]), m)
    order = np.lexsort([columns, -scores[rows, columns], rows])
    starts = np.searchsorted(rows, np.arange(n))
    best: np.ndarray = columns[order][starts[:, None] + np.arange(k)]
    return best

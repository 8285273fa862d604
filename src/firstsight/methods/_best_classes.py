"""The best classes of every row, from scores that come in blocks of rows and of classes."""

from __future__ import annotations

import numpy as np

_CHUNK = 64  # columns


class BestClasses:
    """The `k` best classes of `n` rows, best first; of equal scores, that of the earlier class counts as better.

    Attributes
    ----------
    places : array (n, k)
        Numbers of the classes.
    scores : array (n, k)
        Their scores.
    """

    def __init__(self, n: int, k: int):
        self.places = np.zeros((n, k), dtype=np.intp)
        self.scores = np.full((n, k), -np.inf)

    def add(self, rows: slice, columns: slice, scores: np.ndarray) -> None:
        """Take in the scores of some rows for some classes; blocks of classes come in their order."""
        k = self.places.shape[1]
        new = best_columns(scores, k)
        highest = scores[np.arange(len(new))[:, None], new]
        if columns.start == 0 and new.shape[1] == k:  # nothing to compare with, which is all there is to few classes
            self.places[rows], self.scores[rows] = new, highest
            return
        places = np.hstack([self.places[rows], new + columns.start])
        values = np.hstack([self.scores[rows], highest])
        order = np.argsort(-values, axis=1, kind="stable")[:, :k]
        self.places[rows] = np.take_along_axis(places, order, axis=1)
        self.scores[rows] = np.take_along_axis(values, order, axis=1)


def best_columns(scores: np.ndarray, k: int) -> np.ndarray:
    """The columns of the k largest of each row (n, at most k), largest first, as a stable sort has them."""
    n, m = scores.shape
    if k == 1:
        return scores.argmax(axis=1)[:, None]
    chunks = m // _CHUNK
    if chunks < 2 * k:
        return np.argsort(-scores, axis=1, kind="stable")[:, :k]
    # A sort would take longer than the scores did. k chunks have a score of at least the k-th best of their highest
    # ones, so nothing below that is among the k best; what is left is little, unless most are equal.
    highest = scores[:, : chunks * _CHUNK].reshape(n, chunks, _CHUNK).max(axis=2)
    least = np.partition(highest, chunks - k, axis=1)[:, chunks - k]
    rows, columns = np.divmod(np.flatnonzero(scores >= least[:, None]), m)
    order = np.lexsort([columns, -scores[rows, columns], rows])
    starts = np.searchsorted(rows, np.arange(n))
    best: np.ndarray = columns[order][starts[:, None] + np.arange(k)]
    return best

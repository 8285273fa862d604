"""Which samples of a pool to label: those that cover it best, chosen one by one.

With similarities k(p, q) = exp(−‖p − q‖²/s) of points of the pool, s a share of their mean squared distance, each step
chooses the sample i that adds most to::

    Σ_j max(k(p_j, p_i) over the chosen i, w_c exp(−2‖p_j − m_c‖²/s) over the known classes c)

Known classes have means m_c, known with certainty w_c: a sample is half as far, squared, from the mean of its class as
from another sample of it. A copy of a chosen sample adds nothing, an outlier hardly more than itself.
"""

from __future__ import annotations

import numpy as np

WIDTH = 0.15  # s, in units of the mean squared distance of two samples; chosen on training classes of four data sets
LARGEST_POOL = 4096  # samples whose similarities are held; of a larger pool, so many are looked at
LEAST_GAIN = 1e-5  # in samples covered: what rounding makes of a copy


def most_covering(points: np.ndarray, n: int, known: np.ndarray, certainty: np.ndarray) -> np.ndarray:
    """Return the indices of up to `n` of the points (m, e), the best first; fewer if all others are copies.

    `known` (k, e) are means of classes, `certainty` (k,) says how well they are known, from 0 to 1.
    """
    looked_at = np.unique(np.linspace(0, len(points) - 1, LARGEST_POOL).astype(np.intp))
    P = points[looked_at].astype(np.float64)
    P, centre = P - P.mean(axis=0), P.mean(axis=0)
    scale = WIDTH * 2 * float((P**2).sum(axis=1).mean()) or 1.0
    near = _similarities(P, P, scale)
    covered = np.zeros(len(P), dtype=np.float32)
    if len(known):
        covered = (_similarities(P, known - centre, scale / 2) * certainty).max(axis=1).astype(np.float32)
    # What a sample adds only falls as others are chosen, so only the best has to be computed again.
    gains = np.array([np.maximum(row - covered, 0).sum() for row in near])
    chosen: list[int] = []
    while len(chosen) < min(n, len(P)):
        best = int(gains.argmax())
        gains[best] = np.maximum(near[best] - covered, 0).sum()
        if gains[best] < gains.max():
            continue
        if gains[best] < LEAST_GAIN:
            break
        chosen.append(best)
        covered = np.maximum(covered, near[best])
        gains[best] = -1.0
    return looked_at[chosen]


def _similarities(A: np.ndarray, B: np.ndarray, scale: float) -> np.ndarray:
    squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2 * A @ B.T
    return np.exp(-np.maximum(squares, 0) / scale).astype(np.float32)

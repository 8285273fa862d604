"""Embedding spaces: compactness, separability, hubness, and t-SNE layout."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

# What the paper claims of embedding spaces, as numbers: compact classes, separate classes, no hubs.
#
# Every method places a test row by the scores it gives the candidate classes. A row's scores less their mean,
# z(x) = F(x, ·) − mean_c F(x, c), are a linear image of the method's own space wherever the score is a distance or an
# inner product there: the part of the space that decisions can see. That makes methods comparable whose spaces are not.
#
# With m_c the mean of z over the rows of class c, d(x) = ‖z(x) − m_{y(x)}‖, and every class counting the same:
#
# compactness   mean d(x) / mean distance between two class means. Lower is more compact; free of scale.
# separability  mean of (b − d) / max(b, d), b the distance to the nearest other class's mean: simplified silhouette,
#               from −1 (every row lies at another class) to 1 (classes are points far apart).
# hubness       skewness of N_k over the candidate classes, N_k(c) = how often c is among the k best of a row, k = 10 or
#               a quarter of the classes if that is less (Radovanović et al. 2010). 0: no class is a neighbour of all.


def space_facts(scores: ArrayLike, truth: ArrayLike) -> dict[str, float | None]:
    """The three numbers from scores (n, C) of test rows and the columns (n,) of their classes."""
    scores, truth = np.asarray(scores, dtype=np.float64), np.asarray(truth)
    centred = scores - scores.mean(axis=1, keepdims=True)
    return {**compactness_and_separability(centred, truth), "hubness": hubness(scores, truth)}


def compactness_and_separability(points: ArrayLike, labels: ArrayLike) -> dict[str, float | None]:
    """Of points (n, e) in any space, by class; None where there is nothing to compare."""
    points = np.asarray(points, dtype=np.float64)
    classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    none: dict[str, float | None] = {"compactness": None, "separability": None}
    if len(classes) < 2 or not np.isfinite(points).all():
        return none
    means = np.zeros((len(classes), points.shape[1]))
    np.add.at(means, codes, points)
    means /= counts[:, None]
    to_means = _distances(points, means)  # (n, classes)
    between = _distances(means, means)
    spread = between.sum() / (len(classes) * (len(classes) - 1))
    rows = np.arange(len(points))
    within = to_means[rows, codes]
    to_means[rows, codes] = np.inf
    nearest_other = to_means.min(axis=1)
    larger = np.maximum(within, nearest_other)
    if spread == 0 or not larger.any():  # everything in one point: a collapsed space
        return none
    weights = 1 / (counts[codes] * len(classes))
    silhouette = np.divide(nearest_other - within, larger, out=np.zeros_like(within), where=larger > 0)
    return {
        "compactness": round(float((weights * within).sum() / spread), 4),
        "separability": round(float((weights * silhouette).sum()), 4),
    }


def hubness(scores: ArrayLike, truth: ArrayLike, k: int | None = None) -> float | None:
    """Skewness over candidate classes of how often each is among the k best; None if all are equally often."""
    scores = np.asarray(scores)
    n_classes = scores.shape[1]
    k = max(1, min(10, n_classes // 4)) if k is None else k
    _, codes, counts = np.unique(truth, return_inverse=True, return_counts=True)
    best = np.argpartition(-scores, min(k, n_classes - 1), axis=1)[:, :k]
    # Rows of a large class would make its neighbours look like hubs: every class counts the same.
    weights = np.repeat(1 / counts[codes], k)
    often = np.bincount(best.ravel(), weights=weights, minlength=n_classes)
    deviation = often - often.mean()
    variance = (deviation**2).mean()
    if variance < 1e-12 * max(often.mean(), 1e-300) ** 2:
        return None
    return round(float((deviation**3).mean() / variance**1.5), 4)


def _distances(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(X, Y))


# A space in the plane: samples and class embeddings laid out by t-SNE, so that neighbours stay neighbours.


def lay_out(
    samples: np.ndarray, classes: np.ndarray | None = None, seed: int = 0, steps: int = 1000
) -> tuple[np.ndarray, np.ndarray]:
    """Places (n, 2) of samples (n, e) and places (k, 2) of classes (k, e), laid out together."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    everything = samples if classes is None else np.concatenate([samples, classes])
    if everything.shape[1] > 50:  # the customary first step: distances hardly change, the work does
        everything = PCA(n_components=min(50, len(everything)), random_state=seed).fit_transform(everything)
    perplexity = min(30.0, (len(everything) - 1) / 3)
    plane = TSNE(perplexity=perplexity, init="pca", random_state=seed, max_iter=steps)
    flat = plane.fit_transform(everything).astype(np.float32)
    return flat[: len(samples)], flat[len(samples) :]

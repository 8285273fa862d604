"""A space in the plane: samples and class embeddings laid out by t-SNE, so that neighbours stay neighbours."""

from __future__ import annotations

import numpy as np


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

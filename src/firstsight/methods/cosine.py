"""Cosine: the answer of a vision-language model alone, without learning from seen classes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from firstsight.methods._incremental import IncrementalClassifier
from firstsight.methods._shared_space import (
    check_one_space,
    export_nearness_to_classes,
    nearness_to_classes,
    unit,
)
from firstsight.methods.base import Scaling

# Of samples that are added: what their nearness counts beside the cosine, how fast it fades with the distance (as in
# Tip-Adapter's paper), and how many samples say half of what there is to say of a class.
WEIGHT, BETA, HALF = 0.05, 5.5, 1.5


class Cosine(IncrementalClassifier):
    """Learns nothing: a sample belongs to the class whose description points the same way.

    Models such as CLIP and SigLIP map images and words into one space, where an image lies near the words that
    describe it. With such features and descriptions there is an answer before any training; this is
    that answer, so that it can stand beside what learning from seen classes adds to it.

    Objective: none. `fit` looks at no label; it only makes sure that samples and descriptions have the same length. So
    X may have no rows: names of classes are enough for a model.

    Score: x·a_c / (‖x‖ ‖a_c‖), 0 for a sample or a description of zeros. A class c that n samples were added of after
    the fit (`add_samples`) is also near where these are. With f_i samples of unit length and b the mean of
    exp(−β(1 − f_i·f_j)) over pairs of different classes, 0 if there are none, its score gains::

        w n/(n + h) · (mean_i exp(−β(1 − x·f_i)) − b)          w = 0.05, β = 5.5, h = 1.5

    Parameters
    ----------
    feature_scaling, attribute_scaling : {None, "unit", "standard"}
        Scaling of features and of descriptions, fitted on the training samples and seen classes. "standard" for both
        takes the gap between images and words out, with the mean of each.

    Attributes
    ----------
    classes_, descriptions_ : array (C,) and array (C, a)
        Every class that can be named, and its description.
    n_fitted_classes_ : int
        How many classes the fit had samples of.
    cache_ : dict
        Empty, or added samples (m, d), those of one class after those of another, and codes (j,), counts (j,) and
        gain (j,) = w n/(n + h) of these classes; background (1,), b.

    Notes
    -----
    Nearness to added samples is that of Tip-Adapter, as a mean instead of a sum: whatever the number of samples, it
    gains no more than w, so that a class does not win because it has many. w and h were chosen on the seen classes of
    IMAGENET_CLIP, to gain on classes with samples without a loss on the others.

    References
    ----------
    A. Radford et al., Learning Transferable Visual Models From Natural Language Supervision, ICML 2021.
    https://arxiv.org/abs/2103.00020
    R. Zhang et al., Tip-Adapter: Training-free Adaption of CLIP for Few-shot Classification, ECCV 2022.
    https://arxiv.org/abs/2207.09519

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import Cosine
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0.0]])
    >>> model = Cosine().fit(descriptions[:2], [0, 1], descriptions)
    >>> model.predict([[0.9, 0.8, 0.1]])
    array([3])
    """

    space = "semantic"
    shared_space = True
    needs_samples = False
    reference = "Radford et al., Learning Transferable Visual Models From Natural Language Supervision, ICML 2021"

    fitted_arrays: ClassVar[dict[str, str]] = {
        "cache_/samples?": "m d",
        "cache_/counts?": "j",
        "cache_/gain?": "j",
        "cache_/background?": "1",
    }

    def __init__(self, *, feature_scaling: Scaling = None, attribute_scaling: Scaling = None):
        self.feature_scaling = feature_scaling
        self.attribute_scaling = attribute_scaling

    def _fit(self, X, y, S):
        check_one_space(self, X, S)
        self.n_fitted_classes_ = len(S)
        self.cache_ = {}

    def _embed_classes(self, A):
        return unit(A)  # (k, d)

    def _scores(self, X, E, seen):
        rows = unit(X)
        scores = np.clip(rows @ E.T, -1, 1)  # (n, k)
        gained = self._position[seen] >= 0
        if gained.any():
            near = nearness_to_classes(rows, self.cache_["samples"], self.cache_["counts"].astype(int), BETA)
            near = (near / self.cache_["counts"] - self.cache_["background"]) * self.cache_["gain"]
            scores[:, gained] += near[:, self._position[seen[gained]]]
        return scores

    def _certainty(self, E, seen):
        # Added samples raise scores by so little that their classes need no constant.
        return ((seen >= 0) & (seen < self.n_fitted_classes_)).astype(np.float64)

    @property
    def _seen_at_fit(self):
        return self.n_fitted_classes_

    @property
    def _position(self) -> np.ndarray:
        """By training code, where the cache has a class; −1 if it does not, also for the code −1, the last entry."""
        codes = self.cache_.get("codes", np.empty(0, dtype=int))
        position = np.full(max(self.seen_code_.max(), codes.max(initial=-1), self.n_fitted_classes_) + 2, -1)
        position[codes] = np.arange(len(codes))
        return position

    def _coverage(self, X):
        if not self.cache_:
            return super()._coverage(X)
        counts = self.cache_["counts"].astype(np.intp)
        sums = np.add.reduceat(self.cache_["samples"], np.cumsum(counts) - counts)
        return unit(X), sums / counts[:, None], counts / (counts + 1)

    def _added_rows(self, X):
        return unit(X)

    def _condition(self, rows, codes, A):
        self.cache_ = {}
        if not len(codes):
            return
        order = np.argsort(codes, kind="stable")
        samples = rows[order]
        known, counts = np.unique(codes, return_counts=True)
        near = nearness_to_classes(samples, samples, counts, BETA)  # (m, j)
        within = near[np.arange(len(samples)), np.repeat(np.arange(len(counts)), counts)].sum()
        pairs = len(samples) ** 2 - (counts**2).sum()
        background = (near.sum() - within) / pairs if pairs else 0.0
        dtype = samples.dtype
        self.cache_ = {
            "samples": samples,
            "codes": known,
            "counts": counts.astype(dtype),
            "gain": (WEIGHT * counts / (counts + HALF)).astype(dtype),
            "background": np.array([background], dtype=dtype),
        }

    def _export_scores(self, graph, X, A, seen):
        rows = graph.unit(X)
        scores = graph.products(rows, graph.unit(A))
        if not self.cache_:
            return scores
        counts, position = self.cache_["counts"], self._position
        near = export_nearness_to_classes(graph, rows, self.cache_["samples"], counts.astype(int), BETA)
        near = graph("Sub", graph("Div", near, graph.constant(counts)), graph.constant(self.cache_["background"]))
        near = graph("Mul", near, graph.constant(self.cache_["gain"]))
        # By code; classes without added samples have the column of zeros, the last one.
        zeros = graph.constant(np.eye(len(counts), len(counts) + 1))
        columns = graph("Gather", graph.constant(np.where(position < 0, len(counts), position), np.int64), seen, axis=0)
        return graph("Add", scores, graph("Gather", graph("MatMul", near, zeros), columns, axis=1))

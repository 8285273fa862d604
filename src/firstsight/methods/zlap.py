"""ZLaP: labels spread from texts over a graph of nearest neighbours of labelled and unlabelled samples."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.sparse import block_array, csr_array, diags_array
from scipy.special import logsumexp

from firstsight.methods._shared_space import LOGIT_SCALE, check_one_space, unit
from firstsight.methods._text_mixture import match_texts, nearest_others
from firstsight.methods._validation import Range
from firstsight.methods.base import Scaling, Setting, TransductiveClassifier


class ZLaP(TransductiveClassifier):
    """Learns labels of pool samples that spread from texts and labelled samples to their neighbours, step by step.

    For features and descriptions of one space (CLIP, SigLIP). Nodes of the graph are labelled samples, pool samples and
    texts. A sample is linked to its nearest other samples, a pool sample also to its nearest texts; samples and texts
    are searched apart, because a sample is nearer to any sample than to any text.

    Objective, with Z (nodes, C), Y the one-hot labels of texts and, times `label_weight`, of labelled samples, zero for
    pool samples, W the weights of links and D = 1 + their sums at each node::

        α Σ_ij w_ij ‖z_i/√D_i − z_j/√D_j‖² / 2  +  Σ_i (1 − α Σ_j w_ij/D_i) ‖z_i‖²  −  2 (1 − α) Σ_i z_iᵀy_i

    which is solved by Z = (1 − α)(I − α D^−½ W D^−½)⁻¹ Y, in closed form but for conjugate gradients. The link of two
    samples weighs max(0, x_i·x_j)^power, that of a pool sample and a text softmax(100 x·t), over the candidates of the
    setting.

    Score of any sample, as if it were linked to the graph without changing it::

        α Σ_j w_xj z_jc / √(D_x D_j)

    over its nearest samples j, labelled or of the pool (a pool sample finds itself), and the text of c.

    Parameters
    ----------
    setting : {"gzsl", "zsl"}
        What the pool may hold. "gzsl": samples of any class; "zsl": samples of unseen classes only, which are linked to
        their texts alone.
    alpha : float
        α, from 0 (labels stay where they are) to less than 1 (they spread far).
    neighbours : int
        How many samples, and how many texts, a sample is linked to.
    label_weight : float
        How much the label of a sample counts beside that of a text; 0, as in the paper: labelled samples have none.
    power : float
        How much more a near sample counts than a far one.
    feature_scaling, attribute_scaling : {None, "unit", "standard"}
        Scaling of features and of descriptions, fitted on the training samples and seen classes. Whatever it is, both
        are brought to unit length afterwards: that is part of the formula.

    Attributes
    ----------
    classes_, descriptions_ : array (C,) and array (C, a)
        Every class that can be named, and its description.
    samples_ : array (m, d)
        Labelled and pool samples.
    seen_labels_, unseen_labels_ : array (m, k) and array (m, u)
        Z/√D of the samples.
    seen_text_labels_, unseen_text_labels_ : array (k,) and array (u,)
        Z/√D of the texts, each for its own class.
    texts_, unseen_texts_ : array (c, d) and array (u, d)
        Texts that pool samples may be linked to, and those of unseen classes.

    Notes
    -----
    Differences from the paper: links to texts weigh what CLIP's softmax gives them, where the paper raises cosines to a
    power; labelled samples are nodes, too; degrees are one larger, so that a text with few links has no boundless say.
    Samples are part of the model. The text of a class that comes after the fit is not in the graph; its score is that
    of its own link, with the mean label of the other texts: to let its label spread, fit again.

    Labels of samples favour seen classes much: take a calibrated constant off them.

    References
    ----------
    V. Stojnić, Y. Kalantidis, G. Tolias, Label Propagation for Zero-shot Classification with Vision-Language Models,
    CVPR 2024. https://arxiv.org/abs/2404.04072

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import ZLaP
    >>> rng = np.random.default_rng(0)
    >>> texts = np.eye(5)
    >>> y = np.repeat([0, 1, 2], 10)                        # classes 3 and 4 have descriptions, but no samples
    >>> X = texts[y] + 0.1 * rng.normal(size=(30, 5))
    >>> pool = texts[np.repeat(np.arange(5), 10)] + 0.1 * rng.normal(size=(50, 5))
    >>> model = ZLaP().fit(X, y, texts, X_unlabeled=pool)
    >>> model.predict([[0.1, 0.0, 0.1, 0.9, 0.0]])
    array([3])
    """

    space = "visual"
    shared_space = True
    transductive = True
    reference = "Stojnić et al., Label Propagation for Zero-shot Classification with Vision-Language Models, CVPR 2024"
    grid: ClassVar[dict[str, list[Any]]] = {"alpha": [0.3, 0.6, 0.9], "label_weight": [0.0, 0.1]}

    fitted_arrays: ClassVar[dict[str, str]] = {
        "samples_": "m d",
        "seen_labels_": "m k",
        "unseen_labels_": "m u",
        "seen_text_labels_": "k",
        "unseen_text_labels_": "u",
        "texts_": "c d",
        "unseen_texts_": "u d",
    }
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "alpha": [Range(float, above=0, below=1)],
        "neighbours": [Range(int, at_least=1)],
        "label_weight": [Range(float, at_least=0)],
        "power": [Range(float, above=0)],
    }

    def __init__(
        self,
        *,
        setting: Setting = "gzsl",
        alpha: float = 0.6,
        neighbours: int = 5,
        label_weight: float = 0.1,
        power: float = 1.0,
        feature_scaling: Scaling = None,
        attribute_scaling: Scaling = None,
    ) -> None:
        self.setting = setting
        self.alpha = alpha
        self.neighbours = neighbours
        self.label_weight = label_weight
        self.power = power
        self.feature_scaling = feature_scaling
        self.attribute_scaling = attribute_scaling

    def _fit(self, X, y, S, pool, U):  # type: ignore[override]
        check_one_space(self, X, S)
        n, k = len(X), len(S)
        texts = unit(np.concatenate([S, U])).astype(np.float64)
        first = k if self.setting == "zsl" and len(U) else 0
        self.samples_ = unit(np.concatenate([X, pool])).astype(np.float64)
        self.texts_, self.unseen_texts_ = texts[first:], texts[k:]
        m, C = len(self.samples_), len(texts)

        near = nearest_others(self.samples_, self.neighbours) ** self.power
        near = near.maximum(near.T)
        to_texts, indices = self._links(self.samples_[n:], self.texts_)
        shape = (m, C)
        rows = np.repeat(np.arange(n, m), indices.shape[1])
        linked = csr_array((to_texts.ravel(), (rows, first + indices.ravel())), shape)
        W = csr_array(block_array([[near, linked], [linked.T, None]]))
        degrees = 1 + W.sum(axis=1)
        halves = diags_array(degrees**-0.5)
        Y = np.zeros((m + C, C))
        Y[np.arange(n), y] = self.label_weight
        Y[m + np.arange(C), np.arange(C)] = 1.0
        Z = halves @ spread(csr_array(halves @ W @ halves), Y, self.alpha)
        self.seen_labels_, self.unseen_labels_ = Z[:m, :k], Z[:m, k:]
        of_texts = Z[m:].diagonal()
        self.seen_text_labels_, self.unseen_text_labels_ = of_texts[:k], of_texts[k:]

    def _links(self, rows: np.ndarray, texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights and indices (n, at most `neighbours`) of the nearest texts among the candidates."""
        logits = LOGIT_SCALE * rows @ texts.T
        nearest = np.argsort(-logits, axis=1, kind="stable")[:, : self.neighbours]
        logits -= logsumexp(logits, axis=1, keepdims=True)
        return np.exp(np.take_along_axis(logits, nearest, axis=1)), nearest

    def _embed_classes(self, A):
        texts = unit(A).astype(np.float64)
        return texts, match_texts(texts, self.unseen_texts_)

    def _embed_described(self, A):
        return unit(A).astype(np.float64), np.full(len(A), -1)

    def _scores(self, X, E, seen):
        texts, matched = E
        labels = np.zeros((len(self.samples_), len(texts)))
        of_texts = np.full(len(texts), np.concatenate([self.seen_text_labels_, self.unseen_text_labels_]).mean())
        for codes, of_samples, values in (
            (np.where(seen < 0, matched, -1), self.unseen_labels_, self.unseen_text_labels_),
            (seen, self.seen_labels_, self.seen_text_labels_),
        ):
            found = codes >= 0
            labels[:, found], of_texts[found] = of_samples[:, codes[found]], values[codes[found]]
        rows, scores = unit(X).astype(np.float64), np.empty((len(X), len(texts)))
        k, step = min(self.neighbours, len(self.samples_)), max(1, 2**21 // len(self.samples_))
        for start in range(0, len(rows), step):  # 16 MiB at a time
            part = rows[start : start + step]
            cosines = part @ self.samples_.T
            nearest = np.argpartition(-cosines, k - 1, axis=1)[:, :k]
            weights = np.maximum(np.take_along_axis(cosines, nearest, axis=1), 0) ** self.power
            to_samples = csr_array(
                (weights.ravel(), nearest.ravel(), np.arange(0, len(part) * k + 1, k)), cosines.shape
            )
            total = logsumexp(LOGIT_SCALE * part @ self.texts_.T, axis=1, keepdims=True)
            # A candidate outside the setting may be far nearer than those within: no link weighs more than 1.
            to_texts = np.exp(np.minimum(LOGIT_SCALE * part @ texts.T - total, 0))
            degrees = 1 + weights.sum(axis=1) + self._links(part, self.texts_)[0].sum(axis=1)
            found = to_samples @ labels + to_texts * of_texts
            scores[start : start + step] = self.alpha * found / np.sqrt(degrees)[:, None]
        return scores


def spread(W: csr_array, Y: np.ndarray, alpha: float) -> np.ndarray:
    """(1 − α)(I − αW)⁻¹Y for symmetric W with eigenvalues from −1 to 1, by conjugate gradients, each column its own."""
    Z = np.zeros_like(Y)
    residual = (1 - alpha) * Y
    direction, squares = residual.copy(), (residual**2).sum(axis=0)
    least = 1e-16 * squares
    while (squares > least).any():
        product = direction - alpha * (W @ direction)
        length = squares / np.maximum((direction * product).sum(axis=0), 1e-300)
        Z += length * direction
        residual -= length * product
        former, squares = squares, (residual**2).sum(axis=0)
        direction *= squares / np.maximum(former, 1e-300)
        direction += residual
    return Z

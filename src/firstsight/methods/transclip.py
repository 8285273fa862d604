"""TransCLIP: unlabelled samples as a mixture of Gaussians, held near what the texts say of each sample."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from firstsight.methods._shared_space import unit
from firstsight.methods._text_mixture import TextMixture


class TransCLIP(TextMixture):
    """Learns one Gaussian per class from labelled and unlabelled samples that texts have assigned first.

    For features and descriptions of one space (CLIP, SigLIP). Every class is a Gaussian, all with the same diagonal
    covariance. A pool sample is assigned by three voices: its text scores, the Gaussians, and the assignments of the
    pool samples nearest to it.

    Objective, with samples x and texts t of unit length, y_i = softmax(100 x_i·t) the text's assignment of a pool
    sample and z_i its own; minimised block by block, one step of each per iteration, from z = y::

        −Σ_i z_iᵀ log N(x_i; μ, σ²)/τ − ½ Σ_ij w_ij z_iᵀz_j + Σ_i z_iᵀ(log z_i − λ log y_i)

    so that z_i ∝ y_i^λ exp(log N(x_i; μ, σ²)/τ + Σ_j w_ij z_j), with w_ij the cosine of x_i and one of its nearest
    other pool samples; μ_c is the mean weighted by z, brought to unit length, and σ² the variance about these means. A
    labelled sample counts as a pool sample whose z is known.

    Score, also for samples that are not in the pool: 100 λ x·t_c + log N(x; μ_c, σ²)/τ.

    Parameters
    ----------
    setting : {"gzsl", "zsl"}
        What the pool may hold. "gzsl": samples of any class; "zsl": samples of unseen classes only.
    text_weight : float
        λ.
    temperature : float
        τ. The formula of the paper has 1; a Gaussian of hundreds of features then outvotes any text.
    neighbours : int
        How many nearest other pool samples have a say; 0: none.
    iterations : int
        How many times assignments and Gaussians are updated.
    feature_scaling, attribute_scaling : {None, "unit", "standard"}
        Scaling of features and of descriptions, fitted on the training samples and seen classes. Whatever it is, both
        are brought to unit length afterwards: that is part of the formula.

    Attributes
    ----------
    classes_, descriptions_ : array (C,) and array (C, a)
        Every class that can be named, and its description.
    seen_means_, unseen_means_ : array (k, d) and array (u, d)
        μ_c; ``seen_variances_`` and ``unseen_variances_`` have σ² in every row.
    gap_, new_variances_ : array (d,)
        The mean of μ_c − t_c over classes, and σ².
    history_ : list of float
        The share of pool samples whose class changed, by iteration.

    Notes
    -----
    Differences from the paper: one update of z per update of the Gaussians, a temperature, and labelled samples that
    count as one sample each. The paper's answer for a pool sample is its z; here it is the score, which leaves out the
    neighbours, so that it answers for new samples as well. A class that comes after the fit has as its mean its text,
    shifted by the mean gap between texts and means.

    Every class takes a share of the pool: where few classes are present, the others take from them.

    References
    ----------
    M. Zanella, B. Gérin, I. Ben Ayed, Boosting Vision-Language Models with Transduction, NeurIPS 2024.
    https://arxiv.org/abs/2406.01837

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import TransCLIP
    >>> rng = np.random.default_rng(0)
    >>> texts = np.eye(5)
    >>> y = np.repeat([0, 1, 2], 10)                        # classes 3 and 4 have descriptions, but no samples
    >>> X = texts[y] + 0.1 * rng.normal(size=(30, 5))
    >>> pool = texts[np.repeat(np.arange(5), 10)] + 0.1 * rng.normal(size=(50, 5))
    >>> model = TransCLIP().fit(X, y, texts, X_unlabeled=pool)
    >>> model.predict([[0.1, 0.0, 0.1, 0.9, 0.0]])
    array([3])
    """

    transductive = True
    reference = "Zanella et al., Boosting Vision-Language Models with Transduction, NeurIPS 2024"
    grid: ClassVar[dict[str, list[Any]]] = {"text_weight": [0.5, 1.0], "temperature": [1.0, 10.0, 30.0, 100.0]}

    def _gaussians(self, counts, sums, squares, texts, start):
        means = unit(sums + 1e-9 * texts)  # a class that no sample is assigned to stays at its text
        variances = (squares - 2 * means * sums + counts * means**2).sum(axis=0) / counts.sum()
        self.gap_ = (means - texts).mean(axis=0)
        self.new_variances_ = variances + 1e-6 * start.mean()
        return means, np.broadcast_to(self.new_variances_, means.shape)

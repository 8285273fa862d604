"""StatA: unlabelled samples as a mixture of Gaussians, each anchored at the text of its class."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from firstsight.methods._shared_space import unit
from firstsight.methods._text_mixture import TextMixture
from firstsight.methods._validation import Range
from firstsight.methods.base import Scaling, Setting


class StatA(TextMixture):
    """Learns a Gaussian per class that leaves the text of its class only as far as assigned samples pull it.

    For features and descriptions of one space (CLIP, SigLIP). Assignments of pool samples and Gaussians are updated in
    turn, as in `TransCLIP`; a class with few samples, labelled or assigned, stays at its text, so that classes that
    are absent from the pool do no harm.

    Objective, with samples x and texts t of unit length, n_c the number of samples of class c (labelled, and shares z
    of pool samples), m_c their mean and v_c their variance about μ_c::

        β_c = n_c / (anchor + n_c)      μ_c = unit(β_c m_c + (1 − β_c) t_c)
        σ²_c = β_c v_c + (1 − β_c) (σ₀² + (t_c − μ_c)²)

    in turn with z_i ∝ y_i^λ exp(log N(x_i; μ, σ²)/τ + Σ_j w_ij z_j), where y_i = softmax(100 x_i·t) is the assignment
    by texts, at which z starts, σ₀² the variance of samples about the texts by that assignment, and w_ij the cosine of
    x_i and one of its nearest other pool samples.

    Score, also for samples that are not in the pool: 100 λ x·t_c + log N(x; μ_c, σ²_c)/τ.

    Parameters
    ----------
    setting : {"gzsl", "zsl"}
        What the pool may hold. "gzsl": samples of any class; "zsl": samples of unseen classes only.
    anchor : float
        As how many samples a text counts.
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
        μ_c.
    seen_variances_, unseen_variances_ : array (k, d) and array (u, d)
        σ²_c.
    new_variances_ : array (d,)
        σ₀².
    history_ : list of float
        The share of pool samples whose class changed, by iteration.

    Notes
    -----
    Differences from the paper: a temperature, and labelled samples that count as one sample each. The paper's answer
    for a pool sample is its z; here it is the score, which leaves out the neighbours, so that it answers for new
    samples as well. A class that comes after the fit is at its anchor: its mean is its text, its variance σ₀².

    References
    ----------
    M. Zanella, C. Fuchs, C. De Vleeschouwer, I. Ben Ayed, Realistic Test-Time Adaptation of Vision-Language Models,
    CVPR 2025. https://arxiv.org/abs/2501.03729

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import StatA
    >>> rng = np.random.default_rng(0)
    >>> texts = np.eye(5)
    >>> y = np.repeat([0, 1, 2], 10)                        # classes 3 and 4 have descriptions, but no samples
    >>> X = texts[y] + 0.1 * rng.normal(size=(30, 5))
    >>> pool = texts[np.repeat(np.arange(4), 10)] + 0.1 * rng.normal(size=(40, 5))  # nothing of class 4
    >>> model = StatA().fit(X, y, texts, X_unlabeled=pool)
    >>> model.predict([[0.1, 0.0, 0.1, 0.9, 0.0]])
    array([3])
    """

    transductive = True
    reference = "Zanella et al., Realistic Test-Time Adaptation of Vision-Language Models, CVPR 2025"
    grid: ClassVar[dict[str, list[Any]]] = {"anchor": [1.0, 10.0], "temperature": [1.0, 10.0, 30.0, 100.0]}

    parameter_constraints: ClassVar[dict[str, list[Any]]] = {"anchor": [Range(float, above=0)]}

    def __init__(
        self,
        *,
        setting: Setting = "gzsl",
        anchor: float = 1.0,
        text_weight: float = 1.0,
        temperature: float = 30.0,
        neighbours: int = 3,
        iterations: int = 10,
        feature_scaling: Scaling = None,
        attribute_scaling: Scaling = None,
    ) -> None:
        super().__init__(
            setting=setting,
            text_weight=text_weight,
            temperature=temperature,
            neighbours=neighbours,
            iterations=iterations,
            feature_scaling=feature_scaling,
            attribute_scaling=attribute_scaling,
        )
        self.anchor = anchor

    def _gaussians(self, counts, sums, squares, texts, start):
        beta = counts / (self.anchor + counts)
        n = np.maximum(counts, 1e-12)
        means = unit(beta * sums / n + (1 - beta) * texts)
        about = np.maximum(squares / n - 2 * means * sums / n + means**2, 0)
        self.gap_, self.new_variances_ = np.zeros(texts.shape[1]), start
        return means, beta * about + (1 - beta) * (start + (texts - means) ** 2)

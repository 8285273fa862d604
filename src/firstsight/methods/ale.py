"""ALE: attribute label embedding, a bilinear score trained with a rank-weighted hinge."""

from __future__ import annotations

from typing import Any, ClassVar

from firstsight.devices import Precision
from firstsight.methods._ranking_losses import BilinearRanking, ranked_hinge
from firstsight.methods.base import RandomState, Scaling


class ALE(BilinearRanking):
    """Learns a bilinear score of features and descriptions that puts the right class at the top of the ranking.

    Every class is embedded as its attributes, every image as its features, and W says how well they go together. The
    loss is an upper bound on the rank of the right class that counts the first places most (WARP): a sample with many
    violating classes spreads little more force over all of them than a sample with a few. A new class is scored from
    its attributes.

    Objective, averaged over samples, with F(x, c) = xᵀ W a_c over the seen classes::

        (ℓ_r / r) Σ_{c≠y} [Δ + F(x, c) − F(x, y)]₊ ,   ℓ_r = Σ_{i≤r} 1/i ,   r = number of positive terms

    solved by plain stochastic gradient descent on batches of samples, from W = 0, with ℓ_r / r held fixed in the
    gradient; stopping after few epochs is the only regularisation.

    Score: F(x, c).

    Parameters
    ----------
    margin : float
        Δ. W starts at zero, so only learning_rate / margin has an effect on predictions.
    learning_rate : float
        For the mean gradient of a batch (the paper's rate per sample, times the batch size), in units of
        1 / (mean ‖x‖² · mean ‖a‖²): a step moves scores alike, however long samples and descriptions are.
    epochs, batch_size : int
        Passes over the samples, and samples per step.
    feature_scaling, attribute_scaling : {None, "unit", "standard"}
        Scaling of features and of descriptions, fitted on the training samples and seen classes.
    device : str
        Where to compute: "cpu", "cuda", "mps", …, or "auto", which is a GPU if there is one (docs/scale.md).
    precision : {"float32", "bfloat16"}
        Of the matrix products of a fit; weights and sums are float32.
    verbose : bool
        Show a progress bar when a terminal is there.
    random_state : int, RandomState or None
        Everything random follows from it.

    Attributes
    ----------
    classes_, descriptions_ : array (C,) and array (C, a)
        Every class that can be named, and its description.
    weights_ : array (d, a)
        W.
    history_ : list of float
        The mean loss of every epoch.

    Notes
    -----
    Differences from the paper: it estimates r by drawing wrong classes until one violates the margin, and steps on that
    one, sample by sample; here r is counted exactly and a batch of samples steps on the whole sum, which costs one
    matrix product. W starts at zero instead of at random.

    References
    ----------
    Z. Akata et al., Label-Embedding for Image Classification, TPAMI 2016.
    https://arxiv.org/abs/1503.08677

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import ALE
    >>> rng = np.random.default_rng(0)
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1.0]])
    >>> y = np.repeat([0, 1, 2, 3, 4], 40)                  # class 5 has a description, but no samples
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(200, 3))
    >>> model = ALE(learning_rate=1.0, random_state=0).fit(X, y, descriptions)
    >>> model.predict([[1.0, 0.1, 0.9]], classes=[1, 5])
    array([5])
    """

    space = "latent"
    reference = "Akata et al., Label-Embedding for Image Classification, TPAMI 2016"
    grid: ClassVar[dict[str, list[Any]]] = {"learning_rate": [3.0, 10.0, 30.0], "epochs": [16, 32]}
    _loss = staticmethod(ranked_hinge)

    def __init__(
        self,
        *,
        margin: float = 1.0,
        learning_rate: float = 10.0,
        epochs: int = 16,
        batch_size: int = 64,
        feature_scaling: Scaling = "unit",
        attribute_scaling: Scaling = "unit",
        device: str = "cpu",
        precision: Precision = "float32",
        verbose: bool = False,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(
            margin,
            learning_rate,
            epochs,
            batch_size,
            feature_scaling,
            attribute_scaling,
            device,
            precision,
            verbose,
            random_state,
        )

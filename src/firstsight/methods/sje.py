"""SJE: structured joint embedding, a bilinear score trained against the strongest wrong class."""

from __future__ import annotations

from typing import Any, ClassVar

from firstsight.devices import Precision
from firstsight.methods._ranking_losses import BilinearRanking, hardest_hinge
from firstsight.methods.base import RandomState, Scaling


class SJE(BilinearRanking):
    """Learns a bilinear score of features and descriptions in which the right class beats its strongest rival.

    This is a structured support vector machine whose outputs are classes described by vectors: W says how well features
    and description go together. Each sample pushes only on the one wrong class that violates the margin most, which is
    the only class that can cost it its prediction. A new class is scored from its description.

    Objective, averaged over samples, with F(x, c) = xᵀ W a_c over the seen classes and Δ(y, c) = Δ for c ≠ y, else 0::

        [max_c (Δ(y, c) + F(x, c)) − F(x, y)]₊

    solved by plain stochastic gradient descent on batches of samples, from W = 0; stopping after few epochs is the only
    regularisation.

    Score: F(x, c).

    Parameters
    ----------
    margin : float
        Δ. W starts at zero, so only learning_rate / margin has an effect on predictions.
    learning_rate, epochs, batch_size, feature_scaling, attribute_scaling : various
        As in `ALE`.
    device, precision, verbose, random_state : various
        As in `ALE`.

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
    Differences from the paper: batches of samples instead of single ones, and W starts at zero instead of at random.
    The paper also joins several kinds of description, each with a W of its own; here there is one.

    References
    ----------
    Z. Akata et al., Evaluation of Output Embeddings for Fine-Grained Image Classification, CVPR 2015.
    https://arxiv.org/abs/1409.8403

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import SJE
    >>> rng = np.random.default_rng(0)
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1.0]])
    >>> y = np.repeat([0, 1, 2, 3, 4], 40)                  # class 5 has a description, but no samples
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(200, 3))
    >>> model = SJE(learning_rate=1.0, random_state=0).fit(X, y, descriptions)
    >>> model.predict([[1.0, 0.1, 0.9]], classes=[1, 5])
    array([5])
    """

    space = "latent"
    reference = "Akata et al., Evaluation of Output Embeddings for Fine-Grained Image Classification, CVPR 2015"
    grid: ClassVar[dict[str, list[Any]]] = {"learning_rate": [5.0, 15.0, 45.0], "epochs": [16, 32]}
    _loss = staticmethod(hardest_hinge)

    def __init__(
        self,
        *,
        margin: float = 1.0,
        learning_rate: float = 15.0,
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

"""DeViSE: a linear map into the space of descriptions, trained to rank the right class first."""

from __future__ import annotations

from typing import Any, ClassVar

from firstsight.devices import Precision
from firstsight.methods._ranking_losses import BilinearRanking, summed_hinge
from firstsight.methods.base import RandomState, Scaling


class DeViSE(BilinearRanking):
    """Learns a linear map of features into the space of descriptions, so that the right one has the largest product.

    Features are mapped to Wᵀx, a point among the descriptions, and compared with each of them by a dot product. Rather
    than regress on the right description, DeViSE asks only that it win by a margin, over every wrong class that
    comes too near. A new class is one more description to compare with.

    Objective, averaged over samples, with F(x, c) = xᵀ W a_c over the seen classes::

        Σ_{c≠y} [m + F(x, c) − F(x, y)]₊

    solved by plain stochastic gradient descent on batches of samples, from W = 0; stopping after few epochs is the only
    regularisation.

    Score: F(x, c).

    Parameters
    ----------
    margin : float
        m. W starts at zero, so only learning_rate / margin has an effect on predictions.
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
    Differences from the paper: it draws wrong classes until one violates the margin and steps on that one, sample by
    sample; here a batch of samples steps on the full sum of the formula, which costs one matrix product. Features are
    frozen (the paper goes on to fine-tune the network) and descriptions are attributes instead of word vectors.

    References
    ----------
    A. Frome et al., DeViSE: A Deep Visual-Semantic Embedding Model, NIPS 2013.
    https://papers.nips.cc/paper/5204-devise-a-deep-visual-semantic-embedding-model

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import DeViSE
    >>> rng = np.random.default_rng(0)
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1.0]])
    >>> y = np.repeat([0, 1, 2, 3, 4], 40)                  # class 5 has a description, but no samples
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(200, 3))
    >>> model = DeViSE(random_state=0).fit(X, y, descriptions)
    >>> model.predict([[1.0, 0.1, 0.9]], classes=[1, 5])
    array([5])
    """

    space = "semantic"
    reference = "Frome et al., DeViSE: A Deep Visual-Semantic Embedding Model, NIPS 2013"
    grid: ClassVar[dict[str, list[Any]]] = {"learning_rate": [0.6, 2.048, 6.0], "epochs": [16, 32]}
    _loss = staticmethod(summed_hinge)

    def __init__(
        self,
        *,
        margin: float = 1.0,
        learning_rate: float = 2.048,
        epochs: int = 16,
        batch_size: int = 64,
        feature_scaling: Scaling = "standard",
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

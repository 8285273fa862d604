"""TransductiveBlend: a blend whose parts also learn from a pool of unlabelled samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from firstsight.methods.base import RandomState, Scaling, Setting, TransductiveClassifier, ZeroShotClassifier
from firstsight.methods.blend import Blend

DEFAULT_PARTS = ("transductive-kernel-prototypes", "transductive-deep-embedding")


class TransductiveBlend(TransductiveClassifier, Blend):
    """`Blend` of methods that also learn from unlabelled samples: one way to name a pool hedges another.

    Two methods that find the clusters of a pool give names to them in different ways. Each part is fitted with the
    pool; then some seen classes play unseen ones and held-out samples the pool, copies of the parts learn from these,
    and the weights with the highest T1 (of a pool of unseen classes) or H (of any pool) are taken. Inductive methods
    can be parts, too.

    Score, as that of `Blend`, with s_i that of part i without its constant and σ_i its standard deviation::

        Σ_i w_i s_i(x, c)/σ_i − γ Σ_i w_i certainty_i(c)

    where the certainty of an unseen class is above 0 for a part that has found its samples in the pool.

    Parameters
    ----------
    estimators : list or None
        As in `Blend`, and transductive methods as well. None: `TransductiveKernelPrototypes` and
        `TransductiveDeepEmbedding`, which needs PyTorch.
    setting : {"gzsl", "zsl"}
        What the pool may hold, for all parts. "gzsl": samples of any class; "zsl": samples of unseen classes only.
    weights, seen_constant, n_folds : various
        As in `Blend`; each of the `n_folds` tasks fits every part.
    feature_scaling, attribute_scaling, random_state : various
        As in `Blend`.

    Attributes
    ----------
    parts_, weights_, scales_, seen_constant_, n_fitted_classes_, search_, classes_, descriptions_ : various
        As in `Blend`; "scores" and "gains" of `search_` are T1 or H.

    References
    ----------
    Of this package, 2026, after D. Wolpert, Stacked generalization, Neural Networks 5(2), 1992.
    https://doi.org/10.1016/S0893-6080(05)80023-1

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import TransductiveBlend
    >>> rng = np.random.default_rng(0)
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1.0]])
    >>> y = np.repeat([0, 1, 2, 3], 40)                     # classes 4 and 5 have descriptions, but no samples
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(160, 3))
    >>> pool = descriptions[[4, 5] * 20] + 0.1 * rng.normal(size=(40, 3))
    >>> model = TransductiveBlend(["transductive-kernel-prototypes", "eszsl"], setting="zsl")
    >>> model.fit(X, y, descriptions, X_unlabeled=pool).predict([[1.0, 0.1, 0.9]], classes=[4, 5])
    array([5])
    """

    quick: ClassVar[dict[str, Any]] = {"estimators": ["transductive-kernel-prototypes", "eszsl"], "n_folds": 1}

    def __init__(
        self,
        estimators: Sequence[str | tuple[str, ZeroShotClassifier]] | None = None,
        *,
        setting: Setting = "gzsl",
        weights: ArrayLike | None = None,
        seen_constant: float | None = None,
        n_folds: int | None = None,
        feature_scaling: Scaling = None,
        attribute_scaling: Scaling = None,
        random_state: RandomState = None,
    ):
        super().__init__(
            estimators,
            weights=weights,
            seen_constant=seen_constant,
            n_folds=n_folds,
            feature_scaling=feature_scaling,
            attribute_scaling=attribute_scaling,
            random_state=random_state,
        )
        self.setting = setting

    @property
    def _metric(self):  # type: ignore[override]
        return "t1" if self.setting == "zsl" else "h"

    def _fit(self, X, y, S, pool, U):  # type: ignore[override]
        Blend._fit(self, X, y, S, pool, U)

    def _default_parts(self, X, S):
        return self._parts(DEFAULT_PARTS)

    def _pool_of(self, task, size, n_classes):
        seen_too = self.setting == "gzsl"
        return task.pool(seen_too, size / (n_classes if seen_too else n_classes - self.n_fitted_classes_))

    def _seeded(self, part):
        copy = super()._seeded(part)
        return copy.set_params(setting=self.setting) if copy.transductive else copy

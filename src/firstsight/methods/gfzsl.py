"""GFZSL: one Gaussian per class, whose mean and variances follow from the class description."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from scipy.linalg import solve

from firstsight.methods._moments import MomentClassifier
from firstsight.methods._validation import OneOf, Range
from firstsight.methods.base import Scaling


class GFZSL(MomentClassifier):
    """Learns how the mean and the variances of a class among the features follow from its description.

    Every class is a Gaussian with a diagonal covariance. Those of the seen classes are estimated from their samples;
    two kernel ridge regressions then learn to predict means and log-variances from descriptions, so that
    a new class gets a Gaussian without a sample. A sample belongs to the class under which it is most likely.

    Objective, with μ_c and σ²_c (d,) estimated for each of the k seen classes::

        Σ_c ‖f(a_c) − (μ_c − μ̄)‖² + λ_μ ‖f‖²_K      and      Σ_c ‖g(a_c) − (log σ²_c − log σ̄²)‖² + λ_σ ‖g‖²_K

    in the space of the kernel K(a, a') = (1 + a·a')², solved by f(a) = K(a, S) (K(S, S) + λI)⁻¹ M, with M (k, d) the
    targets of the seen classes. μ̄ is the mean of the μ_c and σ̄² the variance within classes, over all samples: a
    penalty leads to them, not to zero.

    Score: log N(x; μ̄ + f(a_c), σ̄² exp g(a_c)), without the constant.

    Parameters
    ----------
    mean_penalty, variance_penalty : float
        λ_μ and λ_σ. A class has too few samples for a variance per feature: λ_σ wants to be large.
    seen_gaussians : {"regressed", "estimated"}
        Which Gaussian stands for a class with training samples: the one that follows from its description, as for any
        other class, or the one estimated from its samples, as in the paper. The latter fits the seen classes more
        closely than any regressed one can fit an unseen class, and so draws the samples of unseen classes to them.
    feature_scaling, attribute_scaling : {None, "unit", "standard"}
        Scaling of features and of descriptions, fitted on the training samples and seen classes.

    Attributes
    ----------
    classes_, descriptions_ : array (C,) and array (C, a)
        Every class that can be named, and its description.
    seen_descriptions_ : array (k, a)
        Of the seen classes.
    means_, log_variances_ : arrays (k, d)
        μ_c and log σ²_c of the seen classes.
    centre_ : array (2, d)
        μ̄ and log σ̄².
    mean_weights_, variance_weights_ : arrays (k, d)
        (K(S, S) + λI)⁻¹ M.

    Notes
    -----
    Differences from the paper: variances are estimated as if each class had one sample more, of the variance of all
    classes, so that a class of one sample has some. Both regressions start from the average class. Seen classes are
    described by their regressed Gaussians too, unless `seen_gaussians` says otherwise. Validation classes of CUB prefer
    a λ_σ so large that all classes have nearly the same variances (three points of T1 over λ_σ = 100).

    References
    ----------
    V. Verma, P. Rai, A Simple Exponential Family Framework for Zero-Shot Learning, ECML PKDD 2017.
    https://arxiv.org/abs/1707.08040

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import GFZSL
    >>> rng = np.random.default_rng(0)
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1.0]])
    >>> y = np.repeat([0, 1, 2, 3, 4], 40)                  # class 5 has a description, but no samples
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(200, 3))
    >>> model = GFZSL().fit(X, y, descriptions)
    >>> model.predict([[1.0, 0.1, 0.9]], classes=[1, 5])
    array([5])
    """

    space = "latent"
    needs = frozenset({"scatter"})
    reference = "Verma and Rai, A Simple Exponential Family Framework for Zero-Shot Learning, ECML PKDD 2017"
    grid: ClassVar[dict[str, list[Any]]] = {
        "mean_penalty": [0.1, 0.3, 1.0],
        "variance_penalty": [30.0, 1e4],
    }

    fitted_arrays: ClassVar[dict[str, str]] = {
        "seen_descriptions_": "k a",
        "means_": "k d",
        "log_variances_": "k d",
        "centre_": "2 d",
        "mean_weights_": "k d",
        "variance_weights_": "k d",
    }
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "mean_penalty": [Range(float, above=0)],
        "variance_penalty": [Range(float, above=0)],
        "seen_gaussians": [OneOf("regressed", "estimated")],
    }

    def __init__(
        self,
        *,
        mean_penalty: float = 0.3,
        variance_penalty: float = 1e4,
        seen_gaussians: Literal["regressed", "estimated"] = "regressed",
        feature_scaling: Scaling = None,
        attribute_scaling: Scaling = "unit",
    ) -> None:
        self.mean_penalty = mean_penalty
        self.variance_penalty = variance_penalty
        self.seen_gaussians = seen_gaussians
        self.feature_scaling = feature_scaling
        self.attribute_scaling = attribute_scaling

    def _solve(self, moments, S):
        counts, means, deviations = moments.counts[:, None], moments.means, moments.scatter  # (k, 1), (k, d), (k, d)
        within = deviations.sum(axis=0) / counts.sum()  # (d,)
        within += 1e-6 * within.mean() + 1e-12  # a feature that never varies must not decide everything
        self.seen_descriptions_, self.means_ = S, means
        self.log_variances_ = np.log((deviations + within) / (counts + 1))
        self.centre_ = np.stack([means.mean(axis=0), np.log(within)])
        K, identity = _kernel(S, S), np.eye(len(S))
        self.mean_weights_ = solve(K + self.mean_penalty * identity, means - self.centre_[0], assume_a="pos")
        self.variance_weights_ = solve(
            K + self.variance_penalty * identity, self.log_variances_ - self.centre_[1], assume_a="pos"
        )

    def _embed_classes(self, A):
        K = _kernel(A, self.seen_descriptions_)  # (k, seen)
        return self.centre_[0] + K @ self.mean_weights_, self.centre_[1] + K @ self.variance_weights_

    def _scores(self, X, E, seen):
        means, log_variances = E  # (k, d) each
        if self.seen_gaussians == "estimated":
            known = (seen >= 0)[:, None]
            means = np.where(known, self.means_[seen], means)
            log_variances = np.where(known, self.log_variances_[seen], log_variances)
        precisions = np.exp(-log_variances)
        # Σ_j (x_j − μ_j)²/σ_j², multiplied out to two matrix products; centred, and in float64, nothing is lost.
        rows, means = X - self.centre_[0], means - self.centre_[0]
        scores = rows @ (means * precisions).T  # (n, k)
        scores -= np.square(rows, out=rows) @ (precisions / 2).T
        scores -= (means**2 * precisions + log_variances).sum(axis=1) / 2
        return scores

    def _export_scores(self, graph, X, A, seen):
        if self.seen_gaussians != "regressed":
            raise NotImplementedError('with seen_gaussians="estimated" it asks whether a class was seen')
        rows = graph("Sub", graph.double(X), graph.double(self.centre_[0]))
        kernel = graph("Add", graph.products(graph.double(A), graph.double(self.seen_descriptions_)), graph.double(1.0))
        K = graph("Mul", kernel, kernel)  # (k, seen)
        means = graph("MatMul", K, graph.double(self.mean_weights_))  # from the centre
        log_variances = graph(
            "Add", graph("MatMul", K, graph.double(self.variance_weights_)), graph.double(self.centre_[1])
        )
        precisions = graph("Exp", graph("Neg", log_variances))
        weighted = graph("Mul", means, precisions)
        of_rows = graph.products(graph("Mul", rows, rows), precisions)
        crossed = graph.products(rows, weighted)
        of_classes = graph.row_sums(graph("Add", graph("Mul", means, weighted), log_variances))  # (k, 1)
        total = graph("Add", graph("Sub", of_rows, graph("Add", crossed, crossed)), graph.transposed(of_classes))
        return graph.single(graph("Mul", total, graph.double(-0.5)))


def _kernel(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return (1.0 + A.astype(np.float64) @ B.T) ** 2

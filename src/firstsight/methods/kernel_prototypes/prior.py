"""Gaussian-process regression from class descriptions to class means: kernel, posterior means and variances, scores.

With z̄_c the mean of the n_c samples of class c in a `WhitenedSpace`, K the kernel of the k classes with samples and
B = K + ν I + diag(σ²/n), the posterior is::

    weights = B⁻¹ z̄              means = (K + ν I) weights               predicted means = α K(·, S) weights
    error_c = [B⁻¹ z̄]_c / [B⁻¹]_cc          variance_c = 1/[B⁻¹]_cc − σ²/n_c          (leave one class out)
    δ = mean_c ‖error_c‖² / 2               score of a sample z = −‖z − mean‖²/2

K is a mean over scalings of descriptions, half of it Gaussian kernels of three widths, half the arc-cosine kernel of a
layer of infinitely many rectified units (Cho and Saul, NIPS 2009): the effect of an attribute extends to where no seen
class has been, while a Gaussian falls back to the mean.

Samples that are added after the fit, n_c of the classes J with means x̄_c, condition this posterior once more. With C
the posterior covariance of classes, a_d the variance of coordinate d of z per unit of K, and w_d that of samples about
the mean of their class::

    shift of the mean of any class a = C(a, J) (C(J, J) + (w_d/a_d) diag(1/n))⁻¹ (x̄ − M)_Jd          (`condition`)

a is the mean squared error_c over its mean variance, without what z̄_c has across the span of the other classes' means
(`measure_evidence`). New classes have such parts, too: there M is zero, and the same formula weighs them together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from firstsight.methods._moments import class_sums
from firstsight.methods.kernel_prototypes.space import ClassStatistics, WhitenedSpace

# Powers of an attribute's spread that it is divided by after centring; None leaves descriptions as they are.
SCALINGS = (None, 0.5, 1.0)
# Of the Gaussians, in units of the mean squared distance between two seen classes. Averaging beat choosing.
WIDTHS = (0.25, 0.5, 1.0)
# One more attribute that every description has in the arc-cosine kernel.
BIAS = 0.5
# The whitening has seen the samples that w and a are measured on: they lie nearer to their class's mean, and the means
# farther apart, than those of later samples, the more so the fewer samples there are per feature; up to a limit. So w
# counts for more, across the span by the root of it. Chosen on folds of the training classes of seven data sets, and on
# parts of these with few classes or samples.
OVERFIT_POWER, MOST_OVERFIT = 3.5, 4.0


@dataclass(frozen=True)
class PrototypeSettings:
    """What a model without a pool is fitted with. The defaults are where the search starts."""

    power: float = 0.5  # p, of the signed power
    shrinkage: float = 0.5  # s, of the covariance within classes
    nugget: float = 0.05  # ν, class-specific variance
    noise: float = 2.0  # σ², variance of samples about the mean of their class
    stretch: float = 1.0  # α, factor of predicted means
    refinement: int = 0  # steps of the episodic map
    hidden: int = 0  # units of the hidden layer


def fit_kernel(S: np.ndarray) -> dict[str, np.ndarray]:
    """Centre, spread and units of the seen classes' descriptions S (k, a): all that `kernel` needs."""
    S = S.astype(np.float64)
    spread = S.std(axis=0)
    # A tenth of the mean keeps an attribute that hardly varies from being blown up.
    fitted = {"centre": S.mean(axis=0), "spread": spread + 0.1 * spread.mean() + 1e-12}
    pairs = len(S) * (len(S) - 1)
    units = [_squared_distances(v, v).sum() / pairs for v in _views(fitted, S)]
    # Descriptions that are all the same have no distance to measure by: every two classes are then as near as can be.
    fitted["units"] = np.array([unit if unit > 1e-12 else 1.0 for unit in units])
    return fitted


def kernel(fitted: dict[str, np.ndarray], A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """K (len(A), len(B)) in float64, 1 where two descriptions are the same."""
    total = np.zeros((len(A), len(B)))
    for a, b, unit in zip(_views(fitted, A), _views(fitted, B), fitted["units"], strict=True):
        near = np.exp(-WIDTHS[0] / unit * _squared_distances(a, b))
        # Widths double: each Gaussian is the square of the one before, far cheaper than an exponential.
        for _ in WIDTHS:
            total += near / len(WIDTHS)
            near = near * near
        total += arc_cosine(a, b)
    return total / (2 * len(SCALINGS))


def arc_cosine(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """(sin θ + (π − θ) cos θ)/π with θ the angle between two descriptions, BIAS included: 1 if it is zero."""
    lengths = np.sqrt(np.outer(*((V**2).sum(axis=1) + BIAS**2 for V in (A, B))))
    cosine = np.clip((A @ B.T + BIAS**2) / lengths, -1, 1)
    angle = np.arccos(cosine)
    return (np.sin(angle) + (np.pi - angle) * cosine) / np.pi


def kernels_of_halves(descriptions: np.ndarray, seen: int, pairs: int) -> Iterator[np.ndarray]:
    """K of all classes by one half of the attributes and by the other, for each of `pairs` random splits.

    Units come from the seen classes, whose descriptions are the first ones. A single attribute is not split.
    """
    rng, a = np.random.default_rng(0), descriptions.shape[1]
    for _ in range(pairs if a > 1 else 0):
        order = rng.permutation(a)
        for half in (order[: a // 2], order[a // 2 :]):
            part = descriptions[:, np.sort(half)]
            yield kernel(fit_kernel(part[:seen]), part, part)


def export_kernel(graph: Any, fitted: dict[str, np.ndarray], A: str) -> str:
    """K of the descriptions `A` with the fitted ones, in an ONNX graph."""
    terms, constant = [], graph.constant(BIAS**2)
    views = _views(fitted, fitted["descriptions"])
    for power, view, unit in zip(SCALINGS, views, fitted["units"], strict=True):
        scaled = A
        if power is not None:
            spread = graph.constant(fitted["spread"] ** power)
            scaled = graph("Div", graph("Sub", A, graph.constant(fitted["centre"])), spread)
        scaled = graph.unit(scaled)
        near = graph.closeness(scaled, graph.constant(view))  # (n, k)
        gaussians = [graph("Exp", graph("Mul", near, graph.constant(width / unit))) for width in WIDTHS]
        # As `arc_cosine`.
        lengths = graph("Sqrt", graph("Add", graph.row_sums(graph("Mul", scaled, scaled)), constant))  # (n, 1)
        lengths = graph("Mul", lengths, graph.constant(np.sqrt((view**2).sum(axis=1) + BIAS**2)))
        cosine = graph("Div", graph("Add", graph("MatMul", scaled, graph.constant(view.T)), constant), lengths)
        cosine = graph("Clip", cosine, graph.constant(-1.0), graph.constant(1.0))
        angle = graph("Acos", cosine)
        rest = graph("Mul", graph("Sub", graph.constant(np.pi), angle), cosine)
        terms += [
            graph("Mean", *gaussians),
            graph("Div", graph("Add", graph("Sin", angle), rest), graph.constant(np.pi)),
        ]
    return graph("Mean", *terms)


def _views(fitted: dict[str, np.ndarray], A: np.ndarray) -> list[np.ndarray]:
    """Descriptions in each of the scalings, of unit length."""
    A = A.astype(np.float64)
    centred = A - fitted["centre"]
    scaled = [A if power is None else centred / fitted["spread"] ** power for power in SCALINGS]
    return [rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12) for rows in scaled]


def _squared_distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2 * A @ B.T
    return np.maximum(squares, 0)


def mean_weights(prior: np.ndarray, noise: np.ndarray, means: np.ndarray) -> np.ndarray:
    """B⁻¹ means (k, e), B = prior + diag noise: the mean of any class is its kernel with these k classes times this."""
    return cho_solve(cho_factor(prior + np.diag(noise), lower=True), means)


def mean_variances(prior: np.ndarray, noise: np.ndarray, cross: np.ndarray, prior_variances: np.ndarray) -> np.ndarray:
    """Posterior variance (m,) of each coordinate of the means of classes with kernel `cross` (m, k) to the k classes.

    `prior_variances` (m,) are their kernels with themselves.
    """
    explained = cross.T * cho_solve(cho_factor(prior + np.diag(noise), lower=True), cross.T)
    return prior_variances - explained.sum(axis=0)


def precision(prior: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """B⁻¹ (k, k), B = prior + diag noise: all that predicting each class from the others needs."""
    return np.linalg.inv(prior + np.diag(noise))


def leave_one_out_errors(inverse: np.ndarray, means: np.ndarray) -> np.ndarray:
    """mean_c − (the mean of c predicted from the other classes) (k, e), by B⁻¹ for every class at once."""
    return inverse @ means / np.diag(inverse)[:, None]


def leave_out(
    inverse: np.ndarray, weights: np.ndarray, noise: np.ndarray, new: np.ndarray, old: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means of the classes `new` and `old` minus what `old` alone say of them, by B⁻¹ and B⁻¹ means of both.

    A system of the few that are left out is solved, not one of all that stay.
    """
    errors = np.linalg.solve(inverse[np.ix_(new, new)], weights[new])
    return errors, noise[old, None] * (weights[old] - inverse[np.ix_(old, new)] @ errors)


def leave_one_out_variances(inverse: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Posterior variance (k,) of each of the k classes, predicted from the others, by B⁻¹."""
    return 1 / np.diag(inverse) - noise


def error_unit(inverse: np.ndarray, means: np.ndarray) -> float:
    """δ: half the mean over classes of the squared length of a leave-one-class-out error."""
    errors = leave_one_out_errors(inverse, means)
    return float((errors**2).sum(axis=1).mean()) / 2


@dataclass(frozen=True)
class Prototypes:
    """Posterior over class means in a space, given k labelled classes."""

    space: WhitenedSpace
    means: np.ndarray  # (k, e): of the labelled classes, after what their samples and each other say
    weights: np.ndarray  # (k, e): the kernel of any other class with the labelled ones, times this, is its mean
    unit: float  # δ: what the error of a predicted mean costs in score

    def scores(self, Z: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """Scores (n, k + j) of the labelled classes and of those whose predicted means (j, e) are given."""
        return closeness(Z, np.vstack([self.means, predicted]))


def posterior_prototypes(
    space: WhitenedSpace, means: np.ndarray, counts: np.ndarray, K: np.ndarray, settings: PrototypeSettings
) -> Prototypes:
    """The posterior from means (k, e) and sizes (k,) of the labelled classes, with kernel K (k, k)."""
    prior, noise = K + settings.nugget * np.eye(len(K)), settings.noise / counts
    weights = mean_weights(prior, noise, means)
    unit = error_unit(precision(prior, noise), means)
    return Prototypes(space, prior @ weights, settings.stretch * weights, unit)


def closeness(Z: np.ndarray, means: np.ndarray) -> np.ndarray:
    """−‖z − mean‖²/2 (n, k), in the precision of Z."""
    means = means.astype(Z.dtype)
    squares = np.einsum("ij,ij->i", Z, Z)[:, None] + np.einsum("ij,ij->i", means, means)
    squares /= 2
    return np.subtract(Z @ means.T, squares, out=squares)


def match_rows(A: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The index (n,) of the first of the `known` descriptions that each row of A equals, up to rounding; else −1."""
    if not len(known):
        return np.full(len(A), -1)
    gaps = np.array([np.abs(known - row).max(axis=1) for row in A])  # (n, j)
    return np.where(gaps.min(axis=1) <= 1e-6 * max(np.abs(known).max(), 1e-12), gaps.argmin(axis=1), -1)


def measure_evidence(
    statistics: ClassStatistics,
    space: WhitenedSpace,
    K: np.ndarray,
    settings: PrototypeSettings,
    rows: np.ndarray,
    y: np.ndarray,
) -> dict[str, np.ndarray]:
    """What samples that are added to a fit are weighed with, measured on some of its rotated samples.

    "counts" (k,), how many samples the fit had of each class; "within" and "signal" (e,), w and a of this module's
    formulas; "centre" (q,), the mean of class means after whitening; "across" (3,): the variance of class means in each
    direction across the span of the others, in units of that of samples; what makes the latter one; and the mean
    variance of a predicted mean. Both variances of samples are raised as the whitening is overfitted.
    """
    counts, k = statistics.counts, len(K)
    noise = settings.noise / counts
    inverse = precision(K + settings.nugget * np.eye(k), noise)
    variance = max(leave_one_out_variances(inverse, noise).mean(), 1e-6)
    # The episodic map and the hidden layer are fitted to the errors of these very classes. Before the map, errors are
    # those of other classes; a layer has no such space.
    plain, width = statistics.space, statistics.means.shape[1]
    to_space = np.linalg.pinv(plain.directions.astype(np.float64)) @ space.directions
    signal = _signal(plain(rows), y, inverse, settings) @ to_space**2
    Z = space(rows).astype(np.float64)
    if space.hidden is not None:
        signal[width:] = _signal(Z[:, width:], y, inverse, settings)
    outside, across = len(statistics.centre) - k + 2, 0.0
    if outside > 2 and k > 2:
        distances = own_directions(statistics.means)[1] ** 2
        across = max(float((distances / outside - 1 / counts).mean()), 0.0)
    overfit = min((1 + len(plain.whitening) / max(counts.sum() - k, 1)) ** OVERFIT_POWER, MOST_OVERFIT)
    return {
        "counts": counts,
        "within": _moments_of_classes(Z, y, k)[1] * overfit,
        "signal": signal / variance,
        "centre": statistics.centre,
        "across": np.array([across / np.sqrt(overfit), statistics.scale, variance]),
    }


def _moments_of_classes(Z: np.ndarray, y: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Class means (k, e) and the variance (e,) within classes."""
    Z, sizes = Z.astype(np.float64), np.bincount(y, minlength=k)
    means = class_sums(Z, y, k) / sizes[:, None]
    spread = (Z**2).sum(axis=0) - sizes @ means**2
    # One sample per class has no spread; z is scaled to a variance of one.
    return means, np.maximum(spread / (len(Z) - k), 1e-3) if len(Z) > k else np.ones(Z.shape[1])


def _signal(Z: np.ndarray, y: np.ndarray, inverse: np.ndarray, settings: PrototypeSettings) -> np.ndarray:
    """Variance (e,) of the error of a predicted mean, without the noise of the mean that it is compared with.

    What a class has across the span of the others is left out: a class without samples has no part in z that is its
    own, and with few classes that part is most of a leave-one-class-out error.
    """
    means, within = _moments_of_classes(Z, y, len(inverse))
    errors = means - settings.stretch * (means - leave_one_out_errors(inverse, means))
    e = means.shape[1]
    if e > 1:
        own = own_directions(means)[0]
        errors -= np.einsum("ij,ij->i", errors, own)[:, None] * own
        errors *= np.sqrt(e / (e - 1))
    squares = (errors**2).mean(axis=0)
    return np.maximum(squares - within * (1 / np.bincount(y)).mean(), 0.01 * squares.mean() + 1e-9)


def own_directions(means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors (k, e), each across the span of the differences of the other means; the distances (k,) from it."""
    # The rows of M⁺ are such vectors, as long as one over the distance; the constant makes the span one of differences.
    products = means @ means.T
    across = np.linalg.pinv(products + 100 * np.abs(products).max(), hermitian=True) @ means
    lengths = np.maximum(np.linalg.norm(across, axis=1), 1e-12)
    return across / lengths[:, None], 1 / lengths


def condition(C: np.ndarray, counts: np.ndarray, residuals: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """(j, e): what a class's posterior covariance with j classes is multiplied with, to give the shift of its mean.

    `C (j, j)` is that of these classes, `counts (j,)` their new samples, `residuals (j, e)` the means of these minus
    the posterior means, `noise (e,)` w/a. One eigendecomposition serves every coordinate.
    """
    root = np.sqrt(counts)[:, None]
    values, vectors = np.linalg.eigh(root * C * root.T)
    return root * (vectors @ (vectors.T @ (root * residuals) / (np.maximum(values, 0)[:, None] + noise)))


def certainty_of_counts(counts: np.ndarray, noise: float, evidence: dict[str, np.ndarray]) -> np.ndarray:
    """How much `counts (j,)` samples say of a class's mean, against a usual class of the fit: from 0 to 1.

    The share of its posterior variance that samples take away, with that of one sample `noise`.
    """
    variance, usual = evidence["across"][2], np.median(evidence["counts"])
    shares, usual_share = (n * variance / (n * variance + noise) for n in (counts, usual))
    return np.minimum(1.0, shares / max(usual_share, 1e-12))

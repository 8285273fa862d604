"""Kernel prototypes: class means under a Gaussian-process prior over descriptions, in a whitened space."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve, orth
from sklearn.utils.validation import check_is_fitted

from firstsight._io.disk_samples import ChangedSamples, DiskSamples
from firstsight.methods._incremental import IncrementalClassifier
from firstsight.methods._moments import class_sums, fit_scaling_from_disk
from firstsight.methods._simulated_tasks import sample_of_classes
from firstsight.methods._validation import ClassSelection, Range
from firstsight.methods.base import Scaling, ZeroShotClassifier
from firstsight.methods.kernel_prototypes.prior import (
    Prototypes,
    PrototypeSettings,
    certainty_of_counts,
    closeness,
    condition,
    export_kernel,
    fit_kernel,
    kernel,
    mean_weights,
    measure_evidence,
)
from firstsight.methods.kernel_prototypes.search import (
    OPTIONS,
    UNITS,
    USUAL_HANDICAP,
    PrototypeSearch,
    affordable_rows,
    fit_prototypes,
)
from firstsight.methods.kernel_prototypes.space import (
    ClassStatistics,
    Rotation,
    WhitenedSpace,
    class_statistics,
    fit_rotation,
    labelled_moments,
    signed_power,
    unit_length,
)

EVIDENCE_ROWS = 4096  # samples that the variance within classes is measured on
LEAST_DOUBT = 0.1  # of the variance of a mean, that a pool leaves


class KernelPrototypes(IncrementalClassifier):
    """Gaussian-process regression from class descriptions to class means in a whitened feature space.

    Whitened by the scatter within seen classes, every class is nearly a ball of the same size, so its mean describes
    it. The Gaussian process predicts the mean of a class without samples from the means of the seen classes. `fit`
    chooses every setting by itself, on tasks in which some seen classes play unseen ones.

    Samples: x ← sign(x)|x|^p, unit length, centred, rotated to their leading directions; then, with W the covariance
    within classes and LLᵀ = (1 − s)W + s(tr W/q)I, unit length of L⁻¹x, and the span of the class means: z. Means, with
    z̄_c that of the n_c samples of class c and K a mean of Gaussian and arc-cosine kernels over descriptions::

        M = α K(·, S) (K(S, S) + ν I + diag(σ²/n))⁻¹ z̄        (seen classes: K + ν I in place of α K)

    is the posterior mean, solved by Cholesky. An optional linear map T, z ← zT, lowers the cross-entropy of samples in
    episodes whose unseen classes are drawn from the seen. Where one linear map cannot tell classes apart, and simulated
    tasks say so, the rotated sample also passes a hidden layer, h = relu(xU + b): the paper's Algorithm 1 with the
    Gaussian process in place of its semantic network. With p_c the mean of h that the other classes predict for c,
    Adam lowers mean ‖h − p_y‖² + λ · the cross-entropy of a linear classifier on h. Reduced to the span of its class
    means, h is z', and both lie side by side, (z/√δ, z'/√δ') √(δ/2): their scores add up. δ is the mean squared
    leave-one-class-out error of M, over two: how much farther a sample lies from a predicted mean than from a known
    one.

    Score: −‖z − M_c‖²/2, for a seen class − γδ (calibrated stacking).

    Parameters
    ----------
    power, shrinkage : float or None
        p and s. None, here and below: chosen by the search.
    nugget, noise, stretch : float or None
        ν, class-specific variance; σ², the variance of samples about their mean; α.
    refinement : int
        Steps of the episodic map; 0: none.
    hidden : int or None
        Units of the hidden layer; 0: none. None: 512 if they gain on simulated tasks, with a power of 1 if that is
        open; none without the map.
    seen_handicap : float or None
        γ. It separates seen from unseen classes; among unseen classes it changes nothing. 0: none.
    components : int
        q, the most leading directions that are kept.
    search : bool
        False: what is None gets its usual value, and fitting takes a few seconds.
    feature_scaling, attribute_scaling : {None, "unit", "standard"}
        Scaling of features and of descriptions, fitted on the training samples and seen classes.

    Attributes
    ----------
    classes_, descriptions_ : array (C,) and array (C, a)
        Every class that can be predicted, and its description.
    settings_ : dict
        The value of every parameter above that can be None, and of `refinement`.
    search_ : dict
        "tasks", how many were simulated; "tried", settings with their score on each; "chosen";
        "gains_of_layer", what a hidden layer gained on one task after the other, as far as it was tried.
    kernel_ : dict
        Centre (a,), spread (a,), units and descriptions (k, a) of the seen classes.
    centre_, whitening_, directions_, offset_ : array (d,), array (d, q), array (q, e), array (e,)
        z = unit((x − centre) whitening) directions − offset.
    hidden_ : dict
        Empty, or inward (d, h), bias (h,) and outward (h, e): z has relu((x − centre) inward + bias) outward added.
    seen_means_, weights_ : arrays (k, e)
        M of the seen classes; what K(a, S) is multiplied with for any other.
    unit_ : float
        δ.
    certainty_ : array (k,)
        How much of γδ is taken off each class with samples: 1 for those of the fit, less for a class that only few
        samples were added of.
    evidence_ : dict
        What added samples are weighed with: counts (k,), within and signal (e,), centre (q,), across (3,).
    fitted_ : dict
        Where samples were added, the arrays of the fit.

    Notes
    -----
    Samples on disk (`DiskSamples`) are read three times, for the rotation, W and z̄ (four with "standard" scaling); the
    model is that of a fit in memory. Search, episodic map and hidden layer look at as many of them as memory allows,
    equally many of each class. There is no `partial_fit`: L is known when all samples are, and the sums of z then need
    them again. `add_samples` keeps the space and conditions the Gaussian process on more samples, of seen and of new
    classes; a new class also gets the direction in which its samples differ from everything that the fit had seen.

    References
    ----------
    Of this package, 2026; the prior over means is that of Rasmussen and Williams, Gaussian Processes for Machine
    Learning, MIT Press 2006, the arc-cosine kernel that of Cho and Saul, NIPS 2009, the objective of the hidden layer
    that of Zhang et al. (see `DeepEmbedding`), and the constant that of Chao et al., ECCV 2016.
    https://gaussianprocess.org/gpml/

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import KernelPrototypes
    >>> rng = np.random.default_rng(0)
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1.0]])
    >>> y = np.repeat([0, 1, 2, 3, 4], 40)                  # class 5 has a description, but no samples
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(200, 3))
    >>> model = KernelPrototypes(search=False).fit(X, y, descriptions)
    >>> model.predict([[1.0, 0.1, 0.9]], classes=[1, 5])
    array([5])
    """

    space = "latent"
    reads_blocks = True
    reference = "firstsight 2026, after Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006"
    non_result_params: ClassVar[tuple[str, ...]] = (*ZeroShotClassifier.non_result_params, "search")
    quick: ClassVar[dict[str, Any]] = {"refinement": 0}

    fitted_arrays: ClassVar[dict[str, str]] = {
        "kernel_/centre": "a",
        "kernel_/spread": "a",
        "kernel_/units": "3",
        "kernel_/descriptions": "k a",
        "centre_": "d",
        "whitening_": "d c",
        "directions_": "c e",
        "offset_": "e",
        "hidden_/inward?": "d h",
        "hidden_/bias?": "h",
        "hidden_/outward?": "h e",
        "seen_means_": "k e",
        "weights_": "k e",
        "certainty_": "k",
        "evidence_/counts": "f",
        "evidence_/within": "i",
        "evidence_/signal": "i",
        "evidence_/centre": "c",
        "evidence_/across": "3",
        "fitted_/weights?": "f i",
        "fitted_/seen_means?": "f i",
        "fitted_/directions?": "c i",
        "fitted_/offset?": "i",
        "fitted_/outward?": "h i",
    }
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "power": [Range(float, above=0, at_most=1), None],
        "shrinkage": [Range(float, at_least=0, at_most=1), None],
        "nugget": [Range(float, above=0), None],
        "noise": [Range(float, at_least=0), None],
        "stretch": [Range(float, above=0), None],
        "refinement": [Range(int, at_least=0)],
        "hidden": [Range(int, at_least=0), None],
        "seen_handicap": [Range(float), None],
        "components": [Range(int, at_least=1)],
        "search": [bool, np.bool_],
    }

    def __init__(
        self,
        *,
        power: float | None = None,
        shrinkage: float | None = None,
        nugget: float | None = None,
        noise: float | None = None,
        stretch: float | None = None,
        refinement: int = 80,
        hidden: int | None = None,
        seen_handicap: float | None = None,
        components: int = 512,
        search: bool = True,
        feature_scaling: Scaling = None,
        attribute_scaling: Scaling = None,
    ):
        self.power = power
        self.shrinkage = shrinkage
        self.nugget = nugget
        self.noise = noise
        self.stretch = stretch
        self.refinement = refinement
        self.hidden = hidden
        self.seen_handicap = seen_handicap
        self.components = components
        self.search = search
        self.feature_scaling = feature_scaling
        self.attribute_scaling = attribute_scaling

    def _fit(self, X, y, S):
        rows: np.ndarray | ChangedSamples
        sample: np.ndarray | ChangedSamples
        if isinstance(X, DiskSamples):
            self.feature_scaler_ = fit_scaling_from_disk(self.feature_scaling, X)
            d = X.shape[1]
            chosen = sample_of_classes(y, affordable_rows(X.memory, d, len(S), self.components))
            scaled, sample = (ChangedSamples(part, self._scale_features, d) for part in (X, X.take(chosen)))
            y_sample = y[chosen]
            settings = self._choose(PrototypeSearch(sample, y_sample, S, self.components))
            rotation = fit_rotation(scaled, settings.power, self.components)
            rows, sample = (ChangedSamples(part, rotation, rotation.dimensions) for part in (scaled, sample))
        else:
            search = PrototypeSearch(X, y, S, self.components)
            settings = self._choose(search)
            rotation, rows = search.rotated(settings.power)
            sample, y_sample = rows, y
        self.kernel_ = {**fit_kernel(S), "descriptions": S}
        statistics = class_statistics(rows, y, labelled_moments(rows, y, len(S)), settings.shrinkage)
        K = kernel(self.kernel_, S, S)
        model = fit_prototypes(statistics, K, settings, sample, y_sample)
        self._store(rotation, model)
        self._store_evidence(statistics, model.space, K, settings, sample, y_sample)

    def _choose(self, search: PrototypeSearch) -> PrototypeSettings:
        """Parameters as given; of the others, what simulated tasks say or, without search, the usual values."""
        given = {name: getattr(self, name) for name in OPTIONS if getattr(self, name) is not None}
        settings = PrototypeSettings(**given, refinement=self.refinement, hidden=self.hidden or 0)
        handicap = self.seen_handicap
        report: dict[str, Any] = {"tasks": 0, "tried": [], "gains_of_layer": []}
        all_given = len(given) == len(OPTIONS) and handicap is not None
        # One-hot codes say nothing of a class that has no samples: there is no task to simulate.
        if self.search and self.described_ and search.tasks and not all_given:
            options = {name: values for name, values in OPTIONS.items() if name not in given}
            settings, report = search.run(settings, options, UNITS if self.hidden is None and self.refinement else 0)
            handicap = search.handicap(settings) if handicap is None else handicap
        self.settings_ = {**asdict(settings), "seen_handicap": USUAL_HANDICAP if handicap is None else handicap}
        self.search_ = {**report, "chosen": self.settings_}
        return settings

    def _store(self, rotation: Rotation, model: Prototypes) -> None:
        """Keep the fitted arrays; rotation and whitening become one matrix."""
        self.centre_, self.whitening_ = rotation.centre, rotation.compose(model.space.whitening)
        self.directions_, self.offset_ = model.space.directions, model.space.offset
        layer, self.hidden_ = model.space.hidden, {}
        if layer is not None:
            inward = rotation.compose(layer.inward)
            self.hidden_ = {"inward": inward, "bias": layer.bias, "outward": layer.outward}
        self.seen_means_, self.weights_, self.unit_ = model.means, model.weights, model.unit

    def _store_evidence(
        self,
        statistics: ClassStatistics,
        space: WhitenedSpace,
        K: np.ndarray,
        settings: PrototypeSettings,
        rows: np.ndarray | ChangedSamples,
        y: np.ndarray,
    ) -> None:
        """Keep what `add_samples` needs; some of the samples say how far they lie from their class's mean."""
        some = sample_of_classes(y, EVIDENCE_ROWS)
        self.evidence_ = measure_evidence(statistics, space, K, settings, rows[some], y[some])
        self.certainty_ = np.ones(len(K))

    def embed(self, X: ArrayLike) -> np.ndarray:
        """The embedding z (n, e) of samples, in the space of the class means."""
        return self._embed(self._scale_features(self.check_features(X)))

    def embed_classes(self, classes: ClassSelection = None) -> np.ndarray:
        """M (k, e), the means of classes, also of predicted ones; `classes` as in `predict`."""
        check_is_fitted(self)
        _, A, seen = self.candidates(classes)
        return self._means(self._embed_classes(self._scale_descriptions(A))[0], seen)

    def _whitened(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Whitened samples of unit length (n, q) and, if there is a hidden layer, its units (n, h)."""
        rows = signed_power(X, self.settings_["power"])
        rows -= self.centre_
        units = np.maximum(rows @ self.hidden_["inward"] + self.hidden_["bias"], 0) if self.hidden_ else None
        return unit_length(rows @ self.whitening_), units

    def _embed(self, X: np.ndarray) -> np.ndarray:
        whitened, units = self._whitened(X)
        Z = whitened @ self.directions_ - self.offset_  # (n, e)
        if units is not None:
            Z += units @ self.hidden_["outward"]
        return Z

    def _means(self, E: np.ndarray, seen: np.ndarray) -> np.ndarray:
        return np.where((seen >= 0)[:, None], self.seen_means_[seen], E)  # (k, e)

    def _embed_classes(self, A):
        """Predicted means (k, e), and how certain (k,) they are: 0 if only a description is known, to 1."""
        return kernel(self.kernel_, A, self.kernel_["descriptions"]) @ self.weights_, np.zeros(len(A))

    def _certainty(self, E, seen):
        return np.where(seen >= 0, self.certainty_[seen], E[1])

    @property
    def _gamma(self):
        return self.settings_["seen_handicap"] * self.unit_

    def _scores(self, X, E, seen):
        Z = self._embed(X)
        return closeness(Z, self._means(E[0], seen)) - self._seen_constants(E, seen).astype(Z.dtype)  # (n, k)

    @property
    def _seen_at_fit(self):
        return len(self.evidence_["counts"])

    def check_added_samples(self) -> None:
        """Raise ValueError unless added samples that came from a file belong to this model."""
        super().check_added_samples()
        if hasattr(self, "added_samples_") != hasattr(self, "fitted_"):
            raise ValueError("added_samples_ and fitted_ belong together")
        width = len(self.directions_) + len(self.hidden_.get("bias", ()))
        if hasattr(self, "added_samples_") and self.added_samples_["rows"].shape[1:] != (width,):
            raise ValueError(f"added_samples_ must hold rows of {width} numbers")

    def _coverage(self, X):
        return self._embed(X), self.seen_means_, self.certainty_

    def _added_rows(self, X):
        whitened, units = self._whitened(X)
        return whitened if units is None else np.hstack([whitened, units])

    def _condition(self, rows, codes, A):
        self._restore_fit()
        if not len(codes):
            return
        self.fitted_ = self._fit_state()
        k, settings, evidence = self._seen_at_fit, self.settings_, self.evidence_
        S, others = np.split(self.kernel_["descriptions"], [k])
        J, inverse, counts = np.unique(codes, return_inverse=True, return_counts=True)
        described = np.vstack([S, A, others])
        predicted, certainty = self._embed_classes(described[k:])
        means = np.vstack([self.seen_means_, predicted])  # what the samples correct
        sums = class_sums(rows.astype(np.float64), inverse, len(J)) / counts[:, None]
        q = len(self.directions_)
        Z = sums[:, :q] @ self.directions_ - self.offset_
        if self.hidden_:
            Z += sums[:, q:] @ self.hidden_["outward"]
        # Posterior covariance of all these classes with those that have new samples. What a pool has said of a class
        # leaves less of it; not all can be gone, for a pool may mislead.
        root = np.sqrt(np.r_[np.ones(k), np.maximum(1 - certainty, LEAST_DOUBT)])
        K = kernel(self.kernel_, described, described) + settings["nugget"] * np.eye(len(described))
        solved = mean_weights(K[:k, :k], settings["noise"] / evidence["counts"], K[:k, J])
        C = (K[:, J] - K[:, :k] @ solved) * root[:, None] * root[J]
        V = condition(C[J], counts, Z - means[J], evidence["within"] / evidence["signal"])
        means += C @ V
        added = k + len(A)
        self.kernel_ = {**self.kernel_, "descriptions": described}
        self.seen_means_ = means[:added]
        self.weights_ = np.insert(self.weights_, np.full(len(A), k), 0.0, axis=0)
        self.weights_[:k] -= solved @ (root[J, None] * V)
        self.weights_[J] += root[J, None] * V
        sizes = np.zeros(added)
        sizes[J] = counts
        certainty = np.maximum(certainty_of_counts(sizes[k:], settings["noise"], evidence), certainty[: len(A)])
        self.certainty_ = np.r_[np.ones(k), certainty]
        new = J >= k  # noqa: SIM300 (J is an array)
        across = self._across(sums[new, :q])
        noise = np.full(q, evidence["across"][2] / max(evidence["across"][0], 1e-12))
        prior = C[J[new]][:, new]
        self._widen(prior @ condition(prior, counts[new], across, noise), J[new])
        self._set_other_means(with_zeros(means[added:], self.directions_.shape[1] - means.shape[1]))

    def _across(self, whitened: np.ndarray) -> np.ndarray:
        """What the means (j, q) of new classes have across the span of the fit's classes."""
        across, D = whitened - self.evidence_["centre"], self.directions_.astype(np.float64)
        products = D.T @ D
        # Columns of a hidden layer are zero here; what is added to the products keeps them solvable.
        products += 1e-9 * np.trace(products) * np.eye(len(products))
        return across - cho_solve(cho_factor(products), D.T @ across.T).T @ D.T

    def _widen(self, across: np.ndarray, codes: np.ndarray) -> None:
        """Add the directions of `across` (j, q), parts of the means of new classes that the space does not have."""
        if not len(codes) or np.abs(across).max() < 1e-9:
            return
        directions = orth(across.T) * self.evidence_["across"][1]  # (q, w)
        if self.hidden_:
            directions *= np.sqrt(0.5)  # the share of this part of z, as in `fit_prototypes`
            outward = self.hidden_["outward"]
            self.hidden_ = {**self.hidden_, "outward": with_zeros(outward, directions.shape[1])}
        self.seen_means_ = with_zeros(self.seen_means_, directions.shape[1])
        self.seen_means_[codes, -directions.shape[1] :] = across @ directions
        self.weights_ = with_zeros(self.weights_, directions.shape[1])
        self.directions_ = np.hstack([self.directions_, directions]).astype(np.float32)
        self.offset_ = np.r_[self.offset_, self.evidence_["centre"] @ directions].astype(np.float32)

    def _set_other_means(self, means: np.ndarray) -> None:
        """Take over the corrected means of classes without samples that the model holds: here, none."""

    def _fit_state(self) -> dict[str, np.ndarray]:
        """The arrays that samples change."""
        state = {"weights": self.weights_, "seen_means": self.seen_means_}
        state |= {"directions": self.directions_, "offset": self.offset_}
        return {**state, "outward": self.hidden_["outward"]} if self.hidden_ else state

    def _restore_fit(self) -> None:
        """Set the state to that of the fit, without samples that were added."""
        fitted = vars(self).pop("fitted_", None)
        if fitted is None:
            return
        k, added = self._seen_at_fit, len(self.seen_means_)
        described = np.delete(self.kernel_["descriptions"], np.arange(k, added), axis=0)
        self.kernel_, self.certainty_ = {**self.kernel_, "descriptions": described}, np.ones(k)
        self.weights_, self.seen_means_ = fitted["weights"], fitted["seen_means"]
        self.directions_, self.offset_ = fitted["directions"], fitted["offset"]
        if self.hidden_:
            self.hidden_ = {**self.hidden_, "outward": fitted["outward"]}

    def _export_scores(self, graph, X, A, seen):
        size = graph("Pow", graph("Abs", X), graph.constant(self.settings_["power"]))
        centred = graph("Sub", graph.unit(graph("Mul", graph("Sign", X), size)), graph.constant(self.centre_))
        rows = graph.unit(graph("MatMul", centred, graph.constant(self.whitening_)))
        Z = graph("Sub", graph("MatMul", rows, graph.constant(self.directions_)), graph.constant(self.offset_))
        if self.hidden_:
            inward, bias, outward = (graph.constant(self.hidden_[name]) for name in ("inward", "bias", "outward"))
            units = graph("Relu", graph("Add", graph("MatMul", centred, inward), bias))
            Z = graph("Add", Z, graph("MatMul", units, outward))
        means, certainty = self._export_classes(graph, A, seen)
        near = graph("Mul", graph.closeness(Z, means), graph.constant(0.5))
        return graph("Sub", near, graph.transposed(graph("Mul", certainty, graph.constant(self._gamma))))

    def export_certainty(self, graph: Any, A: str, seen: str) -> str:
        """Write the certainty (k,) of scaled descriptions into an ONNX graph, as `export_scores` does the scores."""
        certainty: str = graph("Squeeze", self._export_classes(graph, A, seen)[1], graph.constant([1], np.int64))
        return certainty

    def _export_classes(self, graph: Any, A: str, seen: str) -> tuple[str, str]:
        """The mean (k, e) and the certainty (k, 1) of each candidate."""
        zero, columns = graph.constant(0, np.int64), graph.constant([1], np.int64)
        is_seen = graph("Unsqueeze", graph("Not", graph("Less", seen, zero)), columns)  # (k, 1)
        known = (self.seen_means_, self.certainty_[:, None])
        code = graph("Max", seen, zero)
        means, certainty = (
            graph("Where", is_seen, graph("Gather", graph.constant(values), code, axis=0), predicted)
            for values, predicted in zip(known, self._export_predicted(graph, A), strict=True)
        )
        return means, certainty

    def _export_predicted(self, graph: Any, A: str) -> tuple[str, str]:
        """As `_embed_classes`: the predicted mean (k, e) of each class and its certainty (k, 1)."""
        means = graph("MatMul", export_kernel(graph, self.kernel_, A), graph.constant(self.weights_))
        return means, graph.constant([[0.0]])


def with_zeros(array: np.ndarray, columns: int) -> np.ndarray:
    return np.hstack([array, np.zeros((len(array), columns), dtype=array.dtype)])

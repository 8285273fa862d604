"""Kernel prototypes: class means under a Gaussian-process prior over descriptions, in a whitened space."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from firstsight._io.disk_samples import ChangedRows, DiskRows
from firstsight.methods._class_input import Candidates
from firstsight.methods._scaling import Scaling, fit_scaling_from_disk, scale
from firstsight.methods.base import ZeroShotClassifier
from firstsight.methods.kernel_prototypes.prior import export_kernel, fit_kernel, kernel
from firstsight.methods.kernel_prototypes.search import (
    HANDICAP,
    OPTIONS,
    START,
    UNITS,
    Prototypes,
    PrototypeSearch,
    affordable_rows,
    class_statistics,
    closeness,
    fit_prototypes,
    sample_of_classes,
)
from firstsight.methods.kernel_prototypes.space import Rotation, leading_directions, moments_of, of_unit_length, powered


class KernelPrototypes(ZeroShotClassifier):
    """Learns a space in which classes are round, and how the place of a class in it follows from its description.

    Whitened by the scatter within seen classes, every class is nearly a ball of the same size, and its mean says
    all. A Gaussian process over descriptions predicts the mean of a class without rows from the means of the seen
    classes. Every setting is chosen by `fit` itself, on tasks in which some seen classes play unseen ones.

    Rows: x ← sign(x)|x|^p, unit length, centred, turned to their leading directions; then, with W the covariance
    within classes and LLᵀ = (1 − s)W + s(tr W/q)I, unit length of L⁻¹x, and the span of the class means, z. Means, with
    z̄_c that of the n_c rows of class c and K a mean of Gaussian and arc-cosine kernels over descriptions::

        M = α K(·, S) (K(S, S) + ν I + diag(σ²/n))⁻¹ z̄        (seen classes: K + ν I in place of α K)

    is the posterior mean, solved by Cholesky. An optional linear map T, z ← zT, lowers the cross-entropy of rows in
    episodes whose unseen classes are drawn from the seen. Where one linear map cannot tell classes apart, and simulated
    tasks say so, the rotated row also passes a hidden layer, h = relu(xU + b): the paper's Algorithm 1 with the
    Gaussian process in place of its semantic network. With p_c the mean of h that the other classes foretell for c,
    Adam lowers mean ‖h − p_y‖² + λ · the cross-entropy of a linear classifier on h. Cut to the span of its class means,
    h is z', and both lie side by side, (z/√δ, z'/√δ') √(δ/2): their scores add up. δ is the mean squared
    leave-one-class-out error of M, over two: how much farther a row lies from a predicted mean than from a known one.

    Score: −‖z − M_c‖²/2, for a seen class − γδ.

    Parameters
    ----------
    power, shrinkage : float or None
        p and s. None, here and below: chosen by the search.
    nugget, noise, stretch : float or None
        ν, what a mean owes to its class alone; σ², the variance of rows about their mean; α.
    refinement : int
        Steps of the episodic map; 0: none.
    hidden : int or None
        Units of the hidden layer; 0: none. None: 512 if they gain on simulated tasks, with a power of 1 if that is
        open; none without the map.
    seen_handicap : float or None
        γ. It tells seen from unseen classes and nothing else: among unseen classes it changes nothing. 0: none.
    components : int
        q, the most leading directions that are kept.
    search : bool
        False: what is None gets its usual value, and fitting takes a few seconds.
    feature_scaling, attribute_scaling : {None, "unit", "standard"}
        Scaling of rows and of descriptions, fitted on the training rows and seen classes.

    Attributes
    ----------
    classes_, descriptions_ : array (C,) and array (C, a)
        Every class that can be named, and its description.
    settings_ : dict
        The value of every parameter above that can be None, and of `refinement`.
    search_ : dict
        "tasks", how many were simulated; "tried", settings with their score on each; "chosen";
        "gains_of_layer", what a hidden layer gained on one task after the other, as far as it was tried.
    kernel_ : dict
        Centre (a,), spread (a,), units and descriptions (k, a) of the seen classes; the arc-cosine kernel's constant.
    centre_, whitening_, directions_, offset_ : array (d,), array (d, q), array (q, e), array (e,)
        z = unit((x − centre) whitening) directions − offset.
    hidden_ : dict
        Empty, or inward (d, h), bias (h,) and outward (h, e): z has relu((x − centre) inward + bias) outward added.
    seen_means_, weights_ : arrays (k, e)
        M of the seen classes; what K(a, S) is multiplied with for any other.
    unit_ : float
        δ.

    Notes
    -----
    Rows on the disk (`DiskRows`) are read three times, for the rotation, W and z̄ (four with "standard" scaling); the
    model is that of a fit in memory. Search, episodic map and hidden layer look at as many of them as memory allows,
    equally many of each class. There is no `partial_fit`: L is known when all rows are, and the sums of z then need
    them again.

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
    >>> y = np.repeat([0, 1, 2, 3, 4], 40)                  # class 5 has a description, but no rows
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(200, 3))
    >>> model = KernelPrototypes(search=False).fit(X, y, descriptions)
    >>> model.predict([[1.0, 0.1, 0.9]], classes=[1, 5])
    array([5])
    """

    space = "latent"
    reads_blocks = True
    reference = "firstsight 2026, after Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006"
    beside_results: ClassVar[tuple[str, ...]] = (*ZeroShotClassifier.beside_results, "search")
    quick: ClassVar[dict[str, Any]] = {"refinement": 0}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "power": [Interval(Real, 0, 1, closed="right"), None],
        "shrinkage": [Interval(Real, 0, 1, closed="both"), None],
        "nugget": [Interval(Real, 0, None, closed="neither"), None],
        "noise": [Interval(Real, 0, None, closed="left"), None],
        "stretch": [Interval(Real, 0, None, closed="neither"), None],
        "refinement": [Interval(Integral, 0, None, closed="left")],
        "hidden": [Interval(Integral, 0, None, closed="left"), None],
        "seen_handicap": [Interval(Real, None, None, closed="neither"), None],
        "components": [Interval(Integral, 1, None, closed="left")],
        "search": ["boolean"],
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
        if isinstance(X, DiskRows):
            rotation, rows, sample, y_sample = self._from_disk(X, y, S)
        else:
            search = PrototypeSearch(X, y, S, self.components)
            rotation, rows = search.rows(self._choose(search)["power"])
            sample, y_sample = rows, y
        self.kernel_, settings = {**fit_kernel(S), "descriptions": S}, self.settings_
        statistics = class_statistics(rows, y, moments_of(rows, y, len(S)), settings["shrinkage"])
        self._keep(rotation, fit_prototypes(statistics, kernel(self.kernel_, S, S), settings, sample, y_sample))

    def _from_disk(self, X: DiskRows, y: np.ndarray, S: np.ndarray):
        """The rotation; all rows, turned by it whenever they are read; as much of them as memory allows, and codes."""
        self.feature_scaler_ = fit_scaling_from_disk(self.feature_scaling, X)
        d = X.shape[1]
        some = sample_of_classes(y, affordable_rows(X.memory, d, len(S), self.components))
        rows, sample = (ChangedRows(part, self._scale_features, d) for part in (X, X.take(some)))
        power = self._choose(PrototypeSearch(sample, y[some], S, self.components))["power"]
        rotation = leading_directions([rows], power, self.components)
        rows, sample = (ChangedRows(part, rotation, rotation.dimensions) for part in (rows, sample))
        return rotation, rows, sample, y[some]

    def _choose(self, search: PrototypeSearch) -> dict[str, float]:
        """Parameters as they are given; of the others, what simulated tasks say or, without search, the usual ones."""
        given = {name: getattr(self, name) for name in (*START, "seen_handicap") if getattr(self, name) is not None}
        usual = {"refinement": self.refinement, "hidden": self.hidden or 0, "seen_handicap": HANDICAP}
        settings = {**START, **usual, **given}
        self.search_ = {"tasks": 0, "chosen": settings, "tried": [], "gains_of_layer": []}
        # One-hot codes say nothing of a class that has no rows: there is no task to simulate.
        if self.search and self.described_ and search.tasks and len(given) <= len(START):
            open_options = {name: values for name, values in OPTIONS.items() if name not in given}
            start = {name: value for name, value in settings.items() if name != "seen_handicap"}
            units = UNITS if self.hidden is None and self.refinement else 0
            settings, self.search_ = search.run(start, open_options, units)
            settings.update(given)
        self.settings_ = settings
        return settings

    def _keep(self, rotation: Rotation, model: Prototypes) -> None:
        """The fitted arrays; rotation and whitening become one matrix."""
        self.centre_, self.whitening_ = rotation.centre, rotation.followed_by(model.space.whitening)
        self.directions_, self.offset_ = model.space.directions, model.space.offset
        layer, self.hidden_ = model.space.hidden, {}
        if layer is not None:
            inward = rotation.followed_by(layer.inward)
            self.hidden_ = {"inward": inward, "bias": layer.bias, "outward": layer.outward}
        self.seen_means_, self.weights_, self.unit_ = model.means, model.weights, model.unit

    def embed(self, X: ArrayLike) -> np.ndarray:
        """The embedding z (n, e): where rows lie among the means."""
        return self._places(self._scale_features(self._check_rows(X)))

    def embed_classes(self, classes: Candidates = None) -> np.ndarray:
        """M (k, e): where classes lie, predicted ones, too; `classes` as in `predict`."""
        check_is_fitted(self)
        _, A, seen = self._candidates(classes)
        return self._means(self._embed_classes(scale(self.attribute_scaling, self.attribute_scaler_, A))[0], seen)

    def _places(self, X):
        rows = powered(X, self.settings_["power"])
        rows -= self.centre_
        places = of_unit_length(rows @ self.whitening_) @ self.directions_ - self.offset_  # (n, e)
        if self.hidden_:
            places += np.maximum(rows @ self.hidden_["inward"] + self.hidden_["bias"], 0) @ self.hidden_["outward"]
        return places

    def _means(self, E, seen):
        return np.where((seen >= 0)[:, None], self.seen_means_[seen], E)  # (k, e)

    def _embed_classes(self, A):
        """Predicted means (k, e), and how certain (k,) they are: of 0 as long as only a description is known, to 1."""
        return kernel(self.kernel_, A, self.kernel_["descriptions"]) @ self.weights_, np.zeros(len(A))

    def _seen_constants(self, E, seen):
        return self.settings_["seen_handicap"] * self.unit_ * np.where(seen >= 0, 1.0, E[1])

    def _scores(self, X, E, seen):
        Z = self._places(X)
        return closeness(Z, self._means(E[0], seen)) - self._seen_constants(E, seen).astype(Z.dtype)  # (n, k)

    def _export_scores(self, graph, X, A, seen):
        size = graph("Pow", graph("Abs", X), graph.constant(self.settings_["power"]))
        centred = graph("Sub", graph.unit(graph("Mul", graph("Sign", X), size)), graph.constant(self.centre_))
        rows = graph.unit(graph("MatMul", centred, graph.constant(self.whitening_)))
        rows = graph("Sub", graph("MatMul", rows, graph.constant(self.directions_)), graph.constant(self.offset_))
        if self.hidden_:
            inward, bias, outward = (graph.constant(self.hidden_[name]) for name in ("inward", "bias", "outward"))
            units = graph("Relu", graph("Add", graph("MatMul", centred, inward), bias))
            rows = graph("Add", rows, graph("MatMul", units, outward))
        means, certainty = self._export_means(graph, A, seen)
        near = graph("Mul", graph.closeness(rows, means), graph.constant(0.5))
        handicap = graph("Mul", certainty, graph.constant(self.settings_["seen_handicap"] * self.unit_))
        return graph("Sub", near, graph.transposed(handicap))

    def _export_predicted(self, graph: Any, A: str) -> tuple[str, str]:
        """What `_embed_classes` does: the predicted mean (k, e) of each class and its certainty (k, 1)."""
        means = graph("MatMul", export_kernel(graph, self.kernel_, A), graph.constant(self.weights_))
        return means, graph.constant([[0.0]])

    def _export_means(self, graph: Any, A: str, seen: str) -> tuple[str, str]:
        """The mean (k, e) of each class and its certainty (k, 1)."""
        predicted, certainty = self._export_predicted(graph, A)
        zero, columns = graph.constant(0, np.int64), graph.constant([1], np.int64)
        own = graph("Gather", graph.constant(self.seen_means_), graph("Max", seen, zero), axis=0)
        is_seen = graph("Unsqueeze", graph("Not", graph("Less", seen, zero)), columns)  # (k, 1)
        return graph("Where", is_seen, own, predicted), graph("Where", is_seen, graph.constant(1.0), certainty)

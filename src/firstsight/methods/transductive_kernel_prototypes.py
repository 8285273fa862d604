"""Kernel prototypes whose unseen classes also learn from a pool of unlabelled rows."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from firstsight.methods._moments import class_sums
from firstsight.methods._scaling import Scaling
from firstsight.methods._transductive import TransductiveClassifier
from firstsight.methods.base import Setting
from firstsight.methods.kernel_prototypes import KernelPrototypes
from firstsight.methods.kernel_prototypes.pool import (
    CAPS,
    CREDIT,
    POOL_USUAL,
    Labelled,
    PoolProblem,
    PoolTrial,
    trained_again,
)
from firstsight.methods.kernel_prototypes.prior import fit_kernel, kernel, kernels_of_halves, same_rows
from firstsight.methods.kernel_prototypes.search import Prototypes, PrototypeSearch, class_statistics, fit_prototypes
from firstsight.methods.kernel_prototypes.space import moments_of


class TransductiveKernelPrototypes(TransductiveClassifier, KernelPrototypes):
    """Learns as `KernelPrototypes` does, and corrects the means of unseen classes by unlabelled rows.

    The pool is a mixture of balls, one per class, whose centres have the Gaussian process as their prior. EM shares the
    rows out among the classes and moves the centres of unseen ones; seen classes have their labelled rows and
    keep to them. A pool never has to be believed: where it did not help on tasks in which seen classes play unseen ones
    and held-out rows the pool, the answer is that of `KernelPrototypes`.

    Objective, with rows z_i of the pool, M the means of all classes and τ the temperature::

        Σ_i log Σ_c exp(−‖z_i − M_c‖²/2τ) + labelled rows − (σ²/2τ) tr Mᵀ(K + ν I)⁻¹M

    E-step: r_ic ∝ exp((γδ v_c − ‖z_i − M_c‖²/2)/τ), where v_c, the doubt about an unseen class's mean, is the Gaussian
    process's variance of it in units of what that is for a class that has no rows: rows lie farther from a doubtful
    mean. M-step: M = (K + νI)(K + νI + diag(σ²/n))⁻¹ z̄, where the n_c = Σ_i r_ic pool rows of an unseen class count as
    n_c · cap/(cap + n_c), and for less if it takes far fewer than other classes do: it may not be in the pool. After
    every few steps the space is widened by the directions in which means of unseen classes have left the span of the
    seen ones. EM finds the nearest of many solutions, so it begins with τ raised by the variance of a predicted mean,
    and cools down to τ. It does so by random halves of the attributes as well, and goes on from the mean of the r that
    these and all attributes lead to (two votes): a wrong name that hangs on a few attributes is outvoted. Then the maps
    are learned anew, with pool rows of which a class has more than half as rows of that class, and all that begins anew
    in their space.

    Score: −‖z − M_c‖²/2, for a seen class − γδ, for an unseen one of the pool − γδ (1 − v_c); with
    a pool of unseen classes only, v is the same for all.

    Parameters
    ----------
    setting : {"gzsl", "zsl"}
        What the pool may hold. "gzsl": rows of any class; "zsl": rows of unseen classes only.
    cap : float or None
        The most rows that a class's share of the pool counts as; 0: the pool is ignored. None: 10 or, where
        simulated tasks say so beyond their noise, 30.
    temperature : float
        τ, the variance of rows about their class's mean, in units of that within seen classes.
    rounds : int
        How many times the space is widened.
    pool_nugget : float
        ν, once there is a pool.
    halvings : int
        How many times the attributes are cut in two at random, for EM by each half; 0: EM by all of them is the answer.
    self_training : bool
        Whether the maps are learned again, from labelled rows and from pool rows that EM has named.
    shrinkage, noise, seen_handicap : float or None
        As in `KernelPrototypes`. None: 0.45, 3 and half of what the inductive search finds; where the pool is not used,
        what it finds.
    power, nugget, stretch, refinement, hidden, components, search : various
        As in `KernelPrototypes`. With `search`, simulated tasks also say whether the pool is believed, and how far.
    feature_scaling, attribute_scaling : various
        As in `KernelPrototypes`.

    Attributes
    ----------
    unseen_means_ : array (j, e)
        M of the unseen classes that `fit` was given.
    doubt_ : array (j,)
        v_c of these: 1 as long as nothing but its description is known of a class, 0 once its mean is known.
    kernel_ : dict
        As in `KernelPrototypes`, with descriptions (k + j, a) of seen and unseen classes.
    search_ : dict
        As in `KernelPrototypes`, and "pool": the same of the trial without a pool and with two caps.
    settings_, centre_, whitening_, directions_, offset_, hidden_, seen_means_, weights_, unit_ : various
        As in `KernelPrototypes`.
    classes_, descriptions_ : array (C,) and array (C, a)
        As in `KernelPrototypes`.

    References
    ----------
    Of this package, 2026; EM is that of Dempster, Laird and Rubin, Maximum Likelihood from Incomplete Data, JRSS B
    1977.
    https://doi.org/10.1111/j.2517-6161.1977.tb01600.x

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import TransductiveKernelPrototypes
    >>> rng = np.random.default_rng(0)
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1.0]])
    >>> y = np.repeat([0, 1, 2, 3], 40)                     # classes 4 and 5 have descriptions, but no rows
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(160, 3))
    >>> pool = descriptions[[4, 5] * 20] + 0.1 * rng.normal(size=(40, 3))
    >>> model = TransductiveKernelPrototypes(setting="zsl", search=False)
    >>> model.fit(X, y, descriptions, X_unlabeled=pool).predict([[1.0, 0.1, 0.9]], classes=[4, 5])
    array([5])
    """

    reference = "firstsight 2026, after Dempster, Laird and Rubin, Maximum Likelihood from Incomplete Data, 1977"
    quick: ClassVar[dict[str, Any]] = {"search": False}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "cap": [Interval(Real, 0, None, closed="left"), None],
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "rounds": [Interval(Integral, 0, None, closed="left")],
        "pool_nugget": [Interval(Real, 0, None, closed="neither")],
        "halvings": [Interval(Integral, 0, None, closed="left")],
        "self_training": ["boolean"],
    }

    def __init__(
        self,
        *,
        setting: Setting = "gzsl",
        cap: float | None = None,
        temperature: float = 3.0,
        rounds: int = 5,
        pool_nugget: float = 0.05,
        halvings: int = 8,
        self_training: bool = True,
        shrinkage: float | None = None,
        noise: float | None = None,
        seen_handicap: float | None = None,
        power: float | None = None,
        nugget: float | None = None,
        stretch: float | None = None,
        refinement: int = 80,
        hidden: int | None = None,
        components: int = 512,
        search: bool = True,
        feature_scaling: Scaling = None,
        attribute_scaling: Scaling = None,
    ):
        super().__init__(
            power=power,
            shrinkage=shrinkage,
            nugget=nugget,
            noise=noise,
            stretch=stretch,
            refinement=refinement,
            hidden=hidden,
            seen_handicap=seen_handicap,
            components=components,
            search=search,
            feature_scaling=feature_scaling,
            attribute_scaling=attribute_scaling,
        )
        self.setting = setting
        self.cap = cap
        self.temperature = temperature
        self.rounds = rounds
        self.pool_nugget = pool_nugget
        self.halvings = halvings
        self.self_training = self_training

    def _fit(self, X, y, S, pool, U):  # type: ignore[override]
        search = PrototypeSearch(X, y, S, self.components)
        self._choose(search)
        if len(pool):
            self._believe_or_not(search, S, len(pool) / (len(U) if self.setting == "zsl" else len(S) + len(U)))
        believed = self.settings_.get("cap", 0) > 0
        everyone, k = np.vstack([S, U]) if believed else S, len(S)
        self.kernel_ = {**fit_kernel(S), "descriptions": everyone}
        rotation, rows = search.rows(self.settings_["power"])
        statistics = class_statistics(rows, y, moments_of(rows, y, k), self.settings_["shrinkage"])
        K = kernel(self.kernel_, everyone, everyone)
        model = fit_prototypes(statistics, K[:k, :k], self.settings_, rows, y)
        self.unseen_means_, self.doubt_ = np.empty((0, model.means.shape[1])), np.empty(0)
        if believed:
            unlabelled, seen_too = rotation(pool), self.setting == "gzsl"

            def solve(model: Prototypes):
                labelled = Labelled(class_sums(model.space.read(rows), y, k), statistics.counts, K)
                pool = model.space.read(unlabelled)
                problem = PoolProblem(model, labelled, pool, seen_too, self.settings_["seen_handicap"])
                return problem.solve_by_vote(self.settings_, kernels_of_halves(everyone, k, self.halvings))

            solved = solve(model)
            if self.self_training and (self.settings_["refinement"] or self.settings_["hidden"]):
                solved = solve(trained_again(model, rows, y, unlabelled, K, solved[3], self.settings_))
            model, self.unseen_means_, self.doubt_ = solved[:3]
        self._keep(rotation, model)

    def _believe_or_not(self, search: PrototypeSearch, S: np.ndarray, pool_share: float) -> None:
        """The settings with the pool or the inductive ones if simulated tasks say that it does not help."""
        given = {name: getattr(self, name) for name in POOL_USUAL if getattr(self, name) is not None}
        of_em = {name: getattr(self, name) for name in ("temperature", "rounds", "pool_nugget")}
        without = {**self.settings_, **of_em, "cap": 0.0}
        usual = {**self.settings_, **POOL_USUAL, **given, **of_em}
        if self.seen_handicap is None:
            usual["seen_handicap"] *= CREDIT
        chosen = {**usual, "cap": CAPS[0] if self.cap is None else self.cap}
        if self.cap == 0:
            chosen = without
        elif self.search and search.tasks:
            caps = CAPS if self.cap is None else (self.cap,)
            trial = PoolTrial(search, S, self.setting == "gzsl", pool_share)
            chosen, told = trial.run(without, [{**usual, "cap": cap} for cap in caps])
            self.search_ = {**self.search_, "pool": told}
        self.settings_ = chosen

    def _embed_classes(self, A):
        # A class that the pool was searched for is known by its description, whatever it is called now.
        (means, certainty), corrected = super()._embed_classes(A), self.kernel_["descriptions"][len(self.seen_means_) :]
        known = same_rows(A, corrected)
        means[known >= 0] = self.unseen_means_[known[known >= 0]]
        certainty[known >= 0] = 1 - self.doubt_[known[known >= 0]]
        return means, certainty

    def _embed_described(self, A):
        return super()._embed_classes(A)

    def _export_predicted(self, graph, A):
        means, certainty = super()._export_predicted(graph, A)
        corrected = self.kernel_["descriptions"][len(self.seen_means_) :]
        if not len(corrected):
            return means, certainty
        # As `same_rows`.
        gaps = graph("Sub", graph("Unsqueeze", A, graph.constant([1], np.int64)), graph.constant(corrected[None]))
        gaps = graph("ReduceMax", graph("Abs", gaps), axes=[2], keepdims=0)  # (k, corrected)
        nearest = graph("ArgMin", gaps, axis=1, keepdims=0)
        least = graph("ReduceMin", gaps, axes=[1], keepdims=1)
        same = graph("LessOrEqual", least, graph.constant(1e-6 * max(np.abs(corrected).max(), 1e-12)))
        own, sure = (
            graph("Gather", graph.constant(values), nearest, axis=0)
            for values in (self.unseen_means_, 1 - self.doubt_[:, None])
        )
        return graph("Where", same, own, means), graph("Where", same, sure, certainty)

"""Kernel prototypes whose unseen classes also learn from a pool of unlabelled samples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from firstsight.methods._moments import class_sums
from firstsight.methods._validation import Range
from firstsight.methods.base import Scaling, Setting, TransductiveClassifier
from firstsight.methods.kernel_prototypes import KernelPrototypes
from firstsight.methods.kernel_prototypes.pool import (
    CAPS,
    CREDIT,
    POOL_NOISE,
    POOL_SHRINKAGE,
    LabelledClasses,
    PoolProblem,
    PoolSettings,
    PoolSolution,
    PoolTrial,
    anchor,
    hedge,
    measure_belief,
    refit_with_pseudo_labels,
)
from firstsight.methods.kernel_prototypes.prior import (
    Prototypes,
    PrototypeSettings,
    fit_kernel,
    kernel,
    kernels_of_halves,
    match_rows,
    posterior_prototypes,
)
from firstsight.methods.kernel_prototypes.search import PrototypeSearch, fit_prototypes
from firstsight.methods.kernel_prototypes.space import class_statistics, labelled_moments


class TransductiveKernelPrototypes(TransductiveClassifier, KernelPrototypes):
    """`KernelPrototypes` whose means of unseen classes are corrected by unlabelled samples.

    The pool is a mixture of balls, one per class, with the Gaussian process as the prior of their centres. EM assigns
    the samples to the classes and moves the centres of unseen ones; seen classes keep to their labelled samples. Where
    the pool did not help on tasks in which seen classes play unseen ones and held-out samples the pool, the answer is
    that of `KernelPrototypes`.

    Objective, with samples z_i of the pool, M the means of all classes and τ the temperature::

        Σ_i log Σ_c exp(−‖z_i − M_c‖²/2τ) + labelled samples − (σ²/2τ) tr Mᵀ(K + ν I)⁻¹M

    E-step: r_ic ∝ exp((γδ v_c − ‖z_i − M_c‖²/2)/τ), where v_c, the doubt about an unseen class's mean, is its posterior
    variance in units of the posterior variance for a class that has no samples: samples lie farther from a doubtful
    mean. M-step: M = (K + νI)(K + νI + diag(σ²/n))⁻¹ z̄, where the n_c = Σ_i r_ic pool samples of an unseen class count
    as n_c · cap/(cap + n_c), and for less if it takes far fewer than other classes do: it may not be in the pool. After
    every few steps the space is widened by the directions in which means of unseen classes have left the span of the
    seen ones. EM finds the nearest of many solutions, so it begins with τ raised by the variance of a predicted mean,
    and cools down to τ. It does so by random halves of the attributes as well, and continues from the mean of the r
    that these and all attributes lead to (two votes): a wrong name that hangs on a few attributes is outvoted. Then the
    maps are refitted with pseudo-labels (pool samples of which a class has more than half), and all of this is repeated
    in their space.

    A pool that lacks classes, or has few samples of some, is shared less evenly by the unseen classes, and names are
    given wrongly. It is believed with weight λ = (ρ/0.97)^8, between ¼ and 1; ρ is the perplexity of the unseen
    classes' shares Σ_i r_ic per class, over that of the labelled classes' sizes. If λ < 1, a mean becomes
    β_c M_c + (1 − β_c) times what labelled samples predict, β_c = 1 − (1 − a_c) min(1, 2 (1 − λ)), where a_c is the
    part of c's samples that the votes had given it; and the score is λ times the one below plus 1 − λ times that of the
    model without a pool. Both scores are squared distances, so this is one model in both spaces side by side.

    Score: −‖z − M_c‖²/2, for a seen class − γδ, for an unseen one of the pool − γδ (1 − v_c); with
    a pool of unseen classes only, v is the same for all.

    Parameters
    ----------
    setting : {"gzsl", "zsl"}
        What the pool may hold. "gzsl": samples of any class; "zsl": samples of unseen classes only.
    cap : float or None
        The most samples that a class's share of the pool counts as; 0: the pool is ignored. None: 10 or, where
        simulated tasks say so beyond their noise, 30.
    temperature : float
        τ, the variance of samples about their class's mean, in units of that within seen classes.
    rounds : int
        How many times the space is widened.
    pool_nugget : float
        ν, once there is a pool.
    halvings : int
        How many times the attributes are cut in two at random, for EM by each half; 0: EM by all of them is the answer.
    self_training : bool
        Whether the maps are refitted with labelled samples and with pool samples that EM has pseudo-labelled.
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
        M of the unseen classes that `fit` received.
    doubt_ : array (j,)
        v_c of these: 1 if only the description of a class is known, 0 if its mean is known.
    belief_ : float
        λ, how far the pool is believed: 1 in full, 0 not at all.
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
    >>> y = np.repeat([0, 1, 2, 3], 40)                     # classes 4 and 5 have descriptions, but no samples
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(160, 3))
    >>> pool = descriptions[[4, 5] * 20] + 0.1 * rng.normal(size=(40, 3))
    >>> model = TransductiveKernelPrototypes(setting="zsl", search=False)
    >>> model.fit(X, y, descriptions, X_unlabeled=pool).predict([[1.0, 0.1, 0.9]], classes=[4, 5])
    array([5])
    """

    reference = "firstsight 2026, after Dempster, Laird and Rubin, Maximum Likelihood from Incomplete Data, 1977"
    quick: ClassVar[dict[str, Any]] = {"search": False}

    # As the inductive method's, but n classes have a description or samples: k seen and u unseen ones.
    fitted_arrays: ClassVar[dict[str, str]] = {
        **KernelPrototypes.fitted_arrays,
        "kernel_/descriptions": "n a",
        "weights_": "n e",
        "unseen_means_": "u e",
        "doubt_": "u",
        "fitted_/weights?": "m i",
        "fitted_/unseen_means?": "u i",
    }
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "cap": [Range(float, at_least=0), None],
        "temperature": [Range(float, above=0)],
        "rounds": [Range(int, at_least=0)],
        "pool_nugget": [Range(float, above=0)],
        "halvings": [Range(int, at_least=0)],
        "self_training": [bool, np.bool_],
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
        settings, with_pool = self._choose(search), None
        if len(pool):
            n_classes = len(U) if self.setting == "zsl" else len(S) + len(U)
            with_pool = self._choose_pool_weight(search, settings, S, len(pool) / n_classes)
            settings, with_pool = with_pool.model, with_pool if with_pool.cap else None
        k, described = len(S), S if with_pool is None else np.vstack([S, U])
        self.kernel_ = {**fit_kernel(S), "descriptions": described}
        rotation, rows = search.rotated(settings.power)
        statistics = class_statistics(rows, y, labelled_moments(rows, y, k), settings.shrinkage)
        K = kernel(self.kernel_, described, described)
        model = fit_prototypes(statistics, K[:k, :k], settings, rows, y)
        self.unseen_means_, self.doubt_, self.belief_ = np.empty((0, model.means.shape[1])), np.empty(0), 0.0
        if with_pool is not None:
            solution = self._learn_from_pool(model, rows, y, rotation(pool), described, K, with_pool)
            model, self.unseen_means_, self.doubt_ = solution.model, solution.unseen_means, solution.doubt
        self._store(rotation, model)
        self._store_evidence(statistics, model.space, K[:k, :k], settings, rows, y)

    def _learn_from_pool(
        self,
        model: Prototypes,
        rows: np.ndarray,
        y: np.ndarray,
        pool: np.ndarray,
        described: np.ndarray,
        K: np.ndarray,
        settings: PoolSettings,
    ) -> PoolSolution:
        """EM, EM again after self-training and, as far as the pool is not believed, the model that was there before."""
        k, counts = len(model.means), np.bincount(y).astype(np.float64)

        def solve(model: Prototypes) -> PoolSolution:
            labelled = LabelledClasses(class_sums(model.space.features(rows), y, k), counts, K)
            problem = PoolProblem(model, labelled, model.space.features(pool), self.setting == "gzsl")
            return problem.solve_by_vote(settings, kernels_of_halves(described, k, self.halvings))

        first = solution = solve(model)
        if self.self_training and (settings.model.refinement or settings.model.hidden):
            solution = solve(refit_with_pseudo_labels(model, rows, y, pool, K, first.shares, settings))
        self.belief_ = measure_belief(solution.shares, counts)
        if self.belief_ == 1:
            return solution
        space = solution.model.space
        means = space.class_means(class_sums(space.features(rows), y, k), counts)
        alone = posterior_prototypes(space, means, counts, K[:k, :k], settings.model)
        anchored = anchor(solution, first.votes, K[k:, :k] @ alone.weights, self.belief_)
        return hedge(anchored, model, K, self.belief_, self._credit)

    @property
    def _credit(self) -> float:
        """The handicap of seen classes once there is a pool, in units of the inductive one."""
        return CREDIT if self.seen_handicap is None else 1.0

    def _choose_pool_weight(
        self, search: PrototypeSearch, inductive: PrototypeSettings, S: np.ndarray, pool_share: float
    ) -> PoolSettings:
        """Settings with the pool, or inductive ones with a cap of 0 if simulated tasks say that it does not help."""
        handicap = self.settings_["seen_handicap"]
        chosen = without = PoolSettings(inductive, handicap, self.temperature, self.rounds, self.pool_nugget, cap=0.0)
        if self.cap != 0:
            model = replace(
                inductive,
                shrinkage=POOL_SHRINKAGE if self.shrinkage is None else self.shrinkage,
                noise=POOL_NOISE if self.noise is None else self.noise,
            )
            handicap *= self._credit
            caps = CAPS if self.cap is None else (self.cap,)
            with_pool = [replace(without, model=model, seen_handicap=handicap, cap=cap) for cap in caps]
            chosen = with_pool[0]
            if self.search and search.tasks:
                trial = PoolTrial(search, S, self.setting == "gzsl", pool_share)
                chosen, report = trial.run(without, with_pool)
                self.search_ = {**self.search_, "pool": report}
        self.settings_ = chosen.plain()
        return chosen

    def _fit_state(self):
        return {**super()._fit_state(), "unseen_means": self.unseen_means_}

    def _restore_fit(self):
        if hasattr(self, "fitted_"):
            self.unseen_means_ = self.fitted_["unseen_means"]
        super()._restore_fit()

    def _set_other_means(self, means):
        self.unseen_means_ = means

    def _embed_classes(self, A):
        # A class whose mean the pool has corrected is recognised by its description, whatever its name is now.
        (means, certainty), corrected = super()._embed_classes(A), self.kernel_["descriptions"][len(self.seen_means_) :]
        index = match_rows(A, corrected)
        matched = index >= 0
        means[matched] = self.unseen_means_[index[matched]]
        certainty[matched] = 1 - self.doubt_[index[matched]]
        return means, certainty

    def _embed_described(self, A):
        return super()._embed_classes(A)

    def _export_predicted(self, graph, A):
        means, certainty = super()._export_predicted(graph, A)
        corrected = self.kernel_["descriptions"][len(self.seen_means_) :]
        if not len(corrected):
            return means, certainty
        # As `match_rows`.
        gaps = graph("Sub", graph("Unsqueeze", A, graph.constant([1], np.int64)), graph.constant(corrected[None]))
        gaps = graph("ReduceMax", graph("Abs", gaps), axes=[2], keepdims=0)  # (k, corrected)
        nearest = graph("ArgMin", gaps, axis=1, keepdims=0)
        least = graph("ReduceMin", gaps, axes=[1], keepdims=1)
        matched = graph("LessOrEqual", least, graph.constant(1e-6 * max(np.abs(corrected).max(), 1e-12)))
        pool_means, pool_certainty = (
            graph("Gather", graph.constant(values), nearest, axis=0)
            for values in (self.unseen_means_, 1 - self.doubt_[:, None])
        )
        return graph("Where", matched, pool_means, means), graph("Where", matched, pool_certainty, certainty)

"""A pool of unlabelled samples for the kernel prototypes: EM mixture, trial of the pool's weight, self-training.

The pool is a mixture of balls of variance τ, one per class, with the Gaussian process as the prior of their centres::

    E-step     r_ic ∝ exp((γδ v_c − ‖z_i − M_c‖²/2)/τ)
    M-step     M = (K + νI)(K + νI + diag(σ²/n))⁻¹ z̄,        n_c = trust_c · Σ_i r_ic for an unseen class c

v_c, the doubt, is the posterior variance of M_c in units of its mean over seen classes, each predicted from the others.
Seen classes keep to their labelled samples. trust_c = cap/(cap + Σ_i r_ic), less for a class with few pool samples.

The pool may lack classes. How evenly unseen classes share it says so (`measure_belief`); then means of doubtful names
move back to their predictions (`anchor`), and the model without the pool gets a say (`hedge`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import entr, softmax

from firstsight.methods._moments import class_sums
from firstsight.methods._simulated_tasks import SimulatedTask, beats
from firstsight.methods.kernel_prototypes.prior import (
    Prototypes,
    PrototypeSettings,
    closeness,
    error_unit,
    fit_kernel,
    kernel,
    leave_one_out_variances,
    mean_variances,
    mean_weights,
    posterior_prototypes,
    precision,
)
from firstsight.methods.kernel_prototypes.search import (
    HANDICAPS,
    PrototypeSearch,
    fit_prototypes,
)
from firstsight.methods.kernel_prototypes.space import (
    ClassStatistics,
    WhitenedSpace,
    class_statistics,
    labelled_moments,
    span_of_means,
    whitened_sums,
)

STEPS = 3  # of EM in each space
# A class that takes less than this share of what a quarter of the classes exceed is likely absent or rare, and what it
# takes is another's: its samples count for less. Chosen on folds of the training classes of three data sets.
FEW = 0.3
# Half of the attributes has no vote if it predicts seen classes' means with so many times the error of all of them.
WORSE = 1.5
# A sample is pseudo-labelled as the unseen class that takes more than this share of it.
PSEUDO_LABEL_SHARE = 0.5

# Settings that suit means which a pool has moved, whatever suited predicted ones; chosen, as the defaults of EM were,
# on outer folds of the training classes of six data sets. Searching for them in every fit took noise for gain: it lost
# 15 points where classes are few, and won one where they are many.
POOL_SHRINKAGE, POOL_NOISE = 0.45, 3.0
# Caps for a small and for a large weight of the pool. Many classes that are hard to tell apart lose by a large
# weight, and so do pools that lack classes; the gain of a larger one has to exceed so many standard errors.
CAPS, POOL_CERTAINTY = (10.0, 30.0), 1.0
# Of the inductive handicap: how much of it a class is credited with whose mean is as doubtful as a predicted one.
CREDIT = 0.5
# A pool is believed in full if unseen classes share it this evenly, compared to the labelled samples' classes; less, by
# this power, if they do not, and never less than this. Chosen on pools that lack classes, or have rare ones, in folds
# of the training classes of four data sets: EM then gives names wrongly, and its evenness falls by a tenth to a third.
EVEN, STEEPNESS, LEAST_BELIEF = 0.97, 8, 0.25


@dataclass(frozen=True)
class PoolSettings:
    """What a model with a pool is fitted with."""

    model: PrototypeSettings
    seen_handicap: float  # γ, in units of δ
    temperature: float  # τ
    rounds: int  # how many times the space is widened
    pool_nugget: float  # ν of EM
    cap: float  # the most samples that a class's share of the pool counts as; 0: the pool is ignored

    def plain(self) -> dict[str, float]:
        """Values by name, those of the model first."""
        values = asdict(self)
        return values.pop("model") | values


@dataclass(frozen=True)
class LabelledClasses:
    """What EM needs of labelled samples: class sums (k, q + h) of a space's features, counts (k,), and the kernel."""

    sums: np.ndarray
    counts: np.ndarray
    K: np.ndarray  # (k + j, k + j), of all classes: the k with samples first

    def precision(self, settings: PoolSettings) -> np.ndarray:
        """B⁻¹ (k, k) of the labelled classes alone: the same for all steps of EM."""
        k = len(self.counts)
        return precision(self.K[:k, :k] + settings.pool_nugget * np.eye(k), settings.model.noise / self.counts)


class PoolSolution(NamedTuple):
    """What EM ends with."""

    model: Prototypes  # of the labelled classes, in a widened space
    unseen_means: np.ndarray  # (j, e)
    doubt: np.ndarray  # (j,)
    shares: np.ndarray  # R (m, j)
    votes: np.ndarray  # (m, j): the shares that the kernels lead to, on average


@dataclass(frozen=True)
class PoolProblem:
    """An inductive model and the pool that corrects it, to be solved for any settings."""

    model: Prototypes
    labelled: LabelledClasses
    pool: np.ndarray  # (m, q + h): features of its samples in the model's space
    seen_too: bool  # whether the pool may hold samples of labelled classes

    def solve(self, settings: PoolSettings, start: np.ndarray | None = None) -> PoolSolution:
        """Run EM in rounds; before each, widen the space by the directions in which unseen means have left it.

        EM finds the nearest of many solutions, and with few classes it matters much which. So it begins with τ raised
        by the variance of a predicted mean, and cools down to τ; or it begins with the shares `start` (m, j).
        """
        temperature, handicap, space = settings.temperature, settings.seen_handicap, self.model.space
        k, inverse, heat = len(self.labelled.counts), self.labelled.precision(settings), 0.0
        if start is None:
            # The variance of a predicted mean in each direction of the span of the labelled classes' means.
            heat = 2 * self.model.unit / max(k - 1, 1)
            predicted = self.labelled.K[k:, :k] @ self.model.weights
            credit = np.full(len(predicted), handicap * self.model.unit)
            Z = space.project(self.pool)
            R = responsibilities(Z, self.model.means, predicted, credit, self.seen_too, temperature + heat)
        else:
            R = start
        for number in range(settings.rounds + 1):
            if number or start is not None:
                space = widen_space(self.model.space, self.labelled, self.pool, R)
            Z = space.project(self.pool)
            left = max(0.0, 1 - (number + 1) / max(1, settings.rounds))
            warm = temperature * (1 + heat / temperature) ** left
            for _ in range(STEPS):
                fitted, unseen, doubt = update_means(space, self.labelled, Z, R, settings, inverse)
                if not self.seen_too:  # credit counts against seen classes; among unseen ones it favoured rare ones
                    doubt = np.full_like(doubt, doubt.mean())
                R = responsibilities(Z, fitted.means, unseen, handicap * fitted.unit * doubt, self.seen_too, warm)
        return PoolSolution(fitted, unseen, doubt, R, R)

    def solve_by_vote(self, settings: PoolSettings, kernels: Iterable[np.ndarray]) -> PoolSolution:
        """As `solve`, begun with the mean of the shares that EM ends with: by these kernels of all classes, and by K.

        Clusters of a pool are found easily, and given wrong names easily. A name that hangs on a few attributes is
        outvoted by the kernels that do not know these; K, which knows all of them, has two votes.
        """
        solved, k, space = self.solve(settings), len(self.labelled.counts), self.model.space
        total, votes = 2 * solved.shares, 2
        means = space.class_means(self.labelled.sums, self.labelled.counts)
        for K in kernels:
            model = posterior_prototypes(space, means, self.labelled.counts, K[:k, :k], settings.model)
            if model.unit < WORSE * self.model.unit:
                problem = replace(self, model=model, labelled=replace(self.labelled, K=K))
                total += problem.solve(settings).shares
                votes += 1
        return self.solve(settings, total / votes)._replace(votes=total / votes) if votes > 2 else solved


def responsibilities(
    Z: np.ndarray,
    seen_means: np.ndarray,
    unseen_means: np.ndarray,
    credit: np.ndarray,
    seen_too: bool,
    temperature: float,
) -> np.ndarray:
    """E-step: the share (m, j) that every unseen class takes of each pool sample; seen classes may take the rest.

    `credit` (j,) is added to the unseen classes' scores: samples lie farther from a mean that is doubtful.
    """
    scores = closeness(Z, np.vstack([seen_means, unseen_means]) if seen_too else unseen_means)
    scores[:, -len(unseen_means) :] += credit.astype(scores.dtype)
    return softmax(scores / np.float32(temperature), axis=1)[:, -len(unseen_means) :]


def update_means(
    space: WhitenedSpace,
    labelled: LabelledClasses,
    Z: np.ndarray,
    R: np.ndarray,
    settings: PoolSettings,
    inverse: np.ndarray,
) -> tuple[Prototypes, np.ndarray, np.ndarray]:
    """M-step: the labelled classes' prototypes, the unseen classes' means (j, e) and the doubt (j,) about these.

    From labelled samples and the shares R (m, j) of pool samples Z; `inverse` is `labelled.precision(settings)`.
    """
    k, (counts, sums) = len(labelled.counts), mixture_class_sums(space, labelled, Z, R, settings.cap)
    observed = counts > 1e-3
    prior = labelled.K + settings.pool_nugget * np.eye(len(counts))
    noise, means = settings.model.noise / counts[observed], sums[observed] / counts[observed, None]
    among = prior[np.ix_(observed, observed)]
    weights = np.zeros_like(sums)
    weights[observed] = mean_weights(among, noise, means)
    posterior = prior @ weights
    variances = mean_variances(among, noise, prior[k:, observed], np.diag(prior)[k:])
    doubt = variances / leave_one_out_variances(inverse, noise[:k]).mean()
    return Prototypes(space, posterior[:k], weights, error_unit(inverse, means[:k])), posterior[k:], doubt


def mixture_class_sums(
    space: WhitenedSpace, labelled: LabelledClasses, Z: np.ndarray, R: np.ndarray, cap: float
) -> tuple[np.ndarray, np.ndarray]:
    """Samples of each class, as many as they count as (k + j,), and their sums (k + j, e) in the space that Z is in.

    However many pool samples a class takes, they count as fewer than `cap`: its description keeps a say.
    """
    share = R.sum(axis=0, dtype=np.float64)
    trust = cap / (cap + share) * np.minimum(1, share / max(FEW * np.quantile(share, 0.75), 1e-12)) ** 2
    sums = labelled.sums @ space.projection.astype(np.float64) - labelled.counts[:, None] * space.offset
    return np.concatenate([labelled.counts, trust * share]), np.vstack([sums, trust[:, None] * (R.T @ Z)])


def widen_space(space: WhitenedSpace, labelled: LabelledClasses, pool: np.ndarray, R: np.ndarray) -> WhitenedSpace:
    """The space, and the directions across it in which the pool's class means differ from the labelled classes'."""
    share, q = R.sum(axis=0), len(space.whitening)
    means = (R.T @ pool[:, :q])[share > 0.5] / share[share > 0.5, None]
    centre = (labelled.sums[:, :q] / labelled.counts[:, None]).mean(axis=0)
    inside, across = space.basis, means - centre
    across = across - across @ inside @ inside.T
    U, size, _ = np.linalg.svd(across.T, full_matrices=False)
    U = U[:, size > 1e-6 * max(size[:1].sum(), 1e-12)][:, : q - inside.shape[1]]
    # The new directions are as long as the old ones are on average; two maps side by side share a direction's length.
    return space.widened(U * (np.linalg.norm(space.directions) / inside.shape[1] ** 0.5), centre)


def evenness(sizes: np.ndarray) -> float:
    """The perplexity of class sizes (k,), per class: 1 if all are the same, 1/k if one class has all samples."""
    shares = sizes / max(sizes.sum(), 1e-12)
    return float(np.exp(entr(shares).sum()) / len(sizes))


def measure_belief(R: np.ndarray, counts: np.ndarray) -> float:
    """λ, how far a pool with the shares R (m, j) is believed, where labelled classes have `counts` (k,) samples.

    A pool that lacks classes leaves these little, or part of what is another's; either way shares are less even.
    """
    ratio = evenness(R.sum(axis=0, dtype=np.float64)) / evenness(counts)
    return float(np.clip((ratio / EVEN) ** STEEPNESS, LEAST_BELIEF, 1.0))


def anchor(solution: PoolSolution, votes: np.ndarray, predicted: np.ndarray, belief: float) -> PoolSolution:
    """The solution with means β_c M_c + (1 − β_c) p_c, where p (j, e) is what labelled samples alone predict.

    β_c = 1 − (1 − a_c) min(1, 2 (1 − λ)). a_c is the part of what class c takes that the votes (m, j) had given it: a
    name on which kernels do not agree may be that of a class which the pool lacks. The form is StatA's (CVPR 2025).
    """
    share = solution.shares.sum(axis=0, dtype=np.float64)
    agreement = (solution.shares * votes).sum(axis=0, dtype=np.float64) / np.maximum(share, 1e-12)
    beta = 1 - (1 - agreement) * min(1.0, 2 * (1 - belief))
    means = beta[:, None] * solution.unseen_means + (1 - beta[:, None]) * predicted
    return solution._replace(unseen_means=means, doubt=1 - beta * (1 - solution.doubt))


def hedge(solution: PoolSolution, model: Prototypes, K: np.ndarray, belief: float, credit: float) -> PoolSolution:
    """The solution whose scores are λ times those of `solution`, and 1 − λ times those of `model`, which met no pool.

    Scores are squared distances, which add up: that is one model, in both spaces side by side. `credit` is the handicap
    of `solution` in units of that of `model`; the doubt is that of a class whose handicap is the sum of both.
    """
    fitted, k, a, b = solution.model, len(model.means), np.sqrt(belief), np.sqrt(1 - belief)
    weights = np.vstack([model.weights, np.zeros((len(fitted.weights) - k, model.weights.shape[1]))])
    unit = belief * fitted.unit + (1 - belief) * model.unit / credit
    both = Prototypes(
        fitted.space.beside(model.space, a, b),
        np.hstack([a * fitted.means, b * model.means]),
        np.hstack([a * fitted.weights, b * weights]),
        unit,
    )
    means = np.hstack([a * solution.unseen_means, b * (K[k:, :k] @ model.weights)])
    doubt = 1 - belief * fitted.unit / max(unit, 1e-12) * (1 - solution.doubt)
    return solution._replace(model=both, unseen_means=means, doubt=doubt)


class PoolTrial:
    """Simulated tasks, each with a pool, for a comparison of answers with and without it."""

    def __init__(self, search: PrototypeSearch, S: np.ndarray, seen_too: bool, pool_share: float):
        """`pool_share`: the real pool's samples per class that it may hold."""
        self.search, self.S, self.seen_too = search, S, seen_too
        self.pools = [task.pool(seen_too, pool_share) for task in search.tasks]

    def run(self, without: PoolSettings, with_pool: list[PoolSettings]) -> tuple[PoolSettings, dict[str, Any]]:
        """The settings taken, and the scores of all on each task; the weight of the pool rises along `with_pool`.

        A larger weight has to beat a smaller one beyond the noise between tasks; what is left then has to be better
        than no pool.
        """
        settings = [without, *with_pool]
        by_task = [self._values(number, task, without, with_pool) for number, task in enumerate(self.search.tasks)]
        scores = np.array(by_task).T  # (settings, tasks)
        best = 1
        for number in range(2, len(settings)):
            best = number if beats(scores[number], scores[best], POOL_CERTAINTY) else best
        taken = best if scores[best].mean() > scores[0].mean() else 0
        tried = [
            {"settings": s.plain(), "scores": np.round(scores[i], 5).tolist(), "taken": i == taken}
            for i, s in enumerate(settings)
        ]
        return settings[taken], {"tasks": len(self.pools), "chosen": settings[taken].plain(), "tried": tried}

    def _values(
        self, number: int, task: SimulatedTask, without: PoolSettings, with_pool: list[PoolSettings]
    ) -> list[float]:
        """H, or T1 if the pool holds unseen classes only, of the answer without a pool and of those with one."""
        t1, curve = self.search.held_out_metrics(number, without.model)
        values = [float(np.interp(without.seen_handicap, HANDICAPS, curve)) if self.seen_too else t1]
        problem, test = self._problem(number, task, with_pool[0].model)  # they differ in their caps alone
        for settings in with_pool:
            solution = problem.solve(settings)
            model = solution.model
            scores = model.scores(model.space.project(test), solution.unseen_means)
            scores[:, task.seen :] += (settings.seen_handicap * model.unit * solution.doubt).astype(scores.dtype)
            scored = task.scored(scores)
            values.append(float(scored.trade_off(np.zeros(1)).h[1] if self.seen_too else scored.t1 or 0.0))
        return values

    def _problem(self, number: int, task: SimulatedTask, settings: PrototypeSettings) -> tuple[PoolProblem, np.ndarray]:
        """A task's inductive model with its pool, and the features of its test samples."""
        k, y, (train, test) = task.seen, task.y_train, self.search.held_out_rows(number, settings.power)
        statistics = class_statistics(train, y, labelled_moments(train, y, k), settings.shrinkage)
        described = self.S[task.classes]
        K = kernel(fit_kernel(described[:k]), described, described)
        model = fit_prototypes(statistics, K[:k, :k], settings, train, y)
        labelled = LabelledClasses(class_sums(model.space.features(train), y, k), statistics.counts, K)
        test = model.space.features(test)
        return PoolProblem(model, labelled, test[self.pools[number]], self.seen_too), test


def pseudo_labels(R: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row numbers of the pseudo-labelled samples, the position of each one's class among `classes`, and `classes`.

    One sample alone says nothing of how samples of a class differ, so such a class is left out.
    """
    rows = np.flatnonzero(R.max(axis=1, initial=0) > PSEUDO_LABEL_SHARE)
    labels = R[rows].argmax(axis=1)
    classes = np.flatnonzero(np.bincount(labels, minlength=R.shape[1]) > 1)
    kept = np.isin(labels, classes)
    return rows[kept], np.searchsorted(classes, labels[kept]), classes


def refit_with_pseudo_labels(
    model: Prototypes,
    rows: np.ndarray,
    y: np.ndarray,
    pool: np.ndarray,
    K: np.ndarray,
    R: np.ndarray,
    settings: PoolSettings,
) -> Prototypes:
    """The model of the k labelled classes in a space whose maps were learned from pseudo-labelled samples as well.

    Whitening stays that of the labelled samples: refitted with the pool, it lost up to 25 points where classes are few.
    K is the kernel of all classes, the k with labelled samples first.
    """
    k, (chosen, codes, classes) = len(model.means), pseudo_labels(R)
    both, y_both = np.vstack([rows, pool[chosen]]), np.concatenate([y, k + codes])
    known = np.concatenate([np.arange(k), k + classes])
    counts = np.bincount(y_both, minlength=len(known)).astype(np.float64)
    sums = whitened_sums(both, y_both, len(known), model.space.whitening)
    space = span_of_means(model.space.whitening, sums[:k], counts[:k], sums[k:] / counts[k:, None])
    counted = np.concatenate([counts[:k], counts[k:] * settings.cap / (settings.cap + counts[k:])])
    statistics = ClassStatistics(space, space.class_means(sums, counts), counted, (sums / counts[:, None]).mean(axis=0))
    space = fit_prototypes(statistics, K[np.ix_(known, known)], settings.model, both, y_both).space
    means = space.class_means(class_sums(space.features(rows), y, k), counts[:k])
    return posterior_prototypes(space, means, counts[:k], K[:k, :k], settings.model)

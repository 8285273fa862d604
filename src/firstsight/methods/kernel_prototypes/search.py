"""Fit class prototypes with given settings, and search for settings on simulated zero-shot tasks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from firstsight._io.disk_samples import ChangedRows
from firstsight.methods.kernel_prototypes.maps import episodic_map, hidden_layer
from firstsight.methods.kernel_prototypes.prior import (
    fit_kernel,
    kernel,
    leave_one_out_errors,
    mean_squared_error,
    mean_weights,
    precision,
)
from firstsight.methods.kernel_prototypes.space import (
    Moments,
    Rotation,
    Space,
    as_learned_from,
    leading_directions,
    moments_of,
    span_of_means,
    whitened_sums,
)

# Zero-shot tasks cut from labelled rows: some seen classes play unseen ones, some other rows play test rows.

# A quarter of the classes plays unseen, a fifth of the others' rows plays test rows: the customary splits' shares.
UNSEEN_SHARE, HELD_OUT = 0.25, 0.2
FEWEST_CLASSES = 4  # two to learn from and two to tell apart
# Twelve folds overturned what three had chosen where classes are few; where they are many, four say the same.
CLASSES_WANTED, FEWEST_TASKS, MOST_TASKS = 100, 4, 12


@dataclass(frozen=True)
class SimulatedTask:
    """Codes of the classes, the ones with rows first, and the rows of either kind."""

    classes: np.ndarray  # (k,): codes in the whole task; the first `seen` play seen classes
    seen: int
    train: np.ndarray  # row numbers
    test: np.ndarray
    y_train: np.ndarray  # positions in `classes`
    y_test: np.ndarray

    @property
    def unseen_rows(self) -> np.ndarray:
        """Whether each test row is of a class that plays unseen."""
        return self.y_test >= self.seen


def simulate_tasks(y: np.ndarray) -> list[SimulatedTask]:
    """Class-wise tasks, the same for the same y; none if there are fewer than FEWEST_CLASSES classes.

    Those that have played unseen least often are drawn first, so that none does so twice more than another.
    """
    k = int(y.max()) + 1
    if k < FEWEST_CLASSES:
        return []
    rng = np.random.default_rng(0)
    held = min(max(2, round(UNSEEN_SHARE * k)), k - 2)
    count = int(np.clip(np.ceil(CLASSES_WANTED / held), FEWEST_TASKS, MOST_TASKS))
    test_row = _some_of_each_class(y, rng)
    times, tasks = np.zeros(k, dtype=int), []
    for _ in range(count):
        order = rng.permutation(k)
        unseen = order[np.argsort(times[order], kind="stable")][:held]
        times[unseen] += 1
        tasks.append(_task(y, k, unseen, test_row))
    return tasks


def _some_of_each_class(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Which rows play test rows of seen classes (n,): a fifth of each class, rounded, never all of it."""
    counts = np.bincount(y)
    return _ranks(y, rng) < np.minimum(np.maximum(np.round(HELD_OUT * counts), 1), counts - 1)[y]


def sample_of_classes(y: np.ndarray, most: int) -> np.ndarray:
    """Numbers of at most `most` rows, ascending: equally many of each class, or all that it has; never less than two.

    The same for the same y.
    """
    counts = np.bincount(y)
    each = bisect_right(range(counts.max() + 1), most, key=lambda each: np.minimum(counts, each).sum()) - 1
    return np.flatnonzero(_ranks(y, np.random.default_rng(0)) < max(each, 2))


def _ranks(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The place of each row (n,) among the rows of its class, in an order that is drawn."""
    order = rng.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    counts = np.bincount(y)
    ranks = np.empty(len(y), dtype=np.intp)
    ranks[order] = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    return ranks


def _task(y: np.ndarray, k: int, unseen: np.ndarray, test_row: np.ndarray) -> SimulatedTask:
    seen = np.setdiff1d(np.arange(k), unseen)
    place = np.empty(k, dtype=np.intp)
    place[np.concatenate([seen, unseen])] = np.arange(k)
    position = place[y]
    new = position >= len(seen)
    train, test = np.flatnonzero(~new & ~test_row), np.flatnonzero(new | test_row)
    return SimulatedTask(np.concatenate([seen, unseen]), len(seen), train, test, position[train], position[test])


def class_weights(truth: np.ndarray) -> np.ndarray:
    """One share per row that makes a sum over rows a mean over classes of per-class means."""
    _, codes, counts = np.unique(truth, return_inverse=True, return_counts=True)
    return 1 / (counts[codes] * len(counts))


def harmonic(ts, tr):
    """2·ts·tr / (ts + tr), zero where both are."""
    return 2 * ts * tr / np.maximum(ts + tr, 1e-12)


def unseen_accuracy(scores: np.ndarray, task: SimulatedTask) -> float:
    """T1: the mean per-class accuracy of the unseen classes' rows among these classes."""
    new = task.unseen_rows
    truth = task.y_test[new]
    return float(class_weights(truth) @ (task.seen + scores[new, task.seen :].argmax(axis=1) == truth))


def harmonic_curve(scores: np.ndarray, task: SimulatedTask, constants: np.ndarray) -> np.ndarray:
    """H when each of the (ascending) constants is taken off the scores of the seen classes."""
    new, old_best = task.unseen_rows, scores[:, : task.seen].max(axis=1)
    gap = old_best - scores[:, task.seen :].max(axis=1)  # the constant at which a row changes sides
    right_old = scores[:, : task.seen].argmax(axis=1) == task.y_test
    right_new = task.seen + scores[:, task.seen :].argmax(axis=1) == task.y_test
    side = np.searchsorted(constants, gap)  # the first constant that sends the row to the unseen classes

    def reached(rows, right):
        weights = class_weights(task.y_test[rows]) * right[rows]
        return np.bincount(side[rows], weights=weights, minlength=len(constants) + 1)[:-1].cumsum(), weights.sum()

    ts, _ = reached(new, right_new)
    lost, all_of_it = reached(~new, right_old)
    return harmonic(ts, np.maximum(all_of_it - lost, 0))


# Choosing settings one at a time on simulated tasks, where a change has to beat the noise between tasks.

# A change must gain this much (accuracies are fractions) and half a standard error of the gain over the tasks. With a
# whole one, four tasks could not tell a gain of two points.
MARGIN, CERTAINTY = 0.001, 0.5
# Tasks that share classes say less than as many that do not: with a quarter of the classes playing unseen in each, no
# more than four share none.
APART = 4

Settings = dict[str, float]


def coordinate_search(
    start: Settings, options: dict[str, tuple[float, ...]], value: Callable[[Settings], np.ndarray]
) -> tuple[Settings, list[dict[str, Any]]]:
    """The settings found from `start`, and a line for everything tried: setting, its score on each task, taken or not.

    One pass over `options` in their order. `value(settings)` gives one score per task, higher is better.
    """
    best, tried = dict(start), []
    best_value = value(best)
    tried.append({"settings": dict(best), "scores": _plain(best_value), "taken": True})
    for name, values in options.items():
        challengers = [{**best, name: v} for v in values if v != best[name]]
        reached = [value(settings) for settings in challengers]
        for settings, scores in zip(challengers, reached, strict=True):
            tried.append({"settings": settings, "scores": _plain(scores), "taken": False})
        if not reached:
            continue
        winner = int(np.argmax([scores.mean() for scores in reached]))
        if beats(reached[winner], best_value):
            best, best_value = challengers[winner], reached[winner]
            tried[len(tried) - len(reached) + winner]["taken"] = True
    return best, tried


def beats(challenger: np.ndarray, holder: np.ndarray, certainty: float = CERTAINTY) -> bool:
    """Whether the gain over the tasks is more than a margin and its own uncertainty."""
    gain = challenger - holder
    error = gain.std(ddof=1) / np.sqrt(min(len(gain), APART)) if len(gain) > 1 else 0.0
    return bool(gain.mean() > MARGIN + certainty * error)


def _plain(scores: np.ndarray) -> list[float]:
    return [round(float(score), 5) for score in scores]


# One prototype per class in a whitened space: fitted with given settings, and searched for on simulated tasks.

# Where the search begins, and what it tries, in this order.
START: Settings = {
    "power": 0.5,
    "shrinkage": 0.5,
    "nugget": 0.05,
    "noise": 2.0,
    "stretch": 1.0,
}
OPTIONS: dict[str, tuple[float, ...]] = {
    "shrinkage": (0.15, 0.3, 0.5, 0.7, 0.85),
    "power": (0.5, 1.0),
    "nugget": (0.01, 0.02, 0.05, 0.1, 0.3),
    "noise": (0.7, 2.0, 5.0),
    "stretch": (0.8, 0.9, 1.0, 1.1, 1.25),
}
OF_MODEL = (*START, "refinement", "hidden")  # all that a model without a pool is fitted with, in this order
HANDICAPS = np.linspace(0, 1.2, 121)  # in units of δ
UNITS = 512  # of a hidden layer, if simulated tasks want one
HANDICAP = 0.3  # where no simulated task can say


@dataclass(frozen=True)
class ClassStatistics:
    """What labelled rows say in a space: the mean and the number of rows of each class."""

    space: Space
    means: np.ndarray  # (k, e)
    counts: np.ndarray  # (k,)


@dataclass(frozen=True)
class Prototypes:
    """A fitted model of k labelled classes."""

    space: Space
    means: np.ndarray  # (k, e): of the labelled classes, after what their rows and each other say
    weights: np.ndarray  # (k, e): the kernel of any other class with the labelled ones, times this, is its mean
    unit: float  # δ: what a predicted mean's error costs in score

    def scores(self, Z: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """Scores (n, k + j) of the labelled classes and of those whose predicted means (j, e) are given."""
        return closeness(Z, np.vstack([self.means, predicted]))


def closeness(Z: np.ndarray, means: np.ndarray) -> np.ndarray:
    """−‖z − mean‖²/2 (n, k), in the precision of Z."""
    means = means.astype(Z.dtype)
    squares = np.einsum("ij,ij->i", Z, Z)[:, None] + np.einsum("ij,ij->i", means, means)
    squares /= 2
    return np.subtract(Z @ means.T, squares, out=squares)


def class_statistics(
    rows: np.ndarray | ChangedRows, y: np.ndarray, moments: Moments, shrinkage: float
) -> ClassStatistics:
    """The whitened space of labelled rotated rows; their moments are given, as they serve every shrinkage."""
    whitening = moments.whitening(shrinkage)
    sums = whitened_sums(rows, y, len(moments.counts), whitening)
    space = span_of_means(whitening, sums, moments.counts)
    means = sums / moments.counts[:, None] @ space.directions.astype(np.float64) - space.offset
    return ClassStatistics(space, means, moments.counts)


def fit_prototypes(statistics: ClassStatistics, K: np.ndarray, settings: Settings, rows, y) -> Prototypes:
    """Means by the Gaussian process with kernel K (k, k), in the space turned by the episodic map if there is one.

    With a hidden layer, in that space and the layer's side by side, each in its own unit: their scores add up.
    """
    space, means, noise_of = statistics.space, statistics.means, settings["noise"] / statistics.counts
    nugget, steps, units = settings["nugget"], int(settings["refinement"]), int(settings["hidden"])
    among = K + nugget * np.eye(len(K))
    if steps:
        T = episodic_map(space(rows[:]), y, means, K, noise_of, nugget, settings["stretch"], steps)
        space, means = space.turned(T), means @ T
    if units:
        layer, offset, more = hidden_layer(rows[:], y, among, noise_of, units)
        ratio = _unit(among, noise_of, means) / max(_unit(among, noise_of, more), 1e-12)
        shares = np.sqrt(0.5), np.sqrt(0.5 * ratio)
        space, means = space.beside(layer, offset, *shares), np.hstack([shares[0] * means, shares[1] * more])
    return prototypes_of(space, means, K, noise_of, settings)


def prototypes_of(space: Space, means: np.ndarray, K: np.ndarray, noise_of, settings: Settings) -> Prototypes:
    """What the Gaussian process makes of the labelled classes' means (k, e) in a space."""
    among = K + settings["nugget"] * np.eye(len(K))
    weights = mean_weights(among, noise_of, means)
    return Prototypes(space, among @ weights, settings["stretch"] * weights, _unit(among, noise_of, means))


def labelled_prototypes(
    space: Space, sums: np.ndarray, counts: np.ndarray, K: np.ndarray, settings: Settings
) -> Prototypes:
    """Prototypes of the labelled classes in any space, from sums (k, q + h) of what it reads."""
    means = sums / counts[:, None] @ space.projection.astype(np.float64) - space.offset
    return prototypes_of(space, means, K, settings["noise"] / counts, settings)


def _unit(among: np.ndarray, noise_of: np.ndarray, means: np.ndarray) -> float:
    return mean_squared_error(leave_one_out_errors(precision(among, noise_of), means)) / 2


class PrototypeSearch:
    """The search over simulated tasks, which share rotations, spaces and kernels between the settings tried.

    It keeps rotated rows in memory, and rows on the disk it reads again for every power and task: of many, it is given
    a sample (`affordable_rows`).
    """

    def __init__(self, X: np.ndarray | ChangedRows, y: np.ndarray, S: np.ndarray, components: int):
        self.X, self.y, self.components = X, y, components
        self.tasks = simulate_tasks(y)
        self.kernels = [_task_kernel(task, S) for task in self.tasks]
        self.rotated: dict[float, tuple[Rotation, np.ndarray]] = {}
        self.rotated_apart: dict[tuple[int, float], Rotation] = {}
        self.figures: dict[tuple, tuple[float, np.ndarray]] = {}
        self.moments: dict[tuple, Moments] = {}
        self.statistics: dict[tuple, tuple[ClassStatistics, np.ndarray]] = {}

    def rows(self, power: float) -> tuple[Rotation, np.ndarray]:
        """The rotation for a power and the rotated labelled rows."""
        if power not in self.rotated:
            rotation = leading_directions([self.X], power, self.components)
            self.rotated[power] = rotation, rotation(self.X)
        return self.rotated[power]

    def run(
        self, start: Settings, options: dict[str, tuple[float, ...]], units: int = 0
    ) -> tuple[Settings, dict[str, Any]]:
        """The settings chosen, the handicap of seen classes among them, and what was tried.

        Settings are compared without the episodic map: it costs more than all else and hardly changes their order.
        """
        chosen, tried = coordinate_search(start, options, self.value)
        # A power bends rows so that a linear map can use them; a layer bends them itself, and does better without.
        layered = {**chosen, "hidden": units, **({"power": 1.0} if "power" in options else {})}
        gains = self.layer_gains(layered, chosen) if units else np.zeros(0)
        if len(gains) == len(self.tasks) and beats(gains, np.zeros(len(gains))):
            chosen = layered
        chosen = {**chosen, "seen_handicap": self.handicap(chosen)}
        told = {"tasks": len(self.tasks), "chosen": chosen, "tried": tried, "gains_of_layer": gains.round(5).tolist()}
        return chosen, told

    def layer_gains(self, with_layer: Settings, without: Settings) -> np.ndarray:
        """What a hidden layer gains on one task after the other, to the first at which it has lost on their mean.

        It takes seconds to learn, and gains or costs several points: where it is of no use, one task mostly says so.
        """
        gains: list[float] = []
        while len(gains) < len(self.tasks) and (not gains or np.mean(gains) > 0):
            gains.append(self._gain(len(gains), with_layer, without))
        return np.array(gains)

    def _gain(self, number: int, one: Settings, other: Settings) -> float:
        """By how much (T1 + H)/2 is higher, H with the handicap that is best for it."""
        (t1, curve), (t1_other, curve_other) = self.apart_figures(number, one), self.apart_figures(number, other)
        return (t1 + curve.max() - t1_other - curve_other.max()) / 2

    def value(self, settings: Settings) -> np.ndarray:
        """(T1 + H)/2 on each task; H with the one handicap that is best over all of them."""
        t1, curves = [], []
        for number, (task, (K, across)) in enumerate(zip(self.tasks, self.kernels, strict=True)):
            statistics, test = self.statistics_of(number, task, settings)
            model = fit_prototypes(statistics, K, {**settings, "refinement": 0, "hidden": 0}, None, task.y_train)
            scores = model.scores(test, across @ model.weights)
            t1.append(unseen_accuracy(scores, task))
            curves.append(_curve(model, scores, task))
        return (np.array(t1) + np.array(curves)[:, np.mean(curves, axis=0).argmax()]) / 2

    def handicap(self, settings: Settings) -> float:
        """The one that is best over all tasks, each in a rotation that its test rows have not taken part in."""
        curves = [self.apart_figures(number, settings)[1] for number in range(len(self.tasks))]
        mean = np.mean(curves, axis=0)
        return float(HANDICAPS[mean.argmax()]) if mean.max() > 0 else HANDICAP

    def apart_figures(self, number: int, settings: Settings) -> tuple[float, np.ndarray]:
        """T1 and H by handicap of a task in a rotation that its test rows have not taken part in."""
        key = number, *sorted(settings.items())
        if key not in self.figures:
            task, (K, across) = self.tasks[number], self.kernels[number]
            (train, test), y = self.apart(number, settings["power"]), task.y_train
            statistics = class_statistics(train, y, moments_of(train, y, task.seen), settings["shrinkage"])
            model = fit_prototypes(statistics, K, settings, train, y)
            scores = model.scores(model.space(test), across @ model.weights)
            self.figures[key] = unseen_accuracy(scores, task), _curve(model, scores, task)
        return self.figures[key]

    def apart(self, number: int, power: float) -> tuple[np.ndarray, np.ndarray]:
        """A task's training rows and test rows in a rotation that the latter have not taken part in.

        They do take part in that of `rows`, which is harmless for a comparison. But it brings rows of unseen classes
        nearer, and γ then comes out too low: by 0.2 with 50 rows per class, at 3 to 12 points of H.
        """
        task, key = self.tasks[number], (number, power)
        if key not in self.rotated_apart:
            self.rotated_apart[key] = as_learned_from(self.X[task.train], self.rows(power)[0])
        rotation = self.rotated_apart[key]
        return rotation(self.X[task.train]), rotation(self.X[task.test])

    def statistics_of(self, number: int, task: SimulatedTask, settings: Settings):
        """The class statistics of a task and its test rows in their space."""
        key = number, settings["power"], settings["shrinkage"]
        if key not in self.statistics:
            rows, y = self.rows(settings["power"])[1], task.y_train
            train = rows[task.train]
            if key[:2] not in self.moments:
                self.moments[key[:2]] = moments_of(train, y, task.seen)
            statistics = class_statistics(train, y, self.moments[key[:2]], settings["shrinkage"])
            self.statistics[key] = statistics, statistics.space(rows[task.test])
        return self.statistics[key]


def affordable_rows(memory: int, d: int, k: int, components: int) -> int:
    """Rows that the search and the episodic map can look at within `memory` bytes."""
    # Numbers per row: as read, and without their mean; rotated by two powers, parts of one task, on their way into its
    # space; among the means of classes, for every task, power and shrinkage that is tried, and scored. Measured: less.
    return memory // (4 * (2 * d + 5 * min(d, components) + 12 * max(k, 100)))


def _curve(model: Prototypes, scores: np.ndarray, task: SimulatedTask) -> np.ndarray:
    return harmonic_curve(scores / np.float32(max(model.unit, 1e-12)), task, HANDICAPS)


def _task_kernel(task: SimulatedTask, S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """K among the classes that play seen ones, and of the others with them; units come from the former alone."""
    seen, unseen = S[task.classes[: task.seen]], S[task.classes[task.seen :]]
    fitted = fit_kernel(seen)
    return kernel(fitted, seen, seen), kernel(fitted, unseen, seen)

"""One prototype per class in a whitened space: fitted with given settings, and searched for on simulated tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from firstsight.disk_rows import ChangedRows
from firstsight.methods.parts.class_mean_prior import leave_one_out_errors, mean_squared_error, mean_weights, precision
from firstsight.methods.parts.coordinate_search import Settings, beats, coordinate_search
from firstsight.methods.parts.description_kernel import fit_kernel, kernel
from firstsight.methods.parts.episodes import episodic_map
from firstsight.methods.parts.hidden_layer import hidden_layer
from firstsight.methods.parts.powered_rows import Rotation, as_learned_from, leading_directions
from firstsight.methods.parts.simulated_tasks import SimulatedTask, harmonic_curve, simulate_tasks, unseen_accuracy
from firstsight.methods.parts.whitened_space import Moments, Space, moments_of, span_of_means, whitened_sums

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

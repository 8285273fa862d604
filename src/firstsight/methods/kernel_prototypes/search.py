"""The search for settings on simulated zero-shot tasks.

The coordinate search changes one setting after the other and keeps what raises (T1 + H)/2 by more than the noise
between tasks, by far more where classes are few. The same tasks then say whether a hidden layer gains, and choose the
handicap γ of the seen classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from firstsight._io.disk_samples import ChangedSamples
from firstsight.methods._simulated_tasks import CERTAINTY, SimulatedTask, beats, simulate_tasks
from firstsight.methods.kernel_prototypes.maps import episodic_map, hidden_layer
from firstsight.methods.kernel_prototypes.prior import (
    Prototypes,
    PrototypeSettings,
    error_unit,
    fit_kernel,
    kernel,
    posterior_prototypes,
    precision,
)
from firstsight.methods.kernel_prototypes.space import (
    ClassStatistics,
    LabelledMoments,
    Rotation,
    class_statistics,
    fit_rotation,
    labelled_moments,
    refit_rotation,
)

# What the search tries, in this order.
OPTIONS: dict[str, tuple[float, ...]] = {
    "shrinkage": (0.15, 0.3, 0.5, 0.7, 0.85),
    "power": (0.5, 1.0),
    "nugget": (0.01, 0.02, 0.05, 0.1, 0.3),
    "noise": (0.7, 2.0, 5.0),
    "stretch": (0.8, 0.9, 1.0, 1.1, 1.25),
}
HANDICAPS = np.linspace(0, 1.2, 121)  # in units of δ
USUAL_HANDICAP = 0.3  # where no simulated task can say
UNITS = 512  # of a hidden layer, if simulated tasks want one
# With fewer classes than this, a gain must be surer: all tasks share them, and the error of a mean over tasks does not
# know that other classes would have said something else.
FEW_CLASSES = 20


def hurdle(k: int) -> float:
    """How many standard errors a setting must gain to be taken, with k classes."""
    return CERTAINTY * max(1.0, FEW_CLASSES / k) ** 2


def affordable_rows(memory: int, d: int, k: int, components: int) -> int:
    """Samples that the search and the episodic map can look at within `memory` bytes."""
    # Numbers per sample: as read, and without their mean; rotated by two powers, parts of one task, on their way into
    # its space; among the means of classes, for every task, power and shrinkage that is tried, and scored. Measured:
    # less.
    return memory // (4 * (2 * d + 5 * min(d, components) + 12 * max(k, 100)))


def fit_prototypes(
    statistics: ClassStatistics,
    K: np.ndarray,
    settings: PrototypeSettings,
    rows: np.ndarray | ChangedSamples,
    y: np.ndarray,
    T: np.ndarray | None = None,
) -> Prototypes:
    """The posterior with kernel K (k, k), in the space transformed by the episodic map if there is one; `T`, if known.

    With a hidden layer, in that space and the layer's side by side, each in its own unit: their scores add up.
    """
    space, means, noise = statistics.space, statistics.means, settings.noise / statistics.counts
    if settings.refinement:
        if T is None:
            T = episodic_map(space(rows[:]), y, means, K, noise, settings)
        space, means = space.transformed(T), means @ T
    if settings.hidden:
        prior = K + settings.nugget * np.eye(len(K))
        layer, offset, layer_means = hidden_layer(rows[:], y, prior, noise, settings.hidden)
        inverse = precision(prior, noise)
        ratio = error_unit(inverse, means) / max(error_unit(inverse, layer_means), 1e-12)
        shares = np.sqrt(0.5), np.sqrt(0.5 * ratio)
        space = space.joined(layer, offset, *shares)
        means = np.hstack([shares[0] * means, shares[1] * layer_means])
    return posterior_prototypes(space, means, statistics.counts, K, settings)


def coordinate_search(
    start: PrototypeSettings,
    options: Mapping[str, tuple[float, ...]],
    value: Callable[[PrototypeSettings], np.ndarray],
    certainty: float = CERTAINTY,
) -> tuple[PrototypeSettings, list[dict[str, Any]]]:
    """The settings found from `start`, and an entry for all that was tried: settings, score on each task, taken or not.

    One pass over `options`, values by name of a setting, in their order. `value(settings)` gives one score per task,
    higher is better. A gain must exceed `certainty` of its standard errors.
    """
    best, best_value = start, value(start)
    tried = [_entry(best, best_value, True)]
    for name, values in options.items():
        challengers = [replace(best, **{name: v}) for v in values if v != getattr(best, name)]  # type: ignore[arg-type]
        scores = [value(settings) for settings in challengers]
        winner = int(np.argmax([of_tasks.mean() for of_tasks in scores]))
        taken = beats(scores[winner], best_value, certainty)
        tried += [_entry(*pair, taken and i == winner) for i, pair in enumerate(zip(challengers, scores, strict=True))]
        if taken:
            best, best_value = challengers[winner], scores[winner]
    return best, tried


def _entry(settings: PrototypeSettings, scores: np.ndarray, taken: bool) -> dict[str, Any]:
    return {"settings": asdict(settings), "scores": scores.round(5).tolist(), "taken": taken}


class PrototypeSearch:
    """The search over simulated tasks, which share rotations, spaces and kernels between the settings tried.

    It keeps rotated samples in memory, and reads samples on disk again for every power and task: of many samples, it is
    given some (`affordable_rows`).
    """

    def __init__(self, X: np.ndarray | ChangedSamples, y: np.ndarray, S: np.ndarray, components: int):
        self.X, self.y, self.components, self.certainty = X, y, components, hurdle(len(S))
        self.tasks = simulate_tasks(y)
        self.kernels = []  # of each task: among the classes that play seen ones, and of the others with them
        for task in self.tasks:
            seen, unseen = S[task.classes[: task.seen]], S[task.classes[task.seen :]]
            fitted = fit_kernel(seen)
            self.kernels.append((kernel(fitted, seen, seen), kernel(fitted, unseen, seen)))
        self._rotated: dict[float, tuple[Rotation, np.ndarray]] = {}
        self._held_out_rotations: dict[tuple[int, float], Rotation] = {}
        self._held_out_metrics: dict[tuple[int, PrototypeSettings], tuple[float, np.ndarray]] = {}
        self._maps: dict[tuple[int, PrototypeSettings], np.ndarray] = {}
        self._moments: dict[tuple[int, float], LabelledMoments] = {}
        self._statistics: dict[tuple[int, float, float], tuple[ClassStatistics, np.ndarray]] = {}

    def rotated(self, power: float) -> tuple[Rotation, np.ndarray]:
        """The rotation for a power and the rotated labelled samples."""
        if power not in self._rotated:
            rotation = fit_rotation(self.X, power, self.components)
            self._rotated[power] = rotation, rotation(self.X)
        return self._rotated[power]

    def run(
        self, start: PrototypeSettings, options: Mapping[str, tuple[float, ...]], units: int = 0
    ) -> tuple[PrototypeSettings, dict[str, Any]]:
        """The settings chosen, and a report: the number of tasks, what was tried, and what a hidden layer gained.

        Settings are compared without the episodic map: it costs more than all else and hardly changes their order.
        """
        chosen, tried = coordinate_search(start, options, self.value, self.certainty)
        # A power bends features so that a linear map can use them; a layer bends them itself, and does better without.
        layered = replace(chosen, hidden=units, power=1.0 if "power" in options else chosen.power)
        gains = self.layer_gains(layered, chosen) if units else np.zeros(0)
        if len(gains) == len(self.tasks) and beats(gains, np.zeros(len(gains)), self.certainty):
            chosen = layered
        return chosen, {"tasks": len(self.tasks), "tried": tried, "gains_of_layer": gains.round(5).tolist()}

    def layer_gains(self, with_layer: PrototypeSettings, without: PrototypeSettings) -> np.ndarray:
        """What a hidden layer gains on one task after the other, to the first at which it has lost on their mean.

        It takes seconds to learn, and gains or costs several points: where it is of no use, one task mostly says so.
        """
        gains: list[float] = []
        while len(gains) < len(self.tasks) and (not gains or np.mean(gains) > 0):
            gains.append(self._gain(len(gains), with_layer, without))
        return np.array(gains)

    def _gain(self, number: int, challenger: PrototypeSettings, holder: PrototypeSettings) -> float:
        """By how much (T1 + H)/2 is higher, H with the handicap that is best for it."""
        (t1, curve), (held_t1, held_curve) = (self.held_out_metrics(number, s) for s in (challenger, holder))
        return (t1 + curve.max() - held_t1 - held_curve.max()) / 2

    def value(self, settings: PrototypeSettings) -> np.ndarray:
        """(T1 + H)/2 on each task, without maps; H with the one handicap that is best over all of them."""
        t1, curves = [], []
        for number, (task, (K, cross)) in enumerate(zip(self.tasks, self.kernels, strict=True)):
            statistics, test = self._statistics_of(number, task, settings)
            model = posterior_prototypes(statistics.space, statistics.means, statistics.counts, K, settings)
            scores = model.scores(test, cross @ model.weights)
            t1.append(task.scored(scores).t1 or 0.0)
            curves.append(_curve(model, scores, task))
        return (np.array(t1) + np.array(curves)[:, np.mean(curves, axis=0).argmax()]) / 2

    def handicap(self, settings: PrototypeSettings) -> float:
        """The one that is best over all tasks, each in a rotation that its test samples have no part in."""
        mean = np.mean([self.held_out_metrics(number, settings)[1] for number in range(len(self.tasks))], axis=0)
        return float(HANDICAPS[mean.argmax()]) if mean.max() > 0 else USUAL_HANDICAP

    def held_out_metrics(self, number: int, settings: PrototypeSettings) -> tuple[float, np.ndarray]:
        """T1 and H by handicap of a task in a rotation that its test samples have no part in."""
        key = number, settings
        if key not in self._held_out_metrics:
            task, (K, cross) = self.tasks[number], self.kernels[number]
            (train, test), y = self.held_out_rows(number, settings.power), task.y_train
            statistics = class_statistics(train, y, labelled_moments(train, y, task.seen), settings.shrinkage)
            # The map does not depend on the layer, which is tried after the search without it.
            linear = number, replace(settings, hidden=0)
            if settings.refinement and linear not in self._maps:
                noise = settings.noise / statistics.counts
                self._maps[linear] = episodic_map(statistics.space(train), y, statistics.means, K, noise, settings)
            model = fit_prototypes(statistics, K, settings, train, y, self._maps.get(linear))
            scores = model.scores(model.space(test), cross @ model.weights)
            self._held_out_metrics[key] = task.scored(scores).t1 or 0.0, _curve(model, scores, task)
        return self._held_out_metrics[key]

    def held_out_rows(self, number: int, power: float) -> tuple[np.ndarray, np.ndarray]:
        """A task's training and test samples in a rotation that the latter have no part in.

        They do have a part in that of `rotated`, which is harmless for a comparison. But it brings samples of unseen
        classes nearer, and γ then comes out too low: by 0.2 with 50 samples per class, at 3 to 12 points of H.
        """
        task, key = self.tasks[number], (number, power)
        if key not in self._held_out_rotations:
            self._held_out_rotations[key] = refit_rotation(self.X[task.train], self.rotated(power)[0])
        rotation = self._held_out_rotations[key]
        return rotation(self.X[task.train]), rotation(self.X[task.test])

    def _statistics_of(
        self, number: int, task: SimulatedTask, settings: PrototypeSettings
    ) -> tuple[ClassStatistics, np.ndarray]:
        """The class statistics of a task and its test samples in their space."""
        key = number, settings.power, settings.shrinkage
        if key not in self._statistics:
            rows, y = self.rotated(settings.power)[1], task.y_train
            train = rows[task.train]
            if key[:2] not in self._moments:
                self._moments[key[:2]] = labelled_moments(train, y, task.seen)
            statistics = class_statistics(train, y, self._moments[key[:2]], settings.shrinkage)
            self._statistics[key] = statistics, statistics.space(rows[task.test])
        return self._statistics[key]


def _curve(model: Prototypes, scores: np.ndarray, task: SimulatedTask) -> np.ndarray:
    """H by handicap."""
    return task.scored(scores / np.float32(max(model.unit, 1e-12))).trade_off(HANDICAPS).h[1:]

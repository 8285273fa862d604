"""Zero-shot tasks cut from labelled rows: some seen classes play unseen ones, some other rows play test rows."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

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

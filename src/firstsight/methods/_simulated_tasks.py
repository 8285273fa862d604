"""Simulated zero-shot tasks, and whether a gain on them is more than noise.

A task is cut from labelled samples: some seen classes play unseen ones, some samples of the others are held out.
Methods that choose settings or weights by themselves compare them on such tasks.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from firstsight.evaluation.scores import TaskScores

# A quarter of the classes plays unseen, a fifth of the others' samples is held out: the shares of the usual splits.
UNSEEN_SHARE, HELD_OUT = 0.25, 0.2
FEWEST_CLASSES = 4  # two to learn from and two to tell apart
# Twelve folds overturned what three had chosen where classes are few; where they are many, four say the same.
CLASSES_WANTED, FEWEST_TASKS, MOST_TASKS = 100, 4, 12
# A change must gain this much (accuracies are fractions) and half a standard error of the gain over the tasks. With a
# whole one, four tasks could not tell a gain of two points.
MARGIN, CERTAINTY = 0.001, 0.5
# Tasks that share classes say less than as many that do not: with a quarter of the classes playing unseen in each, no
# more than four share none.
DISJOINT = 4


@dataclass(frozen=True)
class SimulatedTask:
    """Codes of the classes, those that play seen ones first, and the samples of either kind."""

    classes: np.ndarray  # (k,): codes in the whole task; the first `seen` play seen classes
    seen: int
    train: np.ndarray  # row numbers
    test: np.ndarray
    y_train: np.ndarray  # positions in `classes`
    y_test: np.ndarray

    @property
    def unseen_rows(self) -> np.ndarray:
        """Whether each test sample is of a class that plays unseen."""
        return self.y_test >= self.seen

    def pool(self, seen_too: bool, share: float) -> np.ndarray:
        """The test samples (positions) that play an unlabelled pool, of any class or of those that play unseen ones.

        As many per class as the real pool has, which is `share`, if the task has as many.
        """
        rows = np.arange(len(self.test)) if seen_too else np.flatnonzero(self.unseen_rows)
        wanted = round(share * (len(self.classes) - (0 if seen_too else self.seen)))
        if wanted >= len(rows):
            return rows
        return np.sort(np.random.default_rng(0).permutation(rows)[: max(wanted, 1)])

    def scored(self, scores: np.ndarray) -> TaskScores:
        """The task with these scores (n, k) of its test samples."""
        return TaskScores(scores, self.y_test, self.seen)


def simulate_tasks(y: np.ndarray) -> list[SimulatedTask]:
    """Class-wise tasks, the same for the same y; none if there are fewer than FEWEST_CLASSES classes.

    Those that have played unseen least often are drawn first, so that none does so twice more than another.
    """
    counts = np.bincount(y)
    k = len(counts)
    if k < FEWEST_CLASSES:
        return []
    rng = np.random.default_rng(0)
    n_unseen = min(max(2, round(UNSEEN_SHARE * k)), k - 2)
    n_tasks = int(np.clip(np.ceil(CLASSES_WANTED / n_unseen), FEWEST_TASKS, MOST_TASKS))
    # A fifth of each class, rounded, never all of it.
    held_out = _ranks(y, rng) < np.minimum(np.maximum(np.round(HELD_OUT * counts), 1), counts - 1)[y]
    times, tasks = np.zeros(k, dtype=int), []
    for _ in range(n_tasks):
        order = rng.permutation(k)
        unseen = order[np.argsort(times[order], kind="stable")][:n_unseen]
        times[unseen] += 1
        classes = np.concatenate([np.setdiff1d(np.arange(k), unseen), unseen])
        position, seen = np.argsort(classes)[y], k - n_unseen
        new = position >= seen
        train, test = np.flatnonzero(~new & ~held_out), np.flatnonzero(new | held_out)
        tasks.append(SimulatedTask(classes, seen, train, test, position[train], position[test]))
    return tasks


def sample_of_classes(y: np.ndarray, most: int) -> np.ndarray:
    """Numbers of at most `most` samples, ascending: equally many of each class or all that it has; never fewer than 2.

    The same for the same y.
    """
    counts = np.bincount(y)
    each = bisect_right(range(counts.max() + 1), most, key=lambda each: np.minimum(counts, each).sum()) - 1
    return np.flatnonzero(_ranks(y, np.random.default_rng(0)) < max(each, 2))


def _ranks(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The rank of each sample (n,) among those of its class, in an order that is drawn."""
    order = rng.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    counts = np.bincount(y)
    ranks = np.empty(len(y), dtype=np.intp)
    ranks[order] = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    return ranks


def beats(challenger: np.ndarray, holder: np.ndarray, certainty: float = CERTAINTY) -> bool:
    """Whether the gain over the tasks is more than a margin and its own uncertainty."""
    gain = challenger - holder
    error = gain.std(ddof=1) / np.sqrt(min(len(gain), DISJOINT)) if len(gain) > 1 else 0.0
    return bool(gain.mean() > MARGIN + certainty * error)

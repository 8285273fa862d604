"""Maps learned again from labelled rows and from those of a pool that a first solution has named."""

from __future__ import annotations

import numpy as np

from firstsight.methods.parts.moments import class_sums
from firstsight.methods.parts.prototypes import ClassStatistics, Prototypes, fit_prototypes, labelled_prototypes
from firstsight.methods.parts.whitened_space import span_of_means, whitened_sums

SURE = 0.5  # a row has the name of the unseen class that takes more than this share of it


def named_rows(R: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers of the rows with a name, the place of each one's class among `classes`, and `classes`.

    One row alone says nothing of how rows of a class differ, so such a class is left out.
    """
    rows = np.flatnonzero(R.max(axis=1, initial=0) > SURE)
    own = R[rows].argmax(axis=1)
    classes = np.flatnonzero(np.bincount(own, minlength=R.shape[1]) > 1)
    kept = np.isin(own, classes)
    return rows[kept], np.searchsorted(classes, own[kept]), classes


def trained_again(
    model: Prototypes, rows: np.ndarray, y: np.ndarray, pool: np.ndarray, K: np.ndarray, R: np.ndarray, settings
) -> Prototypes:
    """The model of the k labelled classes in a space whose maps were learned from named pool rows as well.

    Whitening stays that of the labelled rows: refitted with the pool, it lost up to 25 points where classes are few.
    K is the kernel of all classes, the k with labelled rows first.
    """
    k, (some, codes, classes) = len(model.means), named_rows(R)
    both, everyone = np.vstack([rows, pool[some]]), np.concatenate([y, k + codes])
    known = np.concatenate([np.arange(k), k + classes])
    counts = np.bincount(everyone, minlength=len(known)).astype(np.float64)
    sums = whitened_sums(both, everyone, len(known), model.space.whitening)
    space = span_of_means(model.space.whitening, sums[:k], counts[:k], sums[k:] / counts[k:, None])
    means = sums / counts[:, None] @ space.directions.astype(np.float64) - space.offset
    counted = np.concatenate([counts[:k], counts[k:] * settings["cap"] / (settings["cap"] + counts[k:])])
    statistics = ClassStatistics(space, means, counted)
    space = fit_prototypes(statistics, K[np.ix_(known, known)], settings, both, everyone).space
    return labelled_prototypes(space, class_sums(space.read(rows), y, k), counts[:k], K[:k, :k], settings)

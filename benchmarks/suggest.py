"""Which samples to label: accuracy after 25, 50, 100, 200 labels, by the criterion that chose the samples.

    python benchmarks/suggest.py CUB_FOLDER --validation 2     # on simulated tasks from training classes
    python benchmarks/suggest.py CUB_FOLDER                    # on the test classes; appends to results/suggest.csv

    firstsight embed cub-1000/images --backbone resnet50 --out features.npz
    firstsight data make features.npz --classes cub-1000/attributes.csv --unseen NAMES --out cub-1000-data
    python benchmarks/suggest.py cub-1000-data

A draw cuts the test samples in halves: one is the pool, unlabelled samples of unseen classes ("unseen") or of all
classes ("all"); accuracy is measured on the other. T1 and H in percent. Criteria other than `suggest` are:

- random;
- margin: smallest difference of the two highest probabilities, far from what is chosen already;
- variance: what a label takes from the posterior variance of class means under the Gaussian process, weighted with the
  predicted probabilities of its class and with how much of the pool each class is; updated after each choice;
- k-means: the sample nearest to each of n centres of the pool.
"""

from __future__ import annotations

import argparse
import copy
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import softmax
from sklearn.cluster import KMeans

from firstsight.data import ZeroShotDataset, load_dataset
from firstsight.errors import FirstsightWarning
from firstsight.evaluation import fit_on, harmonic_mean, mean_class_accuracy
from firstsight.methods import KernelPrototypes
from firstsight.methods.kernel_prototypes.prior import kernel

RECORDS = Path(__file__).parents[1] / "results" / "suggest.csv"
COLUMNS = ["data", "pool", "criterion", "labels", "draw", "T1", "H"]
LABELS = (0, 25, 50, 100, 200)
TEMPERATURE = 10.0  # of the scores of kernel prototypes, for the criteria that need probabilities


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--validation", type=int, default=0, help="folds of training classes instead of the test")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--criteria", nargs="*", default=list(CRITERIA))
    parser.add_argument("--records", type=Path, default=RECORDS)
    given = parser.parse_args()
    warnings.simplefilter("ignore", FirstsightWarning)
    data = load_dataset(given.data)
    tasks = data.validation_folds(given.validation, random_state=0) if given.validation else [data]
    found = []
    for task in tasks:
        model = fit_on(KernelPrototypes(search=not given.validation), task)
        lines = [line for draw in range(given.draws) for line in run(task, model, draw, given.criteria)]
        found += lines
        if not given.validation:
            table = pd.DataFrame([(data.name, *line) for line in lines], columns=COLUMNS)
            table.to_csv(given.records, mode="a", header=not given.records.exists(), index=False)
    show(pd.DataFrame(found, columns=COLUMNS[1:]))


def run(data: ZeroShotDataset, model: KernelPrototypes, draw: int, criteria: list[str]) -> list[tuple]:
    """T1 and H after each number of labels, chosen by each criterion from each pool."""
    random, lines = np.random.default_rng(draw), []
    (X, y), (X_seen, y_seen) = data.part("test_unseen"), data.part("test_seen")
    asked, asked_seen = (random.random(len(labels)) < 0.5 for labels in (y, y_seen))
    pools = {
        "unseen": (X[asked], y[asked], data.unseen_classes),
        "all": (
            np.concatenate([X[asked], X_seen[asked_seen]]),
            np.concatenate([y[asked], y_seen[asked_seen]]),
            [*data.unseen_classes, *data.seen_classes],
        ),
    }
    for pool, (X_pool, y_pool, classes) in pools.items():
        counts = [n for n in LABELS if n < 0.9 * len(y_pool)]
        for criterion in criteria:
            chosen = CRITERIA[criterion](model, X_pool, classes, counts, np.random.default_rng(draw))
            for n in counts:
                rows = chosen[n] if n else []
                learned = copy.copy(model).add_samples(X_pool[rows], y_pool[rows]) if n else model
                t1 = mean_class_accuracy(y[~asked], learned.predict(X[~asked], classes=data.unseen_classes))
                ts = mean_class_accuracy(y[~asked], learned.predict(X[~asked]))
                tr = mean_class_accuracy(y_seen[~asked_seen], learned.predict(X_seen[~asked_seen]))
                lines.append((pool, criterion, n, draw, round(100 * t1, 2), round(100 * harmonic_mean(ts, tr), 2)))
    return lines


Chosen = dict[int, np.ndarray]  # by the number of labels


def first(order: np.ndarray, counts: list[int]) -> Chosen:
    """Of a criterion that ranks samples one by one."""
    return {n: order[:n] for n in counts}


def suggested(model, X, classes, counts, random) -> Chosen:
    return first(model.suggest(X, max(counts)), counts)


def at_random(model, X, classes, counts, random) -> Chosen:
    return first(random.permutation(len(X)), counts)


def by_margin(model, X, classes, counts, random) -> Chosen:
    highest = np.sort(probabilities(model, X, classes), axis=1)
    sure = highest[:, -1] - highest[:, -2]
    return first(greedily(model, X, max(counts), lambda: 1 - sure, lambda i: None), counts)


def by_variance(model, X, classes, counts, random) -> Chosen:
    P, (C, noise) = probabilities(model, X, classes), posterior(model, classes)
    share = P.mean(axis=0)

    def gains() -> np.ndarray:
        return P @ ((share[:, None] * C**2).sum(axis=0) / (np.diag(C) + noise))

    def learn(i: int) -> None:  # its class is one of the five most probable ones, each with so much of a sample
        nonlocal C
        J = np.argsort(-P[i])[:5]
        C = C - C[:, J] @ np.linalg.solve(C[np.ix_(J, J)] + np.diag(noise / np.maximum(P[i, J], 1e-3)), C[J])

    return first(greedily(model, X, max(counts), gains, learn), counts)


def by_clusters(model, X, classes, counts, random) -> Chosen:
    Z, chosen = model.embed(X), {}
    for n in filter(None, counts):
        distances = KMeans(n, n_init=1, random_state=0, max_iter=20).fit(Z).transform(Z)
        members = [np.flatnonzero(distances.argmin(axis=1) == c) for c in range(n)]
        chosen[n] = np.array([m[distances[m, c].argmin()] for c, m in enumerate(members) if len(m)])
    return chosen


CRITERIA: dict[str, Callable[..., Chosen]] = {
    "random": at_random,
    "suggest": suggested,
    "k-means": by_clusters,
    "variance": by_variance,
    "margin": by_margin,
}


def probabilities(model: KernelPrototypes, X: np.ndarray, classes: list) -> np.ndarray:
    return softmax(model.decision_function(X, classes=classes) / TEMPERATURE, axis=1)


def greedily(model, X, n: int, gains: Callable[[], np.ndarray], learn: Callable[[int], None]) -> np.ndarray:
    """The highest gains one after the other; what is near to a chosen sample gains less, a copy of it nothing."""
    Z = model.embed(X)
    width, nearest, chosen = model.evidence_["within"].sum(), np.full(len(X), np.inf), []
    for _ in range(n):
        values = gains() * (1 - np.exp(-nearest / width))
        values[chosen] = -np.inf
        chosen.append(int(values.argmax()))
        nearest = np.minimum(nearest, ((Z - Z[chosen[-1]]) ** 2).sum(axis=1))
        learn(chosen[-1])
    return np.array(chosen)


def posterior(model: KernelPrototypes, classes: list) -> tuple[np.ndarray, float]:
    """Covariance (k, k) of the classes' means given the fit, and the variance of one sample, in units of the kernel."""
    _, A, seen = model.candidates(classes)
    counts = model.evidence_["counts"]
    nugget, noise, k = model.settings_["nugget"], model.settings_["noise"], len(counts)
    S = model.kernel_["descriptions"][:k]
    cross = kernel(model.kernel_, A, S)
    known = np.flatnonzero(seen >= 0)
    cross[known, seen[known]] += nugget
    prior = kernel(model.kernel_, S, S) + nugget * np.eye(k) + np.diag(noise / counts)
    C = kernel(model.kernel_, A, A) + nugget * np.eye(len(A)) - cross @ np.linalg.solve(prior, cross.T)
    return C, noise


def show(found: pd.DataFrame) -> None:
    """Means over draws (and folds), a column per number of labels."""
    for pool, part in found.groupby("pool", sort=False):
        print(f"pool: {pool} classes, T1 · H")
        means = part.groupby(["criterion", "labels"], sort=False)[["T1", "H"]].mean()
        for criterion in part["criterion"].unique():
            of = means.loc[criterion]
            print(f"  {criterion:10}" + "".join(f"{n:6}: {row['T1']:.1f} · {row['H']:.1f}" for n, row in of.iterrows()))


if __name__ == "__main__":
    main()

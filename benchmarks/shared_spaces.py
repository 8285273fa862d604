"""Features and descriptions in one space, such as CLIP's: the text alone, kernel prototypes, and the blend of both.

    python benchmarks/shared_spaces.py IMAGENET_CLIP_FOLDER --splits 2

Prints T1 · H of the data set's split, then of random splits of its classes: as many unseen classes, and of each seen
class as many samples held out. Weights and constant of the blend come from training classes alone; "text, calibrated"
is `Cosine` with a constant chosen in the same way.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from firstsight.data import ZeroShotDataset, load_dataset
from firstsight.errors import FirstsightWarning
from firstsight.evaluation import evaluate
from firstsight.methods import Blend, Cosine, KernelPrototypes

ESTIMATORS = {
    "text": Cosine(),
    "text, calibrated": Blend(["cosine", "eszsl"], weights=[1, 0]),
    "kernel prototypes": KernelPrototypes(search=False),
    "blend": Blend(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--splits", type=int, default=2, help="random splits beside the data set's")
    given = parser.parse_args()
    warnings.simplefilter("ignore", FirstsightWarning)
    data = load_dataset(given.data)
    for name, split in splits(data, given.splits):
        print(f"{data.name}, {name}", flush=True)
        for method, estimator in ESTIMATORS.items():
            result = evaluate(estimator, split)
            line = f"  {method:<18}{100 * result.t1:6.1f} ·{100 * result.h:5.1f}{result.seconds:8.1f} s"
            model = next(iter(result.models.values()))
            if isinstance(model, Blend):
                weights = ", ".join(f"{w:.2f} {part}" for part, w in zip(model.parts_, model.weights_, strict=True))
                line += f"   {weights}, γ {model.seen_constant_:.2f}"
            print(line, flush=True)


def splits(data: ZeroShotDataset, n_random: int) -> Iterator[tuple[str, ZeroShotDataset]]:
    """The data set as it is, and with its classes split at random."""
    yield "its own split", data
    rows = np.concatenate([data.train, data.test_seen, data.test_unseen])
    n_unseen = len(data.unseen_classes)
    held_out = len(data.test_seen) / len(data.seen_classes)  # samples of each seen class
    for seed in range(1, n_random + 1):
        rng = np.random.default_rng(seed)
        unseen = rng.permutation(np.unique(data.labels[rows]))[:n_unseen]
        is_unseen = np.isin(data.labels[rows], unseen)
        test = [
            rng.permutation(rows[data.labels[rows] == label])[: round(held_out)]
            for label in np.setdiff1d(data.labels[rows], unseen)
        ]
        test_seen = np.sort(np.concatenate(test))
        train = np.setdiff1d(rows[~is_unseen], test_seen)
        parts = {"train": train, "test_seen": test_seen, "test_unseen": np.sort(rows[is_unseen])}
        yield f"random split {seed}", replace(data, name=f"{data.name}-{seed}", **parts)


if __name__ == "__main__":
    main()

"""Where the defaults of the two deep embeddings come from: class-wise validation on training classes alone.

    python benchmarks/choose_defaults.py DATA … [--method transductive-deep-embedding] [--try "name=value …" …]

Each candidate differs from the `validated` preset in some parameters and is evaluated on validation folds of every data
set (`ZeroShotDataset.validation_folds`): some training classes play the unseen ones, and neither a test row nor the
description of an unseen class is within reach. The transductive method is fitted once, with the pool of the generalized
setting, and T1 is that of the same model. Ends with means over data sets, each counting the same, and the difference to
the first candidate, paired by fold, with its standard error.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from firstsight import load_dataset
from firstsight.cli.options import read_assignments
from firstsight.evaluation import fit_on
from firstsight.evaluation.metrics import figures
from firstsight.methods import make_estimator

CANDIDATES = {
    "deep-embedding": ["", "separation=100", "penalty=1e-5", "feature_length=0", "preset=paper"],
    "transductive-deep-embedding": ["", "selection=0.05", "selection=0.2", "selection=40", "preset=paper"],
}


def validate(method: str, candidate: str, fold, seed: int) -> list[float]:
    """T1, ts, tr, H in percent and CPU seconds of the fit."""
    model = make_estimator(method, read_assignments(candidate.split()), random_state=seed, setting="gzsl", verbose=True)
    began = time.process_time()
    fit_on(model, fold)
    seconds = time.process_time() - began
    (X, y), (X_seen, y_seen) = fold.part("test_unseen"), fold.part("test_seen")
    among_unseen = model.predict(X, classes=fold.unseen_classes)
    found = figures(t1=(y, among_unseen), ts=(y, model.predict(X)), tr=(y_seen, model.predict(X_seen)))
    return [*(100 * value for value in (found.t1, found.ts, found.tr, found.h)), seconds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--method", default="deep-embedding", choices=CANDIDATES)
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument(
        "--try", nargs="+", dest="candidates", metavar="CANDIDATE", help='"name=value …"; "" is the preset'
    )
    given = parser.parse_args()
    candidates = given.candidates or CANDIDATES[given.method]
    print(f"{'data':14} {'T1':>5} {'ts':>5} {'tr':>5} {'H':>5} {'CPU s':>6}  changed")
    found = {}
    for data in map(load_dataset, given.data):
        for candidate in candidates:
            runs = [
                validate(given.method, candidate, fold, seed)
                for fold in data.validation_folds(3)[: given.folds]
                for seed in range(given.seeds)
            ]
            found[data.name, candidate] = np.array(runs)
            print(f"{data.name:14}", line(np.mean(runs, axis=0)), candidate or "(the preset)", flush=True)
    names = dict.fromkeys(name for name, _ in found)
    for candidate in candidates:
        mean = np.mean([found[name, candidate].mean(axis=0) for name in names], axis=0)
        apart = np.concatenate([found[name, candidate] - found[name, candidates[0]] for name in names])[:, [0, 3]]
        gap, error = apart.mean(axis=0), apart.std(axis=0, ddof=1) / len(apart) ** 0.5
        told = "   ".join(f"{t} {g:+.1f} ± {e:.1f}" for t, g, e in zip(("T1", "H"), gap, error, strict=True))
        print(f"{'all':14}", line(mean), f"{candidate or '(the preset)'}   {told}", flush=True)


def line(mean: np.ndarray) -> str:
    return " ".join(f"{value:5.1f}" for value in mean[:4]) + f" {mean[4]:6.1f} "


if __name__ == "__main__":
    main()

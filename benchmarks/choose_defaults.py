"""Where the defaults of the two deep embeddings come from: class-wise validation on training classes alone.

    python benchmarks/choose_defaults.py DATA … [--method transductive-deep-embedding] [--try "name=value …" …]

Each candidate differs from the `validated` preset in some parameters and is evaluated on validation folds of every data
set (`ZeroShotDataset.validation_folds`): some training classes play the unseen ones, and neither a test row nor the
description of an unseen class is within reach. The transductive method is fitted once, with the pool of the generalized
setting, and T1 is that of the same model. H* is H with the fold's best constant taken off seen scores, as in `tune`.
With several seeds, ± is the standard deviation over the seeds of a fold. Ends with means over data sets, each counting
the same, and the difference to the first candidate, paired by fold and seed, with its standard error over folds.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from firstsight import load_dataset
from firstsight.cli.options import read_assignments
from firstsight.evaluation import fit_on, score_task
from firstsight.methods import make_estimator

CANDIDATES = {
    "deep-embedding": ["", "separation=100", "penalty=1e-5", "feature_length=0", "preset=paper"],
    "transductive-deep-embedding": ["", "selection=0.05", "selection=0.2", "selection=40", "preset=paper"],
}


def validate(method: str, candidate: str, fold, seed: int) -> list[float]:
    """T1, ts, tr, H, H* in percent and CPU seconds of the fit."""
    model = make_estimator(method, read_assignments(candidate.split()), random_state=seed, setting="gzsl", verbose=True)
    began = time.process_time()
    fit_on(model, fold)
    seconds = time.process_time() - began
    task = score_task(model, fold, "gzsl")
    return [*(100 * value for value in (task.t1, task.ts, task.tr, task.h, task.curve.best_h)), seconds]


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
    print(f"{'data':14} {'T1':>5} {'ts':>5} {'tr':>5} {'H':>5} {'H*':>5} {'CPU s':>6}  changed")
    found = {}  # (data, candidate) → (folds, seeds, 6)
    for data in map(load_dataset, given.data):
        folds = data.validation_folds(given.folds)
        for candidate in candidates:
            runs = np.array(
                [[validate(given.method, candidate, fold, seed) for seed in range(given.seeds)] for fold in folds]
            )
            found[data.name, candidate] = runs
            print(f"{data.name:14}", line(runs), candidate or "(the preset)", flush=True)
    names = dict.fromkeys(name for name, _ in found)
    for candidate in candidates:
        runs = np.concatenate([found[name, candidate] for name in names])
        apart = (runs - np.concatenate([found[name, candidates[0]] for name in names])).mean(axis=1)
        gap, error = apart.mean(axis=0), apart.std(axis=0, ddof=1) / len(apart) ** 0.5
        told = "   ".join(f"{t} {gap[i]:+.1f} ± {error[i]:.1f}" for t, i in (("T1", 0), ("H", 3), ("H*", 4)))
        print(f"{'all':14}", line(runs), f"{candidate or '(the preset)'}   {told}", flush=True)


def line(runs: np.ndarray) -> str:
    mean, seeds = runs.mean(axis=(0, 1)), runs.shape[1]
    text = " ".join(f"{value:5.1f}" for value in mean[:5]) + f" {mean[5]:6.1f} "
    if seeds == 1:
        return text
    t1, h = runs.std(axis=1, ddof=1).mean(axis=0)[[0, 3]]
    return f"{text} (T1 ± {t1:.1f}, H ± {h:.1f}) "


if __name__ == "__main__":
    main()

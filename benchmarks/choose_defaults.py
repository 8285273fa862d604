"""Where the defaults of the two deep embeddings come from: class-wise validation on training classes alone.

    python benchmarks/choose_defaults.py DATA [--method transductive-deep-embedding] [--folds 3] [name=value …]

Each candidate differs from the `validated` preset in one or two parameters and is evaluated on validation folds
(`ZeroShotDataset.validation_folds`): some training classes play the unseen ones, and neither a test row nor the
description of an unseen class is within reach. Extra words try that one candidate instead of the list.
"""

from __future__ import annotations

import argparse

import numpy as np

from firstsight import evaluate, find_method, load_dataset
from firstsight.cli.options import read_assignments
from firstsight.methods import make_estimator

CANDIDATES = {
    "deep-embedding": [
        "",
        "separation=100",
        "separation=1000",
        "penalty=1e-5",
        "penalty=1e-4",
        "penalty=3e-3",
        "batch_size=256",
        "schedule=constant learning_rate=1e-4 iterations=50",
        "separation=100 penalty=1e-5 schedule=constant learning_rate=1e-4 iterations=50",
        "learning_rate=5e-4 iterations=15",
        "semantic_steps=25",
    ],
    "transductive-deep-embedding": [
        "",
        "selection=0.05",
        "selection=0.2",
        "selection=6",
        "selection=40",
        "round_iterations=5",
    ],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--method", default="deep-embedding", choices=CANDIDATES)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("candidate", nargs="*", help="name=value …: try just this one")
    arguments = parser.parse_intermixed_args()
    folds = load_dataset(arguments.data).validation_folds()[: arguments.folds]
    print(f"{find_method(arguments.method).__name__}, {len(folds)} folds of {folds[0].name.rpartition(' fold')[0]}")
    print(f"{'T1':>5} {'ts':>5} {'tr':>5} {'H':>5} {'seconds':>8}  changed")
    for candidate in [" ".join(arguments.candidate)] if arguments.candidate else CANDIDATES[arguments.method]:
        parameters = read_assignments(candidate.split())
        results = [
            evaluate(make_estimator(arguments.method, parameters, random_state=seed, verbose=True), fold)
            for seed, fold in enumerate(folds)
        ]
        mean = 100 * np.mean([[r.t1, r.ts, r.tr, r.h] for r in results], axis=0)
        seconds = np.mean([r.seconds for r in results])
        figures = " ".join(f"{value:5.1f}" for value in mean)
        print(f"{figures} {seconds:8.1f}  {candidate or '(the preset)'}", flush=True)


if __name__ == "__main__":
    main()

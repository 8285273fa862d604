"""How far a model's confidence can be trusted on classes that it was not trained on.

    python benchmarks/calibration.py DATA [--method eszsl] [--preset fast] [--folds 3] [--out reliability.png]

The model is fitted on the training rows and calibrated on folds of the training classes; only then the test rows are
looked at. Prints the expected calibration error (ECE, 15 equal-width bins of the best candidate's confidence) of the
test rows: unseen classes among unseen, and all rows among all classes; writes the reliability plot of the former.
`--nested` does the same on validation folds, whose "test" is cut from the training classes: what to develop on.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from firstsight import load_dataset
from firstsight.cli.options import read_assignments
from firstsight.evaluation import fit_on
from firstsight.evaluation.calibration import Calibration, Reliability, calibrate, reliability
from firstsight.methods import make_estimator
from firstsight.reporting.charts import reliability_plot
from firstsight.reporting.figure_style import save_figure


def judge(model, calibration: Calibration, dataset, parts: list[str], classes: list[str]) -> tuple[Reliability, float]:
    """Reliability of a part's rows, each part weighing the same, and the share that "none of these" would lose."""
    seen = np.isin(classes, dataset.seen_classes)
    sure, right, weights, standing = [], [], [], []
    for part in parts:
        X, y = dataset.part(part)
        scores = model.decision_function(X, classes=classes)
        sure.append(calibration.confidence(model, X, scores, seen).max(axis=1))
        right.append(np.array(classes)[scores.argmax(axis=1)] == y)
        weights.append(np.full(len(y), 1 / len(y)))
        standing.append(calibration.margin(model, X, scores))
    lost = np.concatenate(standing) < calibration.scale_for(seen).threshold(0.05)
    return reliability(*map(np.concatenate, (sure, right, weights))), float(lost.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--method", default="eszsl")
    parser.add_argument("--preset")
    parser.add_argument("--set", action="append", metavar="NAME=VALUE")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nested", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("reliability.png"))
    arguments = parser.parse_args()
    whole = load_dataset(arguments.data)
    for dataset in whole.validation_folds() if arguments.nested else [whole]:
        began = time.perf_counter()
        model = fit_on(
            make_estimator(
                arguments.method,
                read_assignments(arguments.set, arguments.preset),
                random_state=arguments.seed,
                verbose=True,
            ),
            dataset,
        )
        fitted = time.perf_counter()
        calibration = calibrate(model, dataset, arguments.folds, verbose=True)
        print(
            f"{dataset.name}  {arguments.method}  fit {fitted - began:.0f} s, calibration "
            f"{time.perf_counter() - fitted:.0f} s; estimate "
            + "  ".join(f"{name} {100 * value:.1f}" for name, value in calibration.estimate.items())
        )
        unseen, everyone = list(dataset.unseen_classes), list(dataset.seen_classes + dataset.unseen_classes)
        for kind, parts, classes in (
            ("unseen", ["test_unseen"], unseen),
            ("all", ["test_unseen", "test_seen"], everyone),
        ):
            found, lost = judge(model, calibration, dataset, parts, classes)
            scale = calibration.scales[kind]
            mean_sure, mean_right = (np.nansum(found.share * v) for v in (found.confidence, found.accuracy))
            print(
                f"  {kind:6}  ECE {found.ece:.3f} (folds: {scale.ece:.3f})  mean confidence {mean_sure:.3f}, right "
                f"{mean_right:.3f}  T {scale.temperature:.2f} α {scale.row_power:.2f} ε {scale.guess_rate:.2f}  "
                f"none of these, set to lose 5 %: {100 * lost:.1f} %",
                flush=True,
            )
            if kind == "unseen" and not arguments.nested:
                title = f"{dataset.name}, {arguments.method}: unseen classes"
                save_figure(reliability_plot(found, title), arguments.out)
                print(f"  {arguments.out} written")


if __name__ == "__main__":
    main()

"""Corrections of a model that is learned already: accuracy on unseen classes after some labelled images of each.

    python benchmarks/corrections.py cub-1000 --backbone backbones/resnet50

The folder holds images/, attributes.csv and split.csv. One `learn`, with the unseen classes known by their descriptions
alone; then, in each draw, `Recognizer.add_images` with so many images of every unseen class. All are tested on the same
images: those that no number of corrections uses. Prints the mean over draws and its standard error, in percent, among
the unseen classes and among all.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import firstsight
from firstsight.recognition import Recognizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--backbone", default="microsoft/resnet-50")
    parser.add_argument("--corrections", default="0,1,2,3", help="images of each unseen class")
    parser.add_argument("--draws", type=int, default=5)
    given = parser.parse_args()
    numbers = sorted(int(number) for number in given.corrections.split(","))

    features = firstsight.embed(given.folder / "images", backbone=given.backbone)
    split, classes = given.folder / "split.csv", given.folder / "attributes.csv"
    model = firstsight.learn(features, classes, split=split).model
    unseen = np.isin(features.labels, model.unseen_classes_)
    X, y = features.features[unseen], np.array(features.labels)[unseen]
    accuracy = [measure(Recognizer(model), X, y, numbers, draw) for draw in range(given.draws)]
    mean = 100 * np.mean(accuracy, axis=0)
    error = 100 * np.std(accuracy, axis=0, ddof=1) / np.sqrt(given.draws)
    table = pd.DataFrame(
        [[f"{m:.1f} ± {e:.1f}" for m, e in zip(*pair, strict=True)] for pair in zip(mean, error, strict=True)],
        index=pd.Index(numbers, name="corrections per unseen class"),
        columns=["among unseen classes", "among all classes"],
    )
    print(table.to_string())


def measure(recognizer: Recognizer, X: np.ndarray, y: np.ndarray, numbers: list[int], draw: int) -> list[list[float]]:
    """Accuracy among the unseen classes and among all, after each number of corrections per class."""
    order = np.random.default_rng(draw).permutation(len(y))
    rank = np.empty(len(y), dtype=int)
    rank[order] = pd.Series(y[order]).groupby(y[order]).cumcount()
    test, names, found = rank >= numbers[-1], np.unique(y).tolist(), []
    for number in numbers:
        taught = Recognizer(recognizer.model)
        if number:
            taught.add_images(X[rank < number], y[rank < number].tolist())
        found.append(
            [np.mean(taught.predict(X[test], classes=c, reject_far=False).best == y[test]) for c in (names, "all")]
        )
    return found


if __name__ == "__main__":
    main()

"""Which method suits few pictures: tasks of a small folder's size, drawn from training classes of a benchmark.

    python benchmarks/few_pictures.py DATA [--seen 8] [--unseen 4] [--rows 8] [--tasks 24] [--without NAMES.csv]

Each task draws classes among DATA's *training* classes (test classes are never touched; `--without` leaves out more,
by a column `class`), some rows of each, fits on the seen ones and names rows of the others. This is what the default
of `firstsight learn` was chosen by.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from firstsight.data import load_dataset
from firstsight.errors import FirstsightWarning
from firstsight.methods import find_method

TRIALS: list[tuple[str, dict]] = [
    ("gfzsl", {"feature_scaling": "unit"}),
    ("gfzsl", {}),
    ("eszsl", {}),
    ("eszsl", {"feature_scaling": "standard"}),
    ("ale", {}),
    ("sync", {}),
    ("sae", {}),
    ("dem", {}),
    ("deep-embedding", {}),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    for name, default in (("seen", 8), ("unseen", 4), ("rows", 8), ("tasks", 24)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--without", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore", FirstsightWarning)

    data = load_dataset(given.data)
    banned = set() if given.without is None else set(pd.read_csv(given.without)["class"])
    names = [name for name in data.seen_classes if name not in banned]
    X, y = data.part("train")
    first = None
    for method, parameters in TRIALS:
        found, began = [], time.process_time()
        for number in range(given.tasks):
            random = np.random.default_rng(number)
            chosen = random.permutation(names)[: given.seen + given.unseen]
            seen, unseen = (draw(random, y, part, given.rows) for part in (chosen[: given.seen], chosen[given.seen :]))
            cls = find_method(method)
            fixed = {"random_state": 0} if "random_state" in cls._get_param_names() else {}
            model = cls(**parameters, **fixed).fit(X[seen], y[seen], data.descriptions.loc[chosen])
            found.append(np.mean(model.predict(X[unseen], classes=chosen[given.seen :]) == y[unseen]))
        first = found if first is None else first
        apart = np.subtract(found, first)
        print(
            f"{method:15} {parameters or ''!s:28} {100 * np.mean(found):5.1f} % right; to the first "
            f"{100 * apart.mean():+5.1f} ± {100 * apart.std() / len(apart) ** 0.5:.1f}; "
            f"{(time.process_time() - began) / given.tasks:.2f} CPU s a task",
            flush=True,
        )


def draw(random: np.random.Generator, y: np.ndarray, classes, rows: int) -> np.ndarray:
    return np.concatenate([random.permutation(np.flatnonzero(y == name))[:rows] for name in classes])


if __name__ == "__main__":
    main()

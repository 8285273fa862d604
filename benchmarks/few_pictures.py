"""Which method `learn` takes by itself: small tasks drawn from training classes, and what each method makes of them.

    python benchmarks/few_pictures.py --data CUB_FOLDER … glyphs    # runs what is missing, then prints the table
    python benchmarks/few_pictures.py                               # the table alone

A task is some classes that play seen ones, with some rows of each to learn from, and a third as many that play unseen
ones; all are drawn among the *training* classes of a data set, so test classes and test rows are never touched. The
rows that are asked about are the pool of the transductive methods. Every task is the same for every method, so
differences are paired. Results are kept line by line in results/few_pictures.csv, and a run goes on where it was
stopped; tests/recognition/test_learning.py holds the choice in `learn` against them.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from firstsight.cli.options import read_assignments
from firstsight.data import ZeroShotDataset, load_dataset
from firstsight.errors import FirstsightWarning
from firstsight.evaluation.scores import harmonic_mean, mean_class_accuracy
from firstsight.methods import find_method, make_estimator

RECORDS = Path(__file__).parents[1] / "results" / "few_pictures.csv"
COLUMNS = ("data", "seen", "rows", "draw", "method", "T1", "ts", "tr", "H", "seconds")
SEEN, ROWS = (5, 8, 15, 30, 100), (3, 10, 30, 0)  # 0: all there are
ASKED = 10  # rows asked about, of each class
METHODS = (
    "kernel-prototypes",
    "kernel-prototypes search=false",
    "gfzsl feature_scaling=unit",
    "eszsl",
    "deep-embedding preset=fast",
    "transductive-kernel-prototypes",
    "transductive-kernel-prototypes search=false",
    "transductive-deep-embedding preset=fast",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", default=[])
    parser.add_argument("--seen", nargs="*", type=int, default=SEEN)
    parser.add_argument("--rows", nargs="*", type=int, default=ROWS)
    parser.add_argument("--draws", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--methods", nargs="*", default=METHODS, help='a word, or "word name=value …"')
    parser.add_argument("--records", type=Path, default=RECORDS)
    given = parser.parse_args()
    warnings.simplefilter("ignore", FirstsightWarning)
    sets = [load_dataset(name) for name in given.data]
    for draw, data, seen, rows in itertools.product(given.draws, sets, given.seen, given.rows):
        run(data, seen, rows, draw, given.methods, given.records)
    show(pd.read_csv(given.records))


def run(data: ZeroShotDataset, seen: int, rows: int, draw: int, methods: list[str], records: Path) -> None:
    """What is not in the records yet of one task."""
    if len(data.seen_classes) < seen + 3:
        return
    done = set()
    if records.exists():
        done = set(pd.read_csv(records)[list(COLUMNS[:5])].itertuples(index=False, name=None))
    task = draw_task(data, seen, rows, draw)
    for method in methods:
        if (data.name, seen, rows, draw, method) not in done:
            found = try_method(method, *task)
            line = pd.DataFrame([(data.name, seen, rows, draw, method, *found)], columns=COLUMNS)
            line.to_csv(records, mode="a", header=not records.exists(), index=False)


def draw_task(data: ZeroShotDataset, seen: int, rows: int, draw: int):
    """Rows to learn from and rows to ask about, each with labels; the descriptions; which classes play unseen."""
    X, y = data.part("train")
    random = np.random.default_rng([draw, seen, rows])
    unseen = min(max(3, round(seen / 3)), len(data.seen_classes) - seen)
    classes = random.permutation(data.seen_classes)[: seen + unseen].tolist()
    learned, asked = [], []
    for place, name in enumerate(classes):
        own = random.permutation(np.flatnonzero(y == name))
        held = min(ASKED, len(own) // 2)
        asked.append(own[:held])
        if place < seen:
            learned.append(own[held:][: rows or None])
    learned, asked = np.concatenate(learned), np.concatenate(asked)
    return (X[learned], y[learned]), (X[asked], y[asked]), data.descriptions.loc[classes], classes[seen:]


def try_method(method: str, learned, asked, descriptions: pd.DataFrame, unseen: list[str]) -> list[float]:
    """T1, ts, tr and H in percent, and CPU seconds of the fit."""
    word, *parameters = method.split()
    model = make_estimator(word, read_assignments(parameters), random_state=0, setting="gzsl")
    began = time.process_time()
    model.fit(*learned, descriptions, **({"X_unlabeled": asked[0]} if find_method(word).transductive else {}))
    seconds = time.process_time() - began
    X, y = asked
    new = np.isin(y, unseen)
    t1 = mean_class_accuracy(y[new], model.predict(X[new], classes=unseen))
    answers = model.predict(X)
    ts, tr = (mean_class_accuracy(y[part], answers[part]) for part in (new, ~new))
    return [round(value, 2) for value in (*(100 * f for f in (t1, ts, tr, harmonic_mean(ts, tr))), seconds)]


def show(found: pd.DataFrame) -> None:
    """Means over tasks by the number of rows; differences to the first method, paired, with their standard error."""
    tasks = found.set_index(list(COLUMNS[:5]))
    print(f"{'':44} {'tasks':>5} {'T1':>5} {'H':>5} {'to the first: T1':>20} {'H':>14} {'CPU s':>7}")
    groups = {"all tasks": slice(None)}
    level = tasks.index.get_level_values
    groups |= {f"{n} seen classes": level("seen") == n for n in SEEN}
    groups |= {f"{n or 'all'} rows of each": level("rows") == n for n in ROWS}
    groups |= {name: level("data") == name for name in dict.fromkeys(level("data"))}
    for title, chosen in groups.items():
        print(title)
        part = tasks[chosen]
        figures = {name: part.pivot_table(name, list(COLUMNS[:4]), "method") for name in ("T1", "H", "seconds")}
        for method in METHODS:
            if method in figures["T1"]:
                both = figures["T1"][[METHODS[0], method]].dropna().index
                means = {name: table.loc[both, method].mean() for name, table in figures.items()}
                gaps = [paired(figures[name].loc[both], method) for name in ("T1", "H")]
                print(
                    f"  {method:42} {len(both):5} {means['T1']:5.1f} {means['H']:5.1f} {gaps[0]:>20} {gaps[1]:>14} "
                    f"{means['seconds']:7.2f}"
                )


def paired(table: pd.DataFrame, method: str) -> str:
    apart = table[method] - table[METHODS[0]]
    return f"{apart.mean():+.1f} ± {apart.std() / len(apart) ** 0.5:.1f}"


if __name__ == "__main__":
    main()

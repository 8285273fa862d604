"""How steady the kernel prototypes' search is where classes are few: refits with three more images of one class.

    python benchmarks/few_classes.py CUB_FOLDER --label now [--draws 0 1 2 …]    # runs what is missing, then the table

A draw is 8 to 12 *training* classes of a data set, a third of which play unseen ones, with eight images of each other
class to learn from and up to thirty of every class to ask about. It is fitted three times: as drawn, and with three
more images of one class, of two classes in turn. The deviation that the search causes is the standard deviation, within
a draw, of what it gains over the same fit without the search: more images change both alike. Results are kept line by
line in results/few_classes.csv; a run goes on where it was stopped. `--label` names the code that ran.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from firstsight.data import ZeroShotDataset, load_dataset
from firstsight.errors import FirstsightWarning
from firstsight.evaluation.scores import mean_class_accuracy
from firstsight.methods import KernelPrototypes

RECORDS = Path(__file__).parents[1] / "results" / "few_classes.csv"
KEYS = ["label", "data", "draw", "refit"]
COLUMNS = (*KEYS, "T1", "all", "T1_without", "all_without", "seconds")
IMAGES, MORE, ASKED, REFITS = 8, 3, 30, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?")
    parser.add_argument("--label", default="now")
    parser.add_argument("--draws", nargs="*", type=int, default=list(range(20)))
    parser.add_argument("--records", type=Path, default=RECORDS)
    given = parser.parse_args()
    warnings.simplefilter("ignore", FirstsightWarning)
    data = load_dataset(given.data) if given.data else None
    for draw in given.draws if data is not None else []:
        run(data, draw, given.label, given.records)
    show(pd.read_csv(given.records))


def run(data: ZeroShotDataset, draw: int, label: str, records: Path) -> None:
    """What is not in the records yet of one draw."""
    done = set()
    if records.exists():
        done = set(pd.read_csv(records)[KEYS].itertuples(index=False, name=None))
    (X, y), refits, asked, classes, unseen = draw_task(data, draw)
    descriptions, new = data.descriptions.loc[classes], np.isin(y[asked], unseen)
    for refit, rows in enumerate(refits):
        if (label, data.name, draw, refit) in done:
            continue
        accuracies, seconds = [], 0.0
        for search in (True, False):
            began = time.process_time()
            model = KernelPrototypes(search=search).fit(X[rows], y[rows], descriptions)
            seconds = seconds or time.process_time() - began
            t1 = mean_class_accuracy(y[asked][new], model.predict(X[asked][new], classes=unseen))
            accuracies += [100 * t1, 100 * mean_class_accuracy(y[asked], model.predict(X[asked]))]
        found = [round(value, 2) for value in (*accuracies, seconds)]
        line = pd.DataFrame([(label, data.name, draw, refit, *found)], columns=COLUMNS)
        line.to_csv(records, mode="a", header=not records.exists(), index=False)


def draw_task(data: ZeroShotDataset, draw: int):
    """All training samples; the rows of every refit and those asked about; the classes, and which play unseen."""
    X, y = data.part("train")
    random = np.random.default_rng(draw)
    k = int(random.integers(8, 13))
    classes = random.permutation(np.array(data.seen_classes))[:k].tolist()
    unseen = classes[k - round(k / 3) :]
    learned, more, asked = [], [], []
    for name in classes:
        rows = random.permutation(np.flatnonzero(y == name))
        asked.append(rows[IMAGES + MORE :][:ASKED])
        if name not in unseen:
            learned.append(rows[:IMAGES])
            more.append(rows[IMAGES : IMAGES + MORE])
    base = np.concatenate(learned)
    refits = [base, *(np.concatenate([base, rows]) for rows in more[: REFITS - 1])]
    return (X, y), refits, np.concatenate(asked), classes, unseen


def show(found: pd.DataFrame) -> None:
    """Mean, worst fit and the deviation that the search causes, by label and data set."""
    for (label, data), part in found.groupby(["label", "data"], sort=False):
        print(f"{label}, {data}: {part['draw'].nunique()} draws, {len(part)} fits, {part['seconds'].mean():.1f} CPU s")
        for metric in ("T1", "all"):
            gain = part[metric] - part[f"{metric}_without"]
            between = part.groupby("draw")[metric].mean().std()
            within = gain.groupby(part["draw"]).var().mean() ** 0.5
            mean, worst = part[metric].mean(), part[metric].min()
            print(f"  {metric:3} mean {mean:.1f} ± {between:.1f} over draws, worst {worst:.1f}", end="; ")
            print(f"search adds {gain.mean():+.1f}, worst {gain.min():+.1f}, deviation within a draw {within:.2f}")


if __name__ == "__main__":
    main()

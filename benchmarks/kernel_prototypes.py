"""T1, ts, tr, H and CPU seconds of the kernel prototypes on the data sets given as arguments.

    python benchmarks/kernel_prototypes.py CUB_FOLDER glyphs              # search included, and with fixed parameters
    python benchmarks/kernel_prototypes.py --validation 3 CUB_FOLDER      # on folds of the training classes alone
    python benchmarks/kernel_prototypes.py --validation 3 --set cap=10 --set cap=30,rounds=3 glyphs
    python benchmarks/kernel_prototypes.py --validation 6 --unseen 0.45 --set search=false --paper ANIMALS42_FOLDER

The last two lay answers with a pool side by side on the same folds, one per `--set`, and with `--paper` that of the
paper's own method: mean, and mean difference from the inductive answer with its standard error over folds; `--unseen`
makes another share of the classes unseen than the data set itself has. Everything is deterministic. Development looks
at `--validation` only.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

from firstsight import load_dataset
from firstsight.evaluation import score_task
from firstsight.methods import KernelPrototypes, TransductiveDeepEmbedding, TransductiveKernelPrototypes


def figures(model, dataset, setting: str) -> dict[str, float]:
    """T1 ("zsl") or ts, tr, H and AUSUC ("gzsl") in percent."""
    task = score_task(model, dataset, setting)
    if setting == "zsl":
        return {"T1": 100 * task.t1}
    found = {"ts": task.ts, "tr": task.tr, "H": task.h, "AUSUC": task.curve.area}
    return {name: 100 * value for name, value in found.items()}


def pool_rows(dataset, setting: str, kind: str, draw: int = 0) -> np.ndarray:
    """Row numbers of a pool: all test rows that the setting prescribes, or what `kind` leaves of them."""
    rows = dataset.test_unseen if setting == "zsl" else np.concatenate([dataset.test_seen, dataset.test_unseen])
    rows, rng = np.sort(rows), np.random.default_rng(draw)
    labels, unseen = dataset.labels[rows], rng.permutation(np.unique(dataset.labels[dataset.test_unseen]))
    chance = rng.random(len(rows))
    keep = {
        "all": chance >= 0,
        "30 %": chance < 0.3,
        "10 %": chance < 0.1,
        "a third absent": ~np.isin(labels, unseen[: len(unseen) // 3]),
        "half rare": ~np.isin(labels, unseen[: len(unseen) // 2]) | (chance < 0.1),
    }[kind]
    return rows[keep]


def inductive(dataset, **parameters):
    """The fitted model, its figures in both settings, CPU seconds of the fit."""
    X, y = dataset.part("train")
    began = time.process_time()
    model = KernelPrototypes(**parameters).fit(X, y, dataset.descriptions)
    seconds = time.process_time() - began
    return model, {**figures(model, dataset, "zsl"), **figures(model, dataset, "gzsl")}, seconds


def transductive(
    dataset, setting: str, kind: str = "all", draw: int = 0, method=TransductiveKernelPrototypes, **parameters
):
    X, y = dataset.part("train")
    pool = dataset.features[pool_rows(dataset, setting, kind, draw)]
    began = time.process_time()
    model = method(setting=setting, **parameters)
    model.fit(X, y, dataset.descriptions, X_unlabeled=pool)
    return model, figures(model, dataset, setting), time.process_time() - began


def line(what: str, model, found: dict[str, float], seconds: float) -> None:
    chosen = " ".join(f"{name}={value:g}" for name, value in model.settings_.items())
    print(
        f"  {what:18s}",
        "  ".join(f"{k} {v:5.2f}" for k, v in found.items()),
        f" {seconds:5.1f} s  {chosen}",
        flush=True,
    )


def compare(dataset) -> dict[str, float]:
    model, found, seconds = inductive(dataset)
    line("inductive", model, found, seconds)
    line("  no search", *inductive(dataset, search=False))
    both = {"T1": found["T1"], "H": found["H"]}
    for setting in ("zsl", "gzsl"):
        model, found, seconds = transductive(dataset, setting)
        line(f"transductive {setting}", model, found, seconds)
        line("  no search", *transductive(dataset, setting, search=False))
        both[f"pool {'T1' if setting == 'zsl' else 'H'}"] = found["T1" if setting == "zsl" else "H"]
    return both


def read_settings(text: str) -> dict[str, object]:
    """ "cap=10,search=false" as parameters, values as in JSON; "" are the defaults."""
    pairs = (pair.partition("=") for pair in text.split(",") if pair)
    return {name: json.loads(value) for name, _, value in pairs}


def folds(dataset, count: int, share: float | None) -> list:
    """Folds of the training classes; the share of unseen ones, if it is not given, is that of the data set itself."""
    seen, unseen = len(dataset.seen_classes), len(dataset.unseen_classes)
    share = unseen / (seen + unseen) if share is None else share
    return dataset.validation_folds(count, n_classes=max(2, round(seen * share)))


def variants(dataset, settings: list[str], paper: bool) -> dict[str, dict[str, float]]:
    """T1 ("zsl") and H ("gzsl") of the inductive answer, of every variant with a pool and of the paper's method."""
    answers = {text or "defaults": read_settings(text) for text in settings}
    if paper:
        answers["paper"] = {"method": TransductiveDeepEmbedding, "random_state": 0}
    found = {"inductive": inductive(dataset)[1]}
    for name, parameters in answers.items():
        t1, h = (transductive(dataset, s, **parameters)[1][n] for s, n in (("zsl", "T1"), ("gzsl", "H")))
        found[name] = {"T1": t1, "H": h}
    for name, values in found.items():
        print(f"  {name:30s} T1 {values['T1']:5.2f}  H {values['H']:5.2f}", flush=True)
    return found


def summary(found: list[dict[str, dict[str, float]]]) -> None:
    """The mean over folds of each answer, and its difference from the inductive one, fold by fold."""
    for name in found[0]:
        cells = []
        for figure in ("T1", "H"):
            values = np.array([fold[name][figure] for fold in found])
            gain = values - [fold["inductive"][figure] for fold in found]
            error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
            cells.append(f"{figure} {values.mean():5.2f} ({gain.mean():+5.2f} ± {error:.2f}, worst {gain.min():+.2f})")
        print(f"  mean {name:30s}", "  ".join(cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--validation", type=int, default=0, metavar="FOLDS")
    parser.add_argument("--set", action="append", metavar="NAME=VALUE,…", dest="settings")
    parser.add_argument("--unseen", type=float, metavar="SHARE", help="of the classes, in folds")
    parser.add_argument("--paper", action="store_true", help="beside `--set`: the paper's method with a pool")
    options = parser.parse_args()
    for name in options.datasets:
        dataset = load_dataset(name)
        found = []
        for part in folds(dataset, options.validation, options.unseen) if options.validation else [dataset]:
            print(part.name, flush=True)
            if options.settings:
                found.append(variants(part, options.settings, options.paper))
            else:
                found.append(compare(part))
        if options.settings:
            summary(found)
        elif options.validation:
            print("  mean", {k: round(float(np.mean([f[k] for f in found])), 2) for k in found[0]}, flush=True)


if __name__ == "__main__":
    main()

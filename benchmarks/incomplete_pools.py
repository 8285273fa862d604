"""T1 and H of the kernel prototypes with pools that are small, lack unseen classes, or have few samples of some.

    python benchmarks/incomplete_pools.py CUB_FOLDER glyphs --out results/incomplete_pools.csv
    python benchmarks/incomplete_pools.py --no-search ANIMALS42_FOLDER                  # usual settings: in seconds
    python benchmarks/incomplete_pools.py --no-search --validation 12 ANIMALS42_FOLDER  # folds of the training classes
    python benchmarks/incomplete_pools.py --pools "30 %" "10 %" --draws 3 CUB_FOLDER

The pool is a part of the test samples that a setting prescribes: of the unseen classes' for T1, of all for H. The test
is always on all of these, and every unseen class is a candidate: also a class that the pool lacks, of which the model
has met no sample. "a third absent": the pool has no sample of a third of the unseen classes; "half rare": a tenth of
the samples of half of them. It has all of the seen classes' test samples, if the setting has these at all.

The inductive search runs once per data set, and the trial of the pool's weight once per setting, with the first pool.
Everything is deterministic: a draw is a seed. An interrupted run resumes with the first pool that `--out` lacks.
Development looks at `--validation` only. Ends with the means over draws.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
from kernel_prototypes import folds, inductive, transductive

from firstsight import load_dataset
from firstsight.methods import TransductiveKernelPrototypes
from firstsight.methods.kernel_prototypes.prior import PrototypeSettings

COLUMNS = ("data", "pool", "draw", "metric", "inductive", "with_pool", "belief")
POOLS = ("all", "a third absent", "half rare")


class AfterSearch(TransductiveKernelPrototypes):
    """The inductive settings are those of a model that was fitted before."""

    found: ClassVar[Any] = None

    def _choose(self, search):
        self.settings_, self.search_ = dict(self.found.settings_), dict(self.found.search_)
        names = ("power", "shrinkage", "nugget", "noise", "stretch", "refinement", "hidden")
        return PrototypeSettings(**{name: self.settings_[name] for name in names})


def measure(dataset, kinds: Sequence[str], draws: int, search: bool, known: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """A line for each pool and metric that is not `known`; `belief` is how far the fit has believed the pool."""
    alone: dict[str, float] = {}
    for setting, metric in (("zsl", "T1"), ("gzsl", "H")):
        parameters: dict[str, Any] = {"search": search}
        for kind in kinds:
            for draw in range(1 if kind == "all" else draws):
                line = {"data": dataset.name, "pool": kind, "draw": draw, "metric": metric}
                if (known[list(line)] == list(line.values())).all(axis=1).any():
                    continue
                if not alone:
                    AfterSearch.found, alone, _ = inductive(dataset, search=search)
                model, found, _ = transductive(dataset, setting, kind, draw, AfterSearch, **parameters)
                parameters = {"search": False, "cap": model.settings_["cap"]}
                yield {**line, "inductive": alone[metric], "with_pool": found[metric], "belief": model.belief_}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--pools", nargs="+", default=POOLS)
    parser.add_argument("--draws", type=int, default=3, help="pools of each kind; of the whole one there is one")
    parser.add_argument("--no-search", action="store_true")
    parser.add_argument("--validation", type=int, default=0, metavar="FOLDS")
    parser.add_argument("--unseen", type=float, metavar="SHARE", help="of the classes, in folds")
    parser.add_argument("--out", type=Path, metavar="CSV", help="lines that it has are not measured again")
    options = parser.parse_args()
    table = pd.DataFrame(columns=COLUMNS)
    if options.out and options.out.exists():
        table = pd.read_csv(options.out)
    for name in options.datasets:
        dataset = load_dataset(name)
        parts = folds(dataset, options.validation, options.unseen) if options.validation else [dataset]
        for part in parts:
            for line in measure(part, options.pools, options.draws, not options.no_search, table):
                table = pd.DataFrame([*table.to_dict("records"), line], columns=COLUMNS).round(3)
                if options.out:
                    table.to_csv(options.out, index=False)
            print(part.name, summary(table[table["data"] == part.name]), sep="\n", flush=True)
        if options.validation:
            of_folds = table["data"].isin([part.name for part in parts])
            print("mean over folds", summary(table[of_folds]), sep="\n", flush=True)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Means over draws, and the worst difference from the inductive answer."""
    gains = table.assign(worst=table["with_pool"] - table["inductive"])
    of_kinds = gains.groupby(["metric", "pool"], sort=False)
    return of_kinds.agg({"inductive": "mean", "with_pool": "mean", "worst": "min", "belief": "mean"}).round(2)


if __name__ == "__main__":
    main()

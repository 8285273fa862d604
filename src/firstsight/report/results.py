"""The records that a report is made of, checked once, with every optional field filled in."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from firstsight.errors import BadInput, UnreadableFile
from firstsight.records.storage import Record, read_records
from firstsight.report.published import dataset_order, paper_order

SETTINGS = {"zsl": ("t1",), "gzsl": ("ts", "tr", "h")}
TITLES = {"t1": "T1", "ts": "ts", "tr": "tr", "h": "H"}
SPACES = ("semantic", "visual", "latent")

# Optional fields, and what stands for one that is null or missing.
_OPTIONAL: dict[str, Any] = {
    "status": "done", "error": "", "variant": {}, "study": "", "t1": None, "ts": None, "tr": None, "h": None,
    "per_class": {}, "confusion": [], "parameters": {}, "given": {}, "tuned": False, "split": "",
    "extra_supervision": "", "transductive": False, "space": "", "versions": {}, "seconds": None, "fit_seconds": None,
    "cpu_seconds": None, "peak_mib": None,
    "threads": None, "touched": {}, "seen_unseen": {}, "space_facts": {}, "rounds": [], "collapsed": False,
    "features": "", "warnings": [],
}  # fmt: skip


def setting_of(metric: str) -> str:
    """The setting that a figure belongs to."""
    return next(setting for setting, metrics in SETTINGS.items() if metric in metrics)


class Results:
    """Every record of a folder; `tables` are those of the two tables, `studies` the rest."""

    def __init__(self, records: list[Record], folder: Path):
        self.folder = folder
        self.records = sorted(map(_filled, records), key=_reading_order)
        self.tables = [r for r in self.records if not r["study"] and not r["variant"]]
        self.studies = [r for r in self.records if r["study"] or r["variant"]]
        self.datasets = sorted({r["dataset"] for r in self.records}, key=dataset_order)
        self.methods = sorted({r["method"] for r in self.records}, key=paper_order)
        self.splits = {r["dataset"]: r["split"] for r in self.records if r["split"]}
        self.failed = [r for r in self.records if r["status"] == "failed"]
        self._by_cell: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
        for record in self.tables:
            self._by_cell[record["dataset"], record["method"], record["setting"]].append(record)
        self.about = {r["method"]: r for r in reversed(self.records)}  # one record per method: its space and kind

    def runs(self, dataset: str, method: str, setting: str, status: str = "done") -> list[Record]:
        """The records of the tables of one data set, method and setting, by seed."""
        return [r for r in self._by_cell.get((dataset, method, setting), []) if r["status"] == status]

    def by_seed(self, dataset: str, method: str, metric: str) -> dict[int, float]:
        """A figure of each seed that has it."""
        runs = self.runs(dataset, method, setting_of(metric))
        return {run["seed"]: run[metric] for run in runs if run[metric] is not None}

    def by_space(self) -> Iterator[tuple[str, list[str]]]:
        """Methods grouped as the paper groups them: by the space in which samples and classes meet."""
        others = sorted({r["space"] for r in self.about.values()} - set(SPACES))
        for space in (*SPACES, *others):
            methods = [m for m in self.methods if self.about[m]["space"] == space]
            if methods:
                yield space, methods

    def ranked(self) -> list[str]:
        """The methods that may lead: one that is told more than the others solves an easier task."""
        return [m for m in self.methods if not self.about[m]["extra_supervision"]] or self.methods

    def is_inductive(self, method: str) -> bool:
        return not self.about[method]["transductive"] and not self.about[method]["extra_supervision"]

    def label(self, method: str) -> str:
        """A method's name with its marks: † transductive, * told more than the others."""
        about = self.about[method]
        return method + " †" * bool(about["transductive"]) + " *" * bool(about["extra_supervision"])


def read_results(place: str | Path) -> Results:
    """The records in a folder, or in one file; two splits or feature files under one name are refused."""
    place = Path(place)
    records = read_records(place)
    if not records:
        raise BadInput(
            f"The .jsonl files of {place} hold no record; `firstsight benchmark … --out {place}` makes some."
        )
    results = Results(records, place if place.is_dir() else place.parent)
    for field, word in (("split", "splits"), ("features", "feature files")):
        values: dict[str, set[str]] = defaultdict(set)
        for record in results.records:
            values[record["dataset"]] |= {record[field]} - {""}
        for dataset, found in values.items():
            if len(found) > 1:
                raise BadInput(
                    f"The records of {dataset} come from {len(found)} different {word} ({', '.join(sorted(found))}); "
                    "their figures cannot stand in one table: keep those of one."
                )
    return results


def _reading_order(record: Record) -> tuple:
    """Data sets and methods as the paper has them, whatever finished first."""
    settings = list(SETTINGS)
    places = dataset_order(record["dataset"]), paper_order(record["method"]), settings.index(record["setting"])
    return (*places, record["seed"])


def _filled(record: Record) -> Record:
    where = f"The record of {record['method']} on {record['dataset']} ({record['setting']}, seed {record['seed']})"
    if record["setting"] not in SETTINGS:
        raise UnreadableFile(f"{where} has a setting that is none of {', '.join(SETTINGS)}; remove that line.")
    for name, kind in {"dataset": str, "method": str, "seed": int}.items():
        if not isinstance(record[name], kind):
            raise UnreadableFile(f"{where} has an unexpected value in {name!r}; remove that line.")
    full = {k: v for k, v in record.items() if v is not None}
    for name, default in _OPTIONAL.items():
        value = full.setdefault(name, default)
        wrong = isinstance(default, dict | list | str) and not isinstance(value, type(default))
        if default is None and value is not None:
            wrong = isinstance(value, bool) or not isinstance(value, int | float)
            if not wrong and not math.isfinite(value):  # JSON of other programs may hold NaN
                full[name] = None
        if wrong:
            raise UnreadableFile(f"{where} has an unexpected value in {name!r} ({repr(value)[:60]}); remove that line.")
    for name, fits in _SHAPES.items():
        if not fits(full[name]):
            raise UnreadableFile(f"{where} has an unexpected shape in {name!r}; remove that line.")
    return full


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _tuples(values: Any, size: int) -> bool:
    return isinstance(values, list) and all(isinstance(v, list) and len(v) == size and _number(v[-1]) for v in values)


# What stands inside the fields that are drawn or summed up.
_SHAPES: dict[str, Callable[[Any], bool]] = {
    "confusion": lambda value: _tuples(value, 3),
    "tuned": lambda value: not isinstance(value, dict) or isinstance(value.get("set_by_hand", []), list),
    "seen_unseen": lambda value: _tuples(value.get("curve") or [], 2),
    "rounds": lambda value: all(isinstance(one, dict) and _number(one.get("round")) for one in value),
    "per_class": lambda value: all(
        own is None or (isinstance(own, dict) and all(v is None or _number(v) for v in own.values()))
        for own in value.values()
    ),
}

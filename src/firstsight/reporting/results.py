"""Results of a report: records that belong together, report settings and published figures."""

from __future__ import annotations

import csv
import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from firstsight._io.files import read_regular
from firstsight._io.identity import same_data
from firstsight._io.schemas import reason
from firstsight.errors import BadInput, UnreadableFile
from firstsight.evaluation import SETTINGS
from firstsight.experiments.records import FEW_SHOT, Record, read_records

NAME = "report.toml"


class ReportSettings(BaseModel):
    """Words and links of the page; names of methods and data sets are those of the records."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    title: str = Field(default="Benchmark report", description="heading of the page")
    about: str = Field(default="", description="a sentence or two beneath the heading")
    links: dict[str, str] = Field(default={}, description="words → address (https://…), beneath the heading")
    ours: list[str] = Field(default=[], description="methods to be picked out in tables and figures")
    notes: dict[str, list[str]] = Field(default={}, description="name of a table or figure → sentences beneath it")
    claims: dict[str, str] = Field(
        default={},
        description="space or method → what is said of it, shown beside the measured spaces; `title` heads the column",
    )


def read_settings(folder: Path) -> ReportSettings:
    """Those of the folder's `report.toml`, or none."""
    path = folder / NAME
    if not path.exists():
        return ReportSettings()
    try:
        settings = ReportSettings.model_validate(tomllib.loads(read_regular(path).decode()))
    except ValidationError as error:
        known = ", ".join(ReportSettings.model_fields)
        raise UnreadableFile(f"{path} is not as expected: {reason(error)}; it may have {known}.") from None
    except (OSError, ValueError, RecursionError) as error:  # ValueError: no text, no TOML, a number of 5,000 digits
        raise UnreadableFile(f"{path} cannot be read ({error}); mend it, or remove it.") from None
    for words, address in settings.links.items():
        if not address.startswith(("https://", "http://")):
            raise UnreadableFile(f"{path} links {words!r} to {address!r}; an address begins with https:// or http://.")
    return settings


class Published(NamedTuple):
    """One figure of a published table, in percent."""

    value: float
    name_in_paper: str
    source: str
    note: str


@cache
def published_figures() -> dict[tuple[str, str, str], Published]:
    """Every figure by data set (the name of its xlsa17 folder), method and metric (t1, ts, tr, h)."""
    text = files("firstsight.reporting").joinpath("published.csv").read_text(encoding="utf-8")
    return {
        (line["dataset"], line["method"], line["metric"]): Published(
            float(line["value"]), line["name_in_paper"], line["source"], line["note"]
        )
        for line in csv.DictReader(text.splitlines())
    }


def published(dataset: str, method: str, metric: str) -> Published | None:
    """The published figure, if there is one; case does not matter, since the paper writes AwA1 and aPY."""
    return published_figures().get((dataset.upper(), method.lower(), metric))


def paper_order(method: str) -> tuple[int, str]:
    """Sorts methods as the paper's tables do; those that it does not have come last, by name."""
    # The generalized table has all of them.
    known = list(dict.fromkeys(name for _, name, metric in published_figures() if metric == "h"))
    return (known.index(method) if method in known else len(known), method)


def dataset_order(dataset: str) -> tuple[int, str]:
    """Sorts data sets as the paper's tables do; others come last, by name."""
    known = list(dict.fromkeys(name for name, _, _ in published_figures()))
    return (known.index(dataset.upper()) if dataset.upper() in known else len(known), dataset)


CALIBRATED_H = "calibrated h"  # a figure like those of evaluation.TITLES, of the records that have it
SPACES = ("semantic", "visual", "latent")


def setting_of(metric: str) -> str:
    """The setting that a figure belongs to."""
    return "zsl" if metric == "t1" else "gzsl"


class Results:
    """Every record of a folder; `tables` are those of the two tables, `studies` the rest."""

    def __init__(self, records: list[Record], folder: Path, settings: ReportSettings | None = None):
        self.folder = folder
        self.settings = settings or ReportSettings()
        self.records = sorted(records, key=_reading_order)
        self.tables = [r for r in self.records if not r.study and not r.variant]
        self.studies = [r for r in self.records if r.study or r.variant]
        # Few-shot cells are in one table and figure alone, and so are baselines that have no other cells.
        self.few_shot = [r for r in self.records if r.study == FEW_SHOT and r.status == "done"]
        self.few_shot_datasets = list(dict.fromkeys(r.dataset for r in self.few_shot))
        others = [r for r in self.records if r.study != FEW_SHOT]
        self.datasets = sorted({r.dataset for r in others}, key=dataset_order)
        self.methods = sorted({r.method for r in others}, key=paper_order)
        self.splits = {r.dataset: r.split for r in self.records if r.split}
        self.failed = [r for r in self.records if r.status == "failed"]
        self.cells: dict[tuple[str, str, str], list[Record]] = defaultdict(list)  # by data set, method and setting
        for record in self.tables:
            self.cells[record.dataset, record.method, record.setting].append(record)
        self.example = {r.method: r for r in reversed(self.records)}  # one record per method: its space and kind

    def runs(self, dataset: str, method: str, setting: str, status: str = "done") -> list[Record]:
        """The records of the tables of one data set, method and setting, by seed."""
        return [r for r in self.cells.get((dataset, method, setting), []) if r.status == status]

    def by_seed(self, dataset: str, method: str, metric: str) -> dict[int, float]:
        """A figure of each seed that has it."""
        figures = {run.seed: figure_of(run, metric) for run in self.runs(dataset, method, setting_of(metric))}
        return {seed: value for seed, value in figures.items() if value is not None}

    def mean_of(self, dataset: str, method: str, metric: str) -> float | None:
        """A figure, mean over seeds."""
        values = self.by_seed(dataset, method, metric).values()
        return mean(values) if values else None

    def by_space(self, among: Collection[str]) -> Iterator[tuple[str, list[str]]]:
        """Heading and methods, grouped as the paper groups them: by where samples and classes meet."""
        others = sorted({r.space for r in self.example.values()} - set(SPACES))
        for space in (*SPACES, *others):
            methods = [m for m in self.methods if m in among and self.example[m].space == space]
            if methods:
                yield f"{space or 'unknown'} space", methods

    def ranked(self) -> list[str]:
        """The methods that may lead: one with extra supervision solves an easier task."""
        return [m for m in self.methods if not self.example[m].extra_supervision] or self.methods

    def is_inductive(self, method: str) -> bool:
        """Whether a method has learnt from seen classes alone."""
        return not self.example[method].transductive and not self.example[method].extra_supervision

    def label(self, method: str) -> str:
        """A method's name with its marks: † transductive, * extra supervision."""
        example = self.example[method]
        return method + " †" * example.transductive + " *" * bool(example.extra_supervision)

    def class_accuracies(self, dataset: str, metric: str) -> dict[str, dict[str, float]]:
        """Accuracy of each class by method, mean over seeds: {method: {class: percent}}."""
        accuracies: dict[str, dict[str, float]] = {}
        for method in self.methods:
            values: dict[str, list[float]] = defaultdict(list)
            for run in self.runs(dataset, method, setting_of(metric)):
                for name, value in run.per_class.get(metric, {}).items():
                    if value is not None:
                        values[name].append(value)
            if values:
                accuracies[method] = {name: mean(by_seed) for name, by_seed in values.items()}
        return accuracies

    def confused_pairs(self, dataset: str, method: str) -> dict[tuple[str, str], float]:
        """(true, predicted) → rows confused per run, largest first."""
        runs = [run for run in self.runs(dataset, method, "zsl") if run.confusion]
        counts: dict[tuple[str, str], float] = defaultdict(float)
        for run in runs:
            for truth, predicted, count in run.confusion:
                if truth != predicted:
                    counts[truth, predicted] += count / len(runs)
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def with_and_without_confusions(self, dataset: str) -> tuple[list[str], list[str]]:
        """Of the methods that have run; one that names every row rightly is among those without."""
        run = [m for m in self.methods if self.runs(dataset, m, "zsl")]
        confused = [m for m in run if self.confused_pairs(dataset, m)]
        return confused, [m for m in run if m not in confused]


def read_results(path: str | Path) -> Results:
    """The records in a folder, or in one file; two splits or feature files under one name are refused."""
    path = Path(path)
    records = read_records(path)
    if not records:
        raise BadInput(f"The .jsonl files of {path} hold no record; `firstsight benchmark … --out {path}` makes some.")
    first: dict[tuple[str, str], str] = {}
    for record in records:
        for what, fingerprint in (("splits", record.split), ("feature files", record.features)):
            if fingerprint and not same_data(first.setdefault((record.dataset, what), fingerprint), fingerprint):
                raise BadInput(
                    f"The records of {record.dataset} come from different {what}; their figures cannot stand in one "
                    "table: keep those of one."
                )
    folder = path if path.is_dir() else path.parent
    return Results(records, folder, read_settings(folder))


def figure_of(record: Record, metric: str) -> float | None:
    """A figure of one record, if it has it."""
    if metric == CALIBRATED_H:
        fixed = record.seen_unseen.calibrated if record.seen_unseen else None
        return fixed.h if fixed else None
    value: float | None = getattr(record, metric)
    return value


def _reading_order(record: Record) -> tuple[Any, ...]:
    """Data sets and methods as the paper has them, whatever finished first."""
    places = dataset_order(record.dataset), paper_order(record.method), SETTINGS.index(record.setting)
    return (*places, record.seed)

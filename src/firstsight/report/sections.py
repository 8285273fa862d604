"""The sections of the page: what each shows, or the sentence that says how to get its records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import mean

from firstsight.report import classes, curves, facts, measures
from firstsight.report.architecture import architecture_picture
from firstsight.report.maps import Maps, map_picture
from firstsight.report.picture import Picture
from firstsight.report.published import published
from firstsight.report.result_tables import result_table
from firstsight.report.results import TITLES, Results
from firstsight.report.significance import significance_table
from firstsight.report.table import Table

_RUN = "firstsight benchmark DATA… --methods all --out RESULTS"


@dataclass(frozen=True)
class Section:
    """A part of the page; without blocks it is its `missing` sentence. Blocks in `folded` open with a click."""

    name: str
    title: str
    blocks: list[Table | Picture]
    missing: str = ""
    folded: tuple[str, ...] = ()


def all_sections(results: Results, maps: Maps) -> list[Section]:
    """Every section in reading order."""
    studies = sorted({r["study"] for r in results.studies} - {""} | {"separation"})
    sections = [
        _section("conventional", "Conventional setting", [result_table(results, "zsl")], f"{_RUN} --setting zsl"),
        _section("generalized", "Generalized setting", [result_table(results, "gzsl")], f"{_RUN} --setting gzsl"),
        _section("significance", "Significance", [significance_table(results)], f"{_RUN} --seeds 5"),
        _section(
            "tradeoff",
            "Seen against unseen classes",
            [*_each(curves.tradeoff_chart, results), measures.calibration_table(results)],
            f"{_RUN} --setting gzsl --calibrate",
        ),
        _section("spaces", "Embedding spaces", [measures.space_table(results)], _RUN),
        _section(
            "maps",
            "Maps of the embedding",
            [map_picture(arrays, dataset) for dataset, arrays in maps],
            "firstsight benchmark DATA… --study map --out RESULTS",
        ),
        _section(
            "rounds",
            "Pseudo-labels, round by round",
            _each(curves.rounds_chart, results),
            "firstsight benchmark DATA… --methods transductive-deep-embedding --out RESULTS",
        ),
        _section(
            "studies",
            "Sensitivity to λ",
            [curves.study_chart(results, d, study) for study in studies for d in results.datasets],
            "firstsight benchmark DATA… --study separation --out RESULTS",
        ),
        _section(
            "classes",
            "Classes",
            [*_each(classes.class_chart, results), classes.class_table(results)],
            _RUN,
        ),
        _section(
            "confusion",
            "Confusion of unseen classes",
            [*_each(classes.confusion_chart, results), classes.confusion_table(results)],
            f"{_RUN} --setting zsl",
        ),
        _section("architecture", "The network", [architecture_picture()]),
        _section("audit", "Leakage audit", [facts.audit_table(results)], _RUN, ("audit",)),
        _section(
            "runs",
            "The runs",
            [facts.cost_table(results), facts.parameter_table(results), facts.warning_table(results)],
            _RUN,
            ("costs", "parameters", "warnings"),
        ),
    ]
    failures = facts.failure_table(results)
    return [Section("failures", "Failed cells", [failures]), *sections] if failures else sections


def headlines(results: Results) -> list[str]:
    """The leaders of each data set, as sentences."""
    found = []
    for dataset in results.datasets:
        words = [words for metric in ("t1", "h") if (words := _leader(results, dataset, metric))]
        if words:
            found.append(f"{dataset}: {'; '.join(words)}")
    return found


def _leader(results: Results, dataset: str, metric: str) -> str:
    figures = {m: results.by_seed(dataset, m, metric) for m in results.methods}
    means = {m: mean(f.values()) for m, f in figures.items() if f}
    ranked = [m for m in results.ranked() if m in means]
    if not ranked:
        return ""
    best = max(ranked, key=lambda m: means[m])
    paper = published(dataset, best, metric)
    beside = f", paper {paper.value:.1f}" if paper else ""
    above = [f"{results.label(m)} {means[m]:.1f}" for m in means if m not in ranked and means[m] > means[best]]
    beside += f" (told more and not ranked: {', '.join(above)})" if above else ""
    return f"{TITLES[metric]} {means[best]:.1f} by {results.label(best)}{beside}"


def _section(
    name: str, title: str, blocks: Iterable[Table | Picture | None], command: str = "", folded: tuple[str, ...] = ()
) -> Section:
    there = [block for block in blocks if block is not None]
    return Section(name, title, there, f"No records of this yet; this command makes them: `{command}`", folded)


def _each(draw, results: Results) -> list[Picture | None]:
    return [draw(results, dataset) for dataset in results.datasets]

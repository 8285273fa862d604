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
        _section("architecture", "The network", [architecture_picture(joint=_joint_size(results))]),
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


def _joint_size(results: Results) -> int | None:
    """The size of the joint space of the paper's two methods, where the records agree on one."""
    own = (r["parameters"].get("embedding_dim") for r in results.records if r["method"] in measures.OWN)
    sizes = {size for size in own if isinstance(size, int)}
    return sizes.pop() if len(sizes) == 1 else None


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
    best = max(round(means[m], 1) for m in ranked)
    first, *others = (m for m in ranked if round(means[m], 1) == best)  # equal as printed
    names = [results.label(m) for m in (first, *others)]
    by = " and ".join(names if len(names) < 3 else [names[0], f"{len(others)} more"])
    paper = None if others else published(dataset, first, metric)
    beside = f", paper {paper.value:.1f}" if paper else ""
    above = [f"{results.label(m)} {means[m]:.1f}" for m in means if m not in ranked and round(means[m], 1) > best]
    beside += f" (told more and not ranked: {', '.join(above)})" if above else ""
    return f"{TITLES[metric]} {best:.1f} by {by}{beside}"


def _section(
    name: str, title: str, blocks: Iterable[Table | Picture | None], command: str = "", folded: tuple[str, ...] = ()
) -> Section:
    there = [block for block in blocks if block is not None]
    return Section(name, title, there, f"No records of this yet; this command makes them: `{command}`", folded)


def _each(draw, results: Results) -> list[Picture | None]:
    return [draw(results, dataset) for dataset in results.datasets]

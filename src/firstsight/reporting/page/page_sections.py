"""The sections of the page, pictures first; and of what is missing, the command that makes its records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from firstsight.reporting.figures.class_charts import class_chart, confusion_chart
from firstsight.reporting.figures.embedding_maps import Maps, map_picture
from firstsight.reporting.figures.figure_style import Picture
from firstsight.reporting.figures.line_charts import rounds_chart, study_chart
from firstsight.reporting.figures.network_drawing import network_drawing
from firstsight.reporting.figures.overview_chart import overview_chart
from firstsight.reporting.figures.rank_chart import rank_chart
from firstsight.reporting.figures.trade_off_chart import trade_off_chart
from firstsight.reporting.published_figures import published
from firstsight.reporting.recorded_results import TITLES, Results
from firstsight.reporting.tables.accuracy_tables import accuracy_table
from firstsight.reporting.tables.audit_table import audit_table
from firstsight.reporting.tables.calibration_table import calibration_table
from firstsight.reporting.tables.class_tables import class_table, confusion_table
from firstsight.reporting.tables.rank_table import rank_table, rankings
from firstsight.reporting.tables.run_tables import cost_table, failure_table, parameter_table, warning_table
from firstsight.reporting.tables.significance_table import significance_table
from firstsight.reporting.tables.space_table import space_table
from firstsight.reporting.tables.table import Table
from firstsight.reporting.tables.tuning_table import STUDY, tuning_table

_TWO_BRANCHES = ("deep-embedding", "transductive-deep-embedding")  # the methods that the drawing of the network shows


@dataclass(frozen=True)
class Section:
    """A part of the page; `made_by` says how to get its records. Blocks in `folded` open with a click."""

    name: str
    title: str
    blocks: list[Table | Picture]
    made_by: str = ""
    folded: tuple[str, ...] = ()


def all_sections(results: Results, maps: Maps) -> list[Section]:
    """Every section in reading order, those without blocks included."""
    made = rankings(results)
    names = sorted({r.study for r in results.studies} - {"", STUDY})
    ranks = [*(rank_chart(results, one) for one in made), rank_table(results, made)]
    trade_offs = [*_each(trade_off_chart, results), calibration_table(results)]
    studies = [study_chart(results, dataset, study) for study in names for dataset in results.datasets]
    confusions = [*_each(confusion_chart, results), confusion_table(results)]
    runs = [cost_table(results), parameter_table(results), warning_table(results)]
    sections = [
        _section("failures", "Failed cells", [failure_table(results)]),
        _section("overview", "At a glance", [overview_chart(results)], _run()),
        _section("ranks", "Over all data sets", ranks, f"{_run()} with three data sets and three methods or more"),
        _section("conventional", "Conventional setting", [accuracy_table(results, "zsl")], _run("--setting zsl")),
        _section("generalized", "Generalized setting", [accuracy_table(results, "gzsl")], _run("--setting gzsl")),
        _section("tradeoff", "Seen against unseen classes", trade_offs, _run("--setting gzsl --calibrated-h")),
        _section("tuning", "Tuned against default", [tuning_table(results)], _run("--tuned TUNED")),
        _section("significance", "Significance", [significance_table(results)], _run("--seeds 5")),
        _section("maps", "Maps of the embedding", [map_picture(*one) for one in maps], _run("--study map")),
        _section("spaces", "Embedding spaces", [space_table(results)], _run()),
        _section("rounds", "Pseudo-labels, round by round", _each(rounds_chart, results), _run("--setting zsl")),
        _section("studies", "Sensitivity to parameters", studies, _run("--study separation")),
        _section("classes", "Classes", [*_each(class_chart, results), class_table(results)], _run()),
        _section("confusion", "Confusion of unseen classes", confusions, _run("--setting zsl")),
        _section("architecture", "The network", [_network(results)]),
        _section("audit", "Leakage audit", [audit_table(results)], _run(), ("audit",)),
        _section("runs", "The runs", runs, _run(), ("costs", "parameters", "warnings")),
    ]
    return [section for section in sections if section.blocks or section.made_by]


def _run(words: str = "--methods all") -> str:
    return f"`firstsight benchmark DATA… {words} --out RESULTS`"


def _network(results: Results) -> Picture | None:
    """The drawing of the two-branch network where it is among the methods, its size where the records agree on one."""
    own = [r for r in results.records if r.method in _TWO_BRANCHES]
    sizes = {size for r in own if isinstance(size := r.parameters.get("embedding_dim"), int)}
    return network_drawing(joint=sizes.pop() if len(sizes) == 1 else None) if own else None


class Leader(NamedTuple):
    """Who is best in one figure of one data set."""

    metric: str
    value: str
    by: str

    def __str__(self) -> str:
        return f"{self.metric} {self.value} by {self.by}"


def headlines(results: Results) -> dict[str, list[Leader]]:
    """The leaders of each data set."""
    leaders_of = {d: [one for metric in ("t1", "h") if (one := _leader(results, d, metric))] for d in results.datasets}
    return {dataset: leaders for dataset, leaders in leaders_of.items() if leaders}


def _leader(results: Results, dataset: str, metric: str) -> Leader | None:
    means = {m: v for m in results.methods if (v := results.mean_of(dataset, m, metric)) is not None}
    ranked = [m for m in results.ranked() if m in means]
    if not ranked:
        return None
    best = max(round(means[m], 1) for m in ranked)
    first, *others = (m for m in ranked if round(means[m], 1) == best)  # equal as printed
    names = [results.label(m) for m in (first, *others)]
    by = " and ".join(names if len(names) < 3 else [names[0], f"{len(others)} more"])
    paper = None if others else published(dataset, first, metric)
    beside = f", paper {paper.value:.1f}" if paper else ""
    above = [f"{results.label(m)} {means[m]:.1f}" for m in means if m not in ranked and round(means[m], 1) > best]
    beside += f" (extra supervision, not ranked: {', '.join(above)})" if above else ""
    return Leader(TITLES[metric], f"{best:.1f}", by + beside)


def _section(
    name: str, title: str, blocks: Iterable[Table | Picture | None], made_by: str = "", folded: tuple[str, ...] = ()
) -> Section:
    return Section(name, title, [block for block in blocks if block is not None], made_by, folded)


def _each(draw: Callable[[Results, str], Picture | None], results: Results) -> list[Picture | None]:
    return [draw(results, dataset) for dataset in results.datasets]

"""Tables of accuracy: methods by data sets, calibrated H, mean ranks, significance."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import mean, stdev
from typing import Any, NamedTuple

from firstsight.evaluation import METRICS, TITLES
from firstsight.evaluation.significance import (
    LEAST_SEEDS,
    SWAPS,
    Accuracies,
    Comparison,
    RankComparison,
    compare,
    compare_classes,
    compare_ranks,
)
from firstsight.experiments.records import Record
from firstsight.reporting.results import CALIBRATED_H, Results, published, setting_of
from firstsight.reporting.table import Column, Row, Table, TableCell, signed, spread, words

_NAMES = {
    "zsl": ("conventional", "Unseen classes, only these as candidates: T1, %"),
    "gzsl": ("generalized", "All classes are candidates: ts of unseen, tr of seen classes, their harmonic mean H, %"),
}
# Where a figure's parameters come from: the sign behind it, and what it means.
CHOSEN = {
    "tuned": ("t", "tuned on validation classes of that data set"),
    "by hand": ("h", "parameters set by hand"),
    "mixed": ("m", "not the same for all seeds"),
    "default": ("", "the method's own defaults"),
}


def accuracy_table(results: Results, setting: str) -> Table | None:
    """One of the two tables, beside published figures where there are any; None without a record of that setting."""
    run = {(r.dataset, r.method) for r in results.tables if r.setting == setting}
    if not run:
        return None
    datasets = [d for d in results.datasets if any(d == dataset for dataset, _ in run)]
    marks = {(d, metric): places(results, d, metric) for d in datasets for metric in METRICS[setting]}

    def fill(dataset: str, method: str) -> Filled:
        filled = [_beside_the_paper(results, dataset, method, m, marks[dataset, m]) for m in METRICS[setting]]
        return [cell for cell, _ in filled], [line for _, line in filled]

    def first(method: str) -> list[TableCell]:
        figure = next(filter(None, (published(d, method, METRICS[setting][0]) for d in datasets)), None)
        renamed = figure and figure.name_in_paper.lower() != method
        return [name_cell(results, method, f"{figure.name_in_paper} in the paper" if figure and renamed else "")]

    columns, rows, tidy = method_grid(results, run, [TITLES[m] for m in METRICS[setting]], fill, first)
    name, title = _NAMES[setting]
    return Table(name, title, columns, rows, _notes(results, setting, datasets, {m for _, m in run}), tidy)


Filled = tuple[Sequence[TableCell], Sequence[Mapping[str, Any]]]  # cells, and lines of the CSV file


def method_grid(
    results: Results,
    measured: Collection[tuple[str, str]],
    titles: Sequence[str],
    fill: Callable[[str, str], Filled],
    first: Callable[[str], list[TableCell]] | None = None,
    first_titles: Sequence[str] = ("method",),
) -> tuple[list[Column], list[Row], list[dict[str, Any]]]:
    """Columns, rows and CSV lines of a table with a row per method and, for each data set, columns of these titles.

    `measured` are the data sets and methods with a figure; `fill` gives the cells of a data set and method, `first`
    the cells before them.
    """
    datasets = [d for d in results.datasets if any(d == dataset for dataset, _ in measured)]
    columns = [*words(*first_titles), *(Column(title, d) for d in datasets for title in titles)]
    rows: list[Row] = []
    tidy: list[dict[str, Any]] = []
    for heading, methods in results.by_space({method for _, method in measured}):
        rows.append(heading)
        for method in methods:
            row = first(method) if first else [name_cell(results, method)]
            for dataset in datasets:
                cells, lines = fill(dataset, method)
                row += cells
                tidy += [{"dataset": dataset, "method": method, **line} for line in lines]
            rows.append(row)
    return columns, rows, tidy


def name_cell(results: Results, method: str, detail: str = "") -> TableCell:
    """A method's name with its marks, picked out where the project calls the method its own."""
    return TableCell(results.label(method), detail, "ours" if method in results.settings.ours else "")


def places(results: Results, dataset: str, metric: str) -> dict[str, str]:
    """Which methods are best and second; equals (as printed) share their place, and 0.0 has no place."""
    figures = {m: results.mean_of(dataset, m, metric) for m in results.ranked()}
    means = {m: round(value, 1) for m, value in figures.items() if value is not None}
    if len(means) < 2:
        return {}
    order = sorted({value for value in means.values() if value > 0}, reverse=True)
    marks = dict(zip(order, ("best", "second"), strict=False))
    return {method: marks[value] for method, value in means.items() if value in marks}


def figure_cell(results: Results, dataset: str, method: str, metric: str, marks: dict[str, str]) -> TableCell:
    """A figure over its seeds, and what has to be known of it: failed seeds, a collapse, whether it was tuned."""
    setting = setting_of(metric)
    values = list(results.by_seed(dataset, method, metric).values())
    failed = results.runs(dataset, method, setting, status="failed")
    if not values:
        return TableCell("failed", mark="failed") if failed else TableCell("–")
    details = []
    if failed:
        details.append(f"{len(failed)} of {len(failed) + len(values)} seeds failed")
    runs = results.runs(dataset, method, setting)
    if any(run.collapsed for run in runs):
        details.append("collapsed")
    sign = CHOSEN[chosen(runs)][0]
    return TableCell(spread(values), "; ".join(details), marks.get(method, ""), sign, share=mean(values) / 100)


def chosen(runs: Collection[Record]) -> str:
    """Where the parameters of runs come from: a key of CHOSEN."""
    kinds = {"tuned" if run.tuned else "by hand" if run.given else "default" for run in runs}
    return kinds.pop() if len(kinds) == 1 else "mixed"


def mark_notes(results: Results, methods: Collection[str]) -> list[str]:
    """What the marks of figures and methods mean, as far as there are such methods."""
    notes = ["Bold is best, underlined second in its column."]
    if any(results.example[m].transductive for m in methods):
        notes.append("† transductive: has seen the test rows, without their labels, in training.")
    supervision = sorted({results.example[m].extra_supervision for m in methods} - {""})
    if supervision:
        notes.append(f"* gets extra supervision, and is therefore not ranked: {'; '.join(supervision)}.")
    return notes


def chosen_note(results: Results) -> str:
    """What the signs behind figures mean, as far as they occur."""
    cells = {(r.dataset, r.method, r.setting) for r in results.tables if r.status == "done"}
    kinds = {chosen(results.runs(*cell)) for cell in cells}
    said = [f"{sign or 'without a sign'}: {meaning}" for name, (sign, meaning) in CHOSEN.items() if name in kinds]
    return f"Behind a figure, {'; '.join(said)}." if said else ""


def _beside_the_paper(
    results: Results, dataset: str, method: str, metric: str, marks: dict[str, str]
) -> tuple[TableCell, dict[str, Any]]:
    """The cell and its CSV line, with the published figure and the difference from it, if there is one."""
    cell, setting = figure_cell(results, dataset, method, metric, marks), setting_of(metric)
    values = list(results.by_seed(dataset, method, metric).values())
    example, paper = results.example[method], published(dataset, method, metric)
    difference = mean(values) - paper.value if paper and values else None
    if paper:
        said = f"paper {paper.value:.1f}" + ("" if difference is None else f", {signed(difference)}")
        cell = replace(cell, detail="; ".join(filter(None, [said, cell.detail])))
    return cell, {
        "space": example.space,
        "transductive": example.transductive,
        "extra_supervision": example.extra_supervision,
        "setting": setting,
        "metric": metric,
        "mean": round(mean(values), 2) if values else None,
        "deviation": round(stdev(values), 2) if len(values) > 1 else None,
        "seeds": len(values),
        "failed_seeds": len(results.runs(dataset, method, setting, status="failed")),
        "published": paper.value if paper else None,
        "difference": None if difference is None else round(difference, 2),
        "source": paper.source if paper else None,
        "parameters": chosen(results.runs(dataset, method, setting)) if values else None,
    }


def _notes(results: Results, setting: str, datasets: list[str], methods: set[str]) -> list[str]:
    notes = ["Mean ± standard deviation over seeds; a figure without deviation is of one run."]
    notes += [*mark_notes(results, methods), *filter(None, [chosen_note(results)])]
    figures = [{p for d in datasets if (p := published(d, m, METRICS[setting][0]))} for m in sorted(methods)]
    if any(figures):
        notes.append("Beneath: the figure that the paper prints, and the difference of ours from it.")
        notes.append("The paper's features are ResNet-101, which those of these records need not be.")
    for of_method in figures:
        notes += sorted({f"Published figure of {p.name_in_paper}: {p.note}." for p in of_method if p.note})
    return notes


_SHOWN = {"ausuc": "AUSUC", "h": "H", "calibrated_h": "H cal."}
Values = dict[str, list[float]]  # a figure → over seeds


def calibration_table(results: Results) -> Table | None:
    """AUSUC, and H with a constant taken off the seen scores, beside H as it is."""
    figures = {(d, m): v for d in results.datasets for m in results.methods if (v := _trade_off(results, d, m))}
    if not figures:
        return None
    shown = [name for name in _SHOWN if any(values[name] for values in figures.values())]

    def fill(dataset: str, method: str) -> Filled:
        values = figures.get((dataset, method), {})
        means = {name: round(mean(v), 4) for name, v in values.items() if v}
        return [TableCell(spread(values.get(name, []))) for name in shown], [means] * bool(means)

    columns, rows, tidy = method_grid(results, figures, [_SHOWN[name] for name in shown], fill)
    notes = ["AUSUC: the area under seen against unseen accuracy over all constants, in % of the largest possible."]
    if "calibrated_h" not in shown:
        notes.append("H is not calibrated in these records; `firstsight benchmark … --calibrated-h` makes such.")
        return Table("calibration", "Area under the curve, and H (%)", columns, rows, notes, tidy)
    notes.append(
        "Calibrated: a constant, found on validation classes of the training set, is taken off the scores of seen "
        "classes; not to be compared with the tables of accuracies. `calibration.csv` has ts, tr and the constant, in "
        "the units of the method's own scores."
    )
    # H calibrated is not part of every benchmark.
    counts = {cell: (len(v["calibrated_h"]), len(v["h"])) for cell, v in figures.items()}
    fewer = [f"{m} on {d} ({n} of {total})" for (d, m), (n, total) in counts.items() if 0 < n < total]
    notes += ["H cal. is – where a method was not calibrated."] * any(n == 0 for n, _ in counts.values())
    notes += [f"Calibrated for fewer seeds than H is of: {', '.join(fewer)}."] * bool(fewer)
    return Table("calibration", "Area under the curve, H, and H calibrated (%)", columns, rows, notes, tidy)


def _trade_off(results: Results, dataset: str, method: str) -> Values:
    runs = [(r, r.seen_unseen) for r in results.runs(dataset, method, "gzsl") if r.seen_unseen]
    if not runs:
        return {}
    fixed = [measured.calibrated for _, measured in runs if measured.calibrated]
    figures = {"ausuc": [measured.ausuc for _, measured in runs], "h": [r.h for r, _ in runs]}
    figures |= {f"calibrated_{name}": [getattr(f, name) for f in fixed] for name in ("h", "ts", "tr", "constant")}
    return {name: [v for v in values if v is not None] for name, values in figures.items()}


RANKED = {"t1": TITLES["t1"], "h": TITLES["h"], CALIBRATED_H: "H calibrated"}
LEAST = 3  # data sets, and methods: fewer have nothing to be summed up


class Ranking(NamedTuple):
    """How methods of one kind compare in one figure over the data sets that they all have been run on."""

    kind: str
    metric: str
    datasets: list[str]
    left_out: list[str]  # methods that lack one of these data sets
    comparison: RankComparison


def rankings(results: Results) -> list[Ranking]:
    """Every comparison that the records allow: of each kind of method, in each figure."""
    found = []
    for kind in ("inductive", "transductive"):
        methods = [m for m in results.ranked() if results.is_inductive(m) == (kind == "inductive")]
        for metric in RANKED:
            figures = {
                m: {d: v for d in results.datasets if (v := results.mean_of(d, m, metric)) is not None} for m in methods
            }
            datasets, whole = _shared(results.datasets, figures)
            if len(datasets) >= LEAST and len(whole) >= LEAST:
                left_out = [m for m in methods if figures[m] and m not in whole]
                comparison = compare_ranks({m: [figures[m][d] for d in datasets] for m in whole})
                found.append(Ranking(kind, metric, datasets, left_out, comparison))
    return found


def _shared(datasets: Iterable[str], figures: Mapping[str, Mapping[str, float]]) -> tuple[list[str], list[str]]:
    """Data sets and the methods that have all of them, as many figures as possible: a rank needs every rival."""
    order = sorted(datasets, key=lambda d: -sum(d in by_dataset for by_dataset in figures.values()))
    choices = [
        (order[:n], [m for m, by_dataset in figures.items() if by_dataset.keys() >= set(order[:n])])
        for n in range(LEAST, len(order) + 1)
    ]
    return max(choices, key=lambda choice: len(choice[0]) * len(choice[1]), default=([], []))


def rank_table(results: Results, found: list[Ranking]) -> Table | None:
    """Mean ranks, a row per method; the columns are the figures that can be compared."""
    if not found:
        return None
    metrics = [metric for metric in RANKED if any(ranking.metric == metric for ranking in found)]
    rows: list[Row] = []
    for kind in dict.fromkeys(ranking.kind for ranking in found):
        ranks_of = {ranking.metric: ranking.comparison.ranks for ranking in found if ranking.kind == kind}
        methods = dict.fromkeys(m for ranks in ranks_of.values() for m in ranks)
        best = {metric: min(ranks.values()) for metric, ranks in ranks_of.items()}
        rows.append(f"{kind} methods")
        for method in sorted(methods, key=lambda m: min(r.get(m, 99.0) for r in ranks_of.values())):
            row = [ranks_of.get(metric, {}).get(method) for metric in metrics]
            cells = [
                TableCell("–") if rank is None else TableCell(f"{rank:.2f}", mark="best" * (rank == best[metric]))
                for metric, rank in zip(metrics, row, strict=True)
            ]
            rows.append([name_cell(results, method), *cells])
    tidy = [
        {
            "kind": ranking.kind,
            "metric": ranking.metric,
            "method": method,
            "mean_rank": round(rank, 4),
            "data_sets": len(ranking.datasets),
            "p": ranking.comparison.p,
            "critical_difference": round(ranking.comparison.critical_difference, 4),
        }
        for ranking in found
        for method, rank in ranking.comparison.ranks.items()
    ]
    notes = [
        "Rank 1 is the best of a data set, equals share the mean of their places; the mean is over data sets. "
        "Inductive and transductive methods are ranked apart, since these have seen the test rows."
    ]
    title = f"Mean rank over {' or '.join(sorted({str(len(ranking.datasets)) for ranking in found}))} data sets"
    return Table("ranks", title, [*words("method"), *(Column(RANKED[m]) for m in metrics)], rows, notes, tidy)


def verdict(ranking: Ranking) -> str:
    """What the tests say of one comparison, and who is not in it."""
    p = "< 0.0001" if ranking.comparison.p < 1e-4 else f"= {ranking.comparison.p:.4f}"
    differ = "more than chance explains" if ranking.comparison.p < 0.05 else "no more than chance explains"
    said = f"{', '.join(ranking.datasets)}: ranks differ by {differ} (Friedman, p {p})."
    return said + (f" Not run on all of these: {', '.join(ranking.left_out)}." if ranking.left_out else "")


_CLASS_FIGURES = {"t1": ("t1",), "h": ("ts", "tr")}  # a figure, and the accuracies per class that it is made of


def significance_table(results: Results) -> Table | None:
    """The leader against the runner-up in T1 and H: among all ranked methods, and among inductive ones."""
    columns = [*words("figure", "among", "leader", "runner-up"), Column("difference"), Column("seeds")]
    columns += [Column("p\u00a0(t\u00a0test)", "over seeds"), Column("p\u00a0(exact)", "over seeds")]
    columns += [Column("significant", "over seeds", is_number=False)]
    columns += [Column("p\u00a0(swaps)", "over classes"), Column("significant", "over classes", is_number=False)]
    rows: list[Row] = []
    tidy: list[dict[str, Any]] = []
    for dataset in results.datasets:
        pairs = list(_pairs(results, dataset))
        rows += [dataset] * bool(pairs)
        for metric, among, first, second in pairs:
            cells, line = _compared(results, dataset, metric, first, second)
            rows.append([TableCell(TITLES[metric]), TableCell(among), *cells])
            tidy.append({"dataset": dataset, "metric": metric, "among": among, **line})
    if not rows:
        return None
    notes = [
        "Over seeds: would another training run turn the order round? Paired (t test of the differences, exact sign "
        "flips) where both methods have the same seeds, else Welch's t test and the exact permutation test. Fewer than "
        f"{LEAST_SEEDS} seeds of either are not tested; a method without anything random runs once, whatever "
        "`--seeds` says. Exact tests have a floor: 2/2ⁿ with n paired seeds, 0.25 for three and 0.0625 for five.",
        "Over classes: would other classes of the same kind turn it round? A randomisation test, which one seed is "
        f"enough for: {SWAPS:,} times, the two methods' accuracies change places in classes drawn by lot. For H it is "
        "strict: where one method gains in ts what it loses in tr, a real difference may read 'no'.",
        "Two-sided; verdicts at 5 %, of the t test and of the swaps, not corrected for the number of rows. Leader and "
        "runner-up were picked by the same figures, so p is rather too small than too large.",
    ]
    if any(row[4].text == "tie" for row in rows if not isinstance(row, str)):
        notes.append("Tie: the difference rounds to 0.0.")
    if len(results.ranked()) < len(results.methods):
        notes.append("Methods with extra supervision (*) are not compared.")
    title = "Is the leader's distance more than chance explains?"
    return Table("significance", title, columns, rows, notes, tidy)


def _pairs(results: Results, dataset: str) -> Iterator[tuple[str, str, str, str]]:
    """(metric, among whom, leader, runner-up); the same two methods are compared once."""
    for metric in _CLASS_FIGURES:
        shown: set[tuple[str, str]] = set()
        for among in ("all", "inductive"):
            methods = [m for m in results.ranked() if among == "all" or results.is_inductive(m)]
            means = {m: value for m in methods if (value := results.mean_of(dataset, m, metric)) is not None}
            order = sorted(means, key=lambda m: -means[m])
            if len(order) > 1 and (order[0], order[1]) not in shown:
                shown.add((order[0], order[1]))
                yield metric, among, order[0], order[1]


def _compared(
    results: Results, dataset: str, metric: str, first: str, second: str
) -> tuple[list[TableCell], dict[str, Any]]:
    figures = [results.by_seed(dataset, method, metric) for method in (first, second)]
    comparison = compare(*figures)
    classes = compare_classes(*(_accuracies(results, dataset, m, metric) for m in (first, second)))
    difference = mean(figures[0].values()) - mean(figures[1].values())
    shown = signed(difference)
    texts = [results.label(first), results.label(second), "tie" if shown == signed(0.0) else shown, comparison.seeds]
    texts += [_shown(comparison.p), _shown(comparison.exact), _verdict_over_seeds(comparison, min(map(len, figures)))]
    texts += [_shown(classes), "not recorded" if classes is None else _verdict(classes)]
    line = {"leader": first, "runner_up": second, "difference": round(difference, 2), "test": comparison.test}
    line |= {"leader_seeds": len(figures[0]), "runner_up_seeds": len(figures[1])}
    line |= {"p_seeds": comparison.p, "p_seeds_exact": comparison.exact, "p_classes": classes}
    return [TableCell(text) for text in texts], line


def _accuracies(results: Results, dataset: str, method: str, metric: str) -> Accuracies:
    accuracies = {a: results.class_accuracies(dataset, a).get(method, {}) for a in _CLASS_FIGURES[metric]}
    return accuracies if all(accuracies.values()) else {}


def _verdict_over_seeds(comparison: Comparison, fewest: int) -> str:
    if not comparison.test:  # of one run, records do not tell whether other seeds would change anything
        return "too few seeds" if fewest > 1 else "one run (deterministic, or one seed)"
    if comparison.p is None:
        return "the same difference for every seed" if comparison.test == "paired" else "no seed changes either"
    return f"{_verdict(comparison.p)} ({comparison.test})"


def _verdict(p: float) -> str:
    return "yes" if p < 0.05 else "no"


def _shown(p: float | None) -> str:
    return "–" if p is None else "< 0.0001" if p < 1e-4 else f"{p:.4f}"

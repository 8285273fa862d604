"""Tables about runs: failures, warnings, cost, parameters, leakage, tuning, spaces, classes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from statistics import mean, stdev
from typing import Any

from firstsight.experiments.records import Record, Touched
from firstsight.reporting.accuracy_tables import Filled, method_grid, name_cell
from firstsight.reporting.results import CALIBRATED_H, Results, figure_of, setting_of
from firstsight.reporting.table import Column, Row, Table, TableCell, signed, spread, words


def failure_table(results: Results) -> Table | None:
    """Every failed cell with its sentence."""
    if not results.failed:
        return None
    columns = [*words("data set", "method", "what happened", "setting"), Column("seed"), *words("variant")]
    rows = [
        [
            *map(TableCell, (r.dataset, r.method)),
            TableCell(r.error or "no reason was recorded", mark="failed"),
            *map(TableCell, (r.setting, str(r.seed), _words(r.variant) or "–")),
        ]
        for r in results.failed
    ]
    notes = ["The same `firstsight benchmark` command tries them again and leaves what is finished alone."]
    return Table("failures", "Cells that failed", columns, rows, notes)


def warning_table(results: Results) -> Table | None:
    """What methods warned of while they ran."""
    seeds: dict[tuple[str, str, str, str, str], list[str]] = {}
    for r in results.records:
        for said in r.warnings:
            key = (r.dataset, r.method, r.setting, _words(r.variant) or "–", said)
            seeds.setdefault(key, []).append(str(r.seed))
    if not seeds:
        return None
    columns = words("data set", "method", "setting", "variant", "warning", "seeds")
    rows = [[*map(TableCell, key), TableCell(", ".join(numbers))] for key, numbers in seeds.items()]
    return Table("warnings", f"Warnings of methods: {len(rows)} kinds of warning", columns, rows)


def cost_table(results: Results) -> Table | None:
    """Seconds and memory of every cell, mean over seeds."""
    rows: list[Row] = []
    for cell, of_cell in results.cells.items():
        runs = [r for r in of_cell if r.status == "done" and (r.seconds or r.peak_mib)]
        if not runs:
            continue
        texts = [*cell, str(len(runs))]
        texts += [spread(getattr(r, name) for r in runs) for name in ("seconds", "fit_seconds", "cpu_seconds")]
        peaks, threads = ({getattr(r, name) for r in runs} - {None} for name in ("peak_mib", "threads"))
        texts += [f"{max(peaks):,}" if peaks else "–", "–".join(map(str, sorted(threads))) or "–"]
        rows.append([*map(TableCell, texts)])
    if not rows:
        return None
    fits: dict[tuple[str, ...], float] = {}
    for r in results.records:  # an inductive method is fitted once for both settings
        if r.few_shot:  # one fit for many of them
            continue
        parts = (r.dataset, r.method, str(r.seed), _words(r.variant), r.setting * r.transductive)
        fits[parts] = max(fits.get(parts, 0.0), r.seconds or 0.0)
    versions = sorted({_words(r.versions) for r in results.records if r.versions})
    notes = ["An inductive method is fitted once for both settings. Few-shot cells are not counted."]
    notes += [f"Versions: {version}." for version in versions]
    columns = words("data set", "method", "setting")
    columns += map(Column, ("seeds", "seconds", "of these fit", "CPU seconds of the fit", "peak MiB", "threads"))
    return Table("costs", f"What the runs cost: {_duration(sum(fits.values()))} in all", columns, rows, notes)


def parameter_table(results: Results) -> Table | None:
    """The parameters of every cell of the tables, and how they were chosen."""
    settings: dict[tuple[str, str, str, str], list[str]] = {}
    for (dataset, method, setting), of_cell in results.cells.items():
        runs = [r for r in of_cell if r.parameters]
        if runs:
            name = f"{method} ({runs[0].estimator})" if runs[0].estimator else method
            distinct = " / ".join(dict.fromkeys(_words(r.parameters) for r in runs))
            chosen = " / ".join(dict.fromkeys(map(_chosen, runs)))
            settings.setdefault((name, chosen, distinct, dataset), []).append(setting)
    if not settings:
        return None
    datasets: dict[tuple[str, ...], list[str]] = {}  # what is the same on several data sets stands in one row
    for (name, chosen, distinct, dataset), names in settings.items():
        datasets.setdefault((name, ", ".join(names), chosen, distinct), []).append(dataset)
    rows = [[TableCell(", ".join(names)), *map(TableCell, alike)] for alike, names in datasets.items()]
    notes = [
        "Tuned: on validation classes of the training set. Set by hand: the user gave the values of those named; the "
        "others are the method's own, or its preset's."
    ]
    columns = words("data sets", "method", "setting", "chosen", "parameters")
    return Table("parameters", "Parameters", columns, rows, notes)


def _chosen(record: Record) -> str:
    """Where a record's parameters come from."""
    if not record.tuned:
        return f"set by hand: {', '.join(record.given)}" if record.given else "own defaults"
    source = record.tuned.model_dump(exclude={"set_by_hand"})
    if not source["kept_defaults"]:
        del source["kept_defaults"]
    by_hand = ", ".join(record.tuned.set_by_hand)
    return f"tuned on validation classes ({_words(source)})" + (f"; set by hand: {by_hand}" if by_hand else "")


def _duration(seconds: float) -> str:
    """In the largest unit of which there is at least one."""
    for size, unit in ((3600, "hours"), (60, "minutes")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} seconds"


def _words(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


_TOUCHED = {
    "labelled_rows": "labelled rows",
    "labelled_classes": "their classes",
    "unlabelled_rows": "unlabelled rows",
    "test_rows_labelled": "test rows with labels",
    "unseen_classes_labelled": "unseen classes with labels",
}


def leaks(touched: Touched, transductive: bool, shots: int = 0) -> list[str]:
    """What a fit has touched and should not have; with `shots`, samples of unseen classes were labelled on purpose."""
    found = {
        "labels of test rows": touched.test_rows_labelled,
        "labels of unseen classes": not shots and touched.unseen_classes_labelled,
        "unlabelled rows, though inductive": not transductive and touched.unlabelled_rows,
        "descriptions of unseen classes, though inductive": not transductive and touched.unseen_descriptions_in_fit,
    }
    return [what for what, leaked in found.items() if leaked]


def audit_table(results: Results) -> Table | None:
    """Which rows and classes each fit has touched; fits that touched the same share a line."""
    alike: dict[tuple[str, str, tuple[str, ...], Touched], list[Record]] = {}
    for r in results.records:
        if r.touched:
            leaked = tuple(leaks(r.touched, r.transductive, r.variant["shots"] if r.few_shot else 0))
            alike.setdefault((r.dataset, r.method, leaked, r.touched), []).append(r)
    if not alike:
        return None
    columns = [*words("data set", "method", "setting"), Column("records"), *map(Column, _TOUCHED.values())]
    columns += words("unseen descriptions", "finding")
    rows: list[Row] = []
    for (dataset, method, leaked, touched), runs in alike.items():
        settings = ", ".join(dict.fromkeys(r.setting for r in runs))
        counts = touched.model_dump(include=set(_TOUCHED))
        finding = f"LEAK: {'; '.join(leaked)}" if leaked else "clean"
        rows.append(
            [
                *map(TableCell, (dataset, method, settings, str(len(runs)))),
                *(TableCell(f"{counts[name]:,}") for name in _TOUCHED),
                TableCell("yes" if touched.unseen_descriptions_in_fit else "no"),
                TableCell(finding, detail=touched.note, mark="failed" if leaked else ""),
            ]
        )
    watched, leaking = sum(map(len, alike.values())), sum(len(runs) for key, runs in alike.items() if key[2])
    said = f"{leaking} of them more than they should" if leaking else "none a label that it should not know"
    notes = [
        "Clean: no label of a test row or of an unseen class has reached the fit, and if the method is inductive, no "
        "unlabelled row and no description of an unseen class either.",
    ]
    title = f"Leakage audit: {watched} records say what their fit has touched, {said}"
    return Table("audit", title, columns, rows, notes)


STUDY = "defaults"
_SHOWN = {"t1": "T1", CALIBRATED_H: "H cal."}


def tuning_table(results: Results) -> Table | None:
    """Each method tuned on each data set, beside its defaults, over the seeds that both have."""
    tuned = {(r.dataset, r.method) for r in results.tables if r.tuned and r.status == "done"}
    if not tuned:
        return None

    def fill(dataset: str, method: str) -> Filled:
        compared = {metric: _compared(results, dataset, method, metric) for metric in _SHOWN}
        lines = [{"metric": metric, **line} for metric, (_, line) in compared.items() if line]
        return [cell for cell, _ in compared.values()], lines

    columns, rows, tidy = method_grid(results, tuned, list(_SHOWN.values()), fill)
    notes = [
        "Parameters were chosen on validation classes of each data set's training rows. Beneath or beside a figure: "
        "what the method's defaults give on the same test rows and seeds, or that validation kept them (=).",
        "H cal.: H with a constant taken off the scores of seen classes, found on validation classes.",
    ]
    return Table("tuning", "Tuned against default, on test (%)", columns, rows, notes, tidy)


def _compared(results: Results, dataset: str, method: str, metric: str) -> tuple[TableCell, dict[str, Any]]:
    setting = setting_of(metric)
    tuned = [r for r in results.runs(dataset, method, setting) if r.tuned]
    values = {r.seed: value for r in tuned if (value := figure_of(r, metric)) is not None}
    if not values:
        return TableCell("–"), {}
    over_all = round(mean(values.values()), 2)
    if all(r.tuned and r.tuned.kept_defaults for r in tuned):
        return TableCell(f"{over_all:.1f}", "="), {"tuned": over_all, "default": over_all, "seeds": len(values)}
    before = {
        r.seed: value
        for r in results.studies
        if (r.dataset, r.method, r.setting, r.study, r.status) == (dataset, method, setting, STUDY, "done")
        and (value := figure_of(r, metric)) is not None
    }
    both = sorted(set(values) & set(before))
    if not both:
        return TableCell(f"{mean(values.values()):.1f}", "defaults not run"), {"tuned": over_all}
    new, old = (mean(by_seed[seed] for seed in both) for by_seed in (values, before))
    line = {"tuned": round(new, 2), "default": round(old, 2), "seeds": len(both)}
    return TableCell(f"{new:.1f}", f"{old:.1f}, {signed(new - old)}"), line


# The space before an arrow does not break: it stays with its word.
_FACTS = {"compactness": "compact\u00a0↓", "separability": "separable\u00a0↑", "hubness": "hubs"}
Values = dict[str, list[float]]  # a fact, or "own " and a fact of the method's own embedding → over seeds


def space_table(results: Results) -> Table | None:
    """Compactness, separability and hubness of the space that each method decides in, beside what is claimed of it."""
    values = {(d, m): v for d in results.datasets for m in results.methods if (v := _space_facts(results, d, m))}
    if not values:
        return None
    claims = results.settings.claims

    def fill(dataset: str, method: str) -> Filled:
        of_cell, space = values.get((dataset, method), {}), results.example[method].space
        lines = [{"space": space, **_line(of_cell, fact)} for fact in _FACTS if of_cell.get(fact)]
        return [_cell(of_cell, fact) for fact in _FACTS], lines

    def first(method: str) -> list[TableCell]:
        claim = TableCell(claims.get(method, claims.get(results.example[method].space, "–")))
        return [name_cell(results, method), *[claim] * bool(claims)]

    heads = ["method", *[claims.get("title", "said")] * bool(claims)]
    columns, rows, tidy = method_grid(results, values, list(_FACTS.values()), fill, first, heads)
    notes = [
        "Measured on test rows of unseen classes in the space that a method's decisions see (its scores of the unseen "
        "classes, less their mean), so that all methods can be compared; beneath, in the method's own embedding, where "
        "it shows one.",
        "Compactness: distance of rows to their class's mean, against that between class means; less is more compact. "
        "Separability: simplified silhouette, from −1 to 1; more is better. Hubness: skewness of how often a class is "
        "among the best of a row; 0 is none.",
    ]
    datasets, measured = {d for d, _ in values}, {m for _, m in values}
    if any(not values.get((d, m), {}).get(fact) for d in datasets for m in measured for fact in _FACTS):
        notes.append(
            "–: not recorded, or there is no such number. Hubness has none where every class is among the best equally "
            "often, the others none where all rows lie in one point."
        )
    without = [m for m in results.methods if m not in measured]
    notes += [f"Not recorded: {', '.join(without)}."] if without else []
    return Table("spaces", "Embedding spaces, measured", columns, rows, notes, tidy)


def _space_facts(results: Results, dataset: str, method: str) -> Values:
    """Values over seeds; of the conventional run, where unseen classes are alone, if there is one."""
    for setting in ("zsl", "gzsl"):
        facts = [r.space_facts for r in results.runs(dataset, method, setting) if r.space_facts]
        if facts:
            inside = [f.embedding for f in facts if f.embedding]
            values = {fact: [getattr(f, fact) for f in facts] for fact in _FACTS}
            values |= {f"own {fact}": [getattr(f, fact) for f in inside] for fact in ("compactness", "separability")}
            return {name: [v for v in of_fact if v is not None] for name, of_fact in values.items()}
    return {}


def _cell(values: Values, fact: str) -> TableCell:
    shown, inside = (
        f"{mean(v):.2f}".replace("-", "−") if v else "–" for v in (values.get(fact), values.get("own " + fact))
    )
    return TableCell(shown, detail=f"own {inside}" if inside != "–" else "")


def _line(values: Values, fact: str) -> dict[str, Any]:
    figures = values[fact]
    deviation = {"deviation": round(stdev(figures), 4)} if len(figures) > 1 else {}
    return {"fact": fact, "mean": round(mean(figures), 4), **deviation, "runs": len(figures)}


def easiest_first(accuracies: dict[str, dict[str, float]]) -> list[str]:
    """Classes by their accuracy, mean over methods."""
    values: dict[str, list[float]] = defaultdict(list)
    for by_class in accuracies.values():
        for name, value in by_class.items():
            values[name].append(value)
    return sorted(values, key=lambda name: (-mean(values[name]), name))


def class_table(results: Results) -> Table | None:
    """The hardest and easiest unseen classes; its CSV has every class of every method."""
    rows: list[Row] = []
    tidy: list[dict[str, Any]] = []
    for dataset in results.datasets:
        of = {metric: results.class_accuracies(dataset, metric) for metric in ("t1", "ts", "tr")}
        for metric, methods in of.items():
            for method, accuracies in methods.items():
                line = {"dataset": dataset, "method": method, "metric": metric}
                tidy += [{**line, "class": name, "accuracy": round(v, 2)} for name, v in accuracies.items()]
        by_method = of["t1"] or of["ts"]
        if not by_method:
            continue
        order = easiest_first(by_method)
        few = order if len(order) <= 10 else [*order[:5], *order[-5:]]
        rows.append(dataset if few == order else f"{dataset}: the 5 easiest, then the 5 hardest of {len(order)}")
        for name in few:
            values = {m: by_method[m][name] for m in by_method if name in by_method[m]}
            highest = max(values.values())
            first, *others = (m for m in values if values[m] == highest)
            cells = [f"{mean(values.values()):.1f}", f"{min(values.values()):.1f}", f"{highest:.1f}"]
            by = results.label(first) + (f" and {len(others)} more" if others else "")
            rows.append([TableCell(name), *map(TableCell, cells), TableCell(by)])
    if not rows:
        return None
    columns = [*words("class"), Column("mean of methods"), Column("lowest"), Column("highest"), *words("by")]
    notes = ["`per_class.csv` has every class, seen ones (tr) included, of every method."]
    return Table("per_class", "The easiest and the hardest unseen classes (%)", columns, rows, notes, tidy)


def confusion_table(results: Results) -> Table | None:
    """The pairs that methods, taken together, confuse most; its CSV has the pairs of each."""
    rows: list[Row] = []
    tidy: list[dict[str, Any]] = []
    for dataset in results.datasets:
        total: dict[tuple[str, str], list[float]] = defaultdict(list)
        methods, others = results.with_and_without_confusions(dataset)
        for method in methods:
            for (truth, predicted), count in results.confused_pairs(dataset, method).items():
                total[truth, predicted].append(count)
                line = {"dataset": dataset, "method": method, "true": truth, "predicted": predicted}
                tidy.append({**line, "rows_per_run": round(count, 2)})
        if not methods:
            continue
        counted = f"{len(methods)} of {len(methods) + len(others)}" if others else f"{len(methods)}"
        rows.append(f"{dataset}, {counted} method{'s' * (len(methods) + len(others) > 1)}")
        for (truth, predicted), counts in sorted(total.items(), key=lambda item: (-sum(item[1]), item[0]))[:5]:
            per_run = f"{sum(counts) / len(methods):.1f}"
            rows.append([*map(TableCell, (truth, predicted, per_run, str(len(counts))))])
    if not rows:
        return None
    columns = [*words("true class", "named as"), Column("rows per run and method"), Column("methods that confuse them")]
    notes = [
        "Conventional setting; counted are methods with confusions in their records. Each record keeps its 200 most "
        "frequent ones; `confusion.csv` has them per method."
    ]
    title = "Unseen classes that are confused most, methods taken together"
    return Table("confusion", title, columns, rows, notes, tidy)

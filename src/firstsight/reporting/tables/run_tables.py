"""What the runs did: which failed, what they warned of, what they cost, with which parameters they ran."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firstsight.records.record_schema import Record
from firstsight.reporting.recorded_results import Results
from firstsight.reporting.tables.table import Cell, Column, Row, Table, spread, words


def failure_table(results: Results) -> Table | None:
    """Every failed cell with its sentence."""
    if not results.failed:
        return None
    columns = [*words("data set", "method", "what happened", "setting"), Column("seed"), *words("variant")]
    rows = [
        [
            *map(Cell, (r.dataset, r.method)),
            Cell(r.error or "no reason was recorded", mark="failed"),
            *map(Cell, (r.setting, str(r.seed), _words(r.variant) or "–")),
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
    rows = [[*map(Cell, key), Cell(", ".join(own))] for key, own in seeds.items()]
    return Table("warnings", f"Warnings of methods: {len(rows)} kinds of warning", columns, rows)


def cost_table(results: Results) -> Table | None:
    """Seconds and memory of every cell, mean over seeds."""
    known = [r for r in results.tables if r.status == "done" and (r.seconds or r.peak_mib)]
    if not known:
        return None
    columns = words("data set", "method", "setting")
    columns += map(Column, ("seeds", "seconds", "of these fit", "CPU seconds of the fit", "peak MiB", "threads"))
    rows: list[Row] = []
    for runs in _cells(known):
        about = runs[0]
        texts = [about.dataset, about.method, about.setting, str(len(runs))]
        texts += [spread([r.seconds for r in runs if r.seconds is not None])]
        texts += [spread([r.fit_seconds for r in runs if r.fit_seconds is not None])]
        texts += [spread([r.cpu_seconds for r in runs if r.cpu_seconds is not None])]
        peaks, threads = ({getattr(r, name) for r in runs} - {None} for name in ("peak_mib", "threads"))
        texts += [f"{max(peaks):,}" if peaks else "–", "–".join(map(str, sorted(threads))) or "–"]
        rows.append([*map(Cell, texts)])
    fits: dict[tuple[str, ...], float] = {}
    for r in results.records:  # an inductive method is fitted once for both settings
        parts = (r.dataset, r.method, str(r.seed), _words(r.variant), r.setting * r.transductive)
        fits[parts] = max(fits.get(parts, 0.0), r.seconds or 0.0)
    versions = sorted({_words(r.versions) for r in results.records if r.versions})
    notes = ["An inductive method is fitted once for both settings."]
    notes += [f"Versions: {version}." for version in versions]
    return Table("costs", f"What the runs cost: {_duration(sum(fits.values()))} in all", columns, rows, notes)


def parameter_table(results: Results) -> Table | None:
    """The parameters of every cell of the tables, and how they were chosen."""
    known = [r for r in results.tables if r.parameters]
    if not known:
        return None
    settings: dict[tuple[str, str, str, str], list[str]] = {}
    for runs in _cells(known):
        about = runs[0]
        name = f"{about.method} ({about.estimator})" if about.estimator else about.method
        distinct = " / ".join(dict.fromkeys(_words(r.parameters) for r in runs))
        chosen = " / ".join(dict.fromkeys(map(_chosen, runs)))
        settings.setdefault((name, chosen, distinct, about.dataset), []).append(about.setting)
    datasets: dict[tuple[str, ...], list[str]] = {}  # what is the same on several data sets stands in one row
    for (method, chosen, distinct, dataset), own in settings.items():
        datasets.setdefault((method, ", ".join(own), chosen, distinct), []).append(dataset)
    rows = [[Cell(", ".join(own)), *map(Cell, alike)] for alike, own in datasets.items()]
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
    about = record.tuned.model_dump(exclude={"set_by_hand"})
    if not about["kept_defaults"]:
        del about["kept_defaults"]
    by_hand = ", ".join(record.tuned.set_by_hand)
    return f"tuned on validation classes ({_words(about)})" + (f"; set by hand: {by_hand}" if by_hand else "")


def _cells(records: list[Record]) -> list[list[Record]]:
    """Records of the same data set, method and setting, which differ by seed alone."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for r in records:
        groups.setdefault((r.dataset, r.method, r.setting), []).append(r)
    return list(groups.values())


def _duration(seconds: float) -> str:
    """In the largest unit of which there is at least one."""
    for size, unit in ((3600, "hours"), (60, "minutes")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} seconds"


def _words(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())

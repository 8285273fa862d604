"""What every run did: which failed, what a fit has touched, time, memory, versions, parameters."""

from __future__ import annotations

from typing import Any

from firstsight.records.storage import Record
from firstsight.report.results import Results
from firstsight.report.table import Cell, Column, Table, spread

_TOUCHED = {
    "labelled_rows": "labelled rows",
    "labelled_classes": "their classes",
    "unlabelled_rows": "unlabelled rows",
    "test_rows_labelled": "test rows with labels",
    "unseen_classes_labelled": "unseen classes with labels",
}


def failure_table(results: Results) -> Table | None:
    """Every failed cell with its sentence."""
    if not results.failed:
        return None
    titles = ("data set", "method", "what happened", "setting", "seed", "variant")
    columns = [Column(title, is_number=title == "seed") for title in titles]
    rows = [
        [
            Cell(r["dataset"]),
            Cell(r["method"]),
            Cell(r["error"] or "no reason was recorded", mark="failed"),
            Cell(r["setting"]),
            Cell(str(r["seed"])),
            Cell(_words(r["variant"]) or "–"),
        ]
        for r in results.failed
    ]
    notes = ["The same `firstsight benchmark` command tries them again and leaves what is finished alone."]
    return Table("failures", "Cells that failed", columns, rows, notes)


def warning_table(results: Results) -> Table | None:
    """What methods warned of while they ran."""
    seeds: dict[tuple[str, str, str, str, str], list[str]] = {}
    for r in results.records:
        for words in r["warnings"]:
            key = (r["dataset"], r["method"], r["setting"], _words(r["variant"]) or "–", str(words))
            seeds.setdefault(key, []).append(str(r["seed"]))
    if not seeds:
        return None
    titles = ("data set", "method", "setting", "variant", "warning", "seeds")
    columns = [Column(title, is_number=False) for title in titles]
    rows = [[*map(Cell, key), Cell(", ".join(own))] for key, own in seeds.items()]
    return Table("warnings", f"What methods warned of: {len(rows)} kinds of warning", columns, rows)


def leaks(record: Record) -> list[str]:
    """What a fit has touched and should not have."""
    touched = record["touched"]
    found = []
    if touched.get("test_rows_labelled"):
        found.append("labels of test rows")
    if touched.get("unseen_classes_labelled"):
        found.append("labels of unseen classes")
    if not record["transductive"] and touched.get("unlabelled_rows"):
        found.append("unlabelled rows, though inductive")
    if not record["transductive"] and touched.get("unseen_descriptions_in_fit"):
        found.append("descriptions of unseen classes, though inductive")
    return found


def audit_table(results: Results) -> Table | None:
    """Which rows and classes each fit has touched; fits that touched the same share a line."""
    watched = [r for r in results.records if r["touched"]]
    if not watched:
        return None
    columns = [Column(t, is_number=False) for t in ("data set", "method", "setting")]
    columns += [Column("records"), *(Column(title) for title in _TOUCHED.values())]
    columns += [Column("unseen descriptions", is_number=False), Column("finding", is_number=False)]
    alike: dict[tuple[str, ...], list[Record]] = {}
    for r in watched:
        alike.setdefault((r["dataset"], r["method"], str(leaks(r)), str(r["touched"])), []).append(r)
    rows: list[list[Cell] | str] = []
    for (dataset, method, *_), runs in alike.items():
        touched, found = runs[0]["touched"], leaks(runs[0])
        settings = ", ".join(dict.fromkeys(r["setting"] for r in runs))
        descriptions = touched.get("unseen_descriptions_in_fit")
        rows.append(
            [
                *map(Cell, (dataset, method, settings, str(len(runs)))),
                *(Cell(_range([touched.get(name)])) for name in _TOUCHED),
                Cell("–" if descriptions is None else "yes" if descriptions else "no"),
                Cell(
                    f"LEAK: {'; '.join(found)}" if found else "clean",
                    detail=touched.get("note") or "",
                    mark="failed" if found else "",
                ),
            ]
        )
    leaking = sum(bool(leaks(r)) for r in watched)
    said = f"{leaking} of them more than they should" if leaking else "none a label that it should not know"
    title = f"Leakage audit: {len(watched)} records say what their fit has touched, {said}"
    notes = [
        "Clean: no label of a test row or of an unseen class has reached the fit, and if the method is inductive, no "
        "unlabelled row and no description of an unseen class either.",
    ]
    return Table("audit", title, columns, rows, notes)


def cost_table(results: Results) -> Table | None:
    """Seconds and memory of every cell, mean over seeds."""
    known = [r for r in results.tables if r["status"] == "done" and (r["seconds"] or r["peak_mib"])]
    if not known:
        return None
    columns = [Column(t, is_number=False) for t in ("data set", "method", "setting")]
    columns += map(Column, ("seeds", "seconds", "of these fit", "CPU seconds of the fit", "peak MiB", "threads"))
    rows: list[list[Cell] | str] = []
    for runs in _cells(known):
        about = runs[0]
        rows.append(
            [
                *(Cell(about[name]) for name in ("dataset", "method", "setting")),
                Cell(str(len(runs))),
                Cell(spread([r["seconds"] for r in runs if r["seconds"] is not None])),
                Cell(spread([r["fit_seconds"] for r in runs if r["fit_seconds"] is not None])),
                Cell(spread([r["cpu_seconds"] for r in runs if r["cpu_seconds"] is not None])),
                Cell(_range([r["peak_mib"] for r in runs], last=True)),
                Cell(_range([r["threads"] for r in runs])),
            ]
        )
    fits: dict[tuple[str, ...], float] = {}
    for r in results.records:  # an inductive method is fitted once for both settings
        parts = (r["dataset"], r["method"], str(r["seed"]), _words(r["variant"]), r["setting"] * r["transductive"])
        fits[parts] = max(fits.get(parts, 0.0), r["seconds"] or 0.0)
    versions = sorted({_words(r["versions"]) for r in results.records if r["versions"]})
    notes = ["An inductive method is fitted once for both settings."]
    notes += [f"Versions: {version}." for version in versions]
    return Table("costs", f"What the runs cost: {_duration(sum(fits.values()))} in all", columns, rows, notes)


def parameter_table(results: Results) -> Table | None:
    """The parameters of every cell of the tables, and how they were chosen."""
    known = [r for r in results.tables if r["parameters"]]
    if not known:
        return None
    columns = [Column(t, is_number=False) for t in ("data sets", "method", "setting", "chosen", "parameters")]
    settings: dict[tuple[str, str, str, str], list[str]] = {}
    for runs in _cells(known):
        about = runs[0]
        distinct = " / ".join(dict.fromkeys(_words(r["parameters"]) for r in runs))
        chosen = " / ".join(dict.fromkeys(map(_chosen, runs)))
        settings.setdefault((about["method"], chosen, distinct, about["dataset"]), []).append(about["setting"])
    datasets: dict[tuple[str, ...], list[str]] = {}  # what is the same on several data sets stands in one row
    for (method, chosen, distinct, dataset), own in settings.items():
        datasets.setdefault((method, ", ".join(own), chosen, distinct), []).append(dataset)
    rows = [[Cell(", ".join(own)), *map(Cell, alike)] for alike, own in datasets.items()]
    notes = [
        "Tuned: on validation classes of the training set. Set by hand: the user gave the values of those named; the "
        "others are the method's own, or its preset's."
    ]
    return Table("parameters", "Parameters", columns, rows, notes)


def _chosen(record: Record) -> str:
    """Where a record's parameters come from."""
    tuned, given = record["tuned"], ", ".join(record["given"])
    if not tuned:
        return f"set by hand: {given}" if given else "own defaults"
    about = dict(tuned) if isinstance(tuned, dict) else {}
    by_hand = ", ".join(map(str, about.pop("set_by_hand", [])))
    said = "tuned on validation classes" + (f" ({_words(about)})" if about else "")
    return said + (f"; set by hand: {by_hand}" if by_hand else "")


def _cells(records: list[Record]) -> list[list[Record]]:
    """Records of the same data set, method, setting and variant, which differ by seed alone."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for r in records:
        groups.setdefault((r["dataset"], r["method"], r["setting"], _words(r["variant"])), []).append(r)
    return list(groups.values())


def _duration(seconds: float) -> str:
    """In the largest unit of which there is at least one."""
    for size, unit in ((3600, "hours"), (60, "minutes")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} seconds"


def _words(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _range(values: list[Any], last: bool = False) -> str:
    known = sorted({v for v in values if isinstance(v, int | float)})
    if not known:
        return "–"
    if last or len(known) == 1:
        return f"{known[-1]:,.0f}"
    return f"{known[0]:,.0f}–{known[-1]:,.0f}"

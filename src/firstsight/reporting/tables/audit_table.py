"""The leakage audit: which rows and classes each fit has touched, and whether it should have."""

from __future__ import annotations

from firstsight.records.record_schema import Record, Touched
from firstsight.reporting.recorded_results import Results
from firstsight.reporting.tables.table import Cell, Column, Row, Table, words

_TOUCHED = {
    "labelled_rows": "labelled rows",
    "labelled_classes": "their classes",
    "unlabelled_rows": "unlabelled rows",
    "test_rows_labelled": "test rows with labels",
    "unseen_classes_labelled": "unseen classes with labels",
}


def leaks(touched: Touched, transductive: bool) -> list[str]:
    """What a fit has touched and should not have."""
    leaked = []
    if touched.test_rows_labelled:
        leaked.append("labels of test rows")
    if touched.unseen_classes_labelled:
        leaked.append("labels of unseen classes")
    if not transductive and touched.unlabelled_rows:
        leaked.append("unlabelled rows, though inductive")
    if not transductive and touched.unseen_descriptions_in_fit:
        leaked.append("descriptions of unseen classes, though inductive")
    return leaked


def audit_table(results: Results) -> Table | None:
    """Which rows and classes each fit has touched; fits that touched the same share a line."""
    alike: dict[tuple[str, str, tuple[str, ...], Touched], list[Record]] = {}
    for r in results.records:
        if r.touched:
            leaked = tuple(leaks(r.touched, r.transductive))
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
                *map(Cell, (dataset, method, settings, str(len(runs)))),
                *(Cell(f"{counts[name]:,}") for name in _TOUCHED),
                Cell("yes" if touched.unseen_descriptions_in_fit else "no"),
                Cell(finding, detail=touched.note, mark="failed" if leaked else ""),
            ]
        )
    leaking = sum(len(runs) for (_, _, leaked, _), runs in alike.items() if leaked)
    said = f"{leaking} of them more than they should" if leaking else "none a label that it should not know"
    watched = sum(map(len, alike.values()))
    notes = [
        "Clean: no label of a test row or of an unseen class has reached the fit, and if the method is inductive, no "
        "unlabelled row and no description of an unseen class either.",
    ]
    title = f"Leakage audit: {watched} records say what their fit has touched, {said}"
    return Table("audit", title, columns, rows, notes)
